//! What of a repository's own config git obeys when Raymond starts it: how files are written and compared, and nothing
//! that names a program, another folder or another config file.
//!
//! The keys that are kept are listed, not those that are left out: git learns new ways to start programs with each
//! version. What the user's own config and that of the system say holds as ever, so a filter that is named there runs,
//! and never as the repository would have it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::repository::Repository;
use super::{Git, GitError};
use crate::files::{self, MAX_SETTINGS_BYTES};

/// Keys of the section `core` that are obeyed.
const CORE: [&str; 21] = [
    "repositoryformatversion",
    "filemode",
    "symlinks",
    "ignorecase",
    "precomposeunicode",
    "longpaths",
    "protecthfs",
    "protectntfs",
    "autocrlf",
    "eol",
    "safecrlf",
    "checkroundtripencoding",
    "checkstat",
    "trustctime",
    "sparsecheckout",
    "sparsecheckoutcone",
    "sharedrepository",
    "logallrefupdates",
    "bigfilethreshold",
    "compression",
    "bare",
];

/// How many configs are remembered. One is a few hundred bytes long.
const MOST_REMEMBERED: usize = 64;

/// What is obeyed of a repository's config.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// As git reads it.
    pub text: String,
    /// The keys of filters that are not run.
    pub filters: Vec<String>,
    /// All keys that could start a program, or lead to one.
    pub programs: Vec<String>,
    pub is_bare: bool,
}

impl Settings {
    /// Those of a repository, as they are now.
    pub fn of(repository: &Repository) -> Result<Self, GitError> {
        let shared = entries_in(&repository.common.join("config"))?;
        let has_more = shared.iter().any(|(key, value)| key == "extensions.worktreeconfig" && is_true(value));
        let more = match has_more {
            true => entries_in(&repository.own.join("config.worktree"))?,
            false => Vec::new(),
        };
        Ok(Self::from_entries(shared.iter().chain(&more)))
    }

    fn from_entries<'e>(entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut settings = Self::default();
        for (key, value) in entries {
            let Some((section, name)) = key.rsplit_once('.') else { continue };
            if section.starts_with("filter.") && is_program_of_filter(name) {
                settings.filters.push(key.clone());
            }
            if may_start_program(section, name) {
                settings.programs.push(key.clone());
            }
            if key == "core.bare" {
                settings.is_bare = is_true(value);
            }
            if is_obeyed(section, name, value.as_deref()) {
                settings.text.push_str(&line(section, name, value.as_deref()));
            }
        }
        settings
    }
}

/// What to say about the programs of filters that only the repository's own config names, if there are any. Without them
/// git leaves the files that they are for as they are.
pub fn about_filters(common: &Path, keys: &[String]) -> Option<String> {
    let name = |key: &str| key.rsplit_once('.').map(|(filter, _)| filter.to_owned());
    let own: BTreeSet<String> = match keys {
        [] => return None,
        _ => filters_of_user().into_iter().filter_map(|key| name(&key)).collect(),
    };
    let left: Vec<&str> = keys
        .iter()
        .filter(|key| name(key).is_none_or(|name| !own.contains(&name)))
        .map(String::as_str)
        .collect();
    let first = left.first()?;
    Some(format!(
        "the config of {} names the programs of {}, and Raymond's git runs none of those; if you trust them, name them in \
         your own config: `git config --global {first} …`",
        common.display(),
        left.join(", ")
    ))
}

/// The keys of filters in the user's own config and in that of the system.
fn filters_of_user() -> Vec<String> {
    let git = Git::in_no_repository(&std::env::temp_dir());
    let list = ["config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process)$"];
    let keys = git.text(&list).unwrap_or_default();
    keys.split_terminator('\0').map(str::to_owned).collect()
}

fn is_program_of_filter(name: &str) -> bool {
    ["clean", "smudge", "process"].contains(&name)
}

/// Whether a key matters where no stand-in is possible, and none of the settings that every call has takes its effect.
fn may_start_program(section: &str, name: &str) -> bool {
    match section.split_once('.').map_or(section, |(section, _)| section) {
        "filter" => is_program_of_filter(name),
        "diff" => ["command", "textconv", "external"].contains(&name),
        "merge" => name == "driver",
        "core" => ["worktree", "gitproxy", "alternaterefscommand"].contains(&name),
        "extensions" => ["worktreeconfig", "partialclone"].contains(&name),
        "remote" => ["uploadpack", "vcs", "promisor"].contains(&name),
        "hook" | "include" | "includeif" => true,
        _ => false,
    }
}

fn is_obeyed(section: &str, name: &str, value: Option<&str>) -> bool {
    match section.split_once('.') {
        None => match section {
            "core" => CORE.contains(&name),
            // Git refuses a repository with an extension that it does not know. These two lead to the network and to
            // another config file.
            "extensions" => !["partialclone", "worktreeconfig"].contains(&name),
            "index" => name == "sparse",
            "user" => ["name", "email"].contains(&name),
            _ => false,
        },
        // Without its program, git cannot write such files, and says so.
        Some(("filter", _)) => name == "required" && is_true(&value.map(str::to_owned)),
        // Filters of the user's own look there for what they fetch.
        Some(("remote", _)) => name == "url" && value.is_some_and(is_network_address),
        Some(("branch", _)) => name == "remote" || name == "merge",
        Some(_) => false,
    }
}

/// Whether an address leads to a server, and neither to a folder nor to a program.
fn is_network_address(value: &str) -> bool {
    ["https://", "http://", "ssh://"].iter().any(|scheme| value.starts_with(scheme))
}

fn is_true(value: &Option<String>) -> bool {
    match value.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None => true,
        Some("" | "false" | "no" | "off" | "0") => false,
        Some(_) => true,
    }
}

/// A setting as it stands in a config file. Each has its section before it.
fn line(section: &str, name: &str, value: Option<&str>) -> String {
    let section = match section.split_once('.') {
        Some((section, of)) => format!("{section} {}", quoted(of, false)),
        None => section.to_owned(),
    };
    match value {
        Some(value) => format!("[{section}]\n\t{name} = {}\n", quoted(value, true)),
        None => format!("[{section}]\n\t{name}\n"),
    }
}

/// No name of a section has a line break, so git has no way to write one there.
fn quoted(text: &str, is_value: bool) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\n' if is_value => quoted.push_str("\\n"),
            '\t' if is_value => quoted.push_str("\\t"),
            '\n' | '\0' => {}
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

/// A key, with its section and name in lower case, and its value.
type Entry = (String, Option<String>);

/// The entries of a config file, without those of other files that it names.
fn entries_in(file: &Path) -> Result<Vec<Entry>, GitError> {
    let bytes = match files::read(file, MAX_SETTINGS_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(GitError::NotStarted(format!("{}: {error}", file.display()))),
    };
    parsed(bytes)
}

static PARSED: Mutex<BTreeMap<Vec<u8>, Vec<Entry>>> = Mutex::new(BTreeMap::new());

/// Git reads the text, from a pipe, so that it is the text that was looked at here.
fn parsed(bytes: Vec<u8>) -> Result<Vec<Entry>, GitError> {
    let remembered =
        |bytes: &Vec<u8>| PARSED.lock().unwrap_or_else(PoisonError::into_inner).get(bytes).cloned();
    if let Some(entries) = remembered(&bytes) {
        return Ok(entries);
    }
    let git = Git::in_no_repository(&std::env::temp_dir());
    let listed = git.bytes(&["config", "--file", "-", "--no-includes", "--null", "--list"], &bytes)?;
    let listed = String::from_utf8_lossy(&listed);
    let entry = |entry: &str| match entry.split_once('\n') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (entry.to_owned(), None),
    };
    let entries: Vec<Entry> = listed.split_terminator('\0').map(entry).collect();
    let mut all = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MOST_REMEMBERED {
        all.clear();
    }
    all.insert(bytes, entries.clone());
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(config: &str) -> Settings {
        Settings::from_entries(parsed(config.as_bytes().to_vec()).unwrap().iter())
    }

    #[test]
    fn only_what_is_listed_is_obeyed() {
        let config = r#"
            [core]
                autocrlf
                eol = lf
                fsmonitor = evil
                hooksPath = evil
                worktree = /elsewhere
                attributesFile = evil
            [include]
                path = evil
            [filter "a.b \" \\ c"]
                clean = evil
                required = true
            [filter "lfs"]
                required = false
            [remote "origin"]
                url = https://example.org/x
                uploadpack = evil
            [remote "local"]
                url = /home/someone
            [remote "program"]
                url = ext::evil
            [alias]
                status = !evil
            [user]
                name = "A \"B\"\tC\nD ; E # F"
            [extensions]
                objectFormat = sha1
                partialClone = origin
                worktreeConfig = true
        "#;
        let settings = settings(config);
        let expected = [
            ("core.autocrlf", None),
            ("core.eol", Some("lf")),
            (r#"filter.a.b " \ c.required"#, Some("true")),
            ("remote.origin.url", Some("https://example.org/x")),
            ("user.name", Some("A \"B\"\tC\nD ; E # F")),
            ("extensions.objectformat", Some("sha1")),
        ];
        let obeyed = parsed(settings.text.into_bytes()).unwrap();
        let obeyed: Vec<_> = obeyed.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        assert_eq!(obeyed, expected);
        assert_eq!(settings.filters, [r#"filter.a.b " \ c.clean"#]);
        assert!(settings.programs.iter().any(|key| key == "include.path"), "{:?}", settings.programs);
    }

    #[test]
    fn what_git_cannot_read_is_an_error() {
        assert!(matches!(parsed(b"[core\nx".to_vec()), Err(GitError::Failed { .. })));
    }
}
