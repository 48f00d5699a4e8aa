//! Prints the events of the `stream-json` format.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The release whose way of reporting costs is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// 2.1.197: totals of the process.
    ProcessTotals,
    /// 2.1.325: totals of the session, and the new cost in each result.
    SessionTotals,
}

impl Style {
    pub(crate) fn from_environment() -> Style {
        match std::env::var("FAKE_CLAUDE_STYLE").as_deref() {
            Ok("197") => Style::ProcessTotals,
            _ => Style::SessionTotals,
        }
    }

    pub(crate) fn version(self) -> &'static str {
        match self {
            Style::ProcessTotals => "2.1.197",
            Style::SessionTotals => "2.1.325",
        }
    }
}

pub(crate) struct Voice {
    pub(crate) style: Style,
    /// The session id that it reports.
    pub(crate) session: String,
    pub(crate) model: String,
    pub(crate) message: String,
    /// The cost of the session before this process.
    pub(crate) inherited_usd: f64,
    pub(crate) spent_usd: f64,
    pub(crate) results: u32,
}

/// How a turn ends, as in its `result` event.
#[derive(Default)]
pub(crate) struct Ending<'a> {
    pub(crate) subtype: &'a str,
    pub(crate) is_error: bool,
    pub(crate) status: Option<u16>,
    pub(crate) reason: &'a str,
    /// Whether the agent was about to continue.
    pub(crate) mid_work: bool,
    pub(crate) text: Option<&'a str>,
    pub(crate) error: Option<String>,
    pub(crate) denied: &'a [String],
    /// The tool whose use a hook has put off.
    pub(crate) deferred: Option<&'a str>,
}

impl Voice {
    pub(crate) fn init(&self, permission_mode: &str, servers: &BTreeMap<String, String>) -> Result<()> {
        let servers = servers.iter().map(|(name, status)| json!({"name": name, "status": status}));
        print(&json!({"type": "system", "subtype": "init", "session_id": self.session, "model": self.model,
            "cwd": std::env::current_dir()?.to_string_lossy(), "permissionMode": permission_mode,
            "tools": ["Bash", "Edit", "Read", "Write"], "mcp_servers": servers.collect::<Vec<_>>(), "slash_commands": [],
            "apiKeySource": "none", "claude_code_version": self.style.version()}))
    }

    /// `cost` is the cost of the message; its token counts are chosen to give that cost at list prices.
    pub(crate) fn text(&self, text: &str, cost: f64) -> Result<()> {
        self.assistant(&json!({"type": "text", "text": text}), cost)
    }

    pub(crate) fn tool(&self, name: &str, cost: f64) -> Result<()> {
        let id = format!("toolu_{}", uuid::Uuid::new_v4().simple());
        self.assistant(&json!({"type": "tool_use", "id": id, "name": name, "input": {}}), cost)?;
        let outcome = json!({"type": "tool_result", "tool_use_id": id, "content": "ok", "is_error": false});
        print(&json!({"type": "user", "session_id": self.session, "parent_tool_use_id": null,
            "message": {"role": "user", "content": [outcome]}}))
    }

    fn assistant(&self, block: &Value, cost: f64) -> Result<()> {
        let usage = json!({"input_tokens": (cost * 1e6 / self.list_price()) as u64, "output_tokens": 1,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0});
        print(&json!({"type": "assistant", "session_id": self.session, "parent_tool_use_id": null,
            "message": {"id": self.message, "type": "message", "role": "assistant", "model": self.model,
                "content": [block], "stop_reason": null, "usage": usage}}))
    }

    /// Dollars for a million tokens of input.
    fn list_price(&self) -> f64 {
        let families = [("haiku", 0.1), ("sonnet", 2.0)];
        families.into_iter().find(|(family, _)| self.model.contains(family)).map_or(4.0, |(_, price)| price)
    }

    /// The program's own message when the API refuses.
    pub(crate) fn api_error(&self, kind: &str, text: &str) -> Result<()> {
        print(
            &json!({"type": "assistant", "session_id": self.session, "parent_tool_use_id": null, "error": kind,
            "message": {"id": uuid::Uuid::new_v4().to_string(), "type": "message", "role": "assistant",
                "model": "<synthetic>", "content": [{"type": "text", "text": text}],
                "usage": {"input_tokens": 0, "output_tokens": 0}}}),
        )
    }

    pub(crate) fn retry(&self, status: Option<u16>, error: &str) -> Result<()> {
        print(
            &json!({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 1, "retry_delay_ms": 1,
            "error_status": status, "error": error, "session_id": self.session}),
        )
    }

    pub(crate) fn limit(&self, resets_at: Option<u64>) -> Result<()> {
        print(&json!({"type": "rate_limit_event", "session_id": self.session,
            "rate_limit_info": {"status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour",
                "isUsingOverage": false}}))
    }

    /// Adds `cost` and prints a result of the turn; a turn can have several.
    pub(crate) fn result(&mut self, ending: &Ending<'_>, cost: f64) -> Result<()> {
        self.spent_usd += cost;
        let inherited = if self.style == Style::SessionTotals { self.inherited_usd } else { 0.0 };
        let usage = |usd: f64| {
            if usd > 0.0 { json!({&self.model: {"costUSD": usd}}) } else { json!({}) }
        };
        let denied = ending.denied.iter().map(|name| json!({"tool_name": name, "tool_input": {}}));
        let mut event = json!({"type": "result", "subtype": ending.subtype, "is_error": ending.is_error,
            "api_error_status": ending.status, "num_turns": 1, "session_id": self.session,
            "total_cost_usd": inherited + self.spent_usd, "modelUsage": usage(inherited + self.spent_usd),
            "usage": {"input_tokens": 0, "output_tokens": 0}, "terminal_reason": ending.reason,
            "permission_denials": denied.collect::<Vec<_>>(), "duration_ms": 1,
            "stop_reason": if ending.mid_work { "tool_use" } else { "end_turn" }});
        if let Some(text) = ending.text {
            event["result"] = json!(text);
        }
        if let Some(tool) = ending.deferred {
            event["stop_reason"] = json!("tool_deferred");
            event["deferred_tool_use"] = json!({"id": "toolu_1", "name": tool, "input": {}});
        }
        if let Some(error) = &ending.error {
            event["errors"] = json!([error]);
        }
        if self.style == Style::SessionTotals {
            event["result_index"] = json!(self.results);
            event["model_usage_since_last_result"] = usage(cost);
        }
        self.results += 1;
        print(&event)
    }
}

/// The whole output when the conversation to continue does not exist.
pub(crate) fn no_conversation(style: Style, parent: &str, session: &str) -> Result<()> {
    let mut event = json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0,
        "session_id": session, "total_cost_usd": 0, "modelUsage": {}, "permission_denials": [],
        "errors": [format!("No conversation found with session ID: {parent}")]});
    if style == Style::SessionTotals {
        event["result_index"] = json!(0);
    }
    print(&event)
}

pub(crate) fn print(event: &Value) -> Result<()> {
    print_line(&event.to_string())
}

pub(crate) fn print_line(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}
