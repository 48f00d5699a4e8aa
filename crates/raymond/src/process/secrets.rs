//! Which variables of an environment hold secrets, and texts without them.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// What is shown instead.
pub const HIDDEN: &str = "***";

/// Shorter values are not masked: they would be found in the middle of words, as `KEYBOARD=us` would be.
const SHORTEST_SECRET_BYTES: usize = 6;

pub use raymond_core::variable::looks_secret as is_secret;

/// The values that no record may show.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets {
    /// The longest first, because one may be a part of another.
    values: Vec<String>,
}

impl Secrets {
    /// Those of an environment.
    pub fn of<N: AsRef<OsStr>, V: AsRef<OsStr>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let secret = |(name, value): (N, V)| {
            let value = value.as_ref().to_str()?;
            let is_long = value.trim().len() >= SHORTEST_SECRET_BYTES;
            (is_long && is_secret(&name.as_ref().to_string_lossy())).then(|| value.to_owned())
        };
        Self::longest_first(variables.into_iter().filter_map(secret).collect())
    }

    /// These and others.
    pub fn joined(&self, others: &Self) -> Self {
        Self::longest_first(self.values.iter().chain(&others.values).cloned().collect())
    }

    /// These, and as they are written inside a string of JSON.
    pub fn also_in_json(&self) -> Self {
        let quoted = |value: &String| serde_json::to_string(value).unwrap_or_default();
        let written = self.values.iter().map(quoted);
        let inside = written.map(|text| text.trim_start_matches('"').trim_end_matches('"').to_owned());
        Self::longest_first(self.values.iter().cloned().chain(inside).collect())
    }

    fn longest_first(mut values: Vec<String>) -> Self {
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self { values }
    }

    /// The text with every secret replaced.
    pub fn hide(&self, mut text: String) -> String {
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), HIDDEN);
            }
        }
        text
    }
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

    #[test]
    fn a_secret_of_several_lines_is_found_in_json() {
        let secrets = Secrets::of([("PRIVATE_KEY", "first \"line\"\nsecond")]);
        let json = serde_json::json!({"said": "it is first \"line\"\nsecond."}).to_string();
        assert_eq!(secrets.also_in_json().hide(json), r#"{"said":"it is ***."}"#);
    }
}
