//! opencode, one `opencode run` for each turn, its events as JSON lines.
//!
//! Its events begin only when the model has answered. What happens before is in its log, which it writes to stderr: the
//! session, and that it waits because the service refuses it. It finds a conversation only in the folder where it began:
//! elsewhere it calls the model and prints nothing.
//!
//! `opencode serve` tells the same and when it tries again, but it is a server with an open port for every turn.

mod own_model;
mod permission;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ending::{failure, tail, unfinished};
use super::events::{EventDecoder, EventReader, amount, append, count, summary, text};
use super::kept::{Kept, inherited, variable};
use super::launcher::Launcher;
use super::lines::{shortened, take_lines};
use super::refusal::{limit, refusal};
use super::{
    AgentProgram, Capabilities, Cost, Inspection, Invocation, SessionId, Tokens, Turn, TurnDecoder,
    TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;

/// It prints nothing while it waits for a service that refuses it, for hours if the service asks for that.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// How every line of its log begins.
const LOG_LINE: &[u8] = b"timestamp=";

/// Without a title it asks the model for one, at a cost that it does not tell.
const TITLE: &str = "Raymond";

#[derive(Debug)]
struct Opencode(Launcher);

/// What it obeys in its working folder.
pub(super) const OBEYED: &[&str] = &[
    "opencode.json",
    "opencode.jsonc",
    ".opencode/agent",
    ".opencode/command",
    ".opencode/plugin",
    ".opencode/plugins",
];

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    Ok(Arc::new(Opencode(Launcher::new(settings, "opencode"))))
}

impl AgentProgram for Opencode {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            session_id: SessionId::FirstEvent,
            folder_bound: true,
            budget_share: false,
            tool_rules: false,
            add_dirs: false,
            mcp: false,
            tells_servers: false,
            permission_mode: false,
            silence: Some(SILENCE),
            ..Capabilities::ALL
        }
    }

    fn inspection(&self) -> Option<Inspection> {
        Some(self.0.inspection(&["1.18.33"]))
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let mut args = self.0.arguments().words(["run", "--format", "json", "--title", TITLE]);
        args = args.words(["--print-logs", "--log-level", "INFO"]);
        args = args.option("-m", &self.model(turn)?).option("--variant", &turn.effort);
        if turn.skip_permissions {
            args = args.words(["--auto"]);
        }
        if let Some(continued) = &turn.continues {
            args = args.words(["--session", &continued.session, "--fork"]);
        }
        let of_user = variable(&inherited, permission::VARIABLE);
        Ok(Invocation {
            unset: vec!["OPENCODE", "OPENCODE_PID", "AGENT"],
            set: vec![
                ("OPENCODE_DISABLE_AUTOUPDATE".to_owned(), "1".to_owned()),
                (permission::VARIABLE.to_owned(), permission::rules(of_user.as_deref())),
            ],
            ..self.0.invocation(args, &turn.prompt)
        })
    }

    fn decoder(&self, _turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(EventDecoder::new(Events::default()))
    }
}

impl Opencode {
    fn model(&self, turn: &Turn) -> Result<Option<String>, String> {
        let is_model = |arg: &str| arg == "-m" || arg == "--model" || arg.starts_with("--model=");
        Kept::model(turn, self.0.has(is_model)).told(|| own_model::own_model(&turn.cwd, &inherited))
    }
}

#[derive(Debug, Default)]
struct Events {
    session: String,
    /// The message that is being said, by its id.
    message: (String, String),
    cost: Cost,
    /// Why its last step ended: `stop`, `tool-calls`, `length`.
    reason: String,
    /// The last error. It may go on after one, and then exits with 1 all the same.
    error: Option<TurnFault>,
    refused: Vec<String>,
    /// The start of a line of its log.
    log: Vec<u8>,
    /// Why the service has refused it, until it asks again.
    waits: Option<String>,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        let mut seen = Vec::new();
        let session = text(event, "/sessionID");
        if !session.is_empty() && session != self.session {
            session.clone_into(&mut self.session);
            seen.push(TurnEvent::Session(session.to_owned()));
        }
        self.waits = None;
        match text(event, "/type") {
            "text" if event.pointer("/part/synthetic") != Some(&Value::Bool(true)) => {
                let (id, said) = (text(event, "/part/messageID"), text(event, "/part/text"));
                if self.message.0 != id {
                    self.message = (id.to_owned(), String::new());
                }
                append(&mut self.message.1, said);
                seen.push(TurnEvent::Text(said.to_owned()));
            }
            "text" => self.cost.compacted |= !event["part"]["metadata"]["compaction_continue"].is_null(),
            "tool_use" => seen.push(self.tool(&event["part"])),
            "step_finish" => seen.extend(self.step_finish(&event["part"])),
            "error" => {
                self.error = Some(fault(&event["error"]));
                self.reason = String::new();
            }
            _ => {}
        }
        seen
    }

    fn stderr(&mut self, text: &mut Vec<u8>) -> Vec<TurnEvent> {
        let lines = take_lines(&mut self.log, text, LOG_LINE);
        lines.iter().filter_map(|line| self.logged(line)).collect()
    }

    fn waits_for_service(&self) -> bool {
        self.waits.is_some()
    }

    fn is_final(&self) -> bool {
        self.reason == "stop"
    }

    fn cost_so_far(&self) -> f64 {
        self.cost.usd
    }

    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let message = Some(self.message.1).filter(|message| !message.is_empty());
        let is_over = matches!(ending, TurnEnding::Code(_) | TurnEnding::Lingered);
        let is_success = matches!(ending, TurnEnding::Code(0) | TurnEnding::Lingered);
        let fault = match (self.reason.as_str(), self.error, message.clone()) {
            ("stop", _, Some(text)) if is_success => {
                return Ok(TurnReport { text, cost: self.cost, permission_denials: self.refused });
            }
            ("length", _, said) if is_success => {
                TurnFault::Truncated { message: tail(&said.unwrap_or_default()) }
            }
            // It tries again after a minute at most, unless the service asks for a longer wait.
            (_, _, _) if ending == TurnEnding::Lingered && self.waits.is_some() => {
                limit(None, self.waits.unwrap_or_default())
            }
            (_, Some(fault), _) if is_over => fault,
            ("tool-calls", None, _) if is_success && !self.refused.is_empty() => {
                let message =
                    format!("it stopped because it was not permitted to use {}", self.refused.join(", "));
                TurnFault::BadRequest { message }
            }
            _ => unfinished(ending, stderr, by_stderr),
        };
        Err(failure(fault, self.cost, message))
    }
}

impl Events {
    fn logged(&mut self, line: &str) -> Option<TurnEvent> {
        let (_, said) = line.split_once(" message=")?;
        if let Some(created) = said.strip_prefix("created id=").filter(|_| self.session.is_empty()) {
            self.session = created.split_whitespace().next()?.to_owned();
            return Some(TurnEvent::Session(self.session.clone()));
        }
        if said.starts_with("stream ") {
            self.waits = None;
        }
        let error =
            said.strip_prefix("\"stream error\"").and_then(|rest| rest.split_once(" error.error="))?.1;
        let error = shortened(error.trim().trim_matches('"'), 200);
        self.waits = Some(error.clone());
        Some(TurnEvent::Retrying { attempt: 0, of: 0, error })
    }

    fn tool(&mut self, part: &Value) -> TurnEvent {
        /// How many refused tools are kept.
        const MOST_REFUSED: usize = 100;
        let name = text(part, "/tool").to_owned();
        if text(part, "/state/error").contains("rejected permission") {
            if self.refused.len() < MOST_REFUSED && !self.refused.contains(&name) {
                self.refused.push(name.clone());
            }
            return TurnEvent::ToolRefused { tool: name };
        }
        TurnEvent::ToolUse { name, summary: summary(&part["state"]["input"]) }
    }

    fn step_finish(&mut self, part: &Value) -> Vec<TurnEvent> {
        text(part, "/reason").clone_into(&mut self.reason);
        let used = Tokens {
            input: count(part, "/tokens/input"),
            output: count(part, "/tokens/output").saturating_add(count(part, "/tokens/reasoning")),
            cache_write: count(part, "/tokens/cache/write"),
            cache_read: count(part, "/tokens/cache/read"),
        };
        self.cost.tokens = self.cost.tokens.plus(used);
        self.cost.usd += amount(part, "/cost");
        let end = (self.reason == "stop").then_some(TurnEvent::End { is_error: false });
        [TurnEvent::Usage(used)].into_iter().chain(end).collect()
    }
}

fn fault(error: &Value) -> TurnFault {
    let status = u16::try_from(count(error, "/data/statusCode")).ok().filter(|status| *status > 0);
    let message = text(error, "/data/message");
    if text(error, "/name") == "ContextOverflowError" {
        return TurnFault::TooLong { message: message.to_owned() };
    }
    // It says no more of a model that it does not know, and of a missing login.
    if message.starts_with("Unexpected server error") {
        let message = format!("{message} (the model may be unknown to it, or it is not logged in)");
        return TurnFault::BadRequest { message };
    }
    let wait = text(error, "/data/responseHeaders/retry-after");
    let message =
        if wait.is_empty() { message.to_owned() } else { format!("{message} (retry after {wait}s)") };
    refusal(status, &message)
}

fn by_stderr(stderr: &str) -> Option<TurnFault> {
    let message = tail(stderr);
    if stderr.contains("Session not found") {
        return Some(TurnFault::SessionMissing { message });
    }
    stderr.contains("must provide a message").then_some(TurnFault::BadRequest { message })
}

#[cfg(test)]
mod tests {
    use super::super::Continued;
    use super::super::suite::of_kind;
    use super::*;

    #[test]
    fn a_continued_turn_is_a_branch_with_a_title_of_its_own() {
        let continues = Some(Continued { session: "ses_1".to_owned(), ..Continued::default() });
        let turn =
            Turn { continues, model: Some("p/m".to_owned()), skip_permissions: true, ..Turn::default() };
        let args = of_kind("opencode").invocation(&turn).unwrap().args.join(" ");
        let expected = "run --format json --title Raymond --print-logs --log-level INFO -m p/m --auto --session ses_1 \
                        --fork";
        assert_eq!(args, expected);
    }

    const CREATED: &str = "timestamp=T level=INFO run=1 message=created id=ses_2 slug=x parentID=undefined\n";
    const ASKS: &str = "timestamp=T level=INFO run=1 message=stream providerID=p session.id=ses_2\n";
    const REFUSED: &str = "timestamp=T level=ERROR run=1 message=\"stream error\" session.id=ses_2 \
                           error.error=\"AI_APICallError: Too Many Requests\"\n";

    #[test]
    fn its_log_tells_the_session_and_that_it_waits() {
        for size in [1, 7, 4096] {
            let mut decoder = of_kind("opencode").decoder(&Turn::default());
            let mut hear = |log: &str| {
                let pieces = log.as_bytes().chunks(size);
                let heard = pieces.map(|piece| {
                    let mut text = piece.to_vec();
                    (decoder.feed_stderr(&mut text), text)
                });
                let (seen, left): (Vec<_>, Vec<_>) = heard.unzip();
                (seen.concat(), String::from_utf8(left.concat()).unwrap(), decoder.waits_for_service())
            };
            let session = vec![TurnEvent::Session("ses_2".to_owned())];
            assert_eq!(hear(&format!("a note\n{CREATED}{ASKS}")), (session, "a note\n".to_owned(), false));
            let error = "AI_APICallError: Too Many Requests".to_owned();
            let tries_again = vec![TurnEvent::Retrying { attempt: 0, of: 0, error }];
            assert_eq!(hear(REFUSED), (tries_again, String::new(), true));
            assert_eq!(hear(ASKS), (Vec::new(), String::new(), false));
            hear(REFUSED);
            let failed = decoder.finish(TurnEnding::Lingered, "").unwrap_err();
            assert_eq!(failed.fault.name(), "limit_reached", "{}", failed.fault);
        }
    }
}
