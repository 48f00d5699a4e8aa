//! The content of a request.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::price::{Usage, nanos_for};

/// One request for an answer.
#[derive(Clone)]
pub struct Request {
    pub model: String,
    /// The newest text of the user, not of tools or of the program itself.
    pub prompt: String,
    /// The whole conversation: `user: …`, `agent: …`, `tool: NAME INPUT`, `got: …`. Text that the program itself adds
    /// is left out.
    pub history: Vec<String>,
    /// All text of the messages, with the text that the program adds.
    pub raw: String,
    /// The session id that the program reports.
    pub session: String,
    /// The names of the tools that the model may use.
    pub tools: Vec<String>,
    /// How hard the model is to think; empty if that is not said.
    pub effort: String,
    /// Equal if two requests had the same system prompt.
    pub system: u64,
    pub is_streamed: bool,
    /// The answer.
    pub answer: String,
    pub used: Usage,
    /// Whether the answer was sent completely.
    pub is_whole: bool,
}

impl Request {
    pub(crate) fn read(body: &Value) -> Self {
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let mut history = Vec::new();
        for message in &messages {
            match (message["role"].as_str(), &message["content"]) {
                (Some("system"), _) => {}
                (role, Value::String(text)) => speak(&mut history, role, text),
                (role, content) => {
                    for block in content.as_array().into_iter().flatten() {
                        add(&mut history, role, block);
                    }
                }
            }
        }
        let prompt = history.iter().rev().find_map(|said| said.strip_prefix("user: ")).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        body["system"].to_string().hash(&mut hasher);
        Self {
            model: text(&body["model"]),
            prompt: prompt.to_owned(),
            raw: Value::Array(messages).to_string(),
            session: session(&body["metadata"]["user_id"]),
            tools: tools(body),
            effort: effort(body),
            system: hasher.finish(),
            is_streamed: body["stream"].as_bool().unwrap_or(false),
            answer: String::new(),
            used: Usage::default(),
            is_whole: false,
            history,
        }
    }

    /// A request to another service, whose conversation was read already.
    pub(crate) fn new(model: &str, history: Vec<String>, body: &Value, is_streamed: bool) -> Self {
        let prompt = history.iter().rev().find_map(|said| said.strip_prefix("user: ")).unwrap_or_default();
        Self {
            model: model.to_owned(),
            prompt: prompt.to_owned(),
            raw: body.to_string(),
            session: String::new(),
            tools: tools(body),
            effort: effort(body),
            system: 0,
            is_streamed,
            answer: String::new(),
            used: Usage::default(),
            is_whole: false,
            history,
        }
    }

    /// The cost of the answer, in billionths of a dollar.
    pub fn nanos(&self) -> u64 {
        nanos_for(&self.model, self.used)
    }
}

/// The names of the offered tools, as each service has them.
fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| text(tool.pointer("/function/name").unwrap_or(&tool["name"]));
    tools.map(name).filter(|name| !name.is_empty()).collect()
}

fn effort(body: &Value) -> String {
    let places = ["/reasoning_effort", "/reasoning/effort", "/output_config/effort"];
    text(places.into_iter().find_map(|place| body.pointer(place)).unwrap_or(&Value::Null))
}

/// The parts that help when a test fails.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: Vec<String> = self.history.iter().map(|said| said.chars().take(300).collect()).collect();
        f.debug_struct("Request")
            .field("model", &self.model)
            .field("session", &self.session)
            .field("history", &short)
            .field("answer", &self.answer)
            .field("used", &self.used)
            .field("is_whole", &self.is_whole)
            .finish()
    }
}

fn add(history: &mut Vec<String>, role: Option<&str>, block: &Value) {
    match block["type"].as_str() {
        Some("text") => speak(history, role, block["text"].as_str().unwrap_or_default()),
        Some("tool_use") => history.push(format!("tool: {} {}", text(&block["name"]), block["input"])),
        Some("tool_result") => {
            let content = &block["content"];
            let got = content.as_str().map(str::to_owned).unwrap_or_else(|| {
                content.as_array().into_iter().flatten().map(|part| text(&part["text"])).collect()
            });
            // The program adds its own text to the output of the tool.
            let got = got.split("<system-reminder>").next().unwrap_or_default();
            history.push(format!("got: {}", got.trim()));
        }
        Some(other) => history.push(format!("{other}: {block}")),
        None => {}
    }
}

/// An entry of the history. Programs put texts of their own before what the user said, each in a tag.
pub(crate) fn said(who: &str, text: &str) -> Option<String> {
    let mut rest = text.trim();
    while let Some((name, after)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        let end = format!("</{name}>");
        match after.find(&end) {
            Some(at) if who == "user" => rest = after[at + end.len()..].trim_start(),
            _ => break,
        }
    }
    (!rest.is_empty()).then(|| format!("{who}: {rest}"))
}

fn speak(history: &mut Vec<String>, role: Option<&str>, text: &str) {
    // Text that the program adds.
    if text.trim_start().starts_with("<system-reminder>") {
        return;
    }
    let who = if role == Some("assistant") { "agent" } else { "user" };
    history.push(format!("{who}: {text}"));
}

/// The program puts its session id into a JSON text.
fn session(user_id: &Value) -> String {
    let parsed: Option<Value> = user_id.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.map(|user| text(&user["session_id"])).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
