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
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }
}
