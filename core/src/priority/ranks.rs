//! Masses of rows by the rank of their priorities (Schaul et al. 2016, section 3.3, the rank-based
//! variant): the row of rank `r` has the mass `r ^ -alpha`, and the largest priority has rank 1.
//!
//! Priorities that agree in their highest five bits are one [bucket](TableView::rank_counts), and
//! count as equal. Rows of equal priority share the mean mass of their ranks. So the counts of the
//! buckets give the mass of every row, and no row is sorted.

use backcast_layout::TableView;
use backcast_layout::protocol::sum_tree::rank_bucket;

use super::importance_weights::real;

/// Sum of the masses of all rows of a full table, 2^60: near the most that sums of words can have.
const FULL: f64 = 1_152_921_504_606_846_976.0;
/// Ranks whose masses are added one by one.
const ADDED: u64 = 64;

/// Rows of one bucket, with the sum of the masses of their and all larger priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RankedBucket {
    end: u64,
    bucket: usize,
    /// Mass of one row.
    value: u64,
    /// Number of rows of larger and of these priorities.
    ranks: u64,
}

/// Masses of the rows of one state of a table.
#[derive(Debug)]
pub(crate) struct RankMasses {
    alpha: f64,
    /// Mass of rank 1.
    unit: f64,
    /// Count of changes of the state; `None` if no state was read.
    changes: Option<u64>,
    /// Buckets with rows, the largest priorities first.
    buckets: Vec<RankedBucket>,
    /// Scratch memory.
    counts: Vec<u64>,
}

impl RankMasses {
    pub(crate) fn new(alpha: f64) -> Self {
        let (buckets, counts) = (Vec::new(), Vec::new());
        Self { alpha, unit: 0.0, changes: None, buckets, counts }
    }

    /// Sets the exponent of the ranks.
    pub(crate) fn set_alpha(&mut self, alpha: f64) {
        if self.alpha.to_bits() != alpha.to_bits() {
            (self.alpha, self.changes) = (alpha, None);
        }
    }

    /// Reads the state of a table, unless it is that of the last call.
    pub(crate) fn read(&mut self, view: &TableView) {
        let changes = view.observe();
        if changes.is_some() && changes == self.changes {
            return;
        }
        self.changes = changes;
        let rows = u64::from(view.lanes()).saturating_mul(view.lane_leaves());
        self.unit = FULL / power_sum(self.alpha, 0, rows).max(1.0);
        view.rank_counts(&mut self.counts);
        self.buckets.clear();
        let (mut ranks, mut end) = (0_u64, 0_u64);
        for (bucket, count) in self.counts.iter().enumerate().rev().filter(|(_, n)| **n > 0) {
            // Tables are not trusted.
            let count = (*count).min(rows);
            let mass = power_sum(self.alpha, ranks, ranks + count);
            let value = as_mass(self.unit * mass / real(count));
            ranks += count;
            end = end.saturating_add(value.saturating_mul(count));
            self.buckets.push(RankedBucket { end, bucket, value, ranks });
        }
    }

    /// Returns the sum of the masses of all rows.
    pub(crate) fn total(&self) -> u64 {
        self.buckets.last().map_or(0, |last| last.end)
    }

    /// Returns the smallest mass of a row, or 0 without rows.
    pub(crate) fn least(&self) -> u64 {
        self.buckets.last().map_or(0, |last| last.value)
    }

    /// Returns the leaf in whose mass a number below the total falls, and this mass. Numbers grow
    /// with the rank.
    pub(crate) fn leaf_at(&self, view: &TableView, number: u64) -> Option<(usize, u64)> {
        let at = self.buckets.partition_point(|of| of.end <= number);
        let RankedBucket { bucket, value, .. } = *self.buckets.get(at)?;
        let before = at.checked_sub(1).and_then(|at| self.buckets.get(at)).map_or(0, |of| of.end);
        let leaf = view.nth_in_bucket(bucket, (number - before).checked_div(value)?)?;
        Some((leaf, value))
    }

    /// Returns the mass of a row by its leaf: 0 for a leaf of 0. A priority that no row has gets
    /// the mass of the rank that it would have.
    pub(crate) fn mass_of(&self, leaf: u64) -> u64 {
        let Some(bucket) = rank_bucket(leaf) else { return 0 };
        let at = self.buckets.partition_point(|of| of.bucket > bucket);
        if let Some(found) = self.buckets.get(at).filter(|of| of.bucket == bucket) {
            return found.value;
        }
        let above = at.checked_sub(1).and_then(|at| self.buckets.get(at)).map_or(0, |of| of.ranks);
        as_mass(self.unit * power_sum(self.alpha, above, above + 1))
    }

    /// Returns the number of rows of equal mass that would be drawn with the same diversity (Kish
    /// 1965).
    pub(crate) fn effective_rows(&self) -> f64 {
        let (mut sum, mut squares, mut before) = (0.0, 0.0, 0);
        for RankedBucket { value, ranks, .. } in &self.buckets {
            let (value, count) = (real(*value), real(ranks - before));
            sum += count * value;
            squares += count * value * value;
            before = *ranks;
        }
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }
}

/// Returns a mass as a whole number, at least 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^60")]
fn as_mass(mass: f64) -> u64 {
    (mass.round() as u64).max(1)
}

/// Returns the sum of `rank ^ -alpha` over the ranks from `after + 1` to `last`. The first ranks
/// are added, and the sum of the others is that of Euler and Maclaurin, with a relative error
/// below 1e-9.
fn power_sum(alpha: f64, after: u64, last: u64) -> f64 {
    let added: f64 = (after + 1..=last.min(ADDED)).map(|rank| real(rank).powf(-alpha)).sum();
    let after = after.max(ADDED);
    if last <= after {
        return added;
    }
    let (from, to) = (real(after) + 0.5, real(last) + 0.5);
    let slope = |x: f64| alpha * x.powf(-alpha - 1.0);
    let third = |x: f64| alpha * (alpha + 1.0) * (alpha + 2.0) * x.powf(-alpha - 3.0);
    // The integral of the power, which is a logarithm for the exponent 1.
    let (grown, one) = ((to / from).ln(), 1.0 - alpha);
    let of_ratio = if (one * grown).abs() < 1e-9 { grown } else { (one * grown).exp_m1() / one };
    let integral = from.powf(one) * of_ratio;
    let bends = (slope(to) - slope(from)) / 24.0 - (third(to) - third(from)) * 7.0 / 5760.0;
    // With a huge exponent these terms are no numbers, and the sum is 0.
    added + (integral + bends).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_powers_are_those_of_adding() {
        for alpha in [0.0, 0.3, 0.7, 1.0, 1.0 + 1e-12, 1.5, 2.0, 8.0] {
            for (after, last) in [(0, 1), (0, 64), (0, 65), (3, 9), (10, 5_000), (64, 65), (90, 99)]
            {
                let expected: f64 =
                    (after + 1..=last).rev().map(|rank| real(rank).powf(-alpha)).sum();
                let found = power_sum(alpha, after, last);
                assert!((found / expected - 1.0).abs() < 1e-9, "{alpha} {after}..{last}: {found}");
            }
            assert!(power_sum(alpha, 7, 7).abs() < f64::EPSILON);
        }
        for alpha in [1e3, 1e160, f64::MAX] {
            assert!((power_sum(alpha, 0, 5_000) - 1.0).abs() < f64::EPSILON, "{alpha}");
        }
    }

    #[test]
    fn masses_of_a_full_table_fit_a_word() {
        for alpha in [0.0, 0.7, 1.0, 30.0] {
            for rows in [8, 1 << 20, 1 << 36] {
                let unit = FULL / power_sum(alpha, 0, rows);
                let all = unit * power_sum(alpha, 0, rows);
                // Each row of a mass is rounded up to one unit at most.
                assert!(unit >= 1.0 && all + real(rows) < real(1 << 61), "{alpha} {rows}");
            }
        }
    }

    /// Returns the masses of one row of priority 2^20 and two rows of 2^10.
    fn masses() -> RankMasses {
        let bucket = |leaf| rank_bucket(leaf).unwrap();
        let buckets = vec![
            RankedBucket { end: 1_000, bucket: bucket(1 << 20), value: 1_000, ranks: 1 },
            RankedBucket { end: 1_800, bucket: bucket(1 << 10), value: 400, ranks: 3 },
        ];
        let (unit, changes, counts) = (1_000.0, Some(7), Vec::new());
        RankMasses { alpha: 1.0, unit, changes, buckets, counts }
    }

    #[test]
    fn a_priority_that_no_row_has_gets_the_mass_of_the_rank_that_it_would_have() {
        let masses = masses();
        for (leaf, mass) in [
            (0, 0),
            (1 << 20, 1_000),
            (1 << 10, 400),
            (1 << 30, 1_000),
            (1 << 15, 500),
            (1 << 5, 250),
        ] {
            assert_eq!(masses.mass_of(leaf), mass, "{leaf}");
        }
        assert_eq!((masses.total(), masses.least()), (1_800, 400));
        let empty = RankMasses::new(1.0);
        assert_eq!((empty.total(), empty.least()), (0, 0));
    }

    #[test]
    fn rows_that_share_a_bucket_count_one_by_one_in_the_diversity() {
        let (sum, squares) = (1_000.0 + 2.0 * 400.0, 1_000.0 * 1_000.0 + 2.0 * 400.0 * 400.0);
        let found = masses().effective_rows();
        assert!((found - sum * sum / squares).abs() < 1e-9, "{found}");
        assert!(RankMasses::new(1.0).effective_rows() <= 0.0);
    }

    #[test]
    fn another_exponent_makes_the_next_read_compute_the_masses_anew() {
        let mut masses = masses();
        masses.set_alpha(1.0);
        assert_eq!(masses.changes, Some(7));
        masses.set_alpha(0.5);
        assert_eq!(masses.changes, None);
        assert!((masses.alpha - 0.5).abs() < f64::EPSILON);
    }
}
