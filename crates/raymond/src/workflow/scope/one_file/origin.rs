//! Where in a one-file workflow the text of a state was read from, so that a finding in the text can be shown at its
//! place in the file.

use std::ops::Range;

use raymond_core::diagnostic::Lines;
use raymond_core::frontmatter::yaml::Field;
use raymond_core::workflow::source::Position;

/// The places in a file that the pieces of a text come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// In the order of the text.
    runs: Vec<Run>,
}

/// A piece of the text, and the piece of the file that it was read from. If both are equally long, they are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    at: usize,
    length: usize,
    from: usize,
    from_length: usize,
}

/// The place of a text in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    position: Position,
    /// The byte after its key.
    after_key: usize,
    bytes: Range<usize>,
}

impl TextPlace {
    pub fn of(field: &Field) -> TextPlace {
        let bytes = field.node.bytes.clone();
        TextPlace { position: field.node.position, after_key: field.key_bytes.end, bytes }
    }

    /// Turns a position in the text into one in the file, without counting the lines of the whole file.
    pub fn position_of(&self, yaml: &str, text: &str, position: Position) -> Position {
        let offset = Lines::new(text).offset(position);
        let start = Origin::of_text(yaml, self, text).place(offset..offset).start;
        let Some(between) = yaml.get(self.bytes.start..start) else { return self.position };
        let lines = memchr::memchr_iter(b'\n', between.as_bytes()).count();
        let last = between.rsplit('\n').next().unwrap_or_default().chars().count();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        match lines {
            0 => Position { column: self.position.column.saturating_add(count(last)), ..self.position },
            _ => Position { line: self.position.line.saturating_add(count(lines)), column: count(last + 1) },
        }
    }
}

/// How a text is written in YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Below `|`.
    Literal,
    /// Below `>`.
    Folded,
    /// `"…"`
    Double,
    /// `'…'`
    Single,
    Plain,
}

impl Origin {
    /// The places of `text`, which is the value that the YAML reader gave for `place`.
    pub fn of_text(yaml: &str, place: &TextPlace, text: &str) -> Origin {
        let mut origin = Origin::default();
        let (style, start) = style_and_start(yaml, place);
        let raw = yaml.get(start..place.bytes.end.max(start)).unwrap_or_default();
        match style {
            Style::Literal => origin.follow_lines(raw, start, text),
            _ => origin.follow(raw, start, text, style),
        }
        if origin.runs.is_empty() {
            origin.add(0, text.len(), start, raw.len());
        }
        origin
    }

    /// Records that the next piece of the text, which begins at `at`, comes from a piece of the file.
    pub fn add(&mut self, at: usize, length: usize, from: usize, from_length: usize) {
        match self.runs.last_mut() {
            Some(last)
                if last.length == last.from_length
                    && length == from_length
                    && last.at + last.length == at
                    && last.from + last.length == from =>
            {
                last.length += length;
                last.from_length += length;
            }
            _ => self.runs.push(Run { at, length, from, from_length }),
        }
    }

    /// Appends the places of another text, which begins at `at`.
    pub fn append(&mut self, at: usize, other: Origin) {
        for run in other.runs {
            self.add(at + run.at, run.length, run.from, run.from_length);
        }
    }

    /// The places of the text before a byte.
    pub fn before(&self, end: usize) -> Origin {
        let mut origin = Origin::default();
        for run in self.runs.iter().filter(|run| run.at < end) {
            let length = run.length.min(end - run.at);
            let from_length = if run.length == run.from_length { length } else { run.from_length };
            origin.add(run.at, length, run.from, from_length);
        }
        origin
    }

    /// The places of the text from the byte `start` on, counted from there.
    pub fn after(&self, start: usize) -> Origin {
        let mut origin = Origin::default();
        for run in self.runs.iter().filter(|run| run.at + run.length > start) {
            let skipped = start.saturating_sub(run.at);
            let (from, from_length) = match run.length == run.from_length {
                true => (run.from + skipped, run.from_length - skipped),
                false => (run.from, run.from_length),
            };
            origin.add((run.at + skipped) - start, run.length - skipped, from, from_length);
        }
        origin
    }

    /// The place in the file of a piece of the text. A piece that is not in the file has the nearest place before it.
    pub fn place(&self, range: Range<usize>) -> Range<usize> {
        let start = self.run_at(range.start).map_or(0, |run| run.place(range.start));
        if range.is_empty() {
            return start..start;
        }
        let last = range.end.saturating_sub(1);
        let end = self.run_at(last).map_or(start, |run| run.end_place(range.end));
        start..end.max(start)
    }

    /// The same, if the file contains exactly that piece.
    pub fn exact_place(&self, range: Range<usize>) -> Option<Range<usize>> {
        let run = self.run_at(range.start)?;
        let is_exact = run.length == run.from_length && range.end <= run.at + run.length;
        is_exact.then(|| run.place(range.start)..run.place(range.end))
    }

    fn run_at(&self, offset: usize) -> Option<&Run> {
        let after = self.runs.partition_point(|run| run.at <= offset);
        self.runs.get(after.saturating_sub(1))
    }

    /// For a literal block: its lines are the file's lines without their indentation.
    fn follow_lines(&mut self, raw: &str, start: usize, text: &str) {
        let lines = || text.split_inclusive('\n').zip(raw.split_inclusive('\n'));
        let indent = lines()
            .find(|(line, _)| !line.trim().is_empty())
            .map_or(0, |(line, raw)| raw.trim_end().len().saturating_sub(line.trim_end().len()));
        let (mut at, mut from) = (0, start);
        for (line, raw_line) in lines() {
            let indent = indent.min(raw_line.trim_end_matches(['\r', '\n']).len());
            let visible = line.trim_end_matches('\n').len();
            self.add(at, visible, from + indent, visible);
            self.add(at + visible, line.len() - visible, from + indent + visible, line.len() - visible);
            at += line.len();
            from += raw_line.len();
        }
    }

    /// For all other styles: white space may have been folded and characters escaped.
    fn follow(&mut self, raw: &str, start: usize, text: &str, style: Style) {
        let quotes = usize::from(matches!(style, Style::Double | Style::Single));
        let mut read = quotes;
        for (at, character) in text.char_indices() {
            if !character.is_whitespace() {
                read += folded(raw.get(read..).unwrap_or_default(), style);
            }
            let rest = raw.get(read..).unwrap_or_default();
            let written = match style {
                Style::Double if rest.starts_with('\\') => escape_length(rest),
                Style::Single if rest.starts_with("''") => 2,
                _ if rest.starts_with(character) => character.len_utf8(),
                _ => 0,
            };
            if written == 0 && !character.is_whitespace() {
                return;
            }
            self.add(at, character.len_utf8(), start + read, written);
            read += written;
        }
    }
}

impl Run {
    fn place(&self, offset: usize) -> usize {
        let within = offset.saturating_sub(self.at);
        match within < self.length && self.length != self.from_length {
            true => self.from,
            false => self.from + within.min(self.from_length),
        }
    }

    /// The end of a piece that ends in this run.
    fn end_place(&self, offset: usize) -> usize {
        match self.length == self.from_length {
            true => self.place(offset),
            false => self.from + self.from_length,
        }
    }
}

/// How a text is written, and where it begins.
fn style_and_start(yaml: &str, place: &TextPlace) -> (Style, usize) {
    let start = place.bytes.start;
    let between = yaml.get(place.after_key..start).unwrap_or_default();
    if let Some((header, _)) = between.split_once('\n') {
        let without_comment = header.split(" #").next().unwrap_or_default();
        let indicator = without_comment.split_whitespace().last().unwrap_or_default().trim_start_matches(':');
        let style = match indicator.chars().next() {
            Some('|') => Some(Style::Literal),
            Some('>') => Some(Style::Folded),
            _ => None,
        };
        if let Some(style) = style {
            return (style, place.after_key + header.len() + 1);
        }
    }
    let style = match yaml.get(start..).and_then(|rest| rest.chars().next()) {
        Some('"') => Style::Double,
        Some('\'') => Style::Single,
        _ => Style::Plain,
    };
    (style, start)
}

/// How many bytes before the next visible character only stand for a line break, or for nothing.
fn folded(raw: &str, style: Style) -> usize {
    let mut rest = raw;
    loop {
        rest = rest.trim_start();
        match rest.strip_prefix('\\') {
            Some(next) if style == Style::Double && next.starts_with(['\n', '\r']) => rest = next,
            _ => return raw.len() - rest.len(),
        }
    }
}

/// How long an escape is in double quotes.
fn escape_length(rest: &str) -> usize {
    let after = rest.chars().nth(1);
    let digits = match after {
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        _ => 0,
    };
    (1 + after.map_or(0, char::len_utf8) + digits).min(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use raymond_core::frontmatter::yaml::{Value, parse};

    use super::*;
    use crate::workflow::yaml_text::{block, quoted};

    /// The first text of a document, and where it comes from.
    fn first(yaml: &str) -> (String, Origin) {
        let Value::Map(fields) = parse(yaml).unwrap().value else { panic!("not a map: {yaml}") };
        let Value::Text(text) = &fields[0].node.value else { panic!("not a text: {yaml}") };
        (text.clone(), Origin::of_text(yaml, &TextPlace::of(&fields[0]), text))
    }

    #[test]
    fn a_word_is_found_where_it_stands_in_the_file() {
        let documents = [
            "a: |\n  one\n\n    two WORD x\n",
            "a: |2-\n\n   one\n  WORD",
            "a: | # why\r\n  one\r\n  two WORD\r\n",
            "a: >-\n  one\n  two\n\n  three WORD\n",
            "a: one two WORD",
            "a:\n  one\n  two\n\n  WORD x",
            "a: 'it''s one\n\n  two WORD'",
            "a: \"é\\t\\u00e9\\x41\\\\ \\\"\\\n   WORD\"",
            "a: &x !!str |\n   one\n   WORD\n",
            "a: \"| x\n   WORD\"\n",
        ];
        for yaml in documents {
            let (text, origin) = first(yaml);
            let at = text.find("WORD").unwrap();
            let expected = yaml.find("WORD").unwrap();
            assert_eq!(origin.place(at..at + 4), expected..expected + 4, "{yaml:?} is {text:?}");
            assert_eq!(origin.exact_place(at..at + 4), Some(expected..expected + 4), "{yaml:?}");
        }
    }

    #[test]
    fn what_is_escaped_has_a_place_but_no_exact_one() {
        let yaml = "a: \"x\\ty\"";
        let (text, origin) = first(yaml);
        assert_eq!(text, "x\ty");
        assert_eq!(origin.place(1..2), 5..7);
        assert_eq!(origin.place(0..3), 4..8);
        assert_eq!(origin.exact_place(0..3), None);
    }

    proptest! {
        #[test]
        fn every_text_keeps_its_places(text in "[a-c \"'\\\\#:|\n\tü]{0,40}", as_block in any::<bool>()) {
            let value = if as_block { block(&text, 0) } else { None }.unwrap_or_else(|| quoted(&text) + "\n");
            let yaml = format!("k: {value}");
            let (read, origin) = first(&yaml);
            prop_assert_eq!(&read, &text);
            for (at, character) in text.char_indices().filter(|(_, character)| character.is_alphabetic()) {
                let place = origin.place(at..at + character.len_utf8());
                prop_assert_eq!(yaml.get(place.clone()), text.get(at..at + character.len_utf8()), "{}: {:?}", at, place);
            }
        }
    }
}
