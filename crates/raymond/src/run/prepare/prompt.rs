//! The prompt that an agent gets.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::path::Path;

use raymond_core::run::{Agent, Run, Say};
use raymond_core::template;

use crate::agent::{Given, Giver, Grant, GrantKey, Grants};
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

/// What the settings of a turn grant it. The error says which value cannot be put where it would go.
pub(super) fn grants(settings: &TurnSettings, values: &Values<'_>) -> Result<Grants, String> {
    let fill = |key: GrantKey, written: &[String]| -> Result<Vec<Grant>, String> {
        written.iter().map(|entry| key.fill(entry, |name| values.given(name))).collect()
    };
    Ok(Grants {
        allow_tools: fill(GrantKey::AllowTools, &settings.allow_tools)?,
        deny_tools: fill(GrantKey::DenyTools, &settings.deny_tools)?,
        add_dirs: fill(GrantKey::AddDirs, &settings.add_dirs)?,
        mcp_config: fill(GrantKey::McpConfig, &settings.mcp_config)?,
    })
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
    fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        Some(self.given(name)?.text)
    }

    /// A value, and who has given it.
    fn given(&self, name: &str) -> Option<Given<'a>> {
        let own = |text| Given { text, by: Giver::Raymond };
        if let Some(text) = self.of_input(name) {
            return Some(Given { text, by: Giver::Anyone });
        }
        if let Some(text) = self.of_raymond(name) {
            return Some(own(text));
        }
        if let Some(text) = self.of_worktree(name) {
            return Some(own(text.into()));
        }
        self.variable(name)
    }

    /// Only the input has fields. Whether it is JSON is found out when a field of it is asked for.
    fn of_input(&self, name: &str) -> Option<Cow<'a, str>> {
        let (name, path) = template::name_and_path(name);
        if !INPUT.contains(&name) {
            return None;
        }
        let Some(path) = path else { return Some(self.input.into()) };
        let json = self.json.get_or_init(|| serde_json::from_str(self.input).ok());
        template::part_of(json.as_ref()?, path).map(Cow::Owned)
    }

    fn of_raymond(&self, name: &str) -> Option<Cow<'a, str>> {
        Some(match name {
            "run_id" | "workflow_id" => self.run.id.as_str().into(),
            "agent_id" => self.agent.id.as_str().into(),
            "state" => self.agent.state.as_str().into(),
            "visits" => self.visits.into(),
            "task_folder" => self.task_folder.to_string_lossy(),
            "ask_id" => self.agent.ask_id.as_deref().unwrap_or_default().into(),
            _ => return None,
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

    /// A variable of the worker, or an input of its workflow. The inputs of a workflow that a tag has entered came with
    /// that tag; those of the run's own are the person's.
    fn variable(&self, name: &str) -> Option<Given<'a>> {
        let by_person = if self.agent.scope.is_none() { Giver::Person } else { Giver::Anyone };
        let input = || Some((self.run.inputs_of(self.agent)?.values.get(name)?, by_person));
        let (text, by) = self.agent.attributes.get(name).map(|text| (text, Giver::Anyone)).or_else(input)?;
        Some(Given { text: text.as_str().into(), by })
    }
}
