//! Raymond's shell around the pure core: command line, engine, journal, processes, terminal.

pub mod author;
pub mod backend;
pub mod cli;
pub mod config;
pub mod driver;
pub mod engine;
mod environment;
pub mod error;
mod interpreter;
pub mod journal_store;
mod mailbox;
mod manifest;
pub mod observe;
mod output;
mod paths;
pub mod process;
pub mod scope;
mod states;
mod step;
pub mod store;
mod text;
mod view;
