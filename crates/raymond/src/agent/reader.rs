//! Reads a turn: the program's own decoder, and the check that is the same for every program.

use std::time::Duration;

use super::price::Price;
use super::{
    AgentProgram, Cost, Tokens, TokensTold, Turn, TurnDecoder, TurnEnding, TurnEvent, TurnFailure, TurnFault,
    TurnReport,
};
use crate::process::{Flow, Input};

/// How long a program may keep running after its final message.
const LINGER: Duration = Duration::from_secs(10);
/// How long a program may wait after the model's service has refused it. A service that is only busy asks for less.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Decodes a turn and compares the session that the program ran in with the one that was asked for. A program that runs
/// in another session would lose a conversation, or change one that has to stay unchanged.
#[derive(Debug)]
pub struct TurnReader {
    decoder: Box<dyn TurnDecoder>,
    wanted: Wanted,
    /// Whether later turns may need this turn's session, so that it has to be known.
    must_be_told: bool,
    /// The session that the program reported last.
    session: Option<String>,
    /// The first reported session that is not the wanted one.
    unwanted: Option<String>,
    servers: Servers,
    counting: Counting,
}

/// The tool servers of a turn that did not start.
#[derive(Debug, Default)]
struct Servers {
    are_required: bool,
    missing: Vec<String>,
}

/// How many of them are named.
const MOST_SERVERS: usize = 100;

impl Servers {
    fn note(&mut self, name: &str) {
        if self.missing.len() < MOST_SERVERS && !self.missing.iter().any(|known| known == name) {
            self.missing.push(name.to_owned());
        }
    }

    /// Whether the turn must not go on without them.
    fn stop_the_turn(&self) -> bool {
        self.are_required && !self.missing.is_empty()
    }
}

/// How the cost of a turn follows from what its program reports.
#[derive(Debug, Clone, Copy)]
pub struct Counting {
    pub told: TokensTold,
    /// The tokens of the conversation that the turn continues.
    pub earlier: Option<Tokens>,
    /// The price of the turn's model, if the program reports no dollars.
    pub price: Option<Price>,
}

impl Counting {
    /// The cost of this turn alone; `None` if the session has fewer tokens than the one that it should continue, so
    /// that it is another conversation.
    pub fn settle(&self, cost: Cost) -> Option<Cost> {
        let settled = match self.told {
            TokensTold::No => return Some(cost),
            TokensTold::OfTurn => cost,
            // A program that has not come to its report has not reported the earlier tokens either.
            TokensTold::OfSession if cost.tokens == Tokens::default() => {
                Cost { session_tokens: self.earlier, ..cost }
            }
            TokensTold::OfSession => {
                let tokens = cost.tokens.since(self.earlier.unwrap_or_default())?;
                Cost { tokens, session_tokens: Some(cost.tokens), ..cost }
            }
        };
        Some(match self.price {
            Some(price) => Cost { usd: price.of(settled.tokens), estimated: true, ..settled },
            None => settled,
        })
    }
}

/// The session that a turn has to run in.
#[derive(Debug)]
enum Wanted {
    /// The one whose id Raymond chose.
    This(String),
    /// A new one that the program chooses: any except the one that it branches off.
    BranchOf(String),
    Any,
}

impl TurnReader {
    pub fn new(program: &dyn AgentProgram, turn: &Turn) -> TurnReader {
        let wanted = match (&turn.session, &turn.continues) {
            (Some(chosen), _) => Wanted::This(chosen.clone()),
            (None, Some(continued)) => Wanted::BranchOf(continued.session.clone()),
            (None, None) => Wanted::Any,
        };
        let can = program.capabilities();
        TurnReader {
            decoder: program.decoder(turn),
            must_be_told: !can.takes_session_id() && (can.branch || can.resume),
            counting: Counting {
                told: can.tokens,
                earlier: turn.continues.as_ref().and_then(|continued| continued.total_tokens),
                price: None,
            },
            wanted,
            session: None,
            unwanted: None,
            servers: Servers { are_required: turn.require_mcp, missing: Vec::new() },
        }
    }

    /// Counts the turn's tokens at this price.
    pub fn priced(mut self, price: Option<Price>) -> TurnReader {
        self.counting.price = price;
        self
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Vec<TurnEvent> {
        let seen = self.decoder.feed(bytes);
        self.note(&seen);
        seen
    }

    /// Reads a piece of stderr, and takes out of it what is not for people.
    pub fn feed_stderr(&mut self, text: &mut Vec<u8>) -> Vec<TurnEvent> {
        let seen = self.decoder.feed_stderr(text);
        self.note(&seen);
        seen
    }

    /// How the turn goes on after a piece of stdout.
    pub fn flow_after_stdout(&self) -> Flow {
        // Before it costs anything, as far as the program says so in time.
        if self.servers.stop_the_turn() {
            return Flow::Abort;
        }
        if self.is_final() { Flow::EndWithin(LINGER) } else { self.flow_before_the_end() }
    }

    /// How the turn goes on after a piece of stderr.
    pub fn flow_after_stderr(&self) -> Flow {
        if self.is_final() { Flow::Continue } else { self.flow_before_the_end() }
    }

    fn flow_before_the_end(&self) -> Flow {
        if self.decoder.waits_for_service() { Flow::EndWithin(LONGEST_WAIT) } else { Flow::GoOn }
    }

    /// What the program is told now.
    pub fn input(&mut self) -> Input {
        self.decoder.input()
    }

    pub fn is_final(&self) -> bool {
        self.decoder.is_final()
    }

    /// What the turn has cost so far, in dollars, as far as the output tells.
    pub fn cost_so_far(&self) -> f64 {
        self.decoder.cost_so_far()
    }

    /// The session that the turn runs in, if it is known: the one that the program reported, or the one that was
    /// chosen.
    pub fn session(&self) -> Option<&str> {
        match (&self.session, &self.wanted) {
            (Some(told), _) => Some(told),
            (None, Wanted::This(chosen)) => Some(chosen),
            (None, Wanted::BranchOf(_) | Wanted::Any) => None,
        }
    }

    /// The output has ended.
    pub fn close(&mut self) -> Vec<TurnEvent> {
        let seen = self.decoder.close();
        self.note(&seen);
        seen
    }

    /// The result of the turn, once the program has ended and its output was closed.
    pub fn finish(self, ending: TurnEnding, stderr_tail: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let is_untold = self.must_be_told && self.session.is_none();
        let untold = is_untold.then_some(TurnFault::SessionUntold);
        let mut ended = self.decoder.finish(ending, stderr_tail);
        let cost = match &mut ended {
            Ok(report) => &mut report.cost,
            Err(failure) => &mut failure.cost,
        };
        let unwanted = match self.counting.settle(*cost) {
            Some(settled) => {
                *cost = settled;
                self.unwanted
            }
            None => self.unwanted.or_else(|| {
                let told = self.session.as_deref().unwrap_or_default();
                Some(format!("{told} (a new conversation)"))
            }),
        };
        let mismatch = self.wanted.mismatch(unwanted).or(untold);
        let lacks_servers = self.servers.stop_the_turn();
        let lacking = lacks_servers.then_some(TurnFault::ServersMissing { names: self.servers.missing });
        if let (Err(failure), Some(fault)) = (&mut ended, &lacking) {
            failure.fault = fault.clone();
            failure.final_text = None;
        }
        match (ended, lacking.or(mismatch)) {
            (Ok(report), Some(fault)) => Err(Box::new(TurnFailure {
                fault,
                cost: report.cost,
                final_text: None,
                last_text: Some(report.text),
                permission_denials: report.permission_denials,
            })),
            // Such a turn is continued, so its session matters. Any other failure is more serious than a mismatch.
            (Err(failure), Some(fault)) if failure.fault == TurnFault::OverBudgetShare => {
                Err(Box::new(TurnFailure { fault, final_text: None, ..*failure }))
            }
            (ended, _) => ended,
        }
    }

    /// The tool servers that did not start. The turn goes on without them, unless it requires them.
    pub fn missing_servers(&self) -> &[String] {
        if self.servers.are_required { &[] } else { &self.servers.missing }
    }

    fn note(&mut self, seen: &[TurnEvent]) {
        for event in seen {
            if let TurnEvent::ServerMissing { name } = event {
                self.servers.note(name);
            }
            if let TurnEvent::Session(session) = event {
                if self.unwanted.is_none() && !self.wanted.accepts(session) {
                    self.unwanted = Some(session.clone());
                }
                self.session = Some(session.clone());
            }
        }
    }
}

impl Wanted {
    fn accepts(&self, session: &str) -> bool {
        match self {
            Wanted::This(chosen) => chosen == session,
            Wanted::BranchOf(parent) => parent != session,
            Wanted::Any => true,
        }
    }

    fn mismatch(self, got: Option<String>) -> Option<TurnFault> {
        let asked = match self {
            Wanted::This(chosen) => chosen,
            Wanted::BranchOf(parent) => format!("a branch of {parent}"),
            Wanted::Any => return None,
        };
        Some(TurnFault::SessionMismatch { asked, got: got? })
    }
}
