//! The types of a turn: what an agent program is asked, how it is started, what it reports while it runs, and the
//! result.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use raymond_core::cost::TurnCost;
use raymond_core::money::Usd;

use super::price::Prices;
use super::{Grants, TurnFault};
use crate::process::{Ending, ParentDeath, ProcessExit, ProgramSpec, TimeLimits};
use crate::recording::Places;
use crate::wire;

pub use raymond_core::tokens::{Context, Tokens};

/// A turn that is about to be prepared.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The state whose prompt it is, without extension.
    pub state: &'a str,
    /// The number of this turn among the run's turns in that state, counted from 1.
    pub number: u64,
    pub prompt: &'a str,
    pub agent: &'a str,
    /// How often the agent has entered the state.
    pub visit: u64,
    /// The prepared replies that are used up.
    pub used: &'a BTreeSet<u64>,
    /// The prompt with placeholders for what differs between machines, if the run is recorded or replayed.
    pub portable: Option<&'a str>,
    pub places: Option<&'a Places>,
}

/// An answer that is given in this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What an agent program would have printed.
    #[serde(with = "wire::bytes")]
    pub output: Vec<u8>,
    /// The number of the prepared reply that it uses up.
    pub reply: Option<u64>,
    /// The conversation that it came from, if that is known.
    pub session: Option<String>,
}

/// What one turn asks of an agent program. Every turn gives all of it, because programs differ in what they remember of
/// an earlier turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    pub prompt: String,
    /// Where the program runs.
    pub cwd: PathBuf,
    /// The id chosen for this attempt's session, recorded before the program starts. `None` if the program chooses.
    pub session: Option<String>,
    /// The conversation that the turn continues, in a branch that does not change it; see [`Turn::is_in_place`].
    pub continues: Option<Continued>,
    pub model: Option<String>,
    pub effort: Option<String>,
    /// The tools, folders and tool servers that the workflow grants it.
    pub grants: Grants,
    /// Whether the turn fails if a tool server does not start.
    pub require_mcp: bool,
    pub skip_permissions: bool,
    /// What the workflow chose; never one that skips permissions.
    pub permission_mode: Option<String>,
    /// This turn's share of the rest of the run's budget, if the program takes one.
    pub budget_usd: Option<f64>,
    pub pricing: Pricing,
}

/// What tokens cost in a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pricing {
    pub prices: Prices,
    /// Whether the user accepts that turns count nothing if their program tells no dollars and their model has no price.
    pub may_be_uncounted: bool,
}

impl Turn {
    /// Whether the turn continues a conversation itself and not a branch of it, which its backend has to allow.
    pub fn is_in_place(&self) -> bool {
        let continued = self.continues.as_ref().map(|continued| &continued.session);
        continued.is_some() && continued == self.session.as_ref()
    }
}

/// A prompt with the values that were put into it, before it is sent.
#[derive(Debug, Clone, Copy)]
pub struct Filled<'a> {
    pub text: &'a str,
    /// The places of the values in the text, in bytes and in order. They may come from a model or an unknown person.
    pub values: &'a [Range<usize>],
    /// Where the program will run.
    pub cwd: &'a Path,
    /// Other folders that it may read.
    pub folders: &'a [PathBuf],
}

/// A prompt that is safe to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plain {
    pub text: String,
    /// Every piece of a value that had to be changed, as it was.
    pub changed: Vec<String>,
}

/// A conversation in the state after its last completed turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Continued {
    pub session: String,
    /// The [`Cost::session_total_usd`] of that turn.
    pub total_usd: Option<f64>,
    /// The [`Cost::session_tokens`] of that turn.
    pub total_tokens: Option<Tokens>,
    /// The model that it was told to use, if it was told one.
    pub model: Option<String>,
    /// The effort that it was told to use, if it was told one.
    pub effort: Option<String>,
}

/// How to start a program for one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub program: String,
    pub args: Vec<String>,
    /// Written to the program's standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// Variables that the program must not inherit.
    pub unset: Vec<&'static str>,
    pub set: Vec<(String, String)>,
}

impl Invocation {
    /// The process of the turn. `token` marks it and everything that it starts.
    pub fn into_process(self, cwd: impl Into<PathBuf>, token: impl Into<String>) -> ProgramSpec {
        let mut process = ProgramSpec::new(self.program, cwd, token);
        process.args = self.args.into_iter().map(Into::into).collect();
        process.stdin = self.stdin;
        process.env = self.unset.into_iter().map(|name| (name.into(), None)).collect();
        process.env.extend(self.set.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
        // The program ends its own tools when it is asked to end.
        process.on_parent_death = ParentDeath::Terminate;
        process
    }
}

/// How a turn's program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnding {
    Code(i32),
    Signal(i32),
    /// It kept running after its final message and Raymond ended it; its output counts.
    Lingered,
    /// It printed nothing for this long, so Raymond ended it.
    Silent(Duration),
    /// It ran longer than allowed in total, so Raymond ended it.
    OverTime(Duration),
    /// Raymond ended it because the run was stopped.
    Stopped,
}

impl TurnEnding {
    /// The ending of a program that had these limits.
    pub fn of(ending: &Ending, limits: &TimeLimits) -> Self {
        match ending {
            Ending::Exited(ProcessExit::Code(code)) => Self::Code(*code),
            Ending::Exited(ProcessExit::Signal(signal)) => Self::Signal(*signal),
            Ending::Exited(ProcessExit::Unknown) | Ending::SpawnFailed(_) | Ending::Aborted => Self::Code(-1),
            Ending::IdleTimeout => Self::Silent(limits.idle.unwrap_or_default()),
            Ending::TotalTimeout => Self::OverTime(limits.total.unwrap_or_default()),
            Ending::Lingered => Self::Lingered,
            Ending::Stopped => Self::Stopped,
        }
    }
}

/// An event in a turn's output while it runs. Events are only shown, except that `Session` is recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    /// The session that the turn runs in, each time the program reports it.
    Session(String),
    /// A whole block of the agent's text.
    Text(String),
    ToolUse {
        name: String,
        summary: String,
    },
    ToolRefused {
        tool: String,
    },
    /// A tool server did not start. It may be reported again.
    ServerMissing {
        name: String,
    },
    /// The usage since the last event of this kind.
    Usage(Tokens),
    /// The program retries its call to the model's service.
    Retrying {
        attempt: u64,
        of: u64,
        error: String,
    },
    /// The state of a usage limit.
    Limit {
        reached: bool,
        /// In seconds since 1970.
        resets_at: Option<i64>,
    },
    /// A final message; another may follow if background work wakes the agent.
    End {
        is_error: bool,
    },
    /// A line that is not part of the protocol, shortened.
    Unreadable(String),
}

/// What a turn cost, completed or not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Of this turn alone. A decoder says what was told; that tokens without dollars cost something follows in
    /// [`Counting`](super::Counting).
    pub usd: f64,
    /// Whether the turn's user has said that it is not counted, or that its model costs nothing.
    pub uncounted: bool,
    /// Whether part of it was computed from streamed token counts, because the program reported no cost.
    pub estimated: bool,
    /// Whether the program reported something that cannot be a cost, or nothing that could be read, and there is nothing
    /// good to estimate it from.
    pub unknown: bool,
    /// The total that the program reported, for the decoder of the turn that continues this one. It is a fact about the
    /// session, not an amount to add up.
    pub session_total_usd: Option<f64>,
    /// The tokens that the program reported, of the turn or of the session (see
    /// [`Capabilities::tokens`](super::Capabilities::tokens)). A [`TurnReader`](super::TurnReader) makes them those of
    /// the turn.
    pub tokens: Tokens,
    /// The tokens of the whole session, if the program reports those. A fact like `session_total_usd`.
    pub session_tokens: Option<Tokens>,
    /// How full the model's window was at the end, if the program tells.
    pub context: Option<Context>,
    /// Whether the program has summarised the conversation within the turn.
    pub compacted: bool,
}

impl Cost {
    /// What counts for the turn. A cost that is not known counts as the share of the budget that the turn was given,
    /// because it may have used all of it.
    pub fn counted(&self, share: Option<Usd>) -> TurnCost {
        let told = Usd::from_dollars(self.usd);
        let usd = share.filter(|_| self.unknown).unwrap_or(Usd::ZERO).max(told);
        let cost = match self.estimated || self.unknown {
            _ if self.uncounted && usd.is_zero() => TurnCost::uncounted(self.tokens),
            true => TurnCost::estimated(usd, self.tokens),
            false => TurnCost::of(usd, self.tokens),
        };
        cost.in_context(self.context, self.compacted)
    }
}

/// A turn that completed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnReport {
    /// The agent's final message.
    pub text: String,
    pub cost: Cost,
    /// Tools that were asked for and refused, in the form of the rule that would allow them.
    pub permission_denials: Vec<String>,
}

/// A turn that failed; its cost counts all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnFailure {
    pub fault: TurnFault,
    pub cost: Cost,
    /// The final message of a turn that exceeded its share of the budget with its very last call. The message is
    /// complete and paid for, so the turn may be treated as completed.
    pub final_text: Option<String>,
    /// The last text of the agent or of its program.
    pub last_text: Option<String>,
    pub permission_denials: Vec<String>,
}
