//! The vocabulary of a turn: what is asked of an agent program, how it is started, what is seen while it runs, and what
//! came of it.

use std::time::Duration;

use super::TurnFault;

/// A turn that is about to be prepared.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The state that the prompt is of, without extension.
    pub state: &'a str,
    /// Which of the run's turns in that state it is, counted from 1.
    pub number: u64,
    pub prompt: &'a str,
}

/// What one turn asks of an agent program. All of it is given every time: what a program remembers of an earlier turn
/// differs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    pub prompt: String,
    /// The id chosen for this attempt's session, written down before the program starts. `None` where the program
    /// chooses.
    pub session: Option<String>,
    /// The conversation that the turn continues, in a branch that leaves it as it was.
    pub continues: Option<Continued>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub allow_tools: Vec<String>,
    pub deny_tools: Vec<String>,
    pub add_dirs: Vec<String>,
    pub mcp_config: Vec<String>,
    pub skip_permissions: bool,
    /// This turn's share of what is left of the run's budget, where the program takes one.
    pub budget_usd: Option<f64>,
}

/// A conversation as its last completed turn left it.
#[derive(Debug, Clone, PartialEq)]
pub struct Continued {
    pub session: String,
    /// What that turn's [`Cost::session_total_usd`] was.
    pub total_usd: Option<f64>,
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

/// How a turn's program came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnding {
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

/// Something that a turn's output says while it comes. It is for those who watch, except that `Session` is recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    /// The session that the turn runs in, each time the program says so.
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
    /// What was used since the last event of this kind.
    Usage(Tokens),
    /// The program tries again by itself to reach the model's service.
    Retrying {
        attempt: u64,
        of: u64,
        error: String,
    },
    /// How a usage limit stands.
    Limit {
        reached: bool,
        /// In seconds since 1970.
        resets_at: Option<i64>,
    },
    /// A final message; another may follow when background work wakes the agent again.
    End {
        is_error: bool,
    },
    /// A line that is not part of the protocol, shortened.
    Unreadable(String),
}

/// How much the model has read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Without what came from the prompt cache.
    pub input: u64,
    pub output: u64,
    pub cache_write: u64,
    pub cache_read: u64,
}

/// What a turn cost, whether it came to its end or not.
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
    /// Tools that were asked for and refused, written like the rule that would permit them.
    pub permission_denials: Vec<String>,
}

/// A turn that did not end as it should; what it cost was spent all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnFailure {
    pub fault: TurnFault,
    pub cost: Cost,
    /// The final message of a turn that went over its share with its very last call. It was said and paid for, so
    /// that the turn may be taken for completed.
    pub final_text: Option<String>,
    /// The last thing that the agent, or its program in its place, said.
    pub last_text: Option<String>,
    pub permission_denials: Vec<String>,
}
