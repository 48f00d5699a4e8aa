//! The meta file of an attempt: its command, working folder, environment, ending and cost.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::money::Usd;
use serde::{Deserialize, Serialize};

use super::StepName;
use crate::process::secrets::{HIDDEN, Secrets, is_secret};
use crate::process::{Ending, ProcessExit, ProgramSpec, TOKEN_VARIABLE};
use crate::run::driver::now;

/// Payloads are passed in variables. They are kept elsewhere and would only make meta files large.
const MOST_VALUE_BYTES: usize = 4096;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Succeeded,
    Failed,
    /// Ended because the run stops.
    Interrupted,
}

/// What is known about an attempt after its output was read.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub status: Status,
    pub error: Option<String>,
    pub cost_usd: Usd,
}

/// The attempt, and when it started.
#[derive(Debug, Serialize)]
pub(super) struct Attempt {
    agent: String,
    state: String,
    step: u64,
    attempt: u32,
    started_at: Timestamp,
}

impl Attempt {
    pub(super) fn new(name: &StepName<'_>) -> Self {
        Self {
            agent: name.agent.to_string(),
            state: name.state.to_string(),
            step: name.step,
            attempt: name.attempt,
            started_at: now(),
        }
    }
}

/// Environment variables, with secrets replaced and long values cut.
#[derive(Debug, Default)]
pub(super) struct Environment {
    shown: BTreeMap<String, String>,
    secrets: Secrets,
}

impl Environment {
    pub(super) fn inherited(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let variables: Vec<(OsString, OsString)> = variables.into_iter().collect();
        let secrets = Secrets::of(variables.iter().map(|(name, value)| (name, value)));
        let shown = variables.into_iter().map(|(name, value)| {
            let name = name.to_string_lossy().into_owned();
            let value = shown(&name, &value.to_string_lossy(), &secrets);
            (name, value)
        });
        Self { shown: shown.collect(), secrets }
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }
}

/// The program that was started, with its arguments and where it ran.
#[derive(Debug)]
pub(super) struct Invocation {
    command: Vec<String>,
    cwd: String,
    /// The variables that differ from the inherited ones; one without a value is removed.
    changes: Vec<(String, Option<String>)>,
    /// What no record of the program may show.
    secrets: Secrets,
}

impl Invocation {
    pub(super) fn new(spec: &ProgramSpec, inherited: &Environment) -> Self {
        let text = |part: &OsString| part.to_string_lossy().into_owned();
        let set = spec.env.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let secrets = inherited.secrets.joined(&Secrets::of(set));
        let changes = spec.env.iter().map(|(name, value)| {
            let name = text(name);
            let value = value.as_ref().map(|value| shown(&name, &value.to_string_lossy(), &secrets));
            (name, value)
        });
        // The process module adds the token when it starts the program.
        let token = (TOKEN_VARIABLE.to_owned(), Some(HIDDEN.to_owned()));
        let command = [&spec.program].into_iter().chain(&spec.args).map(text);
        Self {
            command: command.map(|part| secrets.hide(part)).collect(),
            cwd: spec.cwd.to_string_lossy().into_owned(),
            changes: changes.chain([token]).collect(),
            secrets,
        }
    }
}

/// How the program ended.
#[derive(Debug, Serialize)]
pub(super) struct ProgramEnd {
    ending: &'static str,
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
}

impl ProgramEnd {
    pub(super) fn new(ending: &Ending) -> Self {
        let (exit_code, signal) = match ending {
            Ending::Exited(ProcessExit::Code(code)) => (Some(*code), None),
            Ending::Exited(ProcessExit::Signal(signal)) => (None, Some(*signal)),
            Ending::Exited(ProcessExit::Unknown)
            | Ending::IdleTimeout
            | Ending::TotalTimeout
            | Ending::Aborted
            | Ending::Lingered
            | Ending::Stopped
            | Ending::SpawnFailed(_) => (None, None),
        };
        Self { ending: named(ending), exit_code, signal }
    }

    const NOT_STARTED: ProgramEnd = ProgramEnd { ending: "not_started", exit_code: None, signal: None };
}

fn named(ending: &Ending) -> &'static str {
    match ending {
        Ending::Exited(ProcessExit::Signal(_)) => "signal",
        Ending::Exited(_) => "exited",
        Ending::IdleTimeout => "idle_timeout",
        Ending::TotalTimeout => "total_timeout",
        Ending::Aborted => "aborted",
        Ending::Lingered => "lingered",
        Ending::Stopped => "stopped",
        Ending::SpawnFailed(_) => ProgramEnd::NOT_STARTED.ending,
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    attempt: &'a Attempt,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(flatten)]
    ended: &'a ProgramEnd,
    duration_ms: u64,
    cost_usd: Usd,
    /// Pieces of values that the prompt has in another form, as they were.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    changed_values: &'a [String],
    command: &'a [String],
    cwd: Option<&'a str>,
    environment: BTreeMap<&'a str, &'a str>,
}

pub(super) fn text(
    attempt: &Attempt,
    program: Option<&Invocation>,
    changed_values: &[String],
    ended: Option<&ProgramEnd>,
    inherited: &Environment,
    verdict: &Verdict,
    duration: Duration,
) -> String {
    let secrets = program.map_or(&inherited.secrets, |program| &program.secrets);
    let changed_values: Vec<String> =
        changed_values.iter().cloned().map(|value| secrets.hide(value)).collect();
    let error = verdict.error.clone().map(|error| secrets.hide(error));
    let document = Document {
        attempt,
        status: verdict.status,
        error: error.as_deref(),
        ended: ended.unwrap_or(&ProgramEnd::NOT_STARTED),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        cost_usd: verdict.cost_usd,
        changed_values: &changed_values,
        command: program.map_or(&[], |program| &program.command),
        cwd: program.map(|program| program.cwd.as_str()),
        environment: program.map(|program| environment_of(inherited, program)).unwrap_or_default(),
    };
    // This cannot fail: the document has only text, numbers and lists of them.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn environment_of<'a>(inherited: &'a Environment, program: &'a Invocation) -> BTreeMap<&'a str, &'a str> {
    let mut variables: BTreeMap<&str, &str> =
        inherited.shown.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (name, value) in &program.changes {
        match value {
            Some(value) => variables.insert(name, value),
            None => variables.remove(name.as_str()),
        };
    }
    variables
}

/// Whether a meta file says that its attempt failed.
pub(super) fn says_failed(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct StatusOnly {
        status: Status,
    }
    serde_json::from_slice::<StatusOnly>(bytes).is_ok_and(|meta| meta.status == Status::Failed)
}

/// The value of a variable, replaced if it is a secret, without others, and cut if it is long.
fn shown(name: &str, value: &str, secrets: &Secrets) -> String {
    if is_secret(name) {
        return HIDDEN.to_owned();
    }
    clipped(&secrets.hide(value.to_owned())).into_owned()
}

fn clipped(value: &str) -> Cow<'_, str> {
    if value.len() <= MOST_VALUE_BYTES {
        return Cow::Borrowed(value);
    }
    let mut end = MOST_VALUE_BYTES;
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{} … ({} bytes)", &value[..end], value.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let secrets = Secrets::of([("GITHUB_TOKEN", "a-value")]);
        assert_eq!(shown("GITHUB_TOKEN", "value", &secrets), HIDDEN);
        assert_eq!(shown("HOME", "/home/me", &secrets), "/home/me");
        assert_eq!(shown("AUTH", "Bearer a-value", &secrets), "Bearer ***");
        assert_eq!(shown("DB", "postgres://me:pw@db", &secrets), "postgres://me:***@db");
    }

    #[test]
    fn long_values_are_clipped_between_characters() {
        let value = "ü".repeat(5000);
        let shown = shown("RAYMOND_INPUT", &value, &Secrets::default());
        assert!(shown.ends_with("ü … (10000 bytes)"));
        assert!(shown.len() < MOST_VALUE_BYTES + 40);
    }
}
