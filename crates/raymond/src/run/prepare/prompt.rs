//! The prompt that an agent gets.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::path::Path;

use raymond_core::run::{Agent, Run, Say};
use raymond_core::template;

use crate::store::{Payloads, StoreError};
use crate::workflow::states::TurnSettings;

/// The prompt for an agent whose program stopped at its share of the budget and may continue.
///
/// Claude Code starts a tool while the message that asks for it is still arriving, so the tool may have run although the
/// program stopped. Its result is lost then, and older versions forget the call as well.
const GO_ON: &str = "Please go on from where you stopped. \
     If a tool call was about to be made, it may have taken effect without a result: check before you repeat it.";

/// The rendered body alone, or with what the step has to add; with the places of the values in it.
pub(super) fn message(
    payloads: &Payloads,
    agent: &Agent,
    body: &str,
    values: &Values<'_>,
) -> Result<(String, Vec<Range<usize>>), StoreError> {
    match agent.work().map(|work| &work.say) {
        // A reminder quotes the agent's message.
        Some(Say::Reminder { text, .. }) => {
            let text = payloads.text_of(text)?;
            let quoted = std::iter::once(0..text.len()).collect();
            Ok((text, quoted))
        }
        Some(Say::GoOn { .. }) => Ok((GO_ON.to_owned(), Vec::new())),
        Some(Say::Prompt) | None => Ok(template::render_marked(body, |name| values.get(name))),
    }
}

/// The settings of a turn with their placeholders replaced.
pub(super) fn settings(mut settings: TurnSettings, values: &Values<'_>) -> TurnSettings {
    let TurnSettings { allow_tools, deny_tools, add_dirs, mcp_config, .. } = &mut settings;
    for text in [allow_tools, deny_tools, add_dirs, mcp_config].into_iter().flatten() {
        *text = template::render(text, |name| values.get(name));
    }
    settings
}

/// The values of the placeholders.
pub(super) struct Values<'a> {
    pub(super) run: &'a Run,
    pub(super) agent: &'a Agent,
    pub(super) input: &'a str,
    pub(super) task_folder: &'a Path,
    pub(super) visits: &'a str,
    /// The input as JSON, if it is, once that was needed.
    pub(super) json: OnceCell<Option<serde_json::Value>>,
}

/// The names of the input.
const INPUT: [&str; 2] = ["result", "input"];

impl<'a> Values<'a> {
    /// Only the input has fields. Whether it is JSON is found out when a field of it is asked for.
    fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        let (name, path) = template::name_and_path(name);
        if let Some(path) = path {
            let json = self.json.get_or_init(|| serde_json::from_str(self.input).ok());
            let json = json.as_ref().filter(|_| INPUT.contains(&name))?;
            return template::part_of(json, path).map(Cow::Owned);
        }
        Some(match name {
            _ if INPUT.contains(&name) => self.input.into(),
            "run_id" | "workflow_id" => self.run.id.as_str().into(),
            "agent_id" => self.agent.id.as_str().into(),
            "state" => self.agent.state.as_str().into(),
            "visits" => self.visits.into(),
            "task_folder" => self.task_folder.to_string_lossy(),
            "ask_id" => self.agent.ask_id.as_deref().unwrap_or_default().into(),
            other => self.of_worktree(other).or_else(|| self.variable(other))?.into(),
        })
    }

    /// Where a worker with a worktree works.
    fn of_worktree(&self, name: &str) -> Option<&'a str> {
        let worktree = self.agent.worktree.as_deref()?;
        match name {
            "worktree" => Some(&worktree.path),
            "branch" => Some(&worktree.branch),
            _ => None,
        }
    }

    /// A variable of the worker, or an input of its workflow.
    fn variable(&self, name: &str) -> Option<&'a str> {
        let input = || self.run.inputs_of(self.agent)?.values.get(name);
        self.agent.attributes.get(name).or_else(input).map(String::as_str)
    }
}
