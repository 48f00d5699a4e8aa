//! The folders in `crates/raymond/tests/cases`: each is a workflow and what to do with it. The test `cases` of `raymond` compares
//! what comes of them; the simulation plays them with crashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::rig::{Done, Rig};
use crate::{fake, redact};

/// The files in a case's folder that say what must come of it.
pub const ARTEFACTS: [&str; 6] = ["exit", "stdout", "stderr", "events", "status", "calls"];
/// The files in a case's folder that say what to do. All others are files of the working folder.
const SETTINGS: [&str; 10] = [
    "about",
    "args",
    "stdin",
    "steps",
    "ignored",
    "local",
    "parallel",
    "config.toml",
    "script.json",
    "environment",
];

/// A case folder.
pub struct Case {
    /// The folder's name.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
}

/// All case folders in the order of their names. `CASE=text` in the environment picks those that have it in their names.
///
/// # Panics
///
/// If none is picked.
pub fn all_cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../raymond/tests/cases");
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
    /// The text of one of the case's own files, if it has it.
    pub fn setting(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    /// A working folder with everything that the case starts from. `raymond` is the program under test.
    pub fn lay_out(&self, raymond: &Path) -> Rig {
        let rig = Rig::new(raymond);
        copy_all(&self.folder, &rig.work(), true);
        if let Some(config) = self.setting("config.toml") {
            rig.write(".raymond/config.toml", config);
        }
        if let Some(script) = self.setting("script.json") {
            rig.agent(&script);
        }
        rig
    }

    /// What is to be done, line by line.
    pub fn steps(&self) -> Vec<String> {
        let steps = self.setting("steps").unwrap_or_else(|| self.single_step());
        let lines = steps.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    fn single_step(&self) -> String {
        let args = self.setting("args").unwrap_or_default();
        let args: Vec<String> = args.lines().map(|arg| format!(" '{arg}'")).collect();
        format!("raymond workflow --id r{}", args.concat())
    }

    /// Carries out these lines, and looks at what came of them in the run `id`.
    pub fn play(&self, rig: &Rig, steps: &[String], id: &str) -> Played {
        let mut commands = Vec::new();
        for step in steps {
            commands.extend(self.step(rig, step).map(|done| (step.clone(), done)));
        }
        Played {
            commands,
            log: rig.raymond(&["log", id, "--json"]).stdout,
            status: rig.raymond(&["status", id, "--json"]).stdout,
            calls: rig.fake().exists().then(|| rig.calls()),
        }
    }

    /// Carries out one line of [`steps`](Self::steps): the program, or something that happens to its files in between. Returns how
    /// the program ended, if it was one.
    pub fn step(&self, rig: &Rig, line: &str) -> Option<Done> {
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

    /// Gives a program the variables of this case.
    pub fn set_environment(&self, rig: &Rig, command: &mut Command) {
        for line in self.setting("environment").unwrap_or_default().lines() {
            let (name, value) = line.split_once('=').unwrap();
            command.env(name, value.replace("$WORK", rig.work().to_str().unwrap()));
        }
    }

    fn raymond(&self, rig: &Rig, folder: &str, args: &[&str]) -> Done {
        let mut command = rig.command(args);
        command.current_dir(rig.path(folder));
        self.set_environment(rig, &mut command);
        if let Ok(stdin) = fs::File::open(self.folder.join("stdin")) {
            command.stdin(Stdio::from(stdin));
        }
        rig.launch(command).wait()
    }
}

/// What came of a case.
pub struct Played {
    /// Each call of the program, and how it ended.
    pub commands: Vec<(String, Done)>,
    /// The run's events, one JSON object per line.
    pub log: String,
    /// The run's status as JSON.
    pub status: String,
    /// The calls of the stand-in for Claude Code, if the case has one.
    pub calls: Option<Vec<Value>>,
}

impl Played {
    /// The results by the names of [`ARTEFACTS`], without what differs between two runs.
    pub fn artefacts(&self, work: &Path, parallel: bool) -> Vec<(&'static str, String)> {
        let several = self.commands.len() > 1;
        let heading = |step: &str| {
            if several { format!("$ {step}\n") } else { String::new() }
        };
        let each = |part: &dyn Fn(&Done) -> String| -> String {
            self.commands.iter().map(|(step, done)| heading(step) + &part(done)).collect()
        };
        let events = redact::text(&self.log, work);
        let mut artefacts = vec![
            ("exit", each(&|done| format!("{}\n", done.exit))),
            ("stdout", each(&|done| document(&done.stdout, work))),
            ("stderr", each(&|done| redact::text(&done.stderr, work))),
            ("events", if parallel { redact::by_agent(&events) } else { events }),
            ("status", redact::json(&self.status, work)),
        ];
        let calls = self.calls.as_ref().map(|calls| redact::text(&fake::told(calls, parallel), work));
        artefacts.extend(calls.map(|calls| ("calls", calls)));
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
