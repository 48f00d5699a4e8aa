//! Any program that reads a prompt on stdin and prints a reply.
//!
//! Everything that it prints to stdout is the reply, and an exit code other than 0 is a failure. Each turn is a new
//! conversation, unless `resume_args` in its settings say how one is continued. What the turn has used it may tell on stderr.

use std::io::{self, Read};
use std::sync::Arc;

use serde_json::Value;

use super::ending::{failure, unfinished};
use super::events::{amount, count, text};
use super::lines::{shortened, take_lines};
use super::program::read_lost_turn;
use super::{
    AgentProgram, Capabilities, Context, Cost, Counting, Inspection, Invocation, Tokens, Turn, TurnDecoder,
    TurnEnding, TurnEvent, TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;

/// In arguments: the id of the conversation. In `resume_args` it is the conversation to continue.
const SESSION: &str = "{session}";
/// In `resume_args`: the id of the branch, for a program that can leave the conversation as it was.
const NEW_SESSION: &str = "{new_session}";
/// The variable with the id of the conversation in which the turn runs.
const VARIABLE: &str = "RAYMOND_SESSION";

/// How a line on stderr begins that tells what the turn has used.
const USAGE: &str = "raymond-usage:";

/// A longer reply fails the turn.
const LONGEST_REPLY: usize = 16 * 1024 * 1024;

#[derive(Debug)]
struct Command {
    command: String,
    args: Vec<String>,
    resume_args: Vec<String>,
}

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    let Some(command) = settings.command.clone() else {
        return Err("needs a `command`: the program that reads a prompt and prints a reply".to_owned());
    };
    let (args, resume_args) = (settings.args.clone(), settings.resume_args.clone());
    if !resume_args.is_empty() && !mention(&resume_args, SESSION) {
        return Err(format!(
            "has `resume_args` without `{SESSION}`, the place for the id of the conversation to continue"
        ));
    }
    if mention(&args, NEW_SESSION) {
        return Err(format!("has `{NEW_SESSION}` in its `args`; it belongs in `resume_args`"));
    }
    Ok(Arc::new(Command { command, args, resume_args }))
}

fn mention(args: &[String], placeholder: &str) -> bool {
    args.iter().any(|arg| arg.contains(placeholder))
}

impl AgentProgram for Command {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: !self.resume_args.is_empty(),
            branch: mention(&self.resume_args, NEW_SESSION),
            ..Capabilities::NONE
        }
    }

    fn inspection(&self) -> Option<Inspection> {
        Some(Inspection {
            program: self.command.clone(),
            tells_version: false,
            tested: &[],
            login: None,
            accounts: None,
        })
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let own = turn.session.as_deref().unwrap_or_default();
        let (args, session) = match &turn.continues {
            Some(continued) => (&self.resume_args, continued.session.as_str()),
            None => (&self.args, own),
        };
        Ok(Invocation {
            program: self.command.clone(),
            args: args.iter().map(|arg| arg.replace(SESSION, session).replace(NEW_SESSION, own)).collect(),
            stdin: turn.prompt.clone().into_bytes(),
            unset: Vec::new(),
            set: vec![(VARIABLE.to_owned(), own.to_owned())],
        })
    }

    fn prints_plain_text(&self) -> bool {
        true
    }

    fn decoder(&self, _turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(Decoder::default())
    }

    /// It tells its cost on stderr alone, often before it prints anything.
    fn cost_of_lost_turn(
        &self,
        turn: &Turn,
        kept: Option<&mut dyn Read>,
        stderr: Option<&mut dyn Read>,
    ) -> Option<Cost> {
        let mut nothing = io::empty();
        let kept = kept.or(stderr.is_some().then_some(&mut nothing as &mut dyn Read))?;
        read_lost_turn(self.decoder(turn), kept, stderr, &Counting::new(self.capabilities().tokens, turn))
    }
}

#[derive(Debug, Default)]
struct Decoder {
    reply: Vec<u8>,
    is_too_long: bool,
    cost: Cost,
    model: Option<String>,
    /// The start of a line on stderr that tells what was used.
    partial: Vec<u8>,
}

impl TurnDecoder for Decoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<TurnEvent> {
        self.is_too_long |= self.reply.len() + bytes.len() > LONGEST_REPLY;
        if self.is_too_long {
            self.reply = Vec::new();
        } else {
            self.reply.extend_from_slice(bytes);
        }
        Vec::new()
    }

    /// The reply is whole only at the end of the output.
    fn close(&mut self) -> Vec<TurnEvent> {
        match self.reply.is_empty() {
            true => Vec::new(),
            false => vec![TurnEvent::Text(String::from_utf8_lossy(&self.reply).into_owned())],
        }
    }

    fn feed_stderr(&mut self, text: &mut Vec<u8>) -> Vec<TurnEvent> {
        let lines = take_lines(&mut self.partial, text, USAGE.as_bytes());
        lines.iter().filter_map(|line| self.told(line)).collect()
    }

    fn is_final(&self) -> bool {
        false
    }

    fn cost_so_far(&self) -> f64 {
        self.cost.usd
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn finish(mut self: Box<Self>, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let last = std::mem::take(&mut self.partial);
        self.told(&String::from_utf8_lossy(&last));
        let cost = self.cost;
        let text = String::from_utf8_lossy(&self.reply).trim_end().to_owned();
        if ending == TurnEnding::Code(0) && !self.is_too_long {
            return Ok(TurnReport { text, cost, ..TurnReport::default() });
        }
        let fault = match self.is_too_long {
            true => TurnFault::OutputTooLong { message: format!("over {} MiB", LONGEST_REPLY >> 20) },
            false => unfinished(ending, stderr, |_| None),
        };
        Err(failure(fault, cost, Some(text).filter(|text| !text.is_empty())))
    }
}

impl Decoder {
    /// Adds what a line tells. What it does not tell stays as it was.
    fn told(&mut self, line: &str) -> Option<TurnEvent> {
        let told: Value = serde_json::from_str(line.strip_prefix(USAGE)?.trim()).ok()?;
        let used = Tokens {
            input: count(&told, "/tokens/input"),
            output: count(&told, "/tokens/output"),
            cache_write: count(&told, "/tokens/cache_write"),
            cache_read: count(&told, "/tokens/cache_read"),
        };
        self.cost.tokens = self.cost.tokens.plus(used);
        self.cost.usd += amount(&told, "/cost_usd");
        self.cost.compacted |= told["compacted"] == true;
        let (used_window, window) = (count(&told, "/context/used"), count(&told, "/context/window"));
        let context = Some(Context { used: used_window, window }).filter(|_| used_window > 0 && window > 0);
        self.cost.context = context.or(self.cost.context);
        let model = Some(text(&told, "/model")).filter(|model| !model.is_empty());
        self.model = model.map(|model| shortened(model, 200)).or(self.model.take());
        Some(TurnEvent::Usage(used))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Continued;
    use super::*;

    fn settings(args: &[&str], resume_args: &[&str]) -> BackendSettings {
        let owned = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect();
        BackendSettings {
            command: Some("chat".to_owned()),
            args: owned(args),
            resume_args: owned(resume_args),
            ..BackendSettings::default()
        }
    }

    #[test]
    fn arguments_follow_the_templates() {
        let program = program(&settings(&["--id={session}"], &["-r", "{session}", "{new_session}"])).unwrap();
        let fresh = Turn { prompt: "hi".to_owned(), session: Some("new".to_owned()), ..Turn::default() };
        let invocation = program.invocation(&fresh).unwrap();
        assert_eq!(invocation.args, ["--id=new"]);
        assert_eq!(invocation.stdin, b"hi");
        assert_eq!(invocation.set, [("RAYMOND_SESSION".to_owned(), "new".to_owned())]);
        let continues = Some(Continued { session: "old".to_owned(), ..Continued::default() });
        assert_eq!(program.invocation(&Turn { continues, ..fresh }).unwrap().args, ["-r", "old", "new"]);
    }

    #[test]
    fn what_was_used_is_told_on_stderr() {
        let told = "a note\nraymond-usage: {\"tokens\": {\"input\": 100, \"output\": 7}, \"cost_usd\": 0.25, \"model\": \"m\"}\n\
                    raymond-usage: no JSON\nraymonds are old\n\
                    raymond-usage: {\"tokens\": {\"input\": 1, \"cache_read\": 9}, \"context\": {\"used\": 5, \"window\": 10}, \
                    \"compacted\": true}";
        for size in [1, 7, 4096] {
            let mut decoder = program(&settings(&[], &[])).unwrap().decoder(&Turn::default());
            let left = told.as_bytes().chunks(size).map(|piece| {
                let mut piece = piece.to_vec();
                decoder.feed_stderr(&mut piece);
                piece
            });
            assert_eq!(
                String::from_utf8(left.collect::<Vec<_>>().concat()).unwrap(),
                "a note\nraymonds are old\n"
            );
            assert_eq!(decoder.model(), Some("m"));
            let cost = decoder.finish(TurnEnding::Code(0), "").unwrap().cost;
            assert_eq!(
                cost.tokens,
                Tokens { input: 101, output: 7, cache_write: 0, cache_read: 9 },
                "{size}"
            );
            assert_eq!(
                (cost.usd, cost.context, cost.compacted),
                (0.25, Some(Context { used: 5, window: 10 }), true)
            );
        }
    }

    #[test]
    fn capabilities_follow_the_templates() {
        for (resume_args, resume, branch) in [
            (&[] as &[&str], false, false),
            (&["--resume", "{session}"], true, false),
            (&["--fork={session}", "--id={new_session}"], true, true),
        ] {
            let can = program(&settings(&[], resume_args)).unwrap().capabilities();
            assert_eq!((can.resume, can.branch, can.cost), (resume, branch, false), "{resume_args:?}");
        }
    }

    #[test]
    fn templates_that_cannot_work_are_refused() {
        for (args, resume_args, expected) in [
            (&[] as &[&str], &["--last"] as &[&str], "without `{session}`"),
            (&["{new_session}"], &[], "belongs in `resume_args`"),
        ] {
            let error = program(&settings(args, resume_args)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(program(&BackendSettings::default()).unwrap_err().starts_with("needs a `command`"));
    }
}
