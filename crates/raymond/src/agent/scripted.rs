//! Answers from a file, so that a workflow runs without an agent program.
//!
//! ```yaml
//! PLAN:
//!   - reply: "<goto>BUILD</goto>"
//!     cost: 0.02
//! BUILD:
//!   - no tag in this one            # a reply may be plain text and then costs nothing
//!   - <result>done</result>
//! ```
//!
//! The n-th turn that a run takes in a state gets the state's n-th reply; the last one is given again and again.

use std::collections::BTreeMap;

use raymond_core::frontmatter::yaml::{self, Fault, Field, Node, Value};
use raymond_core::workflow::StateFile;

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

    /// The reply to the `turn`-th turn in a state, counted from 1.
    pub fn get(&self, state: &StateFile, turn: u64) -> Option<&Reply> {
        let replies = self.by_state.get(state.name())?;
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

    fn state(name: &str) -> StateFile {
        StateFile::new(name).unwrap()
    }

    #[test]
    fn replies_are_given_in_order_and_the_last_again() {
        let replies = Replies::parse("A:\n  - one\n  - { reply: two, cost: 0.5 }\nB.md: only\n").unwrap();
        let texts = [1, 2, 3, 99].map(|turn| replies.get(&state("A.md"), turn).unwrap().text.as_str());
        assert_eq!(texts, ["one", "two", "two", "two"]);
        assert_eq!(replies.get(&state("A.md"), 2).unwrap().cost_usd, 0.5);
        assert_eq!(replies.get(&state("B.md"), 1).unwrap().text, "only");
        assert_eq!(replies.get(&state("C.md"), 1), None);
    }

    #[test]
    fn mistakes_are_placed() {
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
