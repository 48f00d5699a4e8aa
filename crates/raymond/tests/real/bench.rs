//! A working folder, a fake of the models' services and one agent program.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::process::Command;

use mock_api::{Api, Request};
use serde_json::Value;
use test_kit::rig::{Done, Live, Rig, wait_until};

use crate::programs::Program;

/// Time limits for a case, in seconds. Usually a program gets far enough before the first limit; on a slow machine it
/// may need a longer one.
pub(crate) const TIMES: [u64; 3] = [5, 20, 80];

/// How the program connects to the model's service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    Key,
    Subscription,
    None,
}

pub(crate) struct Bench {
    rig: Rig,
    pub(crate) api: Api,
    pub(crate) account: Account,
    program: Program,
    /// Variables for the programs.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Bench {
    pub(crate) fn new(program: &Program) -> Self {
        Self::with_config(program, &format!("model = {:?}\n", program.kind.model))
    }

    /// Without a model in the config file.
    pub(crate) fn without_model(program: &Program) -> Self {
        Self::with_config(program, "")
    }

    /// A program that lacks something works in the weaker way.
    fn with_config(program: &Program, options: &str) -> Self {
        let rig = Rig::new(env!("CARGO_BIN_EXE_raymond"));
        let command = program.path().canonicalize().unwrap();
        let name = program.backend();
        let can = program.capabilities();
        let options = if can.model { options } else { "" };
        let settings = program.settings();
        let (args, branches) = (settings.args, settings.branches);
        let in_place = if can.branch { "" } else { "without_branch = \"continue\"\n" };
        let uncounted = if program.kind.prices.is_some() { "" } else { "cost = \"none\"\n" };
        let config = format!(
            "[raymond]\nbackend = \"{name}\"\n{options}[backend.{name}]\ncommand = {command:?}\nargs = {args:?}\n\
             branches = {branches}\n{in_place}{uncounted}\
             [prices]\nmock-model = {{ input = 1, output = 10, cache_read = 0.1 }}\n"
        );
        rig.write(".raymond/config.toml", config);
        let api = Api::start();
        let variables = program.set_up(&rig, &api.url());
        Self { rig, api, account: Account::Key, program: program.clone(), variables }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.rig.command(args);
        match self.account {
            Account::Key => command.env("ANTHROPIC_API_KEY", "dummy"),
            Account::Subscription => command.env("CLAUDE_CODE_OAUTH_TOKEN", "dummy"),
            Account::None => &mut command,
        };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(node) = self.program.own_node() {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", node.display()));
        }
        command
    }

    /// A variable as the programs have it.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let command = self.command(&[]);
        let mut all = command.get_envs();
        all.find(|(own, _)| *own == name).and_then(|(_, value)| value.map(OsStr::to_owned))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Live {
        self.rig.launch(self.command(args))
    }

    /// Runs `workflow` as the run `r`.
    pub(crate) fn run(&self, options: &[&str]) -> Done {
        self.start(&[&["workflow", "--id", "r"], options].concat()).wait()
    }

    pub(crate) fn resume(&self, options: &[&str]) -> Done {
        self.start(&[&["resume", "r"], options].concat()).wait()
    }

    /// Waits until Raymond has read the event of a tool use, and so knows its cost.
    pub(crate) fn wait_for_tool_use(&self) {
        let folder = self.path(".raymond/debug/r");
        wait_until("a tool's use", || {
            let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let mut texts = files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default());
            texts.any(|text| text.contains("\"tool_use\""))
        });
    }

    /// All requests whose newest prompt contains this text.
    pub(crate) fn asked(&self, prompt: &str) -> Vec<Request> {
        self.api.requests().into_iter().filter(|request| request.prompt.contains(prompt)).collect()
    }

    /// Like those of the rig, for the home folder of the program: only what a person's own Raymond has made counts.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.start(&["log", "r", "--json"]).wait().assert_is(0).lines().collect()
    }

    pub(crate) fn status(&self) -> Value {
        let done = self.start(&["status", "r", "--json"]).wait();
        serde_json::from_str(&done.assert_is(0).stdout).unwrap()
    }

    pub(crate) fn adopt(&self) {
        self.start(&["doctor", "--adopt", "--yes"]).wait().assert_is(0);
    }

    /// The events of one kind.
    pub(crate) fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// The cost of the run according to Raymond, in billionths of a dollar.
    pub(crate) fn cost_nanos(&self) -> u64 {
        nanos(&self.status()["cost_usd"])
    }

    /// Raymond's cost equals the cost that the fake has counted, to the billionth.
    #[track_caller]
    pub(crate) fn assert_paid(&self) {
        assert_eq!(self.cost_nanos(), self.api.spent_nanos(), "{:#?}", self.api.requests());
        assert!(self.cost_nanos() > 0);
    }
}

impl Deref for Bench {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

pub(crate) fn nanos(dollars: &Value) -> u64 {
    (dollars.as_f64().unwrap() * 1e9).round() as u64
}

/// Fails unless the histories are equal; shows one line for each entry.
#[track_caller]
pub(crate) fn assert_history(got: &Request, expected: &[&str]) {
    let same = got.history.iter().map(String::as_str).eq(expected.iter().copied());
    assert!(same, "got:\n  {}\nexpected:\n  {}", got.history.join("\n  "), expected.join("\n  "));
}
