//! Any program that speaks the Agent Client Protocol on its stdin and stdout, a process for each turn.
//!
//! What such a program can do is known only once it runs, so that its settings have to say whether it branches
//! conversations. A program that does not announce what a turn needs is not asked: no money is spent.
//!
//! The messages are written and read here, because the crate with their types makes every JSON object of the program keep
//! the order of its fields (`preserve_order` of `serde_json`), and only a dozen fields matter.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::ending::{failure, tail, unfinished};
use super::estimate::Estimate;
use super::events::{EventDecoder, EventReader, append, count, text};
use super::launcher::Launcher;
use super::lines::shortened;
use super::refusal::refusal;
use super::rpc::{Message, Rpc};
use super::{
    AgentProgram, Capabilities, Context, Cost, Inspection, Invocation, SessionId, Tokens, Turn, TurnDecoder,
    TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;
use crate::process::Input;

/// Some print nothing while they wait for a service that refuses them.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// The version of the protocol.
const PROTOCOL_VERSION: u64 = 1;

/// How many refused tools are kept.
const MOST_REFUSED: usize = 100;

/// How much of a model's name is kept.
const LONGEST_MODEL: usize = 200;

/// The code of an error that asks for a login.
const LOGIN_NEEDED: i64 = -32000;
/// The code of an error about something that is not there, such as a conversation.
const NOT_FOUND: i64 = -32002;

#[derive(Debug)]
struct Acp {
    launcher: Launcher,
    branches: bool,
}

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    if settings.command.is_none() {
        return Err("needs a `command`: the program that speaks the Agent Client Protocol".to_owned());
    }
    Ok(Arc::new(Acp { launcher: Launcher::new(settings, ""), branches: settings.branches }))
}

impl AgentProgram for Acp {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            branch: self.branches,
            session_id: SessionId::FirstEvent,
            folder_bound: true,
            skip_permissions: true,
            silence: Some(SILENCE),
            ..Capabilities::NONE
        }
    }

    fn inspection(&self) -> Option<Inspection> {
        Some(Inspection { tells_version: false, ..self.launcher.inspection(&[]) })
    }

    fn invocation(&self, _turn: &Turn) -> Result<Invocation, String> {
        Ok(self.launcher.invocation(self.launcher.arguments(), ""))
    }

    fn decoder(&self, turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(EventDecoder::new(Events::new(turn)))
    }
}

/// A turn, from the first message to the last.
#[derive(Debug)]
struct Events {
    rpc: Rpc,
    turn: Turn,
    /// Whether the prompt was sent. Before, the program may tell an earlier conversation again.
    is_asked: bool,
    /// What the agent has said since its last tool call.
    message: String,
    refused: Vec<String>,
    cost: Cost,
    /// What the turn has used, for one that does not come to its end.
    estimate: Estimate,
    model: Option<String>,
    /// How the turn ended.
    end: Option<Result<(), TurnFault>>,
}

impl Events {
    fn new(turn: &Turn) -> Self {
        let client = json!({ "name": "raymond", "version": env!("CARGO_PKG_VERSION") });
        let mut rpc = Rpc::default();
        rpc.request(
            "initialize",
            json!({ "protocolVersion": PROTOCOL_VERSION, "clientCapabilities": {}, "clientInfo": client }),
        );
        Self {
            rpc,
            turn: turn.clone(),
            is_asked: false,
            message: String::new(),
            refused: Vec::new(),
            cost: Cost::default(),
            estimate: Estimate::default(),
            model: None,
            end: None,
        }
    }

    fn answered(&mut self, method: &str, result: &Value) -> Vec<TurnEvent> {
        match method {
            "initialize" => self.begin(result),
            "session/new" | "session/fork" => {
                self.model = model(result);
                self.prompt(text(result, "/sessionId"))
            }
            "session/load" => {
                self.model = model(result);
                let session = self.turn.session.clone().unwrap_or_default();
                self.prompt(&session)
            }
            "session/prompt" => {
                let used = tokens(result);
                self.cost.tokens = used;
                let seen = self.answer(text(result, "/stopReason"));
                let used = (!used.is_zero()).then_some(TurnEvent::Usage(used));
                used.into_iter().chain(seen).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Begins the conversation, if the program can do what that needs.
    fn begin(&mut self, answer: &Value) -> Vec<TurnEvent> {
        let begun = match count(answer, "/protocolVersion") {
            PROTOCOL_VERSION => self.conversation(&answer["agentCapabilities"]),
            other => Err(format!("it speaks version {other} of the protocol, and not {PROTOCOL_VERSION}")),
        };
        match begun {
            Ok((method, params)) => {
                self.rpc.request(method, params);
                Vec::new()
            }
            Err(message) => self.ended(Err(TurnFault::BadArguments { message })),
        }
    }

    /// The request that begins or continues the conversation.
    fn conversation(&self, can: &Value) -> Result<(&'static str, Value), String> {
        let mut params = json!({ "cwd": self.turn.cwd, "mcpServers": [] });
        let Some(continued) = &self.turn.continues else { return Ok(("session/new", params)) };
        params["sessionId"] = continued.session.as_str().into();
        let (method, is_announced) = match self.turn.is_in_place() {
            true => ("session/load", can["loadSession"] == true),
            false => ("session/fork", can.pointer("/sessionCapabilities/fork").is_some_and(Value::is_object)),
        };
        match is_announced {
            true => Ok((method, params)),
            false => Err(format!("it does not announce `{method}`, which continues a conversation")),
        }
    }

    fn prompt(&mut self, session: &str) -> Vec<TurnEvent> {
        let prompt = json!([{ "type": "text", "text": self.turn.prompt }]);
        self.rpc.request("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
        self.estimate.asked(&self.turn.prompt);
        self.is_asked = true;
        vec![TurnEvent::Session(session.to_owned())]
    }

    fn answer(&mut self, stop_reason: &str) -> Vec<TurnEvent> {
        let message = tail(&self.message);
        let end = match stop_reason {
            "end_turn" => Ok(()),
            "max_tokens" => Err(TurnFault::Truncated { message }),
            "max_turn_requests" => Err(TurnFault::MaxTurns { message }),
            "refusal" => Err(TurnFault::BadRequest { message }),
            "cancelled" => Err(TurnFault::Interrupted),
            other => Err(TurnFault::Junk { detail: format!("it ended with `{}`", other.escape_debug()) }),
        };
        self.said().into_iter().chain(self.ended(end)).collect()
    }

    fn ended(&mut self, end: Result<(), TurnFault>) -> Vec<TurnEvent> {
        let is_error = end.is_err();
        self.end = Some(end);
        vec![TurnEvent::End { is_error }]
    }

    /// The message is shown when it is whole.
    fn said(&self) -> Option<TurnEvent> {
        (!self.message.is_empty()).then(|| TurnEvent::Text(self.message.clone()))
    }

    fn told(&mut self, update: &Value) -> Vec<TurnEvent> {
        match text(update, "/sessionUpdate") {
            "agent_message_chunk" if self.is_asked => {
                append(&mut self.message, text(update, "/content/text"));
                self.estimate.answered(text(update, "/content/text"));
                Vec::new()
            }
            "usage_update" if self.is_asked => {
                let (used, window) = (count(update, "/used"), count(update, "/size"));
                self.cost.context = Some(Context { used, window }).filter(|_| used > 0 && window > 0);
                let named = Some(text(update, "/_meta/_claude~1model")).filter(|model| !model.is_empty());
                self.model = named.map(|model| shortened(model, LONGEST_MODEL)).or(self.model.take());
                Vec::new()
            }
            "tool_call" if self.is_asked => {
                let said = self.said();
                self.message.clear();
                self.estimate.answered(&update["rawInput"].to_string());
                let name = shortened(text(update, "/title"), 200);
                said.into_iter().chain([TurnEvent::ToolUse { name, summary: String::new() }]).collect()
            }
            "tool_call_update" if self.is_asked && text(update, "/status") == "completed" => {
                self.estimate.asked(&update["content"].to_string());
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Reading and edits are permitted, and the rest if permissions are skipped.
    fn permit(&mut self, id: &Value, asked: &Value) -> Vec<TurnEvent> {
        let harmless = ["read", "edit", "search", "think"];
        let is_permitted = self.turn.skip_permissions || harmless.contains(&text(asked, "/toolCall/kind"));
        let wanted =
            if is_permitted { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
        let options = asked["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let chosen = wanted.iter().find_map(|kind| options.iter().find(|option| option["kind"] == **kind));
        let outcome = match chosen {
            Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
            None => json!({ "outcome": "cancelled" }),
        };
        self.rpc.answer(id, json!({ "outcome": outcome }));
        if is_permitted {
            return Vec::new();
        }
        let tool = shortened(text(asked, "/toolCall/title"), 200);
        if self.refused.len() < MOST_REFUSED && !self.refused.contains(&tool) {
            self.refused.push(tool.clone());
        }
        vec![TurnEvent::ToolRefused { tool }]
    }
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        match self.rpc.read(event) {
            Some(Message::Answer { method, result }) => self.answered(method, result),
            Some(Message::Refusal { error, .. }) => {
                let fault = fault(error);
                self.ended(Err(fault))
            }
            Some(Message::Request { id, method: "session/request_permission", params }) => {
                self.permit(id, params)
            }
            Some(Message::Request { id, .. }) => {
                self.rpc.refuse(id);
                Vec::new()
            }
            Some(Message::Notice { method: "session/update", params }) => self.told(&params["update"]),
            Some(Message::Notice { .. }) | None => Vec::new(),
        }
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn is_final(&self) -> bool {
        self.end.is_some()
    }

    fn input(&mut self) -> Input {
        Input { bytes: self.rpc.take(), is_last: self.end.is_some() }
    }

    fn finish(mut self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        // What it says before it reports a refusal is no answer of the model.
        if self.end.is_none() {
            self.cost.tokens = self.estimate.of_answers();
        }
        let is_over = matches!(ending, TurnEnding::Code(_) | TurnEnding::Signal(_) | TurnEnding::Lingered);
        let fault = match self.end {
            Some(Ok(())) if is_over && !self.message.is_empty() => {
                let cost = self.cost;
                return Ok(TurnReport { text: self.message, cost, permission_denials: self.refused });
            }
            Some(Err(fault)) => fault,
            _ => unfinished(ending, stderr, |_| None),
        };
        Err(failure(fault, self.cost, Some(self.message).filter(|message| !message.is_empty())))
    }
}

/// The model of a conversation, among the options that the program announces.
fn model(answer: &Value) -> Option<String> {
    let mut options = answer["configOptions"].as_array().into_iter().flatten();
    let chosen = text(options.find(|option| option["id"] == "model")?, "/currentValue");
    (!["", "default"].contains(&chosen)).then(|| shortened(chosen, LONGEST_MODEL))
}

/// What a turn used, as programs tell it in the answer to its prompt or beside it. Some count what came from the cache as
/// input, too, and some count thoughts beside the output; the total shows which.
fn tokens(answer: &Value) -> Tokens {
    let usage = match &answer["usage"] {
        Value::Null => &answer["_meta"]["quota"]["token_count"],
        usage => usage,
    };
    let either = |camel: &str, snake: &str| count(usage, camel).max(count(usage, snake));
    let (input, output) =
        (either("/inputTokens", "/input_tokens"), either("/outputTokens", "/output_tokens"));
    let cache_read = count(usage, "/cachedReadTokens").max(count(usage, "/cachedInputTokens"));
    let (cache_write, thoughts) = (count(usage, "/cachedWriteTokens"), count(usage, "/thoughtTokens"));
    let total = count(usage, "/totalTokens");
    let plain = Tokens { input, output, cache_write, cache_read };
    let cached = cache_read.saturating_add(cache_write);
    match input.saturating_add(output) {
        whole if whole == total => Tokens { input: input.saturating_sub(cached), ..plain },
        whole if whole.saturating_add(cached).saturating_add(thoughts) == total => {
            Tokens { output: output.saturating_add(thoughts), ..plain }
        }
        _ => plain,
    }
}

/// Agents say what went wrong in the code, in the message or in the data beside it.
fn fault(error: &Value) -> TurnFault {
    let code = error["code"].as_i64().unwrap_or_default();
    let message = match text(error, "/data/message") {
        "" => text(error, "/message").to_owned(),
        more => format!("{}: {more}", text(error, "/message")),
    };
    match code {
        LOGIN_NEEDED => TurnFault::NotLoggedIn { message },
        NOT_FOUND => TurnFault::SessionMissing { message },
        _ => {
            let status = u16::try_from(code).ok().filter(|code| (400..600).contains(code));
            let status = status.or((text(error, "/data/errorKind") == "rate_limit").then_some(429));
            refusal(status, &message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Continued;
    use super::super::suite::of_kind;
    use super::*;

    /// What the program is told after it has said this.
    fn told(decoder: &mut dyn TurnDecoder, said: &str) -> Vec<Value> {
        decoder.feed(format!("{said}\n").as_bytes());
        let bytes = decoder.input().bytes;
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    const ABLE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"fork":{}}}}}"#;
    const UNABLE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#;

    fn turn(session: Option<&str>, continues: Option<&str>) -> Turn {
        let continues = continues.map(|id| Continued { session: id.to_owned(), ..Continued::default() });
        let session = session.map(str::to_owned);
        Turn { prompt: "go".to_owned(), cwd: "/project".into(), session, continues, ..Turn::default() }
    }

    #[test]
    fn a_conversation_is_begun_continued_or_branched() {
        for (turn, method) in [
            (turn(None, None), "session/new"),
            (turn(None, Some("old")), "session/fork"),
            (turn(Some("old"), Some("old")), "session/load"),
        ] {
            let mut decoder = of_kind("acp").decoder(&turn);
            assert_eq!(told(&mut *decoder, "")[0]["method"], "initialize");
            let asked = told(&mut *decoder, ABLE);
            assert_eq!(
                (&asked[0]["method"], &asked[0]["params"]["cwd"]),
                (&method.into(), &"/project".into())
            );
            let asked = told(&mut *decoder, r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"new"}}"#);
            let session = if method == "session/load" { "old" } else { "new" };
            assert_eq!(asked[0]["params"]["sessionId"], session);
            assert_eq!(asked[0]["params"]["prompt"][0]["text"], "go");
        }
    }

    #[test]
    fn a_program_that_cannot_is_not_asked() {
        for turn in [turn(None, Some("old")), turn(Some("old"), Some("old"))] {
            let mut decoder = of_kind("acp").decoder(&turn);
            told(&mut *decoder, "");
            assert_eq!(told(&mut *decoder, UNABLE), [] as [Value; 0]);
            assert!(decoder.input().is_last);
            let failed = decoder.finish(TurnEnding::Code(0), "").unwrap_err();
            assert_eq!(failed.fault.name(), "bad_arguments", "{}", failed.fault);
        }
    }

    #[test]
    fn commands_are_permitted_only_if_permissions_are_skipped() {
        for (kind, skip_permissions, option) in
            [("execute", false, "no"), ("execute", true, "yes"), ("edit", false, "yes")]
        {
            let mut decoder = of_kind("acp").decoder(&Turn { skip_permissions, ..Turn::default() });
            told(&mut *decoder, "");
            let asked = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"t","title":"touch hi","kind":"{kind}"}},"options":[{{"optionId":"yes","name":"Yes","kind":"allow_once"}},{{"optionId":"no","name":"No","kind":"reject_once"}}]}}}}"#
            );
            let answer = &told(&mut *decoder, &asked)[0];
            assert_eq!(answer["result"]["outcome"]["optionId"], option, "{kind}: {answer}");
        }
    }
}
