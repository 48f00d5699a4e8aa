//! How long nothing was heard.

use std::time::{Duration, Instant};

use super::TELL_EVERY;

/// The guard looks at the clock more often than that. If it did not, it could not have heard anything either: it was frozen, or
/// the machine was, and most likely the worker with it.
const LONGEST_LOOK: Duration = TELL_EVERY.saturating_mul(2);

/// The time in which something could have been heard, and was not.
#[derive(Debug)]
pub struct Silence {
    so_far: Duration,
    looked: Instant,
}

impl Silence {
    pub fn new(now: Instant) -> Self {
        Self { so_far: Duration::ZERO, looked: now }
    }

    /// Something was heard.
    pub fn ends(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// How long it is by now.
    pub fn goes_on(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.looked);
        self.so_far += since.min(LONGEST_LOOK);
        self.looked = now;
        self.so_far
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_in_which_the_guard_listened_counts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut silence = Silence::new(start);
        assert_eq!(silence.goes_on(at(5)).as_secs(), 5);
        assert_eq!(silence.goes_on(at(10)).as_secs(), 10);
        // Then the machine sleeps for an hour.
        assert_eq!(silence.goes_on(at(3610)).as_secs(), 10 + LONGEST_LOOK.as_secs());
        silence.ends(at(3611));
        assert_eq!(silence.goes_on(at(3612)).as_secs(), 1);
    }
}
