//! Findings in the forms that people and programs read.

mod github;
mod json;
mod sarif;
mod text;

pub use github::github;
pub use json::json;
pub use sarif::sarif;
pub use text::{summary, text};
