//! The services that other agent programs ask: how their requests are read, and how they are answered.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Shared;
use crate::history::{Request, said};
use crate::http::{open_stream, send_chunk, send_json, wait_for_hangup};
use crate::price::Usage;
use crate::reply::{Block, Manner, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    Gemini,
}

impl Dialect {
    pub(crate) fn of(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            return Some(Dialect::Chat);
        }
        if path.ends_with("/responses") {
            return Some(Dialect::Responses);
        }
        path.contains("enerateContent").then_some(Dialect::Gemini)
    }

    /// Answers a request, and returns whether the connection can be used again.
    pub(crate) fn answer(
        self,
        writer: &mut TcpStream,
        shared: &Shared,
        path: &str,
        body: &Value,
    ) -> io::Result<bool> {
        let is_streamed = body["stream"].as_bool().unwrap_or(path.contains(":stream"));
        let model = match self {
            Dialect::Gemini => {
                path.rsplit('/').next().unwrap_or_default().split(':').next().unwrap_or_default()
            }
            Dialect::Chat | Dialect::Responses => body["model"].as_str().unwrap_or_default(),
        };
        // Without tools the program asks for something of its own, such as a title.
        if body["tools"].as_array().is_none_or(Vec::is_empty) {
            let usage = Usage::default();
            let side = Answer { dialect: self, text: "side", tool: None, model, usage, is_cut: false };
            return side.send(writer, is_streamed);
        }
        let (number, reply) = shared.take(Request::new(model, self.history(body), body, is_streamed));
        match &reply.manner {
            Manner::Refused { status, kind, message } => {
                let mut error = json!({ "message": message, "type": kind, "code": refusal_code(self, *status), "param": null });
                if let Some(time) = reply.resets_at.filter(|_| self == Dialect::Responses) {
                    error["type"] = "usage_limit_reached".into();
                    error["resets_at"] = time.into();
                }
                send_json(writer, *status, &reply.headers, &json!({ "error": error }))?;
                Ok(true)
            }
            Manner::Silent | Manner::Stuck => {
                wait_for_hangup(writer, shared)?;
                Ok(false)
            }
            Manner::Dropped => {
                open_stream(writer, &reply.headers)?;
                thread::sleep(Duration::from_millis(200));
                writer.shutdown(Shutdown::Both)?;
                Ok(false)
            }
            Manner::Whole | Manner::Slow(_) | Manner::Broken { .. } => {
                let usage = reply.usage.unwrap_or_default();
                shared.used(number, usage, true);
                let (text, tool) = parts(&reply);
                Answer { dialect: self, text, tool, model, usage, is_cut: reply.is_cut }
                    .send(writer, is_streamed)
            }
        }
    }

    /// The conversation in a request, in the words of [`Request::history`].
    fn history(self, body: &Value) -> Vec<String> {
        let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
        let items = match self {
            Dialect::Chat => list("messages"),
            Dialect::Responses => list("input"),
            Dialect::Gemini => list("contents"),
        };
        let mut history = Vec::new();
        for item in items {
            let role = item["role"].as_str().unwrap_or_default();
            let content = if self == Dialect::Gemini { &item["parts"] } else { &item["content"] };
            match role {
                "user" => history.extend(texts(content).filter_map(|text| said("user", &text))),
                "assistant" | "model" => {
                    history.extend(texts(content).filter_map(|text| said("agent", &text)))
                }
                _ => {}
            }
        }
        history
    }
}

/// The texts of a message, which may be one text or a list of parts.
fn texts(content: &Value) -> impl Iterator<Item = String> {
    let whole = content.as_str().map(str::to_owned);
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    let parts: Vec<String> = parts.map(str::to_owned).collect();
    whole.into_iter().chain(parts).filter(|text| !text.trim().is_empty())
}

fn refusal_code(dialect: Dialect, status: u16) -> Value {
    match (dialect, status) {
        (Dialect::Gemini, status) => status.into(),
        (_, 401) => "invalid_api_key".into(),
        (_, 404) => "model_not_found".into(),
        (_, 429) => "rate_limit_exceeded".into(),
        _ => Value::Null,
    }
}

fn parts(reply: &Reply) -> (&str, Option<(&str, &Value)>) {
    let mut text = "";
    let mut tool = None;
    for block in &reply.blocks {
        match block {
            Block::Text(said) => text = said,
            Block::Tool { name, input } => tool = Some((name.as_str(), input)),
        }
    }
    (text, tool)
}

struct Answer<'a> {
    dialect: Dialect,
    text: &'a str,
    tool: Option<(&'a str, &'a Value)>,
    model: &'a str,
    usage: Usage,
    is_cut: bool,
}

impl Answer<'_> {
    fn send(&self, writer: &mut TcpStream, is_streamed: bool) -> io::Result<bool> {
        let (events, whole) = match self.dialect {
            Dialect::Chat => self.chat(),
            Dialect::Responses => self.responses(),
            Dialect::Gemini => self.gemini(),
        };
        if !is_streamed {
            send_json(writer, 200, &[], &whole)?;
            return Ok(true);
        }
        open_stream(writer, &[])?;
        for event in &events {
            let name = event["type"].as_str().filter(|_| self.dialect == Dialect::Responses);
            let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
            send_chunk(writer, &format!("{name}data: {event}\n\n"))?;
        }
        if self.dialect == Dialect::Chat {
            send_chunk(writer, "data: [DONE]\n\n")?;
        }
        send_chunk(writer, "")?;
        Ok(true)
    }

    /// All tokens that were read, with those from the cache.
    fn read(&self) -> u64 {
        self.usage.input + self.usage.cache_read
    }

    fn chat(&self) -> (Vec<Value>, Value) {
        let usage = json!({
            "prompt_tokens": self.read(), "completion_tokens": self.usage.output,
            "total_tokens": self.read() + self.usage.output,
            "prompt_tokens_details": { "cached_tokens": self.usage.cache_read },
        });
        let chunk = |choices: Value| json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": self.model, "choices": choices });
        let delta = |delta: Value, finish: Value| {
            chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]))
        };
        let calls = self.tool.map(|(name, input)| {
            json!([{ "index": 0, "id": "call_1", "type": "function", "function": { "name": name, "arguments": input.to_string() } }])
        });
        let finish = match calls {
            Some(_) => "tool_calls",
            None if self.is_cut => "length",
            None => "stop",
        };
        let mut message = json!({ "role": "assistant", "content": self.text });
        let mut events = vec![delta(message.clone(), Value::Null)];
        if let Some(calls) = calls {
            message["tool_calls"] = calls.clone();
            events.push(delta(json!({ "tool_calls": calls }), Value::Null));
        }
        events.push(delta(json!({}), finish.into()));
        let mut last = chunk(json!([]));
        last["usage"] = usage.clone();
        events.push(last);
        let choice = json!([{ "index": 0, "message": message, "finish_reason": finish }]);
        let whole = json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": self.model, "choices": choice, "usage": usage });
        (events, whole)
    }

    fn responses(&self) -> (Vec<Value>, Value) {
        let item = match self.tool {
            Some((name, input)) => json!({
                "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
                "arguments": input.to_string(), "status": "completed",
            }),
            None => json!({
                "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{ "type": "output_text", "text": self.text, "annotations": [] }],
            }),
        };
        let usage = json!({
            "input_tokens": self.read(), "input_tokens_details": { "cached_tokens": self.usage.cache_read },
            "output_tokens": self.usage.output, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": self.read() + self.usage.output,
        });
        let begun = json!({ "id": "resp_1", "object": "response", "created_at": 0, "model": self.model, "status": "in_progress", "output": [], "error": null });
        let mut whole = begun.clone();
        let end = if self.is_cut { "incomplete" } else { "completed" };
        whole["status"] = end.into();
        if self.is_cut {
            whole["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        whole["output"] = json!([item]);
        whole["usage"] = usage;
        let events = vec![
            json!({ "type": "response.created", "response": begun }),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
            json!({ "type": format!("response.{end}"), "response": whole }),
        ];
        (events, whole)
    }

    fn gemini(&self) -> (Vec<Value>, Value) {
        let part = match self.tool {
            Some((name, input)) => json!({ "functionCall": { "name": name, "args": input } }),
            None => json!({ "text": self.text }),
        };
        let finish = if self.is_cut { "MAX_TOKENS" } else { "STOP" };
        let whole = json!({
            "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": finish, "index": 0 }],
            "usageMetadata": {
                "promptTokenCount": self.read(), "candidatesTokenCount": self.usage.output,
                "cachedContentTokenCount": self.usage.cache_read, "totalTokenCount": self.read() + self.usage.output,
            },
            "modelVersion": self.model,
        });
        (vec![whole.clone()], whole)
    }
}
