//! Whether files that Raymond finds by itself may decide what it runs.
//!
//! `.raymond` is found by walking up, so it may belong to somebody else ([`check_owner`]). A project's config file may
//! come with a cloned repository ([`commands`]).

pub mod commands;
mod owner;

pub use owner::check_owner;
