//! Reading a one-file workflow.
//!
//! ```yaml
//! name: Demo                  # the manifest's keys
//! states:
//!   START:
//!     prompt: |               # the text of a prompt file
//!       …
//!     model: haiku            # and the keys of its frontmatter
//!   BUILD:
//!     sh: make                # a script for each platform
//!     bat: nmake
//!     retry: 3                # the settings of its header
//! files:                      # other files of the workflow, as they would be in a folder
//!   replies.yaml: |
//!     …
//!   logo.png: { base64: iVBORw0… }
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use raymond_core::frontmatter::yaml::{self, Fault, Field, Value};
use raymond_core::frontmatter::{self};
use raymond_core::header::{self, Header};
use raymond_core::limits::MAX_WARNINGS;
use raymond_core::workflow::source::{Position, SourceError, SourceWarning};
use raymond_core::workflow::wording::{did_you_mean, nearest, quoted, quoted_list};
use raymond_core::workflow::{Kind, Listing, StateFile};

use super::origin::TextPlace;
use crate::workflow::manifest::{self, Manifest};
use crate::workflow::place::in_text;
use crate::workflow::scope::source::Beside;
use crate::workflow::scope::{Given, file_and_folder, name_problem, path_problem};
use crate::workflow::yaml_text::keys_and_values;

/// Everything in the file.
#[derive(Debug, Default)]
pub struct Contents {
    pub manifest: Manifest,
    pub listing: Listing,
    pub states: BTreeMap<StateFile, OneState>,
    /// Other files by name. One that is named like a state is a state, with its settings in its text.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The manifest's keys.
    pub manifest_fields: Vec<Field>,
    /// Where states and files begin.
    pub first_line_below_manifest: u32,
    /// The places of the files that are text.
    pub file_places: BTreeMap<String, TextPlace>,
    /// The file itself, without a byte-order mark.
    pub yaml: Rc<str>,
}

/// The mistakes in a file that was read as far as possible.
#[derive(Debug, Default)]
pub struct Mistakes {
    /// In the settings of scripts. `Graph::read` checks those of prompts.
    pub in_settings: Vec<Fault>,
    pub others: Vec<Fault>,
}

/// One state.
#[derive(Debug)]
pub struct OneState {
    pub text: String,
    pub given: Given,
    /// The settings beside the text.
    pub fields: Vec<Field>,
    /// The line of the state's name, and that of its text's key.
    pub line: u32,
    pub text_line: u32,
    pub text_place: TextPlace,
    /// The bytes of its name in the file.
    pub name: Range<usize>,
}

/// Reads a one-file workflow; the error says where and what is wrong.
pub fn parse(text: &str) -> Result<Contents, SourceError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reading = Reading { yaml: text, contents: Contents::default(), mistakes: None };
    reading.read().map_err(|fault| in_text(text, fault))?;
    reading.contents.yaml = text.into();
    Ok(reading.contents)
}

/// Reads as much as possible, and returns the mistakes in the rest. The settings of prompts are not checked. `text` has
/// no byte-order mark.
pub fn parse_leniently(text: &str) -> Result<(Contents, Mistakes), Fault> {
    let mut reading =
        Reading { yaml: text, contents: Contents::default(), mistakes: Some(Mistakes::default()) };
    reading.read()?;
    Ok((reading.contents, reading.mistakes.unwrap_or_default()))
}

/// A file that is being read.
struct Reading<'y> {
    yaml: &'y str,
    contents: Contents,
    /// Where mistakes go, if they do not end the reading.
    mistakes: Option<Mistakes>,
}

impl Reading<'_> {
    /// The value that was read. A mistake ends the reading, or is recorded and replaced by the default value.
    fn settle<T: Default>(&mut self, read: Result<T, Fault>) -> Result<T, Fault> {
        match (read, &mut self.mistakes) {
            (Err(fault), Some(mistakes)) => {
                mistakes.others.push(fault);
                Ok(T::default())
            }
            (read, _) => read,
        }
    }

    fn read(&mut self) -> Result<(), Fault> {
        let root = yaml::parse(self.yaml)?;
        let fields = match root.value {
            Value::Map(fields) => fields,
            Value::Null => {
                return Err(Fault::new(root.position, "the file is empty; its states go under `states:`"));
            }
            other => {
                let message = format!(
                    "a one-file workflow holds `key: value` lines with its states under `states:`, not {}",
                    other.description()
                );
                return Err(Fault::new(root.position, message));
            }
        };
        self.contents.first_line_below_manifest = u32::MAX;
        for field in fields {
            match field.key.as_str() {
                "states" => self.read_states(&field)?,
                "files" => self.read_files(&field)?,
                _ => {
                    self.contents.manifest_fields.push(field);
                    continue;
                }
            }
            let line = &mut self.contents.first_line_below_manifest;
            *line = (*line).min(field.key_position.line);
        }
        let contents = &mut self.contents;
        let state_names = contents.states.keys().map(|state| state.as_str().to_owned());
        contents.listing = Listing::new(state_names.chain(contents.files.keys().cloned()));
        let has_mistakes = self.mistakes.as_ref().is_some_and(|mistakes| !mistakes.others.is_empty());
        if contents.listing.states().next().is_none() && !has_mistakes {
            return Err(no_states(contents, root.position));
        }
        let manifest = read_manifest(self.yaml, contents);
        self.contents.manifest = self.settle(manifest)?;
        Ok(())
    }

    fn read_states(&mut self, states: &Field) -> Result<(), Fault> {
        match &states.node.value {
            Value::Map(fields) => fields.iter().try_for_each(|field| {
                let read = self.read_state(field);
                self.settle(read)
            }),
            Value::Null => Ok(()),
            other => {
                let message =
                    format!("`states` must be a mapping of names to states, not {}", other.description());
                Err(Fault::new(states.node.position, message))
            }
        }
    }

    fn read_state(&mut self, state: &Field) -> Result<(), Fault> {
        check_state_name(state)?;
        let Value::Map(fields) = &state.node.value else {
            let message = format!(
                "the state {} must be a mapping with `prompt` or a script, not {}",
                quoted(&state.key),
                state.node.value.description()
            );
            return Err(Fault::new(state.node.position, message));
        };
        let prompt = fields.iter().find(|field| field.key == "prompt");
        let mut scripts =
            fields.iter().filter_map(|field| Some((script_kind(&field.key)?, field))).peekable();
        match (prompt, scripts.peek()) {
            (Some(_), Some((_, script))) => {
                let message = format!(
                    "the state {} has both `prompt` and {}; it is one or the other",
                    quoted(&state.key),
                    quoted(&script.key)
                );
                Err(Fault::new(script.key_position, message))
            }
            (Some(prompt), None) => self.read_prompt(state, fields, prompt),
            (None, Some(_)) => {
                scripts.try_for_each(|(kind, script)| self.read_script(state, fields, kind, script))
            }
            (None, None) => {
                let message = format!(
                    "the state {} has neither `prompt` nor a script (`sh`, `bat`, `ps1`, `py` or `js`)",
                    quoted(&state.key)
                );
                Err(Fault::new(state.key_position, message))
            }
        }
    }

    fn read_prompt(&mut self, state: &Field, fields: &[Field], prompt: &Field) -> Result<(), Fault> {
        let body = text(prompt)?;
        let beside: Vec<Field> = fields.iter().filter(|field| field.key != prompt.key).cloned().collect();
        let (settings, warnings) = match self.mistakes {
            None => frontmatter::read_settings(&beside)?,
            Some(_) => Default::default(),
        };
        let plan = Beside::Prompt(Box::new(settings));
        self.insert(state, prompt, Kind::Prompt, body, beside, plan, warnings)
    }

    fn read_script(
        &mut self,
        state: &Field,
        fields: &[Field],
        kind: Kind,
        script: &Field,
    ) -> Result<(), Fault> {
        let body = text(script)?;
        let mut beside: Vec<Field> =
            fields.iter().filter(|field| script_kind(&field.key).is_none()).cloned().collect();
        let (header, warnings) =
            match (read_header(self.yaml, kind, &body, script, &beside), &mut self.mistakes) {
                (Err(fault), Some(mistakes)) => {
                    // The scripts for several platforms share their settings and mistakes.
                    if !mistakes.in_settings.contains(&fault) {
                        mistakes.in_settings.push(fault);
                    }
                    beside.clear();
                    Default::default()
                }
                (read, _) => read?,
            };
        self.insert(state, script, kind, body, beside, Beside::Script(header), warnings)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "everything that one state consists of, put together in one place"
    )]
    fn insert(
        &mut self,
        state: &Field,
        text_field: &Field,
        kind: Kind,
        text: String,
        fields: Vec<Field>,
        plan: Beside,
        warnings: Vec<SourceWarning>,
    ) -> Result<(), Fault> {
        let file = format!("{}.{}", state.key, kind.extension());
        let Some(state_file) = StateFile::new(&file) else {
            return Err(Fault::new(state.key_position, format!("{} cannot be a state", quoted(&file))));
        };
        check_free(&self.contents, &file, state.key_position)?;
        // This text only serves to notice changes of the state during a run.
        let said = if self.mistakes.is_none() { keys_and_values(&fields) } else { String::new() };
        let given = Given::Beside { plan, text: said, warnings };
        let (line, text_line) = (state.key_position.line, text_field.key_position.line);
        let text_place = TextPlace::of(text_field);
        let name = state.key_bytes.clone();
        self.contents
            .states
            .insert(state_file, OneState { text, given, fields, line, text_line, text_place, name });
        Ok(())
    }

    fn read_files(&mut self, files: &Field) -> Result<(), Fault> {
        let fields = match &files.node.value {
            Value::Map(fields) => fields,
            Value::Null => return Ok(()),
            other => {
                let message =
                    format!("`files` must be a mapping of names to texts, not {}", other.description());
                return Err(Fault::new(files.node.position, message));
            }
        };
        for file in fields {
            let read = self.read_file(file);
            self.settle(read)?;
        }
        let names = self.contents.files.keys().map(String::as_str);
        match file_and_folder(names.chain(self.contents.states.keys().map(StateFile::as_str))) {
            Some(both) => {
                let message = format!("{} is a file and a folder at once", quoted(both));
                self.settle(Err(Fault::new(files.node.position, message)))
            }
            None => Ok(()),
        }
    }

    fn read_file(&mut self, file: &Field) -> Result<(), Fault> {
        if let Some(problem) = path_problem(&file.key) {
            let message = format!("{} cannot be the name of a file: it has {problem}", quoted(&file.key));
            return Err(Fault::new(file.key_position, message));
        }
        check_free(&self.contents, &file.key, file.key_position)?;
        let bytes = file_bytes(file)?;
        if matches!(file.node.value, Value::Text(_)) {
            self.contents.file_places.insert(file.key.clone(), TextPlace::of(file));
        }
        self.contents.files.insert(file.key.clone(), bytes);
        Ok(())
    }
}

fn read_manifest(text: &str, contents: &Contents) -> Result<Manifest, Fault> {
    let (misplaced, fields): (Vec<&Field>, Vec<&Field>) =
        contents.manifest_fields.iter().partition(|field| looks_like_a_state(field));
    let mut manifest = match (contents.files.get(manifest::FILE), fields.first()) {
        (Some(_), Some(field)) => {
            let message = format!(
                "{} is a setting of the workflow, but `{}` under `files` has those; keep one of them",
                quoted(&field.key),
                manifest::FILE
            );
            return Err(Fault::new(field.key_position, message));
        }
        (Some(file), None) => manifest::parse(&String::from_utf8_lossy(file)).map_err(|error| {
            Fault::new(error.position, format!("`{}` under `files`: {}", manifest::FILE, error.message))
        })?,
        (None, _) => manifest::read(text, fields)?,
    };
    for field in misplaced.into_iter().take(MAX_WARNINGS) {
        let message = format!(
            "{} is ignored: it looks like a state, and states go under `states:`",
            quoted(&field.key)
        );
        manifest.warnings.push(SourceWarning { position: field.key_position, message });
    }
    Ok(manifest)
}

fn no_states(contents: &Contents, start: Position) -> Fault {
    let misplaced: Vec<&Field> =
        contents.manifest_fields.iter().filter(|field| looks_like_a_state(field)).collect();
    let Some(first) = misplaced.first() else {
        return Fault::new(start, "there are no states; they go under `states:`");
    };
    const SHOWN: usize = 3;
    let names: Vec<&str> = misplaced.iter().take(SHOWN).map(|field| field.key.as_str()).collect();
    let message = format!(
        "there are no states under `states:`, but {} outside of it; states go below a line `states:`, indented",
        quoted_list(&names, "and")
    );
    Fault::new(first.key_position, message)
}

fn looks_like_a_state(field: &Field) -> bool {
    let is_text_key = |field: &Field| field.key == "prompt" || script_kind(&field.key).is_some();
    matches!(&field.node.value, Value::Map(fields) if fields.iter().any(is_text_key))
}

fn script_kind(key: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.is_script() && kind.extension() == key)
}

fn check_state_name(state: &Field) -> Result<(), Fault> {
    let problem = if Kind::of(&state.key).is_some() {
        "names a file; leave the extension out, the key of its text says what it is"
    } else if StateFile::new(&format!("{}.md", state.key)).is_none() || name_problem(&state.key).is_some() {
        "cannot be the name of a state"
    } else {
        return Ok(());
    };
    Err(Fault::new(state.key_position, format!("{} {problem}", quoted(&state.key))))
}

/// The settings from the keys and from the script's own comments, which mean the same here as in a file.
fn read_header(
    yaml: &str,
    kind: Kind,
    body: &str,
    script: &Field,
    beside: &[Field],
) -> Result<(Header, Vec<SourceWarning>), Fault> {
    let in_file = |position: Position| TextPlace::of(script).position_of(yaml, body, position);
    let (mut header, mut warnings) =
        header::parse(kind, body).map_err(|error| Fault::new(in_file(error.position), error.message))?;
    for warning in &mut warnings {
        warning.position = in_file(warning.position);
    }
    let in_comments = header::keys(kind, body);
    for field in beside {
        if in_comments.contains(&field.key.as_str()) {
            let message =
                format!("{} is also set in a comment of the script; keep one of them", quoted(&field.key));
            return Err(Fault::new(field.key_position, message));
        }
        let value = header_value(field)?;
        let is_known =
            header.set(&field.key, &value).map_err(|message| Fault::new(field.node.position, message))?;
        if !is_known {
            let meant = did_you_mean(&nearest(&field.key, header::setting_names()));
            let message = format!("unknown setting {} of a script is ignored{meant}", quoted(&field.key));
            warnings.push(SourceWarning { position: field.key_position, message });
        }
    }
    Ok((header, warnings))
}

/// The value of a script's setting as it would be written in its header. A value that no header can hold is an error for
/// known keys only; unknown ones are ignored anyway.
pub fn header_value(field: &Field) -> Result<String, Fault> {
    let is_known = Header::default().set(&field.key, "").map_or(true, |known| known);
    match &field.node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        other if is_known => {
            let message = format!("{} cannot be {}", quoted(&field.key), other.description());
            Err(Fault::new(field.node.position, message))
        }
        _ => Ok(String::new()),
    }
}

fn check_free(contents: &Contents, file: &str, position: Position) -> Result<(), Fault> {
    let is_state = StateFile::new(file).is_some_and(|state| contents.states.contains_key(&state));
    if is_state || contents.files.contains_key(file) {
        let message = format!("{} stands under `states` and under `files`; keep one of them", quoted(file));
        return Err(Fault::new(position, message));
    }
    Ok(())
}

fn file_bytes(file: &Field) -> Result<Vec<u8>, Fault> {
    match &file.node.value {
        Value::Text(text) => Ok(text.clone().into_bytes()),
        Value::Map(fields) => match fields.as_slice() {
            [Field { key, node, .. }] if key == "base64" => match &node.value {
                Value::Text(text) => {
                    let text: String = text.split_ascii_whitespace().collect();
                    BASE64_STANDARD
                        .decode(text)
                        .map_err(|error| Fault::new(node.position, format!("this is not base64: {error}")))
                }
                other => Err(Fault::new(
                    node.position,
                    format!("`base64` must be text, not {}", other.description()),
                )),
            },
            _ => Err(Fault::new(file.node.position, "a file is text, or `{ base64: … }`")),
        },
        other => {
            let message = format!("the file {} must be text, not {}", quoted(&file.key), other.description());
            Err(Fault::new(file.node.position, message))
        }
    }
}

fn text(field: &Field) -> Result<String, Fault> {
    match &field.node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
            let message = format!(
                "{} must be text, not {}; put it in quotes",
                quoted(&field.key),
                field.node.value.description()
            );
            Err(Fault::new(field.node.position, message))
        }
        other => {
            let message = format!("{} must be text, not {}", quoted(&field.key), other.description());
            Err(Fault::new(field.node.position, message))
        }
    }
}
