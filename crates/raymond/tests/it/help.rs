//! Help, manual pages, completions and `--version`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use test_kit::needs::is_missing;
use test_kit::rig::Rig;

use crate::RAYMOND;

/// Every command, with its words on the command line.
fn commands() -> Vec<(Vec<String>, clap::Command)> {
    let mut root = raymond::cli::command();
    root.build();
    let subcommands = root.get_subcommands().filter(|command| command.get_name() != "help").cloned();
    let named = subcommands.map(|command| (vec![command.get_name().to_owned()], command));
    std::iter::once((vec![], root.clone())).chain(named).collect()
}

#[test]
fn every_command_has_help_with_examples_that_name_it() {
    let rig = Rig::new(RAYMOND);
    for (words, command) in commands() {
        let args = [words.clone(), vec!["--help".to_owned()]].concat();
        let done = rig.raymond(&args);
        assert_eq!(done.exit, 0, "{args:?}");
        let call = [vec!["raymond".to_owned()], words.clone()].concat().join(" ");
        let examples = done.stdout.rsplit_once("Usage:").unwrap().1.split_once('\n').unwrap().1;
        // `raymond run WORKFLOW` is usually written without `run`.
        let call = call.strip_suffix(" run").unwrap_or(&call);
        assert!(
            examples.contains(&format!("  {call} ")) || examples.contains(&format!("({call} ")),
            "{call}: {examples}"
        );
        assert!(done.stdout.lines().all(|line| line.chars().count() <= 110), "too wide: {}", done.stdout);
        let written = command.get_after_help().unwrap().to_string();
        let too_long = written.lines().find(|line| line.starts_with("  ") && line.chars().count() > 78);
        assert_eq!(too_long, None, "would be broken on a terminal of 80 columns");
        let by_name = [vec!["help".to_owned()], words].concat();
        assert_eq!(rig.raymond(&by_name).stdout, done.stdout);
    }
}

/// `raymond 1.2.3 (abcdef0 2026-01-31)`, or only the number without git history.
#[test]
fn the_version_has_commit_and_date() {
    let shown = Rig::new(RAYMOND).raymond(&["--version"]).stdout;
    let rest = shown.trim_end().strip_prefix(concat!("raymond ", env!("CARGO_PKG_VERSION"))).unwrap();
    if !rest.is_empty() {
        let (commit, date) =
            rest.strip_prefix(" (").unwrap().strip_suffix(')').unwrap().split_once(' ').unwrap();
        assert!(commit.len() >= 7 && commit.chars().all(|digit| digit.is_ascii_hexdigit()), "{shown}");
        assert!(date.parse::<jiff::civil::Date>().is_ok(), "{shown}");
    }
}

/// `UPDATE=1` writes them.
#[test]
fn the_manual_pages_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    let pages: Vec<(PathBuf, Vec<u8>)> = commands()
        .into_iter()
        .map(|(words, command)| (folder.join(page_name(&words)), page(&words, command)))
        .collect();
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (path, text) in &pages {
            fs::write(path, text).unwrap();
        }
    }
    for (path, text) in &pages {
        let is_same = fs::read(path).is_ok_and(|found| found == *text);
        assert!(is_same, "{} is out of date; UPDATE=1 writes it", path.display());
    }
    let mut found: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut expected: Vec<PathBuf> = pages.into_iter().map(|(path, _)| path).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "there is a page for a command that does not exist");
}

fn page_name(words: &[String]) -> String {
    [vec!["raymond".to_owned()], words.to_vec()].concat().join("-") + ".1"
}

fn page(words: &[String], command: clap::Command) -> Vec<u8> {
    let name: &'static str = Box::leak(page_name(words).trim_end_matches(".1").to_owned().into_boxed_str());
    // The commit changes too often to be in the page.
    let command = command.name(name).version(env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command).date("").render(&mut text).unwrap();
    with_lines_kept(String::from_utf8(text).unwrap().replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n"))
        .into_bytes()
}

/// Examples have columns, which `man` would join like normal text.
fn with_lines_kept(page: String) -> String {
    let is_example = |line: &str| line.starts_with("  ");
    let mut was_example = false;
    let mut kept = String::new();
    for line in page.lines() {
        match (was_example, is_example(line)) {
            (false, true) => kept += ".nf\n",
            (true, false) => kept += ".fi\n",
            _ => {}
        }
        was_example = is_example(line);
        kept += &format!("{line}\n");
    }
    kept
}

/// A real bash loads the script and completes words, as if a person had pressed tab.
#[test]
fn completions_know_commands_options_and_runs() {
    if is_missing("bash", "completions") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "monday"]);
    rig.raymond(&["workflow", "--id", "morning"]);
    rig.raymond(&["workflow", "--id", "friday"]);
    let complete = |words: &[&str]| {
        let last = words.last().unwrap();
        let script = format!(
            "source <({RAYMOND} completions bash)\nCOMP_WORDS=(raymond {}); COMP_CWORD={}; COMP_TYPE=9\n\
             _clap_complete_raymond raymond '{last}' raymond\necho \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len(),
        );
        let mut command = rig.program("bash");
        command.args(["-c", &script]);
        rig.launch(command).wait().stdout.trim_end().to_owned()
    };
    assert_eq!(complete(&["st"]), "status stop");
    assert_eq!(complete(&["lint", "--form"]), "--format");
    for command in ["status", "log", "branch", "clean"] {
        assert_eq!(complete(&[command, "mo"]), "morning monday", "{command}");
    }
    // Only runs that the command can be used for.
    rig.write("asks/START.sh", "echo '<ask next=\"END\">why?</ask>'");
    rig.write("asks/END.sh", "exit 1");
    rig.raymond(&["asks", "--id", "mouse"]);
    rig.raymond(&["asks", "--id", "mole"]);
    rig.raymond(&["answer", "mole", "so"]);
    for (command, expected) in [
        ("resume", "mole mouse"),
        ("--resume", "mole mouse"),
        ("rewind", "mole mouse morning monday"),
        ("answer", "mouse"),
        ("retry", "mole"),
        ("stop", ""),
    ] {
        assert_eq!(complete(&[command, "mo"]), expected, "{command}");
    }
    assert_eq!(complete(&["workf"]), "workflow/");
    assert_eq!(complete(&["init", "--template", ""]), "hello review fan-out");
    assert_eq!(complete(&["init", "--template", "fa"]), "fan-out");
    assert_eq!(complete(&["lint", "--explain", "R00"]), complete(&["lint", "--explain", "r00"]));
    assert!(complete(&["lint", "--explain", "R0"]).starts_with("R001 R002 "));
    assert_eq!(complete(&["list", "--status", "o"]), "over_budget");
    assert!(complete(&["list", "--status", ""]).contains("damaged"));
    rig.write(
        "workflow/workflow.yaml",
        "inputs: { issue: { type: integer }, style: { type: choice, choices: [short, long] } }",
    );
    assert_eq!(complete(&["workflow", "--set", ""]), "issue= style=");
    assert_eq!(complete(&["run", "workflow", "--set", "s"]), "style=");
    assert_eq!(complete(&["workflow", "--set", "style="]), "style=short style=long");
    assert_eq!(complete(&["workflow", "--set", "other="]), "");
}

/// The built-in backends and the configured ones; a config file that cannot be read leaves the former.
#[test]
fn completions_know_the_backends_for_every_shell() {
    let rig = Rig::new(RAYMOND);
    let complete = |shell: &str, start: &str| {
        let words = ["raymond", "resume", "--backend", start];
        let args: Vec<&str> = ["--"].into_iter().chain(words).collect();
        let mut command = rig.command(&args);
        command.env("RAYMOND_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "3");
        command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_IFS", "\n");
        let done = rig.launch(command).wait();
        assert_eq!(done.exit, 0, "{shell}: {}", done.stderr);
        done.stdout.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    rig.write(".raymond/config.toml", "[backend.careful]\nkind = \"claude\"\n");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert_eq!(complete(shell, "c"), ["careful", "claude", "codex", "copilot"], "{shell}");
    }
    assert_eq!(complete("bash", "s"), ["scripted"]);
    rig.write(".raymond/config.toml", "[backend.\"cl; rm\\u001b[2J\"]\nkind = \"claude\"\n");
    assert_eq!(complete("bash", "cl"), ["claude"], "a name that a shell could obey");
    rig.write(".raymond/config.toml", "[backend");
    assert_eq!(complete("bash", "cl"), ["claude"]);
}

#[test]
fn there_are_completions_for_every_shell_that_is_named() {
    let rig = Rig::new(RAYMOND);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let done = rig.raymond(&["completions", shell]);
        assert_eq!(done.exit, 0);
        assert!(
            done.stdout.contains("RAYMOND_COMPLETE") && done.stdout.contains("raymond"),
            "{}",
            done.stdout
        );
    }
}
