//! Calendars of panels: days or bars, and how many of them a year has.

use std::fmt::{self, Display};

use serde::Serialize;

use crate::date::DAY_MICROS;

/// Bars of a year for each five of a typical week of a market that closes every week: 252 days.
const TRADING_YEAR: (f64, f64) = (252.0, 5.0);
/// Bars of a year for each seven of a typical week of a market that never closes: 365 days.
const WHOLE_YEAR: (f64, f64) = (365.0, 7.0);
/// Mean length of a year in days.
const YEAR_DAYS: f64 = 365.25;
const WEEK_MICROS: i64 = 7 * DAY_MICROS;
/// Steps beyond this length, in days with room for a change of clocks, close a market for a time.
const CLOSED_MICROS: i64 = DAY_MICROS + DAY_MICROS / 2;
/// Bars of a year that have a name: years, quarters, months and weeks.
const NAMED: [f64; 4] = [1.0, 4.0, 12.0, 52.0];

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

/// Bars of a year, and whether the calendar tells them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct YearOfBars {
    pub(crate) bars: f64,
    /// False if the calendar is too short or too irregular to tell.
    pub(crate) is_certain: bool,
}

/// Returns the bars of a year of a calendar. No zone is needed, since a week from any instant to
/// the same instant of the next week holds every session once:
///
/// - Most steps are longer than a day and a half: 52, 12, 4 or 1 if the median step is within 5% of
///   that part of a year, else the mean over the calendar.
/// - Otherwise the median of the bars of its whole weeks, counted from the first bar, times 252/5
///   if the market closes for more than a day and a half once in most weeks, else times 365/7.
/// - With less than a whole week, the median of the bars of 24 hours, times 252.
///
/// Where most weeks have no bar, the mean over the calendar.
///
/// Uncertain are bars of less than two weeks, unless a week of them has no hole, and calendars of
/// which less than half of the weeks, or of the long steps, are within a quarter of the median.
/// Days of less than two weeks count as trading days, 252, unless a week of them has no hole.
pub(crate) fn year_of(calendar: Calendar, micros: &[i64]) -> YearOfBars {
    let is_days = calendar == Calendar::Days;
    let steps: Vec<i64> = micros.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let step = if is_days && steps.is_empty() { DAY_MICROS } else { median(&steps) };
    let (Some(first), Some(last)) = (micros.first(), micros.last()) else {
        return YearOfBars { bars: TRADING_YEAR.0, is_certain: is_days };
    };
    let span = last - first;
    let times = |bars: i64, (year, week): (f64, f64)| as_float(bars) * year / week;
    let year_micros = YEAR_DAYS * as_float(DAY_MICROS);
    let mean = || year_micros * count(steps.len()) / as_float(span);
    // A last bar is as long as most.
    let whole_weeks = (span + step) / WEEK_MICROS;
    let is_short = whole_weeks < 2;
    if step > CLOSED_MICROS && !(is_days && is_short) {
        let part = year_micros / as_float(step);
        let named = NAMED.into_iter().find(|named| (part / named - 1.0).abs() < 0.05);
        let is_certain = !is_short && most_alike(&steps, step);
        return YearOfBars { bars: named.unwrap_or_else(mean), is_certain };
    }
    let has_hole = step > CLOSED_MICROS || steps.iter().any(|&other| other > step);
    if whole_weeks > 0 && !(is_days && is_short && has_hole) {
        let weeks = counts(micros, WEEK_MICROS, whole_weeks);
        let bars = median(&weeks);
        if bars == 0 {
            return YearOfBars { bars: mean(), is_certain: false };
        }
        let closings = steps.iter().filter(|&&other| other > CLOSED_MICROS).count();
        let closes = 2.0 * count(closings) >= as_float(whole_weeks);
        let year = if closes { TRADING_YEAR } else { WHOLE_YEAR };
        let is_certain = if is_short { !has_hole } else { most_alike(&weeks, bars) };
        return YearOfBars { bars: times(bars, year), is_certain };
    }
    if is_days {
        return YearOfBars { bars: TRADING_YEAR.0, is_certain: true };
    }
    let days = counts(micros, DAY_MICROS, span / DAY_MICROS + 1);
    let open: Vec<i64> = days.into_iter().filter(|&bars| bars > 0).collect();
    YearOfBars { bars: as_float(median(&open)) * TRADING_YEAR.0, is_certain: false }
}

/// Returns how many bars each of `parts` equal parts of a calendar has, from its first bar on.
fn counts(micros: &[i64], part: i64, parts: i64) -> Vec<i64> {
    let mut counts = vec![0; usize::try_from(parts).unwrap_or_default()];
    for at in micros {
        let part = usize::try_from((at - micros[0]) / part).ok();
        if let Some(count) = part.and_then(|part| counts.get_mut(part)) {
            *count += 1;
        }
    }
    counts
}

/// Returns the middle of some numbers, the larger of two; 0 of none.
fn median(numbers: &[i64]) -> i64 {
    let mut numbers = numbers.to_vec();
    let middle = numbers.len() / 2;
    if numbers.is_empty() { 0 } else { *numbers.select_nth_unstable(middle).1 }
}

/// Returns whether at least half of some numbers are within a quarter of their median.
fn most_alike(numbers: &[i64], median: i64) -> bool {
    let alike = numbers.iter().filter(|&&number| (number - median).abs() <= median / 4).count();
    2 * alike >= numbers.len()
}

#[expect(clippy::cast_precision_loss, reason = "spans are rounded to 2^-53 of them")]
fn as_float(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of steps are far below 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::{LocalTime, Zone};

    const HOUR: i64 = DAY_MICROS / 24;
    const MINUTE: i64 = HOUR / 60;
    /// 2024-01-01, a Monday.
    const MONDAY: i64 = 19_723;

    fn days(of: impl IntoIterator<Item = i64>) -> Vec<i64> {
        of.into_iter().map(|day| (MONDAY + day) * DAY_MICROS).collect()
    }

    fn weekdays(count: i64) -> Vec<i64> {
        days((0..count).filter(|day| day % 7 < 5))
    }

    /// Bars every `step` within `open` and `close`, in minutes of each day, without a zone.
    fn sessions(days: &[i64], open: i64, close: i64, step: usize) -> Vec<i64> {
        let minutes = move |day: i64| (open..close).step_by(step).map(move |at| day + at * MINUTE);
        days.iter().copied().flat_map(minutes).collect()
    }

    /// The instants of local times; `None` without a time zone database.
    fn in_zone(name: &str, local: &[i64]) -> Option<Vec<i64>> {
        let zone = Zone::of(Some(name))?;
        let utc = |at: &i64| match zone.utc(at / 1_000_000) {
            LocalTime::Once(utc) => Some(utc * 1_000_000),
            _ => None,
        };
        Some(local.iter().filter_map(utc).collect())
    }

    /// Hours of 24 from Sunday 22:00 to Friday 22:00.
    fn currencies(count: i64) -> Vec<i64> {
        let hours = (0..24 * count).filter(|hour| match hour / 24 % 7 {
            4 => hour % 24 < 22,
            5 => false,
            6 => hour % 24 >= 22,
            _ => true,
        });
        hours.map(|hour| MONDAY * DAY_MICROS + hour * HOUR).collect()
    }

    #[track_caller]
    fn check(calendar: Calendar, micros: &[i64], bars: f64, is_certain: bool) {
        let found = year_of(calendar, micros);
        assert!((found.bars - bars).abs() < 1e-9 * bars, "{found:?}, not {bars}");
        assert_eq!(found.is_certain, is_certain, "{found:?}");
    }

    #[test]
    fn a_year_of_days_has_the_days_of_its_market() {
        let check = |days: &[i64], year| check(Calendar::Days, days, year, true);
        for count in [13, 30, 90, 365, 3650] {
            check(&weekdays(count), 252.0);
            check(&days(0..count), 365.0);
            // Days of Tel Aviv, from Sunday to Thursday.
            check(&days((0..count).filter(|day| !matches!(day % 7, 4 | 5))), 252.0);
        }
        // Holidays, a session on one Saturday, a day without trades of a market that never closes.
        check(&days((0..365).filter(|day| day % 7 < 5 && day % 31 != 1)), 252.0);
        check(&days((0..365).filter(|day| day % 7 < 5 || *day == 5)), 252.0);
        check(&days((0..365).filter(|day| *day != 40)), 365.0);
        // Weeks, whatever day labels them; months; quarters; years.
        for label in 0..7 {
            for count in [60, 365, 3650] {
                check(&days((label..count).step_by(7)), 52.0);
            }
        }
        let months = |every: usize| {
            let ends = (0..120).step_by(every).map(|month| i64::from(month) * 487 / 16);
            days(ends)
        };
        check(&months(1), 12.0);
        check(&months(3), 4.0);
        check(&months(12), 1.0);
        check(&days((0..366).step_by(3)), 365.25 / 3.0);
        // Too short to tell, which a panel of days counts as trading days.
        for short in [days(0..1), days(0..3), days([0, 3]), weekdays(5)] {
            check(&short, 252.0);
        }
    }

    #[test]
    fn a_year_of_bars_has_the_bars_of_its_market_in_any_zone() {
        let certain = |bars: &[i64], year| check(Calendar::Bars, bars, year, true);
        for count in [15, 31, 90, 365] {
            for (step, bars) in [(1, 1440.0), (5, 288.0), (60, 24.0), (240, 6.0), (1440, 1.0)] {
                certain(&sessions(&days(0..count), 0, 1440, step), 365.0 * bars);
            }
        }
        // A week without a hole tells.
        certain(&sessions(&days(0..8), 0, 1440, 60), 365.0 * 24.0);
        for count in [28, 90, 365] {
            certain(&currencies(count), 252.0 * 24.0);
            // Futures close for an hour a day, and from Friday to Sunday.
            let futures = currencies(count).into_iter().filter(|at| at / HOUR % 24 != 22);
            certain(&futures.collect::<Vec<_>>(), 252.0 * 23.0);
        }
        for (zone, open, close) in [
            ("America/New_York", 570, 960),
            // With the hours before and after the session, which end on the next day in UTC.
            ("America/New_York", 240, 1200),
            ("America/Chicago", 510, 900),
            ("Europe/London", 480, 990),
            ("Asia/Tokyo", 540, 900),
            // Sessions that begin on the day before in UTC.
            ("Australia/Sydney", 600, 960),
            ("Pacific/Auckland", 600, 1005),
        ] {
            for begin in [0, 60, 150, 270] {
                for step in [1, 5, 15] {
                    let local = sessions(&weekdays(begin + 200), open, close, step);
                    let from = (MONDAY + begin) * DAY_MICROS;
                    let local: Vec<i64> = local.into_iter().filter(|at| *at >= from).collect();
                    let Some(bars) = in_zone(zone, &local) else { return };
                    let a_day = (open..close).step_by(step).count();
                    certain(&bars, 252.0 * count(a_day));
                }
            }
        }
        // Weeks as instants.
        certain(&days((6..700).step_by(7)), 52.0);
    }

    #[test]
    fn a_calendar_that_cannot_tell_is_uncertain() {
        let uncertain = |bars: &[i64], year| check(Calendar::Bars, bars, year, false);
        uncertain(&sessions(&days(0..1), 570, 960, 1), 252.0 * 390.0);
        uncertain(&sessions(&days(0..3), 0, 1440, 60), 252.0 * 24.0);
        uncertain(&sessions(&weekdays(12), 570, 960, 1), 252.0 * 390.0);
        uncertain(&currencies(8), 252.0 * 24.0);
        // Bars that become twice as frequent from week to week.
        let faster = (0..8).flat_map(|week| {
            let step = WEEK_MICROS >> (week + 4);
            (0..1 << (week + 4))
                .map(move |bar| MONDAY * DAY_MICROS + week * WEEK_MICROS + bar * step)
        });
        assert!(!year_of(Calendar::Bars, &faster.collect::<Vec<_>>()).is_certain);
        for few in [&[][..], &[0], &[0, 1]] {
            let found = year_of(Calendar::Bars, few);
            assert!(!found.is_certain && found.bars.is_finite() && found.bars > 0.0, "{found:?}");
        }
    }
}
