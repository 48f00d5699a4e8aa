//! The diagram as a page that works without a network: pan, zoom, and click a state to read it.
//!
//! Names and texts of states are data here: the SVG escapes them, the texts are JSON in which `<` is escaped, and the
//! page's own code shows them only as text.

use serde_json::json;

use super::Diagram;
use super::svg::{escaped, svg};
use crate::graph::Graph;

const STYLE: &str = include_str!("html/page.css");
const CODE: &str = include_str!("html/page.js");

pub fn html(diagram: &Diagram, graph: &Graph, title: &str) -> String {
    let states: Vec<_> =
        graph.states.iter().map(|state| json!({ "name": state.file.as_str(), "text": state.text })).collect();
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
