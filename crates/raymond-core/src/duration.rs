//! Durations as people write them: `250ms`, `90s`, `5m`, `2h`, `1d`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

use crate::limits::MAX_DURATION;
use crate::workflow::wording::quoted;

/// The units, each with its length in milliseconds; `ms` comes before `s`, because `ms` also ends with `s`.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", SECOND), ("m", 60 * SECOND), ("h", 3_600 * SECOND), ("d", 86_400 * SECOND)];

const SECOND: u64 = 1_000;

/// A limit that a state sets itself; it may also switch off the default limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    Unlimited,
    After(Duration),
}

impl Limit {
    /// Parses a duration; `0` means no limit.
    pub fn parse(text: &str) -> Result<Limit, DurationError> {
        parse(text).map(Limit::from)
    }

    pub const fn duration(self) -> Option<Duration> {
        match self {
            Limit::Unlimited => None,
            Limit::After(duration) => Some(duration),
        }
    }
}

impl From<Duration> for Limit {
    fn from(duration: Duration) -> Limit {
        if duration.is_zero() { Limit::Unlimited } else { Limit::After(duration) }
    }
}

/// Parses a whole number and its unit, without spaces; only `0` needs no unit.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let fail = |problem| DurationError { text: quoted(text), problem };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (digits, milliseconds) = UNITS
        .into_iter()
        .find_map(|(unit, milliseconds)| Some((text.strip_suffix(unit)?, milliseconds)))
        .ok_or_else(|| fail(if is_number(text) { Problem::OnlyNumber } else { Problem::NoUnit }))?;
    if !is_number(digits) {
        return Err(fail(Problem::NoWholeNumber));
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(milliseconds))
        .map(Duration::from_millis)
        .filter(|duration| *duration <= MAX_DURATION)
        .ok_or_else(|| fail(Problem::TooLong))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Writes the two largest units that are not zero, for people to read.
pub fn format(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let seconds = duration.as_secs();
    if milliseconds < 1_000 {
        return format!("{milliseconds}ms");
    }
    let tenths = duration.subsec_millis() / 100;
    match seconds {
        0..10 if tenths > 0 => format!("{seconds}.{tenths}s"),
        0..60 => format!("{seconds}s"),
        60..3_600 => two_units(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two_units(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two_units(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two_units(major: u64, major_unit: &str, minor: u64, minor_unit: &str) -> String {
    if minor == 0 {
        format!("{major}{major_unit}")
    } else {
        format!("{major}{major_unit} {minor}{minor_unit}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    text: String,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    NoUnit,
    OnlyNumber,
    NoWholeNumber,
    TooLong,
}

impl std::error::Error for DurationError {}

impl fmt::Display for DurationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match self.problem {
            Problem::TooLong => {
                write!(formatter, "{text} is longer than the {} allowed", format(MAX_DURATION))
            }
            Problem::OnlyNumber => {
                let number = text.trim_matches('`');
                write!(formatter, "{text} has no unit; write `{number}s` for {number} seconds")
            }
            Problem::NoUnit | Problem::NoWholeNumber => write!(
                formatter,
                "{text} is not a duration; write a whole number and one of the units `ms`, `s`, `m`, `h` or `d`, as in \
                 `30s`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("250ms", 250),
            ("90s", 90_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0", 0),
            ("0s", 0),
            ("007s", 7_000),
            ("3650d", 315_360_000_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let cases = [
            "",
            "5",
            "s",
            "ms",
            "1.5s",
            "-1s",
            "+1s",
            " 1s",
            "1s ",
            "1 s",
            "1S",
            "1w",
            "1m30s",
            "3651d",
            "１s",
            "00",
            "99999999999999999999999999s",
            "18446744073709551615d",
        ];
        for text in cases {
            let message = parse(text).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("`{text}` is "))
                    || message.starts_with(&format!("`{text}` has no unit")),
                "{message}"
            );
        }
        assert_eq!(parse("5").unwrap_err().to_string(), "`5` has no unit; write `5s` for 5 seconds");
        assert_eq!(
            parse("1w").unwrap_err().to_string(),
            "`1w` is not a duration; write a whole number and one of the units `ms`, `s`, `m`, `h` or `d`, as in `30s`"
        );
        assert_eq!(parse("4000d").unwrap_err().to_string(), "`4000d` is longer than the 3650d allowed");
    }

    #[test]
    fn durations_are_shown_short() {
        let cases = [
            (0, "0ms"),
            (250, "250ms"),
            (1_000, "1s"),
            (1_560, "1.5s"),
            (42_900, "42s"),
            (60_000, "1m"),
            (330_000, "5m 30s"),
            (7_500_000, "2h 5m"),
            (7_200_000, "2h"),
            (93_600_000, "1d 2h"),
        ];
        for (milliseconds, text) in cases {
            assert_eq!(format(Duration::from_millis(milliseconds)), text);
        }
        assert!(format(Duration::MAX).ends_with('h'));
    }

    #[test]
    fn zero_is_no_limit() {
        assert_eq!(Limit::parse("0"), Ok(Limit::Unlimited));
        assert_eq!(Limit::parse("1s").unwrap().duration(), Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).*|[0-9]{0,30}(ms|s|m|h|d)") {
            if let Ok(duration) = parse(&text) {
                prop_assert!(duration <= MAX_DURATION);
                format(duration);
            }
        }
    }
}
