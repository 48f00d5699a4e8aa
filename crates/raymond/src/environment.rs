//! What a script finds in its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use raymond_core::limits::MAX_ENVIRONMENT_PAYLOAD_BYTES;
use raymond_core::run::Agent;

/// Everything of a step that its environment tells.
pub struct StepFacts<'a> {
    pub run_id: &'a str,
    pub agent: &'a Agent,
    pub scope: &'a Path,
    pub state_file: &'a Path,
    pub task_folder: &'a Path,
    /// The handed payload and the file that holds it.
    pub input: Option<(&'a str, PathBuf)>,
}

/// Variables to set, or to remove where there is no value; all others are inherited.
pub fn script_environment(facts: &StepFacts<'_>) -> Vec<(OsString, Option<OsString>)> {
    let mut variables: Vec<(OsString, Option<OsString>)> = Vec::new();
    let mut set = |name: &str, value: Option<OsString>| variables.push((name.into(), value));
    for (name, value) in &facts.agent.attributes {
        set(name, Some(value.into()));
    }
    let short_input = facts
        .input
        .as_ref()
        .map(|(text, _)| *text)
        .filter(|text| text.len() <= MAX_ENVIRONMENT_PAYLOAD_BYTES);
    // A run may be started by a step of another run, so what is not set is removed.
    set("RAYMOND_RUN_ID", Some(facts.run_id.into()));
    set("RAYMOND_WORKFLOW_ID", Some(facts.run_id.into()));
    set("RAYMOND_AGENT_ID", Some(facts.agent.id.as_str().into()));
    set("RAYMOND_STATE_DIR", Some(facts.scope.into()));
    set("RAYMOND_STATE_FILE", Some(facts.state_file.into()));
    set(
        "RAYMOND_VISITS",
        Some(facts.agent.visits_here().to_string().into()),
    );
    set("RAYMOND_TASK_FOLDER", Some(facts.task_folder.into()));
    set("RAYMOND_RESULT", short_input.map(OsString::from));
    set("RAYMOND_INPUT", short_input.map(OsString::from));
    set(
        "RAYMOND_INPUT_FILE",
        facts.input.as_ref().map(|(_, file)| file.into()),
    );
    variables
}
