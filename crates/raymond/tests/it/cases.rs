//! The folders in `tests/cases`: each is a workflow, what to do with it, and what must come of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use raymond::author::schema::Subject;

use crate::diff::diff;
use crate::fake;
use crate::needs::lacks_an_interpreter;
use crate::redact;
use crate::rig::{Done, Rig};
use crate::schemas::problem;

/// How many cases run at the same time.
const AT_ONCE: usize = 4;

/// What is in a case's folder and is no file of the working folder.
const ARTEFACTS: [&str; 6] = ["exit", "stdout", "stderr", "events", "status", "calls"];
const SETTINGS: [&str; 9] =
    ["about", "args", "stdin", "steps", "ignored", "parallel", "config.toml", "script.json", "environment"];

struct Case {
    name: String,
    folder: PathBuf,
}

/// What a case came to, under the artefacts' names.
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
        "{} of {} cases failed (- expected, + got; UPDATE=1 takes what was got)\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

/// `CASE=text` picks those that have it in their names.
fn all_cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let wanted = std::env::var("CASE").unwrap_or_default();
    let mut cases: Vec<Case> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|folder| Case { name: folder.file_name().unwrap().to_string_lossy().into_owned(), folder })
        .filter(|case| case.name.contains(&wanted))
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!cases.is_empty(), "no case has {wanted:?} in its name");
    cases
}

impl Case {
    fn setting(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    fn check(&self) -> Result<(), String> {
        if lacks_an_interpreter(&self.folder, &format!("the case {}", self.name)) {
            return Ok(());
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

    /// Artefacts that are not there are not compared; how it ended and what it printed always are.
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

    /// A new case is given every artefact; its author removes what does not matter.
    fn update(&self, got: &Artefacts) {
        let is_new = ARTEFACTS.iter().all(|name| !self.folder.join(name).exists());
        // Progress lines come as they come when agents run side by side.
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
        let rig = Rig::new();
        let work = rig.work();
        copy_all(&self.folder, &work, true);
        if let Some(config) = self.setting("config.toml") {
            rig.write(".raymond/config.toml", config);
        }
        if let Some(script) = self.setting("script.json") {
            rig.agent(&script);
        }
        let steps = self.setting("steps").unwrap_or_else(|| self.single_step());
        let mut commands = Vec::new();
        for step in steps.lines().map(str::trim) {
            if !step.is_empty() && !step.starts_with('#') {
                commands.extend(self.step(&rig, step).map(|done| (step, done)));
            }
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

    fn single_step(&self) -> String {
        let args = self.setting("args").unwrap_or_default();
        let args: Vec<String> = args.lines().map(|arg| format!(" '{arg}'")).collect();
        format!("raymond workflow --id r{}", args.concat())
    }

    /// One line of `steps`: the program, or something that happens to its files in between.
    fn step(&self, rig: &Rig, line: &str) -> Option<Done> {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["raymond", args @ ..] => return Some(self.raymond(rig, ".", args)),
            ["in", folder, "raymond", args @ ..] => return Some(self.raymond(rig, folder, args)),
            ["copy", from, to] => drop(fs::copy(rig.path(from), rig.path(to)).unwrap()),
            ["remove", path] => fs::remove_file(rig.path(path)).unwrap(),
            ["move", from, to] => fs::rename(rig.path(from), rig.path(to)).unwrap(),
            ["script", path] => drop(rig.agent(&rig.read(path))),
            _ => panic!("{}: what is this step? {line}", self.name),
        }
        None
    }

    fn raymond(&self, rig: &Rig, folder: &str, args: &[&str]) -> Done {
        let mut command = rig.command(args);
        command.current_dir(rig.path(folder));
        for line in self.setting("environment").unwrap_or_default().lines() {
            let (name, value) = line.split_once('=').unwrap();
            command.env(name, value.replace("$WORK", rig.work().to_str().unwrap()));
        }
        if let Ok(stdin) = fs::File::open(self.folder.join("stdin")) {
            command.stdin(Stdio::from(stdin));
        }
        rig.launch(command).wait()
    }
}

/// Pretty JSON is one document, everything else goes line by line.
fn document(stdout: &str, work: &Path) -> String {
    if stdout.starts_with("{\n") || stdout.starts_with("[\n") {
        redact::json(stdout, work)
    } else {
        redact::text(stdout, work)
    }
}

fn copy_all(from: &Path, to: &Path, is_top: bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        let is_ours = ARTEFACTS.iter().chain(&SETTINGS).any(|ours| name == *ours);
        if is_top && is_ours {
            continue;
        }
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &to.join(&name), false),
            false => drop(fs::copy(entry.path(), to.join(&name)).unwrap()),
        }
    }
}

/// Splits a line at blanks, except inside single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, piece) in line.split('\'').enumerate() {
        match index % 2 {
            1 => words.push(piece.to_owned()),
            _ => words.extend(piece.split_whitespace().map(str::to_owned)),
        }
    }
    words
}
