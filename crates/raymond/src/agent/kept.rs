//! The model and the effort of a turn that chooses none.
//!
//! Some programs continue a conversation with the model or the effort of its last turn. A state that chooses none must not
//! get those of another state, so such a program is told what it would choose in a new conversation: its own variable, its
//! settings files, its own default. Where that cannot be found out, the turn is refused before it costs anything.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Turn;
use crate::files;

/// What a program would choose in a new conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Own {
    Named(String),
    /// It chooses this by itself, whatever the conversation had before.
    ByItself,
    Unknown,
}

/// An option that a program keeps in its conversations.
#[derive(Debug)]
pub(super) struct Kept<'t> {
    /// `model` or `effort`.
    pub(super) what: &'static str,
    /// What the state chooses.
    pub(super) chosen: Option<&'t String>,
    /// What the last turn of the conversation was told.
    pub(super) of_last: Option<&'t String>,
    /// Whether the settings of the backend have the option in their arguments.
    pub(super) is_in_args: bool,
}

impl<'t> Kept<'t> {
    pub(super) fn model(turn: &'t Turn, is_in_args: bool) -> Self {
        let of_last = turn.continues.as_ref().and_then(|last| last.model.as_ref());
        Self { what: "model", chosen: turn.model.as_ref(), of_last, is_in_args }
    }

    pub(super) fn effort(turn: &'t Turn, is_in_args: bool) -> Self {
        let of_last = turn.continues.as_ref().and_then(|last| last.effort.as_ref());
        Self { what: "effort", chosen: turn.effort.as_ref(), of_last, is_in_args }
    }

    /// What the program has to be told.
    pub(super) fn told(&self, own: impl FnOnce() -> Own) -> Result<Option<String>, String> {
        let (what, Some(last)) = (self.what, self.of_last) else { return Ok(self.chosen.cloned()) };
        if self.chosen.is_some() || self.is_in_args {
            return Ok(self.chosen.cloned());
        }
        match own() {
            Own::Named(value) => Ok(Some(value)),
            Own::ByItself => Ok(None),
            Own::Unknown => Err(format!(
                "the agent program would go on with the {what} `{}` of the state before, and what it would choose itself is \
                 not known; choose a `{what}` for this state, too, lead to it with <reset>, or set one in the program's own \
                 settings",
                last.escape_debug()
            )),
        }
    }
}

/// What a settings file holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SettingsFile {
    Missing,
    /// It is there, and what it chooses is not known.
    Unreadable,
    Holds(Value),
}

impl SettingsFile {
    /// Reads a file of JSON in which whole lines may be comments.
    pub(super) fn read(path: &Path) -> Self {
        match files::read(path, files::MAX_SETTINGS_BYTES) {
            Ok(bytes) => Self::parse(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Missing,
            Err(_) => Self::Unreadable,
        }
    }

    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        match serde_json::from_str(&text) {
            Ok(value @ Value::Object(_)) => Self::Holds(value),
            _ => Self::Unreadable,
        }
    }

    /// The text under this key.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        let Self::Holds(value) = self else { return None };
        value.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Whether it decides about one of these keys, or may do so.
    pub(super) fn may_have(&self, keys: &[&str]) -> bool {
        match self {
            Self::Missing => false,
            Self::Unreadable => true,
            Self::Holds(value) => keys.iter().any(|key| value.get(key).is_some()),
        }
    }
}

/// Variables of the environment, as a program finds them.
pub(super) type Variables<'v> = &'v dyn Fn(&str) -> Option<OsString>;

/// The variables of this process, which programs get.
pub(super) fn inherited(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A variable that is not empty.
pub(super) fn variable(variables: Variables<'_>, name: &str) -> Option<String> {
    variables(name).filter(|value| !value.is_empty())?.into_string().ok()
}

/// The folder that a variable names, or this one below the user's own.
pub(super) fn folder(variables: Variables<'_>, name: &str, below_home: &str) -> Option<PathBuf> {
    let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    let own = variables(name).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    own.or_else(|| Some(PathBuf::from(variables(home)?).join(below_home)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_option_of_another_state_is_replaced_or_refused_and_never_kept() {
        let (own, other) = ("own".to_owned(), "other".to_owned());
        let told = |chosen, of_last, is_in_args, found: Own| {
            Kept { what: "model", chosen, of_last, is_in_args }.told(|| found)
        };
        assert_eq!(told(Some(&own), Some(&other), false, Own::Unknown), Ok(Some(own.clone())));
        assert_eq!(told(None, None, false, Own::Unknown), Ok(None));
        assert_eq!(told(None, Some(&other), true, Own::Unknown), Ok(None));
        assert_eq!(told(None, Some(&other), false, Own::Named(own.clone())), Ok(Some(own.clone())));
        assert_eq!(told(None, Some(&other), false, Own::ByItself), Ok(None));
        let refusal = told(None, Some(&other), false, Own::Unknown).unwrap_err();
        assert!(refusal.contains("the model `other` of the state before"), "{refusal}");
    }

    #[test]
    fn a_file_that_cannot_be_read_may_choose_anything() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        assert_eq!(SettingsFile::read(&file), SettingsFile::Missing);
        fs::write(&file, "// mine\n{ \"model\": \"m\" }\n").unwrap();
        assert_eq!(SettingsFile::read(&file).text("model").as_deref(), Some("m"));
        assert!(!SettingsFile::read(&file).may_have(&["agent"]));
        fs::write(&file, "{ \"model\": }").unwrap();
        assert!(SettingsFile::read(&file).may_have(&["agent"]));
    }
}
