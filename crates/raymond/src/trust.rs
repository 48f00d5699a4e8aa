//! Whether files that Raymond finds by itself may decide what it runs.
//!
//! `.raymond` is looked for in the working directory and in the folders above it, where other users may have made one
//! ([`check_owner`]). A project's config file may come with a cloned repository ([`commands`]), and so may all that lies
//! beside it, which counts only if it is marked ([`marks`]).

pub mod commands;
pub mod marks;
mod owner;

pub use owner::{check_open, check_owner, is_safe};
