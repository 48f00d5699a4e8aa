//! `raymond branch`

use std::path::Path;

use raymond_core::run::{Options, RunStatus};

use super::args::{BranchArgs, ResumeArgs, RunOptions};
use super::find::{journal_options, load_config, store};
use super::options::override_with;
use super::print::{print_stdout, say};
use super::resume::resume;
use super::run::ID_TRIES;
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::history::{Branch, Point, branch};
use crate::run::driver::now;
use crate::store::StoreError;
use crate::workflow::scope::run_id_for;

pub(super) fn branch_off(args: BranchArgs) -> Result<ExitKind, UserError> {
    let config = load_config()?;
    let store = store(&args.place)?;
    let origin = store.find(&args.run)?;
    let point = Point::after_step(&*origin, args.at)?;
    let how = Branch { options: options(&args.options, &point), reset_cost: args.reset_cost };
    let tries = if args.id.is_some() { 1 } else { ID_TRIES };
    let mut ids = (0..tries)
        .map(|_| args.id.clone().unwrap_or_else(|| run_id_for(Path::new(&point.state.scope))))
        .peekable();
    let id = loop {
        let Some(id) = ids.next() else { return Err(UserError::usage("no id for the run")) };
        let journal = journal_options(&config.raymond);
        match branch(&*store, &id, journal, now(), (origin.id(), &point), how.clone()) {
            Ok(()) => break id,
            Err(StoreError::Exists { .. } | StoreError::Held { .. }) if ids.peek().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    };
    if !args.options.quiet {
        say(&format!("{id} goes on from {} after step {}", origin.id(), args.at));
    }
    if args.run_it {
        return go_on(&id, args);
    }
    if !args.options.quiet && point.state.status != RunStatus::Completed {
        say(&format!("  → {}", advice::command(&format!("resume {id}"))));
    }
    print_stdout(format!("{id}\n").as_bytes())?;
    Ok(ExitKind::Completed)
}

/// The options of the new run. Its turns do not belong into the recording of the other one.
fn options(given: &RunOptions, point: &Point) -> Options {
    let before = Options { record: None, ..point.state.options.clone() };
    override_with(given, before)
}

/// Resumes the new run with the options that it already has.
fn go_on(id: &str, args: BranchArgs) -> Result<ExitKind, UserError> {
    // A budget that is given as so much more would be added a second time.
    let options = RunOptions { budget: None, ..args.options };
    resume(ResumeArgs { run: Some(id.to_owned()), options, place: args.place })
}
