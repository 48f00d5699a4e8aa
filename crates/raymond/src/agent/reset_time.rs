//! When a usage limit ends, from the words in which agent programs tell it.

use jiff::civil::{Date, Time};
use jiff::{ToSpan, Zoned};

/// The current time, which words such as `at 3:00 PM` refer to. Tests have a fixed one.
pub(super) fn now() -> Zoned {
    match cfg!(test) {
        true => jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC),
        false => Zoned::now(),
    }
}

/// The time in `try again at 3:00 PM`, `try again at Nov 21st, 2026 8:33 AM` or `retry after 7200s`, in seconds since
/// 1970. A time of day without a zone is one of this machine.
pub(super) fn reset_time(message: &str, now: &Zoned) -> Option<i64> {
    if let Some(seconds) = seconds_to_wait(message) {
        return now.timestamp().as_second().checked_add(seconds);
    }
    let told = message.split("again at ").nth(1)?;
    let end = told.find("AM").or_else(|| told.find("PM"))? + 2;
    let told = told[..end].trim();
    let moment = match told.rsplit_once(", ") {
        Some(_) => dated(told, now)?,
        None => next(time(told)?, now)?,
    };
    Some(moment.timestamp().as_second())
}

/// The seconds in `again in 1.5s` or `retry after 7200s`, rounded up.
pub(super) fn seconds_to_wait(message: &str) -> Option<i64> {
    let after = ["again in ", "retry after ", "Retry after "];
    let told = after.iter().find_map(|words| message.split(words).nth(1))?;
    let end = told.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))?;
    let seconds: f64 = told[..end].parse().ok()?;
    let is_seconds = told[end..].trim_start().starts_with('s');
    // Ten years are longer than any limit that is meant.
    (is_seconds && seconds < 3e8).then(|| seconds.ceil() as i64)
}

/// `Nov 21st, 2026 8:33 AM`
fn dated(told: &str, now: &Zoned) -> Option<Zoned> {
    let (month_and_day, rest) = told.split_once(", ")?;
    let (month, day) = month_and_day.split_once(' ')?;
    let (year, time_of_day) = rest.split_once(' ')?;
    let day = day.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let date = Date::strptime("%b %d %Y", format!("{month} {day} {year}")).ok()?;
    date.to_datetime(time(time_of_day)?).to_zoned(now.time_zone().clone()).ok()
}

/// `8:33 AM`
fn time(told: &str) -> Option<Time> {
    Time::strptime("%I:%M %p", told).ok()
}

/// The next moment with this time of day.
fn next(time: Time, now: &Zoned) -> Option<Zoned> {
    let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone()).ok()?;
    if today > *now { Some(today) } else { today.checked_add(1.day()).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_told() {
        let now: jiff::Timestamp = "2026-11-15T13:00:00Z".parse().unwrap();
        let now = now.to_zoned(jiff::tz::TimeZone::UTC);
        let at = |time: &str| Some(time.parse::<jiff::Timestamp>().unwrap().as_second());
        for (message, expected) in [
            ("try again at 3:00 PM.", at("2026-11-15T15:00:00Z")),
            ("try again at 3:00 AM.", at("2026-11-16T03:00:00Z")),
            ("or try again at Nov 21st, 2026 8:33 AM.", at("2026-11-21T08:33:00Z")),
            ("Suggested retry after 7200s.", at("2026-11-15T15:00:00Z")),
            ("try again at noon", None),
            ("try again at Nov 99th, 2026 8:33 AM.", None),
            ("later", None),
        ] {
            assert_eq!(reset_time(message, &now), expected, "{message}");
        }
        assert_eq!(seconds_to_wait("Please try again in 1.5s."), Some(2));
        assert_eq!(seconds_to_wait("try again in 3 days"), None);
    }
}
