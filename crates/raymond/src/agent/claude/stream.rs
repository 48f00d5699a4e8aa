//! The decoder of Claude Code's event stream.
//!
//! Every release adds event types and fields, so unknown ones are ignored. The result of a turn is decided only at its
//! end, by the last `result` event and the way the program ended. Until then the decoder only collects data, in bounded
//! memory.

use super::super::ending::after_skipping;
use super::super::lines::{Line, Lines, shortened};
use super::super::{
    Context, Cost, Tokens, Turn, TurnDecoder, TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use super::classify::{self, ResultEvent, Signs};
use super::cost::{Meter, tokens};
use serde_json::Value;

/// A message longer than this is not used as a final message.
const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// How many refused tools are remembered.
const MOST_DENIALS: usize = 100;

/// How much of a tool's input is shown.
const LONGEST_SUMMARY: usize = 200;

/// What is said of a tool server that offers no tools, though it should.
const NOT_STARTED: [&str; 2] = ["failed", "needs-auth"];

/// Times above this are in milliseconds: in seconds they would be after the year 5138.
const MILLISECONDS_FROM: f64 = 1e11;

#[derive(Debug)]
pub(super) struct Decoder {
    lines: Lines,
    meter: Meter,
    signs: Signs,
    /// The last `result` event.
    result: Option<ResultEvent>,
    is_final: bool,
    message: FinalMessage,
    /// The message that is arriving in deltas.
    streaming_message: String,
    permission_denials: Vec<String>,
    unreadable_lines: u64,
    /// How many tokens the conversation has after the agent's last message, and the model's window once that is told.
    used: u64,
    window: Option<u64>,
    compacted: bool,
}

/// The text of the agent's most recent message, for a `result` without it.
#[derive(Debug, Default)]
struct FinalMessage {
    id: String,
    text: String,
}

impl TurnDecoder for Decoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<TurnEvent> {
        let mut seen = Vec::new();
        for line in self.lines.feed(bytes) {
            self.line(line, &mut seen);
        }
        seen
    }

    fn close(&mut self) -> Vec<TurnEvent> {
        let mut seen = Vec::new();
        if let Some(line) = self.lines.end_line() {
            self.line(line, &mut seen);
        }
        seen
    }

    fn cost_so_far(&self) -> f64 {
        self.meter.so_far()
    }

    fn model(&self) -> Option<&str> {
        self.meter.model()
    }

    fn is_final(&self) -> bool {
        self.is_final
    }

    fn finish(self: Box<Self>, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let has_skipped = self.lines.has_skipped();
        match self.fault(ending, stderr) {
            Some(fault) => Err(after_skipping(has_skipped, Box::new(self.failure(fault)))),
            None => Ok(self.report()),
        }
    }
}

impl Decoder {
    pub(super) fn new(turn: &Turn) -> Decoder {
        let earlier_total_usd = turn.continues.as_ref().and_then(|continued| continued.total_usd);
        Decoder {
            lines: Lines::default(),
            meter: Meter::new(earlier_total_usd, turn.pricing.prices.clone(), turn.model.clone()),
            used: 0,
            window: None,
            compacted: false,
            signs: Signs::default(),
            result: None,
            is_final: false,
            message: FinalMessage::default(),
            streaming_message: String::new(),
            permission_denials: Vec::new(),
            unreadable_lines: 0,
        }
    }

    fn failure(self, fault: TurnFault) -> TurnFailure {
        let context = self.context();
        let had_finished = self.result.as_ref().is_some_and(|result| result.stop_reason == "end_turn");
        let said = Some(without_nul(self.message.text)).filter(|text| !text.is_empty());
        let only_the_share = fault == TurnFault::OverBudgetShare && had_finished;
        let told = self.result.and_then(|result| result.text).filter(|text| !text.is_empty());
        TurnFailure {
            fault,
            cost: Cost { context, compacted: self.compacted, ..self.meter.cost() },
            last_text: told.map(without_nul).or_else(|| said.clone()),
            final_text: said.filter(|_| only_the_share),
            permission_denials: self.permission_denials,
        }
    }

    fn fault(&self, ending: TurnEnding, stderr: &str) -> Option<TurnFault> {
        let Some(result) = &self.result else {
            return Some(classify::no_result(ending, stderr, self.unreadable_lines));
        };
        let ended_by_us = !matches!(ending, TurnEnding::Code(_) | TurnEnding::Signal(_));
        let accepted =
            matches!(ending, TurnEnding::Code(0) | TurnEnding::Lingered) || ended_by_us && self.is_final;
        match (result.is_success(), accepted) {
            (true, true) => None,
            (true, false) => Some(classify::no_result(ending, stderr, self.unreadable_lines)),
            (false, _) if ended_by_us && !self.is_final => {
                Some(classify::no_result(ending, stderr, self.unreadable_lines))
            }
            (false, _) => Some(classify::failed_result(result, &self.signs)),
        }
    }

    fn report(self) -> TurnReport {
        let context = self.context();
        let text = self.result.and_then(|result| result.text).filter(|text| !text.is_empty());
        TurnReport {
            text: without_nul(text.unwrap_or(self.message.text)),
            cost: Cost { context, compacted: self.compacted, ..self.meter.cost() },
            permission_denials: self.permission_denials,
        }
    }

    fn line(&mut self, line: Line, seen: &mut Vec<TurnEvent>) {
        match line {
            Line::Event(event) => self.event(&event, seen),
            Line::Unreadable(start) => {
                self.unreadable_lines += 1;
                seen.push(TurnEvent::Unreadable(start));
            }
        }
    }

    fn event(&mut self, event: &Value, seen: &mut Vec<TurnEvent>) {
        match (text(event, "type"), text(event, "subtype")) {
            ("system", "init") => self.init(event, seen),
            ("system", "compact_boundary") => self.compacted = true,
            ("system", "api_retry") => self.api_retry(event, seen),
            ("system", "permission_denied") => {
                seen.push(TurnEvent::ToolRefused { tool: text(event, "tool_name").to_owned() });
            }
            ("assistant", _) => self.assistant(event, seen),
            ("stream_event", _) => self.stream_event(event),
            ("user", _) => self.is_final = false,
            ("rate_limit_event", _) => self.rate_limit(event, seen),
            ("result", _) => self.result(event, seen),
            _ => {}
        }
    }

    fn init(&mut self, event: &Value, seen: &mut Vec<TurnEvent>) {
        self.is_final = false;
        note_session(event, seen);
        self.meter.saw_version(text(event, "claude_code_version"));
        let servers = event.get("mcp_servers").and_then(Value::as_array).into_iter().flatten();
        let missing = servers.filter(|server| NOT_STARTED.contains(&text(server, "status")));
        seen.extend(missing.map(|server| TurnEvent::ServerMissing {
            name: shortened(text(server, "name"), LONGEST_SUMMARY),
        }));
    }

    fn api_retry(&mut self, event: &Value, seen: &mut Vec<TurnEvent>) {
        self.is_final = false;
        self.signs.retried = true;
        seen.push(TurnEvent::Retrying {
            attempt: number(event, "attempt") as u64,
            of: number(event, "max_retries") as u64,
            error: shortened(text(event, "error"), LONGEST_SUMMARY),
        });
    }

    fn assistant(&mut self, event: &Value, seen: &mut Vec<TurnEvent>) {
        self.is_final = false;
        let Some(message) = event.get("message") else {
            return;
        };
        self.meter.saw_message(message);
        if is_of_subagent(event) {
            return;
        }
        self.note_context(message);
        self.signs.error_kind = text(event, "error").to_owned();
        if !self.signs.error_kind.is_empty() {
            // The program's own message about an API error, which the `result` repeats.
            return;
        }
        self.signs.retried = false;
        self.message.turn_to(text(message, "id"));
        for block in message.get("content").and_then(Value::as_array).into_iter().flatten() {
            match text(block, "type") {
                "text" => {
                    let block_text = text(block, "text");
                    self.message.add(block_text);
                    seen.push(TurnEvent::Text(block_text.to_owned()));
                }
                "tool_use" => {
                    let name = text(block, "name").to_owned();
                    seen.push(TurnEvent::ToolUse { name, summary: summary(block.get("input")) });
                }
                _ => {}
            }
        }
    }

    /// Raw deltas, which are printed only if the backend's arguments ask for them. Their text is printed again as a
    /// whole. For a message that is never completed, their token counts are all that is known.
    fn stream_event(&mut self, event: &Value) {
        self.is_final = false;
        let Some(inner) = event.get("event") else { return };
        match text(inner, "type") {
            "message_start" => {
                let Some(message) = inner.get("message") else {
                    return;
                };
                self.meter.saw_message(message);
                if !is_of_subagent(event) {
                    self.streaming_message = text(message, "id").to_owned();
                }
            }
            "message_delta" => {
                let id =
                    event.get("api_message_id").and_then(Value::as_str).unwrap_or(&self.streaming_message);
                self.meter.saw_delta(id, inner.get("usage").unwrap_or(&Value::Null));
            }
            _ => {}
        }
    }

    fn rate_limit(&mut self, event: &Value, seen: &mut Vec<TurnEvent>) {
        let Some(info) = event.get("rate_limit_info") else {
            return;
        };
        let resets_at = epoch_seconds(info.get("resetsAt"));
        let reached = text(info, "status") == "rejected";
        self.signs.rejected_until = reached.then_some(resets_at);
        seen.push(TurnEvent::Limit { reached, resets_at });
    }

    fn result(&mut self, event: &Value, seen: &mut Vec<TurnEvent>) {
        note_session(event, seen);
        self.meter.saw_result(event);
        self.note_window(event);
        self.note_denials(event);
        let result = read_result(event);
        seen.extend(event.get("usage").map(tokens).map(TurnEvent::Usage));
        seen.push(TurnEvent::End { is_error: !result.is_success() });
        if result.is_success() {
            self.signs = Signs::default();
        }
        self.result = Some(result);
        self.is_final = true;
    }

    fn note_context(&mut self, message: &Value) {
        let Tokens { input, output, cache_write, cache_read } =
            message.get("usage").map(tokens).unwrap_or_default();
        let sent = input.saturating_add(cache_write).saturating_add(cache_read);
        if sent > 0 {
            self.used = sent.saturating_add(output);
        }
    }

    /// The window of the model that the agent itself used. Its subagents may use others.
    fn note_window(&mut self, result: &Value) {
        let models = result.get("modelUsage").and_then(Value::as_object);
        let own = models.zip(self.meter.model()).and_then(|(models, model)| models.get(model));
        let only = models.filter(|models| models.len() == 1).and_then(|models| models.values().next());
        let window = own.or(only).and_then(|usage| usage.get("contextWindow")?.as_u64());
        self.window = window.filter(|window| *window > 0).or(self.window);
    }

    fn context(&self) -> Option<Context> {
        let window = self.window.filter(|_| self.used > 0)?;
        Some(Context { used: self.used, window })
    }

    fn note_denials(&mut self, result: &Value) {
        for denial in result.get("permission_denials").and_then(Value::as_array).into_iter().flatten() {
            if self.permission_denials.len() == MOST_DENIALS {
                return;
            }
            let tool = text(denial, "tool_name");
            let input = summary(denial.get("tool_input"));
            let rule = if input.is_empty() { tool.to_owned() } else { format!("{tool}({input})") };
            if !self.permission_denials.contains(&rule) {
                self.permission_denials.push(rule);
            }
        }
    }
}

impl FinalMessage {
    /// A message is printed as several events, one for each block.
    fn turn_to(&mut self, id: &str) {
        if self.id != id || id.is_empty() {
            self.id = id.to_owned();
            self.text.clear();
        }
    }

    fn add(&mut self, block_text: &str) {
        if self.text.len() + block_text.len() <= LONGEST_MESSAGE {
            self.text.push_str(block_text);
        }
    }
}

fn note_session(event: &Value, seen: &mut Vec<TurnEvent>) {
    seen.extend(owned_text(event, "session_id").map(TurnEvent::Session));
}

fn read_result(event: &Value) -> ResultEvent {
    let is_deferred = text(event, "stop_reason") == "tool_deferred";
    let tool = event.get("deferred_tool_use").map_or("", |tool| text(tool, "name"));
    let errors = event.get("errors").and_then(Value::as_array).into_iter().flatten();
    ResultEvent {
        subtype: text(event, "subtype").to_owned(),
        is_error: event.get("is_error").and_then(Value::as_bool).unwrap_or(false),
        api_error_status: status(event, "api_error_status"),
        terminal_reason: text(event, "terminal_reason").to_owned(),
        stop_reason: text(event, "stop_reason").to_owned(),
        text: owned_text(event, "result"),
        deferred_tool: is_deferred.then(|| shortened(tool, LONGEST_SUMMARY)),
        errors: errors.filter_map(Value::as_str).collect::<Vec<_>>().join("; "),
    }
}

fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

fn is_of_subagent(event: &Value) -> bool {
    event.get("parent_tool_use_id").is_some_and(Value::is_string)
}

/// A short text about what a tool is going to do: the field that says most.
fn summary(input: Option<&Value>) -> String {
    let telling = ["command", "file_path", "path", "pattern", "url", "query", "description"];
    let found = input.and_then(|input| telling.into_iter().find_map(|name| input.get(name)?.as_str()));
    shortened(found.unwrap_or_default(), LONGEST_SUMMARY)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn owned_text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

fn status(value: &Value, name: &str) -> Option<u16> {
    value.get(name).and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok())
}

fn epoch_seconds(value: Option<&Value>) -> Option<i64> {
    let time = value?.as_f64().filter(|time| *time > 0.0)?;
    Some(if time >= MILLISECONDS_FROM { time / 1000.0 } else { time } as i64)
}

#[cfg(test)]
mod tests;
