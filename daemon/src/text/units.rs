//! Formats numbers to be read: sizes, counts, ages.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use backcast_core::plumbing::binary_size as bytes;

const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];

/// Formats a count: `9,999`, `12 k`, `1.2 M`.
pub(crate) fn count(count: u64) -> String {
    if count < 10_000 { exact(count) } else { scaled(count) }
}

/// Formats every digit, in groups of three.
pub(crate) fn exact(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats an age: `40 s`, `12 min`, `3 h`, `9 d`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats the time since `unix_ns`, nanoseconds since 1970: `40 s ago`.
pub(crate) fn since(unix_ns: u64) -> String {
    format!("{} ago", age(elapsed(unix_ns).as_secs()))
}

/// Returns the seconds since `unix_ns`, nanoseconds since 1970; 0 for a time to come.
pub(crate) fn seconds_since(unix_ns: u64) -> f64 {
    elapsed(unix_ns).as_secs_f64()
}

fn elapsed(unix_ns: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(unix_ns))
}

/// Formats a count with a decimal unit. Shows one decimal below 10 units unless it is 0, and none
/// from 10 units on.
fn scaled(count: u64) -> String {
    let mut unit = 1000;
    let mut place = 0;
    // Rounding may carry into the next unit: 999,999 is 1 M, not 1000 k.
    while place + 1 < DECIMAL.len() && rounded(count, unit) >= 1000 {
        unit *= 1000;
        place += 1;
    }
    let (whole, rest) = (count / unit, count % unit);
    // `rest < unit <= 10^18`, so ten times it fits.
    let tenths = whole * 10 + (rest * 10 + unit / 2) / unit;
    if tenths < 100 && !tenths.is_multiple_of(10) {
        format!("{}.{} {}", tenths / 10, tenths % 10, DECIMAL[place])
    } else {
        format!("{} {}", rounded(count, unit), DECIMAL[place])
    }
}

fn rounded(count: u64, unit: u64) -> u64 {
    count / unit + u64::from(count % unit >= unit.div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_while_short_and_rounded_when_long() {
        for (input, text) in [
            (0, "0"),
            (9_999, "9,999"),
            (12_345, "12 k"),
            (999_999, "1 M"),
            (1_234_567, "1.2 M"),
            (1_000_000_000, "1 G"),
        ] {
            assert_eq!(count(input), text, "{input}");
        }
        assert_eq!(exact(1_234_567), "1,234,567");
    }

    #[test]
    fn ages_use_one_unit() {
        for (input, text) in [(0, "0 s"), (119, "119 s"), (150, "2 min"), (7_200, "2 h")] {
            assert_eq!(age(input), text);
        }
    }
}
