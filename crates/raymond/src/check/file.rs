//! Test files: `*.test.yaml`, read with the line and column of every mistake.

mod expect;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use raymond_core::frontmatter::yaml::{self, Fault, Node, Value};
use raymond_core::workflow::Platform;
use raymond_core::workflow::source::Position;

pub use expect::{Amount, Expect, Matcher, PromptRule};

use crate::agent::prepared::{Says, Trouble};
use crate::check::stage::StagedReply;
use crate::files;
use crate::recording;
use crate::run::rehearsal::{Answers, NextAnswers};
use crate::workflow::scope::locate;
use read::{Keys, Reader, fault, pattern};

/// How the names of test files end.
pub const ENDING: &str = ".test.yaml";

/// A test file holds texts of agents, which may be long.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// A file of tests.
#[derive(Debug)]
pub struct TestFile {
    pub path: PathBuf,
    /// The workflow under test, as `raymond run` takes it.
    pub workflow: PathBuf,
    pub tests: Vec<Test>,
}

/// One test.
#[derive(Clone, Debug, Default)]
pub struct Test {
    pub name: String,
    pub input: Option<String>,
    /// Named inputs of the workflow, as `--set` gives them.
    pub inputs: BTreeMap<String, String>,
    /// Files in the folder in which the test runs, by their paths.
    pub files: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    /// Options of `raymond run`, as on its command line.
    pub options: Vec<String>,
    pub replies: Vec<StagedReply>,
    /// Where each state that has replies is named.
    pub reply_places: Vec<(String, Position)>,
    pub recording: Option<PathBuf>,
    /// Where the recording is named.
    pub recording_place: Option<Position>,
    pub answers: Answers,
    pub kill_after: Vec<u64>,
    pub stops_at_questions: bool,
    pub expect: Expect,
}

/// A mistake in a test file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFile {
    pub path: PathBuf,
    /// Line and column, if it is about a place in the file.
    pub place: Option<(usize, usize)>,
    pub message: String,
}

impl BadFile {
    fn new(path: &Path, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), place: None, message: message.into() }
    }

    fn at(path: &Path, fault: Fault) -> Self {
        let Fault { position, message } = fault;
        Self {
            path: path.to_owned(),
            place: Some((position.line as usize, position.column as usize)),
            message,
        }
    }
}

impl std::fmt::Display for BadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Reads a test file and checks that its workflow and its recordings are there.
pub fn load(path: &Path) -> Result<TestFile, BadFile> {
    let text = files::read_text(path, MAX_FILE_BYTES)
        .map_err(|error| BadFile::new(path, format!("cannot read it: {error}")))?;
    let (tests, workflow) = parse(&text).map_err(|fault| BadFile::at(path, fault))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let workflow = match workflow {
        Some((given, position)) => {
            let workflow = folder.join(&given);
            check_workflow(&workflow).map_err(|message| BadFile::at(path, Fault::new(position, message)))?;
            workflow
        }
        None => default_workflow(path, folder)
            .map_err(|message| BadFile::at(path, Fault::new(Position { line: 1, column: 1 }, message)))?,
    };
    let mut tests = tests;
    for test in &mut tests {
        let Some(recording) = &mut test.recording else { continue };
        *recording = folder.join(&*recording);
        recording::read(recording).map_err(|bad| match (bad.place, test.recording_place) {
            (None, Some(named)) => BadFile::at(path, Fault::new(named, bad.to_string())),
            (place, _) => BadFile {
                message: format!("{} (the test `{}` needs it)", bad.message, test.name),
                path: bad.path,
                place,
            },
        })?;
    }
    Ok(TestFile { path: path.to_owned(), workflow, tests })
}

fn check_workflow(workflow: &Path) -> Result<(), String> {
    let given = workflow.to_str().ok_or("the path of the workflow is not valid UTF-8")?;
    let cwd = std::env::current_dir().map_err(|error| error.to_string())?;
    locate(given, &cwd, Platform::current()).map(drop).map_err(|error| error.message)
}

/// The folder of the test file, or else what has the same name beside it.
fn default_workflow(path: &Path, folder: &Path) -> Result<PathBuf, String> {
    let problem = match check_workflow(folder) {
        Ok(()) => return Ok(folder.to_owned()),
        Err(problem) => problem,
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_suffix(ENDING).unwrap_or(name);
    let beside = ["zip", "yaml", "yml"].map(|extension| folder.join(format!("{name}.{extension}")));
    match beside.into_iter().find(|file| file.is_file()) {
        Some(file) => check_workflow(&file).map(|()| file),
        None => Err(format!("there is no workflow to test: {problem}; name it with `workflow: PATH`")),
    }
}

/// The tests in a text, and the workflow that it names.
type Parsed = (Vec<Test>, Option<(String, Position)>);

/// Reads the text of a test file.
pub fn parse(text: &str) -> Result<Parsed, Fault> {
    let reader = Reader { text };
    let root = yaml::parse(text)?;
    let keys = Keys::of(&root, "a test file", &["workflow", "tests"])?;
    let workflow = keys.get("workflow").map(|node| Ok((reader.text(node)?, node.position))).transpose()?;
    let Some(list) = keys.get("tests") else {
        return Err(fault(&root, "there are no `tests` in it"));
    };
    let nodes = reader.list(list, "`tests`")?;
    if nodes.is_empty() {
        return Err(fault(list, "there are no tests in it"));
    }
    let mut tests: Vec<Test> = Vec::new();
    for node in nodes {
        let test = reader.test(node)?;
        if tests.iter().any(|earlier| earlier.name == test.name) {
            return Err(fault(node, format!("there are two tests with the name `{}`", test.name)));
        }
        tests.push(test);
    }
    Ok((tests, workflow))
}

const TEST_KEYS: [&str; 11] = [
    "name",
    "input",
    "inputs",
    "files",
    "env",
    "options",
    "replies",
    "recording",
    "answers",
    "kill_after",
    "expect",
];

impl Reader<'_> {
    fn test(&self, node: &Node) -> Result<Test, Fault> {
        let keys = Keys::of(node, "a test", &TEST_KEYS)?;
        let Some(name) = keys.get("name") else { return Err(fault(node, "a test needs a `name`")) };
        let mut test = Test { name: self.text(name)?, ..Test::default() };
        test.input = keys.get("input").map(|node| self.text(node)).transpose()?;
        for (name, node) in self.named(keys.get("inputs"))? {
            test.inputs.insert(name, self.text(node)?);
        }
        for (file, node) in self.named(keys.get("files"))? {
            if let Some(problem) = path_problem(&file) {
                return Err(fault(node, format!("`{file}` {problem}")));
            }
            test.files.insert(file, self.text(node)?);
        }
        for (name, node) in self.named(keys.get("env"))? {
            if name.is_empty() || name.contains('=') || name.contains('\0') {
                return Err(fault(node, format!("`{name}` cannot be the name of a variable")));
            }
            test.env.insert(name, self.text(node)?);
        }
        if let Some(node) = keys.get("options") {
            self.options(node, &mut test)?;
        }
        if let Some(node) = keys.get("replies") {
            self.replies(node, &mut test)?;
        }
        if let Some(node) = keys.get("recording") {
            test.recording = Some(PathBuf::from(self.text(node)?));
            test.recording_place = Some(node.position);
        }
        test.answers = keys.get("answers").map(|node| self.answers(node)).transpose()?.unwrap_or_default();
        test.kill_after = match keys.get("kill_after") {
            Some(Node { value: Value::List(nodes), .. }) => {
                nodes.iter().map(|node| self.count(node)).collect::<Result<_, _>>()?
            }
            Some(node) => vec![self.count(node)?],
            None => Vec::new(),
        };
        if let Some(node) = keys.get("expect") {
            test.expect = self.expect(node)?;
        }
        Ok(test)
    }

    fn options(&self, node: &Node, test: &mut Test) -> Result<(), Fault> {
        let names: Vec<&str> = OPTIONS.iter().map(|(name, ..)| *name).chain(["on_ask"]).collect();
        let keys = Keys::of(node, "`options`", &names)?;
        for (name, option, is_switch) in OPTIONS {
            let Some(node) = keys.get(name) else { continue };
            match (&node.value, is_switch) {
                (Value::Bool(true), true) => test.options.push(option.to_owned()),
                (Value::Bool(false), true) => {}
                (_, true) => return Err(fault(node, format!("`{name}` is `true` or `false`"))),
                (_, false) => test.options.push(format!("{option}={}", self.text(node)?)),
            }
        }
        if let Some(node) = keys.get("on_ask") {
            test.stops_at_questions = match self.text(node)?.as_str() {
                "pause" => true,
                "wait" => false,
                _ => return Err(fault(node, "in a test, `on_ask` is `wait` or `pause`")),
            };
        }
        Ok(())
    }

    fn replies(&self, node: &Node, test: &mut Test) -> Result<(), Fault> {
        for field in self.fields(node, "`replies` names states and what agents say there")? {
            let state = field.key.strip_suffix(".md").unwrap_or(&field.key).to_owned();
            test.reply_places.push((field.key.clone(), field.key_position));
            match &field.node.value {
                Value::List(nodes) => {
                    for node in nodes {
                        test.replies.push(self.reply(node, &state, false)?);
                    }
                }
                _ => test.replies.push(self.reply(&field.node, &state, true)?),
            }
        }
        Ok(())
    }

    fn reply(&self, node: &Node, state: &str, is_lasting: bool) -> Result<StagedReply, Fault> {
        let mut reply = StagedReply {
            state: state.to_owned(),
            when: None,
            says: Says::Reply(String::new()),
            cost_usd: 0.0,
            is_lasting,
        };
        if !matches!(node.value, Value::Map(_)) {
            reply.says = Says::Reply(self.text(node)?);
            return Ok(reply);
        }
        let keys = Keys::of(node, "a reply", &["when", "reply", "fail", "cost"])?;
        reply.says = match (keys.get("reply"), keys.get("fail")) {
            (Some(text), None) => Says::Reply(self.text(text)?),
            (None, Some(fail)) => Says::Fail(self.trouble(fail)?),
            (Some(_), Some(fail)) => return Err(fault(fail, "a reply has `reply` or `fail`, not both")),
            (None, None) => return Err(fault(node, "a reply needs its text, `reply: …`, or `fail: …`")),
        };
        if let Some(node) = keys.get("when") {
            let text = self.text(node)?;
            pattern(node, &text)?;
            reply.when = Some(text);
        }
        reply.cost_usd = keys.get("cost").map(|node| self.dollars(node)).transpose()?.unwrap_or(0.0);
        Ok(reply)
    }

    fn trouble(&self, node: &Node) -> Result<Trouble, Fault> {
        let given = self.text(node)?;
        let names = Trouble::ALL.map(Trouble::as_str);
        Trouble::ALL.into_iter().find(|trouble| trouble.as_str() == given).ok_or_else(|| {
            let given = given.escape_debug();
            fault(node, format!("an agent cannot fail with `{given}`; it can with: {}", names.join(", ")))
        })
    }

    fn answers(&self, node: &Node) -> Result<Answers, Fault> {
        if let Value::List(_) = node.value {
            return Ok(Answers::InOrder(self.texts(node, "`answers`")?));
        }
        let mut by_next = BTreeMap::new();
        for field in self.fields(node, "`answers` is a list, or names the states after the questions")? {
            let answers = match &field.node.value {
                Value::List(_) => NextAnswers::InOrder(self.texts(&field.node, "the answers")?),
                _ => NextAnswers::Always(self.text(&field.node)?),
            };
            let name = field.key.rsplit_once('.').map_or(field.key.as_str(), |(name, _)| name);
            by_next.insert(name.to_owned(), answers);
        }
        Ok(Answers::ByNext(by_next))
    }
}

/// The options of a run that a test can set: the key, the option, and whether it is a switch.
const OPTIONS: [(&str, &str, bool); 10] = [
    ("budget", "--budget", false),
    ("max_steps", "--max-steps", false),
    ("max_parallel", "--max-parallel", false),
    ("max_parallel_scripts", "--max-parallel-scripts", false),
    ("model", "--model", false),
    ("effort", "--effort", false),
    ("timeout", "--timeout", false),
    ("no_wait", "--no-wait", true),
    ("no_lint", "--no-lint", true),
    ("snapshots", "--snapshots", true),
];

/// The names of all options, for the schema.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.into_iter().map(|(name, ..)| name).chain(["on_ask"])
}

/// Why a path cannot be that of a file in the folder of a test.
pub(super) fn path_problem(path: &str) -> Option<&'static str> {
    use std::path::Component;
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_) | Component::CurDir);
    match Path::new(path).components().all(is_plain) && !path.is_empty() {
        true => None,
        false => Some("is not a path inside the folder of the test"),
    }
}

#[cfg(test)]
mod tests;
