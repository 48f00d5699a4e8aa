//! The diagram as a page that works without a network: pan, zoom, and click a state to read it.
//!
//! Names and texts of states are data here: the SVG escapes them, the texts are JSON in which `<` is escaped, and the
//! page's own code shows them only as text.

use std::collections::HashMap;

use serde_json::json;

use super::svg::{escaped, svg};
use super::{Diagram, Node, Shape};
use crate::graph::Graph;

const STYLE: &str = include_str!("html/page.css");
const CODE: &str = include_str!("html/page.js");

pub fn html(diagram: &Diagram, graph: &Graph, title: &str) -> String {
    let origin = |node: &Node| match node.shape {
        Shape::State(state, _) => Some((state, node.origin()?)),
        _ => None,
    };
    let origins: HashMap<usize, String> = diagram.nodes.iter().filter_map(origin).collect();
    let states = graph.states.iter().enumerate().map(|(number, state)| {
        json!({ "name": state.file.as_str(), "origin": origins.get(&number), "text": state.text })
    });
    let states: Vec<_> = states.collect();
    let title_text = escaped(title);
    let picture = svg(diagram, title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<title>{title_text}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>{title_text}</h1><p>drag to move, scroll to zoom, click a state to read it</p>\
         <button id=\"fit\" type=\"button\">fit</button></header>\n<main id=\"view\">\n{picture}</main>\n\
         <aside id=\"panel\" hidden><button id=\"close\" type=\"button\" aria-label=\"close\">×</button>\
         <h2 id=\"name\"></h2><pre id=\"text\"></pre></aside>\n\
         <script type=\"application/json\" id=\"states\">{}</script>\n<script>\n{CODE}</script>\n</body>\n</html>\n",
        inside_script(&json!(states).to_string())
    )
}

/// Escapes `<`, so that the JSON cannot close its element; in JSON a `<` is always part of a text.
fn inside_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
