//! A fake Claude Code for tests: it costs nothing and follows a script. It is called `claude`, so a test puts its
//! folder at the front of `PATH`.
//!
//! It takes the real program's arguments and prints its `stream-json` format. Like the real one it refuses a session id
//! that is in use and a conversation that does not exist, stores conversations in sessions, leaves an unfinished turn
//! in the session when it is killed, and stops once a turn costs more than `--max-budget-usd`.
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `FAKE_CLAUDE_HOME` | the folder for everything below; required |
//! | `FAKE_CLAUDE_SCRIPT` | the script; default `$FAKE_CLAUDE_HOME/script.json`. Without one it answers `echo: PROMPT` |
//! | `FAKE_CLAUDE_STYLE` | `325` (default): `total_cost_usd` is the total of the session; `197`: of the process |
//! | `FAKE_CLAUDE_ROOT` | if set, it refuses `--dangerously-skip-permissions` without `IS_SANDBOX=1`, as for root |
//!
//! # Files in `FAKE_CLAUDE_HOME`
//!
//! | file | content |
//! |---|---|
//! | `sessions/ID.json` | `{"history": [{"prompt", "reply"}], "total_cost_usd", "model", "cwd"}`; the reply of a turn that did not finish is null |
//! | `calls.jsonl` | a line for each start: `pid, at_ms, argv, cwd, prompt, session, parent, history (what the agent remembers), model, effort, permission_mode, budget_usd, rule, refused, env` |
//! | `ends.jsonl` | a line for each normal end: `pid, at_ms, session` |
//! | `children` | a line with the pid for each child started by `child_s` |
//! | `uses.json`, `lock` | how often each rule was used; the lock for parallel starts |
//!
//! # Script
//!
//! A JSON list of rules. The first that matches and is not used up is played; without one the turn fails with a 400.
//!
//! | field | meaning |
//! |---|---|
//! | `match` | text that the prompt must contain |
//! | `model` | text that the model's name must contain |
//! | `fresh` | true: only in a new conversation, false: only in a continued one |
//! | `times` | how often the rule may be used; default always |
//! | `kind` | what happens, see below; default `reply` |
//! | `reply` | the final message. `{{prompt}}`, `{{session}}`, `{{model}}`, `{{cwd}}` and `{{history}}` (number of earlier turns) are replaced |
//! | `cost` | dollars; default 0.01, and 0 for kinds that never reach the model |
//! | `calls` | over how many model calls the cost is spread, which is where a budget is checked; default 1 |
//! | `when` | for `crash` and `hang`: `start`, `init`, `text` (default) or `result` |
//! | `exit`, `signal` | for `crash`: exit code (default 1), or the number of the signal it dies of |
//! | `resets_at`, `resets_in` | for `limit`: seconds since 1970, or from now |
//! | `message` | the text of an error, instead of the real program's |
//! | `stderr` | written to stderr at the start |
//! | `delay_ms`, `hold` | after `init`, waits this long, or until a file of that name is in `FAKE_CLAUDE_HOME` |
//! | `pace_ms` | the reply comes word by word with this pause |
//! | `babble` | number of lines printed that are not JSON |
//! | `run` | a shell command, run in the working directory as the agent's work |
//! | `tools` | names of tools that are announced |
//! | `denied` | names of tools that were refused |
//! | `servers` | tool servers by name, with their status, such as `failed` |
//! | `deferred` | the tool whose use a hook has put off |
//! | `earlier` | final messages before the last one, as when background work wakes the agent |
//! | `linger_ms` | how long it stays alive after the end |
//! | `child_s` | starts a child in its own session that sleeps this number of seconds |
//! | `wrong_session` | reports another session than it was asked for |
//!
//! Kinds: `reply`, `crash`, `hang` (until it is killed), `silent_end` (exit 0 without a result), `limit`, `rate_limited`
//! (429 after retries), `overloaded` (529), `connection`, `not_logged_in`, `unauthorized` (401), `model_404`, `too_long`,
//! `bad_request`, `budget`, `max_turns`, `interrupted`.

mod args;
mod child;
mod home;
mod play;
mod script;
mod voice;

use args::Args;
use home::{Home, Refusal};
use std::error::Error;
use std::io::Read;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args().skip(1).collect();
    match run(&argv) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fake-claude: {error}");
            ExitCode::from(70)
        }
    }
}

fn run(argv: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    if let [child::FLAG, seconds] = argv.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return child::sleep(seconds);
    }
    let args = match Args::parse(argv) {
        Ok(args) => args,
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    let style = voice::Style::from_environment();
    if args.version {
        println!("{} (Claude Code)", style.version());
        return Ok(ExitCode::SUCCESS);
    }
    let prompt = prompt(&args)?;
    if prompt.trim().is_empty() {
        return Ok(refuse(
            "Error: Input must be provided either through stdin or as a prompt argument when using --print",
        ));
    }
    let home = Home::open()?;
    match home.begin(argv, &args, &prompt)? {
        Ok(turn) => play::play(&home, &args, style, turn),
        Err(Refusal::SessionInUse(id)) => Ok(refuse(&format!("Error: Session ID {id} is already in use."))),
        Err(Refusal::NoConversation { parent, session }) => {
            voice::no_conversation(style, &parent, &session)?;
            Ok(refuse(&format!("No conversation found with session ID: {parent}")))
        }
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

fn prompt(args: &Args) -> Result<String, Box<dyn Error>> {
    if let Some(prompt) = &args.prompt {
        return Ok(prompt.clone());
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
