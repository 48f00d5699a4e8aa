//! A person takes the run back to a step, or goes on with a branch of it, between two lives of Raymond.
//!
//! This does what `raymond rewind` and `raymond branch` do, with the real history and store. A command that is killed is
//! given again.

use raymond::history::{Back, Branch, Point, branch, rewind};
use raymond::run::engine::Engine;
use raymond::store::{Opened, RunWriter, Start, StoreError};
use raymond_core::event::{Body, Event, Moved};
use raymond_core::input::Input;
use raymond_core::run::{Run, RunStatus, Status};

use crate::fault::Down;
use crate::host::Host;
use crate::library::Library;
use crate::life::Death;

/// The state of a run that no Raymond drives, with its lease.
type Held = (Run, Box<dyn RunWriter>);

/// What a person wants to do with the run.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    how: How,
    /// The share (of 256) of the steps that have ended.
    share: u8,
    /// The step that follows from it, once it is known.
    step: Option<u64>,
    /// How often the command was given.
    tries: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Rewind,
    Branch,
}

impl Wish {
    pub fn rewind(share: u8) -> Self {
        Self { how: How::Rewind, share, step: None, tries: 0 }
    }

    pub fn branch(share: u8) -> Self {
        Self { how: How::Branch, share, step: None, tries: 0 }
    }
}

impl Host<'_> {
    /// Raymond is killed, and a person will do this.
    pub fn wishes(&mut self, wish: Wish) -> Death {
        self.wish = Some(wish);
        self.disk.tape(|tape| tape.go_down(Down::Killed));
        Death::Crashed
    }

    /// Gives the command that a person wants to give.
    pub fn go_back(&mut self) -> Death {
        let Some(mut wish) = self.wish else { return Death::Broken };
        self.life += 1;
        self.monitor.look();
        wish.step = wish.step.or_else(|| self.step_of(wish.share));
        wish.tries += 1;
        self.wish = Some(wish);
        self.disk.log(|| format!("      -- {wish:?} at {}", self.now()));
        let done = match (wish.how, wish.step) {
            (_, None) => Ok(()),
            (How::Rewind, Some(step)) => self.rewind_to(step, wish.tries),
            (How::Branch, Some(step)) => self.branch_at(step, wish.tries),
        };
        let is_down = self.disk.tape(|tape| tape.down.is_some());
        match done {
            Ok(()) => {
                self.wish = None;
                Death::Exit(RunStatus::Interrupted)
            }
            Err(Death::Refused(_)) if is_down => Death::Crashed,
            Err(death) => death,
        }
    }

    /// A step that has ended.
    fn step_of(&self, share: u8) -> Option<u64> {
        let ended = |event: &Event| match &event.body {
            Body::StepFinished(finished) => Some(finished.step),
            Body::StepFailed(failed) => failed.step,
            _ => None,
        };
        let steps: Vec<u64> = self.monitor.events.iter().filter_map(ended).collect();
        steps.get(steps.len() * usize::from(share) / 256).copied()
    }

    fn rewind_to(&mut self, step: u64, tries: usize) -> Result<(), Death> {
        let Some((end, mut writer)) = self.hold()? else { return Ok(()) };
        let was_done =
            matches!(self.monitor.events.last().map(|event| &event.body), Some(Body::RunStarted(_)));
        if was_done && tries > 1 {
            self.start_over();
            return Ok(());
        }
        let store = self.home.store();
        let point = self.point(step)?;
        if point.seq == end.seq {
            return Ok(());
        }
        let before = self.monitor.events.clone();
        let handed_over = &|_: &str| Moved::default();
        let back = Back { point: &point, forgotten: Vec::new(), moved: Moved::default(), handed_over };
        let dropped = rewind(&*store, &mut *writer, end, back, self.journal_options(), self.now())
            .map_err(|error| self.stopped(error))?;
        self.left_behind.push((dropped, before));
        self.start_over();
        self.check()
    }

    fn branch_at(&mut self, step: u64, tries: usize) -> Result<(), Death> {
        let store = self.home.store();
        let origin = self.home.run.clone();
        let point = self.point(step)?;
        let id = |number: usize| format!("{origin}-{number}");
        // A command that was killed may have made the branch.
        let made = (1..tries).map(id).find(|id| self.home.look_at(id).load().is_ok());
        let id = match made {
            Some(id) => {
                // By the time a person finds it, the system has written everything.
                self.disk.settle();
                id
            }
            None => {
                let how = Branch {
                    options: point.state.options.clone(),
                    reset_cost: false,
                    forgotten: Vec::new(),
                    moved: Moved::default(),
                    kept_from: None,
                };
                let new = id(tries);
                branch(&*store, &new, self.journal_options(), self.now(), (&origin, &point), how)
                    .map_err(|error| self.stopped(error))?;
                new
            }
        };
        self.left_behind.push((origin, self.monitor.events.clone()));
        self.home.run = id;
        self.monitor.follow_branch(&self.home, point.seq);
        self.start_over();
        self.check()
    }

    /// The run without a Raymond. If the last one died, the run is stopped in its place.
    fn hold(&mut self) -> Result<Option<Held>, Death> {
        let opened = match self.home.open(self.journal_options()) {
            Ok(opened) => opened,
            Err(StoreError::Missing { .. } | StoreError::Empty { .. }) => return Ok(None),
            Err(error) => return Err(self.stopped(error)),
        };
        let Opened { writer, run, .. } = opened;
        self.check_recovery(&run)?;
        if run.status != RunStatus::Running {
            return Ok(Some((run, writer)));
        }
        let mut interrupted = self.take_over(&run)?;
        interrupted.retain(|step| {
            let agent = run.agents.get(&step.agent);
            agent.is_some_and(|agent| matches!(agent.status, Status::Running { .. }))
        });
        let mut engine = Engine::take_up(run, writer);
        let close = Input::Close { stop_requested: true, terminated: false, interrupted };
        let mut library = Library::open(self.program, &self.options, self.part);
        let round = engine.round(self.now(), [close], &mut library).map_err(|error| self.stopped(error))?;
        if let Some(error) = round.trouble {
            return Err(self.stopped(error));
        }
        self.monitor.acknowledged(&round.events, engine.run());
        self.check()?;
        Ok(Some(engine.into_parts()))
    }

    fn point(&mut self, step: u64) -> Result<Point, Death> {
        let run = self.home.store().run(&self.home.run).map_err(|error| self.stopped(error))?;
        Point::after_step(&*run, step).map_err(|error| self.refused(error.to_string()))
    }

    /// The store refuses because of a simulated fault, or because this process is down.
    fn stopped(&mut self, error: StoreError) -> Death {
        match self.disk.tape(|tape| tape.down.is_some()) {
            true => Death::Crashed,
            false => self.refused(error.to_string()),
        }
    }

    /// What was under way belongs to what is left behind.
    fn start_over(&mut self) {
        self.monitor.look();
        self.processes.clear();
        self.reports.clear();
        self.losses.clear();
        self.people.go_back(&self.monitor.account.closed_asks);
    }

    /// What is left behind stays as it was.
    pub fn check_left_behind(&mut self) {
        for (id, kept) in std::mem::take(&mut self.left_behind) {
            let read = self.events_of(&id);
            let is_kept = matches!(&read, Ok(events) if events.starts_with(&kept));
            self.monitor
                .expect(is_kept, || format!("{id} is not as it was left: {read:?} instead of {kept:?}"));
        }
    }

    fn events_of(&self, id: &str) -> Result<Vec<Event>, StoreError> {
        let mut reader = self.home.look_at(id).events(Start::After(0))?;
        let mut events = Vec::new();
        while let Some(batch) = reader.next_batch()? {
            events.extend(batch.into_iter().filter(|event| !matches!(event.body, Body::Snapshot { .. })));
        }
        Ok(events)
    }
}
