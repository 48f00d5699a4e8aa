//! The folders in `tests/cases`: each has a workflow, the commands to run, and the expected results.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use raymond::author::schema::Subject;
use test_kit::case::{ARTEFACTS, Case, all_cases};
use test_kit::diff::diff;
use test_kit::needs::lacks_an_interpreter;

use crate::RAYMOND;
use crate::schemas::problem;

/// How many cases run at the same time.
const AT_ONCE: usize = 4;

/// The results of a case, by the names of the artefacts.
type Artefacts = Vec<(&'static str, String)>;

#[test]
fn cases() {
    let cases = all_cases();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failure = std::panic::catch_unwind(|| check(case));
                    let failure =
                        failure.unwrap_or_else(|_| Err("the case itself panicked; see above".to_owned()));
                    if let Err(text) = failure {
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
        "{} of {} cases failed (- expected, + got; UPDATE=1 accepts the new results)\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

fn check(case: &Case) -> Result<(), String> {
    if lacks_an_interpreter(&case.folder, &format!("the case {}", case.name)) {
        return Ok(());
    }
    if case.setting("parallel").is_some() && case.setting("stderr").is_some() {
        return Err("    has no order of agents, so remove its file `stderr`, which has one\n".to_owned());
    }
    let got = play(case);
    if let Some(reason) = case.setting("ignored") {
        return match compare(case, &got) {
            Err(_) => Ok(()),
            Ok(()) => Err(format!("    passes now, so remove its file `ignored` ({})\n", reason.trim())),
        };
    }
    if std::env::var_os("UPDATE").is_some() {
        update(case, &got);
    }
    compare(case, &got)
}

/// Artefacts that are not there are not compared; how it ended and what it printed always are.
fn compare(case: &Case, got: &Artefacts) -> Result<(), String> {
    let mut report = String::new();
    for (name, got) in got {
        match case.setting(name) {
            Some(expected) if expected == *got => {}
            Some(expected) => report.push_str(&format!("  {name}:\n{}", diff(&expected, got))),
            None if ["exit", "stdout"].contains(name) => {
                report.push_str(&format!("  {name} is missing; got:\n{}", diff("", got)));
            }
            None => {}
        }
    }
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// A new case is given every artefact; its author removes what does not matter.
fn update(case: &Case, got: &Artefacts) {
    let is_new = ARTEFACTS.iter().all(|name| !case.folder.join(name).exists());
    // Progress lines come as they come when agents run side by side.
    let has_order = case.setting("parallel").is_none();
    for (name, got) in got {
        let path = case.folder.join(name);
        if (is_new && (has_order || *name != "stderr")) || path.exists() || ["exit", "stdout"].contains(name)
        {
            fs::write(path, got).unwrap();
        }
    }
}

fn play(case: &Case) -> Artefacts {
    let rig = case.lay_out(Path::new(RAYMOND));
    let played = case.play(&rig, &case.steps(), "r");
    for line in played.log.lines() {
        let event = serde_json::from_str(line).unwrap();
        assert_eq!(problem(Subject::Events, &event), None, "{}: {line}", case.name);
    }
    played.artefacts(&rig.work(), case.setting("parallel").is_some())
}
