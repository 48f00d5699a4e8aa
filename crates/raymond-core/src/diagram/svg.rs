//! The diagram as SVG: real text, and colours for light and dark pages.

use std::fmt::Write;

use super::layout::{Course, Layout, Point, Size, layout};
use super::{Diagram, Edge, Node, Shape};

const CHARACTER: f64 = 7.6;
const LABEL_CHARACTER: f64 = 6.3;
const NODE_HEIGHT: f64 = 34.0;
const LABEL_HEIGHT: f64 = 15.0;
/// The width of a loop beside its node.
const LOOP_WIDTH: f64 = 26.0;
/// Longer names are cut in the diagram; the tooltip shows the whole name.
const MAX_CHARACTERS: usize = 40;

/// What no test has reached is red, also on dark pages.
const UNTESTED: &str = ".raymond .node.untested rect{stroke:#d33a3a;stroke-width:3}.raymond \
    .node.untested text,.raymond text.label.untested{fill:#d33a3a}.raymond .edge.untested{stroke:#d33a3a;stroke-width:2.4}";
const STYLE: &str = include_str!("svg.css");

/// The size of each node as it is drawn here, and where everything goes.
pub fn arrange(diagram: &Diagram) -> (Vec<Size>, Layout) {
    let nodes: Vec<Size> = diagram.nodes.iter().map(node_size).collect();
    let labels: Vec<Size> = diagram.edges.iter().map(label_size).collect();
    let layout = layout(diagram, &nodes, &loop_widths(diagram), &labels);
    (nodes, layout)
}

/// A complete SVG file.
pub fn svg(diagram: &Diagram, title: &str) -> String {
    let (nodes, layout) = arrange(diagram);
    let Size { width, height } = layout.size;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" class=\"raymond\">\n<title>{}</title>\n<style>{STYLE}</style>\n{MARKERS}\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
        escaped(title)
    );
    let has_untested = diagram.nodes.iter().any(|node| node.is_untested)
        || diagram.edges.iter().any(|edge| edge.is_untested);
    if has_untested {
        let _ = writeln!(text, "<style>{UNTESTED}</style>");
    }
    write_edges(&mut text, diagram, &layout, &nodes);
    for (number, ((node, size), at)) in diagram.nodes.iter().zip(&nodes).zip(&layout.nodes).enumerate() {
        write_node(&mut text, number, node, *size, *at);
    }
    text.push_str("</svg>\n");
    text
}

const MARKERS: &str = "<defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" \
    markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip\" d=\"M0 1 L9 5 L0 9 Z\"/></marker></defs>\n";

fn write_edges(text: &mut String, diagram: &Diagram, layout: &Layout, nodes: &[Size]) {
    let mut labels = String::new();
    for (edge, course) in diagram.edges.iter().zip(&layout.edges) {
        let at = layout.nodes.get(edge.from).copied().unwrap_or_default();
        let size = nodes.get(edge.from).copied().unwrap_or_default();
        let path = if edge.from == edge.to { self_loop(at, size) } else { curve(course) };
        let _ = writeln!(
            text,
            "<path class=\"edge {}{}\" marker-end=\"url(#arrow)\" d=\"{path}\"/>",
            edge.style,
            untested(edge.is_untested)
        );
        let beside =
            Point { x: at.x + size.width / 2.0 + LOOP_WIDTH + label_size(edge).width / 2.0, y: at.y };
        let place = if edge.from == edge.to { Some(beside) } else { course.label };
        if let Some(place) = place.filter(|_| !edge.label.is_empty()) {
            write_label(&mut labels, edge, place);
        }
    }
    text.push_str(&labels);
}

fn write_label(text: &mut String, edge: &Edge, at: Point) {
    let width = label_size(edge).width;
    let _ = writeln!(
        text,
        "<rect class=\"page\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{LABEL_HEIGHT}\"/><text \
         class=\"label {}{}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        at.x - width / 2.0,
        at.y - LABEL_HEIGHT / 2.0,
        edge.style,
        untested(edge.is_untested),
        at.x,
        at.y + 3.8,
        escaped(&edge.label)
    );
}

fn untested(is_untested: bool) -> &'static str {
    if is_untested { " untested" } else { "" }
}

/// A smooth line through the points that is vertical at both ends.
fn curve(course: &Course) -> String {
    let points = &course.points;
    let Some(first) = points.first() else { return String::new() };
    let mut path = format!("M{:.1} {:.1}", first.x, first.y);
    for (index, pair) in points.windows(2).enumerate() {
        let &[from, to] = pair else { continue };
        let third = (to.y - from.y) / 3.0;
        let (leaving, arriving) = (slope(points, index), slope(points, index + 1));
        let _ = write!(
            path,
            "C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            from.x + leaving * third,
            from.y + third,
            to.x - arriving * third,
            to.y - third,
            to.x,
            to.y
        );
    }
    path
}

/// The horizontal movement of a line at a point for each unit down; zero at its ends, and where it is straight before
/// or after, because it passes between nodes there.
fn slope(points: &[Point], index: usize) -> f64 {
    let here = points.get(index).map_or(0.0, |point| point.x);
    let neighbours = (index.checked_sub(1).and_then(|before| points.get(before)), points.get(index + 1));
    match neighbours {
        (Some(before), Some(after)) if before.x == here || after.x == here => 0.0,
        (Some(before), Some(after)) if (after.y - before.y).abs() > 1.0 => {
            (after.x - before.x) / (after.y - before.y)
        }
        _ => 0.0,
    }
}

fn self_loop(at: Point, size: Size) -> String {
    let right = at.x + size.width / 2.0;
    let out = right + 30.0;
    let (upper, lower) = (at.y - 9.0, at.y + 9.0);
    format!(
        "M{right:.1} {lower:.1}C{out:.1} {:.1} {out:.1} {:.1} {right:.1} {upper:.1}",
        at.y + 20.0,
        at.y - 20.0
    )
}

fn write_node(text: &mut String, number: usize, node: &Node, size: Size, at: Point) {
    let reached = if node.is_reached { "" } else { " unreached" };
    let (state, focus) = match node.shape {
        Shape::State(state, _) => (format!(" data-state=\"{state}\""), " tabindex=\"0\""),
        _ => (String::new(), ""),
    };
    let untested = untested(node.is_untested);
    let _ =
        write!(text, "<g class=\"node {}{reached}{untested}\" id=\"n{number}\"{state}{focus}>", node.class());
    if let Some(whole) = whole_name(node) {
        let _ = write!(text, "<title>{}</title>", escaped(&whole));
    }
    let (x, y) = (at.x - size.width / 2.0, at.y - size.height / 2.0);
    let _ = match node.shape {
        Shape::Start => write!(text, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"7\"/>", at.x, at.y),
        Shape::Anywhere | Shape::End => {
            let ring = if node.shape == Shape::End { "<circle class=\"ring\"" } else { "<circle" };
            write!(text, "{ring} cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\"/>", at.x, at.y, size.height / 2.0)
        }
        Shape::Missing | Shape::Workflow | Shape::State(..) => {
            let round = if node.class() == "prompt" { 12.0 } else { 2.0 };
            let Size { width, height } = size;
            write!(
                text,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"{round}\"/>"
            )
        }
    };
    let origin = node.origin().map(|origin| cut(&origin));
    if node.shape != Shape::Start {
        let middle = if origin.is_some() { at.y - 1.5 } else { at.y + 4.5 };
        let _ = write!(text, "<text x=\"{:.1}\" y=\"{middle:.1}\">{}</text>", at.x, escaped(&shown(node)));
    }
    if let Some(origin) = origin {
        let (below, origin) = (at.y + 11.5, escaped(&origin));
        let _ = write!(text, "<text class=\"base\" x=\"{:.1}\" y=\"{below:.1}\">{origin}</text>", at.x);
    }
    text.push_str("</g>\n");
}

fn shown(node: &Node) -> String {
    match node.shape {
        Shape::Anywhere => "?".to_owned(),
        Shape::Missing => format!("{} ?", cut(&node.label)),
        _ => cut(&node.label),
    }
}

fn cut(label: &str) -> String {
    if label.chars().count() <= MAX_CHARACTERS {
        return label.to_owned();
    }
    label.chars().take(MAX_CHARACTERS - 1).chain(['…']).collect()
}

/// The tooltip of a node.
fn whole_name(node: &Node) -> Option<String> {
    match node.shape {
        Shape::Start => None,
        Shape::Missing => Some(format!("there is no state {}", node.label)),
        _ => Some(
            [Some(node.label.clone()), node.origin()].into_iter().flatten().collect::<Vec<_>>().join(", "),
        ),
    }
}

fn node_size(node: &Node) -> Size {
    match node.shape {
        Shape::Start => Size { width: 14.0, height: 14.0 },
        Shape::Anywhere => Size { width: 24.0, height: 24.0 },
        Shape::End => Size { width: 38.0, height: 38.0 },
        _ => {
            let origin = node.origin().map_or(0.0, |origin| text_width(&cut(&origin), LABEL_CHARACTER));
            Size { width: text_width(&shown(node), CHARACTER).max(origin) + 28.0, height: NODE_HEIGHT }
        }
    }
}

/// The room that the loop of each node needs beside it, with its label.
fn loop_widths(diagram: &Diagram) -> Vec<f64> {
    let mut widths = vec![0.0; diagram.nodes.len()];
    for edge in diagram.edges.iter().filter(|edge| edge.from == edge.to) {
        if let Some(width) = widths.get_mut(edge.from) {
            *width += LOOP_WIDTH + label_size(edge).width;
        }
    }
    widths
}

fn label_size(edge: &Edge) -> Size {
    match edge.label.is_empty() {
        true => Size::default(),
        false => Size { width: text_width(&edge.label, LABEL_CHARACTER) + 6.0, height: LABEL_HEIGHT },
    }
}

/// Most characters from Hangul on are twice as wide.
fn text_width(text: &str, character: f64) -> f64 {
    text.chars().map(|letter| if u32::from(letter) >= 0x1100 { 2.0 * character } else { character }).sum()
}

/// Escapes text for XML and HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML does not allow most control characters, not even escaped.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() && !matches!(control, '\n' | '\t') => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
