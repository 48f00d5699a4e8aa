//! The consent of a user to the settings of a project that give power.
//!
//! A user who runs a workflow of a project trusts the project. A user who runs a workflow of their own in a cloned
//! repository, or only looks at it, may never have looked at the repository's config file.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use crate::config;
use crate::error::UserError;
use crate::files;
use crate::store::hash_of;
use crate::view::text::clean;

/// The right to use all settings of a project's config file. It can only be had from the functions here.
#[derive(Debug)]
pub struct Consent(());

impl Consent {
    /// The workflow is part of the project, with all links followed.
    pub fn of_project(project: &Path, workflow: &Path) -> Option<Self> {
        let (project, workflow) = (project.canonicalize().ok()?, workflow.canonicalize().ok()?);
        workflow.starts_with(project).then_some(Self(()))
    }

    /// The user has accepted these settings of this file before.
    pub fn remembered(wanted: &Wanted<'_>) -> Option<Self> {
        is_remembered(&wanted.hash()).then_some(Self(()))
    }

    /// The user accepts them now, for good.
    pub fn given(wanted: &Wanted<'_>) -> Self {
        let hash = wanted.hash();
        let is_new = !wanted.settings.is_empty() && !is_remembered(&hash);
        if is_new && let Err(error) = remember(&hash, wanted.file) {
            let file = clean_name(wanted.file);
            let _ = writeln!(io::stderr(), "warning: cannot remember that {file} is trusted: {error}");
        }
        Self(())
    }

    /// Asks the user on a terminal. Without one, and if they refuse, the error says what can be done.
    pub fn asked(wanted: &Wanted<'_>) -> Result<Self, UserError> {
        let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
        match can_ask && wanted.is_accepted() {
            true => Ok(Self::given(wanted)),
            false => Err(wanted.refusal()),
        }
    }
}

/// What a consent is for: the settings that can give power, one line each, and the file that they are in.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub file: &'a Path,
    pub settings: Vec<String>,
}

impl Wanted<'_> {
    /// The file in one line, for messages.
    pub fn shown_file(&self) -> String {
        clean_name(self.file)
    }

    /// A relative path of a program means another one in another project, so the file's own path counts too.
    fn hash(&self) -> String {
        let file = self.file.canonicalize().unwrap_or_else(|_| self.file.to_owned());
        // Each line has its length before it, so that no text can look like several.
        let lines = self.settings.iter().map(|line| format!("{} {line}\n", line.len()));
        let lines: String = lines.collect();
        hash_of(format!("settings {} {}\n{lines}", file.as_os_str().len(), file.display()).as_bytes())
    }

    fn refusal(&self) -> UserError {
        let error = format!(
            "the workflow is not part of the project, and the project's config file has settings that give power: {}",
            self.shown_file()
        );
        let error = self.settings.iter().fold(UserError::usage(error), UserError::hint);
        error.hint("look at them, and accept them from now on with --trust, or with: raymond doctor --trust")
    }

    fn is_accepted(&self) -> bool {
        let mut question = format!(
            "The workflow is not part of the project, and the project's config file has settings that give power.\n{}:\n",
            self.shown_file()
        );
        for setting in &self.settings {
            let _ = writeln!(question, "  {}", clean(setting));
        }
        // What was typed before the question is no answer to it.
        #[cfg(unix)]
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        let _ = write!(io::stderr(), "{question}Do you trust them? [y/N] ");
        let mut answer = String::new();
        let _ = io::stdin().lock().read_line(&mut answer);
        ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
    }
}

/// A path in one line.
fn clean_name(file: &Path) -> String {
    clean(&file.to_string_lossy()).replace('\n', "\\n")
}

/// A line for each accepted content: its hash, a space, the file's path.
fn list() -> Option<PathBuf> {
    config::user_state_folder().map(|folder| folder.join("trusted"))
}

fn is_remembered(hash: &str) -> bool {
    let text = list().and_then(|list| files::read_text(&list, files::MAX_SETTINGS_BYTES).ok());
    text.unwrap_or_default().lines().any(|line| line.split(' ').next() == Some(hash))
}

fn remember(hash: &str, file: &Path) -> io::Result<()> {
    let list = list().ok_or_else(|| io::Error::other("there is no home folder"))?;
    files::create_private_folders(list.parent().unwrap_or(&list))?;
    let mut open = files::open_plain_as(files::private_options().append(true).create(true), &list)?;
    let line = format!("{hash} {}\n", clean_name(file));
    // A longer list could not be read any more.
    if open.metadata()?.len() + line.len() as u64 > files::MAX_SETTINGS_BYTES {
        return Err(io::Error::other(format!("{} is full; remove old lines", list.display())));
    }
    open.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consent_is_for_one_file_and_one_content() {
        let hash = |file: &str, settings: &[&str]| {
            let settings = settings.iter().map(|line| (*line).to_owned()).collect();
            Wanted { file: Path::new(file), settings }.hash()
        };
        let all = [
            hash("/a/config.toml", &["a = 1", "b = 2"]),
            hash("/b/config.toml", &["a = 1", "b = 2"]),
            hash("/a/config.toml", &["a = 1"]),
            hash("/a/config.toml", &["a = 1\nb = 2"]),
            hash("/a/config.toml", &["a = 1\n5 b = 2"]),
            hash("/a/config.toml\n5 a = 1", &["b = 2"]),
        ];
        for (number, hash) in all.iter().enumerate() {
            assert!(!all[..number].contains(hash), "{number}");
        }
        assert_eq!(all[0], hash("/a/config.toml", &["a = 1", "b = 2"]));
    }

    #[test]
    fn a_path_cannot_bring_a_line_of_its_own() {
        assert_eq!(clean_name(Path::new("/a\nHASH /b\u{1b}")), "/a\\nHASH /b\\u{1b}");
    }
}
