//! Findings for people: the file, the line, and the wrong part underlined.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use raymond_core::diagnostic::Severity;

use crate::author::check::Found;
use crate::view::text::{clean, clean_line, in_one_line};

/// All findings, with colours. The stream they are printed to removes the colours if it is not a terminal.
pub fn text(found: &[Found]) -> String {
    let renderer = Renderer::styled();
    let mut text = String::new();
    for found in found {
        text.push_str(&render(&renderer, found));
        text.push_str("\n\n");
    }
    text
}

fn render(renderer: &Renderer, found: &Found) -> String {
    let level = match found.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    };
    let file = found.file.to_string_lossy();
    let file = in_one_line(&file);
    let message = clean(&found.message);
    let title = level.primary_title(message.as_ref()).id(found.code);
    let lines = found.lines.as_ref().map(|lines| (clean_line(&lines.text), lines.range.clone()));
    let group: Group<'_> = match &lines {
        Some((line, range)) => title.element(
            Snippet::source(line.as_str())
                .line_start(found.start.line as usize)
                .path(file.as_str())
                .annotation(AnnotationKind::Primary.span(range.clone())),
        ),
        None => title.element(Origin::path(file.as_str())),
    };
    let help = found.help.as_deref().map(clean);
    match &help {
        Some(help) => renderer.render(&[group.element(Level::HELP.message(help.as_ref()))]),
        None => renderer.render(&[group]),
    }
}

/// The number of findings, in one line.
pub fn summary(found: &[Found]) -> String {
    let count = |severity| found.iter().filter(|found| found.severity == severity).count();
    let words = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        more => Some(format!("{more} {what}s")),
    };
    let counts = [
        words(count(Severity::Error), "error"),
        words(count(Severity::Warning), "warning"),
        words(count(Severity::Info), "note"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        return "no problems found".to_owned();
    }
    let fixable = found.iter().filter(|found| found.can_be_fixed).count();
    let fix = words(fixable, "place").map(|places| format!("; --fix would fix {places}"));
    format!("{}{}", counts.join(", "), fix.unwrap_or_default())
}
