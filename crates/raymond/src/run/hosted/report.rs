//! How an attempt ended, as the run is told.

use std::collections::BTreeMap;

use raymond_core::event::StepStarted;
use raymond_core::input::{
    Ended, FailedTurn, FaultClass, Input, Lookups, Plan, ScriptOutcome, ShownOutput, StepOutcome, TurnCost,
    TurnOutcome,
};
use raymond_core::payload::Payload;
use raymond_core::run::Session;
use serde::{Deserialize, Serialize};

use crate::run::frozen::not_on;
use crate::store::{StoreError, reference_to};

/// How an attempt ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepReport {
    pub duration_ms: u64,
    pub outcome: StepOutcome,
    pub lookups: Lookups,
    pub said: Vec<Said>,
    /// The backends whose programs are on the machine, if the attempt was a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<String>>,
}

/// What was reported while the attempt ran.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    Print(Payload),
    Warning(String),
    /// The session that the program has chosen.
    Session(String),
}

impl StepReport {
    /// The report as inputs for the run, in their order.
    pub fn into_inputs(self, started: &StepStarted, mut plan: Plan) -> Vec<Input> {
        let StepStarted { agent, step, attempt, .. } = started;
        // A turn is not handed on to a backend that is not there.
        if let (Plan::Prompt(prompt), Some(backends)) = (&mut plan, &self.backends) {
            prompt.fallbacks.retain(|name| backends.contains(name));
        }
        let (step, attempt) = (*step, *attempt);
        let input = |said| match said {
            Said::Print(text) => Input::Print { agent: agent.clone(), step, attempt, text },
            Said::Warning(message) => Input::Warning { agent: Some(agent.clone()), message },
            Said::Session(session) => Input::SessionKnown { agent: agent.clone(), step, attempt, session },
        };
        let mut inputs: Vec<Input> = self.said.into_iter().map(input).collect();
        inputs.push(Input::Ended(Box::new(Ended {
            agent: agent.clone(),
            step,
            attempt,
            duration_ms: self.duration_ms,
            plan,
            outcome: self.outcome,
            lookups: self.lookups,
        })));
        inputs
    }

    /// An attempt that could not be begun.
    pub fn not_started(plan: &Plan, error: String) -> Self {
        let outcome = match plan {
            Plan::Script(_) => StepOutcome::Script(ScriptOutcome::NotStarted { error }),
            Plan::Prompt(_) => StepOutcome::Turn(TurnOutcome::Failed(FailedTurn {
                error,
                class: FaultClass::Final,
                cost: TurnCost::default(),
                session: None,
                exit_code: None,
                message: None,
                warnings: Vec::new(),
            })),
        };
        Self { duration_ms: 0, outcome, lookups: Lookups::default(), said: Vec::new(), backends: None }
    }

    /// An attempt that this machine cannot begin, because it lacks the program of the chosen backend and the state's list has
    /// others. Nothing if it can be begun. A backend that is the only one is started in any case, and says what it lacks.
    pub fn not_installed(plan: &Plan, backends: &[String], machine: &str) -> Option<Self> {
        let Plan::Prompt(prompt) = plan else { return None };
        if prompt.fallbacks.is_empty() || backends.contains(&prompt.backend) {
            return None;
        }
        let is_any_there = prompt.fallbacks.iter().any(|name| backends.contains(name));
        let others = prompt.fallbacks.iter().filter(|_| !is_any_there);
        let missing: Vec<String> = std::iter::once(&prompt.backend).chain(others).cloned().collect();
        let mut report = Self::not_started(plan, not_on(machine, &missing));
        if let StepOutcome::Turn(TurnOutcome::Failed(turn)) = &mut report.outcome {
            turn.class = FaultClass::NotInstalled;
        }
        report.backends = Some(backends.to_vec());
        Some(report)
    }

    /// An attempt that has ended and whose report cannot be sent. What it cost counts all the same.
    pub fn not_sent(plan: &Plan, error: String, report: &Self) -> Self {
        let mut short = Self { duration_ms: report.duration_ms, ..Self::not_started(plan, error) };
        if let (StepOutcome::Turn(TurnOutcome::Failed(turn)), StepOutcome::Turn(done)) =
            (&mut short.outcome, &report.outcome)
        {
            turn.cost = match done {
                TurnOutcome::Completed(done) => done.cost,
                TurnOutcome::Failed(done) => done.cost,
            };
        }
        short
    }

    /// Does not say where the whole output is: it is not kept.
    pub fn forget_output_file(&mut self) {
        self.map_output_file(|_| None);
    }

    pub(super) fn map_output_file(&mut self, map: impl FnOnce(&str) -> Option<String>) {
        let file = match &mut self.outcome {
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => &mut turn.file,
            StepOutcome::Script(ScriptOutcome::Exited { shown, .. }) => &mut shown.file,
            StepOutcome::Turn(TurnOutcome::Failed(_))
            | StepOutcome::Script(_)
            | StepOutcome::Interrupted { .. } => return,
        };
        *file = file.as_deref().and_then(map);
    }

    /// Takes out the texts that are longer than this, by their hashes, and leaves references to them.
    pub fn take_texts(&mut self, longest: usize) -> Result<BTreeMap<String, String>, StoreError> {
        if let StepOutcome::Turn(TurnOutcome::Completed(turn)) = &mut self.outcome
            && let Some(message) = turn.message.text().filter(|text| text.len() > longest)
        {
            turn.last_lines = Some(ShownOutput::of_message(message, None).last_lines);
        }
        let prints = self.said.iter_mut().filter_map(|said| match said {
            Said::Print(text) => Some(text),
            Said::Warning(_) | Said::Session(_) => None,
        });
        let mut taken = BTreeMap::new();
        for payload in self.outcome.payloads_mut().into_iter().chain(prints) {
            if let Some(text) = payload.text().filter(|text| text.len() > longest) {
                let (reference, text) = (reference_to(text)?, text.to_owned());
                if let Payload::Stored { payload: hash, .. } = &reference {
                    taken.insert(hash.clone(), text);
                }
                *payload = reference;
            }
        }
        Ok(taken)
    }

    /// The conversation as the attempt left it.
    pub fn session(&self) -> Option<&Session> {
        match &self.outcome {
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => turn.session.as_ref(),
            StepOutcome::Turn(TurnOutcome::Failed(turn)) => turn.session.as_ref(),
            StepOutcome::Script(_) | StepOutcome::Interrupted { .. } => None,
        }
    }
}
