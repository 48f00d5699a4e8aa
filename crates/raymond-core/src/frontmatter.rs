//! The settings of a prompt: YAML between `---` lines at its top.
//!
//! Everything is checked before a turn is paid for, and every error has a line and a column of the file.

use crate::duration::Limit;
use crate::header;
use crate::limits::{MAX_FRONTMATTER_BYTES, MAX_WARNINGS};
use crate::policy::{self, Entry, Policy};
use crate::tag::{Attribute, TagName};
use crate::workflow::source::{Position, SourceError, SourceWarning, saturated};
use crate::workflow::wording::{did_you_mean, nearest, quoted};
use serde::{Deserialize, Serialize};

pub mod yaml;

use yaml::{Fault, Field, Node, Value};

/// Opens and closes the block, alone on its line.
const FENCE: &str = "---";

/// The parts of a prompt file.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt<'t> {
    pub settings: Settings,
    /// The text for the agent, before its placeholders are replaced.
    pub body: &'t str,
    pub warnings: Vec<SourceWarning>,
}

/// The settings of a prompt; defaults are added elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Without a policy everything is permitted.
    pub allowed_transitions: Option<Policy>,
    pub model: Option<String>,
    pub effort: Option<String>,
    /// Time without output.
    pub timeout: Option<Limit>,
    /// Time in all.
    pub max_time: Option<Limit>,
    pub max_visits: Option<u64>,
    /// Take the only transition without reading tags. If this is set, there is exactly one.
    pub force_implicit: bool,
    /// Whether a conversation may be begun anew with another backend, if its own is at its limit or missing.
    pub may_forget: bool,
    /// A name, or several with commas between them: the next where the first is missing or at its limit.
    pub backend: Option<String>,
    /// An empty list is a choice, too: then the workflow's own list does not count.
    pub allow_tools: Option<Vec<String>>,
    pub deny_tools: Option<Vec<String>>,
    pub add_dirs: Option<Vec<String>>,
    pub mcp_config: Option<Vec<String>>,
    /// Whether the turn fails if one of its tool servers does not start.
    pub require_mcp: Option<bool>,
    /// Steps with the same name never run at the same time.
    pub exclusive: Option<String>,
    pub result_schema: Option<ResultSchema>,
}

/// The JSON Schema that a prompt's result has to match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResultSchema {
    /// The schema itself.
    Inline(serde_json::Value),
    /// The name of a file of the workflow that holds it.
    File(String),
}

/// Where and why the settings cannot be understood.
pub type FrontmatterError = SourceError;

/// Reads a node into one of the settings.
type Setter = fn(&mut Reader, &Field) -> Result<(), Fault>;

/// The table of settings, in the order the documentation gives them.
const SETTINGS: [(&str, Setter); 16] = [
    ("allowed_transitions", Reader::read_policy),
    ("model", |reader, field| text(field).map(|text| reader.settings.model = Some(text))),
    ("effort", |reader, field| text(field).map(|text| reader.settings.effort = Some(text))),
    ("timeout", |reader, field| limit(field).map(|limit| reader.settings.timeout = Some(limit))),
    ("max_time", |reader, field| limit(field).map(|limit| reader.settings.max_time = Some(limit))),
    ("max_visits", |reader, field| max_visits(field).map(|visits| reader.settings.max_visits = Some(visits))),
    ("force_implicit", |reader, field| flag(field).map(|flag| reader.settings.force_implicit = flag)),
    ("backend", |reader, field| {
        let names = text_or_texts(field)?;
        if names.is_empty() {
            return Err(Fault::new(field.node.position, "`backend` names none; leave it out".to_owned()));
        }
        reader.settings.backend = Some(names.join(","));
        Ok(())
    }),
    ("may_forget", |reader, field| flag(field).map(|flag| reader.settings.may_forget = flag)),
    ("allow_tools", |reader, field| texts(field).map(|texts| reader.settings.allow_tools = Some(texts))),
    ("deny_tools", |reader, field| texts(field).map(|texts| reader.settings.deny_tools = Some(texts))),
    ("add_dirs", |reader, field| texts(field).map(|texts| reader.settings.add_dirs = Some(texts))),
    ("mcp_config", |reader, field| {
        text_or_texts(field).map(|texts| reader.settings.mcp_config = Some(texts))
    }),
    ("require_mcp", |reader, field| flag(field).map(|flag| reader.settings.require_mcp = Some(flag))),
    ("exclusive", |reader, field| exclusive(field).map(|name| reader.settings.exclusive = Some(name))),
    ("result_schema", |reader, field| {
        result_schema(field).map(|schema| reader.settings.result_schema = Some(schema))
    }),
];

/// The keys of a policy's entry.
pub(crate) fn entry_keys() -> impl Iterator<Item = &'static str> {
    ["tag", "target"].into_iter().chain(policy::constrained().map(Attribute::as_str))
}

/// The names of all settings.
pub fn setting_names() -> impl Iterator<Item = &'static str> {
    SETTINGS.into_iter().map(|(name, _)| name)
}

/// Splits a prompt file into settings and body; a file without a block has only a body.
pub fn split_and_parse(text: &str) -> Result<Prompt<'_>, FrontmatterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let in_file = |fault: Fault| SourceError {
        source_line: line_of(text, fault.position.line).to_owned(),
        position: fault.position,
        message: fault.message,
    };
    let Some(Split { line, block, body, .. }) = split(text).map_err(in_file)? else {
        let warnings =
            misplaced(text).map(|position| SourceWarning { position, message: MISPLACED.to_owned() });
        let warnings = warnings.into_iter().collect();
        return Ok(Prompt { settings: Settings::default(), body: text, warnings });
    };
    // The position of a node at the end of the block may be after the block; report the last line of the block then.
    let last_line = saturated(block.lines().count()).max(1);
    let below_fence = |position: Position| Position { line: position.line.min(last_line) + line, ..position };
    let shifted = |fault: Fault| in_file(Fault { position: below_fence(fault.position), ..fault });
    let (mut settings, mut warnings) = parse_block(block).map_err(shifted)?;
    for warning in &mut warnings {
        warning.position = below_fence(warning.position);
    }
    for entry in settings.allowed_transitions.iter_mut().flat_map(|policy| &mut policy.entries) {
        entry.line = below_fence(Position { line: entry.line, column: entry.column }).line;
    }
    Ok(Prompt { settings, body, warnings })
}

/// Reads settings from a mapping that has only such keys, as in the one-file form; positions are those of its nodes.
pub fn read_settings<'n>(
    fields: impl IntoIterator<Item = &'n Field>,
) -> Result<(Settings, Vec<SourceWarning>), Fault> {
    let mut reader = Reader::default();
    let mut forced_at = None;
    for field in fields {
        match SETTINGS.into_iter().find(|(key, _)| *key == field.key) {
            Some((_, set)) => set(&mut reader, field)?,
            None => reader.warn_of_key(field, "setting", SETTINGS.map(|(key, _)| key)),
        }
        if field.key == "force_implicit" {
            forced_at = Some(field.node.position);
        }
    }
    match forced_at {
        Some(position) if reader.settings.force_implicit => check_implicit(&reader.settings, position)?,
        _ => {}
    }
    Ok((reader.settings, reader.warnings))
}

/// A prompt file with a block of settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Split<'t> {
    /// The line of the opening fence.
    pub(crate) line: u32,
    /// Where the block begins, below that line, in bytes.
    pub(crate) start: usize,
    pub(crate) block: &'t str,
    /// The text below the closing fence.
    pub(crate) body: &'t str,
}

/// The block between the fences and the text after it, or `None` if the text does not begin with a fence. Blank lines
/// and one HTML comment may stand before it.
pub(crate) fn split(text: &str) -> Result<Option<Split<'_>>, Fault> {
    let before = before_fence(text);
    let (first, rest) = cut_line(text.get(before..).unwrap_or_default());
    if !is_fence(first) {
        return Ok(None);
    }
    // A text may begin with a blank line and a ruler, which is no block of settings.
    if before > 0 && !holds_keys(rest) {
        return Ok(None);
    }
    let line = saturated(text.get(..before).unwrap_or_default().matches('\n').count() + 1);
    let at_fence = Position { line, column: 1 };
    let mut body = rest;
    let mut block_length = 0;
    while !body.is_empty() {
        let (next, after) = cut_line(body);
        if is_fence(next) {
            let block = checked_length(rest.get(..block_length).unwrap_or_default(), at_fence)?;
            return Ok(Some(Split { line, start: text.len() - rest.len(), block, body: after }));
        }
        block_length += body.len() - after.len();
        body = after;
    }
    let message =
        "the `---` block is never closed; end it with another line `---`, or begin with something else";
    Err(Fault::new(at_fence, message))
}

/// Whether a line up to the next fence begins with a key.
fn holds_keys(rest: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_key =
        |line: &str| line.split_once(':').is_some_and(|(key, _)| !key.is_empty() && key.chars().all(is_part));
    rest.lines().take_while(|line| !is_fence(line)).any(is_key)
}

fn checked_length(block: &str, at_fence: Position) -> Result<&str, Fault> {
    if block.len() > MAX_FRONTMATTER_BYTES {
        let message = format!("the `---` block is longer than {MAX_FRONTMATTER_BYTES} bytes");
        return Err(Fault::new(at_fence, message));
    }
    Ok(block)
}

/// Whether a text would be read as if it began with settings.
pub fn begins_with_settings(text: &str) -> bool {
    !matches!(split(text.strip_prefix('\u{feff}').unwrap_or(text)), Ok(None))
}

/// The length of what may stand before the opening fence: blank lines, and one HTML comment.
fn before_fence(text: &str) -> usize {
    let blank = |from: usize| from + blank_lines(text.get(from..).unwrap_or_default());
    let start = blank(0);
    let rest = text.get(start..).unwrap_or_default();
    let Some(comment) = rest.strip_prefix("<!--") else { return start };
    let Some((_, after)) = comment.split_once("-->") else { return start };
    let (same_line, below) = cut_line(after);
    if same_line.trim().is_empty() { blank(text.len() - below.len()) } else { start }
}

/// The length of the blank lines at the start of a text.
fn blank_lines(text: &str) -> usize {
    let lines = text.split_inclusive('\n');
    lines.take_while(|line| line.ends_with('\n') && line.trim().is_empty()).map(str::len).sum()
}

/// What is wrong with settings that do not stand at the top.
pub(crate) const MISPLACED: &str = "this `---` block is not at the top of the file, so it is part of the prompt and \
                                    sets nothing; move it to the first line";
/// Keys that mean nothing in the front matter of other programs.
const OWN_KEYS: [&str; 3] = ["allowed_transitions", "force_implicit", "max_visits"];

/// The first `---` line of a block further down that looks like settings of a prompt. A block in a code fence is only
/// shown.
pub(crate) fn misplaced(text: &str) -> Option<Position> {
    let mut opened: Option<u32> = None;
    let mut has_own_key = false;
    let mut code: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (code, mark) {
            (None, Some(mark)) => code = Some(mark),
            (Some(open), Some(mark)) if open == mark => code = None,
            (Some(_), _) => {}
            (None, None) if is_fence(line) => {
                if let Some(line) = opened.filter(|_| has_own_key) {
                    return Some(Position { line, column: 1 });
                }
                (opened, has_own_key) = (Some(saturated(number + 1)), false);
            }
            (None, None) => {
                let key = line.split_once(':').map(|(key, _)| key);
                has_own_key |= key.is_some_and(|key| OWN_KEYS.contains(&key.trim_end()));
            }
        }
    }
    None
}

/// The first line without its end, and everything after it.
fn cut_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches([' ', '\t', '\r']) == FENCE
}

fn line_of(text: &str, number: u32) -> &str {
    let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    text.lines().nth(index).unwrap_or_default()
}

fn parse_block(block: &str) -> Result<(Settings, Vec<SourceWarning>), Fault> {
    let root = yaml::parse(block)?;
    match &root.value {
        Value::Null => Ok((Settings::default(), Vec::new())),
        Value::Map(fields) => read_settings(fields),
        other => {
            let message =
                format!("the `---` block must hold `key: value` lines, not {}", other.description());
            Err(Fault::new(root.position, message))
        }
    }
}

fn check_implicit(settings: &Settings, position: Position) -> Result<(), Fault> {
    if settings.allowed_transitions.as_ref().and_then(Policy::implicit).is_some() {
        return Ok(());
    }
    let message = "`force_implicit` needs `allowed_transitions` with exactly one entry that leaves nothing open and is \
                   neither `result` nor `ask`";
    Err(Fault::new(position, message))
}

#[derive(Default)]
struct Reader {
    settings: Settings,
    warnings: Vec<SourceWarning>,
}

impl Reader {
    fn warn_of_key(&mut self, field: &Field, what: &str, known: impl IntoIterator<Item = &'static str>) {
        if self.warnings.len() < MAX_WARNINGS {
            let meant = did_you_mean(&nearest(&field.key, known));
            let message = format!("unknown {what} {} is ignored{meant}", quoted(&field.key));
            self.warnings.push(SourceWarning { position: field.key_position, message });
        }
    }

    fn read_policy(&mut self, field: &Field) -> Result<(), Fault> {
        let Value::List(items) = &field.node.value else {
            return Err(wrong_type(field, "a list of entries such as `{ tag: goto, target: REVIEW }`"));
        };
        if items.is_empty() {
            let message =
                "`allowed_transitions` permits nothing; add an entry, or leave it out to permit everything";
            return Err(Fault::new(field.node.position, message));
        }
        let entries = items.iter().map(|item| self.read_entry(item)).collect::<Result<_, _>>()?;
        self.settings.allowed_transitions = Some(Policy { entries });
        Ok(())
    }

    fn read_entry(&mut self, item: &Node) -> Result<Entry, Fault> {
        let Value::Map(fields) = &item.value else {
            let message = format!(
                "an entry must be a mapping such as `{{ tag: result }}`, not {}",
                item.value.description()
            );
            return Err(Fault::new(item.position, message));
        };
        let Some(tag_field) = fields.iter().find(|field| field.key == "tag") else {
            return Err(Fault::new(item.position, "the entry has no `tag`"));
        };
        let tag = transition(tag_field)?;
        let Position { line, column } = item.position;
        let mut entry = Entry { line, column, ..Entry::of(tag) };
        for field in fields {
            self.read_entry_field(&mut entry, field)?;
        }
        Ok(entry)
    }

    fn read_entry_field(&mut self, entry: &mut Entry, field: &Field) -> Result<(), Fault> {
        let tag = entry.tag;
        let (place, is_taken) = match field.key.as_str() {
            "tag" => return Ok(()),
            "target" => (Some(&mut entry.target), tag.has_target()),
            key => match Attribute::from_name(key) {
                Some(attribute) => (entry.named_mut(attribute), tag.takes(attribute)),
                None => (None, false),
            },
        };
        let Some(place) = place else {
            self.warn_of_key(field, "key", entry_keys());
            return Ok(());
        };
        if !is_taken {
            let message = format!("`{tag}` has no `{}`, so the entry could never match", field.key);
            return Err(Fault::new(field.key_position, message));
        }
        *place = Some(text(field)?.trim().to_owned());
        Ok(())
    }
}

fn transition(field: &Field) -> Result<TagName, Fault> {
    let name = text(field)?;
    let message = match TagName::from_name(&name) {
        Some(tag) if tag.is_transition() => return Ok(tag),
        Some(tag) => format!("`{tag}` is not a transition and is always permitted; remove the entry"),
        None => {
            let meant = did_you_mean(&nearest(&name, TagName::transitions().map(TagName::as_str)));
            format!("unknown tag {}{meant}", quoted(&name))
        }
    };
    Err(Fault::new(field.node.position, message))
}

fn text(field: &Field) -> Result<String, Fault> {
    match &field.node.value {
        Value::Text(text) => checked_text(field, &field.node, text),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
            let mut fault = wrong_type(field, "text");
            fault.message.push_str("; put it in quotes");
            Err(fault)
        }
        Value::Null | Value::List(_) | Value::Map(_) => Err(wrong_type(field, "text")),
    }
}

/// Such texts become names or arguments of programs, which must not contain control characters.
fn checked_text(field: &Field, node: &Node, text: &str) -> Result<String, Fault> {
    let problem = if text.trim().is_empty() {
        "is empty"
    } else if text.contains(char::is_control) {
        "holds control characters"
    } else {
        return Ok(text.to_owned());
    };
    Err(Fault::new(node.position, format!("a value of {} {problem}", quoted(&field.key))))
}

fn texts(field: &Field) -> Result<Vec<String>, Fault> {
    let Value::List(items) = &field.node.value else {
        return Err(wrong_type(field, "a list of texts such as `[ \"first\", \"second\" ]`"));
    };
    let read = |item: &Node| match &item.value {
        Value::Text(text) => checked_text(field, item, text),
        other => {
            let message = format!("{} must hold texts, not {}", quoted(&field.key), other.description());
            Err(Fault::new(item.position, message))
        }
    };
    items.iter().map(read).collect()
}

fn text_or_texts(field: &Field) -> Result<Vec<String>, Fault> {
    match &field.node.value {
        Value::List(_) => texts(field),
        _ => text(field).map(|text| vec![text]),
    }
}

fn flag(field: &Field) -> Result<bool, Fault> {
    match field.node.value {
        Value::Bool(flag) => Ok(flag),
        _ => Err(wrong_type(field, "`true` or `false`")),
    }
}

fn exclusive(field: &Field) -> Result<String, Fault> {
    header::exclusive_name(text(field)?.trim()).map_err(|message| Fault::new(field.node.position, message))
}

fn result_schema(field: &Field) -> Result<ResultSchema, Fault> {
    match &field.node.value {
        Value::Map(_) => field.node.to_json().map(ResultSchema::Inline),
        Value::Text(_) => text(field).map(|file| ResultSchema::File(file.trim().to_owned())),
        _ => Err(wrong_type(field, "a JSON Schema, or the name of a file of the workflow that holds one")),
    }
}

fn max_visits(field: &Field) -> Result<u64, Fault> {
    let Value::Integer(visits) = field.node.value else {
        return Err(wrong_type(field, "a whole number from 1 on"));
    };
    u64::try_from(visits).ok().filter(|visits| *visits > 0).ok_or_else(|| {
        Fault::new(field.node.position, format!("`max_visits` must be 1 or more, not {visits}"))
    })
}

fn limit(field: &Field) -> Result<Limit, Fault> {
    let key = &field.key;
    let message = match &field.node.value {
        Value::Integer(0) => return Ok(Limit::Unlimited),
        Value::Integer(number) => format!("`{key}` needs a unit; write `{number}s` for {number} seconds"),
        Value::Text(text) => match Limit::parse(text) {
            Ok(limit) => return Ok(limit),
            Err(error) => format!("`{key}`: {error}"),
        },
        _ => return Err(wrong_type(field, "a duration such as `30s`")),
    };
    Err(Fault::new(field.node.position, message))
}

fn wrong_type(field: &Field, wanted: &str) -> Fault {
    let found = field.node.value.description();
    Fault::new(field.node.position, format!("{} must be {wanted}, not {found}", quoted(&field.key)))
}

#[cfg(test)]
mod tests;
