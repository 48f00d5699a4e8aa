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

/// Where something secret stands, in bytes and in order.
fn places(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| memmem::find(rest.as_bytes(), b"://")) {
        let start = from + found + "://".len();
        let rest = &text[start..];
        let is_end = |c: char| c.is_whitespace() || c.is_control() || ENDS.contains(c);
        let end = start + rest.find(is_end).unwrap_or(rest.len());
        let scheme =
            text[..from + found].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        places.extend(in_url(text, start..end, scheme));
        from = start;
    }
    // A URL within the query of another is found twice.
    places.sort_by_key(|place| (place.start, place.end));
    places.dedup_by(|later, earlier| later.start < earlier.end);
    places
}

/// Whether a part of a query holds a secret, by its name. What is searched for is none.
fn is_secret(name: &str) -> bool {
    let is_known = SECRET_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    is_known || looks_secret(name) && !name.to_ascii_lowercase().starts_with("keyword")
}

/// The places in one URL, of which the part behind `://` is given.
fn in_url(text: &str, url: Range<usize>, scheme: &str) -> Vec<Range<usize>> {
    let rest = &text[url.clone()];
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let mut places = Vec::new();
    if let Some(at) = rest[..authority].rfind('@') {
        let user = &rest[..at];
        match user.find(':') {
            Some(colon) if colon + 1 < at => places.push(url.start + colon + 1..url.start + at),
            None if scheme.starts_with("http") && at >= SHORTEST_TOKEN_BYTES => {
                places.push(url.start..url.start + at);
            }
            Some(_) | None => {}
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
    }
}
