//! The environment variables of a step, except the path of the file that runs: only the executor knows that.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use raymond_core::limits::MAX_ENVIRONMENT_PAYLOAD_BYTES;
use raymond_core::named_inputs::InputValues;
use raymond_core::run::Agent;
use raymond_core::variable;

use crate::git::MISLEADING_VARIABLES;
use crate::run::job::VariableChanges;

/// How long a variable may be. On Windows the limit is 32,767 characters, including the name.
const MOST_IN_A_VARIABLE: usize = if cfg!(windows) { 32_000 } else { MAX_ENVIRONMENT_PAYLOAD_BYTES };

/// Everything about a step that is in its environment.
pub struct StepFacts<'a> {
    pub run_id: &'a str,
    pub agent: &'a Agent,
    /// The inputs of the workflow that the agent is in.
    pub inputs: Option<&'a InputValues>,
    pub scope: &'a Path,
    /// The variables from the workflow's manifest.
    pub environment: &'a BTreeMap<String, String>,
    pub task_folder: &'a Path,
    /// The payload of the step and the file that holds it.
    pub input: Option<(&'a str, &'a Path)>,
}

/// The variables of a script.
pub fn script_variables(facts: &StepFacts<'_>) -> VariableChanges {
    // Later ones win: a worker's own variables override the inputs of its workflow, and those its environment.
    let mut changes = changes_of(facts.environment);
    changes.extend(facts.inputs.map(inputs_of).unwrap_or_default());
    changes.extend(attributes_of(facts.agent));
    changes.extend(identity(facts));
    changes
}

/// The variables of an agent program: everything else is in its prompt.
pub fn agent_variables(facts: &StepFacts<'_>) -> VariableChanges {
    let mut changes = changes_of(facts.environment);
    changes.extend(identity(facts));
    changes
}

fn changes_of(variables: &BTreeMap<String, String>) -> VariableChanges {
    variables.iter().map(|(name, value)| (name.into(), Some(value.into()))).collect()
}

/// The inputs of a workflow. One that a model gave has the name that a model may set.
fn inputs_of(inputs: &InputValues) -> VariableChanges {
    let named = |(name, value): (&String, &String)| {
        let names = variable::environment_names(name, inputs.from_model.contains(name));
        names.into_iter().map(move |name| (name.into(), Some(value.into()))).collect::<Vec<_>>()
    };
    inputs.values.iter().flat_map(named).collect()
}

/// The variables that a fork gave to its worker.
fn attributes_of(agent: &Agent) -> VariableChanges {
    let named = |(name, value): (&String, &String)| {
        let names = variable::environment_names(name, agent.attributes_from_model);
        names.into_iter().map(move |name| (name.into(), Some(value.into()))).collect::<Vec<_>>()
    };
    agent.attributes.iter().flat_map(named).collect()
}

/// The agent, and the payload it was given.
fn identity(facts: &StepFacts<'_>) -> VariableChanges {
    let short = |text: &&str| text.len() <= MOST_IN_A_VARIABLE;
    let short_input = facts.input.as_ref().map(|(text, _)| *text).filter(short).map(OsString::from);
    let visits = facts.agent.visits_here().to_string();
    // A run may be started by a step of another run, so variables that are not set here are removed.
    let worktree = facts.agent.worktree.as_deref();
    let variables: [(&str, Option<OsString>); 11] = [
        ("RAYMOND_RUN_ID", Some(facts.run_id.into())),
        ("RAYMOND_WORKFLOW_ID", Some(facts.run_id.into())),
        ("RAYMOND_AGENT_ID", Some(facts.agent.id.as_str().into())),
        ("RAYMOND_STATE_DIR", Some(facts.scope.into())),
        ("RAYMOND_VISITS", Some(visits.into())),
        ("RAYMOND_TASK_FOLDER", Some(facts.task_folder.into())),
        ("RAYMOND_RESULT", short_input.clone()),
        ("RAYMOND_INPUT", short_input),
        ("RAYMOND_WORKTREE", worktree.map(|worktree| worktree.path.as_str().into())),
        ("RAYMOND_BRANCH", worktree.map(|worktree| worktree.branch.as_str().into())),
        ("RAYMOND_INPUT_FILE", facts.input.as_ref().map(|(_, file)| file.into())),
    ];
    // Git in a worktree must not be led back to the repository that Raymond was started for.
    let misleading = worktree.into_iter().flat_map(|_| MISLEADING_VARIABLES).map(|name| (name, None));
    variables.into_iter().chain(misleading).map(|(name, value)| (name.into(), value)).collect()
}
