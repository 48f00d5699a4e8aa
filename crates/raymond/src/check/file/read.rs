//! Reading YAML values with their places.

use raymond_core::frontmatter::yaml::{Fault, Field, Node, Value};
use raymond_core::workflow::wording::{did_you_mean, nearest};
use regex_lite::Regex;

/// Reads the values of a text.
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
}

/// The fields of a mapping whose keys are known.
pub(super) struct Keys<'n> {
    fields: &'n [Field],
}

impl<'n> Keys<'n> {
    /// Refuses keys that are not known, with what was probably meant.
    pub(super) fn of(node: &'n Node, what: &str, known: &[&str]) -> Result<Self, Fault> {
        let fields: &[Field] = match &node.value {
            Value::Map(fields) => fields,
            Value::Null => &[],
            other => {
                return Err(fault(node, format!("{what} is a mapping, and this is {}", other.description())));
            }
        };
        for field in fields {
            if !known.contains(&field.key.as_str()) {
                let meant = nearest(&field.key, known.iter().copied());
                let hint = match meant.is_empty() {
                    true => format!("; it has: {}", known.join(", ")),
                    false => did_you_mean(&meant),
                };
                let message = format!("unknown key `{}` in {what}{hint}", field.key.escape_debug());
                return Err(Fault::new(field.key_position, message));
            }
        }
        Ok(Self { fields })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.fields.iter().find(|field| field.key == key).map(|field| &field.node)
    }
}

impl Reader<'_> {
    /// A text. Numbers and truth values count as they are written.
    pub(super) fn text(&self, node: &Node) -> Result<String, Fault> {
        match &node.value {
            Value::Text(text) => Ok(text.clone()),
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) => {
                Ok(self.text.get(node.bytes.clone()).unwrap_or_default().to_owned())
            }
            other => Err(fault(node, format!("expected a text, found {}", shown(other)))),
        }
    }

    pub(super) fn list<'n>(&self, node: &'n Node, what: &str) -> Result<&'n [Node], Fault> {
        match &node.value {
            Value::List(nodes) => Ok(nodes),
            other => Err(fault(node, format!("{what} is a list, and this is {}", shown(other)))),
        }
    }

    pub(super) fn texts(&self, node: &Node, what: &str) -> Result<Vec<String>, Fault> {
        self.list(node, what)?.iter().map(|node| self.text(node)).collect()
    }

    pub(super) fn fields<'n>(&self, node: &'n Node, what: &str) -> Result<&'n [Field], Fault> {
        match &node.value {
            Value::Map(fields) => Ok(fields),
            Value::Null => Ok(&[]),
            other => Err(fault(node, format!("{what}; this is {}", shown(other)))),
        }
    }

    /// The values of a mapping with any keys, or nothing.
    pub(super) fn named<'n>(&self, node: Option<&'n Node>) -> Result<Vec<(String, &'n Node)>, Fault> {
        let Some(node) = node else { return Ok(Vec::new()) };
        let fields = self.fields(node, "expected a mapping of names")?;
        Ok(fields.iter().map(|field| (field.key.clone(), &field.node)).collect())
    }

    pub(super) fn count(&self, node: &Node) -> Result<u64, Fault> {
        match node.value {
            Value::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        }
        .ok_or_else(|| fault(node, "expected a whole number from 0 on"))
    }

    pub(super) fn dollars(&self, node: &Node) -> Result<f64, Fault> {
        let number = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => f64::NAN,
        };
        match number.is_finite() && number >= 0.0 {
            true => Ok(number),
            false => Err(fault(node, "expected a number of dollars from 0 on")),
        }
    }
}

fn shown(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        other => other.description(),
    }
}

/// A pattern that can be read.
pub(super) fn pattern(node: &Node, text: &str) -> Result<Regex, Fault> {
    Regex::new(text).map_err(|error| fault(node, format!("this is no regular expression: {error}")))
}

pub(super) fn fault(node: &Node, message: impl Into<String>) -> Fault {
    Fault::new(node.position, message)
}
