//! What the tests of the whole program share: a private working folder with the program in it, the stand-in for Claude Code,
//! and the case folders.
//!
//! Only tests use it, and only on Unix. It does not depend on `raymond`: it starts the program and reads what that writes.

#![warn(missing_docs)]
#![expect(clippy::unwrap_used, reason = "it is part of tests: what cannot go on fails on the spot")]

pub mod case;
pub mod diff;
pub mod fake;
pub mod needs;
pub mod programs;
pub mod redact;
pub mod rig;
