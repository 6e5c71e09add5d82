//! Counts of a reader of the lease order storm, and their text form.

use bytemuck::{Pod, Zeroable};

/// Counts of one reader since its start, or of several readers together.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Orders {
    /// First leases, each followed by others.
    pub rounds: u64,
    /// Second leases of newer rows, granted.
    pub newer: u64,
    /// Second leases of the same row, granted.
    pub equal: u64,
    /// Second leases of older rows, granted.
    pub older: u64,
    /// Second leases of older rows that were not readable any more.
    pub older_gone: u64,
    /// Older rows that were readable and could not be pinned, because time passed between the
    /// inspection and the pin.
    pub older_late: u64,
    /// Retention pins moved back to older rows.
    pub kept_back: u64,
    /// Retention pins that stayed where they were, because the older rows were gone.
    pub kept_back_late: u64,
    /// Leases that ended before others of the same handle.
    pub ended_early: u64,
    /// Leases held beside leases of the other handle of the process.
    pub two_handles: u64,
    /// Checks of rows that were leased or retained.
    pub looks: u64,
    /// Rows that were overwritten after their release.
    pub overwritten: u64,
}

const COUNTS: usize = size_of::<Orders>() / 8;

impl Orders {
    /// Formats the counts as a line of numbers.
    #[must_use]
    pub fn line(&self) -> String {
        self.numbers().map(|number| number.to_string()).join(" ")
    }

    /// Reads a [`line`](Self::line).
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(bytemuck::cast(<[u64; COUNTS]>::try_from(numbers).ok()?))
    }

    /// Adds two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (ours, theirs) = (self.numbers(), other.numbers());
        bytemuck::cast(std::array::from_fn::<u64, COUNTS, _>(|i| ours[i] + theirs[i]))
    }

    /// Returns whether every count is positive.
    #[must_use]
    pub fn all_hit(&self) -> bool {
        self.numbers().into_iter().all(|number| number > 0)
    }

    fn numbers(self) -> [u64; COUNTS] {
        bytemuck::cast(self)
    }
}
