//! The states of a run's workflows as they were when the run was started, for a run that is decided where its files are
//! not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use raymond_core::frontmatter::ResultSchema;
use raymond_core::input::{Plan, Prepared, PromptPlan};
use raymond_core::run::{Agent, Options, Run};
use raymond_core::workflow::{Platform, StateFile};
use serde::{Deserialize, Serialize};

use super::prepare::{first_backend, hash_of_prompt};
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

impl FrozenState {
    /// The state for an agent, with the backend that its conversation or a usage limit has led to.
    fn of(&self, agent: &Agent) -> Prepared {
        let mut prepared = self.prepared.clone();
        if let Plan::Prompt(prompt) = &mut prepared.plan {
            let all: Vec<String> =
                std::iter::once(&prompt.backend).chain(&prompt.fallbacks).cloned().collect();
            let at = first_backend(agent, &all);
            if let Some(facts) = self.fallbacks.get(&all[at]).filter(|_| at > 0) {
                prompt.backend.clone_from(&all[at]);
                prompt.fallbacks = all[at + 1..].to_vec();
                facts.clone().write_to(prompt);
            }
        }
        prepared
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

    /// Reads the same workflows again, with other options, from a copy of their files below a folder.
    pub fn read_again(&self, root: &Path, options: &Options, backends: &Backends) -> Result<Self, UserError> {
        let root = root.to_string_lossy();
        let mut frozen = BTreeMap::new();
        for path in self.0.keys() {
            let mut scope = Scope::open(Path::new(&format!("{root}{path}")), Platform::current())?;
            let mut states = states_of(&mut scope, options, backends);
            for error in states.values_mut().filter_map(|state| state.as_mut().err()) {
                *error = error.replace(&*root, "");
            }
            frozen.insert(path.clone(), states);
        }
        Ok(Self(frozen))
    }

    /// The state that an agent is in, ready to start. `project` is the folder of the project where the run was started.
    pub fn prepare(
        &self,
        run: &Run,
        agent: &Agent,
        payloads: &Payloads,
        project: &Path,
    ) -> Result<Result<Prepared, String>, StoreError> {
        let state = match self.state_of(&run.scope, agent) {
            Ok(state) => state,
            Err(error) => return Ok(Err(error)),
        };
        let mut prepared = state.of(agent);
        if let (Plan::Prompt(prompt), Some(body)) = (&mut prepared.plan, &state.body) {
            prompt.prompt_sha256 = Some(hash_of_prompt(run, agent, body, payloads, project)?);
        }
        Ok(Ok(prepared))
    }

    /// The state that an agent is in; `own` is the run's own workflow.
    fn state_of(&self, own: &str, agent: &Agent) -> Result<&FrozenState, String> {
        let scope = agent.scope.as_deref().unwrap_or(own);
        let states = self.0.get(scope).ok_or_else(|| format!("{scope} was not there when the run began"))?;
        match states.get(&agent.state) {
            Some(state) => state.as_ref().map_err(String::clone),
            None => Err(format!("{} was not there when the run began", agent.state)),
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
