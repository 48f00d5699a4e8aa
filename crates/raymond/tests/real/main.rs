//! Raymond with the real Claude Code and other real agent programs, which talk to a fake of their models' services: see
//! `tests/README.md`.
#![expect(clippy::unwrap_used, reason = "these are tests, but without the usual harness")]

mod bench;
mod data;
mod ending;
mod money;
mod others;
mod refused;
mod resuming;
mod tools;
mod transitions;
mod trouble;

use std::process::ExitCode;

use bench::Program;
use libtest_mimic::{Arguments, Trial};
use others::Agent;

/// A case, run once with each version.
type Case = (&'static str, fn(&Program));

const CASES: &[&[Case]] = &[
    transitions::CASES,
    trouble::CASES,
    refused::CASES,
    tools::CASES,
    resuming::CASES,
    ending::CASES,
    data::CASES,
    money::CASES,
];

/// More than the cores, because the programs mostly wait for each other.
const THREADS: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let mut trials = Vec::new();
    for program in Program::all() {
        let is_missing = !program.is_installed();
        if is_missing && !Program::may_be_missing() {
            eprintln!("Claude Code {} is not installed; scripts/install-claude.sh does it", program.version);
            return ExitCode::FAILURE;
        }
        if is_missing {
            eprintln!("SKIPPED: the tests with Claude Code {}, which is not installed", program.version);
        }
        for (name, case) in CASES.iter().copied().flatten() {
            let (program, case) = (program.clone(), *case);
            let name = match is_missing {
                true => format!("{}::{name} (skipped: not installed)", program.version),
                false => format!("{}::{name}", program.version),
            };
            let run = move || {
                case(&program);
                Ok(())
            };
            trials.push(Trial::test(name, run).with_ignored_flag(is_missing));
        }
    }
    for agent in Agent::all() {
        let is_missing = !agent.is_installed();
        if is_missing {
            eprintln!("SKIPPED: the tests with {} {}, which is not installed", agent.kind, agent.version);
        }
        for (name, case) in others::CASES.iter().copied() {
            let agent = agent.clone();
            let skipped = if is_missing { " (skipped: not installed)" } else { "" };
            let name = format!("{}-{}::{name}{skipped}", agent.kind, agent.version);
            let run = move || {
                case(&agent);
                Ok(())
            };
            trials.push(Trial::test(name, run).with_ignored_flag(is_missing));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
