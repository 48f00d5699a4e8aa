//! A person changes the run between two lives of Raymond: takes it back to a step, goes on with a branch of it, lets a
//! failed agent try again, or sends an agent elsewhere.
//!
//! This does what `raymond rewind`, `branch`, `retry` and `jump` do, with the real history, engine and store. A command
//! that is killed is given again.

use raymond::history::{Back, Branch, Point, branch, rewind};
use raymond::run::engine::Engine;
use raymond::store::{Opened, RunWriter, Start, StoreError};
use raymond_core::event::{Body, Event, Moved};
use raymond_core::input::Input;
use raymond_core::name::AgentId;
use raymond_core::run::{Agent, Run, RunStatus, Status};
use raymond_core::workflow::StateFile;

use crate::fault::Down;
use crate::host::Host;
use crate::library::Library;
use crate::life::Death;
use crate::people::answer_for;

/// The state of a run that no Raymond drives, with its lease.
type Held = (Run, Box<dyn RunWriter>);

/// What a person wants to do with the run.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    how: How,
    /// The share (of 256) of the steps that have ended, or of the agents that are there to choose from.
    share: u8,
    /// The step that follows from it, once it is known.
    step: Option<u64>,
    /// How often the command was given.
    tries: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Rewind,
    Branch,
    Retry,
    Jump,
}

impl Host<'_> {
    /// Raymond is killed, and a person will do this.
    pub fn wishes(&mut self, how: How, share: u8) -> Death {
        self.wish = Some(Wish { how, share, step: None, tries: 0 });
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
            (How::Retry, _) => self.retry(wish),
            (How::Jump, _) => self.jump(wish),
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
        let steps: Vec<u64> = self.monitor.events.iter().filter_map(ended_step).collect();
        one_of(steps, share)
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
        let close = Input::Close { stop_requested: true, terminated: false, interrupted };
        self.change((run, writer), close).map(Some)
    }

    /// Records what a person changes.
    fn change(&mut self, (run, writer): Held, input: Input) -> Result<Held, Death> {
        let mut engine = Engine::take_up(run, writer);
        let mut library = Library::open(self.program, &self.options, self.part);
        let round = engine.round(self.now(), [input], &mut library).map_err(|error| self.stopped(error))?;
        if let Some(error) = round.trouble {
            return Err(self.stopped(error));
        }
        self.monitor.acknowledged(&round.events, engine.run());
        self.check()?;
        Ok(engine.into_parts())
    }

    /// Lets one of the failed agents try again.
    fn retry(&mut self, wish: Wish) -> Result<(), Death> {
        let retry = |agent: &AgentId| Input::Retry { agents: vec![agent.clone()] };
        let retries = |_: &Self, run: &Run| run.failed_agents().map(retry).collect();
        self.change_once(wish, |body| matches!(body, Body::AgentRetried { .. }), retries)
    }

    /// Sends one of the agents to where it goes on anyway, so that the outcome stays the same.
    fn jump(&mut self, wish: Wish) -> Result<(), Death> {
        let jumps =
            |host: &Self, run: &Run| run.agents.values().filter_map(|agent| host.jump_of(agent)).collect();
        self.change_once(wish, |body| matches!(body, Body::AgentMoved { .. }), jumps)
    }

    /// Makes one of the changes that are possible, unless a command that was killed has made it.
    fn change_once(
        &mut self,
        wish: Wish,
        is_change: fn(&Body) -> bool,
        possible: impl Fn(&Self, &Run) -> Vec<Input>,
    ) -> Result<(), Death> {
        let Some(held) = self.hold()? else { return Ok(()) };
        if wish.tries > 1 && self.was_changed(is_change) {
            return Ok(());
        }
        let Some(input) = one_of(possible(self, &held.0), wish.share) else { return Ok(()) };
        self.change(held, input)?;
        let is_made = self.was_changed(is_change);
        self.monitor.expect(is_made, || format!("{wish:?} has changed nothing"));
        self.check()
    }

    /// Whether a person has made such a change since the run stopped.
    fn was_changed(&self, is_change: fn(&Body) -> bool) -> bool {
        let mut since = self.monitor.events.iter().rev().take_while(|event| !event.body.is_last());
        since.any(|event| is_change(&event.body))
    }

    /// A jump of an agent into the state that it would start next. There is none if it waits for workers, and none if
    /// what it does depends on how often it was there.
    fn jump_of(&self, agent: &Agent) -> Option<Input> {
        let (target, input) = match &agent.status {
            Status::Asking { ask } if self.program.is_answered => {
                (ask.next.clone(), Some(answer_for(agent.id.as_str())))
            }
            Status::Ready { .. } | Status::Running { .. } | Status::Waiting { .. } => again(self, agent),
            Status::Failed { waited: None, .. } => again(self, agent),
            Status::Asking { .. }
            | Status::Joining { .. }
            | Status::Ending { .. }
            | Status::Failed { waited: Some(_), .. } => return None,
        };
        let is_same_at_any_visit = !self.program.state_of(agent, &target).counts_visits();
        is_same_at_any_visit.then(|| Input::Jump { agent: agent.id.clone(), target, input })
    }

    fn point(&mut self, step: u64) -> Result<Point, Death> {
        let run = self.home.store().run(&self.home.run).map_err(|error| self.stopped(error))?;
        let point = Point::after_step(&*run, step).map_err(|error| self.refused(error.to_string()))?;
        let end = self.monitor.events.iter().find(|event| ended_step(event) == Some(step));
        let right = end.and_then(|end| self.monitor.end_of_batch(end.seq));
        self.monitor.expect(right == Some(point.seq), || {
            format!("event {} is taken for the end of step {step} instead of {right:?}", point.seq)
        });
        self.check()?;
        Ok(point)
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

/// The state that an agent is in, with its input.
fn again(host: &Host<'_>, agent: &Agent) -> (StateFile, Option<String>) {
    let input = agent.payload.as_ref().map(|payload| host.monitor.text_of(payload));
    (agent.state.clone(), input)
}

/// The step that ended with an event.
fn ended_step(event: &Event) -> Option<u64> {
    match &event.body {
        Body::StepFinished(finished) => Some(finished.step),
        Body::StepFailed(failed) => failed.step,
        _ => None,
    }
}

/// The entry at a share (of 256) of a list.
fn one_of<T>(list: Vec<T>, share: u8) -> Option<T> {
    let at = list.len() * usize::from(share) / 256;
    list.into_iter().nth(at)
}
