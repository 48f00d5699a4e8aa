//! Raymond's shell around the pure core. Each room of the tree does one thing:
//!
//! | room | what happens there |
//! |---|---|
//! | [`cli`] | the command line, one file a command |
//! | [`run`] | a run on its way: the loop, the engine, steps, recovery |
//! | [`agent`] | agent programs: how a turn is asked for and understood |
//! | [`workflow`] | where states come from: scopes, manifests, state files |
//! | [`store`] | where runs live: one seam, a form in files and one in memory |
//! | [`process`] | starting, reading and ending programs |
//! | [`view`] | what people and other programs see of a run |
//! | [`author`] | lint, diagrams, conversion, templates, schemas |

pub mod agent;
pub mod author;
pub mod cli;
pub mod config;
pub mod error;
mod paths;
pub mod process;
pub mod run;
pub mod store;
pub mod view;
pub mod workflow;
