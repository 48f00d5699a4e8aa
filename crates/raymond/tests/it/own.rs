//! What lies in `.raymond` counts only if this user's Raymond made it there: a clone, a copy or a pull brings nothing that
//! is used.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use test_kit::rig::{Done, Rig, wait_for_file, wait_until};

use crate::RAYMOND;
use crate::old_journals::copy;
use crate::serving::site::Site;

const IGNORED: &str = "1 run in ";

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap_or_default())),
        }
    }
    found
}

/// The project of somebody else, as a clone brings it: the run `r` was killed while it could do anything, a server had begun
/// it, its token is known, and its next step leaves a trace.
fn clone_of_a_hostile_project() -> Rig {
    let theirs = Rig::new(RAYMOND);
    theirs.state("START.sh", "echo '<goto>NEXT</goto>'");
    theirs.state("NEXT.sh", "touch begun; sleep 300");
    let live = theirs.start(&["workflow", "--id", "r", "--dangerously-skip-permissions", "--budget", "0"]);
    wait_for_file(&theirs.path("begun"));
    live.kill();
    wait_until("the run to be let go", || theirs.status()["status"] != "running");
    theirs.write(".raymond/serve.runs", r#"{"r":{"steps":1,"resumes":0}}"#);
    theirs.write(".raymond/serve.token", "a".repeat(64));
    theirs.write(".raymond/state/r.in/stop", "{}");
    let rig = Rig::new(RAYMOND);
    copy(&theirs.path(".raymond"), &rig.path(".raymond"));
    fs::set_permissions(rig.path(".raymond/serve.token"), PermissionsExt::from_mode(0o644)).unwrap();
    // The paths of a container are the same for everybody.
    let journal = rig.read(".raymond/state/r.jsonl");
    let moved = journal.replace(theirs.work().to_str().unwrap(), rig.work().to_str().unwrap());
    fs::write(rig.journal(), crate::old_journals::marked(&moved)).unwrap();
    rig.state("START.sh", "echo '<goto>NEXT</goto>'");
    rig.state("NEXT.sh", "touch ran; echo '<result>done</result>'");
    rig
}

fn assert_untouched(rig: &Rig, before: &BTreeMap<PathBuf, Vec<u8>>, what: &str) {
    assert!(!rig.path("ran").exists(), "{what} has run a step");
    let now = files(&rig.path(".raymond"));
    for (path, bytes) in before {
        assert_eq!(now.get(path), Some(bytes), "{what} has changed {}", path.display());
    }
}

#[test]
fn nothing_that_a_clone_brings_is_used() {
    let rig = clone_of_a_hostile_project();
    let before = files(&rig.path(".raymond"));
    let about: &[&[&str]] = &[
        &["status", "r"],
        &["log", "r"],
        &["show", "r"],
        &["resume", "r"],
        &["resume", "--diff", "r"],
        &["answer", "r", "ask1", "x"],
        &["stop", "r"],
        &["stop", "r", "--now"],
        &["branch", "r", "--at", "1"],
        &["rewind", "r", "--to", "1"],
        &["retry", "r"],
        &["jump", "r", "main", "NEXT"],
        &["export", "r", "-o", "r.html"],
        &["record", "r", "-o", "r.rec"],
        &["clean", "r"],
        &["clean", "r", "--discard-changes"],
    ];
    for args in about {
        let done = rig.raymond(args);
        assert_eq!(done.exit, 2, "{args:?}: {done:?}");
        done.says(IGNORED).says("was not made there by your Raymond").says("raymond doctor --adopt r");
        assert_untouched(&rig, &before, &format!("{args:?}"));
    }
    let looking: &[(&[&str], i32)] = &[
        (&["list"], 0),
        (&["list", "--json"], 0),
        (&["status"], 2),
        (&["log"], 2),
        (&["resume"], 2),
        (&["answer", "x"], 2),
        (&["export"], 2),
        (&["clean", "--older-than", "0s"], 0),
    ];
    for (args, exit) in looking {
        let done = rig.raymond(args);
        assert_eq!(done.exit, *exit, "{args:?}: {done:?}");
        assert_eq!(done.stderr.matches(IGNORED).count(), 1, "{args:?}: {done:?}");
        done.says("raymond doctor --adopt");
        assert!(!done.stdout.contains(" r ") && !done.stdout.contains("\"r\""), "{args:?}: {done:?}");
        assert_untouched(&rig, &before, &format!("{args:?}"));
    }
    let mut completing = rig.command(&["--", "raymond", "status", ""]);
    completing.env("RAYMOND_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2").env("_CLAP_IFS", "\n");
    let done = rig.launch(completing).wait();
    assert!(done.stdout.lines().all(|line| line != "r") && done.stderr.is_empty(), "{done:?}");
    assert!(!rig.home().join(".local/share/raymond").exists(), "looking makes no key");
    let doctor = rig.raymond(&["doctor"]);
    assert!(doctor.stdout.contains("1 run is in") || doctor.stdout.contains("ignored"), "{doctor:?}");
    assert_untouched(&rig, &before, "doctor");
}

#[test]
fn a_server_in_a_clone_resumes_nothing_and_has_a_token_of_its_own() {
    let rig = clone_of_a_hostile_project();
    let mut before = files(&rig.path(".raymond"));
    before.remove(&rig.path(".raymond/serve.token"));
    let site = Site::start(&rig);
    site.live.wait_for_stderr("so there is a new token now");
    site.live.wait_for_stderr(IGNORED);
    assert_ne!(site.token, "a".repeat(64));
    assert_eq!(site.token.len(), 64);
    let token = rig.path(".raymond/serve.token");
    assert_eq!(fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(site.get_json("/api/v1/runs")["runs"], json!([]));
    assert_eq!(site.send("GET", "/api/v1/runs/r", &[], "").status, 404);
    for (path, body) in [("resume", "{}"), ("stop", "{}"), ("answers", r#"{"ask":"ask1","text":"x"}"#)] {
        assert_eq!(site.send("POST", &format!("/api/v1/runs/r/{path}"), &[], body).status, 404, "{path}");
    }
    // A run that it starts shows that it had time to look for others.
    let begun = site.send("POST", "/api/v1/runs", &[], r#"{"workflow":"workflow","id":"own"}"#);
    assert_eq!(begun.status, 201, "{begun:?}");
    wait_until("the end of the run", || site.get_json("/api/v1/runs/own")["status"] == "completed");
    fs::remove_file(rig.path("ran")).unwrap();
    before.remove(&rig.path(".raymond/serve.runs"));
    assert_untouched(&rig, &before, "serve");
    // Its own token is used again.
    assert_eq!(Site::start(&rig).token, site.token);
    // All of it is random: its mark is in another file, and neither counts without the other.
    let mark = rig.path(".raymond/serve.token.mark");
    assert!(!fs::read_to_string(&mark).unwrap().contains(&site.token[32..]));
    for change in [(&token, "b".repeat(64)), (&mark, "b".repeat(64)), (&mark, String::new())] {
        let before = Site::start(&rig).token;
        fs::write(change.0, &change.1).unwrap();
        let now = Site::start(&rig).token;
        assert!(now != before && now.len() == 64 && now != "b".repeat(64), "{now}");
        assert_eq!(Site::start(&rig).token, now);
    }
    fs::remove_file(&mark).unwrap();
    symlink(rig.path("precious"), &mark).unwrap();
    Site::start(&rig);
    assert!(!rig.path("precious").exists(), "a link is not followed");
    // Of servers that start at once, all have the same.
    let rival = Rig::new(RAYMOND);
    let tokens: Vec<String> = std::thread::scope(|scope| {
        let servers: Vec<_> = (0..4).map(|_| scope.spawn(|| Site::start(&rival).token)).collect();
        servers.into_iter().map(|server| server.join().unwrap()).collect()
    });
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    // Before there is any run, a token that was brought counts as little.
    let fresh = Rig::new(RAYMOND);
    fresh.write(".raymond/serve.token", "a".repeat(64));
    let site = Site::start(&fresh);
    assert_ne!(site.token, "a".repeat(64));
    assert_eq!(Site::start(&fresh).token, site.token);
}

/// Whoever could read the folder knows no more than the bytes that lie there.
#[test]
fn a_list_of_runs_that_a_clone_brings_makes_no_server_resume_ones_own() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "touch begun; sleep 300");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("begun"));
    live.kill();
    wait_until("the run to be let go", || rig.status()["status"] != "running");
    rig.state("START.sh", "touch ran; echo '<result>done</result>'");
    rig.write("other/START.sh", "echo '<result>done</result>'");
    rig.write(".raymond/serve.runs", r#"{"r":{"steps":0,"resumes":0}}"#);
    let site = Site::start(&rig);
    let begun = site.send("POST", "/api/v1/runs", &[], r#"{"workflow":"other","id":"own"}"#);
    assert_eq!(begun.status, 201, "{begun:?}");
    wait_until("the end of the run", || site.get_json("/api/v1/runs/own")["status"] == "completed");
    assert!(!rig.path("ran").exists());
}

#[test]
fn ones_own_runs_work_beside_it_and_never_touch_its_files() {
    let rig = clone_of_a_hostile_project();
    let before = files(&rig.path(".raymond"));
    let taken = rig.raymond(&["workflow", "--id", "r"]);
    assert_eq!(taken.exit, 2, "{taken:?}");
    taken.says("r is not begun").says("r.jsonl is there already").says("choose another --id");
    assert_untouched(&rig, &before, "a run of the same name");
    rig.raymond(&["workflow", "--id", "own"]).assert(0, "done\n");
    fs::remove_file(rig.path("ran")).unwrap();
    assert_untouched(&rig, &before, "a run beside it");
    let listed = rig.raymond(&["list"]);
    assert!(listed.stdout.contains("own") && listed.stdout.lines().count() == 2, "{listed:?}");
    rig.raymond(&["log", "own"]).says(IGNORED);
    rig.raymond(&["resume", "own"]).assert(0, "done\n");
    rig.raymond(&["branch", "own", "--at", "1", "--id", "b"]).assert(0, "b\n");
    rig.raymond(&["resume", "b"]).assert(0, "done\n");
    fs::remove_file(rig.path("ran")).unwrap();
    rig.raymond(&["rewind", "own", "--to", "1"]);
    rig.raymond(&["resume", "own"]).assert(0, "done\n");
    fs::remove_file(rig.path("ran")).unwrap();
    let names = rig.raymond(&["list"]).stdout;
    assert_eq!(names.lines().count(), 4, "the run, its branch, and the one that a rewind made: {names}");
    rig.raymond(&["clean", "--older-than", "0s"]);
    assert_untouched(&rig, &before, "clean");
}

#[test]
fn a_run_is_used_once_a_person_has_adopted_it() {
    let rig = clone_of_a_hostile_project();
    let before = files(&rig.path(".raymond"));
    let asked = rig.raymond(&["doctor", "--adopt"]);
    assert_eq!(asked.exit, 2, "{asked:?}");
    asked.says("--adopt --yes").says("no terminal to ask on");
    for shown in [
        "r  ",
        "its agents may do anything without asking",
        "it has no budget",
        "1 message that it would take",
    ] {
        assert!(asked.stdout.contains(shown), "{shown}: {}", asked.stdout);
    }
    assert_untouched(&rig, &before, "looking");
    rig.raymond(&["doctor", "--adopt", "other", "--yes"]).assert(2, "").says("no run");
    let adopted = rig.raymond(&["doctor", "--adopt", "r", "--yes"]);
    assert_eq!(adopted.exit, 0, "{adopted:?}");
    assert!(adopted.stdout.ends_with("adopted r\n"), "{adopted:?}");
    fs::remove_file(rig.path(".raymond/state/r.in/stop")).unwrap();
    let listed = rig.raymond(&["list"]);
    assert!(listed.stdout.contains("r  ") && listed.stderr.is_empty(), "{listed:?}");
    rig.resume().assert(0, "done\n");
    let again = rig.raymond(&["doctor", "--adopt"]);
    assert!(again.exit == 0 && again.stdout.contains("nothing to adopt"), "{again:?}");
}

/// A project whose run `r` waits for an answer, and then says where it is.
fn waiting() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>ASK</goto>'");
    rig.state("ASK.sh", "echo '<ask next=\"END\">go on?</ask>'");
    rig.state("END.sh", "touch trace; echo \"<result>$RAYMOND_INPUT in $PWD</result>\"");
    assert_eq!(rig.run().exit, 3);
    rig
}

fn in_folder(rig: &Rig, folder: &Path, args: &[&str]) -> Done {
    let mut command: Command = rig.command(args);
    command.current_dir(folder);
    rig.launch(command).wait()
}

#[test]
fn a_copied_project_goes_on_in_the_copy_once_it_was_adopted() {
    let rig = waiting();
    let copied = rig.work().parent().unwrap().join("copy");
    copy(&rig.work(), &copied);
    let original = files(&rig.work());
    let listed = in_folder(&rig, &copied, &["list"]);
    assert_eq!((listed.exit, listed.stdout.as_str()), (0, ""), "{listed:?}");
    listed.says("1 run in ").says("in another folder");
    assert_eq!(in_folder(&rig, &copied, &["answer", "r", "yes"]).exit, 2);
    assert_eq!(in_folder(&rig, &copied, &["resume"]).exit, 2);
    let adopted = in_folder(&rig, &copied, &["doctor", "--adopt", "--yes"]);
    let from = format!("recorded in {}; it would go on in this project", rig.work().display());
    assert!(adopted.exit == 0 && adopted.stdout.contains(&from), "{adopted:?}");
    // A branch of it has its history from there, too.
    let branch = in_folder(&rig, &copied, &["branch", "r", "--at", "1", "--id", "b"]);
    assert_eq!(branch.exit, 0, "{branch:?}");
    let done = in_folder(&rig, &copied, &["answer", "r", "yes", "--resume"]);
    done.assert(0, &format!("yes in {}\n", copied.display()));
    let says = format!("r was recorded in {}; it goes on in {}", rig.work().display(), copied.display());
    done.says(&says);
    assert!(copied.join("trace").exists());
    assert_eq!(files(&rig.work()), original, "the original is as it was");
    let resumed = in_folder(&rig, &copied, &["log", "r", "--json"]);
    let moved = format!(r#""moved":{{"from":"{}","to":"{}"}}"#, rig.work().display(), copied.display());
    assert!(resumed.stdout.contains(&moved), "{resumed:?}");
    assert_eq!(in_folder(&rig, &copied, &["resume", "b"]).exit, 3, "the branch asks again");
    let done = in_folder(&rig, &copied, &["answer", "b", "no", "--resume"]);
    done.assert(0, &format!("no in {}\n", copied.display()));
    // The original goes on where it is.
    rig.raymond(&["answer", "r", "too", "--resume"]).assert(0, &format!("too in {}\n", rig.work().display()));
}

#[test]
fn a_copy_of_a_copy_inside_the_project_goes_on_where_it_is() {
    let rig = waiting();
    let inner = rig.path("inner");
    let outer = rig.work().parent().unwrap().join("outer");
    copy(&rig.work(), &outer);
    copy(&outer, &inner);
    assert_eq!(in_folder(&rig, &inner, &["doctor", "--adopt", "--yes"]).exit, 0);
    let deeper = inner.join("deeper");
    copy(&outer, &deeper);
    copy(&inner.join(".raymond"), &deeper.join(".raymond"));
    assert_eq!(in_folder(&rig, &deeper, &["doctor", "--adopt", "--yes"]).exit, 0);
    for folder in [&inner, &deeper] {
        let done = in_folder(&rig, folder, &["answer", "r", "yes", "--resume"]);
        done.assert(0, &format!("yes in {}\n", folder.display()));
        // What is completed stays so.
        in_folder(&rig, folder, &["resume", "r"]).assert(0, &format!("yes in {}\n", folder.display()));
    }
    assert!(!rig.path("trace").exists() && !outer.join("trace").exists());
}

#[test]
fn a_run_whose_folder_is_gone_says_so() {
    let rig = Rig::new(RAYMOND);
    fs::create_dir(rig.path("sub")).unwrap();
    rig.state("START.sh", "echo '<reset cd=\"sub\">ASK</reset>'");
    rig.state("ASK.sh", "echo '<ask next=\"END\">go on?</ask>'");
    rig.state("END.sh", "echo '<result>done</result>'");
    assert_eq!(rig.run().exit, 3);
    fs::remove_dir(rig.path("sub")).unwrap();
    let done = rig.raymond(&["answer", "r", "yes", "--resume"]);
    assert_eq!(done.exit, 2, "{done:?}");
    done.says("/sub in which main of r works is not there");
    fs::create_dir(rig.path("sub")).unwrap();
    rig.resume().assert(0, "done\n");
}

#[test]
fn a_journal_in_the_place_of_ones_own_is_noticed() {
    let rig = waiting();
    let other = waiting();
    let journal = fs::read(rig.journal()).unwrap();
    fs::copy(other.journal(), rig.journal()).unwrap();
    for args in
        [&["status", "r"][..], &["log", "r"], &["resume", "r"], &["show", "r"], &["branch", "r", "--at", "1"]]
    {
        let done = rig.raymond(args);
        assert_eq!(done.exit, 2, "{args:?}: {done:?}");
        done.says("r.jsonl is not the journal that your Raymond wrote for r");
    }
    // A later segment counts as little.
    fs::write(rig.journal(), &journal).unwrap();
    let foreign = fs::read_to_string(other.journal()).unwrap();
    let started = foreign.lines().next().unwrap().replace("\"seq\":1,", "\"seq\":90,");
    let segment = crate::old_journals::marked(
        &format!("{started},\"commit\":\"00000000\"}}\n").replace("},\"commit", ",\"commit"),
    );
    fs::write(rig.path(".raymond/state/r.0001.jsonl"), segment).unwrap();
    for args in [&["status", "r"][..], &["resume", "r"]] {
        let done = rig.raymond(args);
        assert_eq!(done.exit, 2, "{args:?}: {done:?}");
        done.says("your Raymond");
    }
    fs::remove_file(rig.path(".raymond/state/r.0001.jsonl")).unwrap();
    rig.raymond(&["answer", "r", "yes", "--resume"]).assert(0, &format!("yes in {}\n", rig.work().display()));
}

#[test]
fn many_processes_that_begin_at_once_make_one_key() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    let live: Vec<_> =
        (0..20).map(|n| rig.start(&["workflow", "--id", &format!("r{n}"), "--quiet"])).collect();
    for live in live {
        live.wait().assert(0, "ok\n");
    }
    let listed = rig.raymond(&["list"]);
    assert_eq!((listed.stdout.lines().count(), listed.stderr.as_str()), (21, ""), "{listed:?}");
    let keys = rig.home().join(".local/share/raymond");
    assert_eq!(fs::read_dir(&keys).unwrap().count(), 1);
    assert_eq!(fs::metadata(keys.join("marks.key")).unwrap().permissions().mode() & 0o777, 0o600);
    // Without it, nothing counts; with another one neither.
    fs::remove_file(keys.join("marks.key")).unwrap();
    rig.raymond(&["list"]).assert(0, "").says("20 runs in ");
    rig.raymond(&["workflow", "--id", "later", "--quiet"]).assert(0, "ok\n");
    assert_eq!(rig.raymond(&["list"]).stdout.lines().count(), 2);
    rig.adopt();
    assert_eq!(rig.raymond(&["list"]).stdout.lines().count(), 22);
}

#[test]
fn where_no_key_can_be_kept_a_run_needs_a_folder_that_is_named() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    let run = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = rig.command(args);
        command.env_remove("HOME").envs(variables.iter().copied());
        rig.launch(command).wait()
    };
    let inside = rig.path("inside").display().to_string();
    let plain = rig.home().join("plain");
    fs::write(&plain, "").unwrap();
    let plain = plain.display().to_string();
    for (variables, why) in [
        (&[("HOME", "relative")][..], "neither XDG_DATA_HOME nor HOME is set"),
        (&[("HOME", "/"), ("XDG_DATA_HOME", inside.as_str())], "lies in the project"),
        (&[("XDG_DATA_HOME", plain.as_str())], "cannot be made"),
    ] {
        let done = run(variables, &["workflow", "--id", "r"]);
        assert_eq!(done.exit, 2, "{variables:?}: {done:?}");
        done.says(why).says("XDG_DATA_HOME").says("--state-dir DIR");
        assert!(!rig.journal().exists());
        assert_eq!(run(variables, &["list"]).exit, 0);
        run(variables, &["workflow", "--id", "r", "--state-dir", "s"]).assert(0, "ok\n");
        run(variables, &["list", "--state-dir", "s"]);
        fs::remove_dir_all(rig.path("s")).unwrap();
    }
    let elsewhere = rig.home().join("data").display().to_string();
    run(&[("XDG_DATA_HOME", elsewhere.as_str())], &["workflow", "--id", "r"]).assert(0, "ok\n");
    assert!(rig.home().join("data/raymond/marks.key").is_file());
}

/// A person who works in the home folder itself, or who has set one within the project, has the key in the project.
#[test]
fn the_home_folder_can_be_a_project_or_in_one() {
    for home in [".", "home"] {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", "echo '<result>ok</result>'");
        let mut command = rig.command(&["workflow", "--id", "r"]);
        command.env("HOME", rig.path(home));
        rig.launch(command).wait().assert(0, "ok\n");
    }
}

/// In a container or a service HOME is often not set.
#[cfg(unix)]
#[test]
fn without_a_variable_the_home_folder_is_the_one_that_the_system_knows() {
    let rig = Rig::new(RAYMOND);
    let mut command = rig.command(&["doctor"]);
    command.env_remove("HOME").env_remove("XDG_DATA_HOME");
    let said = rig.launch(command).wait();
    assert!(!format!("{said:?}").contains("neither XDG_DATA_HOME nor HOME is set"), "{said:?}");
}

#[test]
fn what_lies_in_a_named_folder_needs_no_mark() {
    let rig = clone_of_a_hostile_project();
    fs::remove_dir_all(rig.path(".raymond/state/r.in")).unwrap();
    let named = ["--state-dir", ".raymond/state"];
    let listed = rig.raymond(&[&["list"][..], &named].concat());
    assert!(listed.stdout.contains("r  ") && listed.stderr.is_empty(), "{listed:?}");
    rig.raymond(&[&["resume", "r"][..], &named].concat()).assert(0, "done\n");
    // What is made in the folder of a project is marked all the same.
    rig.raymond(&[&["workflow", "--id", "own"][..], &named].concat()).assert(0, "done\n");
    assert!(rig.raymond(&["list"]).stdout.contains("own"));
}

#[test]
fn clean_removes_nothing_that_a_link_of_a_clone_leads_to() {
    for (link, target) in [("debug", ".."), ("debug", "../src"), ("state", ".."), ("worktrees", "../src")] {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", "echo '<result>ok</result>'");
        rig.write("src/deep/work.txt", "not committed");
        rig.write("Cargo.lock", "");
        fs::create_dir_all(rig.path(".raymond")).unwrap();
        symlink(target, rig.path(".raymond").join(link)).unwrap();
        rig.raymond(&["workflow", "--id", "r"]).assert(2, "");
        for time in ["0s", "30d"] {
            rig.raymond(&["clean", "--older-than", time, "--discard-changes"]);
        }
        rig.raymond(&["clean", "src", "--discard-changes"]);
        assert_eq!(rig.read("src/deep/work.txt"), "not committed", "{link} -> {target}");
        assert!(
            rig.path("Cargo.lock").exists() && rig.path("workflow/START.sh").exists(),
            "{link} -> {target}"
        );
    }
    // The same for the worktrees of one run, and for a folder without a run.
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig.write("src/deep/work.txt", "not committed");
    rig.write(".raymond/debug/notes/kept.txt", "somebody's");
    fs::create_dir_all(rig.path(".raymond/worktrees")).unwrap();
    symlink("../../src", rig.path(".raymond/worktrees/review")).unwrap();
    rig.raymond(&["workflow", "--id", "review"]).assert(2, "").says("review is not begun");
    rig.raymond(&["workflow", "--id", "own"]).assert(0, "ok\n");
    rig.raymond(&["clean", "--older-than", "0s", "--discard-changes"]).assert_is(0);
    rig.raymond(&["clean", "review", "--discard-changes"]);
    assert_eq!(rig.read("src/deep/work.txt"), "not committed");
    assert_eq!(rig.read(".raymond/debug/notes/kept.txt"), "somebody's");
    assert!(!rig.raymond(&["list"]).stdout.contains("own"));
}

#[test]
fn links_and_pipes_that_a_clone_brings_are_neither_followed_nor_waited_for() {
    let outside = |rig: &Rig| rig.work().parent().unwrap().join("outside");
    for link in [".raymond", ".raymond/state", ".raymond/debug", ".raymond/worktrees"] {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", "echo '<result>ok</result>'");
        fs::create_dir(outside(&rig)).unwrap();
        fs::create_dir_all(rig.path(link).parent().unwrap()).unwrap();
        symlink("../../outside", rig.path(link)).unwrap();
        if link == ".raymond" {
            fs::remove_file(rig.path(link)).unwrap();
            symlink("../outside", rig.path(link)).unwrap();
        }
        let done = rig.raymond(&["workflow", "--id", "r"]);
        assert_eq!(done.exit, 2, "{link}: {done:?}");
        done.says("is a link").says("safe_folders").says("--state-dir");
        rig.raymond(&["list"]).assert(0, "").says("is a link");
        assert_eq!(rig.raymond(&["serve", "--listen", "127.0.0.1:0"]).exit, 2);
        assert_eq!(fs::read_dir(outside(&rig)).unwrap().count(), 0, "{link}");
        let project = rig.work().display().to_string();
        let own = rig.home().join(".config/raymond/config.toml");
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(own, format!("[raymond]\nsafe_folders = [{project:?}]\n")).unwrap();
        rig.raymond(&["workflow", "--id", "r"]).assert(0, "ok\n");
        assert!(rig.raymond(&["list"]).stdout.contains("r  "), "{link}");
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    let precious = rig.home().join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::create_dir_all(rig.path(".raymond/state")).unwrap();
    for name in
        ["state/r.lock", "state/s.jsonl", "serve.token", "serve.runs", "serve.feed", "state/.list.json"]
    {
        symlink(&precious, rig.path(".raymond").join(name)).unwrap();
    }
    for name in ["state/p.jsonl", "state/p.lock", "serve.schedules", "serve-1.here", "state/q.mark"] {
        let made = rig.program("mkfifo").arg(rig.path(".raymond").join(name)).status().unwrap();
        assert!(made.success());
    }
    for id in ["r", "s", "p", "q"] {
        let done = rig.raymond(&["workflow", "--id", id]);
        assert_eq!(done.exit, 2, "{id}: {done:?}");
        done.says(&format!("{id} is not begun"));
    }
    rig.raymond(&["workflow", "--id", "own"]).assert(0, "ok\n");
    assert!(rig.raymond(&["list"]).stdout.contains("own"));
    rig.raymond(&["list", "--status", "completed"]);
    rig.raymond(&["doctor"]);
    let site = Site::start(&rig);
    assert_eq!(site.get_json("/api/v1/runs")["runs"].as_array().unwrap().len(), 1);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn files_that_git_tracks_are_told() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    crate::repository::init(&rig, ".");
    rig.run().assert(0, "ok\n");
    let about = |rig: &Rig| rig.raymond(&["doctor"]).stdout.contains("git tracks files of Raymond's own");
    crate::repository::git(&rig, ".", &["add", "-A"]);
    assert!(!about(&rig), "nothing of it is added by chance");
    // A `.gitignore` that a clone brings need not keep them out.
    rig.write(".raymond/.gitignore", "debug/\n");
    rig.raymond(&["workflow", "--id", "s"]).assert(0, "ok\n");
    crate::repository::git(&rig, ".", &["add", "-A"]);
    assert!(!about(&rig), "runs have a `.gitignore` of their own");
    crate::repository::git(&rig, ".", &["add", "-f", ".raymond/state/r.jsonl"]);
    assert!(about(&rig));
}

/// The worktree of a copied project must not change the repository that it was copied from.
#[test]
fn a_worktree_in_a_copied_project_belongs_to_the_copy() {
    use crate::repository::{commit, git, init};
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write("f", "one\n");
    rig.write(".gitignore", "/workflow\n/.raymond\n");
    commit(&rig, ".", "one");
    rig.state("START.sh", "echo '<fork worktree=\"w\">WORK</fork><join>END</join>'");
    rig.state("WORK.sh", "echo '<ask next=\"GO\">go on?</ask>'");
    rig.state("GO.sh", "echo two > f; git commit -qam two; echo \"<result>$PWD</result>\"");
    rig.state("END.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    assert_eq!(rig.run().exit, 3);
    let copied = rig.work().parent().unwrap().join("copy");
    copy(&rig.work(), &copied);
    let heads = || git(&rig, ".", &["for-each-ref"]);
    let before = (heads(), git(&rig, ".raymond/worktrees/r/w", &["status", "--porcelain"]));
    assert_eq!(in_folder(&rig, &copied, &["doctor", "--adopt", "--yes"]).exit, 0);
    let done = in_folder(&rig, &copied, &["answer", "r", "yes", "--resume"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.stdout.contains(&copied.join(".raymond/worktrees/r/w").display().to_string()), "{done:?}");
    assert_eq!((heads(), git(&rig, ".raymond/worktrees/r/w", &["status", "--porcelain"])), before);
    assert!(rig.path(".raymond/worktrees/r/w/f").exists());
}
