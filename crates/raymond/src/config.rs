//! `.raymond/config.toml`: what is chosen for all runs of a project.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::error::UserError;
use crate::store::Durability;

/// A config file with every setting commented out, for `--init-config`.
pub const TEMPLATE: &str = include_str!("config/template.toml");

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub raymond: Settings,
    pub backend: BTreeMap<String, BackendSettings>,
}

/// The table `[raymond]`.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub budget: Option<f64>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub backend: Option<String>,
    pub timeout: Option<Timeout>,
    pub max_parallel: Option<std::num::NonZeroUsize>,
    pub max_steps: Option<u64>,
    pub dangerously_skip_permissions: Option<bool>,
    pub on_ask: Option<OnAsk>,
    pub no_wait: Option<bool>,
    pub no_debug: Option<bool>,
    pub debug_steps: Option<usize>,
    pub verbose: Option<bool>,
    pub durability: Option<DurabilitySetting>,
    pub keep_segments: Option<u32>,
    pub workflow_paths: Vec<String>,
    pub notify: Option<String>,
}

/// A table `[backend.NAME]`.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackendSettings {
    /// Which program it is; its name if left out.
    pub kind: Option<String>,
    pub command: Option<String>,
    pub args: Vec<String>,
    /// The file with the replies of a scripted backend.
    pub replies: Option<String>,
}

/// What happens when a workflow asks a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAsk {
    /// Ask on this terminal
    Prompt,
    /// Stay until somebody answers
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
#[serde(untagged)]
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
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A bare number means seconds, as it does to most programs.
        let text = if is_number { format!("{text}s") } else { text.to_owned() };
        let duration = raymond_core::duration::parse(&text).map_err(|error| error.to_string())?;
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

/// Reads the config file, if there is one.
pub fn load(file: &Path) -> Result<Config, UserError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(error) => return Err(UserError::usage(format!("cannot read {}: {error}", file.display()))),
    };
    let config: Config = toml::from_str(&text).map_err(|error| describe(file, &text, &error))?;
    match config.raymond.budget {
        Some(budget) if !budget.is_finite() || budget < 0.0 => {
            let line = text
                .lines()
                .position(|line| line.trim_start().starts_with("budget"))
                .map_or(0, |line| line + 1);
            Err(UserError::usage(format!("{} line {line}: `budget` cannot be {budget}", file.display()))
                .hint("give dollars, such as 25.0; 0 is unlimited"))
        }
        _ => Ok(config),
    }
}

fn describe(file: &Path, text: &str, error: &toml::de::Error) -> UserError {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let place = line.map(|line| format!(" line {line}")).unwrap_or_default();
    let quoted =
        line.and_then(|line| text.lines().nth(line - 1)).map(|line| format!(", in `{}`", line.trim()));
    let message = error.message().lines().next().unwrap_or("not valid TOML");
    UserError::usage(format!("{}{place}: {message}{}", file.display(), quoted.unwrap_or_default()))
        .hint("mend the file, or move it away to use the defaults")
}

#[cfg(test)]
mod tests {
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
        let uncommented: String = TEMPLATE
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .flat_map(|line| [line, "\n"])
            .collect();
        let config = load_text(&uncommented).unwrap();
        assert_eq!(config.raymond.budget, Some(10.0));
        assert_eq!(config.raymond.timeout.map(|timeout| timeout.milliseconds), Some(30 * 60 * 1000));
        assert_eq!(config.raymond.max_parallel.map(usize::from), Some(8));
        assert!(config.backend.contains_key("claude"));
    }

    #[test]
    fn mistakes_name_the_line_and_quote_it() {
        let cases = [
            ("[raymond]\nbugdet = 5\n", "line 2", "bugdet"),
            ("[raymond]\nmodel = 3\n", "line 2", "model = 3"),
            ("[raymond]\n\nbudget = -1.0\n", "line 3", "budget"),
            ("[raymond]\ntimeout = \"soon\"\n", "line 2", "soon"),
            ("[raymond]\nmax_parallel = 0\n", "line 2", "max_parallel"),
            ("[raymond\n", "line 1", "[raymond"),
            ("[backend.x]\ncomand = \"y\"\n", "line 2", "comand"),
        ];
        for (text, line, quoted) in cases {
            let error = load_text(text).unwrap_err();
            assert_eq!(error.exit, crate::error::Exit::Usage);
            assert!(
                error.message.contains(line) && error.message.contains(quoted),
                "{text}: {}",
                error.message
            );
        }
    }
}
