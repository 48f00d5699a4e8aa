//! Which variables of an environment hold secrets, and texts and JSON without them. Whatever is masked is masked here.
//!
//! In JSON the strings are masked before they are written down, so that neither a secret that is written with escapes
//! stays, nor one that looks like a number or a name breaks what is around it. A text may hold JSON, a URL or HTML, so a
//! secret is also looked for as it is written there ([`forms`]). What stands in a URL in place of a password counts as a
//! secret, whatever the variable is called ([`urls`]).

mod forms;
pub mod urls;

use std::ffi::OsStr;

use memchr::memmem;
use raymond_core::variable::looks_secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use forms::{Form, Signs};

/// What is shown instead.
pub const HIDDEN: &str = "***";

/// Shorter values are not masked: they would be found in the middle of words, as `KEYBOARD=us` would be.
const SHORTEST_SECRET_BYTES: usize = 6;

pub use raymond_core::variable::looks_secret as is_secret;

/// Fields whose values are words of a protocol, Raymond's own or an agent program's. A secret that happens to be such a
/// word is not given away by it, and without the word nothing could be read any more.
const WORDS_OF_PROTOCOLS: [&str; 9] =
    ["event", "kind", "role", "status", "subtype", "tag", "type", "containment", "form"];

/// The values that no record may show.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Secrets {
    values: Vec<String>,
    /// All the forms of all values, the longest first, because one may be a part of another.
    forms: Vec<Form>,
}

impl From<Vec<String>> for Secrets {
    fn from(values: Vec<String>) -> Self {
        let forms = values.iter().flat_map(|value| forms::of(value)).collect();
        Self::longest_first(values, forms)
    }
}

impl From<Secrets> for Vec<String> {
    fn from(secrets: Secrets) -> Self {
        secrets.values
    }
}

/// Whose JSON is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Raymond's: its numbers and the names of its fields are never secrets.
    Own,
    /// What another program has written.
    Others,
}

impl Secrets {
    /// Those of an environment.
    pub fn of<N: AsRef<OsStr>, V: AsRef<OsStr>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut values = Vec::new();
        for (name, value) in variables {
            let Some(value) = value.as_ref().to_str() else { continue };
            match looks_secret(&name.as_ref().to_string_lossy()) {
                // Programs often leave out the line break at the end of a secret that was read from a file.
                true => values.extend([value, value.trim()].map(str::to_owned)),
                false => values.extend(urls::secrets_in(value).flat_map(urls::as_written_and_meant)),
            }
        }
        values.retain(|value| value.trim().len() >= SHORTEST_SECRET_BYTES);
        Self::from(values)
    }

    /// These and others.
    pub fn joined(&self, others: &Self) -> Self {
        let values = self.values.iter().chain(&others.values).cloned().collect();
        let forms = self.forms.iter().chain(&others.forms).cloned().collect();
        Self::longest_first(values, forms)
    }

    fn longest_first(mut values: Vec<String>, mut forms: Vec<Form>) -> Self {
        let order = |a: &str, b: &str| b.len().cmp(&a.len()).then_with(|| a.cmp(b));
        values.sort_by(|a, b| order(a, b));
        values.dedup();
        forms.sort_by(|a, b| order(&a.written, &b.written));
        forms.dedup();
        Self { values, forms }
    }

    /// The forms of secrets that are in the bytes, the longest first.
    fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        let signs = Signs::of(bytes);
        let is_in =
            |form: &&Form| signs.allow(form) && memmem::find(bytes, form.written.as_bytes()).is_some();
        self.forms.iter().filter(is_in).map(|form| form.written.as_str()).collect()
    }

    /// The text with every secret replaced.
    pub fn hide(&self, mut text: String) -> String {
        for form in self.found_in(text.as_bytes()) {
            text = text.replace(form, HIDDEN);
        }
        urls::hide(text)
    }

    /// The lines with every secret replaced, each of which may be JSON of another program.
    pub fn hide_in_lines(&self, text: String) -> String {
        if !self.may_be_in(&text) {
            return text;
        }
        let masked = text.split_inclusive('\n').map(|line| match self.may_be_in(line) {
            true => self.hide_in_document(line),
            false => line.to_owned(),
        });
        masked.collect()
    }

    /// The JSON with every secret replaced; if it is none, the text.
    pub fn hide_in_document(&self, text: &str) -> String {
        let Ok(read) = serde_json::from_str::<Value>(text) else { return self.hide(text.to_owned()) };
        let mut value = read.clone();
        self.hide_in(&mut value, Whose::Others);
        if value == read {
            return text.to_owned();
        }
        let is_pretty = text.trim_end().contains('\n');
        let written =
            if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let end = &text[text.trim_end().len()..];
        written.unwrap_or_default() + end
    }

    /// Where at the end of the bytes the beginning of a secret stands that may go on; the end if there is none.
    pub fn begins_at(&self, bytes: &[u8]) -> usize {
        self.forms.iter().map(|form| form.begins_at(bytes)).min().unwrap_or(bytes.len())
    }

    /// Whether there may be something to mask in bytes that may be no text.
    pub fn may_be_in_bytes(&self, bytes: &[u8]) -> bool {
        urls::may_be_in(bytes) || !self.found_in(bytes).is_empty()
    }

    /// Whether a text has to be looked at more closely: with escapes, a secret may be written in many ways.
    fn may_be_in(&self, text: &str) -> bool {
        text.contains('\\') || self.may_be_in_bytes(text.as_bytes())
    }

    /// Replaces every secret in the strings of a JSON value.
    pub fn hide_in(&self, value: &mut Value, whose: Whose) {
        match value {
            Value::String(text) => *text = self.hide(std::mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item, whose)),
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    if !is_word_of_protocol(name, field) {
                        self.hide_in(field, whose);
                    }
                }
                if whose == Whose::Others {
                    self.hide_names(fields);
                }
            }
            Value::Number(number) if whose == Whose::Others => {
                let written = number.to_string();
                if self.values.contains(&written) {
                    *value = HIDDEN.into();
                }
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    /// A name that is only a word may be one of a protocol, so it stays.
    fn hide_names(&self, fields: &mut serde_json::Map<String, Value>) {
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        let names: Vec<String> = fields.keys().filter(|name| !is_word(name)).cloned().collect();
        for name in names {
            let shown = self.hide(name.clone());
            if shown != name
                && let Some(value) = fields.remove(&name)
            {
                fields.insert(shown, value);
            }
        }
    }
}

fn is_word_of_protocol(name: &str, value: &Value) -> bool {
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    WORDS_OF_PROTOCOLS.contains(&name) && value.as_str().is_some_and(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in
            ["GITHUB_TOKEN", "my_api_key", "ClientSecret", "DB_PASSWORD", "DB_PASSWD", "AWS_CREDENTIALS"]
        {
            assert!(is_secret(name), "{name}");
        }
        for name in ["HOME", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "SSH_AUTH_SOCK", "AUTHORITY"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let secrets = Secrets::of([
            ("MY_TOKEN", "abcdef"),
            ("MY_KEY", "abcdef-and-more"),
            ("KEYBOARD", "us"),
            ("HOME", "/home/me"),
            ("NO_PASSWORD", ""),
            ("BLANK_SECRET", "       "),
        ]);
        let hidden = |text: &str| secrets.hide(text.to_owned());
        assert_eq!(hidden("the key is abcdef-and-more, \"abcdef\""), "the key is ***, \"***\"");
        assert_eq!(
            hidden("us, just us at /home/me       with nothing"),
            "us, just us at /home/me       with nothing"
        );
        assert_eq!(hidden(""), "");
        let more = secrets.joined(&Secrets::of([("STEP_SECRET", "so abcdef-and-more")]));
        assert_eq!(more.hide("so abcdef-and-more, abcdef".to_owned()), "***, ***");
    }

    /// Whatever a secret looks like, the JSON around it stays JSON, and it is gone.
    #[test]
    fn a_secret_of_any_form_is_found_in_json() {
        let forms = [
            "a\"quote",
            "back\\slash",
            "a\ttab x",
            "first \"line\"\nsecond",
            "12345678",
            "message",
            "größe-ü",
            "\\\"\\\\\"\\",
        ];
        for secret in forms {
            let secrets = Secrets::of([("MY_SECRET", secret)]);
            let said = serde_json::json!({
                "type": "message", "message": { "text": format!("it is {secret}."), "inner": format!("{{\"a\":{}}}", serde_json::json!(secret)) },
                "cost": 12_345_678, "list": [secret, 1.5, null],
            });
            let plain = said.to_string() + "\n";
            // As a program writes it that escapes more than it must.
            let escaped: String = plain
                .chars()
                .map(|c| match u32::from(c) {
                    code @ 0x80..=0xffff => format!("\\u{code:04x}"),
                    _ => c.to_string(),
                })
                .collect();
            for line in [plain, escaped] {
                let shown = secrets.hide_in_lines(format!("{{}}\n{line}"));
                let shown = shown.strip_prefix("{}\n").unwrap();
                let value: Value = serde_json::from_str(shown).unwrap();
                assert_eq!(value["message"]["text"], "it is ***.", "{secret:?}: {shown}");
                assert_eq!(value["message"]["inner"], "{\"a\":\"***\"}", "{secret:?}");
                assert_eq!(value["list"][0], HIDDEN);
                assert_eq!(value["type"], "message");
                assert_eq!(value["cost"] == HIDDEN, secret == "12345678", "{shown}");
            }
        }
    }

    #[test]
    fn numbers_and_names_of_raymonds_own_stay() {
        let secrets = Secrets::of([("A_KEY", "12345678"), ("B_KEY", "completed"), ("C_KEY", "prompt")]);
        let mut value = serde_json::json!({ "seq": 12345678, "status": "completed", "prompt": "it is 12345678, completed" });
        secrets.hide_in(&mut value, Whose::Own);
        let expected =
            serde_json::json!({ "seq": 12345678, "status": "completed", "prompt": "it is ***, ***" });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_name_in_another_programs_json_is_masked_unless_it_is_a_word() {
        let secrets = Secrets::of([("A_TOKEN", "ghp_1234"), ("B_TOKEN", "content")]);
        let shown = secrets.hide_in_lines("{\"ghp_1234\":1,\"content\":\"ghp_1234\"}\n".to_owned());
        assert_eq!(shown, "{\"***\":1,\"content\":\"***\"}\n");
    }

    #[test]
    fn lines_that_are_no_json_are_masked_as_text() {
        let secrets = Secrets::of([("A_TOKEN", "a\"b\\c-d\n")]);
        let cut = "{\"said\":\"it is a\\\"b\\\\c-d\\n, and";
        assert_eq!(secrets.hide_in_lines(cut.to_owned()), "{\"said\":\"it is ***, and");
        assert_eq!(secrets.hide_in_lines("a\"b\\c-d, \u{1b}[0m\n".to_owned()), "***, \u{1b}[0m\n");
        let plain = "{ \"b\": 1,  \"a\": 2 }\nplain\n";
        assert_eq!(secrets.hide_in_lines(plain.to_owned()), plain, "nothing else changes");
    }

    #[test]
    fn a_password_in_a_url_is_a_secret_whatever_the_variable_is_called() {
        let secrets = Secrets::of([("DATABASE_URL", "postgres://me:p4ssw0rd@db/x"), ("HOME", "/home/me")]);
        assert_eq!(secrets.hide("it is p4ssw0rd".to_owned()), "it is ***");
        assert_eq!(secrets.hide("postgres://me:p4ssw0rd@db/x".to_owned()), "postgres://me:***@db/x");
    }
    #[test]
    fn a_secret_is_found_as_other_encoders_write_it() {
        let secret = "p\u{fc}\u{1f600}/<a>&'b\" c+=";
        let secrets = Secrets::of([("MY_SECRET", secret)]);
        let texts = [
            // Python, PHP, Go, .NET and something that escapes a slash by its number.
            r#"{"a":"p\u00fc\ud83d\ude00/<a>&'b\" c+="#,
            r#"{"a":"p\u00fc\ud83d\ude00\/<a>&'b\" c+="#,
            r#"{"a":"pü😀/\u003ca\u003e\u0026'b\" c+="#,
            r#"{"a":"pü😀/\u003ca\u003e\u0026\u0027b\" c+\u003d"#,
            r#"{"a":"p\u00FC\uD83D\uDE00/\u003Ca\u003E\u0026\u0027b\u0022 c\u002B="#,
            r#"{"a":"pü😀\u002f<a>&'b\" c+="#,
            // JSON in a string of JSON.
            r#"{"a":"{\"b\":\"p\\u00fc\\ud83d\\ude00/<a>&'b\\\" c+="#,
            "p%C3%BC%F0%9F%98%80%2F%3Ca%3E%26%27b%22%20c%2B%3D",
            "p%C3%BC%F0%9F%98%80%2F%3Ca%3E%26'b%22%20c%2B%3D",
            "p%c3%bc%f0%9f%98%80%2f%3ca%3e%26%27b%22+c%2b%3d",
            "p%C3%BC%F0%9F%98%80/%3Ca%3E&'b%22%20c+=",
            "pü😀/&lt;a&gt;&amp;&#39;b&quot; c+=",
            "pü😀/&lt;a&gt;&amp;'b\" c+=",
            "pü😀/&lt;a&gt;&amp;&#x27;b&#34; c+=",
        ];
        for text in texts {
            let shown = secrets.hide(text.to_owned());
            assert!(shown.ends_with(HIDDEN), "{text}: {shown}");
            assert!(secrets.may_be_in_bytes(text.as_bytes()), "{text}");
            let lines = secrets.hide_in_lines(format!("{text}\n"));
            assert!(lines.contains(HIDDEN), "{text}: {lines}");
            // As a string of another program's JSON, too.
            let document = serde_json::json!({ "said": text }).to_string();
            let shown: Value = serde_json::from_str(&secrets.hide_in_document(&document)).unwrap();
            assert!(shown["said"].as_str().unwrap().ends_with(HIDDEN), "{text}: {shown}");
        }
    }

    #[test]
    fn secrets_stay_the_same_where_they_are_handed_on() {
        let secrets = Secrets::of([("MY_SECRET", "a/b c&d")]);
        let written = serde_json::to_string(&secrets).unwrap();
        assert_eq!(written, r#"["a/b c&d"]"#);
        let read: Secrets = serde_json::from_str(&written).unwrap();
        assert_eq!(read.hide("a%2Fb%20c%26d".to_owned()), HIDDEN);
        let joined = Secrets::default().joined(&read).joined(&read);
        assert_eq!(joined.forms.len(), secrets.forms.len());
    }
}
