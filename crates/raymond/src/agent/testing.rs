//! An agent program for tests that differs from the real kinds: it chooses its session ids, reports tokens and no
//! dollars, and has the capabilities that a test gives it.

use super::lines::{Line, Lines};
use super::{
    AgentProgram, Capabilities, Cost, Invocation, SessionId, Tokens, Turn, TurnDecoder, TurnEnding,
    TurnEvent, TurnFailure, TurnFault, TurnReport,
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

    fn decoder(&self, _earlier_total_usd: Option<f64>) -> Box<dyn TurnDecoder> {
        Box::new(Decoder::default())
    }
}

#[derive(Debug, Default)]
struct Decoder {
    lines: Lines,
    text: Option<String>,
    tokens: u64,
    is_final: bool,
}

impl Decoder {
    fn line(&mut self, line: Line) -> Vec<TurnEvent> {
        let Line::Event(event) = line else { return Vec::new() };
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("thread") => vec![TurnEvent::Session(text("id"))],
            Some("message") => {
                self.text = Some(text("text"));
                vec![TurnEvent::Text(text("text"))]
            }
            Some("completed") => {
                let count = |name: &str| event.get(name).and_then(Value::as_u64).unwrap_or(0);
                let used = Tokens { input: count("input"), output: count("output"), ..Tokens::default() };
                self.tokens = used.input + used.output;
                self.is_final = true;
                vec![TurnEvent::Usage(used), TurnEvent::End { is_error: false }]
            }
            _ => Vec::new(),
        }
    }
}

impl TurnDecoder for Decoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<TurnEvent> {
        let lines = self.lines.feed(bytes);
        lines.into_iter().flat_map(|line| self.line(line)).collect()
    }

    fn close(&mut self) -> Vec<TurnEvent> {
        self.lines.end_line().map(|line| self.line(line)).unwrap_or_default()
    }

    fn is_final(&self) -> bool {
        self.is_final
    }

    fn finish(self: Box<Self>, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let cost = Cost { usd: self.tokens as f64 * USD_A_TOKEN, estimated: true, ..Cost::default() };
        match self.text {
            Some(text) if self.is_final => Ok(TurnReport { text, cost, permission_denials: Vec::new() }),
            _ => Err(Box::new(TurnFailure {
                fault: TurnFault::Crashed { ending: format!("{ending:?}"), stderr: stderr.to_owned() },
                cost,
                final_text: None,
                last_text: None,
                permission_denials: Vec::new(),
            })),
        }
    }
}
