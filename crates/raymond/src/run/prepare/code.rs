//! The file of a state in the form that its interpreter can run.

use std::borrow::Cow;

use raymond_core::run::Agent;
use raymond_core::workflow::Kind;

use crate::run::job::{StateCode, WorkflowFiles};
use crate::workflow::scope::Source;
use crate::workflow::scopes::Scopes;

/// The file of the state that an agent is in.
pub(super) fn of(scopes: &mut Scopes, agent: &Agent, source: Source) -> Result<StateCode, String> {
    let kind = agent.state.kind();
    match source.file {
        Some(file) => Ok(match text_to_run(kind, &source.bytes, true) {
            Cow::Borrowed(_) => StateCode::InPlace(file),
            Cow::Owned(text) => StateCode::Copy(text),
        }),
        None => {
            let text = text_to_run(kind, &source.bytes, false).into_owned();
            Ok(StateCode::Packed { files: scopes.packed(agent)?, text })
        }
    }
}

/// Where the files of the workflow that an agent is in are.
pub(super) fn workflow_files(scopes: &mut Scopes, agent: &Agent) -> Result<WorkflowFiles, String> {
    let scope = scopes.of(agent)?;
    match scope.is_packed() {
        false => Ok(WorkflowFiles::InFolder),
        true if scope.owner_of(&agent.state).path() == scope.path() => Ok(WorkflowFiles::BesideState),
        true => scopes.packed_workflow(agent).map(WorkflowFiles::Packed),
    }
}

fn text_to_run(kind: Kind, bytes: &[u8], has_file: bool) -> Cow<'_, [u8]> {
    match kind {
        Kind::Bash => unix_text(bytes),
        Kind::Batch => batch_text(bytes, has_file),
        _ => Cow::Borrowed(bytes),
    }
}

/// A script without byte-order mark and carriage returns, which bash would read as part of a command.
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

/// A batch file without a byte-order mark, which `cmd.exe` would read as part of a command. `cmd.exe` may miss labels
/// in a text without carriage returns, so they are added to a copy. A file that runs from its own folder is not changed
/// for that, because it may need to know where it is.
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
    fn carriage_returns_and_byte_order_marks_are_removed() {
        assert_eq!(unix_text(b"\xef\xbb\xbfa\r\nb\r\n").as_ref(), b"a\nb\n");
        assert_eq!(unix_text(b"a\rb\n").as_ref(), b"a\rb\n", "a single carriage return is kept");
        assert!(matches!(unix_text(b"a\nb"), Cow::Borrowed(_)), "a plain script runs from its own file");
    }
}
