//! Reads a turn: the program's own decoder, and the check that is the same for every program.

use std::time::Duration;

use super::{
    AgentProgram, Cost, Pricing, Tokens, TokensTold, Turn, TurnDecoder, TurnEnding, TurnEvent, TurnFailure,
    TurnFault, TurnReport,
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
    /// How long the prompt is, and what was said, for an estimate.
    prompt: usize,
    heard: u64,
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
/// A token is about four letters.
const LETTERS_A_TOKEN: u64 = 4;

/// How the cost of a turn follows from what its program reports.
#[derive(Debug, Clone)]
pub struct Counting {
    told: TokensTold,
    /// The tokens of the conversation that the turn continues.
    earlier: Option<Tokens>,
    pricing: Pricing,
    /// The model that the program was told to use.
    model: Option<String>,
}

/// What a turn cost, and what its figures say about its conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled {
    pub cost: Cost,
    /// Whether the session has fewer tokens than the one that it should continue, so that it is another conversation.
    pub began_anew: bool,
}

impl Counting {
    pub fn new(told: TokensTold, turn: &Turn) -> Counting {
        Counting {
            told,
            earlier: turn.continues.as_ref().and_then(|continued| continued.total_tokens),
            pricing: turn.pricing.clone(),
            model: turn.model.clone(),
        }
    }

    /// The cost of this turn alone. All tokens of a conversation that began anew are those of this turn.
    pub fn settle(&self, cost: Cost, told_model: Option<&str>) -> Settled {
        let mut began_anew = false;
        let of_turn = match self.told {
            TokensTold::No | TokensTold::OfTurn => cost,
            // A program that has not come to its report has not reported the earlier tokens either.
            TokensTold::OfSession if cost.tokens.is_zero() => Cost { session_tokens: self.earlier, ..cost },
            TokensTold::OfSession => {
                let added = cost.tokens.since(self.earlier.unwrap_or_default());
                began_anew = added.is_none();
                let tokens = added.unwrap_or(cost.tokens);
                Cost { tokens, session_tokens: Some(cost.tokens), ..cost }
            }
        };
        Settled { cost: self.with_dollars(of_turn, told_model), began_anew }
    }

    /// A turn that used tokens never costs nothing, whatever its program tells. The price of its model counts; without
    /// one the dearest, unless the user accepts that such turns are not counted.
    fn with_dollars(&self, cost: Cost, told_model: Option<&str>) -> Cost {
        if cost.tokens.is_zero() || cost.usd > 0.0 {
            return cost;
        }
        let prices = &self.pricing.prices;
        let models = [self.model.as_deref(), told_model];
        let price = models.into_iter().flatten().find_map(|model| prices.of(model));
        match price {
            None if self.pricing.may_be_uncounted => Cost { uncounted: true, ..cost },
            Some(price) if price.is_free() => Cost { uncounted: true, ..cost },
            _ => {
                let usd = price.unwrap_or_else(|| prices.dearest()).of(cost.tokens);
                Cost { usd, estimated: true, ..cost }
            }
        }
    }

    /// What a turn cost of which only texts are known, at least.
    fn of_texts(&self, prompt: usize, heard: u64, told_model: Option<&str>) -> f64 {
        let tokens = |letters: u64| letters.div_ceil(LETTERS_A_TOKEN);
        let prompt = u64::try_from(prompt).unwrap_or(u64::MAX);
        let used = Tokens { input: tokens(prompt), output: tokens(heard), ..Tokens::default() };
        self.pricing.prices.of_or_dearest(self.model.as_deref().or(told_model)).usual.of(used)
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
            counting: Counting::new(can.tokens, turn),
            prompt: turn.prompt.len(),
            heard: 0,
            wanted,
            session: None,
            unwanted: None,
            servers: Servers { are_required: turn.require_mcp, missing: Vec::new() },
        }
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
        let model = self.decoder.model().map(str::to_owned);
        let mut ended = self.decoder.finish(ending, stderr_tail);
        let cost = match &mut ended {
            Ok(report) => &mut report.cost,
            Err(failure) => &mut failure.cost,
        };
        let Settled { cost: settled, began_anew } = self.counting.settle(*cost, model.as_deref());
        *cost = settled;
        if cost.unknown && cost.usd <= 0.0 {
            cost.usd = self.counting.of_texts(self.prompt, self.heard, model.as_deref());
        }
        let told = self.session.as_deref().unwrap_or_default();
        let new = began_anew.then(|| format!("{told} (a new conversation)"));
        let unwanted = self.unwanted.or(new);
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
            if let TurnEvent::Text(text) = event {
                self.heard = self.heard.saturating_add(text.len() as u64);
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
