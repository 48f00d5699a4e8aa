//! Raymond with real agent programs, which talk to a fake of their models' services: see `tests/README.md`.
#![expect(clippy::unwrap_used, reason = "these are tests, but without the usual harness")]
#![expect(clippy::disallowed_methods, reason = "tests open files that they have made")]

mod bench;
mod data;
mod ending;
mod history;
mod money;
mod programs;
mod recorded;
mod refused;
mod resuming;
mod suite;
mod tools;
mod transitions;
mod trouble;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use programs::Program;

/// A case, run once with each program.
type Case = (&'static str, fn(&Program));

/// What is known in detail of Claude Code alone.
const CASES_OF_CLAUDE: &[&[Case]] = &[
    transitions::CASES,
    trouble::CASES,
    refused::CASES,
    tools::CASES,
    resuming::CASES,
    ending::CASES,
    history::CASES,
    data::CASES,
    money::CASES,
    recorded::CASES,
];

/// More than the cores, because the programs mostly wait for each other.
const THREADS: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let mut trials = Vec::new();
    for program in Program::all() {
        let is_missing = !program.is_installed();
        if is_missing {
            eprintln!("SKIPPED: the tests with {}, which is not installed", program.name());
        }
        let of_claude = CASES_OF_CLAUDE.iter().copied().flatten().filter(|_| program.is_claude());
        let all = suite::CASES.iter().chain(of_claude).filter(|(name, _)| program.takes(name));
        trials.extend(all.map(|case| trial(&program, *case, is_missing)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(program: &Program, (name, case): Case, is_missing: bool) -> Trial {
    let skipped = if is_missing { " (skipped: not installed)" } else { "" };
    let name = format!("{}::{name}{skipped}", program.name());
    let program = program.clone();
    let run = move || {
        case(&program);
        Ok(())
    };
    Trial::test(name, run).with_ignored_flag(is_missing)
}
