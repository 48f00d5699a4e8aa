//! How a run is asked to stop.

/// A later variant is the stronger request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Running steps finish.
    Gently,
    /// Running steps are ended.
    Now,
}
