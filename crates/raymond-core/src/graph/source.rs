//! The settings of a state's file, with their positions.

use std::ops::Range;

use crate::diagnostic::Lines;
use crate::frontmatter::yaml::{self, Field, Node, Value};
use crate::frontmatter::{self, Settings};
use crate::header::{self, Header};
use crate::policy::Entry;
use crate::workflow::StateFile;
use crate::workflow::source::Position;

/// The parts of a state's text.
#[derive(Clone, Debug)]
pub struct Source {
    /// The part that is sent or run: without the settings of a prompt.
    pub body: Range<usize>,
    pub settings: Told,
    /// Settings that are ignored.
    pub notices: Vec<Notice>,
    /// A block of settings that is not at the top, where it would count.
    pub misplaced: Option<Range<usize>>,
}

/// The settings, or why they are invalid.
#[derive(Clone, Debug)]
pub enum Told {
    Prompt(Box<PromptSettings>),
    Script(Header),
    Broken(Trouble),
}

/// A prompt's settings, with the positions that lint rules need.
#[derive(Clone, Debug, Default)]
pub struct PromptSettings {
    pub settings: Settings,
    /// The policy's entries in their order.
    pub entries: Vec<EntryPlaces>,
    /// The value of `effort`.
    pub effort: Range<usize>,
    /// The value of `model`.
    pub model: Range<usize>,
    /// The key `result_schema`.
    pub result_schema: Range<usize>,
}

/// The positions of a policy's entry and of the names in it.
#[derive(Clone, Debug)]
pub struct EntryPlaces {
    pub entry: Entry,
    pub range: Range<usize>,
    pub target: Range<usize>,
    pub return_to: Range<usize>,
    pub next: Range<usize>,
    pub timeout_next: Range<usize>,
}

/// Why settings are invalid.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub range: Range<usize>,
    pub message: String,
    /// Whether only `force_implicit` is wrong.
    pub is_force_implicit: bool,
}

/// A setting that is ignored.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The position of its name.
    pub range: Range<usize>,
    pub message: String,
    /// Whether it is a key of a policy's entry.
    pub is_in_entry: bool,
}

impl Source {
    pub fn read(state: &StateFile, text: &str) -> Source {
        if state.kind().is_prompt() { read_prompt(text) } else { read_script(state, text) }
    }

    pub fn prompt(&self) -> Option<&PromptSettings> {
        match &self.settings {
            Told::Prompt(prompt) => Some(prompt),
            Told::Script(_) | Told::Broken(_) => None,
        }
    }

    pub fn max_visits(&self) -> Option<u64> {
        match &self.settings {
            Told::Prompt(prompt) => prompt.settings.max_visits,
            Told::Script(header) => header.max_visits,
            Told::Broken(_) => None,
        }
    }
}

fn read_script(state: &StateFile, text: &str) -> Source {
    let places = Places::new(text, 0);
    let (settings, notices) = match header::parse(state.kind(), text) {
        Ok((header, warnings)) => {
            let notice = |warning: &crate::workflow::source::SourceWarning| Notice {
                range: places.word(warning.position),
                message: warning.message.clone(),
                is_in_entry: false,
            };
            (Told::Script(header), warnings.iter().map(notice).collect())
        }
        Err(error) => (
            Told::Broken(Trouble {
                range: places.setting(error.position),
                message: error.message,
                is_force_implicit: false,
            }),
            Vec::new(),
        ),
    };
    Source { body: 0..text.len(), settings, notices, misplaced: None }
}

fn read_prompt(text: &str) -> Source {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let visible = text.get(mark..).unwrap_or_default();
    let broken = |body, trouble| Source {
        body,
        settings: Told::Broken(trouble),
        notices: Vec::new(),
        misplaced: None,
    };
    let split = match frontmatter::split(visible) {
        Ok(None) => {
            let settings = Told::Prompt(Box::default());
            let misplaced = frontmatter::misplaced(visible);
            let misplaced = misplaced.map(|position| Places::new(text, 0).setting(position));
            return Source { body: mark..text.len(), settings, notices: Vec::new(), misplaced };
        }
        Ok(Some(split)) => split,
        Err(fault) => {
            let range = Places::new(text, 0).setting(fault.position);
            return broken(
                text.len()..text.len(),
                Trouble { range, message: fault.message, is_force_implicit: false },
            );
        }
    };
    let (block, start) = (split.block, mark + split.start);
    let body = text.len() - split.body.len()..text.len();
    let places = Places::new(block, start);
    match read_block(block, &places) {
        Ok((settings, notices)) => {
            Source { body, settings: Told::Prompt(Box::new(settings)), notices, misplaced: None }
        }
        Err(trouble) => broken(body, trouble),
    }
}

fn read_block(block: &str, places: &Places<'_>) -> Result<(PromptSettings, Vec<Notice>), Trouble> {
    let trouble = |fault: yaml::Fault, is_force_implicit| Trouble {
        range: places.setting(fault.position),
        message: fault.message,
        is_force_implicit,
    };
    let root = yaml::parse(block).map_err(|fault| trouble(fault, false))?;
    let fields: &[Field] = match &root.value {
        Value::Map(fields) => fields,
        Value::Null => &[],
        other => {
            let what = other.description();
            let message = format!("the `---` block must hold `key: value` lines, not {what}");
            return Err(Trouble { range: places.setting(root.position), message, is_force_implicit: false });
        }
    };
    let (settings, warnings) = frontmatter::read_settings(fields).map_err(|fault| {
        let others = fields.iter().filter(|field| field.key != "force_implicit");
        let is_force_implicit = frontmatter::read_settings(others).is_ok()
            && fields
                .iter()
                .any(|field| field.key == "force_implicit" && field.node.value == Value::Bool(true));
        trouble(fault, is_force_implicit)
    })?;
    let is_key = |position: Position| fields.iter().any(|field| field.key_position == position);
    let notices = warnings
        .into_iter()
        .map(|warning| Notice {
            range: places.word(warning.position),
            message: warning.message,
            is_in_entry: !is_key(warning.position),
        })
        .collect();
    let entries = entry_places(fields, &settings, places);
    let place = |key| field(fields, key).map(|field| places.value(&field.node)).unwrap_or_default();
    let (effort, model) = (place("effort"), place("model"));
    let schema = field(fields, "result_schema");
    let result_schema = schema.map(|field| places.word(field.key_position)).unwrap_or_default();
    Ok((PromptSettings { settings, entries, effort, model, result_schema }, notices))
}

fn field<'f>(fields: &'f [Field], key: &str) -> Option<&'f Field> {
    fields.iter().find(|field| field.key == key)
}

fn entry_places(fields: &[Field], settings: &Settings, places: &Places<'_>) -> Vec<EntryPlaces> {
    let Some(policy) = &settings.allowed_transitions else { return Vec::new() };
    let Some(Value::List(items)) = field(fields, "allowed_transitions").map(|field| &field.node.value) else {
        return Vec::new();
    };
    let places_of = |(entry, item): (&Entry, &Node)| {
        let fields: &[Field] = if let Value::Map(fields) = &item.value { fields } else { &[] };
        let place = |key| field(fields, key).map(|field| places.value(&field.node)).unwrap_or_default();
        let start = places.offset(item.position);
        let last = fields.iter().map(|field| places.value(&field.node).end).max().unwrap_or(start);
        EntryPlaces {
            entry: entry.clone(),
            range: start..last.max(start),
            target: place("target"),
            return_to: place("return"),
            next: place("next"),
            timeout_next: place("timeout_next"),
        }
    };
    policy.entries.iter().zip(items).map(places_of).collect()
}

/// Positions in a part of a text, as byte offsets in the whole text.
struct Places<'t> {
    part: &'t str,
    lines: Lines<'t>,
    start: usize,
}

impl<'t> Places<'t> {
    fn new(part: &'t str, start: usize) -> Places<'t> {
        Places { part, lines: Lines::new(part), start }
    }

    fn offset(&self, position: Position) -> usize {
        self.start + self.lines.offset(position)
    }

    fn rest(&self, position: Position) -> (usize, &'t str) {
        let offset = self.lines.offset(position);
        let rest = self.part.get(offset..).unwrap_or_default();
        (self.start + offset, rest.lines().next().unwrap_or_default())
    }

    /// The name at a position.
    fn word(&self, position: Position) -> Range<usize> {
        let (start, rest) = self.rest(position);
        let is_part = |character: &char| character.is_alphanumeric() || matches!(character, '_' | '-');
        let length: usize = rest.chars().take_while(is_part).map(char::len_utf8).sum();
        start..start + length.max(rest.chars().next().map_or(0, char::len_utf8))
    }

    /// From a position to the end of the line, or to the space before a comment.
    fn setting(&self, position: Position) -> Range<usize> {
        let (start, rest) = self.rest(position);
        start..start + rest.trim_end().len()
    }

    /// A value without its quotes.
    fn value(&self, node: &Node) -> Range<usize> {
        let (start, rest) = self.rest(node.position);
        let Value::Text(text) = &node.value else { return self.word(node.position) };
        let quotes = usize::from(rest.starts_with(['"', '\'']));
        match rest.get(quotes..).is_some_and(|rest| rest.starts_with(text.as_str())) {
            true => start + quotes..start + quotes + text.len(),
            false => start..start + rest.trim_end().len(),
        }
    }
}
