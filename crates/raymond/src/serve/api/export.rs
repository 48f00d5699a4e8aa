//! A run as one HTML file: the page's own scripts, and the answers that they would get from the server.
//!
//! The file opens from disk without a network. Its policy allows the one script and the one style sheet in it, by their
//! hashes, and nothing else. What it shows comes from the journal and the debug files; the environment of steps is left
//! out. Secrets are masked: those of the environment, and inputs and attributes of workers whose names look secret. They are
//! masked before a text is cut, so that no part of one stays.
//!
//! Bounds: [`MAX_TEXT_BYTES`] of prompts, replies and outputs, [`MAX_STEPS`] steps and [`MAX_EVENTS`] events, the latest;
//! [`MAX_MOMENTS`] moments for the slider, and [`MAX_MOMENT_BYTES`] of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use raymond_core::event::Body;
use raymond_core::run::{Run, RunStatus};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::overview::{self, Overview, RunGraph};
use super::runs::{self, RunObject};
use super::steps;
use crate::process::secrets::{HIDDEN, Secrets, Whose, is_secret};
use crate::serve::Server;
use crate::serve::assets::ASSETS;
use crate::serve::index::{holds, take};
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::store::{RunHandle, Start};
use crate::view::debug::{KeptAttempt, kept_steps};
use crate::view::json::event_line;

const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;
const MAX_STEPS: usize = 20_000;
/// Of so many steps also what the journal holds is shown; of earlier ones only if their files are kept.
const MAX_DETAILED: usize = 2_000;
const MAX_EVENTS: usize = 20_000;
const MAX_MOMENTS: u64 = 400;
const MAX_MOMENT_BYTES: usize = 16 * 1024 * 1024;
/// Longer texts in events are cut: the steps have them whole.
const MAX_EVENT_TEXT: usize = 600;
const BUCKETS: usize = 400;

/// The texts of a step, which make up most of a file.
const TEXTS: [&str; 6] = ["prompt", "reply", "stdout", "stderr", "input", "result"];

/// What the page's scripts read.
#[derive(Serialize)]
struct Exported {
    version: &'static str,
    exported_at: Timestamp,
    run: RunObject,
    overview: Overview,
    graph: RunGraph,
    steps: BTreeMap<u64, Value>,
    events: Vec<Value>,
    states_at: Vec<Moment>,
}

/// The run as it was after an event.
#[derive(Serialize)]
struct Moment {
    seq: u64,
    run: Value,
    overview: Value,
}

pub fn export(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let body = page(server, &run)?.into_bytes();
    Ok(Answer::Text { kind: "text/html; charset=utf-8", body, file_name: Some(format!("{}.html", run.id())) })
}

/// The whole file.
pub fn page(server: &Server, run: &Arc<dyn RunHandle>) -> Result<String, Problem> {
    // A script may have printed what was in its environment.
    let mut secrets = Secrets::of(std::env::vars_os());
    let (events, states_at) = history(server, run, &mut secrets)?;
    let mut steps = steps_of(server, run)?;
    steps.values_mut().for_each(|step| secrets.hide_in(step, Whose::Own));
    cut_texts(&mut steps, MAX_TEXT_BYTES);
    let data = Exported {
        version: env!("CARGO_PKG_VERSION"),
        exported_at: crate::clock::now(),
        run: runs::of(server, run)?,
        overview: overview::of(server, run, None, BUCKETS)?,
        graph: overview::graph_of(server, run, None)?,
        steps,
        events,
        states_at,
    };
    let mut data = serde_json::to_value(&data).map_err(Problem::internal)?;
    hide_named(&mut data);
    secrets.hide_in(&mut data, Whose::Own);
    Ok(document(&secrets.hide(run.id().to_owned()), &data.to_string()))
}

fn steps_of(server: &Server, run: &Arc<dyn RunHandle>) -> Result<BTreeMap<u64, Value>, Problem> {
    let is_live = holds(&**run);
    let all = server.stories.with(run, |story| {
        let latest = story.steps.len().saturating_sub(MAX_STEPS);
        let shown = |step| (steps::object(story, &step, u64::MAX, is_live), story.word(step.run).to_owned());
        story.steps.rows(latest).map(|step| step.map(shown)).collect::<std::io::Result<Vec<_>>>()
    })?;
    let mut kept = kept_steps(&server.debug_folder(run.id()));
    // The files of the steps that the run has in common with others.
    let mut shared: BTreeMap<String, BTreeMap<u64, Vec<KeptAttempt>>> = BTreeMap::new();
    let detailed = all.len().saturating_sub(MAX_DETAILED);
    let mut shown = BTreeMap::new();
    for (place, (step, ran_in)) in all.into_iter().enumerate() {
        let number = step.step;
        let mut files = kept.remove(&number).unwrap_or_default();
        if files.is_empty() && ran_in != run.id() {
            let of_run = shared.entry(ran_in).or_insert_with_key(|run| kept_steps(&server.debug_folder(run)));
            files = of_run.remove(&number).unwrap_or_default();
        }
        let is_light = place < detailed && files.is_empty();
        let mut value = match is_light {
            true => serde_json::to_value(&step),
            false => serde_json::to_value(steps::detail_of(run, step, &files)),
        }
        .map_err(Problem::internal)?;
        if is_light {
            value["kept"] = false.into();
        }
        if let Some(meta) = value.get_mut("meta").and_then(Value::as_object_mut) {
            meta.remove("environment");
        }
        shown.insert(number, value);
    }
    Ok(shown)
}

/// Cuts the longest texts until all of them together are short enough.
fn cut_texts(steps: &mut BTreeMap<u64, Value>, most: usize) {
    let texts = || TEXTS.into_iter();
    let length = |step: &Value, name: &str| step.get(name).and_then(Value::as_str).map_or(0, str::len);
    let lengths = steps.values().flat_map(|step| texts().map(|name| length(step, name)).collect::<Vec<_>>());
    let Some(longest) = longest_allowed(lengths.collect(), most) else { return };
    for step in steps.values_mut() {
        for name in texts().filter(|name| length(step, name) > longest).collect::<Vec<_>>() {
            let text = step[name].as_str().unwrap_or_default();
            let mut end = longest;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let cut = format!("{}\n[cut: {} of {} bytes are in this file]", &text[..end], end, text.len());
            step[name] = cut.into();
        }
    }
}

/// How long a text may be so that all of them together stay below a limit; nothing if they do anyway.
fn longest_allowed(mut lengths: Vec<usize>, most: usize) -> Option<usize> {
    if lengths.iter().sum::<usize>() <= most {
        return None;
    }
    lengths.sort_unstable();
    let mut left = most;
    for (place, length) in lengths.iter().enumerate() {
        let share = left / (lengths.len() - place);
        if *length > share {
            return Some(share);
        }
        left -= length;
    }
    None
}

/// What an event gives a name to: inputs of the run or of another workflow, and attributes of a worker.
fn named_values(event: &Body) -> impl Iterator<Item = (&String, &String)> {
    let (own, workflow) = match event {
        Body::RunStarted(started) => (Some(&started.inputs), None),
        Body::AgentStarted(worker) => {
            (worker.forked.as_ref().map(|forked| &forked.attributes), worker.workflow.as_ref())
        }
        Body::StepFinished(step) => (None, step.led_to.parts().workflow),
        _ => (None, None),
    };
    let of_workflow = workflow.and_then(|workflow| workflow.inputs.as_ref()).map(|inputs| &inputs.values);
    [own, of_workflow].into_iter().flatten().flatten()
}

/// Masks such values where they stand with their names, also those that are too short to be looked for elsewhere.
fn hide_named(data: &mut Value) {
    match data {
        Value::Array(items) => items.iter_mut().for_each(hide_named),
        Value::Object(fields) => {
            for name in ["attributes", "inputs"] {
                let given = fields.get_mut(name).and_then(Value::as_object_mut);
                given
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| is_secret(name))
                    .for_each(|(_, value)| *value = HIDDEN.into());
            }
            fields.values_mut().for_each(hide_named);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The latest events, and the run at some of them: one pass through the journal. The secrets that events name are added to
/// those that are known.
fn history(
    server: &Server,
    handle: &Arc<dyn RunHandle>,
    secrets: &mut Secrets,
) -> Result<(Vec<Value>, Vec<Moment>), Problem> {
    let last = server.index.with_run(handle, |run| run.seq)?;
    let (payloads, mut reader) = (handle.payloads(), handle.events(Start::After(0))?);
    let (mut events, mut moments) = (Vec::new(), Moments::new(last));
    let mut state: Option<Run> = None;
    while let Some(batch) = reader.next_batch()? {
        for event in batch {
            if named_values(&event.body).any(|(name, _)| is_secret(name)) {
                *secrets = secrets.joined(&Secrets::of(named_values(&event.body)));
            }
            let is_late = event.seq + MAX_EVENTS as u64 > last;
            if is_late && !matches!(event.body, Body::Snapshot { .. }) {
                let line = event_line(&event, &payloads).unwrap_or_default();
                let mut value = serde_json::from_str(&line).map_err(Problem::internal)?;
                secrets.hide_in(&mut value, Whose::Own);
                shorten(&mut value);
                events.push(value);
            }
            take(&mut state, event);
        }
        if let Some(run) = &state {
            moments.offer(server, handle, run)?;
        }
    }
    Ok((events, moments.taken))
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MAX_EVENT_TEXT) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(values) => values.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Moments that lie evenly over the run.
struct Moments {
    taken: Vec<Moment>,
    bytes: usize,
    /// The number of the event from which on the next one is taken.
    next: u64,
    distance: u64,
}

impl Moments {
    fn new(last: u64) -> Self {
        Self { taken: Vec::new(), bytes: 0, next: 1, distance: last.div_ceil(MAX_MOMENTS).max(1) }
    }

    fn offer(&mut self, server: &Server, handle: &Arc<dyn RunHandle>, run: &Run) -> Result<(), Problem> {
        if run.seq < self.next {
            return Ok(());
        }
        let object = runs::object(server, run, &**handle, run.status == RunStatus::Running, None);
        let object = serde_json::to_value(object).map_err(Problem::internal)?;
        let mut glance =
            serde_json::to_value(overview::of_state(server, handle, run, 1)?).map_err(Problem::internal)?;
        // The page takes these from the whole run.
        for name in ["prints", "money"] {
            glance[name] = Value::Array(Vec::new());
        }
        for agent in glance["agents"].as_array_mut().into_iter().flatten() {
            agent["spans"] = Value::Array(Vec::new());
        }
        self.bytes += object.to_string().len() + glance.to_string().len();
        self.taken.push(Moment { seq: run.seq, run: object, overview: glance });
        if self.bytes > MAX_MOMENT_BYTES {
            self.drop_every_second();
        }
        self.next = run.seq + self.distance;
        Ok(())
    }

    fn drop_every_second(&mut self) {
        let mut place = 0;
        self.taken.retain(|_| {
            place += 1;
            place % 2 == 1
        });
        self.bytes /= 2;
        self.distance *= 2;
    }
}

fn document(title: &str, data: &str) -> String {
    let style = asset("style.css");
    let script = script();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'",
        hash(&script),
        hash(style)
    );
    // Within a script, `<` could end it.
    let data = data.replace('<', "\\u003c");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <script type=\"application/json\" id=\"run-data\">{data}</script>\n\
         <script type=\"module\">{script}</script>\n</body>\n</html>\n"
    )
}

fn asset(name: &str) -> &'static str {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    found.and_then(|asset| std::str::from_utf8(asset.bytes).ok()).unwrap_or_default()
}

/// All scripts of the page as one. Each stands behind those that it imports, and no two names on their top levels are
/// the same, so that without imports and exports they mean the same.
fn script() -> String {
    let modules = ASSETS.iter().filter(|asset| asset.name.ends_with(".js"));
    let lines = modules.flat_map(|module| asset(module.name).lines());
    let lines = lines.filter(|line| !line.starts_with("import "));
    lines.map(|line| line.strip_prefix("export ").unwrap_or(line)).fold(String::new(), |mut all, line| {
        all.push_str(line);
        all.push('\n');
        all
    })
}

/// As a policy names what it allows.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_texts_are_cut_and_the_others_stay() {
        assert_eq!(longest_allowed(vec![10, 20, 30], 60), None);
        assert_eq!(longest_allowed(vec![10, 100, 1000], 210), Some(100));
        assert_eq!(longest_allowed(vec![50, 50, 50], 30), Some(10));
    }

    #[test]
    fn a_cut_text_says_so() {
        let step = serde_json::json!({ "prompt": "äöü".repeat(10), "reply": "short" });
        let mut steps = BTreeMap::from([(1, step)]);
        cut_texts(&mut steps, 20);
        let prompt = steps[&1]["prompt"].as_str().unwrap_or_default();
        assert!(prompt.starts_with("äöü"), "{prompt}");
        assert!(prompt.ends_with("of 60 bytes are in this file]"), "{prompt}");
        assert_eq!(steps[&1]["reply"], "short");
    }

    #[test]
    fn nothing_in_the_file_can_end_a_script_or_a_style_early() {
        assert!(!script().contains("</script"), "a script would end there");
        assert!(!script().contains("<!--"), "a script would be read otherwise behind it");
        assert!(!asset("style.css").contains("</style"), "a style would end there");
        let page = document("r", "{\"x\":\"</script><!--\"}");
        assert_eq!(page.matches("</script>").count(), 2);
    }

    /// Two modules with the same name on their top level would be a mistake in the one script only.
    #[test]
    fn no_name_is_defined_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for line in script().lines() {
            let words: Vec<&str> = line.split([' ', '(']).collect();
            let name = match words.as_slice() {
                ["async", "function", name, ..] | ["function" | "const" | "let" | "class", name, ..] => *name,
                _ => continue,
            };
            assert!(seen.insert(name.to_owned()), "{name} is there twice");
        }
        assert!(seen.len() > 50, "the scripts are there");
    }
}
