//! Calendar days: the forms in files, and the strict form in a panel.

use std::fmt::{self, Display};

use crate::zone::offset_seconds;

pub(crate) const DAY_MICROS: i64 = 86_400_000_000;

/// A calendar day (proleptic Gregorian, years 1 to 9999) as the number `YYYYMMDD`.
///
/// Numbers sort like their days, and like the texts that [`Display`] makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Date(u32);

impl Date {
    /// Returns the day of a number `YYYYMMDD`; `None` if the calendar has no such day.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        let (year, month, day) = (number / 10_000, number / 100 % 100, number % 100);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            _ => return None,
        };
        ((1..=9999).contains(&year) && (1..=last).contains(&day)).then_some(Self(number))
    }

    /// Returns the day `days` after 1970-01-01; `None` outside the years 1 to 9999.
    pub(crate) fn from_unix_days(days: i64) -> Option<Self> {
        // Counts days from 0000-03-01, so that a leap day ends its year. 400 years have 146,097
        // days.
        let days = days.checked_add(719_468)?;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march_based = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_based + 2) / 5 + 1;
        let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
        let year = year + era.checked_mul(400)? + i64::from(month <= 2);
        let number = year.checked_mul(10_000)?.checked_add(month * 100 + day)?;
        Self::from_number(u32::try_from(number).ok()?)
    }

    /// Returns the days since 1970-01-01. The inverse of [`from_unix_days`](Self::from_unix_days).
    pub(crate) fn unix_days(self) -> i64 {
        let (year, month) = (i64::from(self.0 / 10_000), i64::from(self.0 / 100 % 100));
        let year = year - i64::from(month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(self.0 % 100) - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// Parses a day: `YYYY-MM-DD`, `YYYYMMDD`, or an ISO timestamp that begins with `YYYY-MM-DD`.
    ///
    /// The time of a timestamp and its offset from UTC are dropped; the written day counts.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(Self::parse_with_time(text)?.0)
    }

    /// Parses a day like [`parse`](Self::parse). Returns the nanoseconds since its midnight too.
    pub(crate) fn parse_with_time(text: &str) -> Option<(Self, i64)> {
        match text.split_once(['T', ' ']) {
            Some((day, time)) => Some((iso(day)?, time_nanos(time)?)),
            None => Some((iso(text).or_else(|| compact(text))?, 0)),
        }
    }
}

impl Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0 / 10_000, self.0 / 100 % 100, self.0 % 100)
    }
}

/// Returns whether `text` is exactly `YYYY-MM-DD` and a calendar day.
pub(crate) fn is_calendar_date(text: &str) -> bool {
    iso(text).is_some()
}

fn iso(text: &str) -> Option<Date> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text.as_bytes() else {
        return None;
    };
    Date::from_number(digits(&[y0, y1, y2, y3, m0, m1, d0, d1])?)
}

fn compact(text: &str) -> Option<Date> {
    (text.len() == 8).then(|| digits(text.as_bytes())).flatten().and_then(Date::from_number)
}

/// Parses one to nine ASCII digits, which always fit into 32 bits.
fn digits(text: &[u8]) -> Option<u32> {
    let known = (1..=9).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    known.then(|| text.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// Parses a clock, then nothing, `Z` or an offset `±HH[[:]MM]`. Returns the nanoseconds since
/// midnight on that clock.
fn time_nanos(text: &str) -> Option<i64> {
    let (clock, offset) = text.split_at(text.find(['Z', '+', '-']).unwrap_or(text.len()));
    let is_known = matches!(offset, "" | "Z") || offset_seconds(offset).is_some();
    clock_nanos(clock).filter(|_| is_known)
}

/// Parses `HH:MM[:SS[.fraction]]` and returns the nanoseconds since midnight. The fraction has up
/// to nine digits; a leap second is the next minute.
pub(crate) fn clock_nanos(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(a, b)| (a, Some(b)));
    let (hours, minutes, seconds) = match *clock.as_bytes() {
        [h0, h1, b':', m0, m1] if fraction.is_none() => ([h0, h1], [m0, m1], [b'0'; 2]),
        [h0, h1, b':', m0, m1, b':', s0, s1] => ([h0, h1], [m0, m1], [s0, s1]),
        _ => return None,
    };
    let part = |text: [u8; 2], limit| digits(&text).filter(|number| *number < limit);
    let seconds = (part(hours, 24)? * 60 + part(minutes, 60)?) * 60 + part(seconds, 61)?;
    let nanos = match fraction {
        // `digits` takes up to nine of them.
        Some(fraction) => {
            let shift = 9_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?;
            digits(fraction.as_bytes())? * 10_u32.pow(shift)
        }
        None => 0,
    };
    Some(i64::from(seconds) * 1_000_000_000 + i64::from(nanos))
}

#[cfg(test)]
mod tests {
    use super::{Date, is_calendar_date};

    #[test]
    fn only_days_that_exist_in_iso_form_are_kept() {
        for good in ["2024-02-29", "2000-02-29", "2023-12-31", "0001-01-01", "9999-11-30"] {
            assert!(is_calendar_date(good), "{good}");
            assert_eq!(Date::parse(good).map(|date| date.to_string()).as_deref(), Some(good));
        }
        for bad in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-04-31",
            "2024-01-00",
            "2024-1-02",
            "2024/01/02",
            "2024-01-02 ",
            "0000-01-01",
            "",
            "٢٠٢٤-٠١-٠٢",
            "+024-01-02",
            "2024-01-0a",
        ] {
            assert!(!is_calendar_date(bad), "{bad:?}");
            assert_eq!(Date::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_day_of_a_timestamp_is_the_one_written() {
        for text in [
            "20240102",
            "2024-01-02T00:00",
            "2024-01-02 00:00:00",
            "2024-01-02 16:00:00.123456789",
            "2024-01-02T23:59:60Z",
            "2024-01-02 00:00:00-05:00",
            "2024-01-02T00:00:00+0900",
            "2024-01-02T00:00+14",
        ] {
            assert_eq!(Date::parse(text), Date::from_number(20_240_102), "{text}");
        }
        for text in [
            "202401021",
            "2024010",
            "20240132",
            "20240102 00:00",
            "2024-01-02T",
            "2024-01-02T24:00",
            "2024-01-02 00:60",
            "2024-01-02 00:00:00.",
            "2024-01-02 00:00.5",
            "2024-01-02 00:00+1",
            "2024-01-02 00:00Z05",
            "2024-01-02 00:00+25:00",
            "2024-01-02 0:00",
            "2024-01-02T00:00 UTC",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn days_since_1970_agree_with_a_calendar_that_counts() {
        let mut counted = Date::from_number(10_101);
        for days in -719_162..=2_932_896 {
            assert_eq!(Date::from_unix_days(days), counted, "{days}");
            assert_eq!(counted.map(Date::unix_days), Some(days));
            let Date(number) = counted.unwrap();
            let candidates =
                [number + 1, number / 100 * 100 + 101, number / 10_000 * 10_000 + 10_101];
            counted = candidates.into_iter().find_map(Date::from_number);
        }
        assert_eq!(counted, None);
        assert_eq!(Date::from_unix_days(0), Date::parse("1970-01-01"));
        for days in [-719_163, 2_932_897, i64::MIN, i64::MAX] {
            assert_eq!(Date::from_unix_days(days), None, "{days}");
        }
    }
}
