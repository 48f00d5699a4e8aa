//! A workflow as a diagram. What to draw is decided here, once for all output formats.

pub mod dot;
pub mod html;
pub mod layout;
pub mod mermaid;
mod model;
pub mod svg;

#[cfg(test)]
mod tests;

use std::fmt;

use crate::workflow::Kind;

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub label: String,
    pub shape: Shape,
    /// Whether a run may reach it.
    pub is_reached: bool,
    /// Whether tests were counted, and none of them reached it.
    pub is_untested: bool,
    /// The extended workflow that a state comes from.
    pub base: Option<String>,
}

/// The meaning of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A state, by its number in the graph.
    State(usize, Kind),
    /// Where a run begins.
    Start,
    /// Where an agent ends.
    End,
    /// A state that is named but does not exist.
    Missing,
    /// Another workflow.
    Workflow,
    /// A target that is only known when the workflow runs.
    Anywhere,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub style: Style,
    pub label: String,
    /// Whether tests were counted, and none of them took it.
    pub is_untested: bool,
}

/// How an edge is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Style {
    /// The agent itself continues there.
    Plain,
    /// A called state begins, which will return.
    Call,
    /// A called state returns.
    Return,
    /// A worker begins.
    Fork,
}

impl Diagram {
    /// Notes which states come from extended workflows: `base_of` has the name of a state's workflow by its number.
    /// Those that no run reaches are left out, because a workflow rarely needs all states that it extends.
    pub fn mark_bases(&mut self, base_of: impl Fn(usize) -> Option<String>) {
        for node in &mut self.nodes {
            if let Shape::State(state, _) = node.shape {
                node.base = base_of(state);
            }
        }
        self.keep(|node| node.is_reached || node.base.is_none());
    }

    /// Removes the other nodes, with their edges.
    fn keep(&mut self, is_kept: impl Fn(&Node) -> bool) {
        let mut kept = 0..;
        let numbers: Vec<Option<usize>> =
            self.nodes.iter().map(|node| is_kept(node).then(|| kept.next()).flatten()).collect();
        let number = |old: usize| numbers.get(old).copied().flatten();
        self.edges.retain_mut(|edge| match (number(edge.from), number(edge.to)) {
            (Some(from), Some(to)) => {
                (edge.from, edge.to) = (from, to);
                true
            }
            _ => false,
        });
        self.nodes.retain(is_kept);
    }
}

impl Style {
    pub const fn as_str(self) -> &'static str {
        match self {
            Style::Plain => "plain",
            Style::Call => "call",
            Style::Return => "return",
            Style::Fork => "fork",
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Node {
    /// The second line of its label: where it comes from.
    fn origin(&self) -> Option<String> {
        self.base.as_ref().map(|base| format!("from {base}"))
    }

    /// The name of the node's kind in the style sheets.
    pub const fn class(&self) -> &'static str {
        match self.shape {
            Shape::State(_, Kind::Prompt) => "prompt",
            Shape::State(..) => "script",
            Shape::Start => "start",
            Shape::End => "end",
            Shape::Missing => "missing",
            Shape::Workflow => "workflow",
            Shape::Anywhere => "anywhere",
        }
    }
}
