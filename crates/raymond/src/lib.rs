//! Raymond's shell around the pure core: processes, disk, terminal.

pub mod backend;
pub mod process;
pub mod store;
