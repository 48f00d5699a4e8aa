//! The vocabulary that Raymond and its agent programs share: what is asked of one turn, how the program is
//! started for it, and what came of it.
//!
//! Everything here and below is pure. A backend turns a [`Turn`] into an [`Invocation`] and the bytes that the
//! program prints into a [`TurnReport`] or a [`FailedTurn`]; starting programs is the business of `process`.

pub mod claude;
mod fault;
pub mod registry;
pub mod scripted;

pub use fault::{Class, TurnFault};

use std::time::Duration;

/// What one turn asks of an agent program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    pub prompt: String,
    /// The id chosen for this attempt's session; it is written down before the program starts.
    pub session: String,
    /// The session of the last completed turn; the new one branches off it and leaves it as it was.
    pub branch_from: Option<String>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub allow_tools: Vec<String>,
    pub deny_tools: Vec<String>,
    pub add_dirs: Vec<String>,
    pub mcp_config: Vec<String>,
    pub skip_permissions: bool,
    /// This turn's share of what is left of the run's budget.
    pub budget_usd: Option<f64>,
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

/// How a program came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// It stayed on after its final message and Raymond ended it; what it said before counts.
    Lingered,
    /// It printed nothing for this long and Raymond ended it.
    Silent(Duration),
    /// It ran longer than it was allowed to in all and Raymond ended it.
    OverTime(Duration),
    /// Raymond ended it because the run was stopped.
    Stopped,
}

/// What a turn, finished or not, was paid.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Of this turn alone.
    pub usd: f64,
    /// Whether some of it was worked out from streamed token counts, since the program named no figure.
    pub estimated: bool,
    /// The running total that the program reported, to be handed to the decoder of the turn that continues this
    /// one. It is a fact about the session, not an amount to add up.
    pub session_total_usd: Option<f64>,
}

/// A turn that ended as it should.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnReport {
    /// The agent's final message.
    pub text: String,
    pub cost: Cost,
    /// The session that the program said it ran in.
    pub session: Option<String>,
    /// The model that the program said it started with.
    pub model: Option<String>,
    /// Tools that were asked for and refused, written like the rule that would permit them.
    pub permission_denials: Vec<String>,
    /// How many lines of output could not be read.
    pub unreadable_lines: u64,
}

/// A turn that did not end as it should; what it cost was spent all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedTurn {
    pub fault: TurnFault,
    pub cost: Cost,
    pub session: Option<String>,
    /// The final message of a turn that went over its share with its very last call. It was said and paid for, so
    /// that the turn may be taken for completed.
    pub final_text: Option<String>,
    /// The last thing that the agent, or its program in its place, said.
    pub last_text: Option<String>,
    pub permission_denials: Vec<String>,
}

/// Something worth showing while a turn runs. It is telemetry: nothing may depend on it.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Started {
        session: Option<String>,
        model: Option<String>,
    },
    /// A whole block of the agent's text. A block that was streamed as deltas is not repeated.
    Text(String),
    TextDelta(String),
    Tool {
        name: String,
        summary: String,
    },
    PermissionDenied {
        tool: String,
    },
    ApiRetry {
        attempt: u64,
        of: u64,
        delay_ms: u64,
        status: Option<u16>,
        error: String,
    },
    RateLimit {
        rejected: bool,
        resets_at: Option<i64>,
        window: Option<String>,
    },
    /// A final message; another may follow when background work wakes the agent again.
    Final {
        is_error: bool,
    },
    /// A line that is not part of the protocol, shortened.
    Unreadable(String),
}

/// What a backend can do; a workflow that needs more is refused before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Continue an earlier conversation.
    pub resume: bool,
    /// Continue it without changing it.
    pub branch: bool,
    /// Take a session id that was chosen beforehand.
    pub own_session_id: bool,
    /// Say what a turn cost.
    pub cost: bool,
    pub model: bool,
    pub effort: bool,
    /// Stop by itself once a turn has used its share of the budget.
    pub budget_share: bool,
    pub tool_rules: bool,
    pub mcp: bool,
}
