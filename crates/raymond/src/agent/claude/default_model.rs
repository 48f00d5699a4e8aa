//! The model of a turn for which none is chosen.
//!
//! The program continues a conversation with the model of its last turn. A state without a model must not get that of
//! another state, so the program has to be told what it would choose in a new conversation: the variable
//! `ANTHROPIC_MODEL`, then its settings files, then its own default.

use std::path::{Path, PathBuf};

use crate::agent::kept::{Own, SettingsFile, Variables, folder};

/// The program's own name for its own default.
const DEFAULT: &str = "default";

/// The model to ask for, unless the program finds it by itself.
pub(super) fn default_model(cwd: &Path, variable: Variables<'_>) -> Own {
    // The variable has priority over the model of the conversation.
    if variable("ANTHROPIC_MODEL").is_some_and(|model| !model.is_empty()) {
        return Own::ByItself;
    }
    let chosen = settings_files(cwd, variable).iter().find_map(|file| SettingsFile::read(file).text("model"));
    Own::Named(chosen.unwrap_or_else(|| DEFAULT.to_owned()))
}

/// The program's settings files, the most specific one first.
fn settings_files(cwd: &Path, variable: Variables<'_>) -> Vec<PathBuf> {
    let project = cwd.join(".claude");
    let mut files = vec![project.join("settings.local.json"), project.join("settings.json")];
    let config = folder(variable, "CLAUDE_CONFIG_DIR", ".claude");
    files.extend(config.map(|folder| folder.join("settings.json")));
    files
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;

    #[test]
    fn the_variable_comes_first_then_settings_then_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let (cwd, home) = (folder.path().join("project"), folder.path().join("home"));
        for path in [&cwd, &home] {
            fs::create_dir_all(path.join(".claude")).unwrap();
        }
        let home_variable = home.clone().into_os_string();
        let with = |own: Option<&str>| {
            let own = default_model(&cwd, &|name| match name {
                "ANTHROPIC_MODEL" => own.map(OsString::from),
                "HOME" | "USERPROFILE" => Some(home_variable.clone()),
                _ => None,
            });
            match own {
                Own::Named(model) => Some(model),
                Own::ByItself | Own::Unknown => None,
            }
        };
        assert_eq!(with(None).as_deref(), Some(DEFAULT));
        assert_eq!(with(Some("")).as_deref(), Some(DEFAULT));
        fs::write(home.join(".claude/settings.json"), r#"{"model": "sonnet"}"#).unwrap();
        assert_eq!(with(None).as_deref(), Some("sonnet"));
        fs::write(cwd.join(".claude/settings.json"), "not JSON").unwrap();
        assert_eq!(with(None).as_deref(), Some("sonnet"));
        fs::write(cwd.join(".claude/settings.json"), r#"{"model": "opus"}"#).unwrap();
        assert_eq!(with(None).as_deref(), Some("opus"));
        assert_eq!(with(Some("haiku")), None);
    }
}
