//! Whether files that Raymond finds by itself may decide what it runs.
//!
//! `.raymond` is looked for in the working directory and in the folders above it, where other users may have made one
//! ([`check_owner`]). A project's config file may come with a cloned repository: some of its settings give power
//! ([`powers`]), and those are used only with the user's consent ([`Consent`]). So may a workflow that wants to start by
//! itself ([`workflows`]), and all that lies beside the config file, which counts only if it is marked ([`marks`]).

mod consent;
pub mod content;
pub mod marks;
pub mod obeyed;
mod owner;
pub mod powers;
pub mod workflows;

pub use consent::{Consent, Wanted};
pub use owner::{check_open, check_owner, is_safe};
pub use powers::{Area, Power};
