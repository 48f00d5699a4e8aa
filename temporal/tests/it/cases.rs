//! The case folders of the local tests, here and on Temporal: the same journal, but for times, hosts and folders. A case
//! that a run elsewhere cannot play has a file `local` with the reason. That takes a while, so only every fifth case is
//! played unless `RAYMOND_CASES=all` or `CASE=text` asks for more.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use test_kit::case::{Case, Played, all_cases};
use test_kit::diff::diff;
use test_kit::needs::lacks_an_interpreter;
use test_kit::rig::Rig as Place;

use crate::harness::{Process, Rig};

/// How many cases are played at the same time.
const AT_ONCE: usize = 4;
/// One of so many cases is played.
const SOME: usize = 5;
/// Cases that are always played, because they once differed.
const ALWAYS: [&str; 12] = [
    "ask-answered-status",
    "ask-answered-twice",
    "cwd-where-launched",
    "declared-on-resume",
    "fallback-limit",
    "fallback-may-forget",
    "frontmatter-every-key",
    "resume-diff",
    "resume-mended",
    "show",
    "status-failed-output",
    "workflow-call",
];
const PROGRAM: &str = env!("CARGO_BIN_EXE_raymond-temporal");
/// The commands in the steps of cases that start no run.
const OTHER_COMMANDS: [&str; 14] = [
    "answer", "branch", "convert", "diagram", "jump", "lint", "list", "log", "resume", "retry", "rewind",
    "show", "status", "stop",
];

#[test]
fn cases_have_the_same_journal_as_here() {
    let Some(rig) = Rig::new() else { return };
    let cases: Vec<Case> = all_cases().into_iter().filter(|case| case.setting("local").is_none()).collect();
    let is_asked_for = ["CASE", "RAYMOND_CASES"].iter().any(|name| std::env::var_os(name).is_some());
    let is_played =
        |(at, case): &(usize, Case)| is_asked_for || at % SOME == 0 || ALWAYS.contains(&case.name.as_str());
    let cases: Vec<Case> = cases.into_iter().enumerate().filter(is_played).map(|(_, case)| case).collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let checked = std::panic::catch_unwind(|| check(case, &rig.server()));
                    let checked = checked.unwrap_or_else(|_| Err("    it panicked; see above\n".to_owned()));
                    eprintln!("{} {}", if checked.is_ok() { "same" } else { "DIFFERS" }, case.name);
                    if let Err(text) = checked {
                        if std::env::var_os("X").is_some() {
                            eprintln!("── case {}\n{text}", case.name);
                        }
                        failures.lock().unwrap().push(format!("── case {}\n{text}", case.name));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} of {} cases differ (- here, + on Temporal)\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

/// Plays a case here and, if that makes a run, on the server.
fn check(case: &Case, server: &str) -> Result<(), String> {
    if lacks_an_interpreter(&case.folder, &format!("the case {}", case.name))
        || case.setting("ignored").is_some()
    {
        return Ok(());
    }
    let here = lay_out(case);
    let played_here = play(case, &here, None);
    if played_here.log.is_empty() {
        return Ok(());
    }
    let there = lay_out(case);
    let blobs = format!("file://{}", there.home().join("blobs").display());
    let engine = format!("temporal://{server}?queue={}&blobs={blobs}", case.name);
    let _worker = worker(case, &there, server, &blobs);
    let played_there = play(case, &there, Some(&engine));
    let said: String = played_there.commands.iter().map(|(_, done)| done.stderr.as_str()).collect();
    let (here, there) = (results(case, &here, played_here), results(case, &there, played_there));
    let differ = here.iter().zip(&there).filter(|(here, there)| here != there);
    let report: String =
        differ.map(|((name, here), (_, there))| format!("  {name}:\n{}", diff(here, there))).collect();
    if report.is_empty() { Ok(()) } else { Err(report + &said) }
}

/// The working folder of a case, as a repository: what is committed is there on other machines too.
fn lay_out(case: &Case) -> Place {
    let place = case.lay_out(Path::new(PROGRAM));
    fs::remove_dir_all(place.path(".git")).unwrap();
    for arguments in
        [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--allow-empty", "-m", "all"]]
    {
        let mut git = Command::new("git");
        git.current_dir(place.work()).args(["-c", "user.name=n", "-c", "user.email=e"]).args(arguments);
        assert!(git.status().unwrap().success());
    }
    place
}

/// A machine with the environment and the settings of the case.
fn worker(case: &Case, place: &Place, server: &str, blobs: &str) -> Process {
    if let Some(config) = case.setting("config.toml") {
        let folder = place.home().join("settings/raymond");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), config).unwrap();
    }
    let mut worker =
        place.command(&["worker", "--temporal", server, "--queue", &case.name, "--blobs", blobs]);
    case.set_environment(place, &mut worker);
    worker.env("XDG_CONFIG_HOME", place.home().join("settings"));
    worker.arg("--work").arg(place.home().join("machine")).current_dir(place.home());
    let log = fs::File::create(place.home().join("worker.log")).unwrap();
    worker.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    Process(worker.spawn().expect("the worker starts"))
}

fn play(case: &Case, place: &Place, engine: Option<&str>) -> Played {
    let steps: Vec<String> = case.steps();
    let ids = ids_of(&steps);
    // Without a terminal a local run pauses for answers, and one elsewhere waits.
    let is_chosen = case.setting("config.toml").is_some_and(|config| config.contains("on_ask"));
    let pauses = if is_chosen { "" } else { " --on-ask pause" };
    let there = engine.map(|engine| format!(" --on {engine}{pauses}"));
    let on = |step: &String| on(&with_ids(step, &ids, &case.name), there.as_deref());
    let steps: Vec<String> = steps.iter().map(on).collect();
    case.play(place, &steps, &case.name)
}

fn ids_of(steps: &[String]) -> Vec<String> {
    let ids = steps.iter().filter_map(|step| step.split_once("--id ")?.1.split(' ').next());
    ids.map(str::to_owned).collect()
}

/// The runs of all cases are on one server, so their ids have the case's name in them.
fn with_ids(step: &str, ids: &[String], case: &str) -> String {
    let new_id = |word: &str| match ids.iter().any(|id| id == word) {
        true if word == "r" => case.to_owned(),
        true => format!("{case}-{word}"),
        false => word.to_owned(),
    };
    step.split(' ').map(new_id).collect::<Vec<_>>().join(" ")
}

/// Gives a step the options that start its run on an engine, if it starts one.
fn on(step: &str, options: Option<&str>) -> String {
    let first = step.split_once("raymond ").and_then(|(_, rest)| rest.split(' ').next());
    let starts = first.is_some_and(|first| !first.starts_with("--") && !OTHER_COMMANDS.contains(&first));
    match options {
        // What a step chooses itself counts.
        Some(options) if starts && step.contains("--on-ask") => {
            format!("{step}{}", options.replace(" --on-ask pause", ""))
        }
        Some(options) if starts => format!("{step}{options}"),
        _ => step.to_owned(),
    }
}

/// What must be the same.
fn results(case: &Case, place: &Place, mut played: Played) -> Vec<(&'static str, String)> {
    let seen_from_here = |text: &str| without_folders(text, place, case);
    for (step, done) in &mut played.commands {
        step.truncate(step.find(" --on ").unwrap_or(step.len()));
        done.stdout = without_hosts(&seen_from_here(&done.stdout), place);
    }
    played.log = seen_from_here(&played.log);
    for call in played.calls.iter_mut().flatten() {
        *call = serde_json::from_str(&seen_from_here(&call.to_string())).unwrap();
    }
    let mut results = played.artefacts(&place.work(), case.setting("parallel").is_some());
    results.retain(|(name, _)| !["stderr", "status"].contains(name));
    results
}

/// Leaves out where a run and its agents are, as `status` says it.
fn without_hosts(text: &str, place: &Place) -> String {
    let host = fs::read_to_string(place.home().join("machine/name")).unwrap_or_default();
    let text = if host.is_empty() { text.to_owned() } else { text.replace(&format!(" on {host}"), "") };
    let is_place = |line: &&str| {
        let starts = ["  on  ", "  debug  ", "  \"engine\": ", "  \"seen_at\": ", "      \"host\": "];
        starts.iter().any(|start| line.starts_with(start))
    };
    text.split_inclusive('\n').filter(|line| !is_place(line)).collect()
}

/// Takes off the folders below which a machine has the paths of the run: one for each agent, and one for workflows. Task
/// folders are elsewhere in any case.
fn without_folders(text: &str, place: &Place, case: &Case) -> String {
    let machine = place.home().canonicalize().unwrap().join("machine");
    let state = place.work().join(".raymond/state");
    let mut text = text.to_owned();
    for (folder, names) in [(machine.join("runs"), 2), (machine.join("bundles"), 1)] {
        let folder = format!("{}/", folder.display());
        while let Some(start) = text.find(&folder) {
            let name = start + folder.len();
            let end = text[name..].match_indices('/').nth(names - 1).map_or(text.len(), |(at, _)| name + at);
            text.replace_range(start..end, "");
        }
    }
    for id in ids_of(&case.steps()) {
        let tasks = state.join(format!("{}.tasks/", with_ids(&id, std::slice::from_ref(&id), &case.name)));
        text = text.replace(&tasks.display().to_string(), "/.tasks/");
    }
    text
}
