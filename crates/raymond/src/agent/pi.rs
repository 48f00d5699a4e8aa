//! pi, one process for each turn, its events as JSON lines. Its exit code says nothing about a turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::ending::{failure, tail, unfinished};
use super::events::{EventDecoder, EventReader, amount, append, count, summary, text};
use super::kept::{Kept, Own, SettingsFile, Variables, folder, inherited};
use super::launcher::Launcher;
use super::lines::shortened;
use super::refusal::refusal;
use super::session::{SessionFiles, SessionPlace, inside, is_named};
use super::{
    AgentProgram, Capabilities, Cost, Inspection, Invocation, Tokens, Turn, TurnDecoder, TurnEnding,
    TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;

/// The effort of a new conversation for which nothing is chosen.
const OWN_EFFORT: &str = "medium";

const EFFORTS: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Variables of a surrounding session.
const SURROUNDING_SESSION: &[&str] =
    &["PI_CODING_AGENT", "PI_SESSION_ID", "PI_SESSION_FILE", "PI_MODEL", "PI_PROVIDER", "PI_REASONING_LEVEL"];

#[derive(Debug)]
struct Pi(Launcher);

/// What it obeys in its working folder.
pub(super) const OBEYED: &[&str] = &[".pi/settings.json", ".pi/extensions"];

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
            tells_servers: false,
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
            .option("--model", &self.model(turn)?)
            .option("--thinking", &self.effort(turn)?)
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

impl Pi {
    fn model(&self, turn: &Turn) -> Result<Option<String>, String> {
        let is_in_args = self.0.has(|arg| arg == "--model" || arg == "--models" || arg == "--provider");
        Kept::model(turn, is_in_args).told(|| match own_settings(&turn.cwd, &inherited) {
            Some(settings) if !settings.may_have(&["enabledModels"]) => {
                let chosen = settings.text("defaultProvider").zip(settings.text("defaultModel"));
                chosen.map_or(Own::Unknown, |(provider, model)| Own::Named(format!("{provider}/{model}")))
            }
            _ => Own::Unknown,
        })
    }

    /// A model may have been chosen together with an effort: `MODEL:EFFORT`.
    fn effort(&self, turn: &Turn) -> Result<Option<String>, String> {
        let names_both = |model: &String| model.contains(':');
        if turn.model.as_ref().is_some_and(names_both) {
            return Ok(turn.effort.clone());
        }
        let last_model = turn.continues.as_ref().and_then(|last| last.model.as_ref());
        let mut effort = Kept::effort(turn, self.0.has(|arg| arg == "--thinking"));
        effort.of_last = effort.of_last.or(last_model.filter(|model| names_both(model)));
        effort.told(|| match own_settings(&turn.cwd, &inherited) {
            Some(settings) if !settings.may_have(&["modelThinkingLevels", "enabledModels"]) => {
                Own::Named(settings.text("defaultThinkingLevel").unwrap_or_else(|| OWN_EFFORT.to_owned()))
            }
            _ => Own::Unknown,
        })
    }
}

/// The user's settings. Nothing if the project has some that may decide, because whether they count depends on what the user has told
/// the program about the project.
fn own_settings(cwd: &Path, variables: Variables<'_>) -> Option<SettingsFile> {
    let may_decide =
        ["defaultProvider", "defaultModel", "defaultThinkingLevel", "modelThinkingLevels", "enabledModels"];
    let of_project = SettingsFile::read(&cwd.join(".pi/settings.json"));
    let home = folder(variables, "PI_CODING_AGENT_DIR", ".pi/agent")
        .filter(|_| !of_project.may_have(&may_decide))?;
    Some(SettingsFile::read(&home.join("settings.json")))
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
    use std::fs;

    use super::super::Continued;
    use super::super::suite::of_kind;
    use super::*;

    #[test]
    fn settings_of_a_project_decide_only_with_its_users_word() {
        let folder = tempfile::tempdir().unwrap();
        let (cwd, home) = (folder.path().join("project"), folder.path().join("home"));
        fs::create_dir_all(cwd.join(".pi")).unwrap();
        fs::create_dir_all(&home).unwrap();
        let found = || {
            own_settings(&cwd, &|name| (name == "PI_CODING_AGENT_DIR").then(|| home.clone().into_os_string()))
        };
        assert_eq!(found(), Some(SettingsFile::Missing));
        fs::write(home.join("settings.json"), r#"{"defaultModel": "m"}"#).unwrap();
        fs::write(cwd.join(".pi/settings.json"), r#"{"theme": "dark"}"#).unwrap();
        assert_eq!(found().unwrap().text("defaultModel").as_deref(), Some("m"));
        fs::write(cwd.join(".pi/settings.json"), r#"{"defaultModel": "other"}"#).unwrap();
        assert_eq!(found(), None);
    }

    #[test]
    fn a_continued_turn_is_a_branch_in_a_chosen_session() {
        let continues = Some(Continued { session: "old".to_owned(), ..Continued::default() });
        let turn = Turn { continues, session: Some("new".to_owned()), ..Turn::default() };
        let args = of_kind("pi").invocation(&turn).unwrap().args.join(" ");
        assert_eq!(args, "-p --mode json --fork old --session-id new");
    }
}
