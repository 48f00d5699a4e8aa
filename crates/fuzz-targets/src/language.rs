//! The text of states and the output of steps.

use std::borrow::Cow;

use raymond_core::frontmatter::split_and_parse;
use raymond_core::limits::{MAX_HEADER_LINES, MAX_WARNINGS};
use raymond_core::tag::{Collected, Tag, TagCollector, TagError, TagReader, locate};
use raymond_core::workflow::Kind;
use raymond_core::workflow::source::Position;
use raymond_core::{header as script_header, template as prompt_template};

use crate::pieces::cuttings;

/// The tags of an output depend on its bytes, not on how they are cut into pieces, and a tag that is written is read
/// back as the same tag.
pub fn tags(data: &[u8]) {
    let (whole, ending) = read_tags(&[data]);
    let collected = collect(&[data]);
    for pieces in cuttings(data) {
        assert_eq!(read_tags(&pieces), (whole.clone(), ending.clone()), "in pieces: {pieces:?}");
        assert_eq!(collect(&pieces), collected, "in pieces: {pieces:?}");
    }
    for tag in &whole {
        let written = tag.to_string();
        assert_eq!(read_tags(&[written.as_bytes()]).0, std::slice::from_ref(tag), "written out: {written:?}");
        assert!(tag.brief().chars().count() <= 80, "a brief tag is long: {}", tag.brief());
    }
    if let Ok(text) = std::str::from_utf8(data) {
        check_places(text, &whole);
    }
}

fn read_tags(pieces: &[&[u8]]) -> (Vec<Tag>, String) {
    let mut tags = Vec::new();
    let mut reader = TagReader::new();
    let fed = pieces.iter().try_for_each(|piece| reader.feed(piece, &mut |tag| tags.push(tag)));
    let ending = fed.and_then(|()| reader.finish(&mut |tag| tags.push(tag)));
    (tags, format!("{ending:?}"))
}

fn collect(pieces: &[&[u8]]) -> (Result<Collected, TagError>, Vec<String>) {
    let mut printed = Vec::new();
    let mut collector = TagCollector::new();
    let mut on_print = |text| printed.push(text);
    let fed = pieces.iter().try_for_each(|piece| collector.feed(piece, &mut on_print));
    let collected = fed.and_then(|()| collector.finish(&mut on_print));
    (collected, printed)
}

/// The tools for authors find the same tags as a run, at their positions.
fn check_places(text: &str, tags: &[Tag]) {
    let found = locate(text);
    assert!(found.tags.iter().map(|located| &located.tag).eq(tags), "located: {:?}", found.tags);
    let mut end = 0;
    for located in &found.tags {
        assert!(located.range.start >= end && text.get(located.range.clone()).is_some());
        assert!(text.get(located.content.clone()).is_some());
        end = located.range.end;
    }
    for missed in &found.missed {
        assert!(missed.range.end <= text.len());
        let before = text.get(..missed.range.start).expect("it begins between characters");
        assert_eq!(missed.line, 1 + before.matches('\n').count() as u64, "the line of {missed}");
    }
}

/// A prompt's settings are read or refused, with positions that exist.
pub fn frontmatter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match split_and_parse(&text) {
        Ok(prompt) => {
            assert!(text.ends_with(prompt.body), "the body is not the end of the file");
            assert!(prompt.warnings.len() <= MAX_WARNINGS);
            let policies = prompt.settings.allowed_transitions.iter();
            let entries = policies
                .flat_map(|policy| &policy.entries)
                .map(|entry| Position { line: entry.line, column: entry.column });
            // The block is between the first line and the line before the body. Without one, only a byte order mark
            // can be before the body.
            let before_body = text.strip_suffix(prompt.body).unwrap_or_default();
            let end = before_body.lines().count();
            let has_block = !before_body.trim_start_matches('\u{feff}').is_empty();
            for place in prompt.warnings.iter().map(|warning| warning.position).chain(entries) {
                check_place(&text, place);
                // Without a block, the warning is about settings further down.
                let is_in_block = place.line > 1 && (place.line as usize) < end;
                assert!(is_in_block || !has_block, "{place} is not in the block");
            }
        }
        Err(error) => {
            check_place(&text, error.position);
            assert!(!error.to_string().is_empty());
        }
    }
}

/// A script's settings are read or refused, with positions that exist.
pub fn header(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for kind in Kind::ALL {
        let in_first_lines = |position: Position| {
            check_place(&text, position);
            assert!(position.line as usize <= MAX_HEADER_LINES, "{position} is not in the header");
        };
        match script_header::parse(kind, &text) {
            Ok((_, warnings)) => {
                assert!(warnings.len() <= MAX_WARNINGS);
                warnings.iter().for_each(|warning| in_first_lines(warning.position));
                let mut keys = script_header::keys(kind, &text);
                let count = keys.len();
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), count, "a key was accepted twice");
            }
            Err(error) => in_first_lines(error.position),
        }
    }
}

/// Positions are shown to people, so there must be text at them, or the end of the file.
pub fn check_place(text: &str, position: Position) {
    let lines = text.split(['\n', '\r']).count();
    assert!(position.line >= 1 && position.column >= 1, "{position} is not a valid position");
    assert!(position.line as usize <= lines, "{position} is after the last of {lines} lines");
}

/// Placeholders are replaced once, and all other text is unchanged.
pub fn template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let unchanged = prompt_template::render(&text, |_| None);
    assert_eq!(unchanged, text, "the text changed although no placeholder is known");
    let with_itself = prompt_template::render(&text, |name| Some(Cow::Owned(format!("{{{{{name}}}}}"))));
    assert_eq!(with_itself, text, "a placeholder differs from the text at its position");

    let mut left = String::new();
    let mut end = 0;
    for placeholder in prompt_template::placeholders(&text) {
        let range = placeholder.range.clone();
        assert!(range.start >= end, "placeholders overlap");
        assert_eq!(text.get(range.clone()), Some(format!("{{{{{}}}}}", placeholder.name).as_str()));
        left.push_str(text.get(end..range.start).expect("a placeholder begins between characters"));
        left.push_str("{{value}}");
        end = range.end;
    }
    left.push_str(text.get(end..).expect("a placeholder ends between characters"));
    let rendered = prompt_template::render(&text, |_| Some(Cow::Borrowed("{{value}}")));
    assert_eq!(rendered, left, "an inserted value was searched again");
}
