//! `codex app-server`: JSON-RPC on its stdin and stdout. A process is started for each turn, and ends when its stdin is
//! closed.
//!
//! It tells more than `exec`: why a turn failed as a code, when a limit ends, and the tokens after each answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{by_stderr, is_about_unknown_thread};
use crate::agent::ending::{failure, unfinished};
use crate::agent::events::{count, text};
use crate::agent::lines::shortened;
use crate::agent::refusal::{limit, refusal};
use crate::agent::rpc::{Message, Rpc};
use crate::agent::{Context, Cost, Tokens, Turn, TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport};

/// What a thread is told to be, in the words of the program.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) turn: Turn,
    /// `None` if the backend's own arguments choose one.
    pub(super) sandbox: Option<&'static str>,
}

/// A turn, from the first message to the last.
#[derive(Debug)]
pub(super) struct Server {
    rpc: Rpc,
    settings: Settings,
    /// Whether the program has this command, for the turns after this one.
    is_there: Arc<AtomicBool>,
    /// Whether the program has said anything.
    is_heard: bool,
    /// The id of the turn in the program.
    turn_id: String,
    message: Option<String>,
    tokens: Tokens,
    /// The model that it chose.
    model: Option<String>,
    context: Option<Context>,
    compacted: bool,
    /// When the limits end that are used up.
    resets_at: Option<i64>,
    /// Why it tries again.
    retries: Option<TurnFault>,
    /// How the turn ended.
    end: Option<Result<(), TurnFault>>,
}

impl Server {
    pub(super) fn new(settings: Settings, is_there: Arc<AtomicBool>) -> Self {
        let mut rpc = Rpc::default();
        let client = json!({ "name": "raymond", "title": "Raymond", "version": env!("CARGO_PKG_VERSION") });
        rpc.request("initialize", json!({ "clientInfo": client }));
        Self {
            rpc,
            settings,
            is_there,
            is_heard: false,
            turn_id: String::new(),
            message: None,
            tokens: Tokens::default(),
            model: None,
            context: None,
            compacted: false,
            resets_at: None,
            retries: None,
            end: None,
        }
    }

    pub(super) fn is_heard(&self) -> bool {
        self.is_heard
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    pub(super) fn waits_for_service(&self) -> bool {
        self.end.is_none() && matches!(self.retries, Some(TurnFault::LimitReached { .. }))
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn outgoing(&mut self) -> Vec<u8> {
        self.rpc.take()
    }

    pub(super) fn event(&mut self, line: &Value) -> Vec<TurnEvent> {
        match self.rpc.read(line) {
            Some(Message::Answer { method, result }) => {
                self.is_heard = true;
                self.answered(method, result)
            }
            Some(Message::Refusal { method, error }) => {
                self.is_heard = true;
                let fault = refused(method, text(error, "/message"));
                self.ended(Err(fault))
            }
            Some(Message::Request { id, .. }) => {
                // No approval is asked for, because the turn was started without.
                self.rpc.refuse(id);
                Vec::new()
            }
            Some(Message::Notice { method, params }) => {
                self.is_heard = true;
                self.told(method, params)
            }
            None => Vec::new(),
        }
    }

    fn answered(&mut self, method: &str, result: &Value) -> Vec<TurnEvent> {
        match method {
            "initialize" => {
                self.rpc.notify("initialized", json!({}));
                self.begin_thread();
                Vec::new()
            }
            "thread/start" | "thread/fork" => {
                self.model =
                    Some(text(result, "/model")).filter(|model| !model.is_empty()).map(str::to_owned);
                self.thread_begun(&result["thread"])
            }
            "turn/start" => {
                text(result, "/turn/id").clone_into(&mut self.turn_id);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn begin_thread(&mut self) {
        let turn = &self.settings.turn;
        let mut params = json!({
            "cwd": turn.cwd, "model": turn.model, "sandbox": self.settings.sandbox, "approvalPolicy": "never",
        });
        match &turn.continues {
            Some(continued) => {
                params["threadId"] = continued.session.as_str().into();
                params["excludeTurns"] = true.into();
                self.rpc.request("thread/fork", params);
            }
            None => self.rpc.request("thread/start", params),
        }
    }

    fn thread_begun(&mut self, thread: &Value) -> Vec<TurnEvent> {
        let id = text(thread, "/id").to_owned();
        let session = TurnEvent::Session(id.clone());
        let turn = &self.settings.turn;
        let parent = text(thread, "/forkedFromId");
        if let Some(continued) = turn.continues.as_ref().filter(|continued| continued.session != parent) {
            let asked = format!("a branch of {}", continued.session);
            let fault = TurnFault::SessionMismatch { asked, got: format!("{id} (a new conversation)") };
            return [session].into_iter().chain(self.ended(Err(fault))).collect();
        }
        let params = json!({
            "threadId": id, "input": [{ "type": "text", "text": turn.prompt }],
            "model": turn.model, "effort": turn.effort,
        });
        self.rpc.request("turn/start", params);
        vec![session]
    }

    fn told(&mut self, method: &str, params: &Value) -> Vec<TurnEvent> {
        if method.starts_with("item/") {
            self.retries = None;
        }
        match method {
            "item/started" => tool(&params["item"]).into_iter().collect(),
            "item/completed" if text(params, "/item/type") == "agentMessage" => {
                let message = text(params, "/item/text").to_owned();
                self.message = Some(message.clone());
                vec![TurnEvent::Text(message)]
            }
            "thread/compacted" => {
                self.compacted = true;
                Vec::new()
            }
            "item/completed" if text(params, "/item/type") == "contextCompaction" => {
                self.compacted = true;
                Vec::new()
            }
            "thread/tokenUsage/updated" => self.used(params),
            "account/rateLimits/updated" => {
                let limits = &params["rateLimits"];
                self.resets_at =
                    [&limits["primary"], &limits["secondary"]].into_iter().filter_map(end_of_limit).max();
                self.resets_at
                    .map(|time| TurnEvent::Limit { reached: true, resets_at: Some(time) })
                    .into_iter()
                    .collect()
            }
            "error" if params["willRetry"] == true => {
                let error = &params["error"];
                self.retries = Some(self.fault(error));
                let error = shortened(&why(error), 200);
                vec![TurnEvent::Retrying { attempt: 0, of: 0, error }]
            }
            "turn/completed" => self.completed(&params["turn"]),
            _ => Vec::new(),
        }
    }

    /// Its figures are those of the whole thread. A branch begins with those of its parent.
    fn used(&mut self, params: &Value) -> Vec<TurnEvent> {
        let usage = &params["tokenUsage"];
        self.tokens = tokens(&usage["total"]);
        let (used, window) = (count(usage, "/last/totalTokens"), count(usage, "/modelContextWindow"));
        self.context = (used > 0 && window > 0).then_some(Context { used, window });
        let is_this_turn = text(params, "/turnId") == self.turn_id;
        is_this_turn.then(|| TurnEvent::Usage(tokens(&params["tokenUsage"]["last"]))).into_iter().collect()
    }

    fn completed(&mut self, turn: &Value) -> Vec<TurnEvent> {
        let end = match text(turn, "/status") {
            "completed" => Ok(()),
            "interrupted" => Err(TurnFault::Interrupted),
            _ => Err(self.fault(&turn["error"])),
        };
        self.ended(end)
    }

    fn ended(&mut self, end: Result<(), TurnFault>) -> Vec<TurnEvent> {
        let is_error = end.is_err();
        self.end = Some(end);
        vec![TurnEvent::End { is_error }]
    }

    /// Why the service refused, by the program's own code: a word, or an object with one field.
    fn fault(&self, error: &Value) -> TurnFault {
        let message = why(error);
        let info = &error["codexErrorInfo"];
        let status = info.as_object().and_then(|info| info.values().next());
        let status = status
            .map(|details| count(details, "/httpStatusCode"))
            .and_then(|status| u16::try_from(status).ok());
        match info.as_str().unwrap_or_default() {
            "usageLimitExceeded" => limit(self.resets_at, message),
            "rateLimitExceeded" => refusal(Some(429), &message),
            "unauthorized" => TurnFault::NotLoggedIn { message },
            "contextWindowExceeded" => TurnFault::TooLong { message },
            "modelNotFound" => TurnFault::UnknownModel { message },
            "serverOverloaded" | "internalServerError" => TurnFault::Overloaded { message },
            _ => refusal(status.filter(|status| *status > 0), &message),
        }
    }

    pub(super) fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let (context, compacted) = (self.context, self.compacted);
        let cost = Cost { tokens: self.tokens, context, compacted, ..Cost::default() };
        let is_missing = !self.is_heard && is_missing(ending, stderr);
        let fault = match (self.end, ending) {
            (Some(Ok(())), TurnEnding::Code(0) | TurnEnding::Lingered) => match self.message {
                Some(text) => return Ok(TurnReport { text, cost, ..TurnReport::default() }),
                None => TurnFault::Junk { detail: "the agent said nothing".to_owned() },
            },
            (Some(Err(fault)), _) => fault,
            (None, TurnEnding::Silent(_) | TurnEnding::Lingered) => match self.retries {
                // It waits for the end of a limit, and would do so for hours.
                Some(fault @ TurnFault::LimitReached { .. }) => fault,
                _ => unfinished(ending, stderr, by_stderr),
            },
            _ if is_missing => {
                self.is_there.store(false, Ordering::Relaxed);
                let message = "this version has no `app-server`; its turns are run with `exec` from now on";
                TurnFault::Failed { message: message.to_owned() }
            }
            _ => unfinished(ending, stderr, by_stderr),
        };
        Err(failure(fault, cost, self.message))
    }
}

/// While it connects again, the reason is only in the details.
fn why(error: &Value) -> String {
    match text(error, "/additionalDetails") {
        "" => text(error, "/message").to_owned(),
        details => details.to_owned(),
    }
}

/// Old versions take the command's name for a prompt, or do not know it.
fn is_missing(ending: TurnEnding, stderr: &str) -> bool {
    let unknown = ["unrecognized subcommand", "unexpected argument 'app-server'", "not a terminal"];
    matches!(ending, TurnEnding::Code(code) if code != 0)
        && unknown.iter().any(|words| stderr.contains(words))
}

fn refused(method: &str, message: &str) -> TurnFault {
    match method {
        "thread/fork" if is_about_unknown_thread(message) => {
            TurnFault::SessionMissing { message: message.to_owned() }
        }
        _ => refusal(None, message),
    }
}

/// When a limit ends that is used up.
fn end_of_limit(window: &Value) -> Option<i64> {
    let is_used_up = window["usedPercent"].as_f64().is_some_and(|percent| percent >= 100.0);
    window["resetsAt"].as_i64().filter(|_| is_used_up)
}

fn tool(item: &Value) -> Option<TurnEvent> {
    let (name, summary) = match text(item, "/type") {
        "commandExecution" => ("shell", text(item, "/command")),
        "fileChange" => ("edit", text(item, "/changes/0/path")),
        "mcpToolCall" => (text(item, "/tool"), ""),
        "webSearch" => ("web_search", text(item, "/query")),
        _ => return None,
    };
    Some(TurnEvent::ToolUse { name: name.to_owned(), summary: shortened(summary, 200) })
}

/// Its input contains what came from the cache and what was written to it.
fn tokens(usage: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (count(usage, "/cachedInputTokens"), count(usage, "/cacheWriteInputTokens"));
    let input = count(usage, "/inputTokens").saturating_sub(cache_read).saturating_sub(cache_write);
    Tokens { input, output: count(usage, "/outputTokens"), cache_write, cache_read }
}
