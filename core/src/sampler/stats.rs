//! Statistics of the draws of a sampler.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::plan::{BatchPlan, Source};
use super::{Counters, Sampler};
use crate::error::SampleError;
use crate::priority::PriorityDistribution;
use crate::ring::Ring;
use crate::sampler::selector::Selector;
use crate::table::TimesBin;

/// Number of batches of which one has its ages counted, so that the count costs a draw nearly
/// nothing.
const COUNTED_EVERY: u64 = 64;
/// Bins of ages: 0, then powers of 2.
const BINS: usize = 50;

/// Totals of a sampler, and distributions of what it draws.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerStats {
    /// Rows drawn so far, rows drawn ahead by a thread included.
    pub sampled: u64,
    /// Draws discarded so far because a writer overwrote their rows.
    pub lapped: u64,
    /// Ages of drawn transitions at their draw, of every 64th batch since the first one.
    pub ages: Vec<AgeBin>,
    /// Distribution of the priorities of its table, for selectors that have one.
    pub priorities: Option<PriorityDistribution>,
    /// How often each transition of the ring was handed out by the sampler's table of claims, to
    /// all samplers that share it: see [`Table::times_sampled`](crate::Table::times_sampled).
    /// `None` for other selectors, which count nothing for a row.
    pub times_sampled: Option<Vec<TimesBin>>,
}

/// Drawn transitions whose ages are within a factor of 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeBin {
    /// Smallest age of the bin, in newer rows of the same lane: 0, 1, 2, 4, 8 and so on. A bin ends
    /// where the next one begins.
    pub from: u64,
    /// Drawn transitions in the bin.
    pub rows: u64,
}

/// Counts of ages, which grow while other threads read them.
#[derive(Debug)]
pub(super) struct AgeCounts {
    bins: [AtomicU64; BINS],
}

impl Default for AgeCounts {
    fn default() -> Self {
        Self { bins: [const { AtomicU64::new(0) }; BINS] }
    }
}

impl AgeCounts {
    /// Counts the ages of a drawn batch, if it is one of those that are counted.
    #[inline]
    pub(super) fn count(&self, batch: u64, plan: &BatchPlan, arenas: &[&mut [u8]]) {
        if batch.is_multiple_of(COUNTED_EVERY) {
            self.count_batch(plan, arenas);
        }
    }

    #[cold]
    fn count_batch(&self, plan: &BatchPlan, arenas: &[&mut [u8]]) {
        let at = plan.fields().iter().position(|field| field.source == Source::Age);
        let Some(arena) = at.and_then(|at| arenas.get(at)) else { return };
        let mut counts = [0_u64; BINS];
        for age in arena.as_chunks().0 {
            let age = u64::try_from(i64::from_ne_bytes(*age)).unwrap_or(0);
            let bin = age.checked_ilog2().map_or(0, |bin| bin as usize + 1);
            if let Some(count) = counts.get_mut(bin.min(BINS - 1)) {
                *count += 1;
            }
        }
        for (bin, count) in self.bins.iter().zip(counts).filter(|(_, count)| *count > 0) {
            bin.fetch_add(count, Relaxed);
        }
    }

    fn read(&self) -> Vec<AgeBin> {
        let rows = self.bins.iter().map(|bin| bin.load(Relaxed));
        let from = std::iter::once(0).chain((0..).map(|bin| 1 << bin));
        let mut bins: Vec<AgeBin> =
            from.zip(rows).map(|(from, rows)| AgeBin { from, rows }).collect();
        let end = bins.iter().rposition(|bin| bin.rows > 0).map_or(0, |last| last + 1);
        bins.truncate(end);
        bins
    }
}

impl Sampler {
    /// Returns its totals and distributions. O(rows) with a table, and cheap without.
    pub fn stats(&self) -> Result<SamplerStats, SampleError> {
        let selector = self.state().selector;
        stats(&self.ring, &self.counters, &selector)
    }
}

/// Reads the statistics of a sampler, which a thread may be using.
pub(super) fn stats(
    ring: &Ring,
    counters: &Counters,
    selector: &Selector,
) -> Result<SamplerStats, SampleError> {
    let distribution = |options| Ok::<_, SampleError>(ring.priorities(options)?.distribution());
    let times_sampled = match selector {
        Selector::Table(options) => Some(ring.table(options)?.times_sampled()),
        _ => None,
    };
    Ok(SamplerStats {
        sampled: counters.sampled.load(Relaxed),
        lapped: counters.lapped.load(Relaxed),
        ages: counters.ages.read(),
        priorities: selector.priorities().map(distribution).transpose()?,
        times_sampled,
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        BatchesOptions, DType, PriorityOptions, Ring, RingOptions, SamplerOptions, Schema,
        StepColumns, WriterOptions,
    };

    #[test]
    fn ages_are_those_of_every_64th_batch() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(500)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for step in 0..400_u16 {
            let obs = [f32::from(step)];
            let mut columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        let mut sampler = ring.sampler(SamplerOptions::seeded(3)).unwrap();
        assert!(sampler.stats().unwrap().ages.is_empty());
        let mut ages: Vec<i64> = Vec::new();
        for batch in 0..130 {
            let drawn = sampler.sample(64).unwrap();
            if batch % 64 == 0 {
                ages.extend(drawn.column::<i64>("age").unwrap().iter());
            }
        }
        let stats = sampler.stats().unwrap();
        assert_eq!((stats.sampled, stats.lapped, &stats.priorities), (130 * 64, 0, &None));
        let mut counted = 0;
        for (at, bin) in stats.ages.iter().enumerate() {
            let (from, end) =
                (bin.from.cast_signed(), if at == 0 { 1 } else { 2 * bin.from.cast_signed() });
            let expected = ages.iter().filter(|age| (from..end).contains(*age)).count() as u64;
            assert_eq!(bin.rows, expected, "{bin:?}");
            counted += bin.rows;
        }
        assert_eq!(counted, ages.len() as u64);
        // Counts go on while a thread draws ahead.
        let batches = sampler.batches(64, BatchesOptions::prefetch(2)).unwrap();
        assert!(batches.stats().unwrap().ages.len() >= stats.ages.len());

        let options = SamplerOptions::seeded(3).priority(PriorityOptions::exponent(0.6));
        let mut sampler = ring.sampler(options).unwrap();
        sampler.sample(8).unwrap();
        let priorities = sampler.stats().unwrap().priorities.unwrap();
        assert_eq!(priorities.rows, 399);
        assert!((priorities.effective_rows - 399.0).abs() < 1e-6, "{priorities:?}");
    }
}
