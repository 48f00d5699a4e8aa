//! pi, one process for each turn, its events as JSON lines. Its exit code says nothing about a turn.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::ending::{failure, tail, unfinished};
use super::events::{EventDecoder, EventReader, amount, append, count, summary, text};
use super::launcher::Launcher;
use super::lines::shortened;
use super::refusal::refusal;
use super::session::{SessionFiles, SessionPlace, inside, is_named};
use super::{
    AgentProgram, Capabilities, Cost, Inspection, Invocation, Tokens, Turn, TurnDecoder, TurnEnding,
    TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;

const EFFORTS: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Variables of a surrounding session.
const SURROUNDING_SESSION: &[&str] =
    &["PI_CODING_AGENT", "PI_SESSION_ID", "PI_SESSION_FILE", "PI_MODEL", "PI_PROVIDER", "PI_REASONING_LEVEL"];

#[derive(Debug)]
struct Pi(Launcher);

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    Ok(Arc::new(Pi(Launcher::new(settings, "pi"))))
}

impl AgentProgram for Pi {
    /// It asks for no permissions at all.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            budget_share: false,
            tool_rules: false,
            add_dirs: false,
            mcp: false,
            permission_mode: false,
            ..Capabilities::ALL
        }
    }

    /// It only warns about another one.
    fn known_efforts(&self) -> Option<&'static [&'static str]> {
        Some(&EFFORTS)
    }

    fn inspection(&self) -> Option<Inspection> {
        Some(self.0.inspection(&["0.87.1"]))
    }

    /// With the id alone it would begin a new conversation if it does not find the old one; a branch fails then.
    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let args = self
            .0
            .arguments()
            .words(["-p", "--mode", "json"])
            .option("--model", &turn.model)
            .option("--thinking", &turn.effort)
            .option("--fork", turn.continues.as_ref().map(|continued| &continued.session))
            .option("--session-id", &turn.session);
        Ok(Invocation {
            unset: SURROUNDING_SESSION.to_vec(),
            set: vec![("PI_SKIP_VERSION_CHECK".to_owned(), "1".to_owned())],
            ..self.0.invocation(args, &turn.prompt)
        })
    }

    fn decoder(&self, _turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(EventDecoder::new(Events::default()))
    }

    /// The program reads ids from the first lines of its files, whatever their names are. Of a folder that an argument of
    /// the settings chooses, nothing is known.
    fn session_files(&self, place: &SessionPlace<'_>) -> Option<SessionFiles> {
        let id = place.plain_id()?;
        if self.0.has(|arg| arg.starts_with("--session-dir")) {
            return None;
        }
        let end = format!("_{id}.jsonl");
        let is_it = |file: &PathBuf| is_named(file, "", &end);
        let (own, others) = match place.folder("PI_CODING_AGENT_SESSION_DIR") {
            Some(folder) => (folder, Vec::new()),
            None => {
                let home = place.folder("PI_CODING_AGENT_DIR");
                let sessions = home.or_else(|| Some(place.home()?.join(".pi/agent")))?.join("sessions");
                (sessions.join(project_name(place.real_cwd().to_str()?)), inside(&sessions))
            }
        };
        let found =
            inside(&own).into_iter().chain(others.iter().flat_map(|folder| inside(folder))).find(is_it);
        Some(SessionFiles::One(found.unwrap_or_else(|| own.join(format!("moved{end}")))))
    }
}

/// The name of the folder with the conversations of a working folder.
fn project_name(cwd: &str) -> String {
    let below = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd);
    format!("--{}--", below.replace(['/', '\\', ':'], "-"))
}

#[derive(Debug, Default)]
struct Events {
    /// The last message of the agent: its text, why it ended, and its error.
    message: String,
    stop_reason: String,
    error: String,
    cost: Cost,
    model: String,
    is_settled: bool,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        match text(event, "/type") {
            "session" => vec![TurnEvent::Session(text(event, "/id").to_owned())],
            "agent_start" => {
                self.is_settled = false;
                Vec::new()
            }
            "message_end" if text(event, "/message/role") == "assistant" => {
                self.message_end(&event["message"])
            }
            "tool_execution_start" => {
                let name = text(event, "/toolName").to_owned();
                vec![TurnEvent::ToolUse { name, summary: summary(&event["args"]) }]
            }
            "compaction_end" | "auto_compaction_end" => {
                self.cost.compacted |= event["aborted"] != true;
                Vec::new()
            }
            "auto_retry_start" => vec![TurnEvent::Retrying {
                attempt: count(event, "/attempt"),
                of: count(event, "/maxAttempts"),
                error: shortened(text(event, "/errorMessage"), 200),
            }],
            "agent_settled" => {
                self.is_settled = true;
                vec![TurnEvent::End { is_error: self.stop_reason != "stop" }]
            }
            _ => Vec::new(),
        }
    }

    fn model(&self) -> Option<&str> {
        Some(self.model.as_str()).filter(|model| !model.is_empty())
    }

    fn is_final(&self) -> bool {
        self.is_settled && self.stop_reason == "stop"
    }

    fn cost_so_far(&self) -> f64 {
        self.cost.usd
    }

    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let is_over = self.is_settled && matches!(ending, TurnEnding::Code(_) | TurnEnding::Lingered);
        let fault = match self.stop_reason.as_str() {
            "stop" if is_over && !self.message.is_empty() => {
                return Ok(TurnReport { text: self.message, cost: self.cost, ..TurnReport::default() });
            }
            "length" if is_over => TurnFault::Truncated { message: tail(&self.message) },
            "aborted" if is_over => TurnFault::Interrupted,
            "error" if is_over => refusal(None, &self.error),
            _ => unfinished(ending, stderr, by_stderr),
        };
        Err(failure(fault, self.cost, Some(self.message).filter(|message| !message.is_empty())))
    }
}

impl Events {
    fn message_end(&mut self, message: &Value) -> Vec<TurnEvent> {
        self.message.clear();
        for block in message["content"].as_array().into_iter().flatten() {
            if text(block, "/type") == "text" {
                append(&mut self.message, text(block, "/text"));
            }
        }
        text(message, "/stopReason").clone_into(&mut self.stop_reason);
        text(message, "/errorMessage").clone_into(&mut self.error);
        let used = Tokens {
            input: count(message, "/usage/input"),
            output: count(message, "/usage/output"),
            cache_write: count(message, "/usage/cacheWrite"),
            cache_read: count(message, "/usage/cacheRead"),
        };
        self.cost.tokens = self.cost.tokens.plus(used);
        text(message, "/model").clone_into(&mut self.model);
        self.cost.usd += amount(message, "/usage/cost/total");
        let said = (!self.message.is_empty()).then(|| TurnEvent::Text(self.message.clone()));
        said.into_iter().chain([TurnEvent::Usage(used)]).collect()
    }
}

fn by_stderr(stderr: &str) -> Option<TurnFault> {
    let message = tail(stderr);
    let says = |words: &str| stderr.contains(words);
    if says("No session found") || says("different project") {
        return Some(TurnFault::SessionMissing { message });
    }
    says("No API key").then_some(TurnFault::NotLoggedIn { message })
}

#[cfg(test)]
mod tests {
    use super::super::Continued;
    use super::super::suite::of_kind;
    use super::*;

    #[test]
    fn a_continued_turn_is_a_branch_in_a_chosen_session() {
        let continues = Some(Continued { session: "old".to_owned(), ..Continued::default() });
        let turn = Turn { continues, session: Some("new".to_owned()), ..Turn::default() };
        let args = of_kind("pi").invocation(&turn).unwrap().args.join(" ");
        assert_eq!(args, "-p --mode json --fork old --session-id new");
    }
}
