//! Raymond on many machines, with Temporal as the engine.
//!
//! A run is a workflow ([`workflow`]): the same engine that decides locally, with its journal in memory ([`machine`]).
//! An attempt at a step is an activity on the machine that the agent is on ([`host`]). What machines hand to each other
//! lies in a store of blobs ([`blobs`]), long texts among it ([`texts`]). A machine that fails is watched by its [`guard`].
//! [`fleet`] is what Raymond's own command line calls; [`server`] is what can be known of a run while no worker answers.

pub mod blobs;
pub mod bundle;
pub mod client;
pub mod fleet;
pub mod forget;
pub mod guard;
pub mod host;
pub mod machine;
pub mod messages;
pub mod packed;
pub mod places;
pub mod server;
pub mod texts;
pub mod workflow;
