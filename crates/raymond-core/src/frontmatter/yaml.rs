//! YAML as a tree in which every node has its position, so that errors can point at it.
//!
//! Depth, nodes and text are limited after aliases are expanded, so an alias bomb is an ordinary error.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, MessageFormatter, NonFiniteFloatPolicy, Options};
use serde_saphyr::{Spanned, UserMessageFormatter};

use crate::limits::{MAX_YAML_DEPTH, MAX_YAML_NODES, MAX_YAML_REPEATED_NODES, MAX_YAML_TEXT_BYTES};
use crate::workflow::source::Position;
use crate::workflow::wording::clipped_to;

/// The parser's messages quote the file, which may contain any text of any length.
const MAX_MESSAGE_CHARS: usize = 300;

/// One value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub position: Position,
    /// The bytes that it was read from, with quotes; for a list or mapping only its beginning.
    pub bytes: Range<usize>,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// One `key: value` of a map; keys are unique.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub key: String,
    pub key_position: Position,
    pub key_bytes: Range<usize>,
    pub node: Node,
}

/// An error and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub position: Position,
    pub message: String,
}

impl Fault {
    pub fn new(position: Position, message: impl Into<String>) -> Fault {
        Fault { position, message: message.into() }
    }
}

impl Value {
    /// The type of the value, for messages.
    pub fn description(&self) -> &'static str {
        match self {
            Value::Null => "empty",
            Value::Bool(_) => "`true` or `false`",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// The same as JSON, or the place of a number that JSON does not have.
    pub fn to_json(&self) -> Result<serde_json::Value, Fault> {
        use serde_json::{Number, Value as Json};
        let number = |number: Option<Number>| {
            number.map(Json::Number).ok_or_else(|| Fault::new(self.position, "JSON has no such number"))
        };
        match &self.value {
            Value::Null => Ok(Json::Null),
            Value::Bool(flag) => Ok(Json::Bool(*flag)),
            Value::Integer(integer) => number(Number::from_i128(*integer)),
            Value::Float(float) => number(Number::from_f64(*float)),
            Value::Text(text) => Ok(Json::String(text.clone())),
            Value::List(items) => items.iter().map(Node::to_json).collect::<Result<_, _>>().map(Json::Array),
            Value::Map(fields) => {
                let field = |field: &Field| Ok((field.key.clone(), field.node.to_json()?));
                fields.iter().map(field).collect::<Result<_, _>>().map(Json::Object)
            }
        }
    }
}

/// Parses one document. Positions count from the first line of the text, and an empty text is `Null`.
pub fn parse(text: &str) -> Result<Node, Fault> {
    let root: Option<Node> =
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| fault(&error))?;
    Ok(root.unwrap_or(Node { position: Position { line: 1, column: 1 }, bytes: 0..0, value: Value::Null }))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_YAML_DEPTH,
            flow_nesting_limit: MAX_YAML_DEPTH,
            max_nodes: MAX_YAML_NODES,
            max_total_scalar_bytes: MAX_YAML_TEXT_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_YAML_REPEATED_NODES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // NaN and infinity are accepted here; the code that reads the key refuses them.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        // `no` and `off` are texts here, not booleans.
        strict_booleans: true,
        // The caller, which has the whole file, adds the line to the error.
        with_snippet: false,
    }
}

fn fault(error: &serde_saphyr::Error) -> Fault {
    let position = error.location().map_or(Position { line: 1, column: 1 }, position);
    let message = UserMessageFormatter.format_message(error.without_snippet());
    Fault::new(position, format!("invalid YAML: {}", clipped_to(MAX_MESSAGE_CHARS, &message)))
}

fn position(location: Location) -> Position {
    let at_least_one = |count: u64| u32::try_from(count).unwrap_or(u32::MAX).max(1);
    Position { line: at_least_one(location.line()), column: at_least_one(location.column()) }
}

/// Empty where the parser does not know the position.
fn bytes(location: Location) -> Range<usize> {
    let number = |count: Option<u64>| count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let start = number(location.span().byte_offset());
    start..start.saturating_add(number(location.span().byte_len()))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        let place = spanned.referenced;
        Ok(Node { position: position(place), bytes: bytes(place), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = access.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let place = key.referenced;
            let node = access.next_value()?;
            fields.push(Field {
                key: key.value,
                key_position: position(place),
                key_bytes: bytes(place),
                node,
            });
        }
        Ok(Value::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Position {
        Position { line, column }
    }

    #[test]
    fn every_node_has_its_position() {
        let Value::Map(fields) = parse("a: no\nb:\n  - 1\n  - {c: .nan}\n").unwrap().value else {
            panic!("not a map");
        };
        let [a, b] = fields.as_slice() else { panic!("not two fields") };
        assert_eq!((a.key.as_str(), a.key_position, a.node.position), ("a", at(1, 1), at(1, 4)));
        assert_eq!(a.node.value, Value::Text("no".to_owned()));
        let Value::List(items) = &b.node.value else { panic!("not a list") };
        assert_eq!(items.iter().map(|item| item.position).collect::<Vec<_>>(), [at(3, 5), at(4, 5)]);
    }

    #[test]
    fn texts_have_the_range_they_were_read_from() {
        let text = "ä: plain\nb: |\n  ü\n  two\n'c': \"x\\ty\"\nd: >-\n  a\n  b\ne: &x [ f ]\ng: *x\n";
        let Value::Map(fields) = parse(text).unwrap().value else { panic!("not a map") };
        let shown: Vec<(&str, &str)> = fields
            .iter()
            .map(|field| (&text[field.key_bytes.clone()], &text[field.node.bytes.clone()]))
            .collect();
        let expected = [
            ("ä", "plain"),
            ("b", "ü\n  two\n"),
            ("'c'", "\"x\\ty\""),
            ("d", "a\n  b\n"),
            ("e", "["),
            ("g", "*x"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_empty_text_is_null() {
        for text in ["", "\n", "# a comment\n", "~"] {
            assert_eq!(parse(text).unwrap().value, Value::Null, "{text}");
        }
    }

    #[test]
    fn broken_yaml_has_a_place() {
        let cases = [
            ("a: 1\na: 2", at(2, 1)),
            ("a: [", at(1, 4)),
            ("a: b: c", at(1, 5)),
            ("a: *b", at(1, 4)),
            ("a: &a [*a]", at(1, 8)),
            ("a: 1\n...\nb: 2", at(3, 1)),
            ("[a]: 1", at(1, 1)),
        ];
        for (text, position) in cases {
            let fault = parse(text).unwrap_err();
            assert_eq!(fault.position, position, "{text}: {}", fault.message);
        }
        assert_eq!(parse("a: [").unwrap_err().message, "invalid YAML: unclosed bracket '['");
    }

    /// Lists that hold the one before several times, with so many texts in the last one.
    fn nested_aliases(levels: u32, width: usize) -> String {
        let mut text = format!("a0: &a0 [{}]\n", "x, ".repeat(width));
        for level in 1..levels {
            let alias = format!("*a{}, ", level - 1).repeat(width);
            text.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
        }
        text
    }

    /// Nodes that aliases repeat have a bound of their own: otherwise a short text could take as long as the longest allowed one.
    #[test]
    fn aliases_repeat_no_more_than_people_need() {
        let many = |count: usize| format!("a: &a [1, 2, 3]\nb: [{}]", "*a, ".repeat(count));
        for text in [many(90), nested_aliases(4, 9), "a: &a {b: 1}\nc: {<<: *a, d: 2}".to_owned()] {
            assert!(parse(&text).is_ok(), "{}", &text[..60.min(text.len())]);
        }
        for text in [many(10_000), nested_aliases(5, 9), nested_aliases(14, 2)] {
            assert!(parse(&text).is_err(), "{}", &text[..60]);
        }
    }

    #[test]
    fn bombs_are_errors() {
        let bomb = nested_aliases(9, 9);
        let long = "x".repeat(MAX_YAML_TEXT_BYTES / 500);
        let heavy = format!("a: &a {long}\nb: [{}]", "*a, ".repeat(1_000));
        for text in [bomb, heavy, "[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
            assert!(parse(&text).is_err());
        }
    }
}
