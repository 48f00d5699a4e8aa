//! Answers from a file, so that a workflow runs without an agent program.
//!
//! ```yaml
//! PLAN:
//!   - reply: "<goto>BUILD</goto>"
//!     cost: 0.02
//! BUILD:
//!   - no tag in this one            # a reply may be plain text; it then costs nothing
//!   - <result>done</result>
//! ```
//!
//! The n-th turn of a run in a state gets the state's n-th reply; the last one is repeated.
//!
//! A turn is answered in this process, by one line of JSON: `{"reply": …, "cost_usd": …}`.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use raymond_core::frontmatter::yaml::{self, Fault, Field, Node, Value};
use serde_json::json;

use super::ending::failure;
use super::events::{EventDecoder, EventReader, amount};
use super::{
    AgentProgram, Answer, Asked, Capabilities, Cost, Invocation, Turn, TurnDecoder, TurnEnding, TurnEvent,
    TurnFailure, TurnFault, TurnReport, WorkflowFiles,
};
use crate::config::BackendSettings;

/// The file of replies beside the workflow's states, unless the config names another file.
const REPLIES_FILE: &str = "replies.yaml";

#[derive(Debug)]
struct Scripted {
    /// The file that the config names; it may also be beside the workflow.
    named: Option<String>,
}

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    Ok(Arc::new(Scripted { named: settings.replies.clone() }))
}

impl Scripted {
    fn replies(&self, files: &dyn WorkflowFiles) -> Result<Replies, String> {
        let name = self.named.as_deref().unwrap_or(REPLIES_FILE);
        let file = files.file(name, self.named.is_some())?;
        let path = file.path.display();
        let text =
            file.text.ok_or_else(|| format!("the scripted backend needs {path}, which is not there"))?;
        Replies::parse(&text).map_err(|error| format!("{path}: {error}"))
    }
}

impl AgentProgram for Scripted {
    /// It accepts and ignores every setting of a state, so any workflow can be tried. It does not stop at a share of
    /// the budget: a reply costs what the file says.
    fn capabilities(&self) -> Capabilities {
        Capabilities { budget_share: false, interactive: false, ..Capabilities::ALL }
    }

    fn check(&self, files: &dyn WorkflowFiles) -> Result<(), String> {
        self.replies(files).map(drop)
    }

    fn answer(&self, asked: &Asked<'_>, files: &dyn WorkflowFiles) -> Option<Result<Answer, String>> {
        Some(self.replies(files).and_then(|replies| {
            let Asked { state, number, .. } = *asked;
            let reply = replies.get(state, number).ok_or_else(|| {
                format!("the scripted backend has no reply for `{state}`; add one to its file of replies")
            })?;
            let line = json!({ "reply": reply.text, "cost_usd": reply.cost_usd });
            Ok(Answer { output: format!("{line}\n").into_bytes(), ..Answer::default() })
        }))
    }

    fn invocation(&self, _turn: &Turn) -> Result<Invocation, String> {
        Err("the scripted backend starts no program".to_owned())
    }

    fn decoder(&self, _turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(EventDecoder::new(Line::default()))
    }

    /// An answer that was not recorded is given again, and its cost is counted then.
    fn cost_of_lost_turn(
        &self,
        _turn: &Turn,
        _kept: Option<&mut dyn Read>,
        _stderr: Option<&mut dyn Read>,
    ) -> Option<Cost> {
        Some(Cost::default())
    }
}

/// Reads the line of an answer.
#[derive(Debug, Default)]
struct Line {
    reply: Option<Reply>,
}

impl EventReader for Line {
    fn event(&mut self, event: &serde_json::Value) -> Vec<TurnEvent> {
        let Some(text) = event.get("reply").and_then(serde_json::Value::as_str) else { return Vec::new() };
        self.reply = Some(Reply { text: text.to_owned(), cost_usd: amount(event, "/cost_usd") });
        vec![TurnEvent::Text(text.to_owned()), TurnEvent::End { is_error: false }]
    }

    fn is_final(&self) -> bool {
        self.reply.is_some()
    }

    fn finish(self, _ending: TurnEnding, _stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let Some(reply) = self.reply else {
            let fault = TurnFault::Junk { detail: "there is no reply in it".to_owned() };
            return Err(failure(fault, Cost::default(), None));
        };
        let cost = Cost { usd: reply.cost_usd, ..Cost::default() };
        Ok(TurnReport { text: reply.text, cost, ..TurnReport::default() })
    }
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    pub text: String,
    pub cost_usd: f64,
}

/// The answers of all states, by their names without extension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replies {
    by_state: BTreeMap<String, Vec<Reply>>,
}

impl Replies {
    /// Reads a file of replies; the error says where and what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        read(text).map_err(|fault| format!("{}: {}", fault.position, fault.message))
    }

    /// The reply to the `turn`-th turn in a state, counted from 1. The state's name has no extension.
    pub fn get(&self, state: &str, turn: u64) -> Option<&Reply> {
        let replies = self.by_state.get(state)?;
        let index = usize::try_from(turn.saturating_sub(1)).unwrap_or(usize::MAX);
        replies.get(index).or(replies.last())
    }
}

fn read(text: &str) -> Result<Replies, Fault> {
    let root = yaml::parse(text)?;
    let mut by_state = BTreeMap::new();
    for field in fields(&root)? {
        let name = field.key.strip_suffix(".md").unwrap_or(&field.key);
        by_state.insert(name.to_owned(), read_list(&field.node)?);
    }
    Ok(Replies { by_state })
}

fn read_list(node: &Node) -> Result<Vec<Reply>, Fault> {
    match &node.value {
        Value::List(nodes) if nodes.is_empty() => Err(fault(node, "there must be at least one reply")),
        Value::List(nodes) => nodes.iter().map(read_reply).collect(),
        _ => Ok(vec![read_reply(node)?]),
    }
}

fn read_reply(node: &Node) -> Result<Reply, Fault> {
    if let Value::Text(text) = &node.value {
        return Ok(Reply { text: text.clone(), cost_usd: 0.0 });
    }
    let mut reply = Reply::default();
    let mut has_text = false;
    for field in fields(node)? {
        match (field.key.as_str(), &field.node.value) {
            ("reply" | "text", Value::Text(text)) => {
                reply.text.clone_from(text);
                has_text = true;
            }
            ("cost" | "cost_usd", Value::Integer(dollars)) if *dollars >= 0 => {
                reply.cost_usd = *dollars as f64
            }
            ("cost" | "cost_usd", Value::Float(dollars)) if dollars.is_finite() && *dollars >= 0.0 => {
                reply.cost_usd = *dollars;
            }
            ("reply" | "text" | "cost" | "cost_usd", other) => {
                let message = format!("`{}` cannot be {}", field.key, other.description());
                return Err(fault(&field.node, &message));
            }
            (other, _) => {
                let message = format!("`{other}` means nothing here; a reply has `reply` and `cost`");
                return Err(Fault { position: field.key_position, message });
            }
        }
    }
    if has_text { Ok(reply) } else { Err(fault(node, "a reply needs its text: `reply: …`")) }
}

fn fields(node: &Node) -> Result<&[Field], Fault> {
    match &node.value {
        Value::Map(fields) => Ok(fields),
        Value::Null => Ok(&[]),
        other => Err(fault(node, &format!("expected a mapping, found {}", other.description()))),
    }
}

fn fault(node: &Node, message: &str) -> Fault {
    Fault { position: node.position, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_given_in_order_and_the_last_again() {
        let replies = Replies::parse("A:\n  - one\n  - { reply: two, cost: 0.5 }\nB.md: only\n").unwrap();
        let texts = [1, 2, 3, 99].map(|turn| replies.get("A", turn).unwrap().text.as_str());
        assert_eq!(texts, ["one", "two", "two", "two"]);
        assert_eq!(replies.get("A", 2).unwrap().cost_usd, 0.5);
        assert_eq!(replies.get("B", 1).unwrap().text, "only");
        assert_eq!(replies.get("C", 1), None);
    }

    #[test]
    fn errors_name_their_place() {
        let cases = [
            ("A: []", "line 1, column 4: there must be at least one reply"),
            ("A:\n  - { cost: 1 }", "line 2, column 5: a reply needs its text: `reply: …`"),
            ("A:\n  - { reply: x, cost: much }", "line 2, column 23: `cost` cannot be text"),
            (
                "A:\n  - { reply: x, price: 1 }",
                "line 2, column 17: `price` means nothing here; a reply has `reply` and `cost`",
            ),
            ("- x", "line 1, column 1: expected a mapping, found a list"),
        ];
        for (text, expected) in cases {
            assert_eq!(Replies::parse(text).unwrap_err(), expected, "{text}");
        }
    }
}
