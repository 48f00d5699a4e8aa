//! Events and agents as lines of text, without fields that do not matter to tests.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use expect_test::Expect;
use jiff::Timestamp;
use raymond_core::event::{Body, Event};
use raymond_core::run::{Agent, Status};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::rig::{Rig, beginning};

const UUID_LENGTH: usize = 36;

/// The fields that come first in a line, if an event has them.
const LEADING: [&str; 3] = ["agent", "step", "state"];

pub fn check(events: &[Event], expected: Expect) {
    let lines: String = events.iter().map(|event| line(&event.body) + "\n").collect();
    expected.assert_eq(&lines);
}

/// The agents of a run, in the order they were started.
pub fn check_agents(rig: &Rig, expected: Expect) {
    let lines: String = rig.run.agents_by_birth().into_iter().map(|agent| agent_line(agent) + "\n").collect();
    expected.assert_eq(&lines);
}

fn line(body: &Body) -> String {
    let Value::Object(mut fields) = serde_json::to_value(body).unwrap() else {
        panic!("an event is an object");
    };
    for redacted in ["duration_ms", "hash", "options", "cwd", "share_usd", "backend"] {
        fields.remove(redacted);
    }
    fields.retain(|name, value| name != "cost_usd" || value.as_f64() != Some(0.0));
    let mut words = vec![word(&fields.remove("event").unwrap())];
    for name in LEADING {
        words.extend(fields.remove(name).map(|value| word(&value)));
    }
    words.extend(rest(&fields));
    words.join(" ")
}

fn rest(fields: &Map<String, Value>) -> impl Iterator<Item = String> {
    fields.iter().map(|(name, value)| format!("{name}={}", word(value)))
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(time) => format!("+{}s", time.duration_since(beginning()).as_secs()),
            Err(_) if text.len() == UUID_LENGTH => session(text),
            Err(_) if text.contains(char::is_whitespace) || text.is_empty() => format!("{text:?}"),
            Err(_) => text.clone(),
        },
        Value::Object(fields) if fields.len() == 1 && fields.contains_key("id") => word(&fields["id"]),
        Value::Object(fields) => format!("{{{}}}", rest(fields).collect::<Vec<_>>().join(" ")),
        Value::Array(values) => format!("[{}]", values.iter().map(word).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn agent_line(agent: &Agent) -> String {
    let status = match &agent.status {
        Status::Ready { .. } => "ready".to_owned(),
        Status::Running { work, .. } => format!("running {}.{}", work.step, work.attempt),
        Status::Waiting { until, .. } => {
            format!("waiting +{}s", until.duration_since(beginning()).as_secs())
        }
        Status::Asking { ask } => format!("asking {}", ask.id),
        Status::Joining { .. } => "joining".to_owned(),
        Status::Ending { .. } => "ending".to_owned(),
        Status::Failed { .. } => "failed".to_owned(),
    };
    let mut line = format!("{} {status} in {}", agent.id, agent.state);
    if agent.cwd != "/dir" {
        line += &format!(" cwd={}", agent.cwd);
    }
    if let Some(session) = &agent.session {
        line += &format!(" session={}", self::session(&session.id));
    }
    if !agent.stack.is_empty() {
        let frames = agent.stack.iter().map(|frame| {
            let session = frame.session.as_ref().map(|session| format!("/{}", self::session(&session.id)));
            format!("{}{}", frame.return_to, session.unwrap_or_default())
        });
        line += &format!(" stack=[{}]", frames.collect::<Vec<_>>().join(", "));
    }
    if let Some(payload) = &agent.payload {
        line += &format!(" input={}", word(&serde_json::to_value(payload).unwrap()));
    }
    for (name, value) in &agent.attributes {
        line += &format!(" {name}={value}");
    }
    line
}

/// The session of a step's attempt as `sSTEP.ATTEMPT`.
fn session(id: &str) -> String {
    static NAMES: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let attempts = (1..=50).flat_map(|step| (1..=20).map(move |attempt| (step, attempt)));
        attempts
            .map(|(step, attempt)| {
                let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{step}/{attempt}").as_bytes());
                (id.to_string(), format!("s{step}.{attempt}"))
            })
            .collect()
    });
    names.get(id).cloned().unwrap_or_else(|| id.to_owned())
}
