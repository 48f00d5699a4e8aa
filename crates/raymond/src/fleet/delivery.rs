//! What becomes of a message that was left in the inbox of a run elsewhere.

use std::time::{Duration, Instant};

use super::{Address, PATIENCE, installed};
use crate::store::{Elsewhere, RunHandle, Silence};

/// How often it is looked whether a message has been delivered.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How far a message has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The run has dealt with it.
    Taken,
    /// The engine has it, and the run deals with it as soon as a worker does. Why none does.
    Left(String),
    /// It is still here, and is delivered when the engine is reached again. Why that could not be done.
    Waits(String),
}

/// Waits until the process that keeps the copy of the run has delivered a message, or cannot.
pub fn delivery_of(run: &dyn RunHandle, message: &str) -> Delivery {
    let (deadline, inbox) = (Instant::now() + PATIENCE, run.inbox());
    loop {
        // In this order: what is said of the run is noted before the message is removed.
        let is_here = inbox.contains(message);
        let mark = run.elsewhere();
        if !is_here {
            return match mark.and_then(|mark| mark.silence) {
                Some(Silence::Workers(why) | Silence::Wedged(why)) => Delivery::Left(why),
                Some(Silence::Engine(_) | Silence::Copy(_)) | None => Delivery::Taken,
            };
        }
        if let Some(why) = mark.as_ref().and_then(why_away) {
            return Delivery::Waits(why);
        }
        if Instant::now() >= deadline {
            return Delivery::Waits(format!("it was not delivered within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Why the engine of a run does not answer. What this process has found out just now is newer than what the mark says.
fn why_away(mark: &Elsewhere) -> Option<String> {
    match (installed(), Address::parse(&mark.engine), &mark.silence) {
        (Some(fleet), Ok(at), _) => fleet.why_left_alone(&at),
        (_, _, Some(Silence::Engine(why))) => Some(why.clone()),
        _ => None,
    }
}
