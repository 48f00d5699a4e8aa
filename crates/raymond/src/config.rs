//! `.raymond/config.toml`: the settings for all runs of a project.

mod layers;

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use raymond_core::workflow::wording::{did_you_mean, nearest};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::agent::registry;
use crate::error::UserError;
use crate::files;
use crate::fleet::Address;
use crate::store::Durability;

pub use layers::Layers;

/// A config file with every setting commented out, for `--init-config`.
pub const TEMPLATE: &str = include_str!("config/template.toml");

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub raymond: Settings,
    pub backend: BTreeMap<String, BackendSettings>,
    /// What the tokens of models cost.
    pub prices: BTreeMap<String, PriceSettings>,
    /// Engines for runs on other machines, by the name that `--on` takes.
    pub engine: BTreeMap<String, EngineSettings>,
}

/// The file as it is read. The names of its tables have positions, for error messages.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConfigFile {
    raymond: Settings,
    backend: BTreeMap<Spanned<String>, BackendSettings>,
    prices: BTreeMap<String, PriceSettings>,
    engine: BTreeMap<Spanned<String>, EngineSettings>,
}

/// The table `[raymond]`.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub budget: Option<Dollars>,
    pub model: Option<String>,
    pub effort: Option<String>,
    /// One, or several with commas between them.
    #[serde(deserialize_with = "backends")]
    #[schemars(with = "Option<BackendNames>")]
    pub backend: Option<String>,
    pub timeout: Option<Timeout>,
    pub max_parallel: Option<std::num::NonZeroUsize>,
    pub max_parallel_scripts: Option<std::num::NonZeroUsize>,
    pub max_steps: Option<u64>,
    pub dangerously_skip_permissions: Option<bool>,
    pub on_ask: Option<OnAsk>,
    pub no_wait: Option<bool>,
    pub no_debug: Option<bool>,
    pub debug_steps: Option<usize>,
    pub verbose: Option<bool>,
    pub durability: Option<DurabilitySetting>,
    pub snapshots: Option<bool>,
    pub keep_segments: Option<u32>,
    pub workflow_paths: Vec<String>,
    pub cd_paths: Vec<String>,
    pub safe_folders: Vec<String>,
    pub notify: Option<String>,
}

/// A table `[backend.NAME]`.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackendSettings {
    /// Which program it is; its name if left out.
    #[serde(deserialize_with = "known_kind")]
    pub kind: Option<String>,
    pub command: Option<String>,
    pub args: Vec<String>,
    /// The arguments instead of `args` with which a program of the kind `command` continues a conversation.
    pub resume_args: Vec<String>,
    /// Whether a program of the kind `acp` can branch conversations.
    pub branches: bool,
    /// The model for prompts that choose none, and for those that come here because another backend cannot take them.
    pub model: Option<String>,
    /// What happens to a conversation that the program cannot branch.
    pub without_branch: Option<WithoutBranch>,
    /// Where the cost of its turns comes from; the program, or prices of tokens, if left out.
    pub cost: Option<CostSetting>,
    /// The file with the replies of a scripted backend.
    pub replies: Option<String>,
}

/// What happens to a conversation that a program cannot branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WithoutBranch {
    /// It is continued itself, so that a turn that is tried again may see half of its first try.
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostSetting {
    /// It is not known and not counted.
    None,
}

/// A table `[engine.NAME]`: where runs can be carried out by other machines.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineSettings {
    /// `temporal://HOST:PORT/NAMESPACE`
    pub url: String,
    /// The queue that its workers listen to.
    pub queue: Option<String>,
    /// Where machines leave files for each other: `file:///shared` or `s3://BUCKET/PATH`.
    pub blobs: Option<String>,
}

/// What a million tokens of a model cost: an entry of the table `[prices]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    pub input: Dollars,
    pub output: Dollars,
    pub cache_write: Option<Dollars>,
    /// Writing to a cache that is kept for an hour; twice the input if left out.
    pub cache_write_1h: Option<Dollars>,
    pub cache_read: Option<Dollars>,
    /// Another price for requests with a long prompt.
    pub long_prompt: Option<LongPromptSettings>,
}

/// What a million tokens cost in a request whose prompt is long.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongPromptSettings {
    /// How many tokens a prompt may have at the usual price.
    pub above: u64,
    pub input: Dollars,
    pub output: Dollars,
    pub cache_write: Option<Dollars>,
    pub cache_write_1h: Option<Dollars>,
    pub cache_read: Option<Dollars>,
}

/// An amount of money as written.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "f64")]
pub struct Dollars(pub f64);

impl TryFrom<f64> for Dollars {
    type Error = String;

    fn try_from(dollars: f64) -> Result<Self, String> {
        match dollars.is_finite() && dollars >= 0.0 {
            true => Ok(Self(dollars)),
            false => Err(format!(
                "an amount cannot be {dollars}; give dollars, such as 25.0, or 0 for none or no limit"
            )),
        }
    }
}

fn known_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let kind = String::deserialize(deserializer)?;
    match registry::is_kind(&kind) {
        true => Ok(Some(kind)),
        false => {
            let known = registry::known_kinds();
            Err(serde::de::Error::custom(format!("unknown kind `{kind}`; {known}")))
        }
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(untagged, expecting = "`backend` is the name of a backend, or a list of names")]
enum BackendNames {
    One(String),
    Several(Vec<String>),
}

/// Whether a name is missing in a list with commas.
pub fn lacks_a_name(list: &str) -> bool {
    list.split(',').any(|name| name.trim().is_empty())
}

fn backends<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let names = match BackendNames::deserialize(deserializer)? {
        BackendNames::One(names) => names,
        BackendNames::Several(names) => names.join(","),
    };
    match lacks_a_name(&names) {
        true => Err(serde::de::Error::custom("the name of a backend is missing")),
        false => Ok(Some(names)),
    }
}

/// What happens when a workflow asks a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAsk {
    /// Ask on this terminal
    Prompt,
    /// Keep running until a person answers
    Wait,
    /// Stop once nothing else is left to do
    Pause,
}

#[derive(Clone, Copy, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DurabilitySetting {
    Power,
    Process,
}

/// A time limit as written: `10m`, or `0` for none.
#[derive(Clone, Copy, Debug, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "TimeoutText")]
pub struct Timeout {
    pub milliseconds: u64,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(untagged, expecting = "a timeout is a duration such as \"10m\", or 0 for none")]
enum TimeoutText {
    Text(String),
    Number(u64),
}

impl TryFrom<TimeoutText> for Timeout {
    type Error = String;

    fn try_from(written: TimeoutText) -> Result<Self, String> {
        match written {
            TimeoutText::Text(text) => text.parse(),
            TimeoutText::Number(number) => number.to_string().parse(),
        }
    }
}

impl std::str::FromStr for Timeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = raymond_core::duration::parse(text).map_err(|error| error.to_string())?;
        Ok(Self { milliseconds: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) })
    }
}

impl Settings {
    pub fn durability(&self) -> Durability {
        match self.durability {
            None | Some(DurabilitySetting::Power) => Durability::Power,
            Some(DurabilitySetting::Process) => Durability::Process,
        }
    }
}

/// Whether an open config file may be used.
pub type Accept<'a> = &'a dyn Fn(&Path, &Metadata) -> Result<(), UserError>;

/// Reads the config file, if there is one.
pub fn load(file: &Path) -> Result<Config, UserError> {
    parse(file, &read(file, &|_, _| Ok(()))?)
}

/// The user's own settings, where no project's count.
pub fn load_own() -> Result<Config, UserError> {
    user_file().map_or_else(|| Ok(Config::default()), |file| load(&file))
}

/// The text of a config file; empty if there is none. The check is about the file that is open, because another one may
/// take its name at any moment.
fn read(file: &Path, accept: Accept<'_>) -> Result<String, UserError> {
    let cannot_read = |error| UserError::usage(format!("cannot read {}: {error}", file.display()));
    let open = match files::open_plain(file) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(cannot_read(error)),
    };
    accept(file, &open.metadata().map_err(cannot_read)?)?;
    files::read_open(open, files::MAX_SETTINGS_BYTES).and_then(files::text).map_err(cannot_read)
}

/// Finds every mistake, with its line.
fn parse(file: &Path, text: &str) -> Result<Config, UserError> {
    let config: ConfigFile = toml::from_str(text).map_err(|error| describe(file, text, &error))?;
    for (name, settings) in &config.backend {
        check_kind(file, text, name, settings)?;
    }
    for (name, settings) in &config.engine {
        Address::of_settings(settings).map_err(|error| {
            let place = place(line_at(text, name.span().start));
            UserError::usage(format!("{}{place}: {error}", file.display()))
        })?;
    }
    Ok(Config {
        raymond: config.raymond,
        backend: by_name(config.backend),
        prices: config.prices,
        engine: by_name(config.engine),
    })
}

fn by_name<T>(tables: BTreeMap<Spanned<String>, T>) -> BTreeMap<String, T> {
    tables.into_iter().map(|(name, settings)| (name.into_inner(), settings)).collect()
}

/// Tables are merged key by key; any other value replaces the one below it.
fn lay_over(below: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => lay_over(below, above),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}

/// The user's own config file, which holds for all projects.
pub fn user_file() -> Option<PathBuf> {
    user_folder("XDG_CONFIG_HOME", ".config", "APPDATA").map(|folder| folder.join("config.toml"))
}

/// Where Raymond keeps what it knows about the user's projects.
pub fn user_state_folder() -> Option<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA")
}

/// Where Raymond puts what it can make again.
pub fn user_cache_folder() -> Option<PathBuf> {
    user_folder("XDG_CACHE_HOME", ".cache", "LOCALAPPDATA")
}

/// Where Raymond keeps what is the user's own and must last.
pub fn user_data_folder() -> Option<PathBuf> {
    user_folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")
}

fn user_folder(variable: &str, below_home: &str, on_windows: &str) -> Option<PathBuf> {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = match cfg!(windows) {
        true => value(on_windows),
        false => value(variable)
            .filter(|folder| folder.is_absolute())
            // Where HOME is not set, the system knows the user's.
            .or_else(|| {
                std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(below_home))
            }),
    };
    folder.map(|folder| folder.join("raymond"))
}

/// A backend whose name is not a kind must set `kind`.
fn check_kind(
    file: &Path,
    text: &str,
    name: &Spanned<String>,
    settings: &BackendSettings,
) -> Result<(), UserError> {
    let place = place(line_at(text, name.span().start));
    if settings.kind.is_some() || registry::is_kind(name.get_ref()) {
        let checked = registry::program(name.get_ref(), settings).map(drop);
        return checked.map_err(|error| {
            let wrong = error.message.trim_start_matches("config: ");
            UserError::usage(format!("{}{place}: {wrong}", file.display()))
        });
    }
    let error = format!("{}{place}: the backend `{}` has no `kind`", file.display(), name.get_ref());
    Err(UserError::usage(error).hint(registry::known_kinds()))
}

fn line_at(text: &str, offset: usize) -> Option<usize> {
    text.get(..offset).map(|before| before.matches('\n').count() + 1)
}

fn place(line: Option<usize>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

fn describe(file: &Path, text: &str, error: &toml::de::Error) -> UserError {
    let line = error.span().and_then(|span| line_at(text, span.start));
    let place = place(line);
    let quoted =
        line.and_then(|line| text.lines().nth(line - 1)).map(|line| format!(", in `{}`", line.trim()));
    let message = with_suggestion(error.message().lines().next().unwrap_or("not valid TOML"));
    let (message, advice) = match message.split_once("; ") {
        Some((message, advice)) => (message, format!("; {advice}")),
        None => (message.as_str(), String::new()),
    };
    let quoted = quoted.unwrap_or_default();
    UserError::usage(format!("{}{place}: {message}{quoted}{advice}", file.display()))
        .hint("fix the file, or move it away to use the defaults")
}

/// Of an unknown key, says which one was probably meant instead of listing all.
fn with_suggestion(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    match names.next().filter(|_| message.starts_with("unknown field `")) {
        Some(unknown) => match did_you_mean(&nearest(unknown, names)) {
            meant if meant.is_empty() => in_plain_words(&message.replacen("field", "key", 1)),
            meant => format!("unknown key `{unknown}`{meant}"),
        },
        None => in_plain_words(message),
    }
}

/// The TOML reader names Rust types; users know tables, lists and numbers.
fn in_plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
        ("expected a nonzero usize", "expected a whole number from 1 on"),
        ("expected usize", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected a table"),
        ("expected struct Settings", "expected a table"),
        ("expected struct BackendSettings", "expected a table"),
        ("expected struct EngineSettings", "expected a table"),
        ("expected struct PriceSettings", "expected a table such as { input = 1.0, output = 4.0 }"),
    ];
    WORDS.iter().fold(message.to_owned(), |message, (theirs, ours)| message.replace(theirs, ours))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn load_text(text: &str) -> Result<Config, UserError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        fs::write(&file, text).unwrap();
        load(&file)
    }

    #[test]
    fn the_template_is_valid_with_its_comments_on_and_off() {
        load_text(TEMPLATE).unwrap();
        let without = |line: &'static str| line.strip_prefix('#').unwrap_or(line);
        let all: Vec<&str> = TEMPLATE.lines().collect();
        for number in 0..all.len() {
            let mut lines = all.clone();
            lines[number] = without(lines[number]);
            load_text(&lines.join("\n")).unwrap();
        }
        let uncommented = TEMPLATE.lines().map(without).collect::<Vec<_>>().join("\n");
        let config = load_text(&uncommented).unwrap();
        assert_eq!(config.raymond.budget, Some(Dollars(10.0)));
        assert_eq!(config.raymond.timeout.map(|timeout| timeout.milliseconds), Some(30 * 60 * 1000));
        assert_eq!(config.raymond.max_parallel.map(usize::from), Some(8));
        assert!(config.backend.contains_key(crate::agent::DEFAULT_BACKEND));
    }

    #[test]
    fn mistakes_name_the_line_and_quote_it() {
        let cases = [
            ("[raymond]\nbugdet = 5\n", "line 2", "bugdet"),
            ("[raymond]\nmodel = 3\n", "line 2", "model = 3"),
            ("[raymond]\n\nbudget = -1.0\n", "line 3", "budget"),
            ("[raymond]\ntimeout = \"soon\"\n", "line 2", "soon"),
            ("[raymond]\nmax_parallel = 0\n", "line 2", "max_parallel"),
            ("[raymond]\nmax_parallel_scripts = 0\n", "line 2", "max_parallel_scripts"),
            ("[raymond\n", "line 1", "[raymond"),
            ("[backend.x]\ncomand = \"y\"\n", "line 2", "comand"),
            ("[backend.x]\ncommand = \"y\"\nkind = \"z\"\n", "line 3", "unknown kind `z`"),
            ("[raymond]\n[backend.x]\ncommand = \"y\"\n[other]\n", "line 4", "other"),
            ("[raymond]\n[backend.x]\ncommand = \"y\"\n", "line 2", "`x` has no `kind`"),
            ("[raymond]\ntimeout = true\n", "line 2", "a timeout is a duration"),
            ("[raymond]\nbackend = 1\n", "line 2", "`backend` is the name of a backend"),
            ("[raymond]\nbackend = []\n", "line 2", "the name of a backend is missing"),
            ("[raymond]\nbackend = \"claude,\"\n", "line 2", "the name of a backend is missing"),
            ("[raymond]\nbudget = \"x\"\n", "line 2", "expected a number"),
            ("[raymond]\nmax_steps = -1\n", "line 2", "expected a whole number"),
            ("[raymond]\nverbose = 1\n", "line 2", "expected true or false"),
            ("[raymond]\nworkflow_paths = \"x\"\n", "line 2", "expected a list"),
            ("raymond = 1\n", "line 1", "expected a table"),
            ("backend = 1\n", "line 1", "expected a table"),
            ("[backend]\nx = 1\n", "line 2", "expected a table"),
            ("[raymond]\nkeep_segments = 1.5\n", "line 2", "expected a whole number"),
            ("[backend.mine]\nkind = \"command\"\n", "line 1", "needs a `command`"),
            ("[backend.claude]\nwithout_branch = \"yes\"\n", "line 2", "without_branch"),
            ("[backend.claude]\ncost = \"free\"\n", "line 2", "cost"),
            ("[prices]\nx = 1\n", "line 2", "expected a table"),
            ("[prices]\nx = { input = 1.0 }\n", "line 2", "output"),
            ("[prices]\nx = { input = -1.0, output = 1.0 }\n", "line 2", "amount"),
        ];
        for (text, line, quoted) in cases {
            let error = load_text(text).unwrap_err();
            assert_eq!(error.exit, crate::error::ExitKind::Usage);
            assert!(
                error.message.contains(line) && error.message.contains(quoted),
                "{text}: {}",
                error.message
            );
        }
    }
}
