//! The check of a workflow before its run starts or goes on: what its states declare must hold.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use raymond_core::diagnostic::BeforeRun;
use raymond_core::run::Options;
use raymond_core::workflow::StateFile;

use super::find::allowed_scopes;
use crate::agent::registry::Backends;
use crate::author::check::{Found, before_run};
use crate::author::report;
use crate::config::Settings;
use crate::error::UserError;
use crate::paths::shown;
use crate::workflow::scope::Scope;
use crate::workflow::scopes::Allowed;
use crate::workflow::states::{Reached, Start, check_all};

/// A workflow that was checked.
pub(super) struct Checked {
    /// The workflows that the run can reach, its own first.
    pub(super) reached: Vec<PathBuf>,
    /// What is worth a warning.
    pub(super) warnings: Vec<String>,
}

/// Checks what a run can reach from the states `entries` of its own workflow, and from those of `others`. The programs of a
/// run that is elsewhere are not looked for here.
pub(super) fn check_reachable(
    scope: &mut Scope,
    entries: &BTreeSet<StateFile>,
    others: Vec<Start>,
    options: &Options,
    settings: &Settings,
    backends: &Backends,
    is_elsewhere: bool,
) -> Result<Checked, UserError> {
    let allowed = allowed_scopes(scope, settings)?;
    allowed.check_bases(scope).map_err(UserError::usage)?;
    let found = check_all(scope, entries, others, options, backends, &allowed)?;
    let reached = found.iter().map(|part| part.path.clone()).collect();
    let missing = if is_elsewhere { Ok(()) } else { check_programs(&found, backends) };
    // What is wrong with the workflow itself comes first.
    let warnings = check_declared(found, backends, &allowed)?;
    missing?;
    Ok(Checked { reached, warnings })
}

/// Refuses a run that leads to a prompt for which there is no agent program. It may still end before, so this can be switched off
/// like what is declared.
fn check_programs(reached: &[Reached], backends: &Backends) -> Result<(), UserError> {
    let checked = reached.iter().filter(|part| !part.options.no_lint);
    let surely = checked.flat_map(|part| {
        let surely = part.surely();
        part.prompts.iter().filter(move |(state, _)| surely.contains(state))
    });
    for (state, names) in surely {
        let programs = names.iter().map(|name| backends.get(name).ok()?.missing_program());
        if let Some(missing) = programs.collect::<Option<Vec<String>>>() {
            let programs: Vec<String> = missing.iter().map(|program| format!("`{program}`")).collect();
            let (noun, verb) = if programs.len() == 1 { ("program", "was") } else { ("programs", "were") };
            let error = format!("{state}: the agent {noun} {} {verb} not found", programs.join(", "));
            let hint = "nothing was run; install it, or name it with `command` under its [backend.…] table in \
                        .raymond/config.toml";
            let all_the_same = "to run it all the same, because that state will not be entered: --no-lint";
            return Err(UserError::usage(error).hint(hint).hint(all_the_same));
        }
    }
    Ok(())
}

/// Refuses a run whose states declare something that cannot work, and prints what. Returns what is worth a warning.
fn check_declared(
    reached: Vec<Reached>,
    backends: &Backends,
    allowed: &Allowed,
) -> Result<Vec<String>, UserError> {
    let accepted = accepted(&reached, backends);
    let mut found: Vec<Found> = Vec::new();
    for part in reached.into_iter().filter(|part| !part.options.no_lint) {
        let shown = shown(&part.path).to_owned();
        let in_part = before_run(shown, part, backends, allowed);
        found.extend(in_part.map_err(|fault| UserError::usage(fault.to_string()))?);
    }
    let (errors, warnings): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|found| found.before_run == BeforeRun::Refuse);
    if errors.is_empty() {
        return Ok(warnings.iter().map(Found::to_string).chain(accepted).collect());
    }
    // If stderr cannot be written to, there is no place to report it.
    let _ = write!(anstream::stderr(), "{}", report::text(&errors));
    let number = match errors.len() {
        1 => "a mistake".to_owned(),
        more => format!("{more} mistakes"),
    };
    Err(UserError::usage(format!("the workflow has {number}; nothing was run"))
        .hint("to run it all the same, for example because a step makes what is missing: --no-lint"))
}

/// The weaknesses of the backends in use that the config file accepts.
fn accepted(reached: &[Reached], backends: &Backends) -> Vec<String> {
    let used: BTreeSet<&String> = reached.iter().flat_map(|part| &part.backends).collect();
    used.into_iter().filter_map(|name| Some(backends.get(name).ok()?.accepted(name))).flatten().collect()
}
