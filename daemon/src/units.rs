//! Numbers as people read them: binary sizes, decimal counts, ages.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const BINARY: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];

/// `512 B`, `256 MiB`, `1.5 GiB`: three figures at most after the first unit.
pub(crate) fn bytes(count: u64) -> String {
    if count < 1024 { format!("{count} B") } else { scaled(count, 1024, &BINARY) }
}

/// `9,999`, `12 k`, `1.2 M`: exact while it is short.
pub(crate) fn count(count: u64) -> String {
    if count < 10_000 { exact(count) } else { scaled(count, 1000, &DECIMAL) }
}

/// Every digit, in groups of three.
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

/// `40 s`, `12 min`, `3 h`, `9 d`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `40 s ago`: since a moment of the wall clock, nanoseconds since 1970.
pub(crate) fn since(unix_ns: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} ago", age(now.saturating_sub(Duration::from_nanos(unix_ns)).as_secs()))
}

/// One digit after the point below 10 units, none above; a whole number shows none.
fn scaled(count: u64, step: u64, units: &[&str]) -> String {
    let mut unit = step;
    let mut place = 0;
    // Rounding may carry into the next unit: 1,048,575 bytes are 1 MiB, not 1024 KiB.
    while place + 1 < units.len() && rounded(count, unit) >= step {
        unit *= step;
        place += 1;
    }
    let tenths = tenths(count, unit);
    if tenths < 100 && !tenths.is_multiple_of(10) {
        format!("{}.{} {}", tenths / 10, tenths % 10, units[place])
    } else {
        format!("{} {}", rounded(count, unit), units[place])
    }
}

fn rounded(count: u64, unit: u64) -> u64 {
    count / unit + u64::from(count % unit >= unit.div_ceil(2))
}

fn tenths(count: u64, unit: u64) -> u64 {
    let (whole, rest) = (count / unit, count % unit);
    // `rest < unit <= 2^60`, so ten times it fits.
    whole * 10 + (rest * 10 + unit / 2) / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_like_a_label_on_memory() {
        for (input, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (10_189, "10 KiB"),
            (1_048_575, "1 MiB"),
            (256 << 20, "256 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(input), text, "{input}");
        }
    }

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
