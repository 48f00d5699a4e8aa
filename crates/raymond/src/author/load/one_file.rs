//! The states of a one-file workflow as separate texts, with the place of each piece in the file.

use std::collections::HashMap;
use std::ops::Range;

use raymond_core::frontmatter::begins_with_settings;
use raymond_core::frontmatter::yaml::{Field, Node, Value};
use raymond_core::graph::SourceFile;
use raymond_core::workflow::source::SourceWarning;
use raymond_core::workflow::{Kind, StateFile};

use crate::author::convert::{Files, files_of, header_start};
use crate::workflow::scope::{Beside, Contents, Given, OneState, Origin, header_value, parse_leniently};
use crate::workflow::yaml_text::{key, one_line};

const FENCE: &str = "---\n";

/// The file that states were read from, and their places in it.
#[derive(Debug)]
pub struct Inside {
    /// The whole file, without a byte-order mark.
    pub yaml: String,
    origins: HashMap<StateFile, Origin>,
    /// The places of the states' names.
    names: HashMap<StateFile, Range<usize>>,
}

impl Inside {
    /// The states as they would be written in a folder, for people to read.
    pub fn readable(&self) -> Files {
        parse_leniently(&self.yaml).map(|(contents, _)| files_of(&self.yaml, &contents)).unwrap_or_default()
    }

    /// The place in the file of a piece of a state's text.
    pub fn place(&self, state: &StateFile, range: Range<usize>) -> Range<usize> {
        match self.names.get(state) {
            // A finding about the whole state is shown at its name.
            Some(name) if range == (0..0) => name.clone(),
            _ => self.origins.get(state).map_or(0..0, |origin| origin.place(range)),
        }
    }

    /// The same, if the file contains exactly that piece.
    pub fn exact_place(&self, state: &StateFile, range: Range<usize>) -> Option<Range<usize>> {
        self.origins.get(state)?.exact_place(range)
    }
}

/// Splits a file into its states.
pub fn states(yaml: String, contents: Contents) -> (Vec<SourceFile>, Inside) {
    let mut files = Vec::new();
    let (mut origins, mut names) = (HashMap::new(), HashMap::new());
    for (state, one) in contents.states {
        names.insert(state.clone(), one.name.clone());
        let (text, origin) = match state.kind() {
            Kind::Prompt => prompt(&yaml, one),
            kind => script(&yaml, kind, one),
        };
        origins.insert(state.clone(), origin);
        files.push(SourceFile { state, text });
    }
    for (name, bytes) in contents.files {
        let Some(state) = StateFile::new(&name) else { continue };
        let text = super::lossy(bytes);
        let place = contents.file_places.get(&name);
        let origin = place.map(|place| Origin::of_text(&yaml, place, &text)).unwrap_or_default();
        origins.insert(state.clone(), origin);
        files.push(SourceFile { state, text });
    }
    (files, Inside { yaml, origins, names })
}

/// Warnings about settings of scripts that cannot be written as a comment.
pub fn notices(contents: &Contents) -> Vec<SourceWarning> {
    let mut notices: Vec<SourceWarning> = Vec::new();
    for one in contents.states.values() {
        let Given::Beside { plan: Beside::Script(_), warnings, .. } = &one.given else { continue };
        let odd = one.fields.iter().filter(|field| as_directive(field).is_none());
        for field in odd {
            let own = warnings.iter().filter(|warning| warning.position == field.key_position);
            notices.extend(own.cloned());
        }
    }
    notices.sort_by_key(|notice| notice.position);
    notices.dedup();
    notices
}

fn prompt(yaml: &str, one: OneState) -> (String, Origin) {
    let body = Origin::of_text(yaml, &one.text_place, &one.text);
    if one.fields.is_empty() && !one.text.starts_with('\u{feff}') && !begins_with_settings(&one.text) {
        return (one.text, body);
    }
    let mut settings = Writer { yaml, text: FENCE.to_owned(), origin: Origin::default() };
    for field in &one.fields {
        settings.field(field);
        settings.text.push('\n');
    }
    let Writer { mut text, mut origin, .. } = settings;
    text.push_str(FENCE);
    origin.append(text.len(), body);
    text.push_str(&one.text);
    (text, origin)
}

/// A script with its settings as a comment.
fn script(yaml: &str, kind: Kind, one: OneState) -> (String, Origin) {
    let body = Origin::of_text(yaml, &one.text_place, &one.text);
    let directives: Vec<(&Field, String)> =
        one.fields.iter().filter_map(|field| Some((field, as_directive(field)?))).collect();
    if directives.is_empty() {
        return (one.text, body);
    }
    let start = header_start(kind, &one.text);
    let (above, below) = one.text.split_at(start);
    let marker = kind.comment_markers().first().copied().unwrap_or("#");
    let mut writer = Writer { yaml, text: format!("{above}{marker} raymond:"), origin: body.before(start) };
    for (field, value) in directives {
        writer.text.push(' ');
        writer.piece(&field.key, field.key_bytes.clone());
        writer.text.push('=');
        writer.piece(&value, field.node.bytes.clone());
    }
    let Writer { mut text, mut origin, .. } = writer;
    text.push('\n');
    origin.append(text.len(), body.after(start));
    text.push_str(below);
    (text, origin)
}

/// The value of a setting, if a comment can hold it.
fn as_directive(field: &Field) -> Option<String> {
    let value = header_value(field).ok()?;
    let fits = |text: &str| !text.contains([' ', '\t', '\n', '\r', ',', '=']);
    (fits(&field.key) && fits(&value)).then_some(value)
}

/// Writes settings in lines and remembers where they came from.
struct Writer<'y> {
    yaml: &'y str,
    text: String,
    origin: Origin,
}

impl Writer<'_> {
    fn field(&mut self, field: &Field) {
        match key(&field.key) {
            plain if plain == field.key => self.piece(&plain, field.key_bytes.clone()),
            quoted => self.quoted(&quoted, &field.key, field.key_bytes.clone()),
        }
        self.text.push_str(": ");
        self.node(&field.node);
    }

    fn node(&mut self, node: &Node) {
        let place = node.bytes.clone();
        match &node.value {
            Value::List(items) => {
                self.piece("[", place);
                for item in items {
                    self.node(item);
                    self.text.push_str(", ");
                }
                self.text.push(']');
            }
            Value::Map(fields) => {
                self.piece("{", place);
                for field in fields {
                    self.field(field);
                    self.text.push_str(", ");
                }
                self.text.push('}');
            }
            Value::Text(text) => self.quoted(&one_line(node), text, place),
            _ => self.piece(&one_line(node), place),
        }
    }

    /// A piece that comes from the file, written as it is there or in another way.
    fn piece(&mut self, piece: &str, place: Range<usize>) {
        self.origin.add(self.text.len(), piece.len(), place.start, place.len());
        self.text.push_str(piece);
    }

    /// A text in quotes, whether the file has them or not.
    fn quoted(&mut self, quoted: &str, text: &str, place: Range<usize>) {
        let raw = self.yaml.get(place.clone()).unwrap_or_default();
        let quotes = usize::from(raw.starts_with(['"', '\'']));
        let is_same = quoted.len() == text.len() + 2 && raw.get(quotes..quotes + text.len()) == Some(text);
        if !is_same {
            return self.piece(quoted, place);
        }
        self.piece("\"", place.start..place.start);
        self.piece(text, place.start + quotes..place.start + quotes + text.len());
        self.text.push('"');
    }
}
