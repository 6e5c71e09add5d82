//! Counts, integers and durations within limits.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Argument;
use crate::error::{ErrorClass, Failure, bad_argument};

/// Reads a count from `at_least` up to what 32 bits hold.
pub(crate) fn count(
    asked: impl Into<Argument<i128>>,
    what: &str,
    at_least: u32,
    class: ErrorClass,
) -> Result<u32, Failure> {
    count_in(asked, what, at_least..=u32::MAX, class)
}

/// Reads a count within limits.
pub(crate) fn count_in(
    asked: impl Into<Argument<i128>>,
    what: &str,
    limits: RangeInclusive<u32>,
    class: ErrorClass,
) -> Result<u32, Failure> {
    let asked = asked.into();
    if let Argument::Value(count) = asked
        && let Ok(count) = u32::try_from(count)
        && limits.contains(&count)
    {
        return Ok(count);
    }
    let (low, high) = (limits.start(), limits.end());
    // The limit of 32 bits is mentioned only where it was exceeded.
    let range = match asked {
        Argument::Value(asked) if asked > i128::from(*high) => format!("from {low} to {high}"),
        _ if *high == u32::MAX => format!("from {low} up"),
        _ => format!("from {low} to {high}"),
    };
    let wanted = format!("a whole number {range}");
    let asked = asked.get(what, &wanted)?;
    Err(Failure::new(class, format!("{what} is {asked}; give {wanted}")))
}

/// Reads an integer from 0 to 2**64 - 1.
pub(crate) fn whole(
    given: Argument<i128>,
    what: &str,
    wanted: &str,
    class: ErrorClass,
) -> Result<u64, Failure> {
    let asked = given.get(what, wanted)?;
    u64::try_from(asked)
        .map_err(|_| Failure::new(class, format!("{what} is {asked}; give {wanted}")))
}

/// Reads a duration in seconds.
pub(crate) fn seconds_of(what: &str, given: Argument<f64>) -> Result<Duration, Failure> {
    seconds_as(what, given, "seconds from 0 up")
}

/// Reads the `timeout` argument, in seconds. `None` waits without end.
pub(crate) fn timeout_of(given: Option<Argument<f64>>) -> Result<Option<Duration>, Failure> {
    let wanted = "seconds from 0 up, or None to wait without end";
    given.map(|given| seconds_as("timeout", given, wanted)).transpose()
}

/// Reads a duration in seconds; errors ask for `wanted`.
fn seconds_as(what: &str, given: Argument<f64>, wanted: &'static str) -> Result<Duration, Failure> {
    let seconds = given.get(what, wanted)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        // The limit is mentioned only where it was exceeded.
        let limit = if seconds > 0.0 { "; the limit is 2**64 seconds" } else { "" };
        bad_argument(format!("{what} is {seconds}; give {wanted}{limit}"))
    })
}
