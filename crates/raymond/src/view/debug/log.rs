//! One line for every transition.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::fs::File;
use std::io::{self, Write};

use raymond_core::event::{Body, Event, StepFailed, StepFinished};

use crate::view::text::{clean, one_line};

const SHOWN_ERROR_CHARS: usize = 200;

/// The line for an event, if it is a transition or a failure of one.
pub(super) fn line(event: &Event) -> Option<String> {
    let text = match &event.body {
        Body::StepFinished(finished) => of_finished(finished),
        Body::StepFailed(failed) => of_failed(failed),
        Body::RunStarted(_)
        | Body::AgentStarted(_)
        | Body::StepStarted(_)
        | Body::SessionStarted(_)
        | Body::Retry(_)
        | Body::Reminder(_)
        | Body::LimitWaiting(_)
        | Body::Delayed { .. }
        | Body::AgentFinished { .. }
        | Body::Joined { .. }
        | Body::AskOpened(_)
        | Body::AskClosed(_)
        | Body::Print { .. }
        | Body::Warning { .. }
        | Body::BudgetExceeded { .. }
        | Body::RunResumed(_)
        | Body::RunFinished { .. }
        | Body::RunStopped { .. }
        | Body::Snapshot { .. } => return None,
    };
    // Three digits always, so that lines sort and columns stand below each other.
    Some(format!("{:.3} {text}\n", event.time))
}

/// In one write, so that a killed Raymond leaves whole lines.
pub(super) fn append(log: &mut File, line: &str) -> io::Result<()> {
    log.write_all(line.as_bytes())
}

fn of_finished(finished: &StepFinished) -> String {
    format!(
        "{} step {} {} -> {} {} {}",
        clean(finished.agent.as_str()),
        finished.step,
        clean(finished.state.as_str()),
        targets(finished),
        finished.led_to.tag(),
        finished.cost_usd,
    )
}

/// Where the tag leads, then where a forking parent goes on; an agent that is done goes nowhere.
fn targets(finished: &StepFinished) -> String {
    let led_to = finished.led_to.parts();
    let states = led_to.target.into_iter().chain(led_to.next);
    let names: Vec<_> = states.map(|state| clean(state.as_str())).collect();
    if names.is_empty() {
        return "end".to_owned();
    }
    names.join(", ")
}

fn of_failed(failed: &StepFailed) -> String {
    let step = failed.step.map_or("-".to_owned(), |step| step.to_string());
    format!(
        "{} step {step} {} failed {}: {}",
        clean(failed.agent.as_str()),
        clean(failed.state.as_str()),
        failed.cost_usd,
        one_line(&failed.error, SHOWN_ERROR_CHARS),
    )
}
