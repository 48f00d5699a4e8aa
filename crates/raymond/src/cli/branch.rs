//! `raymond branch`

use std::path::Path;

use raymond_core::event::Moved;
use raymond_core::run::{Options, RunStatus};

use super::args::{BranchArgs, RunOptions};
use super::find::{journal_options, load_config, store, worktrees};
use super::options::override_with;
use super::print::{print_stdout, say};
use super::restore::restore;
use super::run::ID_TRIES;
use super::still::go_on;
use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::history::conversations::{forgotten, not_shared};
use crate::history::files::worktrees_of_branch;
use crate::history::{Branch, Point, branch};
use crate::run::driver::now;
use crate::store::StoreError;
use crate::workflow::scope::run_id_for;

pub(super) fn branch_off(args: BranchArgs) -> Result<ExitKind, UserError> {
    let config = load_config()?;
    let store = store(&args.place)?;
    let origin = store.find(&args.run)?;
    let point = Point::after_step(&*origin, args.at)?;
    let forgotten = forgotten(not_shared(&point.state, &Backends::new(&config)?), args.fresh)?;
    let options = options(&args.options, &point);
    let how = Branch { options, reset_cost: args.reset_cost, forgotten, moved: Moved::default() };
    if args.restoring.files && args.restoring.worktree.is_none() && origin.holder()?.is_some() {
        return Err(UserError::usage(format!("{} is running in that folder", origin.id()))
            .hint("restore the files in another one: --worktree DIR"));
    }
    let restored = restore(&args.restoring, &point, &origin.load()?, &args.place, args.options.quiet)?;
    let tries = if args.id.is_some() { 1 } else { ID_TRIES };
    let mut ids = (0..tries)
        .map(|_| args.id.clone().unwrap_or_else(|| run_id_for(Path::new(&point.state.scope))))
        .peekable();
    let id = loop {
        let Some(id) = ids.next() else { return Err(UserError::usage("no id for the run")) };
        let journal = journal_options(&config.raymond);
        let mut moved = worktrees_of_branch(&point.state, &id, &worktrees(&args.place, &id)?);
        moved.folders.extend(restored.clone());
        let how = Branch { moved, ..how.clone() };
        match branch(&*store, &id, journal, now(), (origin.id(), &point), how) {
            Ok(()) => break id,
            Err(StoreError::Exists { .. } | StoreError::Held { .. }) if ids.peek().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    };
    if !args.options.quiet {
        say(&format!("{id} goes on from {} after step {}", origin.id(), args.at));
    }
    // A completed branch has nothing to go on with.
    if !args.run_it {
        print_stdout(format!("{id}\n").as_bytes())?;
        if point.state.status == RunStatus::Completed {
            return Ok(ExitKind::Completed);
        }
    }
    // A budget that is given as so much more would be added a second time.
    let options = RunOptions { budget: None, ..args.options };
    go_on(&id, args.run_it, options, args.place)
}

/// The options of the new run. Its turns do not belong into the recording of the other one.
fn options(given: &RunOptions, point: &Point) -> Options {
    let before = Options { record: None, ..point.state.options.clone() };
    override_with(given, before)
}
