//! The diagram in Mermaid, which code hosts display.

use std::fmt::Write;

use super::{Diagram, Edge, Node, Shape, Style};
use crate::workflow::Kind;

/// Outlines only, so that it can be read on light and dark pages.
const CLASSES: &str = "    classDef prompt stroke:#3b76d6,stroke-width:2px
    classDef script stroke:#2f9e63,stroke-width:2px
    classDef missing stroke:#d33a3a,stroke-width:2px,stroke-dasharray:5 4
    classDef workflow stroke:#8a5cd0,stroke-width:2px
    classDef unreached stroke-dasharray:2 3
";

pub fn mermaid(diagram: &Diagram) -> String {
    let mut text = "flowchart TD\n".to_owned();
    for (number, node) in diagram.nodes.iter().enumerate() {
        let _ = writeln!(text, "    n{number}{}", written(node));
    }
    for edge in &diagram.edges {
        write_edge(&mut text, edge);
    }
    text.push_str(CLASSES);
    write_classes(&mut text, diagram);
    write_untested(&mut text, diagram);
    text
}

fn written(node: &Node) -> String {
    let mut label = escaped(&node.label);
    if let Some(origin) = node.origin() {
        let _ = write!(label, "<br/>{}", escaped(&origin));
    }
    match node.shape {
        Shape::State(_, Kind::Prompt) => format!("(\"{label}\")"),
        Shape::State(..) => format!("[\"{label}\"]"),
        Shape::Start => "((\" \"))".to_owned(),
        Shape::End => "(((\"end\")))".to_owned(),
        Shape::Missing => format!("{{{{\"{label} is missing\"}}}}"),
        Shape::Workflow => format!("[[\"{label}\"]]"),
        Shape::Anywhere => "((\"?\"))".to_owned(),
    }
}

fn write_edge(text: &mut String, edge: &Edge) {
    let arrow = match edge.style {
        Style::Plain | Style::Call => "-->",
        Style::Return => "-.->",
        Style::Fork => "==>",
    };
    let label = if edge.label.is_empty() { String::new() } else { format!("|\"{}\"|", escaped(&edge.label)) };
    let _ = writeln!(text, "    n{} {arrow}{label} n{}", edge.from, edge.to);
}

fn write_classes(text: &mut String, diagram: &Diagram) {
    for class in ["prompt", "script", "missing", "workflow", "unreached"] {
        let belongs = |node: &Node| node.class() == class || (class == "unreached" && !node.is_reached);
        let members: Vec<String> = diagram
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| belongs(node))
            .map(|(number, _)| format!("n{number}"))
            .collect();
        if !members.is_empty() {
            let _ = writeln!(text, "    class {} {class}", members.join(","));
        }
    }
}

/// What no test has reached is red.
fn write_untested(text: &mut String, diagram: &Diagram) {
    let numbers = |untested: Vec<bool>, letter: &str| {
        let marked = untested.into_iter().enumerate().filter(|(_, is_untested)| *is_untested);
        marked.map(|(number, _)| format!("{letter}{number}")).collect::<Vec<String>>().join(",")
    };
    let nodes = numbers(diagram.nodes.iter().map(|node| node.is_untested).collect(), "n");
    if !nodes.is_empty() {
        let _ = writeln!(text, "    classDef untested stroke:#d33a3a,stroke-width:3px,color:#d33a3a");
        let _ = writeln!(text, "    class {nodes} untested");
    }
    let edges = numbers(diagram.edges.iter().map(|edge| edge.is_untested).collect(), "");
    if !edges.is_empty() {
        let _ = writeln!(text, "    linkStyle {edges} stroke:#d33a3a,stroke-width:2px,color:#d33a3a");
    }
}

/// Writes each character that could be special in Mermaid or HTML as its number.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' ' | '.' | '_' | '-' | '/' | ',' => escaped.push(character),
            plain if plain.is_alphanumeric() => escaped.push(plain),
            other => {
                let _ = write!(escaped, "#{};", u32::from(other));
            }
        }
    }
    escaped
}
