//! Tests of the whole program from outside: see `tests/README.md`.

// The workflows are shell scripts, and their processes are looked up in `/proc`; `scripts/windows.sh` has the tests for
// Windows.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests open files that they have made")]

#[cfg(test)]
mod asking;
#[cfg(test)]
mod author;
#[cfg(test)]
mod backends;
#[cfg(test)]
mod background;
#[cfg(test)]
mod books;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod cgroups;
#[cfg(test)]
mod choosing;
#[cfg(test)]
mod cleaning;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod diagnostics;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod elsewhere;
#[cfg(test)]
mod emit;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod folders;
#[cfg(test)]
mod following;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod going_back;
#[cfg(test)]
mod guide;
#[cfg(test)]
mod help;
mod history;
#[cfg(test)]
mod hostile_git;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod lint;
#[cfg(test)]
mod live;
#[cfg(test)]
mod lost_turns;
#[cfg(test)]
mod markup;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod old_journals;
#[cfg(test)]
mod own;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod points;
#[cfg(test)]
mod powers;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod prompting;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod restoring;
#[cfg(test)]
mod schema_cost;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod shortage;
#[cfg(test)]
mod shown;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod steady;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod strange_files;
#[cfg(test)]
mod taken_back;
#[cfg(test)]
mod task_folders;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod trusting;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod vanishing;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod worktrees;

/// The program under test, which Cargo has built for these tests.
#[cfg(test)]
const RAYMOND: &str = env!("CARGO_BIN_EXE_raymond");
