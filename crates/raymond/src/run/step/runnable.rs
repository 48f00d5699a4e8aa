//! The file that a step runs: the state's own, the one among the unpacked files of its workflow, or a private copy
//! where that cannot be run as it is.

use std::borrow::Cow;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use raymond_core::run::Agent;
use raymond_core::workflow::{Kind, StateFile};

use super::{StepContext, create_private_folder, file_name_of};
use crate::workflow::scope::Source;

/// A file to run. A copy is removed together with this.
#[derive(Debug)]
pub(super) struct Runnable {
    path: PathBuf,
    /// The folder that was made for the copy alone.
    made_for_copy: Option<PathBuf>,
}

impl Runnable {
    /// The file of the state that an agent is in.
    pub(super) fn of(context: &StepContext, agent: &Agent) -> Result<Self, String> {
        let mut scopes = context.scopes.borrow_mut();
        if let Some(path) = scopes.take_ready(&agent.id) {
            return Ok(Self { path, made_for_copy: None });
        }
        let scope = scopes.of(agent)?;
        let source = scope.read(&agent.state)?;
        let text = text_to_run(agent.state.kind(), &source.bytes, source.file.is_some());
        match (source.file, text) {
            (Some(path), Cow::Borrowed(_)) => Ok(Self { path, made_for_copy: None }),
            (None, text) => {
                let path = context.unpacked.file(scope, &agent.state, &text)?;
                Ok(Self { path, made_for_copy: None })
            }
            (Some(_), text) => {
                // The copy has the state's own name, because programs show it in their messages.
                let folder = context.paths.tasks().join(format!("{}.state", file_name_of(&agent.id)));
                Self::copy(folder, &agent.state, &text)
            }
        }
    }

    fn copy(folder: PathBuf, state: &StateFile, text: &[u8]) -> Result<Self, String> {
        let runnable = Self { path: folder.join(state.as_str()), made_for_copy: Some(folder.clone()) };
        create_private_folder(&folder)
            .and_then(|()| write_private(&runnable.path, text))
            .map_err(|error| format!("cannot write {}: {error}", runnable.path.display()))?;
        Ok(runnable)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        if let Some(folder) = &self.made_for_copy {
            // Background children that still read it keep what they have open; what else is in the folder stays.
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_dir(folder);
        }
    }
}

pub(super) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A copy of a step that was killed may still be read by its background children.
    let _ = fs::remove_file(path);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
    options.open(path)?.write_all(bytes)
}

/// The file that a state can be run from as it lies there, if it can.
pub fn as_it_lies(kind: Kind, source: &Source) -> Option<&Path> {
    let file = source.file.as_deref()?;
    let text = text_to_run(kind, &source.bytes, true);
    matches!(text, Cow::Borrowed(_)).then_some(file)
}

fn text_to_run(kind: Kind, bytes: &[u8], has_file: bool) -> Cow<'_, [u8]> {
    match kind {
        Kind::Bash => unix_text(bytes),
        Kind::Batch => batch_text(bytes, has_file),
        _ => Cow::Borrowed(bytes),
    }
}

/// A script without byte-order mark and carriage returns, which bash takes for part of a command.
fn unix_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    let without_mark = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let has_foreign_line_ends = memchr::memmem::find(without_mark, b"\r\n").is_some();
    if !has_foreign_line_ends && without_mark.len() == bytes.len() {
        return Cow::Borrowed(bytes);
    }
    let mut text = Vec::with_capacity(bytes.len());
    for (index, byte) in without_mark.iter().enumerate() {
        if *byte != b'\r' || without_mark.get(index + 1) != Some(&b'\n') {
            text.push(*byte);
        }
    }
    Cow::Owned(text)
}

/// A batch file without a byte-order mark, which `cmd.exe` takes for part of a command. In a text without carriage
/// returns it may miss labels, so a copy gets them; a file that runs where it lies is its author's, as it also has to
/// know where that is.
fn batch_text(bytes: &[u8], has_file: bool) -> Cow<'_, [u8]> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if has_file && text.len() == bytes.len() {
        return Cow::Borrowed(bytes);
    }
    let mut lines = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(content) => {
                lines.extend_from_slice(content.strip_suffix(b"\r").unwrap_or(content));
                lines.extend_from_slice(b"\r\n");
            }
            None => lines.extend_from_slice(line),
        }
    }
    Cow::Owned(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_file_is_changed_only_where_a_copy_is_needed() {
        assert_eq!(batch_text(b"a\nb\r\nc", false).as_ref(), b"a\r\nb\r\nc");
        assert_eq!(batch_text(b"\xef\xbb\xbfa\nb", true).as_ref(), b"a\r\nb");
        assert!(matches!(batch_text(b"a\nb", true), Cow::Borrowed(_)), "it runs from its own file");
    }

    #[test]
    fn foreign_line_ends_and_marks_are_taken_out() {
        assert_eq!(unix_text(b"\xef\xbb\xbfa\r\nb\r\n").as_ref(), b"a\nb\n");
        assert_eq!(unix_text(b"a\rb\n").as_ref(), b"a\rb\n", "a carriage return alone is the author's");
        assert!(matches!(unix_text(b"a\nb"), Cow::Borrowed(_)), "a plain script runs from its own file");
    }

    #[test]
    fn a_copy_goes_with_its_step() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("main.state");
        let state = StateFile::new("START.sh").unwrap();
        let copy = Runnable::copy(own.clone(), &state, b"echo 1").unwrap();
        assert_eq!(fs::read(copy.path()).unwrap(), b"echo 1");
        let again = Runnable::copy(own.clone(), &state, b"echo 2").unwrap();
        assert_eq!(fs::read(again.path()).unwrap(), b"echo 2");
        drop((copy, again));
        assert!(!own.exists());
    }
}
