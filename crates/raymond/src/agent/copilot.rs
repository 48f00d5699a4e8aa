//! GitHub's Copilot CLI, one process for each turn, its events as JSON lines.
//!
//! It cannot branch a conversation. It tells no dollars, and its tokens only in the file of the conversation. Its launcher is
//! another process than the program itself, which does not matter, because a turn's processes are found by their environment.

mod usage;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::ending::{failure, tail, unfinished};
use super::estimate::Estimate;
use super::events::{EventDecoder, EventReader, count, summary, text};
use super::kept::{Kept, Own, SettingsFile, Variables, folder, inherited, variable};
use super::launcher::Launcher;
use super::lines::shortened;
use super::refusal::refusal;
use super::session::{SessionFiles, SessionPlace};
use super::{
    AgentProgram, Capabilities, Cost, Inspection, Invocation, TokensTold, Turn, TurnDecoder, TurnEnding,
    TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;

/// Variables of a surrounding session.
const SURROUNDING_SESSION: &[&str] = &[
    "COPILOT_CLI",
    "COPILOT_LOADER_PID",
    "COPILOT_AGENT_SESSION_ID",
    "COPILOT_CLI_BINARY_VERSION",
    "COPILOT_CLI_RESOLVED_DIST_DIR",
];

/// What of a conversation's folder stays where it is: the old working folder, in which the program would continue if there
/// is such a folder, copies of the files there, and a lock.
const NOT_MOVED: &[&str] = &["workspace.yaml", "rewind-file-snapshots", ".workspace-fork.lock"];

/// How often it tries again by itself.
const RETRIES: u64 = 5;

#[derive(Debug)]
struct Copilot(Launcher);

/// What it obeys in its working folder.
pub(super) const OBEYED: &[&str] =
    &[".github/copilot/settings.json", ".github/copilot/settings.local.json", ".github/hooks"];

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    Ok(Arc::new(Copilot(Launcher::new(settings, "copilot"))))
}

impl AgentProgram for Copilot {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            tokens: TokensTold::OfTurn,
            model: true,
            effort: true,
            skip_permissions: true,
            ..Capabilities::NONE
        }
    }

    fn inspection(&self) -> Option<Inspection> {
        Some(self.0.inspection(&["1.0.102"]))
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let args = self.0.arguments().words(["--output-format", "json", "--no-color", "--no-ask-user"]);
        // These flags take any number of values, so a value is written as a part of its flag.
        let args = match turn.skip_permissions {
            true => args.words(["--allow-all-tools", "--allow-all-paths"]),
            false => args.words(["--allow-tool=write"]),
        };
        let args =
            args.option("--model", &self.model(turn)?).option("--reasoning-effort", &self.effort(turn)?);
        let args = match &turn.continues {
            Some(continued) => args.words([&format!("--resume={}", continued.session)]),
            None => args.option("--session-id", &turn.session),
        };
        Ok(Invocation {
            unset: SURROUNDING_SESSION.to_vec(),
            set: vec![("COPILOT_AUTO_UPDATE".to_owned(), "false".to_owned())],
            ..self.0.invocation(args, &turn.prompt)
        })
    }

    fn decoder(&self, turn: &Turn) -> Box<dyn TurnDecoder> {
        let session = turn.session.as_deref().unwrap_or_default();
        let folder = folder_of(&SessionPlace { session, cwd: &turn.cwd, variable: &inherited });
        let kept = folder.map(|folder| folder.join("events.jsonl"));
        Box::new(EventDecoder::new(Events { kept, ..Events::default() }))
    }

    fn session_files(&self, place: &SessionPlace<'_>) -> Option<SessionFiles> {
        Some(SessionFiles::Folder { path: folder_of(place)?, without: NOT_MOVED })
    }
}

/// The folder of a conversation.
fn folder_of(place: &SessionPlace<'_>) -> Option<PathBuf> {
    let id = place.plain_id()?;
    let home = place.folder("COPILOT_HOME").or_else(|| Some(place.home()?.join(".copilot")))?;
    Some(home.join("session-state").join(id))
}

impl Copilot {
    fn model(&self, turn: &Turn) -> Result<Option<String>, String> {
        let is_in_args = self.0.has(|arg| arg == "--model" || arg.starts_with("--model="));
        Kept::model(turn, is_in_args).told(|| own_model(&turn.cwd, &inherited))
    }

    fn effort(&self, turn: &Turn) -> Result<Option<String>, String> {
        const FLAG: &str = "--reasoning-effort";
        let is_in_args = self.0.has(|arg| arg == FLAG || arg.starts_with("--reasoning-effort="));
        Kept::effort(turn, is_in_args).told(|| own_effort(&turn.cwd, &inherited))
    }
}

/// The model of a new conversation: that of its variable, or of the user's settings. Without either the service chooses.
fn own_model(cwd: &Path, variables: Variables<'_>) -> Own {
    if let Some(model) = variable(variables, "COPILOT_MODEL") {
        return Own::Named(model);
    }
    let settings = own_settings(cwd, variables).and_then(|settings| settings.text("model"));
    settings.map_or(Own::Unknown, Own::Named)
}

/// The effort of a new conversation. To a service of the user's own it sends none unless one is chosen, and `none` is just
/// that; GitHub's service has an effort of its own for each model.
fn own_effort(cwd: &Path, variables: Variables<'_>) -> Own {
    let Some(settings) = own_settings(cwd, variables) else { return Own::Unknown };
    match settings.text("effortLevel") {
        Some(effort) => Own::Named(effort),
        None if settings == SettingsFile::Unreadable => Own::Unknown,
        None if variable(variables, "COPILOT_PROVIDER_BASE_URL").is_some() => Own::Named("none".to_owned()),
        None => Own::Unknown,
    }
}

/// The user's settings. Nothing if those of the repository may decide: the program asks its user before it takes them.
fn own_settings(cwd: &Path, variables: Variables<'_>) -> Option<SettingsFile> {
    let files = ["settings.json", "settings.local.json"];
    let folders = cwd.ancestors().map(|folder| folder.join(".github/copilot"));
    let mut of_project = folders.flat_map(|folder| files.map(|file| SettingsFile::read(&folder.join(file))));
    let decides = of_project.any(|settings| settings.may_have(&["model", "effortLevel"]));
    let home = folder(variables, "COPILOT_HOME", ".copilot").filter(|_| !decides)?;
    Some(SettingsFile::read(&home.join("settings.json")))
}

#[derive(Debug, Default)]
struct Events {
    /// The file of the conversation, if it is known where that is.
    kept: Option<PathBuf>,
    /// The id of the event with which the turn began.
    first: String,
    model: String,
    /// What the calls of the model have used, for a conversation whose file does not tell it.
    estimate: Estimate,
    is_compacted: bool,
    /// The last message without a request for a tool.
    message: Option<String>,
    error: Option<TurnFault>,
    is_aborted: bool,
    /// The exit code in its last event.
    exit_code: Option<u64>,
    retries: u64,
    refused: Vec<String>,
    /// The name of the last tool that was asked for.
    tool: String,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        match text(event, "/type") {
            "user.message" => {
                if self.first.is_empty() {
                    text(event, "/id").clone_into(&mut self.first);
                }
                self.estimate.asked(text(event, "/data/content"));
                Vec::new()
            }
            "model.call_start" => {
                text(event, "/data/model").clone_into(&mut self.model);
                Vec::new()
            }
            "session.compaction_complete" => {
                self.is_compacted |= event["data"]["success"] == true;
                Vec::new()
            }
            "assistant.message" => self.message(&event["data"]),
            "tool.execution_complete" if text(event, "/data/error/code") == "denied" => {
                if !self.refused.contains(&self.tool) {
                    self.refused.push(self.tool.clone());
                }
                vec![TurnEvent::ToolRefused { tool: self.tool.clone() }]
            }
            "tool.execution_complete" => {
                self.estimate.asked(text(event, "/data/result/content"));
                Vec::new()
            }
            "assistant.turn_retry" => {
                self.retries += 1;
                let error = shortened(text(event, "/data/reason"), 200);
                vec![TurnEvent::Retrying { attempt: self.retries, of: RETRIES, error }]
            }
            "session.error" => {
                self.error = Some(fault(&event["data"]));
                Vec::new()
            }
            "abort" => {
                self.is_aborted = true;
                Vec::new()
            }
            "result" => {
                let code = count(event, "/exitCode");
                self.exit_code = Some(code);
                let session = TurnEvent::Session(text(event, "/sessionId").to_owned());
                vec![session, TurnEvent::End { is_error: code != 0 }]
            }
            _ => Vec::new(),
        }
    }

    fn model(&self) -> Option<&str> {
        Some(self.model.as_str()).filter(|model| !model.is_empty())
    }

    fn is_final(&self) -> bool {
        self.exit_code == Some(0) && !self.is_aborted && self.message.is_some()
    }

    /// It exits with 0 when it was interrupted, too.
    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let cost = self.cost();
        let is_success = self.is_final() && matches!(ending, TurnEnding::Code(0) | TurnEnding::Lingered);
        let is_over = matches!(ending, TurnEnding::Code(_) | TurnEnding::Lingered);
        let fault = match (self.error, &self.message) {
            (None, Some(text)) if is_success => {
                let text = text.clone();
                return Ok(TurnReport { text, cost, permission_denials: self.refused });
            }
            _ if self.is_aborted && is_over => TurnFault::Interrupted,
            (Some(fault), _) if is_over => fault,
            _ => unfinished(ending, stderr, by_stderr),
        };
        Err(failure(fault, cost, self.message))
    }
}

impl Events {
    fn cost(&self) -> Cost {
        let kept = self.kept.as_deref().filter(|_| !self.first.is_empty());
        let used = kept.and_then(|file| usage::since(file, &self.first).ok()).unwrap_or_default();
        let tokens = if used.tokens.is_zero() { self.estimate.of_answers() } else { used.tokens };
        Cost { tokens, context: used.context, compacted: self.is_compacted, ..Cost::default() }
    }

    fn message(&mut self, data: &Value) -> Vec<TurnEvent> {
        self.error = None;
        let said = text(data, "/content").to_owned();
        self.estimate.answered(&said);
        let tools: Vec<TurnEvent> = data["toolRequests"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|tool| {
                self.estimate.answered(&tool["arguments"].to_string());
                let name = text(tool, "/name").to_owned();
                TurnEvent::ToolUse { name, summary: summary(&tool["arguments"]) }
            })
            .collect();
        match tools.last() {
            Some(TurnEvent::ToolUse { name, .. }) => self.tool.clone_from(name),
            _ => self.message = Some(said.clone()),
        }
        let said = (!said.is_empty()).then_some(TurnEvent::Text(said));
        said.into_iter().chain(tools).collect()
    }
}

fn fault(data: &Value) -> TurnFault {
    let status = u16::try_from(count(data, "/statusCode")).ok().filter(|status| *status > 0);
    let status = status.or((text(data, "/errorType") == "rate_limit").then_some(429));
    refusal(status, text(data, "/message"))
}

fn by_stderr(stderr: &str) -> Option<TurnFault> {
    let message = tail(stderr);
    let says = |words: &str| stderr.contains(words);
    if says("No authentication information") {
        return Some(TurnFault::NotLoggedIn { message });
    }
    if says("No session") {
        return Some(TurnFault::SessionMissing { message });
    }
    says("No prompt provided").then_some(TurnFault::BadRequest { message })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::super::Continued;
    use super::super::suite::of_kind;
    use super::*;

    #[test]
    fn the_users_variable_and_settings_tell_what_a_new_conversation_would_have() {
        let folder = tempfile::tempdir().unwrap();
        let (cwd, home) = (folder.path().join("project"), folder.path().join("home"));
        fs::create_dir_all(cwd.join(".github/copilot")).unwrap();
        fs::create_dir_all(&home).unwrap();
        let own = |model: Option<&str>, service: Option<&str>| {
            let variables = |name: &str| match name {
                "COPILOT_HOME" => Some(home.clone().into_os_string()),
                "COPILOT_MODEL" => model.map(OsString::from),
                "COPILOT_PROVIDER_BASE_URL" => service.map(OsString::from),
                _ => None,
            };
            (own_model(&cwd, &variables), own_effort(&cwd, &variables))
        };
        let named = |name: &str| Own::Named(name.to_owned());
        assert_eq!(own(None, None), (Own::Unknown, Own::Unknown));
        assert_eq!(own(Some("m"), Some("http://127.0.0.1")), (named("m"), named("none")));
        fs::write(home.join("settings.json"), r#"{"model": "s", "effortLevel": "low"}"#).unwrap();
        assert_eq!(own(None, Some("http://127.0.0.1")), (named("s"), named("low")));
        fs::write(cwd.join(".github/copilot/settings.json"), r#"{"model": "of the repository"}"#).unwrap();
        assert_eq!(own(None, None), (Own::Unknown, Own::Unknown));
    }

    #[test]
    fn a_conversation_is_continued_itself() {
        let program = of_kind("copilot");
        let start = "--output-format json --no-color --no-ask-user --allow-tool=write";
        let fresh = Turn { session: Some("s1".to_owned()), ..Turn::default() };
        assert_eq!(program.invocation(&fresh).unwrap().args.join(" "), format!("{start} --session-id s1"));
        let continues = Some(Continued { session: "s1".to_owned(), ..Continued::default() });
        let turn = Turn { continues, ..fresh };
        assert!(turn.is_in_place());
        assert_eq!(program.invocation(&turn).unwrap().args.join(" "), format!("{start} --resume=s1"));
    }
}
