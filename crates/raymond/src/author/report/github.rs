//! Findings as commands that GitHub shows beside the code.

use crate::author::check::Found;
use crate::view::text::clean;
use raymond_core::diagnostic::Severity;

pub fn github(found: &[Found]) -> String {
    found.iter().map(line).collect()
}

fn line(found: &Found) -> String {
    let command = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let help = found.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
    format!(
        "::{command} file={},line={},endLine={},col={},endColumn={},title={}::{}\n",
        property(&found.file.to_string_lossy()),
        found.start.line,
        found.end.line,
        found.start.column,
        found.end.column,
        property(found.code),
        data(&format!("{}{help}", found.message)),
    )
}

fn data(text: &str) -> String {
    clean(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
