//! Raymond's shell around the pure core: command line, engine, journal, processes, terminal.

pub mod backend;
pub mod cli;
pub mod config;
mod convert;
pub mod debug;
pub mod driver;
pub mod engine;
mod environment;
pub mod error;
mod interpreter;
pub mod journal_store;
mod mailbox;
mod manifest;
pub mod notify;
pub mod observe;
mod output;
mod paths;
mod place;
pub mod process;
pub mod recovery;
pub mod scope;
mod states;
mod step;
pub mod store;
mod text;
mod view;
mod yaml_text;
