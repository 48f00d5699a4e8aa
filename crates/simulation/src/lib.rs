//! The real engine, store and recovery on a simulated host.
//!
//! The tests run it with fixed seeds, the program `simulate` with new ones. See `crates/raymond/tests/README.md`.

pub mod account;
pub mod back;
pub mod cases;
pub mod check;
pub mod compare;
pub mod course;
pub mod disk;
pub mod explore;
pub mod fault;
pub mod files;
pub mod generate;
pub mod going_back;
pub mod home;
pub mod host;
pub mod library;
pub mod life;
pub mod monitor;
pub mod people;
pub mod process;
pub mod program;
pub mod programs;
pub mod recording;
pub mod rehearsal;
pub mod replayed;
pub mod rng;
pub mod view;
