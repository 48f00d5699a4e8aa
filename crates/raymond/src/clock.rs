//! The system's clock.

use std::time::SystemTime;

use jiff::Timestamp;

/// The time now. A clock that is set to a time that no timestamp can tell, past the year 9999, shows the nearest.
pub fn now() -> Timestamp {
    nearest(SystemTime::now())
}

fn nearest(time: SystemTime) -> Timestamp {
    let is_past = time < SystemTime::UNIX_EPOCH;
    Timestamp::try_from(time).unwrap_or(if is_past { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_past_the_year_9999_shows_the_last_time() {
        const YEARS: Duration = Duration::from_secs(10_000 * 366 * 86_400);
        assert_eq!(nearest(SystemTime::UNIX_EPOCH + YEARS), Timestamp::MAX);
        assert_eq!(nearest(SystemTime::UNIX_EPOCH), Timestamp::UNIX_EPOCH);
    }
}
