//! Simulated programs: they outlive the Raymond that started them until they are ended.

use std::time::Duration;

use crate::library::Launch;
use jiff::Timestamp;
use raymond_core::duration::Limit;
use raymond_core::header::Header;
use raymond_core::input::{
    BadMessage, CompletedTurn, Ended, FailedTurn, FaultClass, Input, Lookups, Plan, ProcessExit,
    ScriptOutcome, StepOutcome, TimeLimit, TurnCost, TurnOutcome,
};
use raymond_core::money::Usd;
use raymond_core::payload::Payload;
use raymond_core::run::{Session, later};
use raymond_core::tag::{Collected, TagCollector};
use raymond_core::tokens::Tokens;
use raymond_core::transition::{self, ProtocolError, Reading};
use raymond_core::variable::Rules;

use crate::library::Library;
use crate::program::{Act, Does};
use crate::rng::Rng;

/// How long a program runs that never ends by itself, in milliseconds.
pub const FOR_EVER: u64 = 1_000_000_000_000;

/// One attempt's program.
#[derive(Debug)]
pub struct Process {
    pub launch: Launch,
    pub token: String,
    /// Which life of Raymond started it and is told of its end.
    pub life: u32,
    pub act: Act,
    /// What it prints, with its placeholders filled in.
    pub text: String,
    pub started: u64,
    pub ends: u64,
    pub is_alive: bool,
    pub child_lives: bool,
    /// Set if it was ended early.
    pub was_ended: bool,
    /// Set if the machine that it ran on was lost.
    pub is_lost: bool,
    /// Set if it could not be started.
    pub was_refused: bool,
    pub chunks: u64,
}

impl Process {
    pub fn step(&self) -> u64 {
        self.launch.started.step
    }

    pub fn attempt(&self) -> u32 {
        self.launch.started.attempt
    }

    /// Whether it or its child is alive.
    pub fn lives(&self) -> bool {
        self.is_alive || self.child_lives
    }

    pub fn is_script(&self) -> bool {
        matches!(self.launch.plan, Plan::Script(_))
    }

    /// When it ends by itself or times out.
    pub fn run_time(act: &Act, launch: &Launch) -> u64 {
        match act.does {
            Does::Hangs => launch.job.unwrap_or(act.time).as_millis() as u64,
            Does::GoesOn => FOR_EVER,
            _ => act.time.as_millis() as u64,
        }
    }

    /// Its estimated cost if it was ended early.
    pub fn estimate(&self) -> Usd {
        match self.is_script() || self.was_refused {
            true => Usd::ZERO,
            false => self.act.cost_if_lost,
        }
    }

    /// What the end of this attempt adds to the run's cost.
    pub fn cost(&self) -> Usd {
        match () {
            () if self.is_script() || self.was_refused => Usd::ZERO,
            () if self.was_ended || self.is_lost => self.estimate(),
            () => self.act.cost,
        }
    }

    fn about<T>(&self, make: impl FnOnce(raymond_core::name::AgentId, u64, u32) -> T) -> T {
        make(self.launch.agent.id.clone(), self.step(), self.attempt())
    }

    /// What Raymond is told about it: its output, then its end.
    pub fn reports(&self, library: &Library, now: Timestamp) -> Vec<Input> {
        let mut prints = Vec::new();
        let collected = self.collect(&mut prints);
        let (outcome, lookups) = self.outcome(library, collected, now);
        let print = |text: String| {
            self.about(|agent, step, attempt| Input::Print { agent, step, attempt, text: text.into() })
        };
        let mut inputs: Vec<Input> = prints.into_iter().map(print).collect();
        inputs.push(self.about(|agent, step, attempt| {
            Input::Ended(Box::new(Ended {
                agent,
                step,
                attempt,
                duration_ms: self.ends.saturating_sub(self.started),
                plan: self.launch.plan.clone(),
                outcome,
                lookups,
            }))
        }));
        inputs
    }

    /// What Raymond is told once the loss of its machine is certain.
    pub fn loss(&self) -> Input {
        let (error, cost) = ("its machine was lost".to_owned(), self.estimate());
        self.about(|agent, step, attempt| Input::Lost { agent, step, attempt, error, cost })
    }

    /// Reads the output in pieces of any size.
    fn collect(&self, prints: &mut Vec<String>) -> Result<Collected, String> {
        let mut rng = Rng::new(self.chunks);
        let mut tags = TagCollector::new();
        let mut rest = self.text.as_bytes();
        while !rest.is_empty() {
            let most = if rest.len() > 1000 { rest.len() } else { 12 };
            let (piece, others) = rest.split_at((rng.below(most) + 1).min(rest.len()));
            tags.feed(piece, &mut |text| prints.push(text)).map_err(|error| error.to_string())?;
            rest = others;
        }
        tags.finish(&mut |text| prints.push(text)).map_err(|error| error.to_string())
    }

    fn outcome(
        &self,
        library: &Library,
        collected: Result<Collected, String>,
        now: Timestamp,
    ) -> (StepOutcome, Lookups) {
        if self.was_ended {
            return (StepOutcome::Interrupted { cost: self.estimate() }, Lookups::default());
        }
        match &self.launch.plan {
            Plan::Script(header) => {
                let reading = collected
                    .and_then(|tags| transition::read(tags, rules(false)).map_err(|error| error.to_string()));
                let transition = reading.as_ref().ok().map(|reading| &reading.transition);
                let lookups = library.of_script(&self.launch.agent, transition);
                (StepOutcome::Script(self.script_outcome(reading, header)), lookups)
            }
            Plan::Prompt(plan) => {
                let reading = read_message(collected);
                let transition = reading.as_ref().ok().map(|reading| &reading.transition);
                let lookups = library.of_turn(&self.launch.agent, plan, transition);
                (StepOutcome::Turn(self.turn_outcome(reading, now)), lookups)
            }
        }
    }

    fn script_outcome(&self, reading: Result<Reading, String>, header: &Header) -> ScriptOutcome {
        let stderr = "stderr".to_owned();
        let exited = |exit, reading, stderr| ScriptOutcome::Exited {
            exit,
            reading,
            other_case: Vec::new(),
            stderr,
            shown: Default::default(),
        };
        if self.was_refused {
            return ScriptOutcome::NotStarted { error: "the system refuses".to_owned() };
        }
        match &self.act.does {
            Does::Says(_) => exited(ProcessExit::Code(0), reading, stderr),
            Does::Babbles(problem) => exited(ProcessExit::Code(0), Err(problem.clone()), stderr),
            Does::Exits(code) => exited(ProcessExit::Code(*code), reading, stderr),
            Does::DiesBySignal(signal) => exited(ProcessExit::Signal(*signal), reading, stderr),
            Does::Overruns => {
                let after = header.max_time.and_then(Limit::duration).unwrap_or_default();
                ScriptOutcome::TimedOut { kind: TimeLimit::Total, after, stderr }
            }
            Does::Hangs | Does::Fails(..) | Does::HitsLimit(_) | Does::GoesOn => {
                let after = header.timeout.and_then(Limit::duration).unwrap_or_default();
                ScriptOutcome::TimedOut { kind: TimeLimit::Idle, after, stderr }
            }
        }
    }

    fn turn_outcome(&self, reading: Result<Reading, BadMessage>, now: Timestamp) -> TurnOutcome {
        let chosen = self.launch.started.turn.as_ref().and_then(|turn| turn.session.clone());
        let session = chosen.map(|id| Session { id, ..Session::default() });
        let cost = TurnCost::of(self.cost(), Tokens::default());
        let failed = |class, error: &str, session| {
            let error = error.to_owned();
            TurnOutcome::Failed(FailedTurn {
                error,
                class,
                cost,
                session,
                exit_code: None,
                message: None,
                warnings: Vec::new(),
            })
        };
        if self.was_refused {
            return failed(FaultClass::Retry, "the system refuses", None);
        }
        let (message, warnings) = (Payload::from(self.text.clone()), Vec::new());
        match &self.act.does {
            Does::Says(_) => TurnOutcome::Completed(CompletedTurn {
                reading,
                other_case: Vec::new(),
                file: None,
                message,
                last_lines: None,
                session,
                cost,
                warnings,
            }),
            Does::Babbles(problem) => {
                let reading = Err(BadMessage { problem: problem.clone(), has_no_tag: false });
                TurnOutcome::Completed(CompletedTurn {
                    reading,
                    other_case: Vec::new(),
                    file: None,
                    message,
                    last_lines: None,
                    session,
                    cost,
                    warnings,
                })
            }
            Does::Fails(FaultClass::ShareUsed, error) => failed(FaultClass::ShareUsed, error, session),
            Does::Fails(class, error) => failed(*class, error, None),
            Does::HitsLimit(seconds) => {
                let until = later(now, Duration::from_secs(u64::from(*seconds)));
                failed(FaultClass::Limit { until: Some(until) }, "a usage limit", None)
            }
            Does::Exits(_) | Does::DiesBySignal(_) | Does::Hangs | Does::Overruns | Does::GoesOn => {
                failed(FaultClass::Retry, "the program failed", None)
            }
        }
    }
}

fn rules(from_model: bool) -> Rules {
    Rules { from_model, case_insensitive: false }
}

fn read_message(collected: Result<Collected, String>) -> Result<Reading, BadMessage> {
    let collected = collected.map_err(|problem| BadMessage { problem, has_no_tag: false })?;
    transition::read(collected, rules(true)).map_err(|error| BadMessage {
        problem: error.problem(),
        has_no_tag: matches!(error, ProtocolError::NoTag { .. }),
    })
}
