//! How an agent program is started, as far as all programs are alike.

use super::{Grant, Inspection, Invocation};
use crate::config::BackendSettings;

/// The program of a backend: `command` and `args` of its settings.
#[derive(Debug, Clone)]
pub(super) struct Launcher {
    pub(super) command: String,
    args: Vec<String>,
}

impl Launcher {
    /// `usual` is the program's name when the settings do not give another.
    pub(super) fn new(settings: &BackendSettings, usual: &str) -> Self {
        let command = settings.command.clone().unwrap_or_else(|| usual.to_owned());
        Self { command, args: settings.args.clone() }
    }

    /// Whether the settings already have an argument like this.
    pub(super) fn has(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        self.args.iter().any(|arg| is_meant(arg))
    }

    /// The arguments of a turn. Those of the settings come first, so that the command may be a wrapper whose arguments
    /// end with the program's name.
    pub(super) fn arguments(&self) -> Arguments {
        Arguments(self.args.clone())
    }

    /// How the program is started with this text on its stdin.
    pub(super) fn invocation(&self, arguments: Arguments, stdin: &str) -> Invocation {
        Invocation {
            program: self.command.clone(),
            args: arguments.0,
            stdin: stdin.to_owned().into_bytes(),
            unset: Vec::new(),
            set: Vec::new(),
        }
    }

    /// How to look at a program that tells its version, and was tested with these.
    pub(super) fn inspection(&self, tested: &'static [&'static str]) -> Inspection {
        Inspection { program: self.command.clone(), tells_version: true, tested, login: None, accounts: None }
    }
}

/// Arguments that are put together one after the other.
#[derive(Debug)]
pub(super) struct Arguments(Vec<String>);

impl Arguments {
    pub(super) fn words<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.0.extend(words.map(str::to_owned));
        self
    }

    /// A flag and its value as two arguments, if there is a value.
    pub(super) fn option<'v>(self, flag: &str, value: impl Into<Option<&'v String>>) -> Self {
        match value.into() {
            Some(value) => self.words([flag, value]),
            None => self,
        }
    }

    /// A flag and each grant as two arguments.
    pub(super) fn grants(self, flag: &str, grants: &[Grant]) -> Self {
        grants.iter().fold(self, |arguments, grant| arguments.words([flag, grant.as_str()]))
    }
}
