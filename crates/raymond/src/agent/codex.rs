//! OpenAI's Codex CLI, one `codex exec` for each turn, its events as JSON lines.
//!
//! It keeps nothing of an earlier turn but the conversation, so every turn gives all of its settings. Its tokens are
//! those of the whole session, and a branch begins with those of its parent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ending::{failure, unfinished};
use super::events::{EventDecoder, EventReader, count, text};
use super::launcher::Launcher;
use super::lines::shortened;
use super::refusal::refusal;
use super::{
    AgentProgram, Capabilities, Cost, Inspection, Invocation, PromptLimit, SessionId, Tokens, TokensTold,
    Turn, TurnDecoder, TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;

/// It refuses a longer prompt.
const LONGEST_PROMPT: PromptLimit = PromptLimit::Characters(1_048_576);

/// It waits for a service that asks it to, for hours, and prints one line at the start of the wait.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// Variables of a surrounding session.
const SURROUNDING_SESSION: &[&str] = &[
    "CODEX_THREAD_ID",
    "CODEX_SESSION_ID",
    "CODEX_TOOL_CALL_ID",
    "CODEX_CI",
    "CODEX_VERSION",
    "CODEX_MANAGED_BY_NPM",
    "CODEX_MANAGED_PACKAGE_ROOT",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
];

#[derive(Debug)]
struct Codex(Launcher);

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    Ok(Arc::new(Codex(Launcher::new(settings, "codex"))))
}

impl AgentProgram for Codex {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            branch: true,
            session_id: SessionId::FirstEvent,
            tokens: TokensTold::OfSession,
            model: true,
            effort: true,
            skip_permissions: true,
            prompt_limit: Some(LONGEST_PROMPT),
            silence: Some(SILENCE),
            ..Capabilities::NONE
        }
    }

    fn inspection(&self) -> Option<Inspection> {
        let inspection = self.0.inspection(&["0.166.0"]);
        Some(Inspection { login: Some(&["login", "status"]), ..inspection })
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let mut args = self.0.arguments().words(["exec", "--json", "--skip-git-repo-check"]);
        // A branch does not take this flag, so it comes before.
        let is_chosen =
            |arg: &str| arg == "-s" || arg.starts_with("--sandbox") || arg.contains("sandbox_mode");
        if turn.skip_permissions {
            args = args.words(["--dangerously-bypass-approvals-and-sandbox"]);
        } else if !self.0.has(is_chosen) {
            args = args.words(["-s", "workspace-write"]);
        }
        for (name, value) in [("model", &turn.model), ("model_reasoning_effort", &turn.effort)] {
            let set = value.clone().map(|value| format!("{name}={}", toml::Value::String(value)));
            args = args.option("-c", &set);
        }
        args = args.option("fork", turn.continues.as_ref().map(|continued| &continued.session)).words(["-"]);
        let invocation = self.0.invocation(args, &turn.prompt);
        Ok(Invocation { unset: SURROUNDING_SESSION.to_vec(), ..invocation })
    }

    fn decoder(&self, _turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(EventDecoder::new(Events::default()))
    }
}

#[derive(Debug, Default)]
struct Events {
    message: Option<String>,
    tokens: Tokens,
    is_completed: bool,
    /// Why the turn failed.
    failed: Option<String>,
    /// Why it is connecting again. This is also printed as an error, but the turn goes on.
    reconnects: Option<String>,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        match text(event, "/type") {
            "thread.started" => vec![TurnEvent::Session(text(event, "/thread_id").to_owned())],
            "item.started" => tool(&event["item"]).into_iter().collect(),
            "item.completed" if text(event, "/item/type") == "agent_message" => {
                self.reconnects = None;
                let message = text(event, "/item/text").to_owned();
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
        let cost = Cost { tokens: self.tokens, ..Cost::default() };
        let fault = match (self.failed, ending) {
            (Some(message), _) => refusal(None, &message),
            (None, TurnEnding::Code(0) | TurnEnding::Lingered) if self.is_completed => match self.message {
                Some(text) => return Ok(TurnReport { text, cost, ..TurnReport::default() }),
                None => TurnFault::Junk { detail: "the agent said nothing".to_owned() },
            },
            (None, TurnEnding::Silent(after)) => match self.reconnects.map(|why| refusal(None, &why)) {
                // It waits for the end of a limit, and would do so for hours.
                Some(fault @ TurnFault::LimitReached { .. }) => fault,
                _ => TurnFault::Silent { after },
            },
            _ => unfinished(ending, stderr, by_stderr),
        };
        Err(failure(fault, cost, self.message))
    }
}

impl Events {
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

fn by_stderr(stderr: &str) -> Option<TurnFault> {
    let message = super::ending::tail(stderr);
    if stderr.contains("no rollout found") {
        return Some(TurnFault::SessionMissing { message });
    }
    let is_refused = ["unexpected argument", "error: ", "Model provider", "Error loading config"];
    is_refused.iter().any(|words| stderr.contains(words)).then_some(TurnFault::BadArguments { message })
}

#[cfg(test)]
mod tests {
    use super::super::suite::{ended, of_kind};
    use super::super::{Continued, TurnFault};
    use super::*;

    #[test]
    fn every_setting_is_given_in_every_turn() {
        let program = of_kind("codex");
        let turn = Turn {
            prompt: "go".to_owned(),
            model: Some("gpt-5".to_owned()),
            effort: Some("high".to_owned()),
            continues: Some(Continued { session: "t1".to_owned(), ..Continued::default() }),
            ..Turn::default()
        };
        let expected = "exec --json --skip-git-repo-check -s workspace-write -c model=\"gpt-5\" -c \
                        model_reasoning_effort=\"high\" fork t1 -";
        assert_eq!(program.invocation(&turn).unwrap().args.join(" "), expected);
        let skip = Turn { skip_permissions: true, ..Turn::default() };
        let args = program.invocation(&skip).unwrap().args.join(" ");
        assert_eq!(args, "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -");
    }

    #[test]
    fn the_tokens_of_a_branch_are_counted_once_and_a_lost_conversation_is_noticed() {
        let earlier = Tokens { input: 180, output: 40, cache_write: 0, cache_read: 20 };
        let continues = Continued {
            session: "01a1df4b-7fab-7492-893b-fd6df6403629".to_owned(),
            total_tokens: Some(earlier),
            ..Continued::default()
        };
        let turn = Turn { continues: Some(continues), ..Turn::default() };
        let report = ended("codex", "0.166.0/22-fork", &turn).unwrap();
        assert_eq!(report.cost.tokens, Tokens { input: 90, output: 20, cache_write: 0, cache_read: 10 });
        assert_eq!(report.cost.session_tokens.map(|tokens| tokens.output), Some(60));
        let lost = ended("codex", "0.166.0/27-resume-notuuid", &turn).unwrap_err();
        assert!(matches!(lost.fault, TurnFault::SessionMismatch { .. }), "{}", lost.fault);
    }
}
