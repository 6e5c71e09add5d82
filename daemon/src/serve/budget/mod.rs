//! Memory budget of all objects of a base directory. [`rule`] decides whether a request fits,
//! [`evict`] which ring makes room for it.

pub(super) mod evict;
pub(super) mod rule;

use std::fmt;
use std::str::FromStr;

use backcast_core::{BadCapacity, Base, Capacity, ObjectInfo, SegmentError, SpaceLimits};
use clap::ValueEnum;
use serde::Deserialize;
use thiserror::Error;

use crate::protocol::OverBudget;
use crate::text::units;

/// Part of the system's limit that the default budget leaves to others.
const MARGIN_PERCENT: u64 = 5;
/// Number of objects that a refusal names.
const NAMED: usize = 3;

/// A budget: `8GiB`, `50%`, or a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Bytes.
    Bytes(u64),
    /// Percentage of what the file system and the control group allow.
    Percent(u8),
}

impl Default for Budget {
    fn default() -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a constant below 100")]
        Self::Percent(100 - MARGIN_PERCENT as u8)
    }
}

/// Error of a text that is not a budget.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{0}` is neither a size nor a percentage; write 8GiB, 512MiB, a number of bytes, or 1% \
     to 100% of what the file system and the memory limit allow"
)]
pub struct BadBudget(String);

impl FromStr for Budget {
    type Err = BadBudget;

    fn from_str(text: &str) -> Result<Self, BadBudget> {
        let bad = || BadBudget(text.to_owned());
        if let Some(number) = text.trim().strip_suffix('%') {
            let percent = number.trim().parse().ok().filter(|n| (1..=100).contains(n));
            return percent.map(Self::Percent).ok_or_else(bad);
        }
        match text.parse::<Capacity>() {
            Ok(Capacity::Rows(0)) | Err(BadCapacity(_)) => Err(bad()),
            Ok(Capacity::Rows(bytes) | Capacity::Bytes(bytes)) => Ok(Self::Bytes(bytes)),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&units::bytes(*bytes)),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Budget {
    /// Returns the budget in bytes for objects below `base`, which must exist.
    pub(crate) fn resolve(self, base: &Base) -> Result<u64, SegmentError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Percent(percent) => {
                let limit = SpaceLimits::of(base.path())?.bytes();
                Ok(limit / 100 * u64::from(percent) + limit % 100 * u64::from(percent) / 100)
            }
        }
    }
}

/// Policy for rings that do not fit.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Refuse the ring. The default.
    #[default]
    Refuse,
    /// Make the ring as large as the budget allows.
    Shrink,
    /// Evict persistent rings that no process holds, the least recently used first. Attaching
    /// through the daemon restores them.
    Evict,
}

impl WhenFull {
    /// Returns the word of the setting.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Shrink => "shrink",
            Self::Evict => "evict",
        }
    }
}

/// Returns the bytes of all objects.
pub(crate) fn used(objects: &[ObjectInfo]) -> u64 {
    objects.iter().map(|object| object.bytes).sum()
}

/// Returns the numbers of a refusal.
pub(crate) fn over(budget_bytes: u64, asked_bytes: u64, objects: &[ObjectInfo]) -> OverBudget {
    let mut largest: Vec<(String, u64)> = objects
        .iter()
        .map(|object| (crate::objects::catalogue::shown_name(object), object.bytes))
        .collect();
    largest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    largest.truncate(NAMED);
    OverBudget { budget_bytes, used_bytes: used(objects), asked_bytes, largest }
}

/// Returns the message of a refusal; `what` needs the bytes.
pub(crate) fn explain(what: &str, over: &OverBudget) -> String {
    let OverBudget { budget_bytes, used_bytes, asked_bytes, largest } = over;
    let named: Vec<String> =
        largest.iter().map(|(name, bytes)| format!("{name} {}", units::bytes(*bytes))).collect();
    let of = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    format!(
        "{what} needs {}, and of the budget of {} {} are used{of}; ask for a smaller \
         capacity, remove what is not needed (`backcast rm NAME`), or give the daemon a larger \
         --budget",
        units::bytes(*asked_bytes),
        units::bytes(*budget_bytes),
        units::bytes(*used_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_size_or_a_share() {
        for (text, budget) in [
            ("8GiB", Budget::Bytes(8 << 30)),
            ("1_000_000", Budget::Bytes(1_000_000)),
            ("50%", Budget::Percent(50)),
            (" 100 %", Budget::Percent(100)),
        ] {
            assert_eq!(text.parse(), Ok(budget), "{text}");
        }
        for text in ["", "0", "0%", "101%", "-1", "8 gigs", "50.5%", "%"] {
            let error = text.parse::<Budget>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("8GiB"), "{error}");
        }
    }

    #[test]
    fn a_share_is_of_what_the_system_allows() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        assert!(Budget::Percent(50).resolve(&base).is_err(), "there is no such directory yet");
        std::fs::create_dir(base.path()).unwrap();
        let all = Budget::Percent(100).resolve(&base).unwrap();
        let half = Budget::Percent(50).resolve(&base).unwrap();
        assert!(all > 0 && half.abs_diff(all / 2) <= 1, "{half} of {all}");
        assert_eq!(Budget::Bytes(7).resolve(&base).unwrap(), 7);
    }

    #[test]
    fn a_refusal_names_every_number_and_what_to_do() {
        let over = OverBudget {
            budget_bytes: 8 << 30,
            used_bytes: 7 << 30,
            asked_bytes: 2 << 30,
            largest: vec![("pong".into(), 4 << 30), ("atari".into(), 3 << 30)],
        };
        let text = explain("ring `new`", &over);
        for part in
            ["`new`", "2 GiB", "8 GiB", "7 GiB", "pong 4 GiB, atari 3 GiB", "rm", "--budget"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
