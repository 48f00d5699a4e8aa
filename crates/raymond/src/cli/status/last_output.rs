//! The last line that each running step has written, from its debug files.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::files::open_plain;
use crate::view::status::{Activity, AgentView};

/// How much of the end of a file is read.
const END_BYTES: u64 = 64 * 1024;

/// A line, and how long ago the file was written.
pub(super) struct LastOutput {
    pub(super) line: String,
    pub(super) ago: Duration,
}

/// By agent. Agents that do not run, or have written nothing, are not in it.
pub(super) fn of_running(folder: &Path, agents: &[AgentView]) -> BTreeMap<String, LastOutput> {
    let running = agents.iter().filter(|agent| agent.status == Activity::Running);
    let mut newest: BTreeMap<String, (String, Option<(SystemTime, PathBuf)>)> =
        running.map(|agent| (agent.id.clone(), (stem_of(agent), None))).collect();
    if newest.is_empty() {
        return BTreeMap::new();
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_output = [".stdout.txt", ".stderr.txt", ".jsonl"].iter().any(|end| name.ends_with(end));
        let Ok(data) = entry.metadata() else { continue };
        let Ok(time) = data.modified() else { continue };
        for (stem, latest) in newest.values_mut() {
            let is_own = is_output && data.len() > 0 && name.starts_with(stem.as_str());
            if is_own && latest.as_ref().is_none_or(|(before, _)| *before < time) {
                *latest = Some((time, entry.path()));
            }
        }
    }
    let output = |(agent, (_, latest)): (String, (String, Option<(SystemTime, PathBuf)>))| {
        let (time, path) = latest?;
        let line = last_line(&path)?;
        Some((agent, LastOutput { line, ago: time.elapsed().unwrap_or_default() }))
    };
    newest.into_iter().filter_map(output).collect()
}

/// What the names of the agent's files in its present state begin with.
fn stem_of(agent: &AgentView) -> String {
    let state = agent.state.rsplit_once('.').map_or(agent.state.as_str(), |(name, _)| name);
    format!("{}_{state}_", agent.id)
}

fn last_line(path: &Path) -> Option<String> {
    let mut file = open_plain(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(END_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().rev();
    match path.extension().is_some_and(|extension| extension == "jsonl") {
        true => lines.find_map(said),
        false => lines.find(|line| !line.trim().is_empty()).map(str::to_owned),
    }
}

/// What an agent says or does in a line of its program's stream.
fn said(line: &str) -> Option<String> {
    let value: Value = serde_json::from_str(line).ok()?;
    let content = value.get("message")?.get("content")?.as_array()?;
    content.iter().rev().find_map(|part| {
        let text = part.get("text").and_then(Value::as_str);
        let tool = part.get("name").and_then(Value::as_str).map(|name| format!("uses {name}"));
        let last = text.and_then(|text| text.lines().rfind(|line| !line.trim().is_empty()));
        last.map(str::to_owned).or(tool)
    })
}
