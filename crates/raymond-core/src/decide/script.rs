//! The end of a script.

use std::time::Duration;

use super::EndedStep;
use super::fault::{Fault, failed};
use super::transition::{self, Turn};
use crate::duration;
use crate::event::{Body, NextTry, Retry};
use crate::header::{Fatal, Header};
use crate::input::{ProcessExit, ScriptOutcome, TimeLimit};
use crate::money::Usd;
use crate::run::later;
use crate::tokens::Tokens;
use crate::transition::Reading;

/// How long to wait between the retries of a script that sets no `backoff`.
const DEFAULT_BACKOFF: Duration = Duration::from_secs(1);

pub(super) fn ended(step: &EndedStep<'_>, header: &Header, outcome: ScriptOutcome) -> Vec<Body> {
    let fatal = header.fatal.unwrap_or_default() == Fatal::Run;
    match outcome {
        ScriptOutcome::Exited { exit, reading, other_case, stderr, shown } if exit.is_success() => {
            let reading = match step.lookups.mistake(&other_case) {
                Some(near) => Err(near.mistake()),
                None => reading,
            };
            succeeded(step, reading).unwrap_or_else(|error| {
                vec![failed(step, Fault { stderr, shown, ..Fault::new(error, fatal) })]
            })
        }
        ScriptOutcome::BadOutput { error, stderr } => {
            vec![failed(step, Fault { stderr, ..Fault::new(error, fatal) })]
        }
        ScriptOutcome::Exited { exit, stderr, .. } => {
            let exit_code = match exit {
                ProcessExit::Code(code) => Some(code),
                ProcessExit::Signal(_) => None,
            };
            retry_or_fail(step, header, Fault { exit_code, stderr, ..Fault::new(exit.to_string(), fatal) })
        }
        ScriptOutcome::TimedOut { kind, after, stderr } => {
            let after = duration::format(after);
            let error = match kind {
                TimeLimit::Idle => format!("timed out: no output for {after} (`timeout`)"),
                TimeLimit::Total => format!("timed out: still running after {after} (`max_time`)"),
            };
            retry_or_fail(step, header, Fault { stderr, ..Fault::new(error, fatal) })
        }
        ScriptOutcome::NotStarted { error } => vec![failed(step, Fault::new(error, fatal))],
    }
}

/// A script that succeeded must still print a valid transition.
fn succeeded(step: &EndedStep<'_>, reading: Result<Reading, String>) -> Result<Vec<Body>, String> {
    let reading = reading?;
    let mut events = transition::warnings(step, reading.warnings);
    events.extend(transition::take(step, reading.transition, Turn::free())?);
    Ok(events)
}

fn retry_or_fail(step: &EndedStep<'_>, header: &Header, fault: Fault) -> Vec<Body> {
    if step.work.retries >= header.retry {
        return vec![failed(step, fault)];
    }
    vec![Body::Retry(Retry {
        agent: step.agent.id.clone(),
        step: step.work.step,
        state: step.agent.state.clone(),
        attempt: step.work.attempt + 1,
        until: later(step.now, header.backoff.unwrap_or(DEFAULT_BACKOFF)),
        error: fault.error,
        stderr: fault.stderr,
        message: None,
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Tokens::default(),
        next_try: NextTry::FromTheStart,
    })]
}
