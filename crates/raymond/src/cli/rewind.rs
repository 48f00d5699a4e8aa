//! `raymond rewind`

use raymond_core::event::Moved;

use super::args::RewindArgs;
use super::find::{debug_root, journal_options, load_config, store, worktrees};
use super::print::{print_stdout, say};
use super::restore::restore;
use super::still::{go_on, hold};
use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::history::conversations::{forgotten, not_shared};
use crate::history::files::{hand_over, handed_over, worktrees_since};
use crate::history::{Back, Point, move_answers, rewind};
use crate::run::driver::now;
use crate::view::debug::move_steps;

pub(super) fn take_back(args: RewindArgs) -> Result<ExitKind, UserError> {
    let config = load_config()?;
    let store = store(&args.place)?;
    let stored = store.find(&args.run)?;
    let still = hold(&stored, &args.place, &config)?;
    let point = Point::after_step(&*stored, args.to)?;
    if point.seq == still.run().seq {
        return Err(UserError::usage(format!("nothing came after step {} of {}", args.to, stored.id())));
    }
    let forgotten = forgotten(not_shared(&point.state, &Backends::new(&config)?), args.fresh)?;
    let restored = restore(&args.restoring, &point, still.run(), &args.place, args.options.quiet)?;
    let moved = Moved { folders: restored.into_iter().collect(), ..Moved::default() };
    let (end, mut writer) = still.into_parts();
    let dropped_worktrees = worktrees_since(&point.state, &end);
    let at_end = end.clone();
    let taken_over = |id: &str| match worktrees(&args.place, id) {
        Ok(places) => handed_over(&at_end, &dropped_worktrees, id, &places),
        Err(_) => Moved::default(),
    };
    let back = Back { point: &point, forgotten, moved, handed_over: &taken_over };
    let dropped = rewind(&*store, &mut *writer, end, back, journal_options(&config.raymond), now())?;
    // What follows is not part of the run: a kill here leaves nothing that matters.
    move_answers(&*stored.inbox(), &*store.run(&dropped)?.inbox());
    let (from, to) = (worktrees(&args.place, stored.id())?, worktrees(&args.place, &dropped)?);
    for worktree in &dropped_worktrees {
        if let Err(error) = hand_over(worktree, &from, (&dropped, &to)) {
            say(&format!("warning: the worktree `{}` cannot be given to {dropped}: {error}", worktree.name));
        }
    }
    if let Some(debug) = debug_root(&args.place) {
        let has_ended = |step: u64| !is_under_way(&point, step);
        move_steps(&debug.join(stored.id()), &debug.join(&dropped), has_ended);
    }
    drop(writer);
    if !args.options.quiet {
        say(&format!("{} goes on after step {} again; what came then is in {dropped}", stored.id(), args.to));
    }
    if !args.run_it {
        print_stdout(format!("{dropped}\n").as_bytes())?;
    }
    go_on(stored.id(), args.run_it, args.options, args.place)
}

/// Whether a step had not ended at that point, or not begun.
fn is_under_way(point: &Point, step: u64) -> bool {
    let runs = |agent: &raymond_core::run::Agent| agent.work().is_some_and(|work| work.step == step);
    step > point.state.steps_started || point.state.agents.values().any(runs)
}
