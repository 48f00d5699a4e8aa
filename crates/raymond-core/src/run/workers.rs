//! Workers are written as lists, because a journal line with numbers as keys cannot be read back.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serializer};

use super::Worker;
use crate::name::AgentId;

type Workers = BTreeMap<AgentId, BTreeMap<u64, Worker>>;

pub(super) fn serialize<S: Serializer>(workers: &Workers, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(workers.iter().map(|(agent, forks)| (agent, forks.iter().collect::<Vec<_>>())))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Workers, D::Error> {
    let lists = BTreeMap::<AgentId, Vec<(u64, Worker)>>::deserialize(deserializer)?;
    Ok(lists.into_iter().map(|(agent, forks)| (agent, forks.into_iter().collect())).collect())
}
