//! Any program that reads a prompt on stdin and prints a reply.
//!
//! Everything that it prints to stdout is the reply, and an exit code other than 0 is a failure. Each turn is a new
//! conversation, unless `resume_args` in its settings say how one is continued.

use std::sync::Arc;

use super::ending::{failure, unfinished};
use super::{
    AgentProgram, Capabilities, Cost, Inspection, Invocation, Turn, TurnDecoder, TurnEnding, TurnEvent,
    TurnFailure, TurnFault, TurnReport,
};
use crate::config::BackendSettings;

/// In arguments: the id of the conversation. In `resume_args` it is the conversation to continue.
const SESSION: &str = "{session}";
/// In `resume_args`: the id of the branch, for a program that can leave the conversation as it was.
const NEW_SESSION: &str = "{new_session}";
/// The variable with the id of the conversation in which the turn runs.
const VARIABLE: &str = "RAYMOND_SESSION";

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
}

#[derive(Debug, Default)]
struct Decoder {
    reply: Vec<u8>,
    is_too_long: bool,
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

    fn is_final(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let text = String::from_utf8_lossy(&self.reply).trim_end().to_owned();
        if ending == TurnEnding::Code(0) && !self.is_too_long {
            return Ok(TurnReport { text, ..TurnReport::default() });
        }
        let fault = match self.is_too_long {
            true => TurnFault::OutputTooLong { message: format!("over {} MiB", LONGEST_REPLY >> 20) },
            false => unfinished(ending, stderr, |_| None),
        };
        Err(failure(fault, Cost::default(), Some(text).filter(|text| !text.is_empty())))
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
