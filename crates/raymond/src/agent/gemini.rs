//! Google's Gemini CLI, one process for each turn, its events as JSON lines.
//!
//! It cannot branch a conversation reliably: `--session-file` makes a branch, but a later process removes the file of
//! that branch, so that it can be continued only once. Its exit code is the status of the service's answer modulo 256.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ending::{failure, tail, unfinished};
use super::estimate::Estimate;
use super::events::{EventDecoder, EventReader, append, count, summary, text};
use super::launcher::Launcher;
use super::refusal::refusal;
use super::session::{SessionFiles, SessionPlace, inside, is_named};
use super::{
    AgentProgram, Capabilities, Cost, Filled, Inspection, Invocation, Plain, PromptLimit, Tokens, TokensTold,
    Turn, TurnDecoder, TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;
use crate::files;
use crate::store::hash_of;

/// It cuts a longer prompt without a word.
const LONGEST_PROMPT: PromptLimit = PromptLimit::Bytes(8_000_000);

/// It prints nothing while it tries again.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// Without this it starts itself a second time, and the signals that end a turn do not reach that process.
const NO_RELAUNCH: &str = "GEMINI_CLI_NO_RELAUNCH";

/// The file that says for which working folder a folder of conversations is.
const PROJECT_ROOT: &str = ".project_root";

/// The invisible character that keeps a path in a value from being read.
const ZERO_WIDTH_SPACE: char = '\u{200B}';

/// Since June 2026.
const ACCOUNTS: &str = "Gemini CLI serves only API keys and enterprise accounts";

#[derive(Debug)]
struct Gemini(Launcher);

/// What it obeys in its working folder.
pub(super) const OBEYED: &[&str] = &[".gemini/settings.json", ".gemini/extensions"];

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    Ok(Arc::new(Gemini(Launcher::new(settings, "gemini"))))
}

impl AgentProgram for Gemini {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            folder_bound: true,
            tokens: TokensTold::OfTurn,
            model: true,
            skip_permissions: true,
            prompt_limit: Some(LONGEST_PROMPT),
            silence: Some(SILENCE),
            ..Capabilities::NONE
        }
    }

    fn inspection(&self) -> Option<Inspection> {
        Some(Inspection { accounts: Some(ACCOUNTS), ..self.0.inspection(&["0.61.0"]) })
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let is_chosen = |arg: &str| arg.starts_with("--approval-mode") || arg == "--yolo" || arg == "-y";
        let mut args = self.0.arguments().words(["-o", "stream-json", "--skip-trust"]);
        if turn.skip_permissions {
            args = args.words(["--approval-mode", "yolo"]);
        } else if !self.0.has(is_chosen) {
            args = args.words(["--approval-mode", "auto_edit"]);
        }
        args = args.option("-m", &turn.model);
        args = match &turn.continues {
            Some(continued) => args.option("-r", &continued.session),
            None => args.option("--session-id", &turn.session),
        };
        Ok(Invocation {
            unset: vec!["GEMINI_CLI", "GEMINI_CLI_TRUST_WORKSPACE"],
            set: vec![(NO_RELAUNCH.to_owned(), "true".to_owned())],
            ..self.0.invocation(args, &turn.prompt)
        })
    }

    fn decoder(&self, _turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(EventDecoder::new(Events::default()))
    }

    /// It reads the file in `@path`, also from stdin and also if the `@` is inside a word.
    fn plain(&self, filled: &Filled<'_>) -> Plain {
        let mut plain = Plain::default();
        let mut done = 0;
        for value in filled.values {
            plain.text.push_str(&filled.text[done..value.start]);
            let mut pieces = filled.text[value.clone()].split('@');
            plain.text.push_str(pieces.next().unwrap_or_default());
            for piece in pieces {
                plain.text.push('@');
                if let Some(path) = read_path(piece, filled) {
                    plain.text.push(ZERO_WIDTH_SPACE);
                    plain.changed.push(format!("@{path}"));
                }
                plain.text.push_str(piece);
            }
            done = value.end;
        }
        plain.text.push_str(&filled.text[done..]);
        plain
    }

    /// The program finds conversations by its working folder, and the folder with them by a file that names it.
    fn session_files(&self, place: &SessionPlace<'_>) -> Option<SessionFiles> {
        let id = place.plain_id()?;
        let home = place.folder("GEMINI_CLI_HOME").or_else(|| place.home())?.join(".gemini");
        let cwd = place.real_cwd();
        let cwd = cwd.to_str()?;
        let project = project_folder(&home, cwd);
        let chats = project.join("chats");
        let path =
            chat(&chats, id).unwrap_or_else(|| chats.join(format!("session-moved-{}.jsonl", start_of(id))));
        Some(SessionFiles::Marked { path, marker: project.join(PROJECT_ROOT), text: cwd.to_owned() })
    }
}

/// The folder for the conversations of a working folder: the one that the program has chosen, or one with a name that it
/// would not choose.
fn project_folder(home: &Path, cwd: &str) -> PathBuf {
    let all = home.join("tmp");
    let owner =
        |project: &PathBuf| files::read_text(&project.join(PROJECT_ROOT), files::MAX_SETTINGS_BYTES).ok();
    // As the program does it, a chosen name does not count if another working folder has it.
    let chosen = chosen_name(home, cwd).map(|name| all.join(name));
    if let Some(chosen) = chosen.filter(|project| owner(project).is_none_or(|owner| owner.trim() == cwd)) {
        return chosen;
    }
    let is_of_cwd = |project: &PathBuf| owner(project).is_some_and(|owner| owner.trim() == cwd);
    let new = || all.join(format!("raymond-{}", hash_of(cwd.as_bytes())));
    inside(&all).into_iter().find(is_of_cwd).unwrap_or_else(new)
}

/// The name that the program's list has for a working folder.
fn chosen_name(home: &Path, cwd: &str) -> Option<String> {
    let list = files::read_text(&home.join("projects.json"), files::MAX_SETTINGS_BYTES).ok()?;
    let list: Value = serde_json::from_str(&list).ok()?;
    let name = list["projects"][cwd].as_str()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (!name.is_empty() && name.bytes().all(is_plain)).then(|| name.to_owned())
}

/// The file of a conversation that has an answer. When the program continues one, it leaves a file without messages
/// that has the same id.
fn chat(chats: &Path, id: &str) -> Option<PathBuf> {
    let end = format!("-{}.jsonl", start_of(id));
    let is_it = |file: &PathBuf| {
        let text = files::read_text(file, files::MAX_KEPT_BYTES).unwrap_or_default();
        let first: Option<Value> = text.lines().next().and_then(|line| serde_json::from_str(line).ok());
        first.is_some_and(|first| first["sessionId"] == id) && text.contains(r#""type":"gemini""#)
    };
    let found = inside(chats).into_iter().filter(|file| is_named(file, "session-", &end)).filter(is_it);
    found.max_by_key(|file| fs::metadata(file).and_then(|about| about.modified()).ok())
}

/// The part of an id that is in the name of its file.
fn start_of(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// The path at the start of the text after an `@`, if there is something to read.
fn read_path<'a>(after: &'a str, filled: &Filled<'_>) -> Option<&'a str> {
    let word = after.split(char::is_whitespace).next().unwrap_or_default();
    let mut path = word;
    while !path.is_empty() {
        let folders = std::iter::once(filled.cwd).chain(filled.folders.iter().map(PathBuf::as_path));
        if folders.into_iter().any(|folder| folder.join(path).exists()) {
            return Some(path);
        }
        // It leaves out punctuation at the end.
        path = path.strip_suffix(|letter: char| !letter.is_alphanumeric())?;
    }
    None
}

#[derive(Debug, Default)]
struct Events {
    model: String,
    /// What the agent has said since its last tool call.
    message: String,
    tokens: Tokens,
    /// What the calls of the model have used, estimated. It is needed only if the program tells nothing in the end.
    estimate: Estimate,
    succeeded: Option<bool>,
    error: String,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        match text(event, "/type") {
            "init" => {
                text(event, "/model").clone_into(&mut self.model);
                vec![TurnEvent::Session(text(event, "/session_id").to_owned())]
            }
            "message" if text(event, "/role") == "assistant" => {
                append(&mut self.message, text(event, "/content"));
                self.estimate.answered(text(event, "/content"));
                Vec::new()
            }
            "message" => {
                self.estimate.asked(text(event, "/content"));
                Vec::new()
            }
            "tool_use" => {
                self.estimate.answered(&event["parameters"].to_string());
                let name = text(event, "/tool_name").to_owned();
                let used = TurnEvent::ToolUse { name, summary: summary(&event["parameters"]) };
                self.said().into_iter().chain([used]).collect()
            }
            "tool_result" => {
                self.message.clear();
                self.estimate.asked(text(event, "/output"));
                Vec::new()
            }
            "error" => {
                text(event, "/message").clone_into(&mut self.error);
                Vec::new()
            }
            "result" => self.result(event),
            _ => Vec::new(),
        }
    }

    fn model(&self) -> Option<&str> {
        Some(self.model.as_str()).filter(|model| !model.is_empty())
    }

    fn is_final(&self) -> bool {
        self.succeeded == Some(true)
    }

    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let tokens = if self.succeeded.is_some() { self.tokens } else { self.estimate.tokens() };
        let cost = Cost { tokens, ..Cost::default() };
        let is_over = matches!(ending, TurnEnding::Code(_) | TurnEnding::Lingered);
        let fault = match (self.succeeded, ending) {
            (Some(true), TurnEnding::Code(0) | TurnEnding::Lingered) if !self.message.is_empty() => {
                return Ok(TurnReport { text: self.message, cost, ..TurnReport::default() });
            }
            (Some(false), _) if is_over => failed(ending, &self.error),
            _ => unfinished(ending, stderr, |stderr| by_code(ending, stderr)),
        };
        let fault = match fault {
            TurnFault::NotLoggedIn { message } => {
                TurnFault::NotLoggedIn { message: format!("{message} ({ACCOUNTS})") }
            }
            other => other,
        };
        Err(failure(fault, cost, Some(self.message).filter(|message| !message.is_empty())))
    }
}

impl Events {
    /// The message is shown when it is whole.
    fn said(&self) -> Option<TurnEvent> {
        (!self.message.is_empty()).then(|| TurnEvent::Text(self.message.clone()))
    }

    fn result(&mut self, event: &Value) -> Vec<TurnEvent> {
        let is_success = text(event, "/status") == "success";
        self.succeeded = Some(is_success);
        let error = text(event, "/error/message");
        if !error.is_empty() {
            error.clone_into(&mut self.error);
        }
        let total = count(event, "/stats/total_tokens");
        // Thoughts are paid for like output and are only in the total.
        let output = total.saturating_sub(count(event, "/stats/input_tokens"));
        let (input, cache_read) = (count(event, "/stats/input"), count(event, "/stats/cached"));
        self.tokens = Tokens { input, output, cache_write: 0, cache_read };
        let used = TurnEvent::Usage(self.tokens);
        self.said().into_iter().chain([used, TurnEvent::End { is_error: !is_success }]).collect()
    }
}

fn failed(ending: TurnEnding, error: &str) -> TurnFault {
    let status = match ending {
        TurnEnding::Code(code) => (400..600).find(|status| code > 1 && i32::from(status % 256_u16) == code),
        _ => None,
    };
    match error.contains("safety settings") {
        true => TurnFault::BadRequest { message: error.to_owned() },
        false => match refusal(status, error) {
            // Its messages about a quota also speak of billing, but the quota is one of a day or less.
            TurnFault::Forbidden { message } if status == Some(429) => {
                TurnFault::LimitReached { resets_at: None, message }
            }
            other => other,
        },
    }
}

/// Errors from before the turn have exit codes of their own.
fn by_code(ending: TurnEnding, stderr: &str) -> Option<TurnFault> {
    let TurnEnding::Code(code) = ending else { return None };
    let message = tail(stderr);
    let says = |words: &str| stderr.contains(words);
    match code {
        41 => Some(TurnFault::NotLoggedIn { message }),
        42 if says("already exists") => Some(TurnFault::SessionInUse { message }),
        42 if says("session") => Some(TurnFault::SessionMissing { message }),
        42 => Some(TurnFault::BadRequest { message }),
        55 => Some(TurnFault::BadArguments { message }),
        1 if says("Unknown argument") || says("mutually exclusive") => {
            // The first line says it; the rest is the list of all options.
            Some(TurnFault::BadArguments { message: stderr.lines().next().unwrap_or_default().to_owned() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Continued;
    use super::super::estimate::OWN_TOKENS;
    use super::super::suite::of_kind;
    use super::*;

    #[test]
    fn a_conversation_is_continued_itself() {
        let program = of_kind("gemini");
        let fresh = Turn { session: Some("s1".to_owned()), ..Turn::default() };
        let args = |turn: &Turn| program.invocation(turn).unwrap().args.join(" ");
        let start = "-o stream-json --skip-trust --approval-mode auto_edit";
        assert_eq!(args(&fresh), format!("{start} --session-id s1"));
        let continues = Some(Continued { session: "s1".to_owned(), ..Continued::default() });
        assert_eq!(args(&Turn { continues, ..fresh }), format!("{start} -r s1"));
    }

    #[test]
    fn a_killed_turn_is_estimated_from_its_texts() {
        let mut decoder = of_kind("gemini").decoder(&Turn::default());
        for line in [
            r#"{"type":"message","role":"user","content":"12345678"}"#,
            r#"{"type":"message","role":"assistant","content":"1234","delta":true}"#,
            r#"{"type":"tool_use","tool_name":"t","parameters":"12"}"#,
            r#"{"type":"tool_result","output":"1234"}"#,
            r#"{"type":"tool_result","output":"1234"}"#,
        ] {
            decoder.feed(format!("{line}\n").as_bytes());
        }
        let killed = decoder.finish(TurnEnding::Stopped, "").unwrap_err();
        let input = 2 * OWN_TOKENS + 2 + (2 + 2 + 1) + 1;
        assert_eq!(killed.cost.tokens, Tokens { input, output: 2, ..Tokens::default() });
    }

    #[test]
    fn a_path_in_a_value_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret.txt"), "s").unwrap();
        let text = "see @secret.txt: say x@secret.txt, @other and a@b.example";
        let value = 17..text.len();
        let filled = Filled { text, values: std::slice::from_ref(&value), cwd: folder.path(), folders: &[] };
        let plain = of_kind("gemini").plain(&filled);
        assert_eq!(plain.text, "see @secret.txt: say x@\u{200B}secret.txt, @other and a@b.example");
        assert_eq!(plain.changed, ["@secret.txt"]);
    }

    #[test]
    fn the_folder_of_another_project_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let project = |name: &str| home.path().join("tmp").join(name);
        let own = |name: &str, cwd: &str| {
            fs::create_dir_all(project(name)).unwrap();
            fs::write(project(name).join(PROJECT_ROOT), cwd).unwrap();
        };
        let list = |name: &str| {
            let list = serde_json::json!({ "projects": { "/a/w": name } });
            fs::write(home.path().join("projects.json"), list.to_string()).unwrap();
        };
        let new = project_folder(home.path(), "/a/w");
        assert!(is_named(&new, "raymond-", ""), "{}", new.display());
        for outside in ["../x", "/x", "..", ""] {
            list(outside);
            assert_eq!(project_folder(home.path(), "/a/w"), new, "{outside}");
        }
        list("w");
        assert_eq!(project_folder(home.path(), "/a/w"), project("w"));
        own("w", "/b/w");
        assert_eq!(project_folder(home.path(), "/a/w"), new);
        own("w-1", "/a/w");
        assert_eq!(project_folder(home.path(), "/a/w"), project("w-1"));
    }

    #[test]
    fn a_file_without_an_answer_is_not_the_conversation() {
        let folder = tempfile::tempdir().unwrap();
        let id = "11111111-1111-4111-8111-111111111111";
        let write = |name: &str, id: &str, rest: &str| {
            let file = folder.path().join(name);
            fs::write(&file, format!("{{\"sessionId\":\"{id}\"}}\n{rest}\n")).unwrap();
            file
        };
        let answer = r#"{"id":"x","type":"gemini","content":"yes"}"#;
        let own = write("session-1-11111111.jsonl", id, answer);
        write("session-2-11111111.jsonl", id, r#"{"$set":{"messages":[]}}"#);
        write("session-3-11111111.jsonl", "11111111-2", answer);
        write("session-4-22222222.jsonl", id, answer);
        assert_eq!(chat(folder.path(), id), Some(own));
    }
}
