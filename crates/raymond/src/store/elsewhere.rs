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
    /// When the engine was last heard of.
    pub seen_at: Timestamp,
}
