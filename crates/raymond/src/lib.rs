//! The part of Raymond that does I/O, around the pure core in `raymond-core`. Each folder does one thing:
//!
//! | folder | what happens there |
//! |---|---|
//! | [`cli`] | the command line, one file for each command |
//! | [`run`] | running a workflow: the main loop, the engine, steps, recovery |
//! | [`agent`] | agent programs: how a turn is started and its output is read |
//! | [`workflow`] | where states come from: scopes, manifests, state files |
//! | [`store`] | where runs are kept: one interface, implemented with files and in memory |
//! | [`process`] | starting, reading and ending programs |
//! | [`git`] | repositories: worktrees of workers |
//! | `trust` | whether files that are found may decide what runs |
//! | [`view`] | how a run is shown to people and to other programs |
//! | [`serve`] | runs and workflows over HTTP: the API and the page |
//! | [`fleet`] | runs on other machines: the seam to an engine, and copies of its runs |
//! | [`check`] | testing a workflow: test files, their runs, coverage, reports |
//! | [`author`] | lint, diagrams, conversion, templates, schemas |

#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests open files that they have made"))]

mod advice;
pub mod agent;
pub mod author;
pub mod check;
pub mod cli;
mod clock;
pub mod config;
pub mod error;
mod files;
pub mod fleet;
pub mod git;
mod handover;
pub mod history;
mod paths;
pub mod process;
pub mod recording;
pub mod run;
pub mod serve;
pub mod store;
mod trust;
pub mod view;

mod wire;
pub mod workflow;
