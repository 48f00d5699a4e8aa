//! Whether files that Raymond finds by itself may decide what it runs.
//!
//! `.raymond` is looked for in the working directory and in the folders above it, where other users may have made one
//! ([`check_owner`]). A project's config file may come with a cloned repository ([`commands`]), and so may a workflow that
//! wants to start by itself ([`workflows`]).

pub mod commands;
pub mod content;
mod owner;
pub mod workflows;

pub use owner::{check_open, check_owner};
