//! How a run is recorded, replayed, or staged for a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use raymond_core::run::{Options, Run};

use super::args::{Place, RunOptions};
use super::drive::traces;
use crate::agent::prepared::{Missing, Prepared};
use crate::agent::registry::Backends;
use crate::check::stage::Stage;
use crate::config::Config;
use crate::error::UserError;
use crate::process::secrets::Secrets;
use crate::recording::{self, RecordedTurn};
use crate::run::rehearsal::{Clock, Rehearsal};
use crate::store::{Durability, JournalOptions, RunHandle, Start};
use crate::view::recorder::Recorder;

/// What differs from an ordinary run.
#[derive(Debug, Default)]
pub(super) struct Staging {
    stage: Option<Stage>,
    prepared: Option<Arc<Prepared>>,
    record: Option<PathBuf>,
}

/// What the driver is given of it.
#[derive(Default)]
pub(super) struct Staged {
    pub(super) recorder: Option<Recorder>,
    pub(super) rehearsal: Option<Rehearsal>,
    pub(super) clock: Clock,
    /// The project's folder.
    pub(super) project: PathBuf,
    /// Whether prompts are recorded, or compared with recorded ones.
    pub(super) keeps_portable: bool,
}

/// The stage that a test hands over, if it is one.
pub(super) fn stage(args: &RunOptions) -> Result<Option<Stage>, UserError> {
    args.stage.as_deref().map(Stage::read).transpose()
}

/// The config of a test: none of the machine's, but its workflow may enter others of its project.
pub(super) fn config_of_test(stage: &Stage) -> Config {
    let mut config = Config::default();
    // The expectations of a test are about all prompts.
    config.raymond.debug_steps = Some(usize::MAX);
    config.raymond.workflow_paths.extend(stage.project.to_str().map(str::to_owned));
    config
}

impl Staging {
    pub(super) fn new(stage: Option<Stage>, options: &Options) -> Result<Self, UserError> {
        let prepared = match (&stage, &options.replay) {
            (Some(stage), _) => Some(stage.prepared()?),
            (None, Some(replay)) => Some(replayed(Path::new(replay), options)?),
            (None, None) => None,
        };
        let record = options.record.as_deref().map(PathBuf::from);
        record.as_deref().map_or(Ok(()), check_record)?;
        Ok(Self { stage, prepared: prepared.map(Arc::new), record })
    }

    pub(super) fn backends(&self, backends: Backends) -> Backends {
        match &self.prepared {
            Some(prepared) => backends.answered_by(prepared),
            None => backends,
        }
    }

    /// A test needs to survive only a kill, and is over soon.
    pub(super) fn journal_options(&self, options: JournalOptions) -> JournalOptions {
        match self.stage {
            Some(_) => JournalOptions { durability: Durability::Process, ..options },
            None => options,
        }
    }

    /// What a new run needs.
    pub(super) fn begin(self, project: &Path) -> Result<Staged, UserError> {
        let rehearsal = self.stage.as_ref().map(|stage| rehearsal(stage, 0));
        self.staged(rehearsal, Clock::default(), false, project)
    }

    /// A process that was killed may not have written its last turns to the recording, although they are in the
    /// journal. They are added before the run goes on.
    pub(super) fn complete_recording(
        &self,
        stored: &dyn RunHandle,
        place: &Place,
        project: &Path,
    ) -> Result<(), UserError> {
        let Some(path) = self.record.as_deref().filter(|path| path.exists()) else { return Ok(()) };
        let wrong =
            |error: String| UserError::usage(error).hint("to go on with another recording: --record FILE");
        let mut turns = recording::read_whole_lines(path).map_err(|error| wrong(error.to_string()))?;
        let known = turns.len();
        let all = recording::of_run(stored, &|run| traces(place, run), project)?;
        let missing: Vec<RecordedTurn> =
            all.into_iter().filter(|turn| !turns.iter().any(|known| known.is_same_turn(turn))).collect();
        turns.extend(missing);
        if turns.len() > known {
            recording::write(path, &turns)
                .map_err(|error| wrong(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(())
    }

    /// What a run needs that goes on. Which questions were asked before is in its journal.
    pub(super) fn go_on(
        self,
        run: &Run,
        stored: &dyn RunHandle,
        project: &Path,
    ) -> Result<Staged, UserError> {
        let Some(stage) = &self.stage else { return self.staged(None, Clock::default(), true, project) };
        let mut rehearsal = rehearsal(stage, run.steps_completed);
        let mut events = stored.events(Start::After(0))?;
        while let Some(batch) = events.next_batch()? {
            rehearsal.note(&batch);
        }
        self.staged(Some(rehearsal), Clock::not_before(run.last_time), true, project)
    }

    fn staged(
        self,
        rehearsal: Option<Rehearsal>,
        clock: Clock,
        goes_on: bool,
        project: &Path,
    ) -> Result<Staged, UserError> {
        let open = |path: &PathBuf| {
            Recorder::open(path, goes_on)
                .map_err(|error| UserError::usage(format!("cannot write {}: {error}", path.display())))
        };
        let keeps_portable = self.record.is_some() || self.prepared.is_some();
        let recorder = self.record.as_ref().map(open).transpose()?;
        Ok(Staged { recorder, rehearsal, clock, project: project.to_owned(), keeps_portable })
    }
}

/// A recording is read again by a resume, so only a plain file will do. This is said before a run is made.
fn check_record(path: &Path) -> Result<(), UserError> {
    match path.metadata() {
        Ok(data) if !data.is_file() => {
            Err(UserError::usage(format!("cannot record to {}: it is not a plain file", path.display()))
                .hint("name a file that is there or can be made: --record FILE"))
        }
        _ => Ok(()),
    }
}

fn rehearsal(stage: &Stage, finished: u64) -> Rehearsal {
    Rehearsal::new(stage.answers.clone(), &stage.kill_after, finished, stage.stops_at_questions)
}

fn replayed(path: &Path, options: &Options) -> Result<Prepared, UserError> {
    let missing = match options.replay_missing.as_deref() {
        None | Some("fail") => Missing::Fail,
        Some("closest") => Missing::Closest,
        Some("live") => Missing::Live,
        Some(other) => {
            let error = format!("the run is to be replayed with --replay-missing={}", other.escape_debug());
            return Err(UserError::usage(error).hint("it can be fail, closest or live"));
        }
    };
    let recorded = recording::read(path).map_err(|error| {
        UserError::usage(error.to_string()).hint("record a run with: raymond run WORKFLOW --record FILE")
    })?;
    Ok(Prepared { recorded, missing, secrets: Secrets::of(std::env::vars_os()), ..Prepared::default() })
}
