//! Faults in YAML, shown with their line.

use raymond_core::frontmatter::yaml::Fault;
use raymond_core::workflow::source::SourceError;

/// A fault in a text, with the line itself.
pub fn in_text(text: &str, fault: Fault) -> SourceError {
    SourceError {
        source_line: line_of(text, fault.position.line).to_owned(),
        position: fault.position,
        message: fault.message,
    }
}

/// A line by its number, which counts from 1.
pub fn line_of(text: &str, number: u32) -> &str {
    let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    text.lines().nth(index).unwrap_or_default()
}
