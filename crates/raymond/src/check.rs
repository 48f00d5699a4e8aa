//! Testing a workflow without a model: `raymond test`.
//!
//! A test is an ordinary run of an ordinary process, in a folder of its own. What is different is handed over in a
//! [`stage`]: the replies of agents, the answers to questions, and where the process is killed. What happened is read
//! from the journal of that run.

pub mod course;
pub mod coverage;
pub mod file;
pub mod find;
pub mod judge;
pub mod report;
pub mod stage;
pub mod suite;
pub mod taken;
pub mod trial;
