//! The states of a run's workflows as they were when the run was last started or resumed, for a run that is decided where its
//! files are not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use raymond_core::frontmatter::ResultSchema;
use raymond_core::input::{Plan, Prepared, PromptPlan};
use raymond_core::run::{Agent, Options, Run};
use raymond_core::workflow::{Platform, StateFile};
use serde::{Deserialize, Serialize};

use super::prepare::{choose, hash_of_prompt};
use crate::agent::registry::{Backend, Backends};
use crate::error::UserError;
use crate::store::{Payloads, StoreError};
use crate::workflow::result_schema;
use crate::workflow::scope::Scope;
use crate::workflow::states::{StateText, options_in, read_state};

/// What each state asks of its execution, by the path of its workflow and its own name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FrozenStates(BTreeMap<String, States>);

/// The states of one workflow. One that cannot be used has the reason.
type States = BTreeMap<StateFile, Result<FrozenState, String>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FrozenState {
    #[serde(flatten)]
    prepared: Prepared,
    /// What a turn needs to know of the backends that it may fall back on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fallbacks: BTreeMap<String, BackendFacts>,
    /// The text of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct BackendFacts {
    model: Option<String>,
    program_chooses_session: bool,
    continues_in_place: bool,
}

impl BackendFacts {
    /// `model` is the state's own.
    fn new(backend: &Backend, model: Option<String>, is_fallback: bool) -> Self {
        Self {
            model: backend.model_of(model, is_fallback),
            program_chooses_session: !backend.capabilities().takes_session_id(),
            continues_in_place: backend.continues_in_place(),
        }
    }

    fn write_to(self, prompt: &mut PromptPlan) {
        prompt.model = self.model;
        prompt.program_chooses_session = self.program_chooses_session;
        prompt.continues_in_place = self.continues_in_place;
    }
}

/// What is known of the machine that an agent is on.
#[derive(Clone, Copy, Debug)]
pub struct MachineFacts<'a> {
    pub name: &'a str,
    /// The backends whose programs it has.
    pub backends: &'a [String],
}

impl MachineFacts<'_> {
    fn has(&self, backend: &str) -> bool {
        self.backends.iter().any(|name| name == backend)
    }
}

impl FrozenState {
    /// The state for an agent, with the first backend of its list that the agent's machine is not known to lack.
    fn of(&self, agent: &Agent, machine: Option<MachineFacts<'_>>) -> Prepared {
        let mut prepared = self.prepared.clone();
        if let Plan::Prompt(prompt) = &mut prepared.plan {
            let first = prompt.backend.clone();
            // A machine that has none of them is asked once more, and says so.
            let machine = machine.filter(|machine| {
                std::iter::once(&first).chain(&prompt.fallbacks).any(|name| machine.has(name))
            });
            let missing = choose(agent, prompt, |name| machine.is_none_or(|machine| machine.has(name)));
            if let Some(facts) = self.fallbacks.get(&prompt.backend).filter(|_| prompt.backend != first) {
                facts.clone().write_to(prompt);
            }
            if let (Some(missing), Some(machine)) = (missing, machine) {
                let missing = not_on(machine.name, &[missing]);
                prepared.warnings.push(format!("{missing}; `{}` is used", prompt.backend));
            }
        }
        prepared
    }
}

/// Says that a machine lacks the programs of these backends.
pub(super) fn not_on(machine: &str, backends: &[String]) -> String {
    let names: Vec<String> = backends.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [name] => format!("the program of the backend {name} is not on the machine {machine}"),
        names => {
            format!("the programs of the backends {} are not on the machine {machine}", names.join(", "))
        }
    }
}

impl FrozenStates {
    /// Reads all states of these workflows. A state that cannot be used is kept with the reason.
    pub fn read(workflows: &[PathBuf], options: &Options, backends: &Backends) -> Result<Self, UserError> {
        let mut frozen = BTreeMap::new();
        for path in workflows {
            let mut scope = Scope::open(path, Platform::current())?;
            let states = states_of(&mut scope, options, backends);
            frozen.insert(scope.path().to_string_lossy().into_owned(), states);
        }
        Ok(Self(frozen))
    }

    /// The paths of the workflows.
    pub fn workflows(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Reads workflows from copies of their files below a folder.
    pub fn read_below<'a>(
        root: &Path,
        workflows: impl IntoIterator<Item = &'a str>,
        options: &Options,
        backends: &Backends,
    ) -> Result<Self, UserError> {
        let root = root.to_string_lossy();
        let mut frozen = BTreeMap::new();
        for path in workflows {
            let mut scope = Scope::open(Path::new(&format!("{root}{path}")), Platform::current())?;
            let mut states = states_of(&mut scope, options, backends);
            for error in states.values_mut().filter_map(|state| state.as_mut().err()) {
                *error = error.replace(&*root, "");
            }
            frozen.insert(path.to_owned(), states);
        }
        Ok(Self(frozen))
    }

    /// The state that an agent is in, ready to start. `project` is the folder of the project where the run was started, and
    /// `machine` the one that the agent is on, if it is known what that has.
    pub fn prepare(
        &self,
        run: &Run,
        agent: &Agent,
        payloads: &Payloads,
        project: &Path,
        machine: Option<MachineFacts<'_>>,
    ) -> Result<Result<Prepared, String>, StoreError> {
        let state = match self.state_of(&run.scope, agent) {
            Ok(state) => state,
            Err(error) => return Ok(Err(error)),
        };
        let mut prepared = state.of(agent, machine);
        if let (Plan::Prompt(prompt), Some(body)) = (&mut prepared.plan, &state.body) {
            prompt.prompt_sha256 = match hash_of_prompt(run, agent, body, payloads, project) {
                // A text that the prompt may hold is only where the step is carried out.
                Err(StoreError::PayloadElsewhere { .. }) => None,
                hash => Some(hash?),
            };
        }
        Ok(Ok(prepared))
    }

    /// The state that an agent is in; `own` is the run's own workflow.
    fn state_of(&self, own: &str, agent: &Agent) -> Result<&FrozenState, String> {
        let scope = agent.scope.as_deref().unwrap_or(own);
        let missing = |what: &dyn std::fmt::Display| {
            let when = "when the run was last started or resumed";
            format!("{what} was not there {when}; put it back and resume ({} needs it)", agent.id)
        };
        let states = self.0.get(scope).ok_or_else(|| missing(&scope))?;
        match states.get(&agent.state) {
            Some(state) => state.as_ref().map_err(String::clone),
            None => Err(missing(&agent.state)),
        }
    }
}

fn states_of(scope: &mut Scope, options: &Options, backends: &Backends) -> States {
    let names: Vec<StateFile> = scope.states().collect();
    names.into_iter().map(|state| (state.clone(), prepare(scope, &state, options, backends))).collect()
}

fn prepare(
    scope: &mut Scope,
    state: &StateFile,
    options: &Options,
    backends: &Backends,
) -> Result<FrozenState, String> {
    let source = scope.read(state)?;
    let options = options_in(scope, options);
    let StateText { hash, mut plan, warnings, turn, body } =
        read_state(state, &source, &options, &scope.manifest().defaults)?;
    let mut fallbacks = BTreeMap::new();
    if let Plan::Prompt(prompt) = &mut plan {
        if let Some(schema) = &prompt.result_schema {
            let schema = result_schema::read(schema, scope).map_err(|error| format!("{state}: {error}"))?;
            prompt.result_schema = Some(ResultSchema::Inline(schema));
        }
        for name in &prompt.fallbacks {
            fallbacks.insert(name.clone(), BackendFacts::new(backends.get(name)?, None, true));
        }
        let model = turn.and_then(|turn| turn.model);
        BackendFacts::new(backends.get(&prompt.backend)?, model, false).write_to(prompt);
    }
    let body = matches!(plan, Plan::Prompt(_)).then(|| body.to_owned());
    Ok(FrozenState { prepared: Prepared { hash, plan, warnings }, fallbacks, body })
}
