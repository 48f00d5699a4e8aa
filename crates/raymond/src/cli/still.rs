//! What `rewind`, `retry` and `jump` share: a run that no process drives is changed, and perhaps continued.

use std::path::Path;
use std::sync::Arc;

use raymond_core::event::Interrupted;
use raymond_core::input::Input;
use raymond_core::run::{Agent, Run, RunStatus, Status};

use super::args::{Place, ResumeArgs, RunOptions};
use super::drive::kept_debug_files;
use super::find::{journal_options, scratch_folder};
use super::print::say;
use super::resume::resume;
use super::rewound::finish_rewind;
use super::settings::{self, Change};
use crate::advice;
use crate::agent::registry::Backends;
use crate::config::Config;
use crate::error::{ExitKind, UserError};
use crate::process::Reaper;
use crate::run::driver::now;
use crate::run::engine::{Engine, Preparation, States};
use crate::run::recovery::take_over;
use crate::store::{Opened, RunHandle, RunStore, RunWriter, StoreError};

/// A run that stands still, with its lease.
pub(super) type Still = Engine<Box<dyn RunWriter>>;

/// Takes the lease of a run. If its last process died, what is left of its steps is ended, and the run is stopped as that
/// process would have done it. Returns the settings that the command may use, too.
pub(super) fn hold(
    store: &dyn RunStore,
    stored: &Arc<dyn RunHandle>,
    place: &Place,
    means: Change<'_>,
) -> Result<(Still, Config), UserError> {
    if let Some(elsewhere) = stored.try_elsewhere()? {
        return Err(UserError::usage(format!("{} is carried out by {}", stored.id(), elsewhere.engine))
            .hint("a run on other machines can be stopped and resumed"));
    }
    let Opened { writer, run, .. } = stored.open(journal_options(&means.layers.harmless(None)?.raymond))?;
    let config = settings::of_change(means, Path::new(&run.scope))?;
    finish_rewind(store, &**stored, &run, place)?;
    if run.status != RunStatus::Running {
        return Ok((Engine::take_up(run, writer), config));
    }
    let reaper = Reaper::start()
        .map_err(|error| UserError::failed(format!("cannot watch over processes: {error}")))?;
    let scratch = scratch_folder(place, stored.id())?;
    let kept = kept_debug_files(place, stored.id());
    let backends = Backends::new(&config)?;
    let (interrupted, _) = take_over(&run, &stored.identity(), &scratch, &reaper, &kept, &backends)?;
    let was_running = |step: &Interrupted| {
        let agent = run.agents.get(&step.agent);
        agent.is_some_and(|agent| matches!(agent.status, Status::Running { .. }))
    };
    let interrupted = interrupted.into_iter().filter(was_running).collect();
    let mut still = Engine::take_up(run, writer);
    change(&mut still, Input::Close { stop_requested: true, terminated: false, interrupted })?;
    Ok((still, config))
}

/// Records what a person changes.
pub(super) fn change(still: &mut Still, input: Input) -> Result<(), UserError> {
    let round =
        still.round(now(), [input], &mut NoStates).map_err(|error| UserError::failed(error.to_string()))?;
    match round.trouble {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Nothing starts in a run that stands still.
struct NoStates;

impl States for NoStates {
    type Job = ();

    fn prepare(&mut self, _: &Run, _: &Agent) -> Result<Preparation<()>, StoreError> {
        Ok(Err("the run stands still".to_owned()))
    }
}

/// Goes on with the run if that is wanted, or says how.
pub(super) fn go_on(run: &str, now: bool, options: RunOptions, place: Place) -> Result<ExitKind, UserError> {
    if now {
        let run = Some(run.to_owned());
        return resume(ResumeArgs { run, fresh: false, diff: false, options, place });
    }
    if !options.quiet {
        say(&format!("  → {}", advice::command(&format!("resume {run}"))));
    }
    Ok(ExitKind::Completed)
}
