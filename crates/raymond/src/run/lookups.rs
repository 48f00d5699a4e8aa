//! Resolves the names in a step's output with the workflows and the disk, before anything is decided.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use raymond_core::folder::Folder;
use raymond_core::frontmatter::ResultSchema;
use raymond_core::input::{
    Ended, Lookups, Plan, PromptPlan, ScopeEntry, ScriptOutcome, StepOutcome, TurnOutcome,
};
use raymond_core::named_inputs::InputKind;
use raymond_core::policy::Policy;
use raymond_core::run::Agent;
use raymond_core::tag::{Meant, NearMiss};
use raymond_core::transition::Transition;
use raymond_core::workflow::StateFile;

use crate::paths::{leads_away, normalise};
use crate::workflow::given_inputs::readable_file;
use crate::workflow::reach::Reach;
use crate::workflow::result_schema;
use crate::workflow::scopes::Scopes;

/// Resolves every name in the result of an attempt.
pub fn of_ended(scopes: &mut Scopes, agent: &Agent, ended: &Ended) -> Lookups {
    match (&ended.outcome, &ended.plan) {
        (StepOutcome::Script(ScriptOutcome::Exited { exit, reading, other_case, .. }), _)
            if exit.is_success() =>
        {
            let transition = reading.as_ref().ok().map(|reading| &reading.transition);
            let lookups = transition.map(|transition| of_transition(scopes, agent, transition));
            with_other_case(scopes, agent, lookups.unwrap_or_default(), other_case)
        }
        (StepOutcome::Turn(TurnOutcome::Completed(turn)), Plan::Prompt(plan)) => {
            let transition = turn.reading.as_ref().ok().map(|reading| &reading.transition);
            let mut lookups = of_turn(scopes, agent, plan, transition);
            // Nothing has been stored yet, so the text is here.
            if let (Some(Transition::Result { payload }), Some(ResultSchema::Inline(schema))) =
                (transition, &plan.result_schema)
                && let Some(text) = payload.text()
            {
                lookups.result_problem = result_schema::mismatch(schema, text);
            }
            with_other_case(scopes, agent, lookups, &turn.other_case)
        }
        (StepOutcome::Turn(TurnOutcome::Failed(_)), Plan::Prompt(plan)) => of_turn(scopes, agent, plan, None),
        (StepOutcome::Script(_) | StepOutcome::Turn(_) | StepOutcome::Interrupted { .. }, _) => {
            Lookups::default()
        }
    }
}

/// Adds the names in tags of another case, which are mistakes if there are such states.
fn with_other_case(
    scopes: &mut Scopes,
    agent: &Agent,
    mut lookups: Lookups,
    other_case: &[NearMiss],
) -> Lookups {
    let names: Vec<&str> = other_case
        .iter()
        .filter_map(|near| match &near.meant {
            Meant::TagIfState(name) => Some(name.as_str()),
            Meant::Text | Meant::Tag => None,
        })
        .collect();
    if !names.is_empty() {
        lookups.states.extend(resolve_all(scopes, agent, &names));
    }
    lookups
}

/// Resolves every name in a transition, so that the decision needs no disk.
pub fn of_transition(scopes: &mut Scopes, agent: &Agent, transition: &Transition) -> Lookups {
    look_up_names(scopes, agent, transition, &[])
}

fn look_up_names(scopes: &mut Scopes, agent: &Agent, transition: &Transition, patterns: &[&str]) -> Lookups {
    let directories: BTreeSet<&str> = transition.directories().into_iter().collect();
    let entered = transition.scopes().into_iter();
    let entered: Entered = entered.map(|scope| (scope.to_owned(), scopes.enter(agent, scope))).collect();
    Lookups {
        files: files(scopes, agent, &entered, &transition.inputs()),
        scopes: entered,
        states: resolve_all(scopes, agent, &transition.state_names()),
        directories: directories
            .into_iter()
            .map(|path| (path.to_owned(), directory(scopes, &agent.cwd, path, patterns)))
            .collect(),
        result_problem: None,
        snapshot: None,
        worktrees: match scopes.worktrees() {
            Some(worktrees) => worktrees.look_up(Path::new(&agent.cwd), &transition.worktrees()),
            None => BTreeMap::new(),
        },
    }
}

type Entered = BTreeMap<String, Result<ScopeEntry, String>>;

/// The files that a transition gives to other workflows, or that these use if it gives none.
fn files(
    scopes: &Scopes,
    agent: &Agent,
    entered: &Entered,
    given: &[(&str, &[(String, String)])],
) -> BTreeMap<String, Result<String, String>> {
    let mut files = BTreeMap::new();
    let base = Path::new(&agent.cwd);
    for (written, values) in given {
        let Some(Ok(entry)) = entered.get(*written) else { continue };
        for input in entry.inputs.iter().filter(|input| input.kind == InputKind::File) {
            // A model's file has to be where a model may send agents, too.
            let reach = scopes.reach().filter(|_| agent.state.kind().is_prompt());
            for (_, path) in values.iter().filter(|(name, _)| *name == input.name) {
                let found = || readable_file(base, path).and_then(|file| permitted(reach, base, path, file));
                files.entry(path.clone()).or_insert_with(found);
            }
            if let Some(path) = &input.default {
                files.entry(path.clone()).or_insert_with(|| readable_file(base, path));
            }
        }
    }
    files
}

fn permitted(reach: Option<&Reach>, cwd: &Path, written: &str, file: String) -> Result<String, String> {
    match reach.is_none_or(|reach| reach.permits_file(cwd, Path::new(&file))) {
        true => Ok(file),
        false => Err(format!("`{}` leads to {file}, outside the project", written.escape_debug())),
    }
}

/// Resolves every name in an agent's message and in its state's policy.
pub fn of_turn(
    scopes: &mut Scopes,
    agent: &Agent,
    plan: &PromptPlan,
    transition: Option<&Transition>,
) -> Lookups {
    let entries = || plan.policy.iter().flat_map(|policy| &policy.entries);
    let patterns: Vec<&str> = entries().filter_map(|entry| entry.cd.as_deref()).collect();
    let found = transition.map(|transition| look_up_names(scopes, agent, transition, &patterns));
    let mut lookups = found.unwrap_or_default();
    let names: Vec<&str> = entries()
        .flat_map(|entry| {
            let target = entry.target.iter().filter(|_| !entry.tag.is_workflow());
            target.chain(&entry.return_to).chain(&entry.next).chain(&entry.timeout_next).map(String::as_str)
        })
        .collect();
    lookups.states.extend(resolve_all(scopes, agent, &names));
    // A transition that is taken without a tag may go to another workflow or folder, and a reminder shows the inputs
    // that a workflow needs.
    let implied = plan.policy.as_ref().and_then(Policy::implicit);
    for written in entries().filter(|entry| entry.tag.is_workflow()).filter_map(|entry| entry.target.as_ref())
    {
        lookups.scopes.entry(written.clone()).or_insert_with(|| scopes.enter(agent, written));
        let defaults = files(scopes, agent, &lookups.scopes, &[(written.as_str(), &[])]);
        lookups.files.extend(defaults);
    }
    if let Some(cd) = implied.and_then(|entry| entry.cd.as_ref()) {
        let folder = || directory(scopes, &agent.cwd, cd, &patterns);
        lookups.directories.entry(cd.clone()).or_insert_with(folder);
    }
    lookups
}

/// Resolves names in the workflow that an agent is in.
fn resolve_all(
    scopes: &mut Scopes,
    agent: &Agent,
    names: &[&str],
) -> BTreeMap<String, Result<StateFile, String>> {
    match scopes.of(agent) {
        Ok(scope) => scope.resolve_all(names),
        Err(error) => names.iter().map(|name| ((*name).to_owned(), Err(error.clone()))).collect(),
    }
}

/// A working directory in the form that the next steps use. It must exist now, because later the error could not be
/// reported to this step.
fn directory(scopes: &Scopes, cwd: &str, path: &str, patterns: &[&str]) -> Result<Folder, String> {
    let folder = normalise(Path::new(cwd), Path::new(path));
    if leads_away(&folder, Path::new(cwd)) {
        return Err(format!("`cd=\"{path}\"`: this leads to another machine or a device"));
    }
    if !folder.is_dir() {
        return Err(format!("`cd=\"{path}\"`: there is no folder {}", folder.display()));
    }
    let folder = folder
        .into_os_string()
        .into_string()
        .map_err(|path| format!("the name of the folder {} is not text", path.display()))?;
    Ok(match scopes.reach() {
        Some(reach) => reach.look_up(Path::new(cwd), path, folder, patterns),
        None => Folder::permitted(folder),
    })
}
