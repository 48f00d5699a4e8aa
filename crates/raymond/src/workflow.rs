//! Where the states of a run come from: a folder, an archive or one file, with its manifest.

pub mod cron;
pub mod given_inputs;
pub mod labels;
pub mod manifest;
pub mod named;
pub(crate) mod place;
pub mod reach;
pub(crate) mod result_schema;
pub mod scope;
pub mod scopes;
pub mod states;
pub(crate) mod yaml_text;
