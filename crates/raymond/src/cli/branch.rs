//! `raymond branch`

use std::collections::BTreeMap;
use std::path::Path;

use raymond_core::event::Moved;
use raymond_core::run::{Options, RunStatus};

use super::args::{BranchArgs, RunOptions};
use super::choose::{Intent, choose};
use super::find::{journal_options, store, task_folders, worktrees};
use super::options::override_with;
use super::print::{print_stdout, say};
use super::restore::{restore, stage_tasks, tell_of_tasks};
use super::rewound::finish_rewind;
use super::run::{begin, ids};
use super::settings::{self, Change};
use super::settled::check_owners;
use super::still::go_on;
use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::git::snapshots::{Purpose, unlock};
use crate::history::conversations::{forgotten, not_shared};
use crate::history::files::worktrees_of_branch;
use crate::history::tasks::discard;
use crate::history::{Branch, Point, branch};
use crate::run::caller::Caller;
use crate::run::driver::now;
use crate::workflow::scope::run_id_for;

pub(super) fn branch_off(args: BranchArgs) -> Result<ExitKind, UserError> {
    // The parser has seen to it that one of them is there.
    let step = args.step.or(args.at).unwrap_or_default();
    let layers = settings::read()?;
    let store = store(&args.place)?;
    let origin = choose(&*store, Some(&args.run), Intent::Look)?;
    Caller::Own.outside(&*store, &*origin, "branch")?;
    let point = Point::after_step(&*origin, step)?;
    let means = Change { layers: &layers, is_trusted: args.options.trust, goes_on: args.run_it };
    let config = settings::of_change(means, Path::new(&point.state.scope))?;
    let forgotten = forgotten(not_shared(&point.state, &Backends::new(&config)?), args.fresh)?;
    let options = options(&args.options, &point);
    let how =
        Branch { options, reset_cost: args.reset_cost, forgotten, moved: Moved::default(), kept_from: None };
    if args.restoring.files && args.restoring.worktree.is_none() && origin.holder()?.is_some() {
        return Err(UserError::usage(format!("{} is running in that folder", origin.id()))
            .hint("restore the files in another one: --worktree DIR"));
    }
    if args.restoring.worktree.is_none() {
        let id = args.id.as_deref().unwrap_or("the branch");
        check_owners(&*store, &point.state, id)?;
    }
    // The id is taken before the files are restored, so that of two commands with the same id one restores none.
    let ids = ids(args.id.as_deref(), || run_id_for(Path::new(&point.state.scope)));
    let (id, mut writer) = begin(&*store, ids, journal_options(&config.raymond))?;
    let purpose = Purpose { run: id.clone(), seq: point.seq + 1 };
    let end = origin.load()?;
    let staged = stage_tasks(&args.restoring, (&point, origin.id()), &purpose, &args.place)
        .inspect_err(|_| writer.abandon())?;
    let (states, quiet) = ((&point, &end), args.options.quiet);
    let restored = restore(&args.restoring, &*store, states, &BTreeMap::new(), purpose, &args.place, quiet)
        .inspect_err(|_| {
        let _ = task_folders(&args.place, &id).map(|tasks| discard(&tasks));
        writer.abandon();
    })?;
    let mut moved = worktrees_of_branch(&*store, &point.state, &id, &worktrees(&args.place, &id)?)?;
    moved.folders.extend(restored.clone());
    let how = Branch { moved, ..how };
    branch::begin(&*store, (&id, writer), now(), (origin.id(), &point), how)?;
    finish_rewind(&*store, &*store.run(&id)?, &store.run(&id)?.load()?, &args.place)?;
    if let Some((_, folder)) = &restored {
        unlock(Path::new(folder), &id);
    }
    if !args.options.quiet {
        tell_of_tasks(&staged, &id, origin.id());
        say(&format!("{id} goes on from {} after step {}", origin.id(), step));
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
