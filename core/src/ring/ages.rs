//! Ages of drawn transitions, counted in bins.

use backcast_layout::{AGE_BINS, AgeCounts};

/// Drawn transitions whose ages are within a factor of 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeBin {
    /// Smallest age of the bin, in newer rows of the same lane: 0, 1, 2, 4, 8 and so on. A bin ends
    /// where the next one begins. The 50th bin has no end.
    pub from: u64,
    /// Drawn transitions in the bin.
    pub rows: u64,
}

impl AgeBin {
    /// Returns the bins in order of age, up to the last one that is not empty. O(1), no more than
    /// 50 bins.
    #[must_use]
    pub fn all_of(counts: &AgeCounts) -> Vec<Self> {
        let from = std::iter::once(0).chain((0..).map(|bin| 1 << bin));
        let mut bins: Vec<Self> =
            from.zip(counts.0).map(|(from, rows)| Self { from, rows }).collect();
        let end = bins.iter().rposition(|bin| bin.rows > 0).map_or(0, |last| last + 1);
        bins.truncate(end);
        bins
    }
}

/// Returns the number of the bin of an age.
pub(crate) fn bin_of(age: u64) -> usize {
    age.checked_ilog2().map_or(0, |bin| bin as usize + 1).min(AGE_BINS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_age_is_in_the_bin_that_begins_at_or_below_it() {
        let full = AgeBin::all_of(&AgeCounts([1; AGE_BINS]));
        assert_eq!(full.len(), AGE_BINS);
        for age in [0, 1, 2, 3, 4, 7, 8, 1 << 20, (1 << 48) - 1, 1 << 48, u64::MAX] {
            let begun = full.iter().rposition(|bin| bin.from <= age);
            assert_eq!(Some(bin_of(age)), begun, "{age}");
        }
    }

    #[test]
    fn bins_end_with_the_last_one_that_counts_something() {
        let mut counts = AgeCounts::default();
        assert_eq!(AgeBin::all_of(&counts), []);
        (counts.0[1], counts.0[3]) = (5, u64::MAX);
        let expected = [(0, 0), (1, 5), (2, 0), (4, u64::MAX)];
        assert_eq!(AgeBin::all_of(&counts), expected.map(|(from, rows)| AgeBin { from, rows }));
    }
}
