//! How other programs write a text: inside a string of JSON, in a URL, in HTML. Each encoder leaves other characters as
//! they are, so there is one form for each way that encoders in use have.

use std::fmt::Write;

use memchr::memchr;
use serde_json::json;

/// The most forms of one text. A test holds that a text has no more.
const MOST_FORMS: usize = 192;

/// Characters that a form has and a text without escapes mostly has not, so that such a text is searched for few forms.
const SIGNS: &[u8] = b"\\%&";

/// What encoders of JSON write as `\uXXXX` besides what they must: those of most languages, Go, PHP, Gson, .NET.
const JSON_MARKS: [&str; 5] =
    ["", "<>&\u{2028}\u{2029}", "<>&'", "<>&='\u{2028}\u{2029}", "<>&'\"+`\u{7f}\u{2028}\u{2029}"];

/// How encoders of JSON write a `/`; without a text, by its number.
const JSON_SLASHES: [Option<&str>; 3] = [Some("/"), Some("\\/"), None];

/// What encoders of URLs leave as it is, besides letters and digits: RFC 3986, paths, `encodeURIComponent`, `encodeURI`,
/// user and password, and two for forms.
const URL_KEEPS: [&str; 7] =
    ["-_.~", "-_.~/", "-_.~!'()*", "-_.~!'()*;,/?:@&=+$#", "-_.~!'()*$&+,;=", "-_.*", "-_."];

const HTML_QUOTES: [&str; 4] = ["\"", "&quot;", "&#34;", "&#x22;"];
const HTML_APOSTROPHES: [&str; 5] = ["'", "&#39;", "&#039;", "&#x27;", "&apos;"];
const HTML_ENDS: [&str; 2] = ["&gt;", ">"];

/// One way in which a text may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) written: String,
    /// The first of [`SIGNS`] that it has.
    sign: Option<u8>,
}

/// Which of [`SIGNS`] are in some bytes.
pub(super) struct Signs([bool; SIGNS.len()]);

impl Signs {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut found = [false; SIGNS.len()];
        for (found, sign) in found.iter_mut().zip(SIGNS) {
            *found = memchr(*sign, bytes).is_some();
        }
        Self(found)
    }

    /// Whether the form can be in these bytes.
    pub(super) fn allow(&self, form: &Form) -> bool {
        form.sign.is_none_or(|sign| SIGNS.iter().zip(self.0).any(|(known, found)| *known == sign && found))
    }
}

impl Form {
    fn new(written: String) -> Self {
        let sign = written.bytes().find(|byte| SIGNS.contains(byte));
        Self { written, sign }
    }

    /// Where at the end of the bytes the beginning of this form stands that may go on; the end if there is none.
    pub(super) fn begins_at(&self, bytes: &[u8]) -> usize {
        let form = self.written.as_bytes();
        let Some(first) = form.first() else { return bytes.len() };
        let from = bytes.len().saturating_sub(form.len() - 1);
        let end = bytes.get(from..).unwrap_or_default();
        let mut starts = memchr::memchr_iter(*first, end);
        let begun = starts.find(|at| form.starts_with(end.get(*at..).unwrap_or_default()));
        begun.map_or(bytes.len(), |at| from + at)
    }
}

/// The forms of a text, first itself.
pub(super) fn of(text: &str) -> Vec<Form> {
    let mut forms = vec![text.to_owned()];
    let mut add = |form: String| {
        if forms.len() < MOST_FORMS && !forms.contains(&form) {
            forms.push(form);
        }
    };
    for written in all_in_json(text) {
        // A line of JSON that is cut off, or in a text, may hold JSON in its strings.
        let nested = in_json(&written, &Json::PLAIN);
        add(written);
        add(nested);
    }
    URL_KEEPS.iter().flat_map(|keeps| in_url(text, keeps)).for_each(&mut add);
    all_in_html(text).for_each(&mut add);
    forms.into_iter().map(Form::new).collect()
}

/// How an encoder of JSON writes what it may leave as it is.
struct Json {
    slash: Option<&'static str>,
    marks: &'static str,
    is_ascii: bool,
    has_capitals: bool,
}

impl Json {
    const PLAIN: Self = Self { slash: Some("/"), marks: "", is_ascii: false, has_capitals: false };

    fn is_by_number(&self, character: char) -> bool {
        character == '/' || self.marks.contains(character) || self.is_ascii && !character.is_ascii()
    }
}

fn all_in_json(text: &str) -> impl Iterator<Item = String> {
    let mut forms = Vec::new();
    for slash in JSON_SLASHES {
        for marks in JSON_MARKS {
            for (is_ascii, has_capitals) in [(false, false), (false, true), (true, false), (true, true)] {
                forms.push(in_json(text, &Json { slash, marks, is_ascii, has_capitals }));
            }
        }
    }
    forms.into_iter()
}

fn in_json(text: &str, how: &Json) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '/' if how.slash.is_some() => written.push_str(how.slash.unwrap_or_default()),
            _ if how.is_by_number(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string never fails.
                    let _ = match how.has_capitals {
                        true => write!(written, "\\u{unit:04X}"),
                        false => write!(written, "\\u{unit:04x}"),
                    };
                }
            }
            '"' | '\\' | '\0'..='\x1f' => {
                let quoted = json!(character.to_string()).to_string();
                written.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
            }
            _ => written.push(character),
        }
    }
    written
}

fn in_url(text: &str, keeps: &str) -> impl Iterator<Item = String> {
    let written = |blank: &str, has_capitals: bool| {
        let mut written = String::with_capacity(text.len());
        for byte in text.bytes() {
            let _ = match byte {
                b' ' => write!(written, "{blank}"),
                _ if byte.is_ascii_alphanumeric() || keeps.as_bytes().contains(&byte) => {
                    write!(written, "{}", char::from(byte))
                }
                _ if has_capitals => write!(written, "%{byte:02X}"),
                _ => write!(written, "%{byte:02x}"),
            };
        }
        written
    };
    [written("%20", true), written("%20", false), written("+", true), written("+", false)].into_iter()
}

fn all_in_html(text: &str) -> impl Iterator<Item = String> {
    let safe = text.replace('&', "&amp;").replace('<', "&lt;");
    let mut forms = Vec::new();
    for quote in HTML_QUOTES {
        for apostrophe in HTML_APOSTROPHES {
            for end in HTML_ENDS {
                forms.push(safe.replace('>', end).replace('"', quote).replace('\'', apostrophe));
            }
        }
    }
    // As Mustache and its like do it.
    let all = safe.replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;");
    forms.push(all.replace('=', "&#x3D;").replace('/', "&#x2F;").replace('`', "&#x60;"));
    forms.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<String> {
        of(text).into_iter().map(|form| form.written).collect()
    }

    #[test]
    fn a_text_has_a_bounded_number_of_forms_and_mostly_one() {
        assert_eq!(written("ghp_abcDEF-0123.4~5").len(), 3, "some encoders escape a tilde");
        assert_eq!(written("ghp_abcDEF0123"), ["ghp_abcDEF0123"]);
        let all: String =
            (1..=0xff).filter_map(char::from_u32).chain("\u{2028}\u{1f600}ü/ü".chars()).collect();
        let most = of(&all).len();
        assert!(most < MOST_FORMS, "{most} forms: none is left out");
    }

    #[test]
    fn the_beginning_of_a_form_is_found() {
        let form = Form::new("abab%20c".to_owned());
        for (bytes, at) in
            [("x", 1), ("xab", 1), ("ababab", 2), ("abab%2", 0), ("abab%20c", 8), ("", 0), ("aa", 1)]
        {
            assert_eq!(form.begins_at(bytes.as_bytes()), at, "{bytes}");
        }
    }
}
