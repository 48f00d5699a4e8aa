//! The file with one line for every transition.

use std::fs::File;
use std::io::{self, Write};

use jiff::Timestamp;
use raymond_core::event::{StepFailed, StepFinished};

use crate::view::text::{clean, one_line};

/// The most characters of an error that a line has. Times always have three decimals, so that the columns are aligned.
const SHOWN_ERROR_CHARS: usize = 200;

/// Appends a line in one write, so that a Raymond that is killed leaves only whole lines.
pub(super) fn append(log: &mut File, line: &str) -> io::Result<()> {
    log.write_all(line.as_bytes())
}

pub(super) fn finished_line(time: Timestamp, finished: &StepFinished) -> String {
    format!(
        "{time:.3} {} step {} {} -> {} {} {}\n",
        clean(finished.agent.as_str()),
        finished.step,
        clean(finished.state.as_str()),
        targets(finished),
        finished.led_to.tag(),
        finished.cost_usd,
    )
}

/// Where the tag leads, then where a parent that forks continues; `end` for an agent that has ended.
fn targets(finished: &StepFinished) -> String {
    let led_to = finished.led_to.parts();
    let states = led_to.target.into_iter().chain(led_to.next);
    let names: Vec<_> = states.map(|state| clean(state.as_str())).collect();
    if names.is_empty() {
        return "end".to_owned();
    }
    names.join(", ")
}

pub(super) fn failed_line(time: Timestamp, failed: &StepFailed) -> String {
    let step = failed.step.map_or("-".to_owned(), |step| step.to_string());
    format!(
        "{time:.3} {} step {step} {} failed {}: {}\n",
        clean(failed.agent.as_str()),
        clean(failed.state.as_str()),
        failed.cost_usd,
        one_line(&failed.error, SHOWN_ERROR_CHARS),
    )
}
