//! Runs one test: an ordinary run in a process and a folder of its own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::course::{self, Course};
use super::file::{Test, TestFile};
use super::judge::{Failure, judge};
use super::stage::Stage;
use super::taken::Taken;
use crate::agent::prepared::Missing;
use crate::files;
use crate::process::{
    AfterExit, Ending, Flow, OutputTail, ParentDeath, ProcessExit, ProgramSpec, Reaper, Sink, StopSignal,
    TimeLimits, supervise,
};

/// The id of the run of every test. It has a digit, so that it is told apart from ordinary words.
const RUN_ID: &str = "test-1";
/// How much of what the run says is shown if it cannot start.
const STDERR_BYTES: usize = 8 * 1024;
const STDERR_LINES: usize = 40;

/// What all tests share.
#[derive(Debug)]
pub struct Bench {
    /// This program.
    pub raymond: PathBuf,
    /// The folder in which each test gets one.
    pub base: PathBuf,
    pub reaper: Reaper,
    pub stop: StopSignal,
    pub keep: bool,
    /// Whether prompts that are not in a recording are asked of the agent, and recorded.
    pub updates_recordings: bool,
}

/// How a test went.
#[derive(Debug)]
pub struct Outcome {
    /// The number of the test among all that are run.
    pub number: usize,
    pub failures: Vec<Failure>,
    pub duration: Duration,
    /// Its folder, if that is kept.
    pub folder: Option<PathBuf>,
    pub taken: Vec<Taken>,
    pub is_stopped: bool,
    /// What turns cost that were asked of an agent again.
    pub spent: Option<Spent>,
}

/// What was asked of the agent again.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    pub recording: PathBuf,
    pub turns: usize,
    pub cost_usd: f64,
}

/// The folders of one test.
struct Place {
    /// Where the run works.
    work: PathBuf,
    home: PathBuf,
    state: PathBuf,
    stage: PathBuf,
    new_recording: PathBuf,
}

impl Place {
    fn make(folder: &Path) -> std::io::Result<Self> {
        let place = Self {
            work: folder.join("work"),
            home: folder.join("home"),
            state: folder.join("state"),
            stage: folder.join("stage.json"),
            new_recording: folder.join("new.rec.jsonl"),
        };
        files::create_private_folders(&place.work)?;
        files::create_private_folders(&place.home)?;
        Ok(place)
    }
}

/// Runs a test and judges it.
pub async fn run(bench: &Bench, number: usize, file: &TestFile, test: &Test) -> Outcome {
    let began = Instant::now();
    let folder = bench.base.join(format!("{}-{}", number + 1, slug(&test.name)));
    let tried = tried(bench, file, test, &folder).await;
    let mut outcome = Outcome {
        number,
        failures: Vec::new(),
        duration: began.elapsed(),
        folder: bench.keep.then(|| folder.join("work")),
        taken: Vec::new(),
        is_stopped: false,
        spent: None,
    };
    match tried {
        Ok(Tried::Ended(course, failures, spent)) => {
            outcome.failures = failures;
            outcome.taken = course.taken;
            outcome.spent = spent;
        }
        Ok(Tried::Stopped) => outcome.is_stopped = true,
        Err(error) => outcome.failures = vec![Failure::new("run", error)],
    }
    if !bench.keep {
        let _ = crate::files::remove_tree(&folder);
    }
    outcome
}

enum Tried {
    Ended(Box<Course>, Vec<Failure>, Option<Spent>),
    Stopped,
}

async fn tried(bench: &Bench, file: &TestFile, test: &Test, folder: &Path) -> Result<Tried, String> {
    let cannot = |what: &str, error: std::io::Error| format!("cannot make {what}: {error}");
    let place = Place::make(folder).map_err(|error| cannot("the folder of the test", error))?;
    for (name, text) in &test.files {
        let path = place.work.join(name);
        let parent = path.parent().unwrap_or(&place.work);
        fs::create_dir_all(parent)
            .and_then(|()| files::write_output(&path, text.as_bytes()))
            .map_err(|error| cannot(name, error))?;
    }
    let stage = serde_json::to_vec(&stage(bench, file, test)).map_err(|error| error.to_string())?;
    files::write_private(&place.stage, &stage).map_err(|error| cannot("the stage", error))?;
    let mut ended = start(bench, file, test, &place, false).await;
    for _ in &test.kill_after {
        match ended.exit {
            Some(ProcessExit::Signal(_)) if !bench.stop.is_triggered() => {
                ended = start(bench, file, test, &place, true).await;
            }
            _ => break,
        }
    }
    if bench.stop.is_triggered() {
        return Ok(Tried::Stopped);
    }
    if let Some(problem) = ended.problem {
        return Err(problem);
    }
    let course = course::read(&place.state, RUN_ID)
        .map_err(|error| format!("{error}\n{}", ended.stderr).trim_end().to_owned())?;
    let failures = judge(&test.expect, &course, &place.work);
    let spent = match (&test.recording, bench.updates_recordings && failures.is_empty()) {
        (Some(recording), true) => update(recording, &place.new_recording)?,
        _ => None,
    };
    Ok(Tried::Ended(Box::new(course), failures, spent))
}

/// Puts a new recording in the place of the old one, if it is another.
fn update(recording: &Path, new: &Path) -> Result<Option<Spent>, String> {
    let old = crate::recording::read(recording).map_err(|error| error.to_string())?;
    let turns = crate::recording::read(new).map_err(|error| error.to_string())?;
    let is_known =
        |hash: &str, state: &str| old.iter().any(|turn| turn.prompt_sha256 == hash && turn.state == state);
    let asked: Vec<_> =
        turns.iter().filter(|turn| !is_known(&turn.prompt_sha256, &turn.state)).cloned().collect();
    if asked.is_empty() && old.len() == turns.len() {
        return Ok(None);
    }
    crate::recording::write(recording, &turns)
        .map_err(|error| format!("cannot write {}: {error}", recording.display()))?;
    let cost_usd = asked.iter().map(|turn| turn.cost_usd.dollars()).sum();
    Ok(Some(Spent { recording: recording.to_owned(), turns: asked.len(), cost_usd }))
}

fn stage(bench: &Bench, file: &TestFile, test: &Test) -> Stage {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let workflow = absolute(&file.workflow);
    let folder = if workflow.is_dir() { workflow.as_path() } else { workflow.parent().unwrap_or(&workflow) };
    Stage {
        replies: test.replies.clone(),
        recording: test.recording.as_deref().map(absolute),
        missing: if bench.updates_recordings { Missing::Live } else { Missing::Fail },
        answers: test.answers.clone(),
        kill_after: test.kill_after.clone(),
        stops_at_questions: test.stops_at_questions,
        project: project_of(folder),
    }
}

/// The project that a workflow belongs to: its `.raymond` or `.git` is there.
fn project_of(folder: &Path) -> PathBuf {
    let home = crate::store::StateDir::find(folder).ok().and_then(|dir| dir.home().map(Path::to_owned));
    home.and_then(|home| home.parent().map(Path::to_owned)).unwrap_or_else(|| folder.to_owned())
}

/// How a process of a test ended.
struct Ended {
    exit: Option<ProcessExit>,
    /// Why there is nothing to judge.
    problem: Option<String>,
    stderr: String,
}

async fn start(bench: &Bench, file: &TestFile, test: &Test, place: &Place, resumes: bool) -> Ended {
    let spec = spec(bench, file, test, place, resumes);
    let mut sink = Tail { stderr: OutputTail::new(STDERR_BYTES) };
    let (limits, stop) = (TimeLimits::default(), bench.stop.clone());
    let done = supervise(spec, limits, &mut sink, stop, &bench.reaper, AfterExit::TidiesUpItself).await;
    let stderr = sink.stderr.last_lines(STDERR_LINES);
    let exit = match &done.ending {
        Ending::Exited(exit) => Some(*exit),
        _ => None,
    };
    let problem = match done.ending {
        // Wrong usage: no run was started.
        Ending::Exited(ProcessExit::Code(2)) => Some(format!("the run was refused:\n{stderr}")),
        Ending::SpawnFailed(error) => Some(format!("cannot start {}: {error}", bench.raymond.display())),
        _ => None,
    };
    Ended { exit, problem, stderr }
}

fn spec(bench: &Bench, file: &TestFile, test: &Test, place: &Place, resumes: bool) -> ProgramSpec {
    let token = uuid::Uuid::new_v4().to_string();
    let mut spec = ProgramSpec::new(&bench.raymond, &place.work, token);
    let mut args: Vec<OsString> = Vec::new();
    let workflow = std::path::absolute(&file.workflow).unwrap_or_else(|_| file.workflow.clone());
    match resumes {
        true => args.extend(["resume".into(), RUN_ID.into()]),
        false => {
            args.extend(["run".into(), workflow.into(), "--id".into(), RUN_ID.into()]);
            if let Some(input) = &test.input {
                args.extend(["--input".into(), "-".into()]);
                spec.stdin = input.clone().into_bytes();
            }
            let set = |(name, value): (&String, &String)| ["--set".into(), format!("{name}={value}").into()];
            args.extend(test.inputs.iter().flat_map(set));
        }
    }
    args.extend(["--quiet".into(), "--state-dir".into(), place.state.clone().into()]);
    args.extend(["--stage".into(), place.stage.clone().into()]);
    args.extend(test.options.iter().map(OsString::from));
    if bench.updates_recordings && test.recording.is_some() {
        args.extend(["--record".into(), place.new_recording.clone().into()]);
    }
    spec.args = args;
    // The agent that is asked again has to be logged in.
    if !bench.updates_recordings {
        let home = place.home.as_os_str();
        spec.env.extend(["HOME", "USERPROFILE"].map(|name| (name.into(), Some(home.to_owned()))));
        spec.env.extend(USERS.map(|name| (name.into(), None)));
    }
    spec.env.extend(test.env.iter().map(|(name, value)| (name.into(), Some(value.into()))));
    spec.on_parent_death = ParentDeath::Terminate;
    spec
}

/// Variables that lead to files of the user.
const USERS: [&str; 4] = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// Keeps the end of what a run says.
struct Tail {
    stderr: OutputTail,
}

impl Sink for Tail {
    fn stdout(&mut self, _bytes: &[u8]) -> Flow {
        Flow::Continue
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.stderr.push(bytes);
        Flow::Continue
    }
}

/// A name with only the characters that are plain in paths.
fn slug(name: &str) -> String {
    const MOST: usize = 40;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = name.chars().take(MOST).map(plain).collect();
    slug.trim_matches('-').to_owned()
}
