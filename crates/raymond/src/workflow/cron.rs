//! Times in cron's notation: five fields for minute, hour, day of the month, month and day of the week.
//!
//! A field is `*` or a list of numbers and ranges, each with a step if wanted (`*/15`, `1-5`, `0,30`, `10-50/20`). Months and
//! days of the week may be written as three letters. As everywhere, if both kinds of days are restricted, either is enough.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::manifest::Manifest;

/// The fields, with the numbers they may have and the names for them.
const FIELDS: [Field; 5] = [
    Field { name: "minute", first: 0, last: 59, words: &[] },
    Field { name: "hour", first: 0, last: 23, words: &[] },
    Field { name: "day of the month", first: 1, last: 31, words: &[] },
    Field {
        name: "month",
        first: 1,
        last: 12,
        words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    // Sunday is 0 and also 7.
    Field {
        name: "day of the week",
        first: 0,
        last: 7,
        words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

/// How many days ahead a time is looked for. A 29th of February may be eight years away.
const DAYS_AHEAD: i32 = 366 * 9;

struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    words: &'static [&'static str],
}

/// When something is to happen, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// The numbers of each field, as bits.
    fields: [u64; 5],
    /// Whether the two kinds of days are restricted.
    by_month_day: bool,
    by_week_day: bool,
}

/// When a workflow is started by itself.
#[derive(Clone, Debug)]
pub struct Rhythm {
    pub cron: Cron,
    pub zone: TimeZone,
}

/// Why a schedule cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongSchedule {
    /// The key of the manifest.
    pub key: &'static str,
    pub message: String,
}

impl Rhythm {
    /// The schedule of a manifest, if it has one.
    pub fn read(manifest: &Manifest) -> Option<Result<Self, WrongSchedule>> {
        let wrong = |key, message| WrongSchedule { key, message };
        let zone = match manifest.schedule_timezone.as_deref() {
            None => Ok(TimeZone::UTC),
            Some(name) => TimeZone::get(name).map_err(|_| {
                let message = format!("there is no time zone `{}`", name.escape_debug());
                wrong("schedule_timezone", message)
            }),
        };
        match (manifest.schedule.as_deref().map(Cron::parse), zone) {
            (Some(Err(error)), _) => Some(Err(wrong("schedule", error))),
            (_, Err(error)) => Some(Err(error)),
            (Some(Ok(cron)), Ok(zone)) => Some(Ok(Self { cron, zone })),
            (None, Ok(_)) => None,
        }
    }
}

impl Cron {
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let parts: [&str; 5] = parts.try_into().map_err(|_| {
            "a schedule has five fields: minute, hour, day of the month, month, day of the week".to_owned()
        })?;
        let mut fields = [0; 5];
        for ((bits, field), part) in fields.iter_mut().zip(&FIELDS).zip(parts) {
            *bits = field.parse(part)?;
        }
        if fields[4] & (1 << 7) != 0 {
            fields[4] |= 1;
        }
        let cron = Self {
            fields,
            by_month_day: !parts[2].starts_with('*'),
            by_week_day: !parts[4].starts_with('*'),
        };
        match cron.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC) {
            Some(_) => Ok(cron),
            None => Err("there is no such day".to_owned()),
        }
    }

    /// The first time behind this one.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut day: Date = after.to_zoned(zone.clone()).date();
        for _ in 0..DAYS_AHEAD {
            if self.is_on(day)
                && let Some(time) = self.first_on(day, after, zone)
            {
                return Some(time);
            }
            day = day.checked_add(1.day()).ok()?;
        }
        None
    }

    fn has(&self, field: usize, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.fields[field] & (1 << number) != 0)
    }

    fn is_on(&self, day: Date) -> bool {
        let month_day = self.has(2, day.day());
        let week_day = self.has(4, day.weekday().to_sunday_zero_offset());
        let fits = match (self.by_month_day, self.by_week_day) {
            (true, true) => month_day || week_day,
            _ => month_day && week_day,
        };
        fits && self.has(3, day.month())
    }

    /// The first time of a day that is behind another time. A time that the clock leaves out in spring is moved behind
    /// the gap.
    fn first_on(&self, day: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let hours = (0..24).filter(|hour| self.has(1, *hour));
        let times = hours
            .flat_map(|hour| (0..60).filter(|minute| self.has(0, *minute)).map(move |minute| (hour, minute)));
        let instants = times.filter_map(|(hour, minute)| {
            zone.to_ambiguous_timestamp(day.at(hour, minute, 0, 0)).compatible().ok()
        });
        instants.filter(|time| *time > after).min()
    }
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |bits, part| Ok(bits | self.parse_part(part)?))
    }

    fn parse_part(&self, text: &str) -> Result<u64, String> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0))),
            None => (text, None),
        };
        let step = match step {
            Some(step) => Some(step.ok_or_else(|| self.wrong(text))?),
            None => None,
        };
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (self.first, self.last),
            (_, Some((first, last))) => (self.number(first)?, self.number(last)?),
            // `5/10` is from 5 on.
            (one, None) => {
                let number = self.number(one)?;
                (number, if step.is_some() { self.last } else { number })
            }
        };
        if first > last {
            return Err(self.wrong(text));
        }
        let step = usize::try_from(step.unwrap_or(1)).unwrap_or(1);
        Ok((first..=last).step_by(step).fold(0, |bits, number| bits | 1 << number))
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let word = self.words.iter().position(|word| text.eq_ignore_ascii_case(word));
        let word = word.and_then(|place| u32::try_from(place).ok()).map(|place| place + self.first);
        let number = word.or_else(|| text.parse().ok());
        number.filter(|number| (self.first..=self.last).contains(number)).ok_or_else(|| self.wrong(text))
    }

    fn wrong(&self, text: &str) -> String {
        format!(
            "`{}` is no {}; it is a number from {} to {}",
            text.escape_debug(),
            self.name,
            self.first,
            self.last
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(cron: &str, after: &str, zone: &str) -> String {
        let zone = if zone == "UTC" { TimeZone::UTC } else { TimeZone::get(zone).unwrap() };
        Cron::parse(cron).unwrap().next(after.parse().unwrap(), &zone).unwrap().to_string()
    }

    #[test]
    fn the_next_time_is_found() {
        let cases = [
            ("* * * * *", "2026-03-01T10:00:30Z", "2026-03-01T10:01:00Z"),
            ("*/15 * * * *", "2026-03-01T10:46:00Z", "2026-03-01T11:00:00Z"),
            ("0 3 * * *", "2026-03-01T03:00:00Z", "2026-03-02T03:00:00Z"),
            ("30 9 * * mon-fri", "2026-03-06T10:00:00Z", "2026-03-09T09:30:00Z"),
            ("0 0 29 feb *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"),
            ("0 12 * * 7", "2026-03-02T00:00:00Z", "2026-03-08T12:00:00Z"),
            ("10-50/20 1,2 * * *", "2026-03-01T01:31:00Z", "2026-03-01T01:50:00Z"),
        ];
        for (cron, after, expected) in cases {
            assert_eq!(next(cron, after, "UTC"), expected, "{cron}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "a * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "0 0 31 feb *",
        ] {
            assert!(Cron::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Cron::parse("61 * * * *").unwrap_err().contains("minute"));
    }

    #[cfg(unix)]
    #[test]
    fn clocks_that_change_neither_lose_nor_repeat_a_day() {
        if TimeZone::get("Europe/Berlin").is_err() {
            return;
        }
        // 02:30 does not exist on the 29th of March.
        assert_eq!(next("30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin"), "2026-03-29T01:30:00Z");
        assert_eq!(next("30 2 * * *", "2026-03-29T01:30:00Z", "Europe/Berlin"), "2026-03-30T00:30:00Z");
        // It is there twice on the 25th of October, and counts once.
        assert_eq!(next("30 2 * * *", "2026-10-24T12:00:00Z", "Europe/Berlin"), "2026-10-25T00:30:00Z");
        assert_eq!(next("30 2 * * *", "2026-10-25T00:30:00Z", "Europe/Berlin"), "2026-10-26T01:30:00Z");
    }
}
