//! Why a turn failed, and what that means for the agent.

use std::fmt;
use std::time::Duration;

/// What to do about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The same turn may succeed if it is tried again soon.
    Retry,
    /// It will succeed after this time, in seconds since 1970, if the program reported one.
    WaitUntil(Option<i64>),
    /// A person has to change something outside the workflow.
    NeedsPerson,
    /// The turn used up its share of the budget; it continues with a new share if the run has money left.
    ShareUsed,
    /// The same turn would fail again in the same way.
    Fatal,
}

/// Why a turn failed. `Display` says what happened and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnFault {
    MissingProgram {
        program: String,
    },
    NotStarted {
        program: String,
        message: String,
    },
    NotLoggedIn {
        message: String,
    },
    /// The account is not allowed to do this, or has no credit left.
    Forbidden {
        message: String,
    },
    LimitReached {
        resets_at: Option<i64>,
        message: String,
    },
    OverBudgetShare,
    MaxTurns {
        message: String,
    },
    TooLong {
        message: String,
    },
    UnknownModel {
        message: String,
    },
    BadRequest {
        message: String,
    },
    /// The program rejected its arguments.
    BadArguments {
        message: String,
    },
    Overloaded {
        message: String,
    },
    Connection {
        message: String,
    },
    /// The program ended the turn with an unknown error.
    Failed {
        message: String,
    },
    Interrupted,
    Silent {
        after: Duration,
    },
    OverTime {
        after: Duration,
    },
    Crashed {
        ending: String,
        stderr: String,
    },
    /// The program ended without an error, but also without a final message that could be read.
    Junk {
        detail: String,
    },
    /// The program ended without a result, and printed something too long to be read.
    OutputTooLong {
        message: String,
    },
    SessionMismatch {
        asked: String,
        got: String,
    },
    /// The program did not report the session that it ran in, although it has to.
    SessionUntold,
    SessionMissing {
        message: String,
    },
    SessionInUse {
        message: String,
    },
    RefusedForRoot,
    /// The prompt is longer than the program takes.
    PromptTooLong {
        backend: String,
        limit: String,
    },
    /// The turn continues a conversation that the program finds only in another folder.
    OtherFolder {
        backend: String,
        folder: String,
    },
    /// The model's answer was cut at its longest length.
    Truncated {
        message: String,
    },
    /// Tool servers did not start, and the state requires them.
    ServersMissing {
        names: Vec<String>,
    },
    /// A hook has put off a call of this tool, and the program waits for its answer.
    ToolDeferred {
        tool: String,
    },
    /// The turn continues a conversation. The backend's program cannot do that without changing the conversation.
    CannotBranch {
        backend: String,
    },
}

impl TurnFault {
    pub fn class(&self) -> Class {
        use TurnFault::*;
        match self {
            LimitReached { resets_at, .. } => Class::WaitUntil(*resets_at),
            OverBudgetShare => Class::ShareUsed,
            Overloaded { .. }
            | Connection { .. }
            | Failed { .. }
            | Interrupted
            | Silent { .. }
            | Crashed { .. }
            | Junk { .. }
            | SessionInUse { .. } => Class::Retry,
            MissingProgram { .. }
            | NotStarted { .. }
            | NotLoggedIn { .. }
            | Forbidden { .. }
            | SessionMissing { .. }
            | ServersMissing { .. }
            | ToolDeferred { .. }
            | RefusedForRoot => Class::NeedsPerson,
            MaxTurns { .. }
            | TooLong { .. }
            | UnknownModel { .. }
            | BadRequest { .. }
            | BadArguments { .. }
            | OverTime { .. }
            | OutputTooLong { .. }
            | SessionMismatch { .. }
            | SessionUntold
            | PromptTooLong { .. }
            | OtherFolder { .. }
            | Truncated { .. }
            | CannotBranch { .. } => Class::Fatal,
        }
    }

    /// A short name that is stable across releases, for journals and `--json`.
    pub fn name(&self) -> &'static str {
        use TurnFault::*;
        match self {
            MissingProgram { .. } => "missing_program",
            NotStarted { .. } => "not_started",
            NotLoggedIn { .. } => "not_logged_in",
            Forbidden { .. } => "forbidden",
            LimitReached { .. } => "limit_reached",
            OverBudgetShare => "over_budget_share",
            MaxTurns { .. } => "max_turns",
            TooLong { .. } => "too_long",
            UnknownModel { .. } => "unknown_model",
            BadRequest { .. } => "bad_request",
            BadArguments { .. } => "bad_arguments",
            Overloaded { .. } => "overloaded",
            Connection { .. } => "connection",
            Failed { .. } => "failed",
            Interrupted => "interrupted",
            Silent { .. } => "silent",
            OverTime { .. } => "over_time",
            Crashed { .. } => "crashed",
            Junk { .. } => "junk",
            OutputTooLong { .. } => "output_too_long",
            SessionMismatch { .. } => "session_mismatch",
            SessionUntold => "session_untold",
            SessionMissing { .. } => "session_missing",
            SessionInUse { .. } => "session_in_use",
            RefusedForRoot => "refused_for_root",
            PromptTooLong { .. } => "prompt_too_long",
            OtherFolder { .. } => "other_folder",
            Truncated { .. } => "truncated",
            ServersMissing { .. } => "servers_missing",
            ToolDeferred { .. } => "tool_deferred",
            CannotBranch { .. } => "cannot_branch",
        }
    }

    fn what_happened(&self) -> String {
        use TurnFault::*;
        let (what, said): (&str, &str) = match self {
            MissingProgram { program } => return format!("the agent program `{program}` was not found"),
            NotStarted { program, message } => {
                return format!("the agent program `{program}` could not be started: {message}");
            }
            Silent { after } => return format!("the agent program printed nothing for {}", seconds(*after)),
            OverTime { after } => return format!("the turn ran longer than {}", seconds(*after)),
            Crashed { ending, stderr } => {
                return format!("the agent program crashed ({ending}){}", quoted(stderr));
            }
            SessionMismatch { asked, got } => {
                return format!("the agent program ran in session {got} though {asked} was asked for");
            }
            PromptTooLong { backend, limit } => {
                return format!("the prompt is longer than the {limit} that the backend `{backend}` takes");
            }
            OtherFolder { backend, folder } => {
                return format!(
                    "the conversation began in {folder}, and the backend `{backend}` can continue it only there"
                );
            }
            CannotBranch { backend } => {
                return format!(
                    "the backend `{backend}` cannot branch a conversation, which this turn needs"
                );
            }
            ServersMissing { names } => {
                let names: Vec<String> =
                    names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
                return format!("a required tool server did not start: {}", names.join(", "));
            }
            ToolDeferred { tool } => {
                let tool = tool.escape_debug();
                return format!(
                    "a hook of the agent program put off the use of `{tool}`, and no one answers it here"
                );
            }
            Truncated { message } => ("the answer was cut at the model's limit", message),
            NotLoggedIn { message } => ("the agent program is not logged in", message),
            Forbidden { message } => ("the account was refused", message),
            LimitReached { message, .. } => ("a usage limit was reached", message),
            OverBudgetShare => ("the turn used up its share of the budget", ""),
            MaxTurns { message } => ("the agent program stopped at its own turn limit", message),
            TooLong { message } => ("the conversation is too long for the model", message),
            UnknownModel { message } => ("the model is not available", message),
            BadRequest { message } => ("the request was refused", message),
            BadArguments { message } => ("the agent program refused its arguments", message),
            Overloaded { message } => ("the model's service is overloaded or failing", message),
            Connection { message } => ("the model's service could not be reached", message),
            Failed { message } => ("the agent program gave up", message),
            Interrupted => ("the agent program was interrupted", ""),
            Junk { detail } => ("the agent program ended without a readable final message", detail),
            OutputTooLong { message } => {
                ("the agent program printed more than can be read, and no result", message)
            }
            SessionUntold => ("the agent program did not tell which session it ran in", ""),
            SessionMissing { message } => {
                ("the conversation to continue is unknown to the agent program", message)
            }
            SessionInUse { message } => ("the session id is taken", message),
            RefusedForRoot => ("the agent program refuses to skip permissions for root", ""),
        };
        format!("{what}{}", quoted(said))
    }

    fn what_to_do(&self) -> Option<&'static str> {
        use TurnFault::*;
        Some(match self {
            MissingProgram { .. } | NotStarted { .. } => {
                "install it, or name it with `command` under its [backend.…] table in .raymond/config.toml"
            }
            NotLoggedIn { .. } => "log in by starting the agent program once by hand, then resume",
            Forbidden { .. } => "check the account's access and credit, then resume",
            LimitReached { resets_at: None, .. } => "no reset time was named; resume later",
            MaxTurns { .. } => "raise the limit in the backend's `args`",
            TooLong { .. } => "shorten the prompt, or start the state in a fresh session with <reset>",
            UnknownModel { .. } => "correct `model` in the state, the command line or the config",
            BadRequest { .. } => "fix the state and resume",
            BadArguments { .. } => "check the backend's `args`, and the program's version",
            OverTime { .. } => "raise `max_time` and resume",
            SessionMismatch { .. } | SessionUntold => {
                "check the backend's `args` for session options, and the program's version"
            }
            OutputTooLong { .. } => "ask for a shorter answer, and let the agent write long ones into files",
            SessionMissing { .. } => {
                "resume on the machine and from the folder where it began, or rewind to before it"
            }
            PromptTooLong { .. } => "put the long part into a file, and let the prompt name the file",
            OtherFolder { .. } => "change folders with <reset>, or choose another backend for the state",
            Truncated { .. } => "ask for a shorter answer, or choose a model that can give a longer one",
            CannotBranch { .. } => {
                "lead to the state with <reset> or <function>, or choose another backend for it"
            }
            ServersMissing { .. } => {
                "start the server once by hand, log in to it if it asks for that, and resume; or leave out `require_mcp`"
            }
            ToolDeferred { .. } => {
                "let the hook allow or deny in a run, where the variable RAYMOND_RUN_ID is set, and resume"
            }
            RefusedForRoot => "run as another user, or set IS_SANDBOX=1 inside a sandbox",
            LimitReached { .. }
            | OverBudgetShare
            | Overloaded { .. }
            | Connection { .. }
            | Failed { .. }
            | Interrupted
            | Silent { .. }
            | Crashed { .. }
            | Junk { .. }
            | SessionInUse { .. } => return None,
        })
    }
}

impl fmt::Display for TurnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what_happened())?;
        match self.what_to_do() {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TurnFault {}

/// The program's message, to be added to ours; empty if the program said nothing.
fn quoted(message: &str) -> String {
    let message = message.trim();
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_happened_and_what_to_do() {
        let fault = TurnFault::MissingProgram { program: "claude".to_owned() };
        assert_eq!(
            fault.to_string(),
            "the agent program `claude` was not found; install it, or name it with `command` under its \
             [backend.…] table in .raymond/config.toml"
        );
        let fault = TurnFault::Crashed { ending: "exit code 3".to_owned(), stderr: " boom\n".to_owned() };
        assert_eq!(fault.to_string(), "the agent program crashed (exit code 3): boom");
        let fault = TurnFault::Crashed { ending: "signal 9".to_owned(), stderr: String::new() };
        assert_eq!(fault.to_string(), "the agent program crashed (signal 9)");
    }

    #[test]
    fn a_limit_carries_its_reset_time_into_its_class() {
        let fault = TurnFault::LimitReached { resets_at: Some(1_794_716_654), message: String::new() };
        assert_eq!(fault.class(), Class::WaitUntil(Some(1_794_716_654)));
    }
}
