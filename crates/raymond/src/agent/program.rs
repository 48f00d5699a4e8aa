//! What Raymond needs from an agent program.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use super::session::{SessionFiles, SessionPlace};
use super::{
    Answer, Asked, Cost, Counting, Filled, Invocation, Plain, Turn, TurnEnding, TurnEvent, TurnFailure,
    TurnReport,
};
use crate::process::Input;

/// An agent program, with the settings of its backend.
pub trait AgentProgram: fmt::Debug + Send + Sync {
    /// What it can do. A workflow that needs more is refused before it starts.
    fn capabilities(&self) -> Capabilities;

    /// The efforts that it is known to take, if any are known. A run that asks for another is refused before it
    /// starts, unless its user knows better.
    fn known_efforts(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// How to look at the program itself; `None` if no program is started.
    fn inspection(&self) -> Option<Inspection> {
        None
    }

    /// Checks that everything is there that its turns in a workflow need. Called before a run starts.
    fn check(&self, _files: &dyn WorkflowFiles) -> Result<(), String> {
        Ok(())
    }

    /// The answer to a turn if it is given in this process and no program is started: the output that such a program
    /// would have printed. It is asked for while the turn is prepared, because the workflow's files are there.
    fn answer(&self, _asked: &Asked<'_>, _files: &dyn WorkflowFiles) -> Option<Result<Answer, String>> {
        None
    }

    /// Whether a conversation that the program no longer has is begun anew. Otherwise the turn fails.
    fn continues_only_what_is_there(&self) -> bool {
        false
    }

    /// How the program is started for a turn that has no answer yet. An error fails the step, because the same turn
    /// would fail again in the same way.
    fn invocation(&self, turn: &Turn) -> Result<Invocation, String>;

    /// Whether its output is the text itself, so that a piece of it can be shown before the rest is there.
    fn prints_plain_text(&self) -> bool {
        false
    }

    /// Reads the output of this turn.
    fn decoder(&self, turn: &Turn) -> Box<dyn TurnDecoder>;

    /// A prompt as it may be sent. Its values are data, possibly from a model or an unknown person. They must not make
    /// the program do anything, such as run a command or read a file; they are changed only where they would.
    fn plain(&self, filled: &Filled<'_>) -> Plain {
        Plain { text: filled.text.to_owned(), changed: Vec::new() }
    }

    /// How a person continues a conversation in the program itself, on a branch, so that the conversation stays as it
    /// is. `None` if the program cannot do that; [`Capabilities::interactive`] says so, too.
    fn interactive(&self, _session: &str) -> Option<Invocation> {
        None
    }

    /// The files that hold a conversation, so that it can be copied to another folder or machine (see
    /// [`super::session`]); `None` if the program's conversations cannot be copied. The id comes from outside: it must be
    /// checked before it becomes a part of a path.
    fn session_files(&self, _place: &SessionPlace<'_>) -> Option<SessionFiles> {
        None
    }

    /// Whether the program still has a conversation, or `None` if that cannot be told from its files.
    fn has_conversation(&self, _place: &SessionPlace<'_>) -> Option<bool> {
        None
    }

    /// What a turn cost whose end Raymond did not see, estimated from the part of its output that was kept, and of its stderr. `None`
    /// means that the cost is unknown: nothing was kept, or it cannot be read.
    fn cost_of_lost_turn(
        &self,
        turn: &Turn,
        kept: Option<&mut dyn Read>,
        stderr: Option<&mut dyn Read>,
    ) -> Option<Cost> {
        read_lost_turn(self.decoder(turn), kept?, stderr, &Counting::new(self.capabilities().tokens, turn))
    }
}

/// What the kept part of a turn's output says about its cost.
pub(super) fn read_lost_turn(
    mut decoder: Box<dyn TurnDecoder>,
    kept: &mut dyn Read,
    stderr: Option<&mut dyn Read>,
    counting: &Counting,
) -> Option<Cost> {
    read_pieces(kept, |piece| drop(decoder.feed(piece))).ok()?;
    if let Some(stderr) = stderr {
        read_pieces(stderr, |piece| drop(decoder.feed_stderr(&mut piece.to_vec()))).ok()?;
    }
    decoder.close();
    let model = decoder.model().map(str::to_owned);
    let cost = match decoder.finish(TurnEnding::Stopped, "") {
        Ok(report) => report.cost,
        Err(failure) => failure.cost,
    };
    Some(counting.settle(cost, model.as_deref()).cost)
}

fn read_pieces(kept: &mut dyn Read, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        match kept.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => take(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Turns the output of one turn into the types that all programs share. It only collects data, in bounded memory; the
/// result of the turn is decided in `finish`.
///
/// A program that communicates in both directions (JSON-RPC on its stdin and stdout) also needs input while it runs, which
/// comes from here, too.
pub trait TurnDecoder: fmt::Debug + Send {
    /// Reads output in pieces of any size. The result does not depend on the sizes.
    fn feed(&mut self, bytes: &[u8]) -> Vec<TurnEvent>;

    /// Reads what the program writes to stderr, in pieces of any size. What stays in `text` is for people: a program's log
    /// is taken out.
    fn feed_stderr(&mut self, _text: &mut Vec<u8>) -> Vec<TurnEvent> {
        Vec::new()
    }

    /// Whether the model's service has refused the program for now, and the program has only waited since. It may wait for
    /// hours without a word.
    fn waits_for_service(&self) -> bool {
        false
    }

    /// What the program reads next on its stdin, after the input of its [`Invocation`]. It is asked for at the start and
    /// after each piece of output.
    fn input(&mut self) -> Input {
        Input::default()
    }

    /// The output has ended, perhaps without a line break.
    fn close(&mut self) -> Vec<TurnEvent>;

    /// Whether the turn is over, usually because the agent's final message is there, and nothing has begun since.
    fn is_final(&self) -> bool;

    /// What the turn has cost so far, as far as the output tells. It is only shown, and never recorded.
    fn cost_so_far(&self) -> f64 {
        0.0
    }

    /// The model that the program says it used last.
    fn model(&self) -> Option<&str> {
        None
    }

    /// The result of the turn, once all output was fed, `close` was called and the program has ended.
    fn finish(self: Box<Self>, ending: TurnEnding, stderr_tail: &str)
    -> Result<TurnReport, Box<TurnFailure>>;
}

/// What an agent program can do. This is a struct and not a set of flags: when a capability is added, the code compiles
/// only after every program says whether it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Continue an earlier conversation.
    pub resume: bool,
    /// Continue it in a new session and leave the old one unchanged.
    pub branch: bool,
    /// When the id of a turn's session is known.
    pub session_id: SessionId,
    /// Whether a conversation can be continued only in the folder where it began.
    pub folder_bound: bool,
    /// Report what a turn cost, in dollars.
    pub cost: bool,
    /// Report how many tokens a turn used.
    pub tokens: TokensTold,
    /// Stop by itself once a turn has used its share of the budget.
    pub budget_share: bool,
    pub model: bool,
    pub effort: bool,
    /// `allow_tools` and `deny_tools`.
    pub tool_rules: bool,
    /// `add_dirs`.
    pub add_dirs: bool,
    /// `mcp_config`.
    pub mcp: bool,
    /// Report tool servers that did not start, with [`TurnEvent::ServerMissing`].
    pub tells_servers: bool,
    /// `--dangerously-skip-permissions`.
    pub skip_permissions: bool,
    /// `permission_mode` of a manifest.
    pub permission_mode: bool,
    /// Let a person continue a conversation in the program itself.
    pub interactive: bool,
    /// The longest prompt that it takes, if a longer one is known to be refused or cut.
    pub prompt_limit: Option<PromptLimit>,
    /// How long it may be silent if no other limit is chosen. It is for programs that are also silent while they wait
    /// for a service that refuses them.
    pub silence: Option<Duration>,
}

/// How to look at a program without running a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub program: String,
    /// Whether `--version` prints its version and does nothing else.
    pub tells_version: bool,
    /// The versions that it was tested with, the oldest first.
    pub tested: &'static [&'static str],
    /// Arguments with which it exits with 0 if it is logged in, where there are such.
    pub login: Option<&'static [&'static str]>,
    /// What its user has to know about its accounts.
    pub accounts: Option<&'static str>,
}

/// When the id of a turn's session is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionId {
    /// Raymond chooses it before the program starts.
    Chosen,
    /// The program chooses it and reports it with [`TurnEvent::Session`] in its first event.
    FirstEvent,
    /// The program chooses it and reports it when the model has answered for the first time.
    FirstAnswer,
}

/// Which tokens a program reports in [`Cost::tokens`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokensTold {
    No,
    OfTurn,
    /// Of the session and of those that it branched off.
    OfSession,
}

/// The longest prompt that a program takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptLimit {
    Bytes(usize),
    Characters(usize),
}

impl PromptLimit {
    pub fn permits(self, prompt: &str) -> bool {
        match self {
            PromptLimit::Bytes(most) => prompt.len() <= most,
            // There are never more characters than bytes.
            PromptLimit::Characters(most) => prompt.len() <= most || prompt.chars().count() <= most,
        }
    }
}

impl fmt::Display for PromptLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PromptLimit::Bytes(most) => write!(f, "{most} bytes"),
            PromptLimit::Characters(most) => write!(f, "{most} characters"),
        }
    }
}

impl Capabilities {
    /// Everything. A program that lacks something says so: `Capabilities { effort: false, ..Capabilities::ALL }`.
    pub const ALL: Capabilities = Capabilities {
        resume: true,
        branch: true,
        session_id: SessionId::Chosen,
        folder_bound: false,
        cost: true,
        tokens: TokensTold::OfTurn,
        budget_share: true,
        model: true,
        effort: true,
        tool_rules: true,
        add_dirs: true,
        mcp: true,
        tells_servers: true,
        skip_permissions: true,
        permission_mode: true,
        interactive: true,
        prompt_limit: None,
        silence: None,
    };

    /// Nothing but a prompt and an answer.
    pub const NONE: Capabilities = Capabilities {
        resume: false,
        branch: false,
        session_id: SessionId::Chosen,
        folder_bound: false,
        cost: false,
        tokens: TokensTold::No,
        budget_share: false,
        model: false,
        effort: false,
        tool_rules: false,
        add_dirs: false,
        mcp: false,
        tells_servers: false,
        skip_permissions: false,
        permission_mode: false,
        interactive: false,
        prompt_limit: None,
        silence: None,
    };

    /// Whether Raymond chooses the ids of its sessions.
    pub fn takes_session_id(&self) -> bool {
        self.session_id == SessionId::Chosen
    }
}

/// The files beside a workflow's states, for every form of workflow.
pub trait WorkflowFiles {
    /// The file of this name in the workflow or, if `or_around` is set, in the folder that holds the workflow.
    fn file(&self, name: &str, or_around: bool) -> Result<WorkflowFile, String>;
}

/// A file that was looked for in a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowFile {
    /// Where it is, or would be.
    pub path: PathBuf,
    /// `None` if it is not there.
    pub text: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_bytes_or_characters() {
        assert!(PromptLimit::Bytes(4).permits("éé") && !PromptLimit::Bytes(3).permits("éé"));
        assert!(PromptLimit::Characters(2).permits("éé") && !PromptLimit::Characters(1).permits("éé"));
    }
}
