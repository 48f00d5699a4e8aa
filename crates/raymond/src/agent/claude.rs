//! Claude Code, run headless: one process a turn, its prompt on standard input, its events as JSON lines.
//!
//! | module | holds |
//! |---|---|
//! | here | the command line |
//! | `stream` | the decoder of what it prints |
//! | `cost` | counting each turn's cost once, whichever way it is reported |
//! | `plain` | values that stay text in a prompt |
//! | `classify` | from a failed ending to a [`TurnFault`](super::TurnFault) |

mod classify;
mod cost;
mod lines;
mod plain;
mod stream;

pub use plain::plain;
pub use stream::Decoder;

use super::{Capabilities, Invocation, Turn};

/// The program's name when the config does not give another.
pub const COMMAND: &str = "claude";

pub const CAPABILITIES: Capabilities = Capabilities {
    resume: true,
    branch: true,
    own_session_id: true,
    cost: true,
    model: true,
    effort: true,
    budget_share: true,
    tool_rules: true,
    mcp: true,
};

/// Marks of a surrounding Claude Code session. A child that saw them would take itself for a part of that session.
const SURROUNDING_SESSION: [&str; 11] = [
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_EFFORT",
    "CLAUDE_PID",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "AI_AGENT",
];

/// The smallest limit that is handed over: the program refuses zero, and rounding must not make one.
const SMALLEST_BUDGET_USD: f64 = 0.000_001;

/// How to start `command` for this turn. `extra_args` come first, so that `command` may be a wrapper whose
/// arguments end with the program's name; the program takes the last of two equal options, so ours hold.
pub fn invocation(turn: &Turn, command: &str, extra_args: &[String]) -> Invocation {
    let mut args = extra_args.to_vec();
    args.extend(["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned));
    args.extend(session_args(turn));
    args.extend(permission_args(turn, extra_args));
    args.extend(choice_args(turn));
    args.extend(list_args(turn));
    Invocation {
        program: command.to_owned(),
        args,
        stdin: turn.prompt.clone().into_bytes(),
        unset: SURROUNDING_SESSION.to_vec(),
        set: Vec::new(),
    }
}

/// A continued conversation is a branch: the session it continues stays as it was, so that a retry starts from it again.
fn session_args(turn: &Turn) -> Vec<String> {
    let mut args = Vec::new();
    if let Some(parent) = &turn.branch_from {
        args.extend(["--resume".to_owned(), parent.clone(), "--fork-session".to_owned()]);
    }
    args.extend(["--session-id".to_owned(), turn.session.clone()]);
    args
}

/// A permission mode among the backend's own arguments is left to stand.
fn permission_args(turn: &Turn, extra_args: &[String]) -> Vec<String> {
    if turn.skip_permissions {
        return vec!["--dangerously-skip-permissions".to_owned()];
    }
    let chosen_in_config =
        extra_args.iter().any(|arg| arg == "--permission-mode" || arg.starts_with("--permission-mode="));
    if chosen_in_config {
        return Vec::new();
    }
    vec!["--permission-mode".to_owned(), "acceptEdits".to_owned()]
}

fn choice_args(turn: &Turn) -> Vec<String> {
    let budget = turn.budget_usd.filter(|usd| usd.is_finite()).map(plain_decimal);
    let choices = [("--model", &turn.model), ("--effort", &turn.effort), ("--max-budget-usd", &budget)];
    choices
        .into_iter()
        .flat_map(|(flag, value)| value.iter().flat_map(move |value| pair(flag, value)))
        .collect()
}

/// Flag and value are two arguments, as everybody writes them: a wrapper named in the config may look for them.
fn pair(flag: &str, value: &str) -> [String; 2] {
    [flag.to_owned(), value.to_owned()]
}

/// These flags take any number of values and would swallow what follows, so nothing but flags may. Repeating one adds
/// to its list; its first value is taken whatever it begins with.
fn list_args(turn: &Turn) -> Vec<String> {
    let lists = [
        ("--allowedTools", &turn.allow_tools),
        ("--disallowedTools", &turn.deny_tools),
        ("--add-dir", &turn.add_dirs),
        ("--mcp-config", &turn.mcp_config),
    ];
    lists
        .into_iter()
        .flat_map(|(flag, values)| values.iter().flat_map(move |value| pair(flag, value)))
        .collect()
}

fn plain_decimal(usd: f64) -> String {
    let digits = format!("{:.6}", usd.max(SMALLEST_BUDGET_USD));
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "11111111-1111-4111-8111-111111111111";
    const PARENT: &str = "22222222-2222-4222-8222-222222222222";

    fn fresh() -> Turn {
        Turn { prompt: "do it".to_owned(), session: OWN.to_owned(), ..Turn::default() }
    }

    fn args(turn: &Turn) -> String {
        invocation(turn, COMMAND, &[]).args.join(" ")
    }

    #[test]
    fn a_fresh_turn_names_its_session_and_keeps_the_prompt_off_the_command_line() {
        let invocation = invocation(&fresh(), COMMAND, &[]);
        assert_eq!(
            invocation.args.join(" "),
            format!(
                "-p --output-format stream-json --verbose --session-id {OWN} --permission-mode acceptEdits"
            )
        );
        assert_eq!(invocation.stdin, b"do it");
        assert!(invocation.unset.contains(&"CLAUDECODE"));
    }

    #[test]
    fn a_continued_turn_branches_off() {
        let turn = Turn { branch_from: Some(PARENT.to_owned()), ..fresh() };
        assert!(args(&turn).contains(&format!("--resume {PARENT} --fork-session --session-id {OWN}")));
    }

    #[test]
    fn lists_give_one_flag_a_value() {
        let turn = Turn {
            allow_tools: vec!["Bash(cargo test:*)".to_owned(), "--odd".to_owned()],
            deny_tools: vec!["WebFetch".to_owned()],
            add_dirs: vec!["/a b".to_owned()],
            mcp_config: vec!["m.json".to_owned()],
            ..fresh()
        };
        let args = invocation(&turn, COMMAND, &[]).args;
        let tail = &args[args.len() - 10..];
        assert_eq!(
            tail,
            [
                ["--allowedTools", "Bash(cargo test:*)"],
                ["--allowedTools", "--odd"],
                ["--disallowedTools", "WebFetch"],
                ["--add-dir", "/a b"],
                ["--mcp-config", "m.json"]
            ]
            .concat()
        );
    }

    #[test]
    fn choices_are_passed_on() {
        let turn = Turn {
            model: Some("opus".to_owned()),
            effort: Some("high".to_owned()),
            budget_usd: Some(0.1 + 0.2),
            skip_permissions: true,
            ..fresh()
        };
        let args = args(&turn);
        assert!(
            args.ends_with("--dangerously-skip-permissions --model opus --effort high --max-budget-usd 0.3")
        );
    }

    #[test]
    fn budgets_are_plain_decimals_above_zero() {
        assert_eq!(plain_decimal(2.0), "2");
        assert_eq!(plain_decimal(0.0), "0.000001");
        assert_eq!(plain_decimal(1e-9), "0.000001");
        assert_eq!(plain_decimal(10.25), "10.25");
    }

    #[test]
    fn a_wrapper_and_a_permission_mode_in_the_config_stand() {
        let extra = ["run", "--permission-mode=plan"].map(str::to_owned);
        let invocation = invocation(&fresh(), "wrapper", &extra);
        assert_eq!(invocation.program, "wrapper");
        assert_eq!(invocation.args[..3], ["run", "--permission-mode=plan", "-p"]);
        assert!(!invocation.args.contains(&"acceptEdits".to_owned()));
    }
}
