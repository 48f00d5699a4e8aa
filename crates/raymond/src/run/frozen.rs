//! The states of a run's workflows as they were when the run was started, for a run that is decided where its files are
//! not.

use std::collections::BTreeMap;
use std::path::PathBuf;

use raymond_core::frontmatter::ResultSchema;
use raymond_core::input::{Plan, Prepared};
use raymond_core::run::{Agent, Options};
use raymond_core::workflow::{Platform, StateFile};
use serde::{Deserialize, Serialize};

use crate::agent::registry::Backends;
use crate::error::UserError;
use crate::workflow::result_schema;
use crate::workflow::scope::Scope;
use crate::workflow::states::{StateText, options_in, read_state};

/// What each state asks of its execution, by the path of its workflow and its own name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FrozenStates(BTreeMap<String, BTreeMap<StateFile, Result<Prepared, String>>>);

impl FrozenStates {
    /// Reads all states of these workflows. A state that cannot be used is kept with the reason.
    pub fn read(workflows: &[PathBuf], options: &Options, backends: &Backends) -> Result<Self, UserError> {
        let mut frozen = BTreeMap::new();
        for path in workflows {
            let mut scope = Scope::open(path, Platform::current())?;
            let names: Vec<StateFile> = scope.states().collect();
            let states = names.into_iter().map(|state| {
                let prepared = prepare(&mut scope, &state, options, backends);
                (state, prepared)
            });
            let states = states.collect();
            frozen.insert(scope.path().to_string_lossy().into_owned(), states);
        }
        Ok(Self(frozen))
    }

    /// The state that an agent is in; `own` is the run's own workflow.
    pub fn of(&self, own: &str, agent: &Agent) -> Result<Prepared, String> {
        let scope = agent.scope.as_deref().unwrap_or(own);
        let states = self.0.get(scope).ok_or_else(|| format!("{scope} was not there when the run began"))?;
        match states.get(&agent.state) {
            Some(prepared) => prepared.clone(),
            None => Err(format!("{} was not there when the run began", agent.state)),
        }
    }
}

fn prepare(
    scope: &mut Scope,
    state: &StateFile,
    options: &Options,
    backends: &Backends,
) -> Result<Prepared, String> {
    let source = scope.read(state)?;
    let options = options_in(scope, options);
    let StateText { hash, mut plan, warnings, .. } =
        read_state(state, &source, &options, &scope.manifest().defaults)?;
    if let Plan::Prompt(prompt) = &mut plan {
        if let Some(schema) = &prompt.result_schema {
            let schema = result_schema::read(schema, scope).map_err(|error| format!("{state}: {error}"))?;
            prompt.result_schema = Some(ResultSchema::Inline(schema));
        }
        let program = backends.get(&prompt.backend)?;
        prompt.program_chooses_session = !program.capabilities().takes_session_id();
        prompt.continues_in_place = program.continues_in_place();
    }
    Ok(Prepared { hash, plan, warnings })
}
