//! What needs a person.

use std::sync::Arc;

use jiff::Timestamp;
use raymond_core::money::Usd;
use raymond_core::run::{Run, RunStatus, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::runs::last_output_at;
use crate::run::answering::message_name;
use crate::serve::Server;
use crate::serve::index::is_live;
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::schedule::{Held, held};
use crate::store::{RunHandle, StoreError};
use crate::view::summary::Summary;

/// After how many seconds a silent step is told of, unless the request says otherwise.
const USUAL_SILENCE: u64 = 300;

/// Everything that needs a person, the longest waiting first.
#[derive(Serialize, JsonSchema)]
pub struct Inbox {
    pub items: Vec<Item>,
}

/// Something that needs a person.
#[derive(Default, Serialize, JsonSchema)]
pub struct Item {
    /// `ask`, `failed`, `over_budget`, `limited`, `silent`, or `untrusted` for a workflow whose schedule is not kept.
    pub kind: &'static str,
    /// The run; `untrusted` is about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The workflow; of `untrusted` its id.
    pub workflow: String,
    pub since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub cost_usd: Usd,
    pub budget_usd: Option<Usd>,
    pub live: bool,
}

pub fn inbox(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    Answer::json(&gather(server, call.number::<u64>("silent")?)?)
}

/// Everything that needs a person; a step is told of once it has been silent for so many seconds.
pub fn gather(server: &Server, silence: Option<u64>) -> Result<Inbox, StoreError> {
    let silence = silence.unwrap_or(USUAL_SILENCE);
    let entries = server.index.list()?;
    let mut items = Vec::new();
    for entry in &entries {
        // A damaged run is in the list of runs, with what is wrong.
        let Ok(summary) = server.index.summary(entry) else { continue };
        if summary.recorded == RunStatus::Completed {
            continue;
        }
        let live = is_live(&summary, &*entry.run);
        // Its state is not read if nothing in it can need a person.
        let is_stopped = !live && matches!(summary.recorded, RunStatus::Running | RunStatus::Interrupted);
        if is_stopped && summary.open_asks == 0 {
            continue;
        }
        let looking = Looking { server, handle: &*entry.run, summary: &summary, live };
        // A run that cannot be read any more is told of where runs are listed.
        let _ = server.index.with_run(&entry.run, |run| looking.look(run, silence, &mut items));
    }
    server.index.save(&entries);
    items.extend(held(server).into_iter().map(Item::untrusted));
    items.sort_by_key(|item| item.since);
    Ok(Inbox { items })
}

impl Item {
    fn untrusted(held: Held) -> Self {
        Item {
            kind: "untrusted",
            workflow: held.id,
            since: held.since,
            error: Some(format!("{}; {}", held.why, Held::advice(&held.path))),
            ..Item::default()
        }
    }
}

struct Looking<'a> {
    server: &'a Server,
    handle: &'a dyn RunHandle,
    summary: &'a Summary,
    live: bool,
}

impl Looking<'_> {
    fn item(&self, kind: &'static str, since: Timestamp) -> Item {
        Item {
            kind,
            run: Some(self.handle.id().to_owned()),
            workflow: self.summary.workflow.clone(),
            since,
            cost_usd: self.summary.cost_usd,
            budget_usd: self.summary.budget_usd,
            live: self.live,
            ..Item::default()
        }
    }

    fn look(&self, run: &Run, silence: u64, items: &mut Vec<Item>) {
        if run.is_dropped() {
            return;
        }
        self.asks(run, items);
        match run.status {
            RunStatus::OverBudget => items.push(self.item("over_budget", run.last_time)),
            RunStatus::Limited => items.push(self.item("limited", run.last_time)),
            RunStatus::Failed => self.failures(run, items),
            RunStatus::Running if self.live => {
                self.failures(run, items);
                self.silent(run, silence, items);
            }
            RunStatus::Running
            | RunStatus::Completed
            | RunStatus::Waiting
            | RunStatus::Interrupted
            | RunStatus::Wedged => {}
        }
    }

    fn asks(&self, run: &Run, items: &mut Vec<Item>) {
        let (inbox, payloads) = (self.handle.inbox(), self.handle.payloads());
        for (agent, ask) in run.asks() {
            // Its answer waits until the run goes on.
            if inbox.contains(&message_name(&ask.id)) {
                continue;
            }
            items.push(Item {
                agent: Some(agent.id.to_string()),
                state: Some(agent.state.to_string()),
                ask: Some(ask.id.clone()),
                question: Some(payloads.text_of(&ask.question).unwrap_or_default()),
                deadline: ask.deadline,
                empty_ok: Some(ask.empty_ok),
                ..self.item("ask", ask.opened_at)
            });
        }
    }

    fn failures(&self, run: &Run, items: &mut Vec<Item>) {
        let before = items.len();
        for agent in run.agents_by_birth() {
            if let Status::Failed { error, .. } = &agent.status {
                items.push(Item {
                    agent: Some(agent.id.to_string()),
                    state: Some(agent.state.to_string()),
                    error: Some(error.clone()),
                    ..self.item("failed", agent.since)
                });
            }
        }
        // For example, it may have used up its steps.
        if items.len() == before && run.status == RunStatus::Failed {
            items.push(self.item("failed", run.last_time));
        }
    }

    /// Steps that run and have written nothing for long.
    fn silent(&self, run: &Run, silence: u64, items: &mut Vec<Item>) {
        let now = crate::clock::now();
        let folder = self.server.debug_folder(self.handle.id());
        for agent in run.agents_by_birth() {
            let Status::Running { work, started } = &agent.status else { continue };
            let is_long = |since: Timestamp| {
                now.duration_since(since).as_secs().cast_unsigned() >= silence && since <= now
            };
            // The debug files are only looked at if the step has run for long enough.
            if !is_long(*started) {
                continue;
            }
            let since = last_output_at(&folder, work.step).map_or(*started, |time| time.max(*started));
            if is_long(since) {
                items.push(Item {
                    agent: Some(agent.id.to_string()),
                    state: Some(agent.state.to_string()),
                    step: Some(work.step),
                    ..self.item("silent", since)
                });
            }
        }
    }
}
