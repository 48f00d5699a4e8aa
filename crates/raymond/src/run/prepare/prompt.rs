//! The prompt that an agent gets.

use std::borrow::Cow;
use std::path::Path;

use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Run, Say};
use raymond_core::template;

use super::NotReady;
use crate::agent::AgentProgram;
use crate::store::Payloads;

/// The prompt for an agent whose program stopped at its share of the budget and may continue.
const GO_ON: &str = "Please go on from where you stopped.";

/// The rendered body alone, or with what the step has to add.
pub(super) fn message(
    payloads: &Payloads,
    run: &Run,
    agent: &Agent,
    body: &str,
    task_folder: &Path,
    program: &dyn AgentProgram,
) -> Result<String, NotReady> {
    let text_of = |payload: &Payload| payloads.text_of(payload).map_err(NotReady::Store);
    match agent.work().map(|work| &work.say) {
        // A reminder quotes the agent's message.
        Some(Say::Reminder { text, .. }) => text_of(text).map(|text| program.plain(&text, "").into_owned()),
        Some(Say::GoOn { .. }) => Ok(GO_ON.to_owned()),
        Some(Say::Prompt) | None => {
            let input = agent.payload.as_ref().map(text_of).transpose()?.unwrap_or_default();
            let visits = agent.visits_here().to_string();
            let values = Values { run, agent, input: &input, task_folder, visits: &visits };
            Ok(render(body, &values, program))
        }
    }
}

fn render(body: &str, values: &Values<'_>, program: &dyn AgentProgram) -> String {
    template::render_after(body, |name, before| {
        Some(match values.get(name)? {
            Cow::Borrowed(value) => program.plain(value, before),
            Cow::Owned(value) => program.plain(&value, before).into_owned().into(),
        })
    })
}

/// The values of the placeholders.
struct Values<'a> {
    run: &'a Run,
    agent: &'a Agent,
    input: &'a str,
    task_folder: &'a Path,
    visits: &'a str,
}

impl<'a> Values<'a> {
    fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        Some(match name {
            "result" | "input" => self.input.into(),
            "run_id" | "workflow_id" => self.run.id.as_str().into(),
            "agent_id" => self.agent.id.as_str().into(),
            "state" => self.agent.state.as_str().into(),
            "visits" => self.visits.into(),
            "task_folder" => self.task_folder.to_string_lossy(),
            "ask_id" => self.agent.ask_id.as_deref().unwrap_or_default().into(),
            other => self.agent.attributes.get(other)?.as_str().into(),
        })
    }
}
