//! Removes the parts of an artefact that differ between runs.

use std::path::Path;

use serde_json::{Map, Value};

/// Longer texts are replaced by their length, so that expected files stay readable.
const MOST_CHARS: usize = 400;

/// Lines of `status` that say what this host can do.
const DIFFERS_BETWEEN_HOSTS: [&str; 2] = ["  held by   ", "  \"containment\": "];

/// Redacts text for people, or JSON lines: the working folder, times and ids.
pub fn text(text: &str, work: &Path) -> String {
    let mut redacted = String::new();
    let is_same_everywhere = |line: &&str| !DIFFERS_BETWEEN_HOSTS.iter().any(|start| line.starts_with(start));
    for line in text.split_inclusive('\n').filter(is_same_everywhere) {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(mut event)) if event.contains_key("event") => {
                object(&mut event, work);
                redacted.push_str(&Value::Object(event).to_string());
            }
            _ => redacted.push_str(&time_at_end(&clip(&plain(line, work)))),
        }
        redacted.push_str(end);
    }
    redacted
}

/// A pretty-printed JSON document.
pub fn json(text: &str, work: &Path) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            self::value(&mut value, work);
            format!("{value:#}\n")
        }
        Err(_) => self::text(text, work),
    }
}

/// Sorts events so that their order does not depend on which agent was faster: by agent, and then by time. Fields that
/// depend on all agents are left out.
pub fn by_agent(events: &str) -> String {
    let mut lines: Vec<Map<String, Value>> =
        events.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for event in &mut lines {
        for counted in ["seq", "step", "share_usd", "turn"] {
            event.remove(counted);
        }
        if let Some(Value::Array(interrupted)) = event.get_mut("interrupted") {
            interrupted.iter_mut().filter_map(Value::as_object_mut).for_each(|step| {
                step.remove("step");
            });
        }
    }
    lines.sort_by_key(|event| {
        let is_end = event["event"] == "run_finished" || event["event"] == "run_stopped";
        let agent = event.get("agent").and_then(Value::as_str).unwrap_or_default();
        (is_end, agent.to_owned())
    });
    lines.into_iter().map(|event| Value::Object(event).to_string() + "\n").collect()
}

fn object(object: &mut Map<String, Value>, work: &Path) {
    object.remove("containment");
    for (key, value) in object.iter_mut() {
        let stand_in = match key.as_str() {
            "time" | "until" | "started_at" | "opened_at" => "TIME",
            "ended_at" | "deadline" if !value.is_null() => "TIME",
            "duration_ms" => "MS",
            "nonce" => "NONCE",
            "hash" | "scope_hash" | "prompt_sha256" => "HASH",
            // Cases do not test which options exist; other artefacts show their effects.
            "options" => "OPTIONS",
            _ => {
                self::value(value, work);
                continue;
            }
        };
        *value = Value::from(stand_in);
    }
}

fn value(value: &mut Value, work: &Path) {
    match value {
        Value::String(text) => *text = clip(&plain(text, work)),
        Value::Array(values) => values.iter_mut().for_each(|inner| self::value(inner, work)),
        Value::Object(fields) => object(fields, work),
        _ => {}
    }
}

fn plain(text: &str, work: &Path) -> String {
    let mut text = text.replace(work.to_str().unwrap(), "$WORK");
    for (shape, stand_in) in SHAPES {
        while let Some(start) = (0..text.len()).find(|start| has_shape(&text.as_bytes()[*start..], shape)) {
            text.replace_range(start..start + shape.len(), stand_in);
        }
    }
    text
}

/// The formats of times and session ids; `0` is any hexadecimal digit.
const SHAPES: [(&str, &str); 3] = [
    ("0000-00-00 00:00:00", "TIME"),
    ("0000-00-00T00:00:00Z", "TIME"),
    ("00000000-0000-0000-0000-000000000000", "SESSION"),
];

fn has_shape(text: &[u8], shape: &str) -> bool {
    let fits = |(shape, byte): (u8, &u8)| match shape {
        b'0' => byte.is_ascii_hexdigit(),
        other => *byte == other,
    };
    text.len() >= shape.len() && shape.bytes().zip(text).all(fits)
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        None => text.to_owned(),
        Some(_) => {
            let start: String = text.chars().take(20).collect();
            format!("{start}…({} bytes)", text.len())
        }
    }
}

/// Progress lines and summaries end with a duration.
fn time_at_end(line: &str) -> String {
    let (body, end) = line.strip_suffix(')').map_or((line, ""), |body| (body, ")"));
    // The line of a prompt has its cost after that.
    let (body, end) = match body.rsplit_once(" $") {
        Some((body, dollars)) if end.is_empty() && dollars.parse::<f64>().is_ok() => {
            (body, format!(" ${dollars}"))
        }
        _ => (body, end.to_owned()),
    };
    let Some((before, last)) = body.rsplit_once(' ') else {
        return line.to_owned();
    };
    let number = last.strip_suffix("ms").or_else(|| last.strip_suffix('s'));
    // The length of a wait is a setting, not a measurement.
    let is_measured = !before.ends_with(" in") && number.is_some_and(|number| number.parse::<f64>().is_ok());
    match is_measured {
        true => format!("{before} TOOK{end}"),
        false => line.to_owned(),
    }
}

#[cfg(test)]
#[test]
fn values_that_differ_between_runs_are_replaced() {
    let work = Path::new("/tmp/x/work");
    let event = r#"{"seq":3,"time":"2026-01-01T00:00:00Z","event":"warning","message":"/tmp/x/work/a: odd"}"#;
    let redacted = r#"{"event":"warning","message":"$WORK/a: odd","seq":3,"time":"TIME"}"#;
    assert_eq!(text(event, work), redacted);
    assert_eq!(text("[main] A.sh → goto B.sh 12ms\n", work), "[main] A.sh → goto B.sh TOOK\n");
    assert_eq!(text("[main] A.md → result 1.2s $0.01", work), "[main] A.md → result TOOK $0.01");
    assert_eq!(text("completed (1 step, $0.00, 1.2s)", work), "completed (1 step, $0.00, TOOK)");
    assert_eq!(text("attempt 2 in 20ms", work), "attempt 2 in 20ms");
    assert_eq!(text("on 2026-01-31 23:59:00 UTC", work), "on TIME UTC");
    assert_eq!(text("until 2026-01-31T23:59:00Z", work), "until TIME");
    assert_eq!(text("in 0a1b2c3d-0000-4000-8000-00000000000f.", work), "in SESSION.");
    assert_eq!(text("no output for 300ms (`timeout`)", work), "no output for 300ms (`timeout`)");
}
