//! What a test expects.

use std::collections::BTreeMap;

use raymond_core::frontmatter::yaml::{Fault, Node, Value};
use raymond_core::run::RunStatus;
use raymond_core::workflow::source::Position;
use regex_lite::Regex;

use super::path_problem;
use super::read::{Keys, Reader, fault, pattern};

/// What must have happened.
#[derive(Clone, Debug)]
pub struct Expect {
    pub status: RunStatus,
    pub result: Option<Matcher>,
    /// The states of the first agent, in order.
    pub path: Option<Vec<String>>,
    /// The states of other agents.
    pub paths: BTreeMap<String, Vec<String>>,
    /// Where each path is in the file, by agent.
    pub path_places: Vec<(String, Vec<(String, Position)>)>,
    pub prompts: BTreeMap<String, PromptRule>,
    pub files: BTreeMap<String, Matcher>,
    pub prints: Option<Vec<Matcher>>,
    pub asks: Option<Vec<Matcher>>,
    pub cost: Option<Amount>,
    pub turns: Option<Amount>,
    pub error: Option<Matcher>,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            status: RunStatus::Completed,
            result: None,
            path: None,
            paths: BTreeMap::new(),
            path_places: Vec::new(),
            prompts: BTreeMap::new(),
            files: BTreeMap::new(),
            prints: None,
            asks: None,
            cost: None,
            turns: None,
            error: None,
        }
    }
}

/// What a text must be like. Everything that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    pub equals: Option<String>,
    pub contains: Vec<String>,
    pub matches: Vec<Regex>,
    pub json: Option<serde_json::Value>,
}

/// What the prompts of a state must be like.
#[derive(Clone, Debug)]
pub enum PromptRule {
    /// At least one of them.
    Some(Matcher),
    /// All of them, in order.
    Each(Vec<Matcher>),
}

/// A number, or a bound of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Exactly(f64),
    AtMost(f64),
    AtLeast(f64),
}

const KEYS: [&str; 11] =
    ["status", "result", "path", "paths", "prompts", "files", "prints", "asks", "cost", "turns", "error"];

/// What a run may end as.
const STATUSES: [RunStatus; 6] = [
    RunStatus::Completed,
    RunStatus::Failed,
    RunStatus::Waiting,
    RunStatus::OverBudget,
    RunStatus::Limited,
    RunStatus::Interrupted,
];

impl Reader<'_> {
    pub(super) fn expect(&self, node: &Node) -> Result<Expect, Fault> {
        let keys = Keys::of(node, "`expect`", &KEYS)?;
        let mut expect = Expect::default();
        if let Some(node) = keys.get("status") {
            expect.status = self.status(node)?;
        }
        if let Some(node) = keys.get("path") {
            expect.path = Some(self.path(node, "main", &mut expect.path_places)?);
        }
        for (agent, node) in self.named(keys.get("paths"))? {
            let path = self.path(node, &agent, &mut expect.path_places)?;
            expect.paths.insert(agent, path);
        }
        for (state, node) in self.named(keys.get("prompts"))? {
            let name = state.strip_suffix(".md").unwrap_or(&state).to_owned();
            let rule = match &node.value {
                Value::List(_) => PromptRule::Each(self.matchers(node, "the prompts of a state")?),
                _ => PromptRule::Some(self.matcher(node)?),
            };
            expect.prompts.insert(name, rule);
        }
        for (file, node) in self.named(keys.get("files"))? {
            if let Some(problem) = path_problem(&file) {
                return Err(fault(node, format!("`{file}` {problem}")));
            }
            expect.files.insert(file, self.matcher(node)?);
        }
        expect.prints = keys.get("prints").map(|node| self.matchers(node, "`prints`")).transpose()?;
        expect.asks = keys.get("asks").map(|node| self.matchers(node, "`asks`")).transpose()?;
        expect.cost = keys.get("cost").map(|node| self.amount(node)).transpose()?;
        expect.turns = keys.get("turns").map(|node| self.amount(node)).transpose()?;
        expect.result = keys.get("result").map(|node| self.matcher(node)).transpose()?;
        expect.error = keys.get("error").map(|node| self.matcher(node)).transpose()?;
        Ok(expect)
    }

    fn status(&self, node: &Node) -> Result<RunStatus, Fault> {
        let given = self.text(node)?;
        STATUSES.into_iter().find(|status| status.as_str() == given).ok_or_else(|| {
            let known = STATUSES.map(RunStatus::as_str).join(", ");
            fault(node, format!("a run does not end as `{}`; it can end as: {known}", given.escape_debug()))
        })
    }

    fn path(
        &self,
        node: &Node,
        agent: &str,
        places: &mut Vec<(String, Vec<(String, Position)>)>,
    ) -> Result<Vec<String>, Fault> {
        let path = self.texts(node, "a path")?;
        let nodes = self.list(node, "a path")?;
        let placed = path.iter().cloned().zip(nodes.iter().map(|node| node.position));
        places.push((agent.to_owned(), placed.collect()));
        Ok(path)
    }

    fn matchers(&self, node: &Node, what: &str) -> Result<Vec<Matcher>, Fault> {
        self.list(node, what)?.iter().map(|node| self.matcher(node)).collect()
    }

    fn matcher(&self, node: &Node) -> Result<Matcher, Fault> {
        if !matches!(node.value, Value::Map(_)) {
            return Ok(Matcher { equals: Some(self.text(node)?), ..Matcher::default() });
        }
        let keys = Keys::of(node, "an expected text", &["contains", "matches", "json", "equals"])?;
        let equals = keys.get("equals").map(|node| self.text(node)).transpose()?;
        let mut matcher = Matcher { equals, ..Matcher::default() };
        for node in keys.get("contains").into_iter().flat_map(one_or_many) {
            matcher.contains.push(self.text(node)?);
        }
        for node in keys.get("matches").into_iter().flat_map(one_or_many) {
            matcher.matches.push(pattern(node, &self.text(node)?)?);
        }
        matcher.json = keys.get("json").map(json);
        Ok(matcher)
    }

    fn amount(&self, node: &Node) -> Result<Amount, Fault> {
        if !matches!(node.value, Value::Map(_)) {
            return self
                .dollars(node)
                .map(Amount::Exactly)
                .map_err(|_| fault(node, "expected a number from 0 on, or `{ at_most: … }`"));
        }
        let keys = Keys::of(node, "an expected number", &["at_most", "at_least"])?;
        match (keys.get("at_most"), keys.get("at_least")) {
            (Some(node), None) => self.dollars(node).map(Amount::AtMost),
            (None, Some(node)) => self.dollars(node).map(Amount::AtLeast),
            _ => Err(fault(node, "expected one of `at_most` and `at_least`")),
        }
    }
}

fn one_or_many(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(nodes) => nodes,
        _ => std::slice::from_ref(node),
    }
}

fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Integer(number) => i64::try_from(*number).map_or((*number as f64).into(), Into::into),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.clone().into(),
        Value::List(nodes) => nodes.iter().map(json).collect(),
        Value::Map(fields) => fields.iter().map(|field| (field.key.clone(), json(&field.node))).collect(),
    }
}
