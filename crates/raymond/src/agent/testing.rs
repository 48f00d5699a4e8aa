//! An agent program for tests that differs from the real kinds: it chooses its session ids, reports tokens and no
//! dollars, and has the capabilities that a test gives it.

use super::ending::{failure, unfinished};
use super::events::{EventDecoder, EventReader, count, text};
use super::{
    AgentProgram, Capabilities, Cost, Invocation, SessionId, Tokens, Turn, TurnDecoder, TurnEnding,
    TurnEvent, TurnFailure, TurnReport,
};
use serde_json::Value;

/// The price of a token.
const USD_A_TOKEN: f64 = 0.001;

#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) can: Capabilities,
    /// What it prints in every turn.
    pub(crate) output: String,
}

impl Threads {
    /// Chooses its session ids, and has all other capabilities.
    pub(crate) fn new(output: impl Into<String>) -> Threads {
        let can =
            Capabilities { session_id: SessionId::FirstEvent, budget_share: false, ..Capabilities::ALL };
        Threads { can, output: output.into() }
    }
}

impl AgentProgram for Threads {
    fn capabilities(&self) -> Capabilities {
        self.can
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        assert_eq!(
            turn.session.is_some(),
            self.can.takes_session_id(),
            "an id is given only to a program that takes one"
        );
        Ok(Invocation {
            program: "cat".to_owned(),
            args: Vec::new(),
            stdin: self.output.clone().into_bytes(),
            unset: Vec::new(),
            set: Vec::new(),
        })
    }

    fn decoder(&self, _turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(EventDecoder::new(Events::default()))
    }
}

#[derive(Debug, Default)]
struct Events {
    text: Option<String>,
    tokens: u64,
    is_final: bool,
}

impl EventReader for Events {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent> {
        match text(event, "/type") {
            "thread" => vec![TurnEvent::Session(text(event, "/id").to_owned())],
            "message" => {
                let said = text(event, "/text").to_owned();
                self.text = Some(said.clone());
                vec![TurnEvent::Text(said)]
            }
            "completed" => {
                let (input, output) = (count(event, "/input"), count(event, "/output"));
                self.tokens = input + output;
                self.is_final = true;
                let used = Tokens { input, output, ..Tokens::default() };
                vec![TurnEvent::Usage(used), TurnEvent::End { is_error: false }]
            }
            _ => Vec::new(),
        }
    }

    fn is_final(&self) -> bool {
        self.is_final
    }

    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let cost = Cost { usd: self.tokens as f64 * USD_A_TOKEN, estimated: true, ..Cost::default() };
        match self.text {
            Some(text) if self.is_final => Ok(TurnReport { text, cost, permission_denials: Vec::new() }),
            _ => Err(failure(unfinished(ending, stderr, |_| None), cost, None)),
        }
    }
}
