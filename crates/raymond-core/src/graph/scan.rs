//! Finding tags in the text of states.

use std::ops::Range;

use super::emitted::{emitted, emitted_as_json, emitted_by_list};
use crate::tag::{Found, Located, NearMiss, locate};
use crate::workflow::Kind;

/// The transition tags in a part of a state's text; those in a script's comments are ignored.
pub fn scan(kind: Kind, text: &str, body: Range<usize>) -> Found {
    let start = body.start;
    let part = text.get(body).unwrap_or_default();
    let mut found = match escape_of(kind).filter(|escape| part.contains(*escape)) {
        Some(escape) => locate_escaped(part, escape),
        None => locate(part),
    };
    match kind {
        Kind::Bash => found.tags.extend(emitted(part)),
        Kind::Python | Kind::Node => found.tags.extend(emitted_by_list(part)),
        Kind::Prompt | Kind::Batch | Kind::PowerShell => {}
    }
    if matches!(kind, Kind::Bash | Kind::Python | Kind::Node) {
        found.tags.extend(emitted_as_json(part));
        found.tags.sort_by_key(|located| located.range.start);
    }
    found.tags.retain(|located| located.tag.name.is_transition());
    for located in &mut found.tags {
        shift(located, &|at| at + start);
    }
    for missed in &mut found.missed {
        shift_range(&mut missed.range, &|at| at + start);
    }
    if kind.is_script() {
        let is_code = |range: &Range<usize>| !is_comment(kind, text, range.start);
        found.tags.retain(|located| is_code(&located.range));
        found.missed.retain(|missed: &NearMiss| is_code(&missed.range));
    }
    found
}

/// Whether a place is on a line that is a comment from its start.
fn is_comment(kind: Kind, text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
    let opens =
        |marker: &&str| line.get(..marker.len()).is_some_and(|start| start.eq_ignore_ascii_case(marker));
    kind.comment_markers().iter().any(opens)
}

/// The escape character before a quote or a bracket that a script wants to print.
fn escape_of(kind: Kind) -> Option<char> {
    match kind {
        Kind::Prompt => None,
        Kind::Batch => Some('^'),
        Kind::PowerShell => Some('`'),
        Kind::Bash | Kind::Python | Kind::Node => Some('\\'),
    }
}

/// Finds tags in a text after removing its escapes; positions are those in the original text.
fn locate_escaped(text: &str, escape: char) -> Found {
    let mut plain = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let is_escaped = |next: &(usize, char)| matches!(next.1, '<' | '>' | '"' | '\'');
        if character == escape && characters.peek().is_some_and(is_escaped) {
            continue;
        }
        plain.push(character);
        places.extend((0..character.len_utf8()).map(|byte| at + byte));
    }
    places.push(text.len());
    let mut found = locate(&plain);
    let place = |at: usize| places.get(at).copied().unwrap_or(text.len());
    for located in &mut found.tags {
        shift(located, &place);
    }
    for missed in &mut found.missed {
        shift_range(&mut missed.range, &place);
    }
    found
}

fn shift(located: &mut Located, place: &dyn Fn(usize) -> usize) {
    shift_range(&mut located.range, place);
    shift_range(&mut located.content, place);
    for (name, value) in &mut located.attributes {
        shift_range(name, place);
        shift_range(value, place);
    }
}

fn shift_range(range: &mut Range<usize>, place: &dyn Fn(usize) -> usize) {
    // Use the end of the last byte, because escapes after it may have been removed.
    let end = if range.start == range.end { place(range.start) } else { place(range.end - 1) + 1 };
    *range = place(range.start)..end;
}
