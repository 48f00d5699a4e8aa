//! Going back: new runs from a point in the history of another one, and runs that are taken back to such a point.
//!
//! Nothing of a history is copied. The first event of the new run names the run and the event that it goes on from, and
//! the store reads the rest there ([`crate::store::RunHandle::origins`]).

pub mod branch;
pub mod clean;
pub mod conversations;
pub mod files;
pub mod point;
pub mod rewind;
pub mod tasks;

pub use branch::{Branch, branch};
pub use point::{NoPoint, Point};
pub use rewind::{Back, move_answers, rewind};
