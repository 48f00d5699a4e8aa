//! The folders in `tests/cases`: each has a workflow, the commands to run, and the expected results.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use raymond::author::schema::Subject;

use crate::case::{ARTEFACTS, Case, all_cases};
use crate::diff::diff;
use crate::fake;
use crate::needs::lacks_an_interpreter;
use crate::redact;
use crate::rig::Done;
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
                    let failure = std::panic::catch_unwind(|| case.check());
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

impl Case {
    fn check(&self) -> Result<(), String> {
        if lacks_an_interpreter(&self.folder, &format!("the case {}", self.name)) {
            return Ok(());
        }
        if self.setting("parallel").is_some() && self.setting("stderr").is_some() {
            return Err("    has no order of agents, so remove its file `stderr`, which has one\n".to_owned());
        }
        let got = self.play();
        if let Some(reason) = self.setting("ignored") {
            return match self.compare(&got) {
                Err(_) => Ok(()),
                Ok(()) => Err(format!("    passes now, so remove its file `ignored` ({})\n", reason.trim())),
            };
        }
        if std::env::var_os("UPDATE").is_some() {
            self.update(&got);
        }
        self.compare(&got)
    }

    /// Artefacts without a file are not compared, except `exit` and `stdout`.
    fn compare(&self, got: &Artefacts) -> Result<(), String> {
        let mut report = String::new();
        for (name, got) in got {
            match self.setting(name) {
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

    /// A new case gets every artefact; its author removes those that do not matter.
    fn update(&self, got: &Artefacts) {
        let is_new = ARTEFACTS.iter().all(|name| !self.folder.join(name).exists());
        // With parallel agents the order of progress lines is not fixed.
        let has_order = self.setting("parallel").is_none();
        for (name, got) in got {
            let path = self.folder.join(name);
            if (is_new && (has_order || *name != "stderr"))
                || path.exists()
                || ["exit", "stdout"].contains(name)
            {
                fs::write(path, got).unwrap();
            }
        }
    }

    fn play(&self) -> Artefacts {
        let rig = self.lay_out();
        let work = rig.work();
        let steps = self.steps();
        let mut commands = Vec::new();
        for step in &steps {
            commands.extend(self.step(&rig, step).map(|done| (step, done)));
        }
        let several = commands.len() > 1;
        let heading = |step: &str| {
            if several { format!("$ {step}\n") } else { String::new() }
        };
        let each = |part: &dyn Fn(&Done) -> String| -> String {
            commands.iter().map(|(step, done)| heading(step) + &part(done)).collect()
        };
        let log = rig.raymond(&["log", "r", "--json"]).stdout;
        for line in log.lines() {
            let event = serde_json::from_str(line).unwrap();
            assert_eq!(problem(Subject::Events, &event), None, "{}: {line}", self.name);
        }
        let events = redact::text(&log, &work);
        let parallel = self.setting("parallel").is_some();
        let mut artefacts = vec![
            ("exit", each(&|done| format!("{}\n", done.exit))),
            ("stdout", each(&|done| document(&done.stdout, &work))),
            ("stderr", each(&|done| redact::text(&done.stderr, &work))),
            ("events", if parallel { redact::by_agent(&events) } else { events }),
            ("status", redact::json(&rig.raymond(&["status", "r", "--json"]).stdout, &work)),
        ];
        if rig.fake().exists() {
            artefacts.push(("calls", redact::text(&fake::told(&rig.calls(), parallel), &work)));
        }
        artefacts
    }
}

/// Pretty-printed JSON is one document, everything else is handled line by line.
fn document(stdout: &str, work: &Path) -> String {
    if stdout.starts_with("{\n") || stdout.starts_with("[\n") {
        redact::json(stdout, work)
    } else {
        redact::text(stdout, work)
    }
}
