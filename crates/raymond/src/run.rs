//! A run on its way: the loop that drives it, the engine that decides and commits, the steps, and taking over from a
//! process that died.

pub mod answering;
pub mod caller;
pub mod driver;
pub mod engine;
pub mod executor;
pub mod frozen;
pub mod hosted;
pub mod job;
pub mod lookups;
pub(crate) mod mailbox;
pub mod prepare;
pub mod recovery;
pub mod rehearsal;
pub(crate) mod step;
pub mod stop;
