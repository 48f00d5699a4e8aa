//! `raymond rewind`

use std::path::Path;

use raymond_core::event::Moved;
use raymond_core::run::Run;

use super::args::RewindArgs;
use super::choose::{Intent, choose};
use super::find::{journal_options, store, task_folders, worktrees};
use super::print::{print_stdout, say};
use super::restore::{restore, stage_tasks, tell_of_tasks};
use super::rewound::{finish_rewind, was_just_rewound};
use super::settings::{self, Change};
use super::still::{go_on, hold};
use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::git::snapshots::{Purpose, unlock};
use crate::history::conversations::{forgotten, not_shared};
use crate::history::files::{folders_since, given_up, handed_over, moved_back};
use crate::history::tasks::{Staged, discard};
use crate::history::{Back, Point, rewind};
use crate::run::caller::Caller;
use crate::run::driver::now;
use crate::store::{RunHandle, StoreError};

pub(super) fn take_back(args: RewindArgs) -> Result<ExitKind, UserError> {
    // The parser has seen to it that one of them is there.
    let step = args.step.or(args.to).unwrap_or_default();
    let layers = settings::read()?;
    let store = store(&args.place)?;
    let stored = choose(&*store, Some(&args.run), Intent::Change)?;
    Caller::Own.outside(&*store, &*stored, "rewind")?;
    let means = Change { layers: &layers, is_trusted: args.options.trust, goes_on: args.run_it };
    let (still, config) = hold(&*store, &stored, &args.place, means)?;
    let point = Point::after_step(&*stored, step)?;
    if point.seq == still.run().seq {
        return Err(UserError::usage(format!("nothing came after step {} of {}", step, stored.id())));
    }
    let forgotten = forgotten(not_shared(&point.state, &Backends::new(&config)?), args.fresh)?;
    // A command that was killed may have done it.
    let before = rewound_before(&*stored, still.run(), &point)?
        .filter(|_| args.restoring.worktree.is_none() && forgotten.is_empty());
    let next = still.run().seq + 1;
    let purpose =
        Purpose { run: stored.id().to_owned(), seq: if before.is_some() { next - 1 } else { next } };
    let staged = match before.is_some() && !args.restoring.files {
        true => Staged::default(),
        false => stage_tasks(&args.restoring, (&point, stored.id()), &purpose, &args.place)?,
    };
    let (states, quiet) = ((&point, still.run()), args.options.quiet);
    let mut folders = folders_since(&*stored, point.seq)?;
    let restored = restore(&args.restoring, &*store, states, &folders, purpose, &args.place, quiet)
        .inspect_err(|_| {
            let _ = task_folders(&args.place, stored.id()).map(|tasks| discard(&tasks));
        })?;
    folders.extend(restored.clone());
    let (end, mut writer) = still.into_parts();
    let dropped = match before {
        Some(dropped) => dropped,
        None => {
            let given_up = given_up(&point.state, &end);
            let own = worktrees(&args.place, stored.id())?;
            let moved = moved_back(&*store, (&point.state, &end), folders, &given_up, &own)?;
            let at_end = end.clone();
            let taken_over = |id: &str| match worktrees(&args.place, id) {
                Ok(places) => handed_over(&at_end, &given_up, id, &places),
                Err(_) => Moved::default(),
            };
            let back = Back { point: &point, forgotten, moved, handed_over: &taken_over };
            rewind(&*store, &mut *writer, end, back, journal_options(&config.raymond), now())?
        }
    };
    finish_rewind(&*store, &*stored, &stored.load()?, &args.place)?;
    if let Some((_, folder)) = &restored {
        unlock(Path::new(folder), stored.id());
    }
    drop(writer);
    if !args.options.quiet {
        tell_of_tasks(&staged, stored.id(), stored.id());
        say(&format!("{} goes on after step {} again; what came then is in {dropped}", stored.id(), step));
    }
    if !args.run_it {
        print_stdout(format!("{dropped}\n").as_bytes())?;
    }
    go_on(stored.id(), args.run_it, args.options, args.place)
}

/// The run that keeps what came after a point, if the run was rewound to it just now.
fn rewound_before(stored: &dyn RunHandle, run: &Run, point: &Point) -> Result<Option<String>, StoreError> {
    let Some(origin) = run.origin.as_ref().filter(|origin| origin.seq == point.seq) else { return Ok(None) };
    let is_done = was_just_rewound(stored, run)?;
    Ok(origin.dropped.clone().filter(|_| is_done))
}
