//! Options of a ring.

use std::str::FromStr;

use backcast_layout::{Base, Exist, LanePolicy};
use thiserror::Error;

use crate::limiter::limits::RateLimiter;

/// Capacity of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Capacity {
    /// Rows over all lanes together.
    Rows(u64),
    /// Maximum bytes of all files together.
    Bytes(u64),
}

impl From<u64> for Capacity {
    fn from(rows: u64) -> Self {
        Capacity::Rows(rows)
    }
}

/// Text that is no capacity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "capacity `{0}` is neither a number of rows nor a size in bytes; write rows as 1000000 or \
     1_000_000, bytes as 512MiB, 8GiB or 8GB"
)]
pub struct BadCapacity(pub String);

impl FromStr for Capacity {
    type Err = BadCapacity;

    /// ```
    /// use backcast_core::Capacity;
    /// assert_eq!("1_000_000".parse(), Ok(Capacity::Rows(1_000_000)));
    /// assert_eq!("1.5 GiB".parse(), Ok(Capacity::Bytes(1_610_612_736)));
    /// assert_eq!("8GB".parse(), Ok(Capacity::Bytes(8_000_000_000)));
    /// assert!("8 gigs".parse::<Capacity>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, BadCapacity> {
        let bad = || BadCapacity(text.to_owned());
        let digits: String = text.trim().chars().filter(|c| *c != '_').collect();
        if let Ok(rows) = digits.parse() {
            return Ok(Capacity::Rows(rows));
        }
        let unit_at = digits.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
        let (number, unit) = digits.split_at(unit_at);
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        let scale: f64 = match unit {
            "B" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            _ => return Err(bad()),
        };
        let bytes = (number * scale).round();
        if bytes < 1.0 {
            return Err(bad());
        }
        // A number that is too large saturates here. Creating the ring refuses it and names the
        // limit.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        Ok(Capacity::Bytes(bytes as u64))
    }
}

/// Options of a ring.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct RingOptions {
    pub(crate) capacity: Capacity,
    pub(crate) lanes: u32,
    pub(crate) exist: Exist,
    pub(crate) persistent: bool,
    #[cfg_attr(feature = "serde", serde(skip, default = "Base::standard"))]
    pub(crate) base: Base,
    pub(crate) reader_slots: u32,
    pub(crate) policy: LanePolicy,
    pub(crate) huge_pages: bool,
    pub(crate) memfd: bool,
    pub(crate) snapshot: bool,
    pub(crate) snapshot_of: String,
    pub(crate) limiter: Option<RateLimiter>,
}

impl RingOptions {
    /// Returns options with this capacity. By default the ring has one lane, a taken name is
    /// refused, and the ring is removed with its last holder.
    #[must_use]
    pub fn with_capacity(capacity: impl Into<Capacity>) -> Self {
        Self {
            capacity: capacity.into(),
            lanes: 1,
            exist: Exist::Error,
            persistent: false,
            base: Base::standard(),
            reader_slots: 64,
            policy: LanePolicy::default(),
            huge_pages: true,
            memfd: false,
            snapshot: false,
            snapshot_of: String::new(),
            limiter: None,
        }
    }

    /// Sets the capacity.
    #[must_use]
    pub fn capacity(mut self, capacity: impl Into<Capacity>) -> Self {
        self.capacity = capacity.into();
        self
    }

    /// Sets the number of single-writer lanes, one per environment: `1..=4096`.
    #[must_use]
    pub fn lanes(mut self, lanes: u32) -> Self {
        self.lanes = lanes;
        self
    }

    /// Sets what happens when the name is taken.
    #[must_use]
    pub fn exist(mut self, exist: Exist) -> Self {
        self.exist = exist;
        self
    }

    /// Sets whether the ring stays when no process holds it, until it is removed or the machine
    /// restarts.
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Sets the base directory of the ring.
    #[must_use]
    pub fn base(mut self, base: Base) -> Self {
        self.base = base;
        self
    }

    /// Sets what a writer does if a lease blocks it. By default it waits, once per lease and 1 s at
    /// most, and then drops the new row and marks a gap.
    #[must_use]
    pub fn lane_policy(mut self, policy: LanePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets whether huge pages are requested, which make draws faster; by default they are.
    /// [`RingStats::bytes_huge`](crate::RingStats::bytes_huge) says how many bytes were granted.
    /// Requesting them takes about as much time as the first lap of the writers saves.
    #[must_use]
    pub fn huge_pages(mut self, ask: bool) -> Self {
        self.huge_pages = ask;
        self
    }

    /// Sets whether the ring lies in sealed memfds instead of files (Linux). No process can
    /// truncate such memory: truncation would give processes that have it mapped a SIGBUS.
    /// Processes find the memory through `/proc`, and it is freed when the last process that has it
    /// ends. A ring that is to outlive its holders needs a daemon that keeps it.
    #[must_use]
    pub fn memfd(mut self, memfd: bool) -> Self {
        self.memfd = memfd;
        self
    }

    /// Sets whether the ring is a snapshot, which no process writes: for
    /// [`Ring::restore`](crate::Ring::restore). All rows of a lane can be leased together, and the
    /// name may be `ring@label`.
    #[must_use]
    pub fn snapshot(mut self, snapshot: bool) -> Self {
        self.snapshot = snapshot;
        self
    }

    /// Sets the source of a [snapshot](Self::snapshot), in up to 255 bytes. It distinguishes two
    /// snapshots of one name.
    #[must_use]
    pub fn snapshot_of(mut self, what: &str) -> Self {
        what.clone_into(&mut self.snapshot_of);
        self
    }

    /// Gives the ring a rate limiter, which holds back writers and samplers: see
    /// [`Ring::limiter`](crate::Ring::limiter). By default it has none.
    #[must_use]
    pub fn limiter(mut self, limits: RateLimiter) -> Self {
        self.limiter = Some(limits);
        self
    }

    /// Sets how many readers can hold leases, and be shown by `stat`, at the same time: `1..=1024`.
    /// Further samplers work without a slot, unless they consume rows of a ring with a rate
    /// limiter.
    #[must_use]
    pub fn reader_slots(mut self, slots: u32) -> Self {
        self.reader_slots = slots;
        self
    }
}

/// Settings of [`RingOptions`], without the base directory and those of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RingSettings {
    /// Capacity.
    pub capacity: Capacity,
    /// Single-writer lanes.
    pub lanes: u32,
    /// Behaviour when the name is taken.
    pub exist: Exist,
    /// Whether the ring stays when no process holds it.
    pub persistent: bool,
    /// Reader slots.
    pub reader_slots: u32,
    /// Policy of writers when a lease stops them.
    pub lane_policy: LanePolicy,
    /// Whether huge pages are requested.
    pub huge_pages: bool,
    /// Whether the ring lies in sealed memfds.
    pub memfd: bool,
    /// Its rate limiter.
    pub limiter: Option<RateLimiter>,
}

impl RingOptions {
    /// Returns the settings, to be shown or sent on.
    #[must_use]
    pub fn settings(&self) -> RingSettings {
        RingSettings {
            capacity: self.capacity,
            lanes: self.lanes,
            exist: self.exist,
            persistent: self.persistent,
            reader_slots: self.reader_slots,
            lane_policy: self.policy,
            huge_pages: self.huge_pages,
            memfd: self.memfd,
            limiter: self.limiter,
        }
    }
}

#[cfg(test)]
mod capacity_tests {
    use super::*;

    #[test]
    fn a_capacity_in_bytes_is_at_least_one() {
        for (text, bytes) in [("1B", Some(1)), ("0.5 B", Some(1)), ("0.4 B", None), ("0 B", None)] {
            let found: Option<Capacity> = text.parse().ok();
            assert_eq!(found, bytes.map(Capacity::Bytes), "{text}");
        }
    }

    #[test]
    fn a_capacity_is_a_number_of_rows_or_of_the_bytes_of_its_unit() {
        for (text, rows) in [("0", 0), ("1_000_000", 1_000_000), (" 64 ", 64)] {
            assert_eq!(text.parse::<Capacity>(), Ok(Capacity::Rows(rows)), "{text}");
        }
        for (unit, base, power) in [
            ("B", 1_u64, 1),
            ("KiB", 1_024, 1),
            ("MiB", 1_024, 2),
            ("GiB", 1_024, 3),
            ("TiB", 1_024, 4),
            ("kB", 1_000, 1),
            ("KB", 1_000, 1),
            ("MB", 1_000, 2),
            ("GB", 1_000, 3),
            ("TB", 1_000, 4),
        ] {
            for (number, halves) in [("1", 2_u64), ("3", 6), ("2.5", 5), ("1_0", 20)] {
                let bytes = Capacity::Bytes((halves * base.pow(power)).div_ceil(2));
                for text in [format!("{number}{unit}"), format!(" {number} {unit} ")] {
                    assert_eq!(text.parse::<Capacity>(), Ok(bytes), "{text}");
                }
            }
        }
        for text in ["", "GiB", "8 gigs", "1.5", "-1", "1 gb", "1e3", "1 GiBs", "-3 B"] {
            assert_eq!(text.parse::<Capacity>(), Err(BadCapacity(text.to_owned())));
        }
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_from_their_text_without_their_folder() {
        let plain = RingOptions::with_capacity(Capacity::Bytes(1 << 30)).lanes(8).memfd(true);
        let elsewhere = plain.clone().base(Base::at("/dev/shm/elsewhere"));
        let queue = plain.clone().limiter(RateLimiter::queue(256)).exist(Exist::Replace);
        let least = plain.clone().limiter(RateLimiter::min_size(9)).lane_policy(LanePolicy::Fail);
        for options in [plain, elsewhere, queue, least] {
            let text = serde_json::to_string(&options).unwrap();
            assert!(!text.contains("elsewhere"), "{text}");
            let back: RingOptions = serde_json::from_str(&text).unwrap();
            assert_eq!(back.settings(), options.settings(), "{text}");
        }
    }
}
