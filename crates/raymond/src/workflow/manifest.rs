//! A workflow's own settings: the `workflow.yaml` of a folder or archive, or the top of a one-file workflow.

mod inputs;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use raymond_core::duration::Limit;
use raymond_core::frontmatter::yaml::{self, Fault, Field, Node, Value};
use raymond_core::frontmatter::{self, Settings};
use raymond_core::header::{self, Fatal};
use raymond_core::limits::MAX_WARNINGS;
use raymond_core::named_inputs::DeclaredInput;
use raymond_core::variable::{self, VariableError};
use raymond_core::workflow::Platform;
use raymond_core::workflow::source::{SourceError, SourceWarning};
use raymond_core::workflow::wording::{did_you_mean, nearest, quoted, quoted_list};

use crate::workflow::place::{in_text, line_of};
pub use inputs::INPUT_KEYS as NAMED_INPUT_KEYS;

/// The file's name.
pub const FILE: &str = "workflow.yaml";

/// A run's id begins with the workflow's, and is part of file names.
const MAX_ID_CHARS: usize = 40;

/// What a workflow says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// What the ids of its runs begin with.
    pub id: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub input: InputRule,
    /// Its named inputs, in the order of the file.
    pub inputs: Vec<DeclaredInput>,
    pub default_budget: Option<f64>,
    /// As written: relative to the folder of the workflow.
    pub working_directory: Option<String>,
    /// Added to the environment of every script and agent program.
    pub environment: BTreeMap<String, String>,
    /// Another workflow, from which it has the states that it does not have itself; as written.
    pub extends: Option<String>,
    pub backend: Option<String>,
    pub defaults: Defaults,
    /// How many agent programs may run at once in a run of this workflow, and how many scripts.
    pub max_parallel: Option<NonZeroUsize>,
    pub max_parallel_scripts: Option<NonZeroUsize>,
    /// Whether each finished step leaves a snapshot of its files, for runs that begin with it.
    pub snapshots: Option<bool>,
    /// When `serve` starts it, in cron's notation.
    pub schedule: Option<String>,
    /// The time zone of `schedule`, such as `Europe/Berlin`; nothing means UTC.
    pub schedule_timezone: Option<String>,
    /// Whether a run does not check first what the states declare.
    pub no_lint: bool,
    pub warnings: Vec<SourceWarning>,
}

/// What holds for the states of a workflow that do not set it themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    pub model: Option<String>,
    pub effort: Option<String>,
    pub timeout: Option<Limit>,
    pub max_time: Option<Limit>,
    pub fatal: Option<Fatal>,
    pub allow_tools: Option<Vec<String>>,
    pub deny_tools: Option<Vec<String>>,
    pub add_dirs: Option<Vec<String>>,
    pub mcp_config: Option<Vec<String>>,
    pub require_mcp: Option<bool>,
    pub permission_mode: Option<String>,
}

impl Manifest {
    /// This manifest with what `base`, the manifest of the workflow that it extends, has for states and it has not.
    /// What is about a workflow or a run as a whole is not taken over.
    pub fn extending(&self, base: &Manifest) -> Manifest {
        let mut merged = self.clone();
        merged.backend = merged.backend.or_else(|| base.backend.clone());
        merged.defaults = merged.defaults.or(&base.defaults);
        let is_new = |input: &&DeclaredInput| !self.inputs.iter().any(|own| own.name == input.name);
        merged.inputs.extend(base.inputs.iter().filter(is_new).cloned());
        for (name, value) in &base.environment {
            merged.environment.entry(name.clone()).or_insert_with(|| value.clone());
        }
        merged
    }
}

impl Defaults {
    /// These, and those of `base` where they are silent.
    pub fn or(self, base: &Defaults) -> Defaults {
        let base = base.clone();
        Defaults {
            model: self.model.or(base.model),
            effort: self.effort.or(base.effort),
            timeout: self.timeout.or(base.timeout),
            max_time: self.max_time.or(base.max_time),
            fatal: self.fatal.or(base.fatal),
            allow_tools: self.allow_tools.or(base.allow_tools),
            deny_tools: self.deny_tools.or(base.deny_tools),
            add_dirs: self.add_dirs.or(base.add_dirs),
            mcp_config: self.mcp_config.or(base.mcp_config),
            require_mcp: self.require_mcp.or(base.require_mcp),
            permission_mode: self.permission_mode.or(base.permission_mode),
        }
    }
}

/// The permission modes that a workflow may choose. Only its user may choose one that skips permissions.
pub const PERMISSION_MODES: [&str; 6] = ["default", "manual", "acceptEdits", "plan", "dontAsk", "auto"];

/// Which input a run needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputRule {
    pub mode: InputMode,
    pub label: Option<String>,
    pub description: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputMode {
    Required,
    #[default]
    Optional,
    None,
}

/// How a field is read into its place.
type Setter = fn(&mut Reader<'_>, &Field) -> Result<(), Fault>;

/// The table of keys, in the order of the documentation.
const KEYS: [(&str, Setter); 27] = [
    ("id", |reader, field| id(field).map(|id| reader.manifest.id = Some(id))),
    ("name", |reader, field| text(field).map(|text| reader.manifest.name = Some(text))),
    ("description", |reader, field| text(field).map(|text| reader.manifest.description = Some(text))),
    ("input", |reader, field| reader.read_input(field)),
    ("inputs", |reader, field| reader.read_inputs(field)),
    ("extends", |reader, field| text(field).map(|text| reader.manifest.extends = Some(text))),
    ("default_budget", |reader, field| {
        budget(field).map(|dollars| reader.manifest.default_budget = Some(dollars))
    }),
    ("working_directory", |reader, field| {
        text(field).map(|text| reader.manifest.working_directory = Some(text))
    }),
    ("environment", |reader, field| reader.read_environment(field)),
    ("backend", |reader, field| setting(field).map(|read| reader.manifest.backend = read.backend)),
    ("model", |reader, field| setting(field).map(|read| reader.manifest.defaults.model = read.model)),
    ("effort", |reader, field| setting(field).map(|read| reader.manifest.defaults.effort = read.effort)),
    ("timeout", |reader, field| setting(field).map(|read| reader.manifest.defaults.timeout = read.timeout)),
    ("max_time", |reader, field| {
        setting(field).map(|read| reader.manifest.defaults.max_time = read.max_time)
    }),
    ("max_parallel", |reader, field| number(field).map(|most| reader.manifest.max_parallel = Some(most))),
    ("max_parallel_scripts", |reader, field| {
        number(field).map(|most| reader.manifest.max_parallel_scripts = Some(most))
    }),
    ("snapshots", |reader, field| {
        inputs::flag(field).map(|snapshots| reader.manifest.snapshots = Some(snapshots))
    }),
    ("fatal", |reader, field| fatal(field).map(|fatal| reader.manifest.defaults.fatal = Some(fatal))),
    ("allow_tools", |reader, field| {
        setting(field).map(|read| reader.manifest.defaults.allow_tools = read.allow_tools)
    }),
    ("deny_tools", |reader, field| {
        setting(field).map(|read| reader.manifest.defaults.deny_tools = read.deny_tools)
    }),
    ("add_dirs", |reader, field| {
        setting(field).map(|read| reader.manifest.defaults.add_dirs = read.add_dirs)
    }),
    ("mcp_config", |reader, field| {
        setting(field).map(|read| reader.manifest.defaults.mcp_config = read.mcp_config)
    }),
    ("require_mcp", |reader, field| {
        setting(field).map(|read| reader.manifest.defaults.require_mcp = read.require_mcp)
    }),
    ("permission_mode", |reader, field| {
        permission_mode(field).map(|mode| reader.manifest.defaults.permission_mode = Some(mode))
    }),
    ("schedule", |reader, field| text(field).map(|text| reader.manifest.schedule = Some(text))),
    ("schedule_timezone", |reader, field| {
        text(field).map(|text| reader.manifest.schedule_timezone = Some(text))
    }),
    ("lint", |reader, field| switch(field).map(|is_on| reader.manifest.no_lint = !is_on)),
];

/// The names of all keys.
pub fn key_names() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().map(|(key, _)| key)
}

const INPUT_KEYS: [&str; 3] = ["mode", "label", "description"];

/// Reads a manifest file.
pub fn parse(text: &str) -> Result<Manifest, SourceError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let place = |fault| in_text(text, fault);
    let root = yaml::parse(text).map_err(place)?;
    match &root.value {
        Value::Null => Ok(Manifest::default()),
        Value::Map(fields) => {
            let mut manifest = read(text, fields).map_err(place)?;
            if let Some(states) = fields.iter().find(|field| field.key == "states") {
                manifest.warnings.retain(|warning| warning.position != states.key_position);
                let message = "`states` is ignored: the states of this workflow are its files".to_owned();
                manifest.warnings.push(SourceWarning { position: states.key_position, message });
            }
            Ok(manifest)
        }
        other => {
            let message = format!("a manifest holds `key: value` lines, not {}", other.description());
            Err(place(Fault::new(root.position, message)))
        }
    }
}

/// Reads the manifest from `fields`, which were read from `text`.
pub fn read<'f>(text: &str, fields: impl IntoIterator<Item = &'f Field>) -> Result<Manifest, Fault> {
    let mut reader = Reader { text, manifest: Manifest::default() };
    for field in fields {
        match KEYS.into_iter().find(|(key, _)| *key == field.key) {
            Some((_, set)) => set(&mut reader, field)?,
            None => reader.warn_of_key(field, "key", &KEYS.map(|(key, _)| key)),
        }
    }
    Ok(reader.manifest)
}

struct Reader<'t> {
    text: &'t str,
    manifest: Manifest,
}

impl Reader<'_> {
    fn warn_of_key(&mut self, field: &Field, what: &str, known: &[&'static str]) {
        if self.manifest.warnings.len() < MAX_WARNINGS {
            let meant = did_you_mean(&nearest(&field.key, known.iter().copied()));
            let message = format!("unknown {what} {} is ignored{meant}", quoted(&field.key));
            self.manifest.warnings.push(SourceWarning { position: field.key_position, message });
        }
    }

    fn read_input(&mut self, field: &Field) -> Result<(), Fault> {
        for part in mapping(field, "a mapping such as `{ mode: required, label: Topic }`")? {
            match part.key.as_str() {
                "mode" => self.manifest.input.mode = mode(part)?,
                "label" => self.manifest.input.label = Some(text(part)?),
                "description" => self.manifest.input.description = Some(text(part)?),
                _ => self.warn_of_key(part, "key of `input`", &INPUT_KEYS),
            }
        }
        Ok(())
    }

    fn read_environment(&mut self, field: &Field) -> Result<(), Fault> {
        for variable in mapping(field, "a mapping of names to values")? {
            let ignores_case = Platform::current() == Platform::Windows;
            variable::check_environment(&variable.key, ignores_case)
                .map_err(|error| Fault::new(variable.key_position, variable_problem(error)))?;
            let value = self.variable_value(variable)?;
            self.manifest.environment.insert(variable.key.clone(), value);
        }
        Ok(())
    }

    /// A whole number needs no quotes if it is written the way it is printed: `8080` does not, `007` does.
    fn variable_value(&self, variable: &Field) -> Result<String, Fault> {
        match &variable.node.value {
            Value::Text(text) if text.contains('\0') => {
                let message = format!("{} holds a NUL, which no variable can", quoted(&variable.key));
                Err(Fault::new(variable.node.position, message))
            }
            Value::Text(text) => Ok(text.clone()),
            Value::Bool(flag) => Ok(flag.to_string()),
            Value::Integer(number) if self.is_written_as(&variable.node, &number.to_string()) => {
                Ok(number.to_string())
            }
            _ => Err(wrong_type(variable, "text; put it in quotes")),
        }
    }

    fn is_written_as(&self, node: &Node, number: &str) -> bool {
        let column = usize::try_from(node.position.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let rest: String = line_of(self.text, node.position.line).chars().skip(column).collect();
        let after = rest.strip_prefix(number).map(|after| after.chars().next());
        after.is_some_and(|next| next.is_none_or(|next| !next.is_alphanumeric() && next != '_'))
    }
}

fn variable_problem(error: VariableError) -> String {
    match error {
        VariableError::Reserved { name } => {
            format!(
                "the variable {} changes how programs run and cannot be set by a workflow; use another name",
                quoted(&name)
            )
        }
        invalid => invalid.to_string(),
    }
}

fn mapping<'f>(field: &'f Field, wanted: &str) -> Result<&'f [Field], Fault> {
    match &field.node.value {
        Value::Map(fields) => Ok(fields),
        Value::Null => Ok(&[]),
        _ => Err(wrong_type(field, wanted)),
    }
}

fn text(field: &Field) -> Result<String, Fault> {
    match &field.node.value {
        Value::Text(text) if text.trim().is_empty() => {
            Err(Fault::new(field.node.position, format!("{} is empty", quoted(&field.key))))
        }
        Value::Text(text) if text.contains('\0') => {
            Err(Fault::new(field.node.position, format!("{} holds a NUL", quoted(&field.key))))
        }
        Value::Text(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
            Err(wrong_type(field, "text; put it in quotes"))
        }
        Value::Null | Value::List(_) | Value::Map(_) => Err(wrong_type(field, "text")),
    }
}

/// A setting that prompts have, too, read as theirs.
fn setting(field: &Field) -> Result<Settings, Fault> {
    frontmatter::read_settings([field]).map(|(settings, _)| settings)
}

fn number(field: &Field) -> Result<NonZeroUsize, Fault> {
    match field.node.value {
        Value::Integer(number) => usize::try_from(number).ok().and_then(NonZeroUsize::new).ok_or_else(|| {
            let message = format!("{} must be 1 or more, not {number}", quoted(&field.key));
            Fault::new(field.node.position, message)
        }),
        _ => Err(wrong_type(field, "a whole number from 1 on")),
    }
}

fn fatal(field: &Field) -> Result<Fatal, Fault> {
    header::fatal(&text(field)?).map_err(|message| Fault::new(field.node.position, message))
}

fn permission_mode(field: &Field) -> Result<String, Fault> {
    let mode = text(field)?;
    if PERMISSION_MODES.contains(&mode.as_str()) {
        return Ok(mode);
    }
    let message = match mode.to_ascii_lowercase().contains("bypass") {
        true => {
            "a workflow cannot skip permissions; start the run with `--dangerously-skip-permissions` for that"
                .to_owned()
        }
        false => format!(
            "{} is no `permission_mode` that a workflow may choose; there are {}",
            quoted(&mode),
            quoted_list(&PERMISSION_MODES, "and")
        ),
    };
    Err(Fault::new(field.node.position, message))
}

/// `on` and `off`, which YAML may also read as truth values.
fn switch(field: &Field) -> Result<bool, Fault> {
    match &field.node.value {
        Value::Bool(is_on) => Ok(*is_on),
        Value::Text(text) if text == "on" => Ok(true),
        Value::Text(text) if text == "off" => Ok(false),
        _ => Err(wrong_type(field, "`on` or `off`")),
    }
}

fn id(field: &Field) -> Result<String, Fault> {
    let id = text(field)?;
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if id.chars().all(plain) && !id.starts_with(['-', '.']) && id.len() <= MAX_ID_CHARS {
        return Ok(id);
    }
    let message = format!(
        "{} cannot be an `id`: use letters, digits, `-`, `_` and `.`, at most {MAX_ID_CHARS} of them, and begin with \
         a letter, a digit or `_`",
        quoted(&id)
    );
    Err(Fault::new(field.node.position, message))
}

fn budget(field: &Field) -> Result<f64, Fault> {
    match field.node.value {
        Value::Integer(dollars) if dollars >= 0 => Ok(dollars as f64),
        Value::Float(dollars) if dollars.is_finite() && dollars >= 0.0 => Ok(dollars),
        Value::Integer(_) | Value::Float(_) => {
            Err(Fault::new(field.node.position, "a budget is a number of dollars from 0 on"))
        }
        _ => Err(wrong_type(field, "a number of dollars")),
    }
}

fn mode(field: &Field) -> Result<InputMode, Fault> {
    let name = text(field)?;
    let modes =
        [("required", InputMode::Required), ("optional", InputMode::Optional), ("none", InputMode::None)];
    modes.into_iter().find(|(known, _)| *known == name).map(|(_, mode)| mode).ok_or_else(|| {
        let message = format!("{} is none of `required`, `optional` and `none`", quoted(&name));
        Fault::new(field.node.position, message)
    })
}

fn wrong_type(field: &Field, wanted: &str) -> Fault {
    let found = field.node.value.description();
    let (wanted, advice) = wanted.split_once(';').map_or((wanted, ""), |(wanted, advice)| (wanted, advice));
    let semicolon = if advice.is_empty() { "" } else { ";" };
    let message = format!("{} must be {wanted}, not {found}{semicolon}{advice}", quoted(&field.key));
    Fault::new(field.node.position, message)
}

#[cfg(test)]
mod tests {
    use raymond_core::named_inputs::InputKind;

    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = "id: demo\nname: Demo\ndescription: |\n  Long.\ninput: { mode: required, label: Topic, description: d }\n\
                    default_budget: 2.5\nworking_directory: ..\nextends: ../common\nenvironment:\n  PORT: 8080\n  MODE: fast\n  DEBUG: true\n\
                    backend: scripted\nmodel: haiku\neffort: low\ntimeout: 5m\nmax_time: 0\nmax_parallel: 2\n\
                    max_parallel_scripts: 3\nsnapshots: true\nfatal: agent\nallow_tools: [Read]\ndeny_tools: []\nadd_dirs: [..]\n\
                    mcp_config: m.json\nrequire_mcp: true\npermission_mode: plan\nschedule: \"0 3 * * *\"\nschedule_timezone: UTC\nlint: off\n";
        let manifest = parse(text).unwrap();
        let environment = [("DEBUG", "true"), ("MODE", "fast"), ("PORT", "8080")];
        let expected = Manifest {
            id: Some("demo".into()),
            name: Some("Demo".into()),
            description: Some("Long.\n".into()),
            input: InputRule {
                mode: InputMode::Required,
                label: Some("Topic".into()),
                description: Some("d".into()),
            },
            inputs: Vec::new(),
            extends: Some("../common".into()),
            default_budget: Some(2.5),
            working_directory: Some("..".into()),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            backend: Some("scripted".into()),
            defaults: Defaults {
                model: Some("haiku".into()),
                effort: Some("low".into()),
                timeout: Some(Limit::After(std::time::Duration::from_secs(300))),
                max_time: Some(Limit::Unlimited),
                fatal: Some(Fatal::Agent),
                allow_tools: Some(vec!["Read".into()]),
                deny_tools: Some(Vec::new()),
                add_dirs: Some(vec!["..".into()]),
                mcp_config: Some(vec!["m.json".into()]),
                require_mcp: Some(true),
                permission_mode: Some("plan".into()),
            },
            max_parallel: NonZeroUsize::new(2),
            max_parallel_scripts: NonZeroUsize::new(3),
            snapshots: Some(true),
            schedule: Some("0 3 * * *".into()),
            schedule_timezone: Some("UTC".into()),
            no_lint: true,
            warnings: Vec::new(),
        };
        assert_eq!(manifest, expected);
        assert_eq!(parse("").unwrap(), Manifest::default());
        assert_eq!(parse("\u{feff}# nothing\n").unwrap(), Manifest::default());
    }

    #[test]
    fn unknown_keys_are_warned_of() {
        let manifest = parse("nmae: x\ninput: { mod: none }\nstates: {}\n").unwrap();
        let warnings: Vec<String> = manifest.warnings.iter().map(SourceWarning::to_string).collect();
        assert_eq!(
            warnings,
            [
                "line 1, column 1: unknown key `nmae` is ignored; did you mean `name`?",
                "line 2, column 10: unknown key of `input` `mod` is ignored; did you mean `mode`?",
                "line 3, column 1: `states` is ignored: the states of this workflow are its files",
            ]
        );
    }

    #[test]
    fn mistakes_have_a_place() {
        let cases = [
            (
                "permission_mode: bypassPermissions",
                "line 1, column 18: a workflow cannot skip permissions; start the run with `--dangerously-skip-permissions` for that, in `permission_mode: bypassPermissions`",
            ),
            (
                "permission_mode: yolo",
                "line 1, column 18: `yolo` is no `permission_mode` that a workflow may choose; there are `default`, `manual`, `acceptEdits`, `plan`, `dontAsk` and `auto`, in `permission_mode: yolo`",
            ),
            (
                "max_parallel: 0",
                "line 1, column 15: `max_parallel` must be 1 or more, not 0, in `max_parallel: 0`",
            ),
            (
                "max_parallel_scripts: many",
                "line 1, column 23: `max_parallel_scripts` must be a whole number from 1 on, not text, in `max_parallel_scripts: many`",
            ),
            (
                "fatal: everything",
                "line 1, column 8: `everything` is neither `run` nor `agent` for `fatal`, in `fatal: everything`",
            ),
            (
                "timeout: 5",
                "line 1, column 10: `timeout` needs a unit; write `5s` for 5 seconds, in `timeout: 5`",
            ),
            (
                "id: 5",
                "line 1, column 5: `id` must be text, not a whole number; put it in quotes, in `id: 5`",
            ),
            ("x: 1\nname: ' '", "line 2, column 7: `name` is empty, in `name: ' '`"),
            (
                "default_budget: -1",
                "line 1, column 17: a budget is a number of dollars from 0 on, in `default_budget: -1`",
            ),
            (
                "default_budget: .nan",
                "line 1, column 17: a budget is a number of dollars from 0 on, in `default_budget: .nan`",
            ),
            (
                "default_budget: much",
                "line 1, column 17: `default_budget` must be a number of dollars, not text, in `default_budget: much`",
            ),
            (
                "input: { mode: maybe }",
                "line 1, column 16: `maybe` is none of `required`, `optional` and `none`, in `input: { mode: maybe }`",
            ),
            (
                "input: yes",
                "line 1, column 8: `input` must be a mapping such as `{ mode: required, label: Topic }`, not text, in `input: yes`",
            ),
            (
                "environment: { A: 007 }",
                "line 1, column 19: `A` must be text, not a number; put it in quotes, in `environment: { A: 007 }`",
            ),
            (
                "environment: { A: 1.10 }",
                "line 1, column 19: `A` must be text, not a number; put it in quotes, in `environment: { A: 1.10 }`",
            ),
            (
                "environment: { PATH: x }",
                "line 1, column 16: the variable `PATH` changes how programs run and cannot be set by a workflow; use another name, in `environment: { PATH: x }`",
            ),
            ("- a", "line 1, column 1: a manifest holds `key: value` lines, not a list, in `- a`"),
            ("a: [", "line 1, column 4: invalid YAML: unclosed bracket '[', in `a: [`"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(parse("id: a/b").unwrap_err().message.contains("cannot be an `id`"));
        assert!(parse("id: -b").unwrap_err().message.contains("cannot be an `id`"));
    }

    #[test]
    fn settings_for_states_are_taken_over_from_an_extended_workflow() {
        let own = parse("id: own\nmodel: opus\nenvironment: { A: own }\ninputs: { a: {} }\n").unwrap();
        let base = "id: base\nmodel: haiku\neffort: low\nmax_parallel: 2\nallow_tools: [Read]\n\
                    environment: { A: base, B: base }\ninputs: { a: { type: integer }, b: {} }\n";
        let merged = own.extending(&parse(base).unwrap());
        assert_eq!(merged.id.as_deref(), Some("own"));
        assert_eq!(merged.max_parallel, None);
        assert_eq!(merged.defaults.model.as_deref(), Some("opus"));
        assert_eq!(merged.defaults.effort.as_deref(), Some("low"));
        assert_eq!(merged.defaults.allow_tools, Some(vec!["Read".to_owned()]));
        assert_eq!(
            Vec::from_iter(merged.environment),
            [("A".into(), "own".into()), ("B".into(), "base".into())]
        );
        let names = merged.inputs.iter().map(|input| (input.name.as_str(), input.kind == InputKind::Integer));
        assert_eq!(Vec::from_iter(names), [("a", false), ("b", false)]);
    }
}
