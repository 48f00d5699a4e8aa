//! Passwords and tokens in URLs: `https://user:PASSWORD@host/`, `https://host/?access_token=TOKEN`.

use std::ops::Range;

use memchr::memmem;
use raymond_core::variable::looks_secret;

use super::HIDDEN;

/// Names in a query that hold secrets, besides those by which a variable does.
const SECRET_NAMES: [&str; 6] = ["auth", "pass", "pwd", "sig", "signature", "x-amz-signature"];

/// How long a user's name without a password is if it may be a token, as in `https://TOKEN@github.com/`.
const SHORTEST_TOKEN_BYTES: usize = 20;

/// What ends a URL in a text, besides white space and control characters.
const ENDS: &str = "\"'`<>\\{}|^";

/// What is between the scheme and the rest: as it is, and as encoders of JSON write it.
const BEGINNINGS: [&str; 4] = ["://", ":\\/\\/", ":\\u002f\\u002f", ":\\u002F\\u002F"];

/// The text with what is secret in its URLs replaced.
pub fn hide(mut text: String) -> String {
    let mut places = places(&text);
    places.retain(|place| text.get(place.clone()) != Some(HIDDEN));
    for place in places.into_iter().rev() {
        text.replace_range(place, HIDDEN);
    }
    text
}

/// What is secret in the URLs of a text.
pub fn secrets_in(text: &str) -> impl Iterator<Item = &str> {
    places(text).into_iter().filter_map(|place| text.get(place))
}

/// A value of a URL as it stands there, and without the escapes of URLs.
pub fn as_written_and_meant(value: &str) -> [String; 2] {
    let mut meant = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        meant.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { more.get(2..).unwrap_or_default() } else { more };
    }
    [value.to_owned(), String::from_utf8(meant).unwrap_or_else(|_| value.to_owned())]
}

/// Whether there may be a URL in bytes that may be no text.
pub fn may_be_in(bytes: &[u8]) -> bool {
    BEGINNINGS.iter().any(|beginning| memmem::find(bytes, beginning.as_bytes()).is_some())
}

/// Where something secret stands, in bytes and in order.
fn places(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    for beginning in BEGINNINGS {
        for found in memmem::find_iter(text.as_bytes(), beginning) {
            let start = found + beginning.len();
            let end = start + length(&text[start..], beginning != BEGINNINGS[0]);
            let scheme =
                text[..found].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            places.extend(in_url(text, start..end, scheme));
        }
    }
    // A URL within the query of another is found twice.
    places.sort_by_key(|place| (place.start, place.end));
    places.dedup_by(|later, earlier| later.start < earlier.end);
    places
}

/// How long the URL is that a text begins with. If it is written with escapes, so is each further `/`.
fn length(text: &str, has_escapes: bool) -> usize {
    let is_slash =
        |rest: &str| rest.starts_with("\\/") || rest.starts_with("\\u002f") || rest.starts_with("\\u002F");
    let is_end = |(at, c): &(usize, char)| {
        let is_meant = c.is_whitespace() || c.is_control() || ENDS.contains(*c);
        is_meant && !(has_escapes && is_slash(&text[*at..]))
    };
    text.char_indices().find(is_end).map_or(text.len(), |(at, _)| at)
}

/// Whether a user's name is rather a token, where a password stands beside it: `https://TOKEN:x-oauth-basic@host/`.
fn is_token(user: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~');
    user.len() >= SHORTEST_TOKEN_BYTES
        && user.bytes().all(is_part)
        && user.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a part of a query holds a secret, by its name. What is searched for is none.
fn is_secret(name: &str) -> bool {
    let is_known = SECRET_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    is_known || looks_secret(name) && !name.to_ascii_lowercase().starts_with("keyword")
}

/// The places in one URL, of which the part behind `://` is given.
fn in_url(text: &str, url: Range<usize>, scheme: &str) -> Vec<Range<usize>> {
    let rest = &text[url.clone()];
    let authority = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let is_web = scheme.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http"));
    let mut places = Vec::new();
    if let Some(at) = rest[..authority].rfind('@') {
        let user = &rest[..at];
        let (name, password) = user.split_once(':').map_or((user, None), |(name, word)| (name, Some(word)));
        let is_name_secret = match password {
            None => at >= SHORTEST_TOKEN_BYTES,
            Some(_) => is_token(name),
        };
        if is_web && is_name_secret {
            places.push(url.start..url.start + name.len());
        }
        if let Some(password) = password.filter(|password| !password.is_empty()) {
            places.push(url.start + at - password.len()..url.start + at);
        }
    }
    let Some(question) = rest.find(['?', '#']) else { return places };
    let mut start = question + 1;
    for pair in rest[start..].split(['&', ';', '#', '?']) {
        if let Some((name, value)) = pair.split_once('=')
            && !value.is_empty()
            && is_secret(name)
        {
            let begin = url.start + start + name.len() + 1;
            places.push(begin..begin + value.len());
        }
        start += pair.len() + 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_are_replaced_and_the_rest_stays() {
        let cases = [
            ("https://user:pa55@host/path", "https://user:***@host/path"),
            ("(postgres://u:p%40@db:5432/x?sslmode=off)", "(postgres://u:***@db:5432/x?sslmode=off)"),
            ("a https://x:y@h b redis://:secret@h c", "a https://x:***@h b redis://:***@h c"),
            ("https://h/?token=abc&page=2", "https://h/?token=***&page=2"),
            ("https://h/a?page=2&access_token=a.b#top", "https://h/a?page=2&access_token=***#top"),
            ("https://h/#api_key=abc\"", "https://h/#api_key=***\""),
            (
                "https://h/?X-Amz-Signature=1&Sig=2&keyword=3",
                "https://h/?X-Amz-Signature=***&Sig=***&keyword=3",
            ),
            ("https://u:a@b@host/", "https://u:***@host/"),
            ("https://ghp_0123456789abcdefghij@github.com/x", "https://***@github.com/x"),
            ("https://h/?url=https://u:pw@x/?token=1", "https://h/?url=https://u:***@x/?token=***"),
            ("ssh://git@github.com/x.git", "ssh://git@github.com/x.git"),
            ("https://me@host/", "https://me@host/"),
            ("https://host:8080/a:b@c", "https://host:8080/a:b@c"),
            ("https://user:@host/", "https://user:@host/"),
            ("git@github.com:x/y", "git@github.com:x/y"),
            ("no url: a?token=b", "no url: a?token=b"),
            ("größe://ü:ä@ö/?Token=ß x", "größe://ü:***@ö/?Token=*** x"),
            ("://", "://"),
            (r#"{"u":"https:\/\/me:PASSWORD@h\/"}"#, r#"{"u":"https:\/\/me:***@h\/"}"#),
            (r"https:\/\/h\/a?token=b\/c\n", r"https:\/\/h\/a?token=***\n"),
            (r"https:\u002f\u002Fh", r"https:\u002f\u002Fh"),
            (r"https:\u002f\u002fme:pw@h\u002fa?key=b", r"https:\u002f\u002fme:***@h\u002fa?key=***"),
            ("HTTPS://ghp_0123456789abcdefghij@github.com/x", "HTTPS://***@github.com/x"),
            ("https://ghp_0123456789abcdefghij:@github.com/x", "https://***:@github.com/x"),
            ("https://ghp_0123456789abcdefghij:x-oauth-basic@github.com/x", "https://***:***@github.com/x"),
            (r"https:\/\/ghp_0123456789abcdefghij@github.com\/", r"https:\/\/***@github.com\/"),
        ];
        for (text, expected) in cases {
            assert_eq!(hide(text.to_owned()), expected);
            assert_eq!(hide(expected.to_owned()), expected, "twice is once");
        }
    }

    #[test]
    fn what_is_secret_is_told() {
        let found: Vec<&str> = secrets_in("x https://a:b@c/?key=d&e=f").collect();
        assert_eq!(found, ["b", "d"]);
        assert_eq!(as_written_and_meant("p%40%zz%4"), ["p%40%zz%4", "p@%zz%4"]);
        assert_eq!(as_written_and_meant("%ff"), ["%ff", "%ff"], "no text");
    }
}
