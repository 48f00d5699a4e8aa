//! The files of the page. They are part of the program.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use axum::http::{Method, StatusCode};
use axum::response::Response;

use super::answer::{refuse, with_type};
use super::problem::Problem;
use crate::store::hash_of;

/// A file of the page.
pub struct Asset {
    pub name: &'static str,
    pub bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, bytes: include_bytes!(concat!("page/", $name)) }),*]
    };
}

/// All files. The scripts are in an order in which each comes behind those that it imports.
pub const ASSETS: &[Asset] = assets![
    "index.html",
    "style.css",
    "icon.svg",
    "text.js",
    "h.js",
    "format.js",
    "icons.js",
    "data.js",
    "embedded.js",
    "page.js",
    "rows.js",
    "wording.js",
    "actions.js",
    "home.js",
    "graph.js",
    "steps.js",
    "timeline.js",
    "run.js",
    "step.js",
    "stream.js",
    "workflows.js",
    "app.js",
];

/// Which version of each file this is, so that a browser need not fetch it again.
static TAGS: LazyLock<Vec<String>> =
    LazyLock::new(|| ASSETS.iter().map(|asset| format!("\"{}\"", &hash_of(asset.bytes)[..16])).collect());

/// Answers with a file of the page: `/` is the page itself, the others are below `/page/`.
pub async fn serve(request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refuse(&Problem::new(405, "the page can only be read"));
    }
    let path = request.uri().path();
    let name = path.strip_prefix("/page/").unwrap_or("index.html");
    let Some(place) = ASSETS.iter().position(|asset| asset.name == name) else {
        return refuse(&Problem::not_found("the page has no such file"));
    };
    let tag = &TAGS[place];
    let known = request.headers().get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = match known == Some(tag) {
        true => with_type(304, kind_of(name), Body::empty()),
        false => with_type(200, kind_of(name), Body::from(ASSETS[place].bytes)),
    };
    debug_assert!(response.status() == StatusCode::OK || response.status() == StatusCode::NOT_MODIFIED);
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    // A browser asks each time whether the file is still the same: a newer Raymond has other files.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_and_all_of_them_are_small() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/page");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut known: Vec<String> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        files.sort();
        known.sort();
        assert_eq!(files, known);
        let bytes: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(bytes <= 200_000, "{bytes}");
    }

    #[test]
    fn a_script_comes_behind_those_that_it_imports() {
        let mut seen = Vec::new();
        for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".js")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let from = line.rsplit_once("\"./").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
                assert!(seen.contains(&from), "{} imports {from}", asset.name);
            }
            seen.push(asset.name);
        }
    }
}
