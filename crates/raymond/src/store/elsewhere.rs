//! What is known of a run that other machines carry out, and of which only a copy is here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use raymond_core::name::AgentId;
use serde::{Deserialize, Serialize};

/// Says that a run is carried out elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The address of the engine that has it.
    pub engine: String,
    /// Whether it goes on there, as far as is known.
    pub is_open: bool,
    /// The machine that each agent is on.
    #[serde(default)]
    pub hosts: BTreeMap<AgentId, String>,
    /// When the copy was last known to have all that had happened.
    pub seen_at: Timestamp,
    /// Why nothing has been heard of it since then, if it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
    /// How the engine has ended it, if that was without asking the run. Then it never goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl Elsewhere {
    /// A run that goes on and has not been heard of yet.
    pub fn open(engine: String, now: Timestamp) -> Self {
        let hosts = BTreeMap::new();
        Self { engine, is_open: true, hosts, seen_at: now, silence: None, ended: None }
    }
}

/// Why nothing is heard of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// The engine itself does not answer.
    Engine(String),
    /// The engine answers, and no worker of the run does.
    Workers(String),
    /// The engine tells what has happened, and it cannot be copied.
    Copy(String),
    /// The engine cannot have the run decided any further.
    Wedged(String),
}

impl Elsewhere {
    /// Why the engine cannot have the run decided any further, if it cannot.
    pub fn why_wedged(&self) -> Option<&str> {
        match &self.silence {
            Some(Silence::Wedged(why)) if self.is_open => Some(why),
            _ => None,
        }
    }
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Engine(why) => write!(f, "its engine does not answer: {why}"),
            Self::Workers(why) => f.write_str(why),
            Self::Copy(why) => write!(f, "its events cannot be copied: {why}"),
            Self::Wedged(why) => write!(f, "it is wedged: {why}"),
        }
    }
}
