//! The model that opencode would choose in a new conversation, as far as its settings name one.

use std::path::{Path, PathBuf};

use crate::agent::kept::{Own, SettingsFile, Variables, folder, variable};

/// The names of its settings files, the one that counts first.
const FILES: [&str; 2] = ["opencode.jsonc", "opencode.json"];
/// What may give an agent a model of its own, which would count before the general one.
const OF_AGENTS: [&str; 3] = ["agent", "mode", "default_agent"];

/// The first of its settings that name a model decides. Without one it takes the model that was used last, or any.
pub(super) fn own_model(cwd: &Path, variables: Variables<'_>) -> Own {
    let all: Vec<SettingsFile> = settings(cwd, variables);
    if all.iter().any(|settings| settings.may_have(&OF_AGENTS)) {
        return Own::Unknown;
    }
    all.iter().find_map(|settings| settings.text("model")).map_or(Own::Unknown, Own::Named)
}

/// What holds its settings, in the order in which it counts.
fn settings(cwd: &Path, variables: Variables<'_>) -> Vec<SettingsFile> {
    let inline = variable(variables, "OPENCODE_CONFIG_CONTENT").map(|text| SettingsFile::parse(&text));
    let folders = cwd.ancestors().map(|folder| folder.join(".opencode"));
    let folders = folders.chain(variable(variables, "OPENCODE_CONFIG_DIR").map(PathBuf::from));
    let projects = cwd.ancestors().map(Path::to_owned);
    let named = variable(variables, "OPENCODE_CONFIG").map(PathBuf::from);
    let own = folder(variables, "XDG_CONFIG_HOME", ".config").map(|folder| folder.join("opencode"));
    let in_folders = folders.chain(projects).flat_map(|folder| FILES.map(|name| folder.join(name)));
    let in_own =
        own.into_iter().flat_map(|folder| [FILES[0], FILES[1], "config.json"].map(|name| folder.join(name)));
    let files = in_folders.chain(named).chain(in_own).map(|file| SettingsFile::read(&file));
    inline.into_iter().chain(files).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_settings_decide_unless_agents_have_models_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project/below");
        let home = folder.path().join("home");
        fs::create_dir_all(&project).unwrap();
        fs::create_dir_all(home.join(".config/opencode")).unwrap();
        let with = |inline: Option<&str>| {
            own_model(&project, &|name| match name {
                "OPENCODE_CONFIG_CONTENT" => inline.map(OsString::from),
                "HOME" | "USERPROFILE" => Some(home.clone().into_os_string()),
                _ => None,
            })
        };
        assert_eq!(with(None), Own::Unknown);
        fs::write(home.join(".config/opencode/opencode.json"), r#"{"model": "p/user"}"#).unwrap();
        assert_eq!(with(None), Own::Named("p/user".to_owned()));
        fs::write(folder.path().join("project/opencode.jsonc"), "// ours\n{\"model\": \"p/project\"}")
            .unwrap();
        assert_eq!(with(None), Own::Named("p/project".to_owned()));
        assert_eq!(with(Some(r#"{"model": "p/inline"}"#)), Own::Named("p/inline".to_owned()));
        assert_eq!(with(Some(r#"{"agent": {"build": {"model": "p/agent"}}}"#)), Own::Unknown);
        assert_eq!(with(Some("{ broken")), Own::Unknown);
    }
}
