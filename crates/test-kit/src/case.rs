//! The folders in `crates/raymond/tests/cases`: each is a workflow and what to do with it. The test `cases` of `raymond` compares
//! what comes of them; the simulation plays them with crashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::rig::{Done, Rig};

/// The files in a case's folder that say what must come of it.
pub const ARTEFACTS: [&str; 6] = ["exit", "stdout", "stderr", "events", "status", "calls"];
/// The files in a case's folder that say what to do. All others are files of the working folder.
const SETTINGS: [&str; 9] =
    ["about", "args", "stdin", "steps", "ignored", "parallel", "config.toml", "script.json", "environment"];

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
