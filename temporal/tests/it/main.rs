//! Runs on a real server of the engine, with workers that are killed and networks that are cut.
//!
//! The server is the program `temporal` (`scripts/install-temporal.sh`). Without it these tests say that they were skipped.
//! So do the one that needs an S3 server, without that (`scripts/install-s3.sh`), and the one that needs network namespaces,
//! where these cannot be made.

mod away;
mod cases;
mod debug;
mod harness;
mod losses;
mod many;
mod network;
mod outages;
mod parts;
mod replay;
mod runs;
mod s3;
mod secure;
mod texts;
mod tidying;
mod unheard;
mod versions;
mod worktrees;
