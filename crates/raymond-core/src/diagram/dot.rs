//! The diagram in the language of Graphviz.

use std::fmt::Write;

use super::{Diagram, Node, Shape, Style};
use crate::workflow::Kind;

/// What no test has reached is red.
const UNTESTED: &str = ", color=\"#d33a3a\", fontcolor=\"#d33a3a\", penwidth=2";

pub fn dot(diagram: &Diagram) -> String {
    let mut text = "digraph workflow {\n    node [fontname=\"monospace\"];\n    edge [fontname=\"monospace\", fontsize=10];\n".to_owned();
    for (number, node) in diagram.nodes.iter().enumerate() {
        let _ = writeln!(text, "    n{number} [{}];", attributes(node));
    }
    for edge in &diagram.edges {
        let style = match edge.style {
            Style::Plain | Style::Call => "solid",
            Style::Return => "dashed",
            Style::Fork => "bold",
        };
        let _ = writeln!(
            text,
            "    n{} -> n{} [label=\"{}\", style={style}{}];",
            edge.from,
            edge.to,
            escaped(&edge.label),
            if edge.is_untested { UNTESTED } else { "" }
        );
    }
    text.push_str("}\n");
    text
}

fn attributes(node: &Node) -> String {
    let mut label = escaped(&node.label);
    if let Some(origin) = node.origin() {
        let _ = write!(label, "\\n{}", escaped(&origin));
    }
    let shape = match node.shape {
        Shape::State(_, Kind::Prompt) => "shape=box, style=rounded, color=\"#3b76d6\"",
        Shape::State(..) => "shape=box, color=\"#2f9e63\"",
        Shape::Start => {
            return "label=\"\", shape=circle, style=filled, fillcolor=\"#666666\", width=0.2".to_owned();
        }
        Shape::End => "shape=doublecircle, color=\"#666666\"",
        Shape::Missing => "shape=hexagon, style=dashed, color=\"#d33a3a\"",
        Shape::Workflow => "shape=folder, color=\"#8a5cd0\"",
        Shape::Anywhere => return "label=\"?\", shape=circle, style=dotted".to_owned(),
    };
    let untested = if node.is_untested { UNTESTED } else { "" };
    format!("label=\"{label}\", {shape}{untested}")
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
