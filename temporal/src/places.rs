//! Where the agents of a run are, and what they have left for other machines.

use std::collections::{BTreeMap, BTreeSet};

use raymond::run::hosted::{Branch, StepOrder};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::worktree::{branch, check_name};
use serde::{Deserialize, Serialize};

use crate::messages::{Home, Left};

/// What is known of the agents of a run. All of it comes from reports that were taken, so it is what the last recorded step of
/// each agent left.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    homes: BTreeMap<AgentId, Home>,
    /// The queue of the machine on which each agent ended its last step.
    #[serde(default)]
    left_at: BTreeMap<AgentId, String>,
    #[serde(default)]
    left: BTreeMap<AgentId, Left>,
    /// The branches of all workers, also of those that have ended, by the names of their worktrees.
    #[serde(default)]
    branches: BTreeMap<String, Branch>,
}

impl Places {
    /// The machine that an agent is on.
    pub fn home_of(&self, agent: &AgentId) -> Option<&Home> {
        self.homes.get(agent)
    }

    /// All agents that are on a machine.
    pub fn homes(&self) -> &BTreeMap<AgentId, Home> {
        &self.homes
    }

    pub fn moves_to(&mut self, agent: &AgentId, home: Option<Home>) {
        match home {
            Some(home) => self.homes.insert(agent.clone(), home),
            None => self.homes.remove(agent),
        };
    }

    /// Which backends have their programs on the machine that an agent is on.
    pub fn note_backends(&mut self, agent: &AgentId, backends: &[String]) {
        if let Some(home) = self.homes.get_mut(agent) {
            home.backends = Some(backends.to_vec());
        }
    }

    /// The queue of the machine on which the agent ended its last step.
    pub fn left_at(&self, agent: &AgentId) -> Option<&String> {
        self.left_at.get(agent)
    }

    pub fn left_by(&self, agent: &AgentId) -> Option<&Left> {
        self.left.get(agent)
    }

    /// An agent has ended a step. A machine of an earlier version does not say what it left.
    pub fn ended_step(&mut self, agent: &AgentId, home: &Home, left: Option<Left>) {
        self.left_at.insert(agent.clone(), home.queue.clone());
        match left {
            Some(left) => self.left.insert(agent.clone(), left),
            None => self.left.remove(agent),
        };
    }

    pub fn set_branch(&mut self, worktree: &str, branch: Branch) {
        self.branches.insert(worktree.to_owned(), branch);
    }

    /// The agent has ended. Its branch stays, for those who join it.
    pub fn forget(&mut self, agent: &AgentId) {
        self.homes.remove(agent);
        self.left_at.remove(agent);
        self.left.remove(agent);
    }

    /// The branches that a step needs.
    pub fn branches_for(&self, order: &StepOrder) -> BTreeMap<String, Branch> {
        if self.branches.is_empty() {
            return BTreeMap::new();
        }
        // A text that is not here may name any of them. The machine has the text, and brings those that it names.
        let Some(input) = input_of(order) else { return self.branches.clone() };
        let own = order.agent.worktree.as_ref().map(|worktree| worktree.name.as_str());
        let names = names_in(input, &order.id).into_iter().chain(own);
        names.filter_map(|name| Some((name.to_owned(), self.branches.get(name)?.clone()))).collect()
    }
}

/// The names of worktrees whose branches a text names. The text is a model's, so anything else may be in it.
pub fn names_in<'a>(text: &'a str, run: &str) -> BTreeSet<&'a str> {
    let start = branch(run, "");
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let names = text.match_indices(&start).map(|(at, _)| {
        let rest = &text[at + start.len()..];
        &rest[..rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len())]
    });
    names.filter(|name| check_name(name).is_ok()).collect()
}

/// What a step is handed. Nothing if the order only has a reference to it.
pub fn input_of(order: &StepOrder) -> Option<&str> {
    match &order.agent.payload {
        Some(Payload::Inline(text)) => Some(text),
        Some(Payload::Stored { payload, .. }) => order.payloads.get(payload).map(String::as_str),
        None => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_of_the_run_are_found_in_any_text() {
        let text = r#"[{"branch":"raymond-run/r/one"},{"branch":"raymond-run/r/two.2"}] raymond-run/s/other raymond-run/r/../up"#;
        assert_eq!(names_in(text, "r").into_iter().collect::<Vec<_>>(), ["one", "two.2"]);
        assert!(names_in("raymond-run/r/", "r").is_empty());
    }

    /// Runs that are open were begun by an earlier version.
    #[test]
    fn what_an_earlier_version_knew_can_be_read() {
        let places: Places = serde_json::from_str(r#"{"homes":{"main":{"host":"h","queue":"q"}}}"#).unwrap();
        let main = AgentId::new("main");
        assert_eq!(places.home_of(&main).unwrap().queue, "q");
        assert_eq!(places.left_by(&main), None);
    }
}
