//! The events of `codex exec --json`.

use serde_json::Value;

use super::by_stderr;
use crate::agent::ending::{failure, unfinished};
use crate::agent::estimate::Estimate;
use crate::agent::events::{EventReader, count, text};
use crate::agent::lines::shortened;
use crate::agent::refusal::refusal;
use crate::agent::{Cost, Tokens, Turn, TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport};

#[derive(Debug, Default)]
pub(super) struct Events {
    /// Whether there was any event.
    is_heard: bool,
    message: Option<String>,
    tokens: Tokens,
    /// The tokens of the session before the turn, and what the turn itself has used, for a turn that does not come to its end.
    earlier: Tokens,
    estimate: Estimate,
    is_completed: bool,
    /// Why the turn failed.
    failed: Option<String>,
    /// Why it is connecting again. This is also printed as an error, but the turn goes on.
    reconnects: Option<String>,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        self.is_heard = true;
        if text(event, "/type") != "error" {
            self.reconnects = None;
        }
        match text(event, "/type") {
            "thread.started" => vec![TurnEvent::Session(text(event, "/thread_id").to_owned())],
            "item.started" => {
                let used = tool(&event["item"]);
                if let Some(TurnEvent::ToolUse { summary, .. }) = &used {
                    self.estimate.answered(summary);
                }
                used.into_iter().collect()
            }
            "item.completed" if text(event, "/item/type") == "command_execution" => {
                self.estimate.asked(text(event, "/item/aggregated_output"));
                Vec::new()
            }
            "item.completed" if text(event, "/item/type") == "agent_message" => {
                let message = text(event, "/item/text").to_owned();
                self.estimate.answered(&message);
                self.message = Some(message.clone());
                vec![TurnEvent::Text(message)]
            }
            "error" => self.error(text(event, "/message")),
            "turn.completed" => {
                self.is_completed = true;
                self.tokens = tokens(&event["usage"]);
                vec![TurnEvent::Usage(self.tokens), TurnEvent::End { is_error: false }]
            }
            "turn.failed" => {
                self.failed = Some(text(event, "/error/message").to_owned());
                vec![TurnEvent::End { is_error: true }]
            }
            _ => Vec::new(),
        }
    }

    fn is_final(&self) -> bool {
        self.is_completed
    }

    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let estimate = self.estimate.of_answers();
        let tokens = match self.is_completed {
            true => self.tokens,
            false if estimate.is_zero() => Tokens::default(),
            false => self.earlier.plus(estimate),
        };
        let cost = Cost { tokens, ..Cost::default() };
        let fault = match (self.failed, ending) {
            (Some(message), _) => refusal(None, &message),
            (None, TurnEnding::Code(0) | TurnEnding::Lingered) if self.is_completed => match self.message {
                Some(text) => return Ok(TurnReport { text, cost, ..TurnReport::default() }),
                None => TurnFault::Junk { detail: "the agent said nothing".to_owned() },
            },
            (None, TurnEnding::Silent(_) | TurnEnding::Lingered) => {
                match self.reconnects.map(|why| refusal(None, &why)) {
                    // It waits for the end of a limit, and would do so for hours.
                    Some(fault @ TurnFault::LimitReached { .. }) => fault,
                    _ => unfinished(ending, stderr, by_stderr),
                }
            }
            _ => unfinished(ending, stderr, by_stderr),
        };
        Err(failure(fault, cost, self.message))
    }
}

impl Events {
    pub(super) fn new(turn: &Turn) -> Self {
        let earlier = turn.continues.as_ref().and_then(|continued| continued.total_tokens);
        let mut events = Self { earlier: earlier.unwrap_or_default(), ..Self::default() };
        events.estimate.asked(&turn.prompt);
        events
    }

    /// A limit that ends at once is not told as a reason to connect again.
    pub(super) fn waits_for_service(&self) -> bool {
        let fault = self.reconnects.as_ref().map(|why| refusal(None, why));
        matches!(fault, Some(TurnFault::LimitReached { .. })) && !self.is_completed && self.failed.is_none()
    }

    pub(super) fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// An error is often only the reason why it connects again: `Reconnecting... 1/5 (…)`.
    fn error(&mut self, message: &str) -> Vec<TurnEvent> {
        let Some(rest) = message.strip_prefix("Reconnecting... ") else { return Vec::new() };
        let (tries, reason) = rest.split_once(" (").unwrap_or((rest, ""));
        let reason = reason.trim_end_matches(')');
        self.reconnects = Some(reason.to_owned());
        let (attempt, of) = tries.split_once('/').unwrap_or_default();
        let number = |text: &str| text.parse().unwrap_or(0);
        vec![TurnEvent::Retrying { attempt: number(attempt), of: number(of), error: shortened(reason, 200) }]
    }
}

fn tool(item: &Value) -> Option<TurnEvent> {
    let (name, summary) = match text(item, "/type") {
        "command_execution" => ("shell", text(item, "/command")),
        "file_change" => ("edit", text(item, "/changes/0/path")),
        "mcp_tool_call" => (text(item, "/tool"), ""),
        "web_search" => ("web_search", text(item, "/query")),
        _ => return None,
    };
    Some(TurnEvent::ToolUse { name: name.to_owned(), summary: shortened(summary, 200) })
}

/// Its input contains what came from the cache.
fn tokens(usage: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (count(usage, "/cached_input_tokens"), count(usage, "/cache_write_input_tokens"));
    let input = count(usage, "/input_tokens").saturating_sub(cache_read).saturating_sub(cache_write);
    Tokens { input, output: count(usage, "/output_tokens"), cache_write, cache_read }
}
