//! The folders that agents of a workflow may work in, and the files there that agent programs obey: settings, with the
//! hooks that they name, tool servers, and what adds to a program.
//!
//! These files are no part of a workflow, but they start programs when its agents run. So they belong to what a person looks
//! at, and to the content that is trusted. Bound: [`MAX_FOLDERS`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent::KINDS;
use crate::error::UserError;
use crate::files;
use crate::paths::{normalise, shown};
use crate::workflow::named::Reached;

/// How many folders are looked at.
const MAX_FOLDERS: usize = 1000;

/// What agent programs obey in the folders that agents of the workflow may work in. A workflow without prompts starts none.
pub fn obeyed(reached: &Reached) -> Result<BTreeSet<PathBuf>, UserError> {
    if !reached.has_prompts {
        return Ok(BTreeSet::new());
    }
    // What is there in the user's own home is the user's.
    let home = std::env::var_os("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
    let is_home = |folder: &PathBuf| home.is_some() && folder.canonicalize().ok() == home;
    let folders = folders(reached)?.into_iter().filter(|folder| !is_home(folder));
    let names = || KINDS.iter().flat_map(|kind| kind.obeys);
    let all = folders.flat_map(|folder| names().map(move |name| folder.join(name)));
    Ok(all.filter(|path| path.is_file() || path.is_dir()).collect())
}

/// The folders that agents may work in, as far as texts tell: those around each workflow, those that manifests set, and from
/// each of them those that the `cd` of a tag or of a policy leads to.
pub fn folders(reached: &Reached) -> Result<BTreeSet<PathBuf>, UserError> {
    let set = reached.scopes.iter().filter_map(|scope| scope.working_directory()?.ok());
    let around = reached.scopes.iter().flat_map(|scope| scope.home().ancestors().map(Path::to_owned));
    let mut all: BTreeSet<PathBuf> = set.chain(around).collect();
    let mut new: Vec<PathBuf> = all.iter().cloned().collect();
    while let Some(folder) = new.pop() {
        for written in &reached.folders {
            let other = normalise(&folder, Path::new(written));
            if other.is_dir() && all.insert(other.clone()) {
                new.push(other);
            }
        }
        if all.len() > MAX_FOLDERS {
            let first = reached.scopes.first().map(|scope| shown(scope.path()).display().to_string());
            let first = first.unwrap_or_default();
            return Err(UserError::usage(format!(
                "agents of {first} may work in more than {MAX_FOLDERS} folders"
            )));
        }
    }
    Ok(all)
}

/// The commands that a file of settings names, as far as it is JSON: those of hooks, of tool servers and so on.
pub fn commands_in(file: &Path) -> Vec<String> {
    let text = files::read_text(file, files::MAX_SETTINGS_BYTES).unwrap_or_default();
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str(&text) {
        add_commands(&value, &mut found);
    }
    found
}

fn add_commands(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| add_commands(item, found)),
        Value::Object(fields) => {
            if let Some(command) = fields.get("command").and_then(Value::as_str) {
                let args = fields.get("args").and_then(Value::as_array).into_iter().flatten();
                let words = [command].into_iter().chain(args.filter_map(Value::as_str));
                found.push(words.collect::<Vec<_>>().join(" "));
            }
            fields.values().for_each(|field| add_commands(field, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_wherever_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        let text = r#"{ "hooks": { "PreToolUse": [ { "matcher": "Bash", "hooks": [ { "type": "command", "command": "./check.sh" } ] } ] },
                        "mcpServers": { "a": { "command": "npx", "args": [ "-y", "server" ] } }, "statusLine": { "command": "date" } }"#;
        std::fs::write(&file, text).unwrap();
        let mut found = commands_in(&file);
        found.sort();
        assert_eq!(found, ["./check.sh", "date", "npx -y server"]);
        std::fs::write(&file, "no JSON").unwrap();
        assert!(commands_in(&file).is_empty());
    }
}
