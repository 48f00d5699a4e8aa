//! The check of a workflow before its run starts or goes on: what its states declare must hold.

use std::collections::BTreeSet;
use std::io::Write;

use raymond_core::diagnostic::BeforeRun;

use crate::agent::registry::Backends;
use crate::author::check::{Found, before_run};
use crate::author::report;
use crate::error::UserError;
use crate::paths::shown;
use crate::workflow::scopes::Allowed;
use crate::workflow::states::Reached;

/// Refuses a run whose states declare something that cannot work, and prints what. Returns what is worth a warning.
pub(super) fn check_declared(
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
