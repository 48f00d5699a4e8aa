//! Claude Code, run headless: one process for each turn, its prompt on standard input, its events as JSON lines.
//!
//! | module | holds |
//! |---|---|
//! | here | the command line |
//! | `stream` | the decoder of what it prints |
//! | `cost` | counting the cost of each turn once, however it is reported |
//! | `default_model` | the model of a turn for which none is chosen |
//! | `plain` | values that stay text in a prompt |
//! | `classify` | from a failed turn to a [`TurnFault`](super::TurnFault) |

mod classify;
mod cost;
mod default_model;
mod plain;
mod stream;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::kept::{Kept, inherited};
use super::launcher::{Arguments, Launcher};
use super::session::{SessionFiles, SessionPlace};
use super::{AgentProgram, Capabilities, Filled, Grants, Inspection, Invocation, Plain, Turn, TurnDecoder};
use crate::config::BackendSettings;

/// The efforts that it takes. It ignores others with a warning.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// How long the name of a project's folder may be before the program shortens it.
const LONGEST_PROJECT_NAME: usize = 200;

/// Variables of a surrounding Claude Code session. A child that inherits them would think that it is part of that
/// session.
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

/// The smallest limit that is passed on: the program refuses zero, and rounding must not produce it.
const SMALLEST_BUDGET_USD: f64 = 0.000_001;

#[derive(Debug)]
struct Claude(Launcher);

/// What it obeys in its working folder.
pub(super) const OBEYED: &[&str] = &[
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/skills",
    ".mcp.json",
];

pub(super) fn program(settings: &BackendSettings) -> Result<Arc<dyn AgentProgram>, String> {
    Ok(Arc::new(Claude(Launcher::new(settings, "claude"))))
}

impl AgentProgram for Claude {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn known_efforts(&self) -> Option<&'static [&'static str]> {
        Some(&EFFORTS)
    }

    fn inspection(&self) -> Option<Inspection> {
        Some(self.0.inspection(&["2.1.197", "2.1.325", "2.1.327"]))
    }

    fn invocation(&self, turn: &Turn) -> Result<Invocation, String> {
        let mut turn = turn.clone();
        let is_chosen = |arg: &str| arg == "--model" || arg.starts_with("--model=");
        // The program continues a conversation with its last model, which may have been chosen for another state.
        turn.model = Kept::model(&turn, self.0.has(is_chosen))
            .told(|| default_model::default_model(&turn.cwd, &inherited))?;
        Ok(invocation(&turn, &self.0))
    }

    fn decoder(&self, turn: &Turn) -> Box<dyn TurnDecoder> {
        Box::new(stream::Decoder::new(turn))
    }

    fn plain(&self, filled: &Filled<'_>) -> Plain {
        plain::plain(filled)
    }

    fn interactive(&self, session: &str) -> Option<Invocation> {
        let args = self.0.arguments().words(["--resume", session, "--fork-session"]);
        let invocation = self.0.invocation(args, "");
        Some(Invocation { unset: SURROUNDING_SESSION.to_vec(), ..invocation })
    }

    /// The program finds conversations by its working folder.
    fn session_files(&self, place: &SessionPlace<'_>) -> Option<SessionFiles> {
        let project = projects_folder(place)?.join(project_name(place.real_cwd().to_str()?));
        Some(SessionFiles::One(project.join(format!("{}.jsonl", place.session))))
    }

    /// It is looked for in all projects: newer versions of the program find it there, too. A wrapper may start the program
    /// where other files are, so of a command with another name nothing is known.
    fn has_conversation(&self, place: &SessionPlace<'_>) -> Option<bool> {
        let is_plain = |name: &OsStr| name == "claude";
        Path::new(&self.0.command).file_stem().filter(|name| is_plain(name))?;
        let projects = fs::read_dir(projects_folder(place)?).ok()?;
        let file = format!("{}.jsonl", place.session);
        Some(projects.flatten().any(|project| project.path().join(&file).is_file()))
    }
}

/// Where the program keeps its conversations, a folder for each project; nothing for what cannot be a session's id.
fn projects_folder(place: &SessionPlace<'_>) -> Option<PathBuf> {
    place.plain_id()?;
    let config = place.folder("CLAUDE_CONFIG_DIR").or_else(|| Some(place.home()?.join(".claude")))?;
    Some(config.join("projects"))
}

/// The name of the folder with the conversations of a working folder. In the path, every character but letters and digits
/// becomes a dash. A long name is cut, and a hash of the path is added to it.
fn project_name(cwd: &str) -> String {
    let plain = |unit: u16| u8::try_from(unit).ok().filter(u8::is_ascii_alphanumeric).map_or('-', char::from);
    let mut name: String = cwd.encode_utf16().map(plain).collect();
    if name.len() > LONGEST_PROJECT_NAME {
        let add = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(unit.into());
        let hash = cwd.encode_utf16().fold(0, add).unsigned_abs();
        name.truncate(LONGEST_PROJECT_NAME);
        name.push('-');
        name.push_str(&in_base_36(hash));
    }
    name
}

fn in_base_36(number: u32) -> String {
    let rest = if number < 36 { String::new() } else { in_base_36(number / 36) };
    let digit = char::from_digit(number % 36, 36).unwrap_or('0');
    format!("{rest}{digit}")
}

/// How to start the program for this turn. If an option is given twice, it uses the last one, so ours win over those
/// of the settings.
fn invocation(turn: &Turn, launcher: &Launcher) -> Invocation {
    let args = launcher.arguments().words(["-p", "--output-format", "stream-json", "--verbose"]);
    let args = session_args(args, turn);
    let args = permission_args(args, turn, launcher);
    let args = list_args(choice_args(args, turn), turn);
    let invocation = launcher.invocation(args, &turn.prompt);
    Invocation { unset: SURROUNDING_SESSION.to_vec(), ..invocation }
}

/// A continued conversation is a branch: the session that it continues is not changed, so a retry can start from it
/// again.
fn session_args(args: Arguments, turn: &Turn) -> Arguments {
    let args = match &turn.continues {
        Some(continued) => args.words(["--resume", &continued.session, "--fork-session"]),
        None => args,
    };
    args.option("--session-id", &turn.session)
}

/// The workflow's permission mode comes before one in the backend's own arguments, and that before ours.
fn permission_args(args: Arguments, turn: &Turn, launcher: &Launcher) -> Arguments {
    const MODE: &str = "--permission-mode";
    if turn.skip_permissions {
        return args.words(["--dangerously-skip-permissions"]);
    }
    match &turn.permission_mode {
        // Versions before 2.1.325 do not know the new name, and the new ones still take the old one.
        Some(mode) if mode == "manual" => args.words([MODE, "default"]),
        Some(mode) => args.option(MODE, mode),
        None if launcher.has(|arg| arg == MODE || arg.starts_with("--permission-mode=")) => args,
        None => args.words([MODE, "acceptEdits"]),
    }
}

fn choice_args(args: Arguments, turn: &Turn) -> Arguments {
    let budget = turn.budget_usd.filter(|usd| usd.is_finite()).map(plain_decimal);
    args.option("--model", &turn.model).option("--effort", &turn.effort).option("--max-budget-usd", &budget)
}

/// These flags take any number of values, so only another flag may follow them. A repeated flag adds to its list; its
/// first value is accepted even if it begins with a dash.
fn list_args(args: Arguments, turn: &Turn) -> Arguments {
    let Grants { allow_tools, deny_tools, add_dirs, mcp_config } = &turn.grants;
    args.grants("--allowedTools", allow_tools)
        .grants("--disallowedTools", deny_tools)
        .grants("--add-dir", add_dirs)
        .grants("--mcp-config", mcp_config)
}

fn plain_decimal(usd: f64) -> String {
    let digits = format!("{:.6}", usd.max(SMALLEST_BUDGET_USD));
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::session::{export, import};
    use super::super::{Continued, Grant, GrantKey};
    use super::*;
    use std::path::Path;

    const OWN: &str = "11111111-1111-4111-8111-111111111111";
    const PARENT: &str = "22222222-2222-4222-8222-222222222222";

    fn fresh() -> Turn {
        Turn { prompt: "do it".to_owned(), session: Some(OWN.to_owned()), ..Turn::default() }
    }

    fn launcher(args: &[&str]) -> Launcher {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Launcher::new(&BackendSettings { args, ..BackendSettings::default() }, "claude")
    }

    fn args(turn: &Turn) -> String {
        invocation(turn, &launcher(&[])).args.join(" ")
    }

    #[test]
    fn a_fresh_turn_names_its_session_and_has_no_prompt_in_its_arguments() {
        let invocation = invocation(&fresh(), &launcher(&[]));
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
    fn a_continued_turn_is_a_branch() {
        let turn = Turn {
            continues: Some(Continued { session: PARENT.to_owned(), ..Continued::default() }),
            ..fresh()
        };
        assert!(args(&turn).contains(&format!("--resume {PARENT} --fork-session --session-id {OWN}")));
    }

    #[test]
    fn a_model_of_another_state_is_not_inherited() {
        let folder = tempfile::tempdir().unwrap();
        let args = |model: Option<&str>, of_last: Option<&str>, extra: &[&str]| {
            let continued = Continued {
                session: PARENT.to_owned(),
                model: of_last.map(str::to_owned),
                ..Continued::default()
            };
            let turn = Turn {
                continues: Some(continued),
                cwd: folder.path().to_owned(),
                model: model.map(str::to_owned),
                ..fresh()
            };
            Claude(launcher(extra)).invocation(&turn).unwrap().args.join(" ")
        };
        assert!(args(Some("opus"), Some("haiku"), &[]).contains("--model opus"));
        assert!(!args(None, None, &[]).contains("--model"));
        assert!(!args(None, Some("haiku"), &["--model=x"]).contains("--model "));
    }

    fn grant(written: &str) -> Grant {
        GrantKey::AllowTools.fill(written, |_| None).unwrap()
    }

    #[test]
    fn each_value_of_a_list_gets_its_own_flag() {
        let turn = Turn {
            grants: Grants {
                allow_tools: vec![grant("Bash(cargo test:*)"), grant("--odd")],
                deny_tools: vec![grant("WebFetch")],
                add_dirs: vec![grant("/a b")],
                mcp_config: vec![grant("m.json")],
            },
            ..fresh()
        };
        let args = invocation(&turn, &launcher(&[])).args;
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
    fn a_wrapper_and_a_permission_mode_in_the_config_are_kept() {
        let invocation = invocation(&fresh(), &launcher(&["run", "--permission-mode=plan"]));
        assert_eq!(invocation.args[..3], ["run", "--permission-mode=plan", "-p"]);
        assert!(!invocation.args.contains(&"acceptEdits".to_owned()));
    }

    fn file_of(files: &SessionFiles) -> PathBuf {
        let SessionFiles::One(file) = files else { panic!("{files:?}") };
        file.clone()
    }

    #[test]
    fn a_conversation_is_copied_to_another_folder_and_home() {
        let here = tempfile::tempdir().unwrap();
        let there = tempfile::tempdir().unwrap();
        let program = program(&BackendSettings::default()).unwrap();
        let home = |folder: &Path| {
            let home = folder.as_os_str().to_owned();
            move |name: &str| (name == "HOME" || name == "USERPROFILE").then(|| home.clone())
        };
        let (from, to) = (home(here.path()), home(there.path()));
        let cwd = here.path().join("a b.c");
        fs::create_dir(&cwd).unwrap();
        let place = SessionPlace { session: OWN, cwd: &cwd, variable: &from };
        let file = file_of(&program.session_files(&place).unwrap());
        assert!(file.starts_with(here.path().join(".claude/projects")), "{}", file.display());
        let project = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert!(project.ends_with("-a-b-c") && !project.contains(['/', '.', ' ']), "{project}");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{}\n").unwrap();

        let bytes = export(&*program, &place).unwrap().unwrap();
        let place = SessionPlace { session: OWN, cwd: there.path(), variable: &to };
        assert!(export(&*program, &place).is_err(), "it is not there yet");
        assert!(import(&*program, &place, &bytes).unwrap());
        assert!(import(&*program, &place, &bytes).unwrap(), "a second import changes nothing");
        assert_eq!(export(&*program, &place).unwrap().unwrap(), b"{}\n");
        let folder = file_of(&program.session_files(&place).unwrap()).parent().unwrap().to_owned();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "there is no temporary file left");
    }

    /// These names were made by versions 2.1.197 and 2.1.325.
    #[test]
    fn the_name_of_a_long_folder_is_the_one_that_the_program_chooses() {
        let start = format!("/tmp/wt-claude/cwd{}/", "/abcdefg".repeat(22));
        let cut = start.replace('/', "-");
        assert_eq!(project_name(&format!("{start}xxxxx")), format!("{cut}xxxxx"));
        assert_eq!(project_name(&format!("{start}xxxxxx")), format!("{cut}xxxxx-ovag5j"));
        let long = format!("{start}abcdefg/abcdefg/abcdefg/abcdefg/abcdefg/xxxxx");
        assert_eq!(project_name(&long), format!("{cut}abcde-wp0sc8"));
    }
}
