//! One life of Raymond on the simulated host: it starts or resumes a run and drives it round by round until it ends.
//!
//! This does what the driver and `raymond resume` do, around the real engine, journal, payloads and recovery.

use raymond::run::engine::{Command, Engine, Round};
use raymond::run::recovery::take_over_with;
use raymond::store::{Opened, RunWriter, Start, StoreError};
use raymond_core::decide;
use raymond_core::event::{Body, Event};
use raymond_core::input::Input;
use raymond_core::money::Usd;
use raymond_core::run::{RunStatus, Status};

use crate::back::How;
use crate::course::Course;
use crate::fault::{Kind, Site};
use crate::home::RUN;
use crate::host::{Crashed, Host, PLACE};
use crate::library::Library;
use crate::process::{FOR_EVER, Process};
use crate::rehearsal::rehearse;

/// How a life ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    Crashed,
    /// Raymond ended or refused to start, with this error.
    Refused(String),
    Exit(RunStatus),
    /// A recorded run has left its recorded course.
    OffCourse,
    /// Something is wrong.
    Broken,
}

impl From<Crashed> for Death {
    fn from(_: Crashed) -> Self {
        Death::Crashed
    }
}

/// A run that was resumed.
struct Begun {
    engine: Engine<Box<dyn RunWriter>>,
    unseen: Vec<Event>,
    opening: Vec<Input>,
}

impl Host<'_> {
    /// Runs one life.
    pub fn live(&mut self) -> Death {
        self.life += 1;
        self.library = Library::open(self.program, &self.options, self.part);
        self.disk.log(|| format!("      -- life {} at {}", self.life, self.now()));
        let death = match self.begin().and_then(|begun| self.drive(begun)) {
            Ok(status) => Death::Exit(status),
            Err(death) => death,
        };
        let is_down = self.disk.tape(|tape| tape.down.is_some());
        match death {
            Death::Broken | Death::Crashed if self.is_off_course => Death::OffCourse,
            Death::Refused(_) if is_down => Death::Crashed,
            other => other,
        }
    }

    fn begin(&mut self) -> Result<Begun, Death> {
        match self.home.open(self.journal_options()) {
            Ok(Opened { writer, run, .. }) => {
                self.check_recovery(&run)?;
                if run.status == RunStatus::Completed {
                    return Err(Death::Exit(RunStatus::Completed));
                }
                let interrupted = self.take_over(&run)?;
                let resume = |interrupted| Input::Resume {
                    options: Box::new(self.options.clone()),
                    interrupted,
                    forgotten: Vec::new(),
                    moved: None,
                };
                let hits = self.disk.tape(|tape| tape.hits);
                let rehearsed = rehearse(self, run.clone(), resume(interrupted.clone()));
                self.expected = rehearsed.map(|events| (events, hits));
                let opening = vec![resume(interrupted)];
                Ok(Begun { engine: Engine::take_up(run, writer), unseen: Vec::new(), opening })
            }
            Err(StoreError::Missing { .. }) => self.create(),
            Err(StoreError::Empty { .. }) => {
                self.monitor.expect(self.monitor.events.is_empty(), || "the journal is empty".to_owned());
                self.home.remove_empty();
                self.create()
            }
            Err(error) => Err(self.refused(error.to_string())),
        }
    }

    fn create(&mut self) -> Result<Begun, Death> {
        let writer =
            self.home.create(self.journal_options()).map_err(|error| self.refused(error.to_string()))?;
        let started = self.program.run_started();
        let input =
            self.program.course.as_ref().map_or(Some("input".to_owned()), |course| course.input.clone());
        let opening = decide::start(started, input);
        let (engine, unseen) = Engine::create(RUN, self.now(), opening, writer)
            .map_err(|error| self.refused(error.to_string()))?;
        self.monitor.acknowledged(&unseen, engine.run());
        Ok(Begun { engine, unseen, opening: Vec::new() })
    }

    /// Raymond may refuse only because of a simulated fault.
    pub(crate) fn refused(&mut self, error: String) -> Death {
        self.monitor.expect(error.contains("simulated"), || format!("Raymond refuses: {error}"));
        Death::Refused(error)
    }

    /// Reading again gives the same events, and continues from the committed ones.
    pub(crate) fn check_recovery(&mut self, run: &raymond_core::run::Run) -> Result<(), Death> {
        match self.read_everything() {
            Ok(batches) => self.monitor.recovered(&batches, run),
            Err(error) => self.monitor.broken.push(format!("the whole journal cannot be read: {error}")),
        }
        self.check()
    }

    fn read_everything(&self) -> Result<Vec<Vec<Event>>, StoreError> {
        let mut events = self.home.look().events(Start::After(0))?;
        let mut batches = Vec::new();
        while let Some(batch) = events.next_batch()? {
            batches.push(batch);
        }
        Ok(batches)
    }

    pub(crate) fn take_over(
        &mut self,
        run: &raymond_core::run::Run,
    ) -> Result<Vec<raymond_core::event::Interrupted>, Death> {
        let estimates: Vec<(u64, u32, Usd)> = self
            .processes
            .iter()
            .map(|process| (process.step(), process.attempt(), process.estimate()))
            .collect();
        let estimate = |step, attempt| {
            let found = estimates.iter().find(|(s, a, _)| (*s, *a) == (step, attempt));
            found.map_or(Usd::ZERO, |(_, _, estimate)| *estimate)
        };
        let mut crashed = false;
        // No process has ever written there.
        let scratch = self.program.home().join("scratch");
        let end = |targets: Vec<raymond::process::Target>| {
            let mut survivors = Vec::new();
            for target in targets {
                match self.end_by_token(&target.token) {
                    Ok(found) => survivors.extend(found),
                    Err(Crashed) => crashed = true,
                }
            }
            survivors
        };
        let taken =
            take_over_with(run, PLACE, &scratch, end, |lost| estimate(lost.work.step, lost.work.attempt));
        if crashed {
            return Err(Death::Crashed);
        }
        taken.map_err(|error| Death::Refused(error.to_string()))
    }

    fn drive(&mut self, begun: Begun) -> Result<RunStatus, Death> {
        let Begun { mut engine, unseen, opening } = begun;
        engine.wait_for_answers(!self.pauses());
        self.publish(&unseen)?;
        self.read_questions(&engine);
        let (mut taken, answers) = self.look_into_inbox();
        if !answers.is_empty() {
            self.expected = None;
        }
        let mut inputs: Vec<Input> = opening.into_iter().chain(answers).collect();
        for _ in 0..5_000 {
            self.receive(&mut engine)?;
            let now = self.now();
            let round = engine.round(now, inputs, &mut self.library);
            let round = round.map_err(|error| self.give_up(error.to_string()))?;
            self.people.remove(&std::mem::take(&mut taken));
            self.monitor.acknowledged(&round.events, engine.run());
            if let Some((expected, hits)) = self.expected.take()
                && self.disk.tape(|tape| tape.hits == hits)
            {
                self.monitor
                    .expect(expected == round.events, || "a second recovery gives other events".to_owned());
            }
            self.check()?;
            let trouble = round.trouble.clone();
            let status = self.carry_out(&engine, round)?;
            if let Some(error) = trouble {
                return Err(self.give_up(error.to_string()));
            }
            if let Some(status) = status {
                return Ok(status);
            }
            if self.is_off_course {
                return Err(Death::OffCourse);
            }
            (taken, inputs) = self.wait(&engine)?;
        }
        self.monitor.broken.push("it goes on for ever".to_owned());
        Err(Death::Broken)
    }

    /// The point at which inputs are received; a person may also ask for a stop here.
    fn receive(&mut self, engine: &mut Engine<Box<dyn RunWriter>>) -> Result<(), Death> {
        match self.pass(Site::Receive, String::new)? {
            Some(Kind::StopGently) => engine.drain(),
            Some(Kind::StopNow) => {
                engine.drain();
                self.end_programs(false);
            }
            Some(Kind::LoseMachine) => self.lose_machine(),
            Some(Kind::Rewind(share)) => return Err(self.wishes(How::Rewind, share)),
            Some(Kind::Branch(share)) => return Err(self.wishes(How::Branch, share)),
            Some(Kind::Retry(share)) => return Err(self.wishes(How::Retry, share)),
            Some(Kind::Jump(share)) => return Err(self.wishes(How::Jump, share)),
            Some(Kind::ClockJump(seconds)) => self.set_clock(seconds),
            _ => {}
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        engine: &Engine<Box<dyn RunWriter>>,
        round: Round<Option<std::time::Duration>>,
    ) -> Result<Option<RunStatus>, Death> {
        self.publish(&round.events)?;
        self.read_questions(engine);
        self.clean_up(&round.events);
        let mut is_over = false;
        for command in round.commands {
            match command {
                Command::Launch(launch) => self.spawn(*launch)?,
                Command::EndScripts => self.end_programs(true),
                Command::Finish => is_over = true,
            }
        }
        self.check_programs();
        self.check()?;
        Ok(is_over.then_some(engine.run().status))
    }

    /// A step that exited with 0 and still failed leaves no process behind.
    fn clean_up(&mut self, events: &[Event]) {
        for event in events {
            if let Body::StepFailed(failed) = &event.body {
                let of_step = |process: &&mut Process| Some(process.step()) == failed.step;
                self.processes.iter_mut().filter(of_step).for_each(|process| process.child_lives = false);
            }
        }
    }

    fn publish(&mut self, events: &[Event]) -> Result<(), Death> {
        if !events.is_empty() {
            self.pass(Site::Publish, String::new)?;
            for event in events {
                self.disk.log(|| {
                    let line = serde_json::to_string(&event.body).unwrap_or_default();
                    format!("      {} {}", event.seq, line.chars().take(220).collect::<String>())
                });
            }
        }
        Ok(())
    }

    fn read_questions(&mut self, engine: &Engine<Box<dyn RunWriter>>) {
        if self.program.is_answered && self.program.course.is_none() {
            for (agent, ask) in engine.run().asks() {
                self.people.read(ask, agent.id.as_str(), self.clock);
            }
        }
    }

    fn look_into_inbox(&mut self) -> (Vec<String>, Vec<Input>) {
        self.people.act(self.clock);
        self.monitor.account.first_answers = self.people.first.clone();
        self.people.look()
    }

    /// Lets time pass until something happens, and returns some of what has happened.
    fn wait(&mut self, engine: &Engine<Box<dyn RunWriter>>) -> Result<(Vec<String>, Vec<Input>), Death> {
        let wake = engine.run().next_wake(self.now()).map(|time| self.when(time));
        let Some(next) = [wake, self.next_report(), self.people.next()].into_iter().flatten().min() else {
            self.monitor.broken.push(format!("the run waits for nothing: {:?}", engine.run()));
            return Err(Death::Broken);
        };
        if next >= FOR_EVER {
            self.is_off_course = true;
            return Err(Death::OffCourse);
        }
        self.clock = self.clock.max(next);
        self.let_programs_end();
        let most = 1 + self.rng.below(4);
        let mut inputs = self.take_losses();
        inputs.extend(self.take_reports(most));
        let (names, answers) = self.look_into_inbox();
        inputs.extend(answers);
        Ok((names, inputs))
    }

    /// The journal cannot be written: all programs are ended before Raymond ends.
    fn give_up(&mut self, error: String) -> Death {
        let is_down = self.disk.tape(|tape| tape.down.is_some());
        if is_down {
            return Death::Crashed;
        }
        self.end_programs(false);
        self.clock += 6_000;
        self.let_programs_end();
        self.refused(error)
    }

    /// Whether open questions end the run.
    pub fn pauses(&self) -> bool {
        match &self.program.course {
            Some(course) => course.parts[self.part].pauses,
            None => self.program.pauses,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Death> {
        if self.monitor.broken.is_empty() { Ok(()) } else { Err(Death::Broken) }
    }

    /// A person looks at the status of the run and starts it again.
    pub fn react(&mut self, status: RunStatus) {
        let Some(run) = &self.monitor.run else { return };
        if status == RunStatus::OverBudget {
            self.options.budget_usd += Usd::from_dollars(1.0);
        }
        if run.is_out_of_steps() {
            self.options.max_steps = self.options.max_steps.map(|most| most + 5);
        }
        let asks = run.agents.values().any(|agent| matches!(agent.status, Status::Asking { .. }));
        if asks && let Some(time) = self.people.next() {
            self.clock = self.clock.max(time);
            self.people.act(self.clock);
        }
    }

    /// At the end of a part of a recorded run, repeats what the person did then. Returns whether that was the last
    /// part.
    pub fn go_on_as_recorded(&mut self, course: &Course) -> bool {
        // By the time a person looks, the system has written everything.
        self.disk.settle();
        self.monitor.look();
        let Some(run) = &self.monitor.run else { return false };
        let (status, asks) = (run.status, run.asks());
        let ends = self.monitor.events.iter().filter(|event| event.body.is_last()).count();
        if ends <= self.part {
            return false;
        }
        let expected = course.parts[self.part].end;
        if status != expected {
            let why = format!("part {} ends as {status:?} instead of {expected:?}", self.part + 1);
            self.monitor.expect(course.depends_on_order, || why);
            self.is_off_course = true;
            return true;
        }
        let Some(next) = course.parts.get(self.part + 1) else { return true };
        for (agent, text) in &next.answers {
            if let Some((_, ask)) = asks.iter().find(|(asking, _)| asking.id == *agent) {
                self.people.post(&ask.id, text);
            }
        }
        self.part += 1;
        self.options = next.options.clone();
        self.clock = self.clock.max(next.begin);
        self.monitor.forget_tries();
        false
    }
}
