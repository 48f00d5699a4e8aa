//! What happened in runs, and what happens.

use std::sync::Arc;

use raymond_core::event::{Body, Event};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::serve::Server;
use crate::serve::output::follow_step;
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::sse::{Sender, Stream, all_events, run_events};
use crate::store::{RunHandle, Start};
use crate::view::json::event_line;

const USUAL_EVENTS: usize = 200;
const MOST_EVENTS: usize = 5000;
/// A window ends early once it is so long.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Some events of a run, in order.
#[derive(Serialize, JsonSchema)]
pub struct Window {
    #[schemars(with = "Vec<Event>")]
    events: Vec<Box<RawValue>>,
    /// What to give as `after` to get those that follow; null at the end.
    next: Option<u64>,
}

pub fn of_run(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let after = call.number("after")?.unwrap_or(0);
    if !call.wants_events() {
        return Answer::json(&window(&*run, after, call.limit(USUAL_EVENTS, MOST_EVENTS)?)?);
    }
    let after = match call.headers.get("last-event-id") {
        Some(last) => last
            .to_str()
            .ok()
            .and_then(|last| last.parse().ok())
            .ok_or_else(|| Problem::malformed("Last-Event-ID is not the number of an event"))?,
        None => after,
    };
    // Whether the first event can be read is told before the stream begins.
    window(&*run, after, 1)?;
    Stream::start(server, |server, sender| run_events(server, run, after, sender)).map(Answer::Stream)
}

fn window(run: &dyn RunHandle, after: u64, limit: usize) -> Result<Window, Problem> {
    let payloads = run.payloads();
    let mut reader = run.events(Start::After(after))?;
    let (mut events, mut bytes, mut last) = (Vec::new(), 0, after);
    let mut has_more = false;
    'read: while let Some(batch) = reader.next_batch()? {
        for event in batch {
            if events.len() == limit || bytes > MOST_BYTES {
                has_more = true;
                break 'read;
            }
            if matches!(event.body, Body::Snapshot { .. }) {
                if events.is_empty() {
                    return Err(deleted(after + 1, event.seq));
                }
                has_more = true;
                break 'read;
            }
            let line =
                event_line(&event, &payloads).ok_or_else(|| Problem::internal("an event is no JSON"))?;
            bytes += line.len();
            last = event.seq;
            events.push(RawValue::from_string(line).map_err(Problem::internal)?);
        }
    }
    Ok(Window { events, next: has_more.then_some(last) })
}

/// Events that were deleted cannot be shown.
pub fn deleted(from: u64, to: u64) -> Problem {
    Problem::new(410, format!("the events {from} to {to} were deleted; go on with after={to}"))
        .with("after", to)
}

/// How many steps' output one stream may ask for.
const MOST_OUTPUTS: usize = 16;

pub fn of_all(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let last = call.headers.get("last-event-id").map(|last| last.to_str().unwrap_or_default().to_owned());
    let mut outputs = Vec::new();
    for given in call.texts("output").take(MOST_OUTPUTS) {
        let step = given.rsplit_once('/').and_then(|(run, step)| Some((run, step.parse().ok()?)));
        let (run, step) = step.ok_or_else(|| Problem::malformed("`output` is written RUN/STEP"))?;
        // A run that is gone has no output; the others are still told.
        outputs.extend(server.index.find(run).ok().map(|run| (run, step)));
    }
    let write = |server: Arc<Server>, sender: Sender| async move {
        for (run, step) in outputs {
            tokio::spawn(follow_step(Arc::clone(&server), run, step, false, sender.clone()));
        }
        all_events(server, last, sender).await;
    };
    Stream::start(server, write).map(Answer::Stream)
}
