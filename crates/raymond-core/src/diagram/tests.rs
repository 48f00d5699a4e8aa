use proptest::prelude::*;

use super::{Diagram, Shape, dot::dot, html::html, mermaid::mermaid, svg::svg};
use crate::graph::{Graph, SourceFile};
use crate::workflow::{Platform, StateFile};

fn graph(files: &[(&str, &str)]) -> Graph {
    let file = |(name, text): &(&str, &str)| SourceFile {
        state: StateFile::new(name).unwrap(),
        text: (*text).to_owned(),
    };
    Graph::read(files.iter().map(file).collect(), None, Platform::Unix)
}

fn edges(diagram: &Diagram) -> Vec<String> {
    let name = |node: usize| match diagram.nodes[node].shape {
        Shape::Start => "(start)".to_owned(),
        _ => diagram.nodes[node].label.clone(),
    };
    diagram
        .edges
        .iter()
        .map(|edge| format!("{} {} {}: {}", name(edge.from), edge.style, name(edge.to), edge.label))
        .collect()
}

#[test]
fn returns_are_drawn_from_the_states_that_give_results() {
    let graph = graph(&[
        ("START.md", "<call return=\"AFTER\">LOOK</call>"),
        ("LOOK.md", "<goto>DEEP</goto> <goto>LOOK</goto>"),
        ("DEEP.md", "<result>x</result>"),
        ("AFTER.md", "<fork next=\"GONE\">WORK</fork> <call-workflow return=\"AFTER\">../o</call-workflow>"),
        ("WORK.sh", "echo '<result>x</result>'"),
        ("README.md", "# About"),
    ]);
    assert_eq!(
        edges(&Diagram::of(&graph)),
        [
            "(start) plain START.md: ",
            "AFTER.md fork WORK.sh: fork",
            "AFTER.md plain GONE: next",
            "AFTER.md call ../o: call-workflow",
            "DEEP.md return AFTER.md: result",
            "LOOK.md plain DEEP.md: goto",
            "LOOK.md plain LOOK.md: goto",
            "START.md call LOOK.md: call",
            "WORK.sh plain end: result",
            "../o return AFTER.md: result",
        ]
    );
}

#[test]
fn states_of_extended_workflows_are_marked_and_left_out_if_no_run_reaches_them() {
    let graph = graph(&[
        ("A_UNUSED.sh", "echo '<goto>SHARED</goto>'"),
        ("START.sh", "echo '<goto>SHARED</goto>'"),
        ("SHARED.md", "<result>x</result>"),
    ]);
    let mut diagram = Diagram::of(&graph);
    diagram.mark_bases(|state| (graph.states[state].file.name() != "START").then(|| "a & b".to_owned()));
    assert_eq!(
        edges(&diagram),
        ["(start) plain START.sh: ", "SHARED.md plain end: result", "START.sh plain SHARED.md: goto"]
    );
    let picture = svg(&diagram, "t");
    check_xml(&picture);
    assert!(picture.contains(">from a &amp; b</text>"), "{picture}");
    assert!(picture.contains("<title>SHARED.md, from a &amp; b</title>"), "{picture}");
    assert!(html(&diagram, &graph, "t").contains(r#""origin":"from a \u0026 b""#));
}

/// A small XML reader that finds unclosed tags and unescaped text.
fn check_xml(text: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let content = &rest[..at];
        assert!(
            !content.contains('>') || open.last().is_some_and(|name| name == "style"),
            "stray > in {content}"
        );
        for after in content.split('&').skip(1) {
            assert!(
                ["lt;", "gt;", "amp;", "quot;", "#39;"].iter().any(|known| after.starts_with(known)),
                "{after}"
            );
        }
        let end = rest[at..].find('>').expect("an end of the tag") + at;
        let tag = &rest[at + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or_default().to_owned());
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} stays open");
}

#[test]
fn texts_are_escaped_in_every_format() {
    let evil = "</script><script>alert(1)</script>]]>&\"'";
    let graph = graph(&[
        (
            "START.md",
            &format!("{evil} <goto>A\"<b>&</goto> <call-workflow return='A'>../\"<i>&</call-workflow>"),
        ),
        ("A\"b<c>&'.md", evil),
        ("A.md", "<result>x</result>"),
    ]);
    let diagram = Diagram::of(&graph);
    let title = "<b>\"&";
    check_xml(&svg(&diagram, title));
    let page = html(&diagram, &graph, title);
    assert!(!page.contains("alert(1)</script>") && !page.contains("<b>"), "{page}");
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(
        page.matches("http").count(),
        page.matches("http://www.w3.org/2000/svg").count() + page.matches("http-equiv").count()
    );
    assert!(!mermaid(&diagram).contains("<i>") && !dot(&diagram).contains("\"<i>"));
}

#[test]
fn the_results_of_workers_lead_to_the_state_that_joins_them() {
    let graph = graph(&[
        ("START.sh", "echo '<fork next=\"WAIT\">WORK</fork>'; echo '<fork next=\"WAIT\">ALONE</fork>'"),
        ("WORK.md", "<goto>MORE</goto>"),
        ("MORE.md", "<result>x</result>"),
        ("ALONE.sh", "echo '<fork-workflow next=\"OUT\">../o</fork-workflow>'"),
        ("OUT.sh", "echo '<result>x</result>'"),
        ("WAIT.sh", "echo '<join>SUMMARY</join>'"),
        ("SUMMARY.md", "<result>x</result>"),
    ]);
    let results: Vec<String> =
        edges(&Diagram::of(&graph)).into_iter().filter(|edge| edge.contains("result")).collect();
    assert_eq!(
        results,
        [
            "MORE.md return SUMMARY.md: result",
            "OUT.sh return SUMMARY.md: result",
            "SUMMARY.md plain end: result",
        ]
    );
}

/// The numbers in a text, in order.
fn numbers(text: &str) -> Vec<f64> {
    let is_part = |character: char| character.is_ascii_digit() || "-.".contains(character);
    text.split(|character| !is_part(character)).filter_map(|number| number.parse().ok()).collect()
}

/// The value of an attribute of an SVG element.
fn attribute<'t>(element: &'t str, name: &str) -> Option<&'t str> {
    element.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value)
}

/// Points along a path of cubic curves.
fn sampled(path: &str) -> Vec<(f64, f64)> {
    let numbers = numbers(path);
    let points: Vec<(f64, f64)> = numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let mut sampled = Vec::new();
    for start in (0..points.len() - 1).step_by(3) {
        let [p, q, r, s] = [points[start], points[start + 1], points[start + 2], points[start + 3]];
        for step in 0..=20 {
            let t = f64::from(step) / 20.0;
            let u = 1.0 - t;
            let mix = |a: f64, b: f64, c: f64, d: f64| {
                u * u * u * a + 3.0 * u * u * t * b + 3.0 * u * t * t * c + t * t * t * d
            };
            sampled.push((mix(p.0, q.0, r.0, s.0), mix(p.1, q.1, r.1, s.1)));
        }
    }
    sampled
}

/// Fails if an edge goes through a node, or leaves or enters one of its own elsewhere than at its border.
fn check_no_edge_goes_through_a_node(diagram: &Diagram, picture: &str) {
    let boxes: Vec<[f64; 4]> = picture
        .lines()
        .filter(|line| line.starts_with("<g class=\"node"))
        .map(|line| {
            let value = |name| attribute(line, name).and_then(|value| value.parse::<f64>().ok());
            match (value("cx"), value("cy"), value("r")) {
                (Some(x), Some(y), Some(r)) => [x - r, y - r, x + r, y + r],
                _ => {
                    let [x, y, width, height] =
                        ["x", "y", "width", "height"].map(|name| value(name).unwrap());
                    [x, y, x + width, y + height]
                }
            }
        })
        .collect();
    assert_eq!(boxes.len(), diagram.nodes.len());
    let paths =
        picture.lines().filter_map(|line| line.strip_prefix("<path class=\"edge")).collect::<Vec<_>>();
    assert_eq!(paths.len(), diagram.edges.len());
    for (edge, path) in diagram.edges.iter().zip(paths) {
        for (x, y) in sampled(attribute(path, "d").unwrap()) {
            for (node, [left, top, right, bottom]) in boxes.iter().enumerate() {
                let is_inside = x > left + 0.2 && x < right - 0.2 && y > top + 0.2 && y < bottom - 0.2;
                assert!(!is_inside, "{edge:?} goes through {:?} at {x} {y}\n{picture}", diagram.nodes[node]);
            }
        }
    }
}

#[test]
fn a_long_loop_back_goes_around_the_states() {
    let names: Vec<String> = (0..50).map(|number| format!("S{number}.md")).collect();
    let texts: Vec<String> = (0..50).map(|number| format!("<goto>S{}</goto>", (number + 1) % 50)).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    files.push(("START.md", "<goto>S0</goto>"));
    let diagram = Diagram::of(&graph(&files));
    check_no_edge_goes_through_a_node(&diagram, &svg(&diagram, "loop"));
}

proptest! {
    #[test]
    fn every_workflow_can_be_drawn(links in prop::collection::vec((0..9_usize, 0..11_usize, 0..4_u8), 0..30)) {
        let mut texts = vec![String::new(); 9];
        for (from, to, tag) in links {
            let state = format!("S{to}");
            texts[from].push_str(&match tag {
                0 => format!("<goto>{state}</goto>"),
                1 => format!("<call return=\"S0\">{state}</call>"),
                2 => format!("<fork next=\"S1\">{state}</fork>"),
                _ => "<result>x</result>".to_owned(),
            });
        }
        let names: Vec<String> = (0..9).map(|number| format!("S{number}.md")).collect();
        let mut files: Vec<(&str, &str)> =
            names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
        files.push(("START.md", "<goto>S0</goto>"));
        let diagram = Diagram::of(&graph(&files));
        let picture = svg(&diagram, "any");
        check_xml(&picture);
        check_no_edge_goes_through_a_node(&diagram, &picture);
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }
}
