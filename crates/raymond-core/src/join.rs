//! The result of a join: a JSON array with the result of each worker, in the order they were forked.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::limits::MAX_TAG_BYTES;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{Run, Status};
use crate::tag::TagName;
use crate::title::title;

#[derive(Serialize)]
struct Joined<'a> {
    agent: &'a AgentId,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    state: &'a str,
    attributes: &'a BTreeMap<String, String>,
    /// The folder and the branch of its worktree.
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
    status: &'static str,
    result: Option<String>,
    error: Option<&'a str>,
}

/// Builds the array, or says why the results cannot be delivered. `load` reads payloads that are stored in files; its
/// error is not an error of the workflow.
pub fn results<E>(
    run: &Run,
    agent: &AgentId,
    load: impl Fn(&Payload) -> Result<String, E>,
) -> Result<Result<String, String>, E> {
    let mut joined = Vec::new();
    for worker in run.workers.get(agent).into_iter().flat_map(BTreeMap::values) {
        let error = match run.agents.get(&worker.agent).map(|agent| &agent.status) {
            Some(Status::Failed { error, .. }) => Some(error.as_str()),
            _ => None,
        };
        joined.push(Joined {
            agent: &worker.agent,
            title: title(&worker.attributes),
            state: worker.state.as_str(),
            attributes: &worker.attributes,
            worktree: worker.worktree.as_ref().map(|worktree| worktree.path.as_str()),
            branch: worker.worktree.as_ref().map(|worktree| worktree.branch.as_str()),
            status: if error.is_some() { "failed" } else { "done" },
            result: worker.result.as_ref().map(&load).transpose()?,
            error,
        });
    }
    Ok(as_text(&joined))
}

fn as_text(joined: &[Joined<'_>]) -> Result<String, String> {
    let text = serde_json::to_string(joined)
        .map_err(|error| format!("the results of the workers cannot be put together: {error}"))?;
    let text = without_tags(&text);
    if text.len() > MAX_TAG_BYTES {
        let most = MAX_TAG_BYTES / (1024 * 1024);
        return Err(format!(
            "the results of {} workers are longer than {most} MiB together; let them write files and return their names",
            joined.len()
        ));
    }
    Ok(text)
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
