//! Distribution of a table's priorities, read without a lock.

use std::collections::BTreeMap;

use backcast_layout::{LEAF_ONE, TableView};

use super::importance_weights::real;
use super::ranks::RankMasses;
use super::updates::Priorities;
use crate::error::PriorityError;
use crate::ring::Ring;

/// Distribution of the priorities of a ring's rows, over all rows that have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriorityDistribution {
    /// Rows that have a priority.
    pub rows: u64,
    /// Number of rows of equal priority that would be drawn with the same diversity: the square of
    /// the sum of all `(priority + eps) ^ exponent`, divided by the sum of their squares (Kish,
    /// "Survey Sampling", 1965, section 11.2). Between 1 and `rows`; 0 without rows. By rank it is
    /// that of the masses of the ranks, with the exponent of the table's first sampler.
    pub effective_rows: f64,
    /// Rows by `(priority + eps) ^ exponent`, smallest first. A bin has the values from `from` up
    /// to, and without, `2 * from`. Bins between the smallest and the largest may be empty.
    pub histogram: Vec<PriorityBin>,
}

/// Rows whose priorities are within a factor of 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityBin {
    /// Smallest value of the bin.
    pub from: f64,
    /// Rows in the bin.
    pub rows: u64,
}

impl Priorities {
    /// Returns the distribution of the priorities. Other processes may change them meanwhile: each
    /// value counts as it was at some moment of the call. Rows have no priority until a learner
    /// draws, or sets priorities, after they were published. O(rows).
    #[must_use]
    pub fn distribution(&self) -> PriorityDistribution {
        PriorityDistribution::of(self.view())
    }
}

impl Ring {
    /// Returns the distribution of the priorities of every table, by name, as
    /// [`Priorities::distribution`] does. Creates and changes nothing, so the process needs no
    /// sampler. Tables that cannot be opened are left out. O(rows) a table.
    ///
    /// ```
    /// use backcast_core::{DType, PriorityOptions, Ring, RingOptions, Schema, StepColumns};
    ///
    /// # use backcast_core::WriterOptions;
    /// # let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
    /// # let ring = Ring::heap(&schema, RingOptions::with_capacity(64))?;
    /// # let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// # for _ in 0..11 {
    /// #     let columns = StepColumns::of(&schema).with("x", &[0.0_f32])?;
    /// #     writer.append(&columns.step(&[false], &[false])?)?;
    /// # }
    /// assert!(ring.priority_distributions().is_empty());
    /// ring.priorities(&PriorityOptions::alpha(1.0).eps(0.0))?.update(&[3], &[4.0])?;
    /// let found = &ring.priority_distributions()["priority"];
    /// assert_eq!(found.rows, 10);
    /// assert_eq!(found.histogram[0].rows, 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn priority_distributions(&self) -> BTreeMap<String, PriorityDistribution> {
        let tables = self.store().table_views().into_iter();
        tables.map(|(name, view)| (name, PriorityDistribution::of(&view))).collect()
    }

    /// Returns the distribution of the priorities of a table that was opened before. Fails if it
    /// was removed.
    pub(crate) fn distribution_of(
        &self,
        table: &str,
    ) -> Result<PriorityDistribution, PriorityError> {
        Ok(PriorityDistribution::of(&self.store().table_view(table)?))
    }
}

impl PriorityDistribution {
    /// Reads the leaves of a table, which may have any bytes.
    fn of(view: &TableView) -> Self {
        let (mut sum, mut squares, mut bins) = (0.0, 0.0, [0_u64; u64::BITS as usize]);
        for lane in 0..view.lanes() {
            let (entered, expired) = view.lane(lane);
            let first = expired.max(entered.saturating_sub(view.lane_leaves())).min(entered);
            for seq in first..entered {
                let leaf = view.leaf(view.leaf_of(lane, seq));
                let Some(bin) = leaf.checked_ilog2().and_then(|bin| bins.get_mut(bin as usize))
                else {
                    continue;
                };
                *bin += 1;
                sum += real(leaf);
                squares += real(leaf) * real(leaf);
            }
        }
        let mut effective_rows = if squares > 0.0 { sum * sum / squares } else { 0.0 };
        if view.counts_ranks() {
            let mut ranks = RankMasses::new(view.settings().exponent);
            ranks.read(view);
            effective_rows = ranks.effective_rows();
        }
        let least = bins.iter().position(|rows| *rows > 0).unwrap_or(0);
        let end = bins.iter().rposition(|rows| *rows > 0).map_or(0, |last| last + 1);
        let bin = |bin: usize| PriorityBin {
            from: real(1 << bin) / real(LEAF_ONE),
            rows: bins.get(bin).copied().unwrap_or(0),
        };
        Self { rows: bins.iter().sum(), effective_rows, histogram: (least..end).map(bin).collect() }
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, PriorityOptions, Ring, RingOptions, Schema, StepColumns, WriterOptions};

    /// Compares the distribution with that of the list of priorities, also after eviction.
    #[test]
    fn a_distribution_is_that_of_a_list() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(60)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut priorities = ring.priorities(&PriorityOptions::alpha(1.0).eps(0.0)).unwrap();
        assert_eq!(priorities.distribution(), super::PriorityDistribution::default());
        let mut list: Vec<f64> = Vec::new();
        for step in 0..100_u8 {
            let obs = [f32::from(step)];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            if step == 0 {
                continue;
            }
            let priority = f64::from(1 + step % 9) / 4.0;
            assert_eq!(priorities.update(&[i64::from(step) - 1], &[priority]).unwrap(), 0);
            list.push(priority);
            let kept = usize::try_from(ring.lane_capacity()).unwrap() - 1;
            let kept = &list[list.len().saturating_sub(kept)..];
            let found = priorities.distribution();
            let (sum, squares) = kept.iter().fold((0.0, 0.0), |(s, q), p| (s + p, q + p * p));
            assert_eq!(found.rows, kept.len() as u64);
            assert!((found.effective_rows - sum * sum / squares).abs() < 1e-9, "{found:?}");
            for bin in &found.histogram {
                let within = |p: &&f64| (bin.from..2.0 * bin.from).contains(*p);
                assert_eq!(bin.rows, kept.iter().filter(within).count() as u64, "{bin:?}");
            }
            let counted: u64 = found.histogram.iter().map(|bin| bin.rows).sum();
            assert_eq!(counted, found.rows);
        }
    }

    #[test]
    fn a_histogram_ranges_from_the_smallest_priority_to_the_largest() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        for (priorities, expected) in [
            (&[1.0][..], &[(1.0, 1)][..]),
            (&[0.75, 5.0, 4.0], &[(0.5, 1), (1.0, 0), (2.0, 0), (4.0, 2)]),
            (&[2.0, 16.0, 2.0, 3.0], &[(2.0, 3), (4.0, 0), (8.0, 0), (16.0, 1)]),
        ] {
            let ring = Ring::heap(&schema, RingOptions::with_capacity(60)).unwrap();
            let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
            for _ in 0..=priorities.len() {
                let columns = StepColumns::of(&schema).with("obs", &[0.0_f32]).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
            let mut table = ring.priorities(&PriorityOptions::alpha(1.0).eps(0.0)).unwrap();
            let index: Vec<i64> = (0..).take(priorities.len()).collect();
            assert_eq!(table.update(&index, priorities).unwrap(), 0);
            let histogram = table.distribution().histogram;
            let found: Vec<_> = histogram.iter().map(|bin| (bin.from, bin.rows)).collect();
            assert_eq!(found, expected);
        }
    }
}
