//! Parses times and sizes of settings: `500ms`, `2s`, `10min`, `12h`, `7d`; `8GiB`.

use std::str::FromStr;
use std::time::Duration;

use backcast_core::Capacity;
use thiserror::Error;

/// Units and their seconds. A unit comes before its own suffixes, as `ms` before `s`.
const UNITS: [(&str, f64); 5] =
    [("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("h", 3600.0), ("d", 86400.0)];
/// Minimum time.
const SHORTEST: Duration = Duration::from_millis(10);
/// Maximum time: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86400);

/// A time. A number without a unit is in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

/// Error of a text that is not a time.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is not a time; use 500ms, 2s, 10min, 12h or 7d, from 10ms to 3650d")]
pub struct BadTimeSpan(pub String);

impl FromStr for TimeSpan {
    type Err = BadTimeSpan;

    fn from_str(text: &str) -> Result<Self, BadTimeSpan> {
        let trimmed = text.trim();
        let (number, scale) = UNITS
            .iter()
            .find_map(|(unit, scale)| Some((trimmed.strip_suffix(unit)?, *scale)))
            .unwrap_or((trimmed, 1.0));
        let seconds = number.trim().parse::<f64>().ok().map(|number| number * scale);
        let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let span = span.filter(|span| (SHORTEST..=LONGEST).contains(span));
        span.map(Self).ok_or_else(|| BadTimeSpan(text.to_owned()))
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteLimit(pub(crate) u64);

/// Error of a text that is not a size.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is not a size; use 8GiB, 512MiB or a number of bytes")]
pub(crate) struct BadSize(String);

impl FromStr for ByteLimit {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        match text.parse::<Capacity>() {
            Ok(Capacity::Rows(bytes) | Capacity::Bytes(bytes)) => Ok(Self(bytes)),
            Err(_) => Err(BadSize(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        for (text, millis) in [
            ("500ms", 500),
            ("2s", 2_000),
            (" 1.5 ", 1_500),
            ("10min", 600_000),
            ("12h", 43_200_000),
            ("7d", 604_800_000),
            ("10ms", 10),
        ] {
            assert_eq!(text.parse(), Ok(TimeSpan(Duration::from_millis(millis))), "{text}");
        }
        for text in ["", "s", "0s", "-1s", "9ms", "1w", "nan", "inf", "1e300", "3651d", "2 2s"] {
            let error = text.parse::<TimeSpan>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("10min"), "{error}");
        }
    }
}
