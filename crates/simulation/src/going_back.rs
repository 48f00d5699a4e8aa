//! Going back, with all that it touches outside of the journals: random histories of what people, agents and kills do to
//! runs with worktrees, and a monitor that no work is lost and no folder has two owners.
//!
//! What is real: the engine, the decisions and the fold of the core, the store in memory, the branch and the rewind of
//! `raymond::history`, and what it decides about worktrees and folders ([`rules`]). Git and the folders are simulated
//! ([`ground`]), because a real git would permit a few histories a second and not a thousand. What the shell does to them is
//! stated once more ([`commands`], [`session`]), with each effect at a numbered point: making and handing over worktrees,
//! restoring, keeping and removing files. That the program does the same is shown by the tests of the whole program with the
//! real git, such as `it/kills.rs` and `it/restoring.rs`. Which commit a branch was at in the past is not simulated.
//!
//! A [`defect::Defect`] breaks one rule, so that it can be shown that the monitor notices it.

pub mod commands;
pub mod defect;
pub mod ground;
pub mod histories;
pub mod rules;
pub mod session;
pub mod work;
pub mod world;
