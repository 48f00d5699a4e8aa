//! OpenAI's Codex CLI: `codex app-server` for each turn or, where that is missing, `codex exec`.
//!
//! It keeps nothing of an earlier turn but the conversation, so every turn gives all of its settings. Its tokens are
//! those of the whole session, and a branch begins with those of its parent. Conversations of both commands are the same.

mod app_server;
mod exec;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::events::{EventDecoder, EventReader};
use super::launcher::Launcher;
use super::session::{SessionFiles, SessionPlace, inside, is_named};
use super::{
    AgentProgram, Capabilities, Inspection, Invocation, PromptLimit, SessionId, TokensTold, Turn,
    TurnDecoder, TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;
use crate::files::open_plain;
use crate::process::Input;
use app_server::{Server, Settings};

/// It refuses a longer prompt.
const LONGEST_PROMPT: PromptLimit = PromptLimit::Characters(1_048_576);

/// It waits for a service that asks it to, for hours, and prints one line at the start of the wait.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// How much of a conversation's file is read to see what it branched off. Its first line also has the instructions.
const LONGEST_FIRST_LINE: u64 = 16 * 1024 * 1024;

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
struct Codex {
    launcher: Launcher,
    /// Whether turns are run by `app-server`.
    has_server: Arc<AtomicBool>,
}

/// What it obeys in its working folder.
pub(super) const OBEYED: &[&str] = &[".codex/config.toml", ".codex/hooks.json"];

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    let launcher = Launcher::new(settings, "codex");
    let has_server = Arc::new(AtomicBool::new(!launcher.has(is_for_exec)));
    Ok(Arc::new(Codex { launcher, has_server }))
}

/// Whether an argument of the settings has no meaning to `app-server`, so that `exec` has to be used.
fn is_for_exec(arg: &str) -> bool {
    arg.starts_with('-')
        && !["-c", "--config", "--enable", "--disable"].contains(&arg)
        && !arg.starts_with("--config=")
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
        let inspection = self.launcher.inspection(&["0.166.0", "0.169.0"]);
        Some(Inspection { login: Some(&["login", "status"]), ..inspection })
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let invocation = match self.has_server.load(Ordering::Relaxed) {
            // All that the turn needs is told to it, see `decoder`.
            true => self.launcher.invocation(self.launcher.arguments().words(["app-server"]), ""),
            false => self.exec(turn),
        };
        Ok(Invocation { unset: SURROUNDING_SESSION.to_vec(), ..invocation })
    }

    fn decoder(&self, turn: &Turn) -> Box<dyn TurnDecoder> {
        let sandbox = match turn.skip_permissions {
            true => Some("danger-full-access"),
            false => Some("workspace-write").filter(|_| !self.launcher.has(is_sandbox)),
        };
        let settings = Settings { turn: turn.clone(), sandbox };
        Box::new(EventDecoder::new(Events {
            is_talked_to: self.has_server.load(Ordering::Relaxed),
            server: Server::new(settings, Arc::clone(&self.has_server)),
            exec: exec::Events::new(turn),
        }))
    }

    /// The program looks for the id at the end of all names, so a file has the same name everywhere.
    fn session_files(&self, place: &SessionPlace<'_>) -> Option<SessionFiles> {
        let id = place.plain_id()?;
        let home = place.folder("CODEX_HOME").or_else(|| Some(place.home()?.join(".codex")))?;
        let folder = home.join("sessions");
        let files = lineage(&rollouts(&folder), id).unwrap_or_default();
        Some(SessionFiles::Lineage { folder, files })
    }
}

/// The files of all conversations, in folders of their years, months and days.
fn rollouts(sessions: &Path) -> Vec<PathBuf> {
    let days = inside(sessions).into_iter().flat_map(|year| inside(&year)).flat_map(|month| inside(&month));
    days.flat_map(|day| inside(&day)).filter(|file| is_named(file, "rollout-", ".jsonl")).collect()
}

/// The file of a conversation and those that it branched off: the file of a branch has only what came after. Nothing if one
/// of them is missing.
fn lineage(rollouts: &[PathBuf], id: &str) -> Option<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut next = Some(id.to_owned());
    while let Some(id) = next {
        let end = format!("-{id}.jsonl");
        let file = rollouts.iter().find(|file| is_named(file, "", &end))?;
        // Damaged files might name each other.
        if files.contains(file) {
            return None;
        }
        files.push(file.clone());
        next = branched_off(file)?;
    }
    Some(files)
}

/// The conversation that a file's first line says it continues, if any; `None` if that cannot be read.
fn branched_off(file: &Path) -> Option<Option<String>> {
    let mut line = Vec::new();
    BufReader::new(open_plain(file).ok()?.take(LONGEST_FIRST_LINE)).read_until(b'\n', &mut line).ok()?;
    let first: Value = serde_json::from_slice(&line).ok()?;
    Some(first["payload"]["history_base"]["thread_id"].as_str().map(str::to_owned))
}

fn is_sandbox(arg: &str) -> bool {
    arg == "-s" || arg.starts_with("--sandbox") || arg.contains("sandbox_mode")
}

impl Codex {
    fn exec(&self, turn: &Turn) -> Invocation {
        let mut args = self.launcher.arguments().words(["exec", "--json", "--skip-git-repo-check"]);
        // A branch does not take this flag, so it comes before.
        if turn.skip_permissions {
            args = args.words(["--dangerously-bypass-approvals-and-sandbox"]);
        } else if !self.launcher.has(is_sandbox) {
            args = args.words(["-s", "workspace-write"]);
        }
        for (name, value) in [("model", &turn.model), ("model_reasoning_effort", &turn.effort)] {
            let set = value.clone().map(|value| format!("{name}={}", toml::Value::String(value)));
            args = args.option("-c", &set);
        }
        args = args.option("fork", turn.continues.as_ref().map(|continued| &continued.session)).words(["-"]);
        self.launcher.invocation(args, &turn.prompt)
    }
}

/// Reads the output of either command, because the output of an earlier run may be that of the other.
#[derive(Debug)]
struct Events {
    /// Whether the program waits for messages.
    is_talked_to: bool,
    server: Server,
    exec: exec::Events,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        match event.get("type") {
            Some(_) => self.exec.event(event),
            None => self.server.event(event),
        }
    }

    fn is_final(&self) -> bool {
        self.exec.is_final() || self.server.is_over()
    }

    fn waits_for_service(&self) -> bool {
        self.exec.waits_for_service() || self.server.waits_for_service()
    }

    fn model(&self) -> Option<&str> {
        self.server.model()
    }

    fn input(&mut self) -> Input {
        match self.is_talked_to {
            true => {
                let is_last = self.server.is_over() || self.exec.is_heard();
                Input { bytes: self.server.outgoing(), is_last }
            }
            false => Input::default(),
        }
    }

    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        match self.is_talked_to || self.server.is_heard() {
            true if !self.exec.is_heard() => self.server.finish(ending, stderr),
            _ => self.exec.finish(ending, stderr),
        }
    }
}

fn is_about_unknown_thread(message: &str) -> bool {
    ["no rollout found", "missing source rollout", "thread not found"]
        .iter()
        .any(|words| message.contains(words))
}

fn by_stderr(stderr: &str) -> Option<TurnFault> {
    let message = super::ending::tail(stderr);
    if is_about_unknown_thread(stderr) {
        return Some(TurnFault::SessionMissing { message });
    }
    let is_refused = ["unexpected argument", "error: ", "Model provider", "Error loading config"];
    is_refused.iter().any(|words| stderr.contains(words)).then_some(TurnFault::BadArguments { message })
}

#[cfg(test)]
mod tests {
    use super::super::suite::ended;
    use super::super::{Continued, Tokens};
    use super::*;

    fn with_args(args: &[&str]) -> Arc<dyn AgentProgram> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        program(&BackendSettings { args, ..BackendSettings::default() }).unwrap()
    }

    fn branch() -> Turn {
        Turn {
            prompt: "go".to_owned(),
            model: Some("gpt-5".to_owned()),
            effort: Some("high".to_owned()),
            continues: Some(Continued { session: "t1".to_owned(), ..Continued::default() }),
            ..Turn::default()
        }
    }

    #[test]
    fn every_setting_is_given_in_every_turn() {
        let program = with_args(&["--search"]);
        let expected = "--search exec --json --skip-git-repo-check -s workspace-write -c model=\"gpt-5\" -c \
                        model_reasoning_effort=\"high\" fork t1 -";
        assert_eq!(program.invocation(&branch()).unwrap().args.join(" "), expected);
        let skip = Turn { skip_permissions: true, ..Turn::default() };
        let args = program.invocation(&skip).unwrap().args.join(" ");
        let expected =
            "--search exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -";
        assert_eq!(args, expected);
    }

    /// What the program is told after it has said this.
    fn told(decoder: &mut dyn TurnDecoder, said: &str) -> Vec<Value> {
        decoder.feed(format!("{said}\n").as_bytes());
        let bytes = decoder.input().bytes;
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    const INITIALIZED: &str = r#"{"id":1,"result":{}}"#;

    #[test]
    fn a_turn_of_the_server_is_a_branch_with_all_settings() {
        let program = with_args(&["-c", "x=1"]);
        assert_eq!(program.invocation(&branch()).unwrap().args, ["-c", "x=1", "app-server"]);
        let mut decoder = program.decoder(&branch());
        assert_eq!(told(&mut *decoder, "")[0]["method"], "initialize");
        let asked = told(&mut *decoder, INITIALIZED);
        assert_eq!(
            (&asked[0]["method"], &asked[1]["method"]),
            (&"initialized".into(), &"thread/fork".into())
        );
        let params = &asked[1]["params"];
        assert_eq!((&params["threadId"], &params["sandbox"]), (&"t1".into(), &"workspace-write".into()));
        let asked = told(&mut *decoder, r#"{"id":2,"result":{"thread":{"id":"t2","forkedFromId":"t1"}}}"#);
        let params = &asked[0]["params"];
        assert_eq!((&asked[0]["method"], &params["threadId"]), (&"turn/start".into(), &"t2".into()));
        assert_eq!((&params["model"], &params["effort"]), (&"gpt-5".into(), &"high".into()));
        assert!(!decoder.input().is_last);
        told(&mut *decoder, r#"{"method":"turn/completed","params":{"turn":{"status":"failed"}}}"#);
        assert!(decoder.input().is_last, "the program ends when its stdin is closed");
    }

    #[test]
    fn a_new_thread_is_not_a_branch() {
        let mut decoder = with_args(&[]).decoder(&branch());
        told(&mut *decoder, INITIALIZED);
        let asked = told(&mut *decoder, r#"{"id":2,"result":{"thread":{"id":"t2","forkedFromId":null}}}"#);
        assert_eq!(asked, [] as [Value; 0], "no money is spent");
        let failed = decoder.finish(TurnEnding::Code(0), "").unwrap_err();
        assert!(matches!(failed.fault, TurnFault::SessionMismatch { .. }), "{}", failed.fault);
    }

    #[test]
    fn without_a_server_the_next_turn_is_run_by_exec() {
        let program = with_args(&[]);
        let decoder = program.decoder(&Turn::default());
        let failed =
            decoder.finish(TurnEnding::Code(2), "error: unrecognized subcommand 'app-server'").unwrap_err();
        assert_eq!(failed.fault.name(), "failed");
        assert!(program.invocation(&Turn::default()).unwrap().args.contains(&"exec".to_owned()));
        assert!(program.decoder(&Turn::default()).input().is_last);
    }

    #[test]
    fn the_end_of_a_limit_is_the_last_that_is_used_up() {
        let mut decoder = with_args(&[]).decoder(&Turn::default());
        for line in [
            r#"{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":100,"resetsAt":7},"secondary":{"usedPercent":60,"resetsAt":9}}}}"#,
            r#"{"method":"turn/completed","params":{"turn":{"status":"failed","error":{"message":"x","codexErrorInfo":"usageLimitExceeded"}}}}"#,
        ] {
            told(&mut *decoder, line);
        }
        let failed = decoder.finish(TurnEnding::Code(0), "").unwrap_err();
        assert_eq!(failed.fault, TurnFault::LimitReached { resets_at: Some(7), message: "x".to_owned() });
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

    #[test]
    fn a_branch_is_there_only_with_those_that_it_branched_off() {
        let root = tempfile::tempdir().unwrap();
        let day = root.path().join("2026/11/18");
        std::fs::create_dir_all(&day).unwrap();
        let write = |id: &str, base: Option<&str>| {
            let file = day.join(format!("rollout-2026-11-18T04-33-12-{id}.jsonl"));
            let first = serde_json::json!({ "payload": { "history_base": { "thread_id": base } } });
            std::fs::write(&file, format!("{first}\n{{}}\n")).unwrap();
            file
        };
        let found = |id: &str| lineage(&rollouts(root.path()), id);
        let last = write("c3", Some("b2"));
        assert_eq!(found("c3"), None);
        let middle = write("b2", Some("a1"));
        let first = write("a1", None);
        assert_eq!(found("c3"), Some(vec![last, middle, first.clone()]));
        assert_eq!(found("a1"), Some(vec![first]));
        write("a1", Some("c3"));
        assert_eq!(found("c3"), None, "they name each other");
    }
}
