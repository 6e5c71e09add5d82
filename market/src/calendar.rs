//! Calendars of panels: days or bars, and how many of them a year has.

use std::fmt::{self, Display};

use serde::Serialize;

use crate::moment::DAY_MICROS;

/// Trading days of a year of a market that closes on weekends.
const TRADING_DAYS: f64 = 252.0;
/// Days of a year of a market that never closes.
const ALL_DAYS: f64 = 365.0;
/// Mean length of a year in days.
const YEAR_DAYS: f64 = 365.25;

/// Labels of the rows of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Calendar {
    /// Calendar days.
    Days,
    /// Instants in UTC, of bars of any length.
    Bars,
}

impl Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Days => "days",
            Self::Bars => "bars",
        })
    }
}

/// Returns the bars of a year of a calendar, by these rules:
///
/// - A year has 365 days if more than half of the Saturdays and Sundays between the first and the
///   last day have bars. It has 252 if more than half of the other days have bars.
/// - It has as many days with bars as the calendar has on average if fewer have, such as 52 for
///   weeks.
/// - A day has as many bars as the median of the days with bars, in UTC.
pub(crate) fn bars_per_year(micros: &[i64]) -> f64 {
    let mut days: Vec<(i64, usize)> = Vec::new();
    for micros in micros {
        let day = micros.div_euclid(DAY_MICROS);
        match days.last_mut() {
            Some((last, bars)) if *last == day => *bars += 1,
            _ => days.push((day, 1)),
        }
    }
    let (Some(&(first, _)), Some(&(last, _))) = (days.first(), days.last()) else {
        return TRADING_DAYS;
    };
    let weekend_bars = days.iter().filter(|(day, _)| is_weekend(*day)).count();
    let weekday_bars = days.len() - weekend_bars;
    let weekends = weekend_days(last + 1) - weekend_days(first);
    let weekdays = last + 1 - first - weekends;
    let most = |part: usize, all: i64| 2 * part as i128 > i128::from(all);
    let days_a_year = if most(weekend_bars, weekends) {
        ALL_DAYS
    } else if most(weekday_bars, weekdays) {
        TRADING_DAYS
    } else {
        as_float(days.len() - 1) / as_float(usize::try_from(last - first).unwrap_or(1)) * YEAR_DAYS
    };
    let mut counts: Vec<usize> = days.iter().map(|(_, bars)| *bars).collect();
    let middle = counts.len() / 2;
    let (_, bars_a_day, _) = counts.select_nth_unstable(middle);
    days_a_year * as_float(*bars_a_day)
}

/// Returns the Saturdays and Sundays before a day, counted from a Monday in 1969.
fn weekend_days(day: i64) -> i64 {
    let (weeks, weekday) = ((day + 3).div_euclid(7), (day + 3).rem_euclid(7));
    2 * weeks + (weekday - 5).max(0)
}

fn is_weekend(day: i64) -> bool {
    weekend_days(day + 1) > weekend_days(day)
}

#[expect(clippy::cast_precision_loss, reason = "counts of days and bars are far below 2^53")]
fn as_float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = DAY_MICROS / 24;
    /// 2024-01-01, a Monday.
    const MONDAY: i64 = 19_723;

    fn days(of: impl Iterator<Item = i64>) -> Vec<i64> {
        of.map(|day| (MONDAY + day) * DAY_MICROS).collect()
    }

    fn intraday(days: &[i64], hours: std::ops::Range<i64>) -> Vec<i64> {
        days.iter().flat_map(|day| hours.clone().map(move |hour| day + hour * HOUR)).collect()
    }

    #[test]
    fn a_year_has_the_bars_of_its_market() {
        let weekdays = days((0..365).filter(|day| day % 7 < 5));
        let all = days(0..365);
        let close = |micros: &[i64], expected: f64| {
            let found = bars_per_year(micros);
            assert!((found - expected).abs() < 0.01 * expected, "{found} for {expected}");
        };
        let exact = |micros: &[i64], expected: f64| {
            assert_eq!(bars_per_year(micros).to_bits(), expected.to_bits());
        };
        exact(&weekdays, 252.0);
        exact(&all, 365.0);
        exact(&intraday(&weekdays, 14..21), 252.0 * 7.0);
        exact(&intraday(&all, 0..24), 365.0 * 24.0);
        close(&days((0..3650).step_by(7)), 52.18);
        close(&days((0..3650).step_by(30)), 12.18);
        // Too short to hold a weekend.
        exact(&days(0..3), 252.0);
        exact(&days(0..1), 252.0);
        // One session on a Saturday does not make the market open on weekends.
        exact(&days((0..365).filter(|day| day % 7 < 5 || *day == 5)), 252.0);
        // Sessions that begin on a Sunday evening.
        exact(&intraday(&days((0..365).filter(|day| day % 7 != 5)), 0..23), 252.0 * 23.0);
    }

    #[test]
    fn weekends_are_saturdays_and_sundays_before_1970_too() {
        for day in -10_000..10_000 {
            // 1970-01-01 was a Thursday.
            assert_eq!(is_weekend(day), matches!((day + 3).rem_euclid(7), 5 | 6), "{day}");
        }
    }
}
