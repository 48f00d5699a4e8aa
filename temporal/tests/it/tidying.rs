//! What workers remove of runs.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::harness::{Rig, eventually};

const HOUR: Duration = Duration::from_secs(3600);

/// Makes it look as if the last step of a run had been so long ago.
fn age(run: &Path, time: Duration) {
    let records = run.join(".records");
    let entries = fs::read_dir(&records).expect("the records").flatten().map(|entry| entry.path());
    for path in entries.chain([records.clone()]) {
        File::open(path).and_then(|file| file.set_modified(SystemTime::now() - time)).expect("a file");
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_worker_removes_what_is_not_needed_any_more_and_brings_back_what_is_needed_again() {
    let Some(rig) = Rig::new() else { return };
    rig.commit_all(&[("kept", "as committed\n")]);
    let mut worker = rig.worker("a");
    rig.state("START.sh", "echo '<result>done</result>'\n");
    rig.start_as("over", &[]);
    rig.until_in("over", "run_finished");
    rig.state(
        "START.sh",
        "echo mine > new; echo t > $RAYMOND_TASK_FOLDER/t; echo '<ask next=\"NEXT\">Go on?</ask>'\n",
    );
    rig.state("NEXT.sh", "echo \"<result>$(echo $(cat kept new $RAYMOND_TASK_FOLDER/t))</result>\"\n");
    rig.start_as("open", &[]);
    rig.until_in("open", "ask_opened");
    let (over, open) = (rig.path("a/runs/over"), rig.path("a/runs/open"));
    let mut start_again_after = |time: Duration| {
        worker.terminate();
        assert!(worker.ends(), "{}", rig.logs());
        [&over, &open].iter().filter(|run| run.exists()).for_each(|run| age(run, time));
        worker = rig.worker("a");
    };

    start_again_after(2 * HOUR);
    eventually("the end of what the run left that has ended", || (!over.exists()).then_some(()));
    eventually("the end of its workflow", || (names_in(&rig.path("a/bundles")).len() == 1).then_some(()));
    assert!(open.join("main").exists(), "a run that goes on keeps its files");
    assert_eq!(names_in(&rig.path("a/repositories")).len(), 1, "and what they need");

    start_again_after(8 * 24 * HOUR);
    eventually("the end of what was not used for long", || (!open.join("main").exists()).then_some(()));
    eventually("the end of the repository", || {
        names_in(&rig.path("a/repositories")).is_empty().then_some(())
    });
    assert_eq!(names_in(&open.join(".records")).len(), 1, "what has ended must not be begun again");

    assert!(rig.raymond(&["answer", "open", "yes", "--no-resume"]).status.success());
    let log = rig.until_in("open", "run_finished");
    assert_eq!(log.last().expect("an end")["result"], "as committed mine t");
}

fn files_below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = |entry: fs::DirEntry| match entry.path().is_dir() {
        true => files_below(&entry.path()),
        false => vec![entry.path().display().to_string()],
    };
    entries.flat_map(files).collect()
}

/// What agents left may be nowhere else, so it goes only when that is asked for.
#[test]
fn a_run_that_does_not_go_on_can_be_removed_for_good() {
    let Some(rig) = Rig::new() else { return };
    rig.commit_all(&[("kept", "as committed\n")]);
    rig.state(
        "START.sh",
        "echo x >> new; [ $(wc -l < new) = 6 ] && echo '<ask next=\"START\">Go on?</ask>' || echo '<goto>START</goto>'\n",
    );
    let _worker = rig.worker("a");
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "20")]);
    rig.until("ask_opened");
    let clean = |arguments: &[&str]| {
        let output = rig.raymond(&[&["clean", "r"], arguments].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (is_done, said) = clean(&["--discard-changes"]);
    assert!(!is_done && said.contains("r is running"), "{said}");
    assert!(rig.raymond(&["stop", "r"]).status.success());
    rig.until("run_stopped");
    // Another copy of it is removed, and the engine still has the run.
    rig.configure(&format!("[engine.fleet]\nurl = \"{}\"\n", rig.address()));
    let listed = |arguments: &[&str]| {
        String::from_utf8_lossy(&rig.raymond(&[&["list"], arguments].concat()).stdout).into_owned()
    };
    let other = rig.path("other").display().to_string();
    assert!(listed(&["--state-dir", &other]).contains("interrupted"));
    let (is_done, said) = clean(&["--state-dir", &other]);
    assert!(is_done && said.contains("still has the run"), "{said}");
    assert!(!listed(&["--state-dir", &other]).contains("interrupted"));
    let (is_done, said) = clean(&["--state-dir", &other]);
    assert!(!is_done && said.contains("remove it there") && said.contains("--discard-changes"), "{said}");
    assert!(listed(&[]).contains("interrupted"));
    assert!(!files_below(&rig.path("blobs/runs/r")).is_empty());
    // Where its copy was removed before, the run is removed for good, too.
    let (is_done, said) = clean(&["--discard-changes", "--state-dir", &other]);
    assert!(is_done && said.contains("removed r from temporal://"), "{said}");
    assert_eq!(files_below(&rig.path("blobs/runs/r")), [""; 0]);
    assert!(!rig.temporal(&["workflow", "describe", "--workflow-id", "r"]).status.success());
    let (is_done, said) = clean(&["--discard-changes"]);
    assert!(is_done, "{said}");
    assert_eq!(files_below(&rig.path("blobs/runs/r")), [""; 0]);
    assert!(!listed(&[]).contains("interrupted"), "{}", listed(&[]));
    // The id is free again.
    rig.start();
}
