//! Instants of bars: the forms in tables, their local times, and how they are written.

use std::{
    fmt::{self, Display},
    str::FromStr,
};

use thiserror::Error;

use crate::{
    date::{DAY_MICROS, Date, clock_nanos},
    load_error::TimeProblem,
    zone::{LocalTime, Zone, offset_seconds},
};

const SECOND_MICROS: i64 = 1_000_000;

/// An instant in UTC, in microseconds since 1970, within the years 1 to 9999. Of a daily panel, the
/// midnight of its day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64);

impl Moment {
    /// 1971-01-01T00:00:00Z.
    pub(crate) const YEAR_1971: Self = Self::day_of_1970(365);

    /// Returns the midnight that is `days` after 1970-01-01, for a small number of days.
    pub(crate) const fn day_of_1970(days: i64) -> Self {
        Self(days * DAY_MICROS)
    }

    /// Returns the instant, or `None` outside the calendar.
    pub(crate) fn from_micros(micros: i64) -> Option<Self> {
        Date::from_unix_days(micros.div_euclid(DAY_MICROS)).map(|_| Self(micros))
    }

    pub(crate) fn micros(self) -> i64 {
        self.0
    }

    /// Returns midnight of a day, in UTC.
    pub(crate) fn of_day(day: Date) -> Self {
        Self(day.unix_days() * DAY_MICROS)
    }

    /// Returns the midnight before, in UTC.
    pub(crate) fn midnight(self) -> Self {
        Self(self.0 - self.0.rem_euclid(DAY_MICROS))
    }

    /// Returns the day in UTC.
    pub(crate) fn day(self) -> Date {
        Date::from_unix_days(self.0.div_euclid(DAY_MICROS)).unwrap_or_default()
    }

    /// Returns the instant that is `value` units of `unit_nanos` after 1970.
    pub(crate) fn from_epoch(value: i128, unit_nanos: i128) -> Result<Self, TimeProblem> {
        let nanos = value.checked_mul(unit_nanos).ok_or(TimeProblem::OutOfRange)?;
        if nanos.rem_euclid(1000) != 0 {
            return Err(TimeProblem::TooFine);
        }
        let micros = i64::try_from(nanos.div_euclid(1000)).ok();
        micros.and_then(Self::from_micros).ok_or(TimeProblem::OutOfRange)
    }
}

/// Writes `2024-01-02T14:30:00Z`, with six digits of a second where they are not 0.
impl Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_day = self.0.rem_euclid(DAY_MICROS);
        let (seconds, micros) = (of_day / SECOND_MICROS, of_day % SECOND_MICROS);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{}T{hours:02}:{minutes:02}:{seconds:02}", self.day())?;
        if micros != 0 {
            write!(f, ".{micros:06}")?;
        }
        f.write_str("Z")
    }
}

/// Unit of numbers that count from 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpochUnit {
    /// `s`.
    Seconds,
    /// `ms`.
    Milliseconds,
    /// `us`.
    Microseconds,
    /// `ns`.
    Nanoseconds,
}

impl EpochUnit {
    /// All units, the finest first.
    const ALL: [Self; 4] =
        [Self::Nanoseconds, Self::Microseconds, Self::Milliseconds, Self::Seconds];

    /// Returns the word of the unit.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
        }
    }

    /// Returns the unit in which the number that gives `moment` in this unit lies after 1970, if
    /// there is one.
    pub(crate) fn after_1970(self, moment: Moment) -> Option<Self> {
        let number = i128::from(moment.micros()) * 1000 / self.nanos();
        Self::ALL.into_iter().find(|unit| {
            Moment::from_epoch(number, unit.nanos()).is_ok_and(|other| other >= Moment::YEAR_1971)
        })
    }

    pub(crate) fn nanos(self) -> i128 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Milliseconds => 1_000_000,
            Self::Microseconds => 1_000,
            Self::Nanoseconds => 1,
        }
    }
}

/// A word that names no [`EpochUnit`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unit is {text:?}; give \"s\", \"ms\", \"us\" or \"ns\"")]
pub struct ParseEpochUnitError {
    /// The word.
    pub text: String,
}

impl FromStr for EpochUnit {
    type Err = ParseEpochUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "s" => Ok(Self::Seconds),
            "ms" => Ok(Self::Milliseconds),
            "us" => Ok(Self::Microseconds),
            "ns" => Ok(Self::Nanoseconds),
            _ => Err(ParseEpochUnitError { text: text.to_owned() }),
        }
    }
}

/// How the times of a table are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeRules {
    /// Zone of times that are written without one.
    pub(crate) zone: Option<Zone>,
    /// Unit of times that are numbers since 1970.
    pub(crate) unit: Option<EpochUnit>,
}

impl TimeRules {
    /// Reads a day and the time on it: its text, or a number since 1970 if there is a unit.
    pub(crate) fn day_of(&self, text: &str) -> Option<Moment> {
        if let Some(unit) = self.unit {
            return Moment::from_epoch(text.parse::<i128>().ok()?, unit.nanos()).ok();
        }
        let (day, nanos) = Date::parse_with_time(text)?;
        // A leap second is of the day that is written.
        Some(Moment(Moment::of_day(day).0 + (nanos / 1000).min(DAY_MICROS - 1)))
    }

    /// Reads an instant: an ISO timestamp, or a number since 1970 if there is a unit.
    pub(crate) fn instant_of(&self, text: &str) -> Result<Moment, TimeProblem> {
        if let Some(unit) = self.unit {
            let value = text.parse::<i128>().map_err(|_| TimeProblem::NotANumber)?;
            return Moment::from_epoch(value, unit.nanos());
        }
        let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
        let day = Date::parse(day).ok_or(TimeProblem::NotATime)?;
        let (clock, offset) = time.split_at(time.find(['Z', '+', '-']).unwrap_or(time.len()));
        let nanos = clock_nanos(clock).ok_or(TimeProblem::NotATime)?;
        if nanos % 1000 != 0 {
            return Err(TimeProblem::TooFine);
        }
        let local = Moment::of_day(day).0 + nanos / 1000;
        let ahead = match offset {
            "" => return self.local_instant(local),
            "Z" => 0,
            offset => offset_seconds(offset).ok_or(TimeProblem::NotATime)?,
        };
        if self.zone.is_some() {
            return Err(TimeProblem::HasZone);
        }
        Moment::from_micros(local - ahead * SECOND_MICROS).ok_or(TimeProblem::OutOfRange)
    }

    /// Returns the instant of a local time, given in microseconds as if it were UTC.
    pub(crate) fn local_instant(&self, local: i64) -> Result<Moment, TimeProblem> {
        let zone = self.zone.as_ref().ok_or(TimeProblem::NoZone)?;
        let (seconds, micros) = (local.div_euclid(SECOND_MICROS), local.rem_euclid(SECOND_MICROS));
        match zone.utc(seconds) {
            LocalTime::Once(utc) => {
                let utc = utc.checked_mul(SECOND_MICROS).and_then(|utc| utc.checked_add(micros));
                utc.and_then(Moment::from_micros).ok_or(TimeProblem::OutOfRange)
            }
            LocalTime::Twice => Err(TimeProblem::Ambiguous),
            LocalTime::Never => Err(TimeProblem::Skipped),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(zone: Option<&str>) -> TimeRules {
        TimeRules { zone: zone.map(|name| Zone::of(Some(name)).unwrap()), unit: None }
    }

    #[test]
    fn an_instant_is_read_with_its_offset_or_in_the_zone_that_is_given() {
        let utc = |text: &str| rules(None).instant_of(text).map(|moment| moment.to_string());
        assert_eq!(utc("2024-01-02T14:30:00Z").unwrap(), "2024-01-02T14:30:00Z");
        assert_eq!(utc("2024-01-02 09:30-05:00").unwrap(), "2024-01-02T14:30:00Z");
        assert_eq!(utc("2024-01-01 23:30:00.25+0530").unwrap(), "2024-01-01T18:00:00.250000Z");
        assert_eq!(utc("2024-01-02T23:59:60Z").unwrap(), "2024-01-03T00:00:00Z");
        for (text, problem) in [
            ("2024-01-02 09:30", TimeProblem::NoZone),
            ("2024-01-02", TimeProblem::NoZone),
            ("2024-01-02 9:30Z", TimeProblem::NotATime),
            ("2024-02-30 09:30Z", TimeProblem::NotATime),
            ("2024-01-02T09:30:00.000000001Z", TimeProblem::TooFine),
            ("0001-01-01T00:00+01:00", TimeProblem::OutOfRange),
            ("1704153600", TimeProblem::NotATime),
        ] {
            assert_eq!(utc(text), Err(problem), "{text}");
        }
        let given = rules(Some("+09:00"));
        assert_eq!(
            given.instant_of("2024-01-02 09:00").unwrap().to_string(),
            "2024-01-02T00:00:00Z"
        );
        assert_eq!(given.instant_of("2024-01-02 09:00Z"), Err(TimeProblem::HasZone));
    }

    #[test]
    fn a_local_time_that_clocks_show_twice_or_never_is_refused() {
        let Some(zone) = Zone::of(Some("America/New_York")) else { return };
        let rules = TimeRules { zone: Some(zone), unit: None };
        let read = |text: &str| rules.instant_of(text).map(|moment| moment.to_string());
        assert_eq!(read("2024-07-01 09:30").unwrap(), "2024-07-01T13:30:00Z");
        assert_eq!(read("2024-01-02 09:30").unwrap(), "2024-01-02T14:30:00Z");
        assert_eq!(read("2024-11-03 01:30"), Err(TimeProblem::Ambiguous));
        assert_eq!(read("2024-03-10 02:30"), Err(TimeProblem::Skipped));
        assert_eq!(read("2024-11-03 00:59").unwrap(), "2024-11-03T04:59:00Z");
        assert_eq!(read("2024-11-03 02:00").unwrap(), "2024-11-03T07:00:00Z");
        assert_eq!(read("2024-03-10 03:00").unwrap(), "2024-03-10T07:00:00Z");
    }

    #[test]
    fn numbers_since_1970_are_checked_and_never_wrap() {
        use EpochUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        let at = |value: i128, unit: EpochUnit| Moment::from_epoch(value, unit.nanos());
        for (value, unit) in [
            (1_704_205_800, Seconds),
            (1_704_205_800_000, Milliseconds),
            (1_704_205_800_000_000, Microseconds),
            (1_704_205_800_000_000_000, Nanoseconds),
        ] {
            assert_eq!(at(value, unit).unwrap().to_string(), "2024-01-02T14:30:00Z");
        }
        assert_eq!(at(1, Nanoseconds), Err(TimeProblem::TooFine));
        for value in [i128::MAX, i128::MIN, i64::MAX.into(), i64::MIN.into(), 253_402_300_800] {
            assert_eq!(at(value, Seconds), Err(TimeProblem::OutOfRange), "{value}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(2_000)))]

        #[test]
        fn every_instant_is_read_back_from_its_text(
            micros in -62_135_596_800_000_000..253_402_300_800_000_000_i64,
        ) {
            let moment = Moment::from_micros(micros).unwrap();
            prop_assert_eq!(rules(None).instant_of(&moment.to_string()), Ok(moment));
        }

        #[test]
        fn a_local_time_is_refused_or_has_the_clock_of_its_instant(
            seconds in -2_000_000_000..4_000_000_000_i64,
            name in prop::sample::select(vec![
                "America/New_York", "Europe/London", "Asia/Tokyo", "Australia/Lord_Howe",
                "Africa/Casablanca", "-03:30",
            ]),
        ) {
            let Some(zone) = Zone::of(Some(name)) else { return Ok(()) };
            // Each instant has a clock, which leads back to it unless clocks show it twice.
            let local = zone.local(seconds).unwrap();
            match zone.utc(local) {
                LocalTime::Once(utc) => prop_assert_eq!(utc, seconds),
                LocalTime::Twice => {}
                LocalTime::Never => prop_assert!(false, "{} has no {}", name, local),
            }
        }
    }
}
