//! Budgets of storms, models and property tests, bounds of waits, and reports of skipped tests.

mod waits;

use std::env::{self, VarError};
use std::fs::OpenOptions;
use std::io::{Write, stderr};

pub use waits::{
    BoundedChild, BoundedCommand, Deadline, Lines, Stop, WATCHDOG, sleeps_beyond_watchdog, until,
};

/// Returns `full` divided by the variable `BACKCAST_BUDGET`, and at least 1.
///
/// `full` counts kills, cases, schedules or windows. Without the variable it is returned as it is.
///
/// # Panics
///
/// If the variable is set to anything but a positive whole number.
#[must_use]
pub fn budget(full: u64) -> u64 {
    divided(full, env::var("BACKCAST_BUDGET"))
}

/// Returns the number in the variable `name`, or else the [`budget`] of `full`.
///
/// A number that is asked for by name is not divided.
///
/// # Panics
///
/// If the variable is set to anything but a whole number.
#[must_use]
pub fn budget_or(name: &str, full: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a whole number: {text}")),
        Err(_) => budget(full),
    }
}

/// Returns [`budget`] of a number of property-test cases.
///
/// # Panics
///
/// As [`budget`] does.
#[must_use]
pub fn cases(full: u32) -> u32 {
    u32::try_from(budget(full.into())).unwrap_or(u32::MAX)
}

/// Reports that a test cannot run here, and why.
///
/// Writes to the standard error stream, which the test harness does not capture, and appends a line
/// to the file that `BACKCAST_SKIPS` names, so that `make test` can count.
///
/// # Panics
///
/// If `BACKCAST_NO_SKIPS` is set.
#[track_caller]
pub fn skipped(test: &str, why: &str) {
    assert!(env::var_os("BACKCAST_NO_SKIPS").is_none(), "{test} was skipped: {why}");
    let line = format!("skipped: {test}: {}\n", why.trim().replace('\n', " "));
    let _ = stderr().write_all(line.as_bytes());
    if let Some(path) = env::var_os("BACKCAST_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

fn divided(full: u64, divisor: Result<String, VarError>) -> u64 {
    let Ok(text) = divisor else { return full };
    match text.parse() {
        Ok(divisor @ 1..) => (full / divisor).max(1),
        _ => panic!("BACKCAST_BUDGET is not a positive whole number: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_divided_and_never_empty() {
        let of = |full, text: &str| divided(full, Ok(text.to_owned()));
        assert_eq!(divided(300, Err(VarError::NotPresent)), 300);
        assert_eq!(of(300, "10"), 30);
        assert_eq!(of(3, "10"), 1);
    }

    #[test]
    #[should_panic(expected = "BACKCAST_BUDGET is not a positive whole number: 0")]
    fn a_divisor_of_zero_is_refused() {
        let _ = divided(300, Ok("0".to_owned()));
    }
}
