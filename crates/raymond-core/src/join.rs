//! The result of a join: a JSON array with the result of each worker, in the order they were forked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_TAG_BYTES;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{Run, Status};
use crate::tag::TagName;
use crate::title::title;

/// What a join hands over of one worker. The array holds it as it is written here, with its text in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    agent: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    state: String,
    attributes: BTreeMap<String, String>,
    /// The folder and the branch of its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worktree: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    status: Ended,
    result: Option<Payload>,
    error: Option<String>,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ended {
    Done,
    Failed,
}

/// An array of no workers.
pub const EMPTY: &str = "[]";

/// Builds the array, or says why the results cannot be delivered. `load` reads payloads that are stored in files; its
/// error is not an error of the workflow.
pub fn results<E>(
    run: &Run,
    agent: &AgentId,
    load: impl Fn(&Payload) -> Result<String, E>,
) -> Result<Result<String, String>, E> {
    let workers = workers(run, agent);
    let count = workers.len();
    extend(EMPTY.to_owned(), workers, count, load)
}

/// What a join of this agent hands over of each worker.
pub fn workers(run: &Run, agent: &AgentId) -> Vec<Joined> {
    let workers = run.workers.get(agent).into_iter().flat_map(BTreeMap::values);
    workers
        .map(|worker| {
            let error = match run.agents.get(&worker.agent).map(|agent| &agent.status) {
                Some(Status::Failed { error, .. }) => Some(error.clone()),
                _ => None,
            };
            Joined {
                agent: worker.agent.clone(),
                title: title(&worker.attributes),
                state: worker.state.to_string(),
                attributes: worker.attributes.clone(),
                worktree: worker.worktree.as_ref().map(|worktree| worktree.path.clone()),
                branch: worker.worktree.as_ref().map(|worktree| worktree.branch.clone()),
                status: if error.is_some() { Ended::Failed } else { Ended::Done },
                result: worker.result.clone(),
                error,
            }
        })
        .collect()
}

/// Adds workers to an array, of which there are `count` when it is complete. Not more is read than the array may hold.
pub fn extend<E>(
    mut array: String,
    workers: Vec<Joined>,
    count: usize,
    load: impl Fn(&Payload) -> Result<String, E>,
) -> Result<Result<String, String>, E> {
    array.pop();
    for mut worker in workers {
        let bytes = worker.result.as_ref().map_or(0, Payload::bytes);
        if array.len() as u64 + bytes >= MAX_TAG_BYTES as u64 {
            return Ok(Err(too_long(count)));
        }
        worker.result = worker.result.as_ref().map(&load).transpose()?.map(Payload::from);
        let text = match serde_json::to_string(&worker) {
            Ok(text) => without_tags(&text),
            Err(error) => {
                return Ok(Err(format!("the results of the workers cannot be put together: {error}")));
            }
        };
        if array.len() > 1 {
            array.push(',');
        }
        array.push_str(&text);
        if array.len() >= MAX_TAG_BYTES {
            return Ok(Err(too_long(count)));
        }
    }
    array.push(']');
    Ok(Ok(array))
}

fn too_long(workers: usize) -> String {
    let most = MAX_TAG_BYTES / (1024 * 1024);
    format!(
        "the results of {workers} workers are longer than {most} MiB together; let them write files and return their names"
    )
}

/// Writes the `<` of each Raymond tag as `\u003c`, which is the same in JSON. The array is usually passed on inside a
/// `<result>`, and the text or error of a worker must not be able to close that tag.
fn without_tags(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        text.push_str(before);
        text.push_str(if begins_tag(tag) { "\\u003c" } else { "<" });
        rest = &tag[1..];
    }
    text.push_str(rest);
    text
}

/// `text` begins with `<`.
fn begins_tag(text: &str) -> bool {
    let name = text[1..].trim_start_matches('/');
    TagName::ALL.iter().any(|tag| name.starts_with(tag.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_in_the_array_are_escaped_and_other_text_stays_readable() {
        let said = ["<result>a</result>", "<<goto input=\"x\">B", "a < b <p>é</p> <", "\\<print>"];
        let json = serde_json::to_string(&said).unwrap();
        let text = without_tags(&json);
        assert_eq!(
            text,
            r#"["\u003cresult>a\u003c/result>","<\u003cgoto input=\"x\">B","a < b <p>é</p> <","\\\u003cprint>"]"#
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), said);
    }
}
