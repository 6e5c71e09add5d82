//! Times and sizes as they are written in settings: `500ms`, `2s`, `10min`, `12h`, `7d`; `8GiB`.

use std::str::FromStr;
use std::time::Duration;

use backcast_core::Capacity;
use thiserror::Error;

/// Seconds of each unit; the longer name first where one ends with another.
const UNITS: [(&str, f64); 5] =
    [("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("h", 3600.0), ("d", 86400.0)];
/// Shortest time: what is done more often is done all the time.
const SHORTEST: Duration = Duration::from_millis(10);
/// Longest time: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86400);

/// A time: seconds, unless it says what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A text that is no time.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no time; write 500ms, 2s, 10min, 12h or 7d, from 10ms to 3650d")]
pub struct BadSpan(pub String);

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let trimmed = text.trim();
        let (number, scale) = UNITS
            .iter()
            .find_map(|(unit, scale)| Some((trimmed.strip_suffix(unit)?, *scale)))
            .unwrap_or((trimmed, 1.0));
        let seconds = number.trim().parse::<f64>().ok().map(|number| number * scale);
        let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let span = span.filter(|span| (SHORTEST..=LONGEST).contains(span));
        span.map(Self).ok_or_else(|| BadSpan(text.to_owned()))
    }
}

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// A text that is no size.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no size; write 8GiB, 512MiB or a number of bytes")]
pub(crate) struct BadSize(String);

impl FromStr for Size {
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
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(millis))), "{text}");
        }
        for text in ["", "s", "0s", "-1s", "9ms", "1w", "nan", "inf", "1e300", "3651d", "2 2s"] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("10min"), "{error}");
        }
    }
}
