//! Statistics of the draws of a sampler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use backcast_layout::{AGE_BINS, AgeCounts, ClaimedReader};

use super::plan::{BatchPlan, Source};
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::priority::PriorityDistribution;
use crate::ring::Ring;
use crate::ring::ages::{AgeBin, bin_of};
use crate::sampler::selector::Selector;
use crate::table::TimesBin;

/// Ages are counted in batches whose number is a multiple of this, so that the count costs a draw
/// nearly nothing.
const COUNTED_EVERY: u64 = 64;

/// Totals of a sampler, and distributions of what it draws.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SamplerStats {
    /// Items drawn or gathered so far, items drawn ahead by a thread included.
    pub sampled: u64,
    /// Draws discarded so far because a writer overwrote their rows.
    pub lapped: u64,
    /// Transitions that a table which consumes handed out to this sampler, and that were too old
    /// to be drawn by then: see [`max_age`](crate::SamplerOptions::max_age). Other selectors choose
    /// among the rows that are young enough, and skip none.
    pub too_old: u64,
    /// Ages of drawn transitions at their draw, in batches whose number is a multiple of 64.
    pub ages: Vec<AgeBin>,
    /// Distribution of the priorities that the selector draws by; `None` for other selectors.
    pub priorities: Option<PriorityDistribution>,
    /// Transitions of the ring by how often the sampler's table of claims handed them out, to all
    /// samplers that share it: see [`Table::times_sampled`](crate::Table::times_sampled). `None`
    /// for other selectors, which do not count draws by row.
    pub times_sampled: Option<Vec<TimesBin>>,
}

/// Counts of ages, which grow while other threads read them.
#[derive(Debug)]
struct AgeCounters {
    bins: [AtomicU64; AGE_BINS],
}

impl Default for AgeCounters {
    fn default() -> Self {
        Self { bins: [const { AtomicU64::new(0) }; AGE_BINS] }
    }
}

impl AgeCounters {
    fn add(&self, counts: &AgeCounts) {
        for (bin, count) in self.bins.iter().zip(counts.0).filter(|(_, count)| *count > 0) {
            bin.fetch_add(count, Relaxed);
        }
    }

    fn read(&self) -> AgeCounts {
        let mut counts = AgeCounts::default();
        for (count, bin) in counts.0.iter_mut().zip(&self.bins) {
            *count = bin.load(Relaxed);
        }
        counts
    }
}

/// Counts the ages of a batch.
fn ages_of(plan: &BatchPlan, arenas: &[&mut [u8]]) -> AgeCounts {
    let mut counts = AgeCounts::default();
    let numbers_of = |source| {
        let at = plan.fields().iter().position(|field| field.source == source);
        Some(arenas.get(at?)?.as_chunks::<8>().0)
    };
    let Some((ages, index)) = numbers_of(Source::Age).zip(numbers_of(Source::Index)) else {
        return counts;
    };
    for (age, index) in ages.iter().zip(index) {
        if i64::from_ne_bytes(*index) == RowIndex::NONE.0 {
            // A masked place of a block.
            continue;
        }
        let age = u64::try_from(i64::from_ne_bytes(*age)).unwrap_or(0);
        if let Some(count) = counts.0.get_mut(bin_of(age)) {
            *count += 1;
        }
    }
    counts
}

/// Totals of a sampler; read while its thread draws ahead.
#[derive(Debug, Default)]
struct Counters {
    sampled: AtomicU64,
    lapped: AtomicU64,
    too_old: AtomicU64,
    /// Ages of drawn rows.
    ages: AgeCounters,
}

/// Counts of the draws of a sampler: its own totals, and those that its reader slot shows.
#[derive(Debug)]
pub(super) struct DrawCounts {
    totals: Arc<Counters>,
    /// Reader slot; a sampler without one draws as well, and is not listed among the readers.
    slot: Option<ClaimedReader>,
}

impl DrawCounts {
    pub(super) fn new(slot: Option<ClaimedReader>) -> Self {
        Self { totals: Arc::default(), slot }
    }

    /// Returns the number of items drawn or gathered so far.
    pub(super) fn sampled(&self) -> u64 {
        self.totals.sampled.load(Relaxed)
    }

    /// Returns the number of draws discarded so far.
    pub(super) fn lapped(&self) -> u64 {
        self.totals.lapped.load(Relaxed)
    }

    /// Counts draws that were discarded because a writer overwrote their rows.
    pub(super) fn add_lapped(&self, draws: u64) {
        self.totals.lapped.fetch_add(draws, Relaxed);
    }

    /// Counts transitions that were skipped since they are too old.
    pub(super) fn add_too_old(&self, transitions: u64) {
        self.totals.too_old.fetch_add(transitions, Relaxed);
    }

    /// Counts a batch of `rows` rows. `lapped_before` draws had been discarded when it began.
    pub(super) fn add_batch(&self, rows: usize, lapped_before: u64) {
        self.totals.sampled.fetch_add(rows as u64, Relaxed);
        if let Some(slot) = &self.slot {
            slot.count(rows as u64, 1, self.lapped() - lapped_before);
        }
    }

    /// Counts the ages of batch number `batch`, here and in the reader slot, if the number is a
    /// multiple of 64.
    #[inline]
    pub(super) fn add_ages(&self, batch: u64, plan: &BatchPlan, arenas: &[&mut [u8]]) {
        if batch.is_multiple_of(COUNTED_EVERY) {
            self.add_ages_of(plan, arenas);
        }
    }

    #[cold]
    fn add_ages_of(&self, plan: &BatchPlan, arenas: &[&mut [u8]]) {
        // Counts in the totals too: a sampler may have no slot, and the totals are read while a
        // thread draws.
        let counts = ages_of(plan, arenas);
        self.totals.ages.add(&counts);
        if let Some(slot) = &self.slot {
            slot.count_ages(&counts);
        }
    }
}

/// Totals and distributions of a sampler, which any thread can read while the sampler draws.
#[derive(Clone, Debug)]
pub struct SamplerTotals {
    ring: Ring,
    counters: Arc<Counters>,
    selector: Selector,
}

impl SamplerTotals {
    pub(super) fn new(ring: Ring, counts: &DrawCounts, selector: Selector) -> Self {
        Self { ring, counters: Arc::clone(&counts.totals), selector }
    }

    /// Returns the number of items drawn or gathered so far, items drawn ahead by a thread
    /// included.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.counters.sampled.load(Relaxed)
    }

    /// Returns the number of draws discarded so far because a writer overwrote their rows.
    #[must_use]
    pub fn lapped(&self) -> u64 {
        self.counters.lapped.load(Relaxed)
    }

    /// Returns the totals and distributions of the sampler. O(rows) if its selector has a table,
    /// else O(1). Fails if that table was removed.
    pub fn stats(&self) -> Result<SamplerStats, SampleError> {
        let Self { ring, counters, selector } = self;
        let priorities = selector.priorities().map(|of| ring.distribution_of(&of.table));
        let times_sampled = match selector {
            Selector::Table(options) => Some(ring.times_sampled_of(options.name())?),
            _ => None,
        };
        Ok(SamplerStats {
            sampled: self.sampled(),
            lapped: self.lapped(),
            too_old: counters.too_old.load(Relaxed),
            ages: AgeBin::all_of(&counters.ages.read()),
            priorities: priorities.transpose()?,
            times_sampled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DrawCounts;
    use crate::{
        BatchesOptions, DType, PriorityOptions, Ring, RingOptions, SamplerOptions, Schema,
        StepColumns, WriterOptions,
    };

    #[test]
    fn readers_of_a_ring_have_their_own_ages_and_one_without_slot_keeps_them() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let options = RingOptions::with_capacity(500).reader_slots(2);
        let ring = Ring::heap(&schema, options).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut samplers: Vec<_> =
            (0..3).map(|seed| ring.sampler(SamplerOptions::seeded(seed)).unwrap()).collect();
        let mut own = Vec::new();
        for (rows, sampler) in [5, 50, 400].into_iter().zip(&mut samplers) {
            for step in 0..rows {
                let obs = [f32::from(u16::try_from(step).unwrap())];
                let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
            sampler.sample(64).unwrap();
            own.push(sampler.stats().unwrap().ages);
        }
        let seen: Vec<_> = ring.readers().into_iter().map(|reader| reader.ages).collect();
        assert_eq!(seen, own[..2]);
        assert_eq!(ring.stats().readers, ring.readers());
        assert!(own.iter().all(|ages| ages.iter().map(|bin| bin.rows).sum::<u64>() == 64));
        samplers.remove(0);
        let _successor = ring.sampler(SamplerOptions::seeded(9)).unwrap();
        assert_eq!(ring.readers()[0].ages, [], "a slot restarts with its holder");
        assert_eq!(ring.readers()[1].ages, own[1]);
    }

    #[test]
    fn ages_are_those_of_every_64th_batch() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(500)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for step in 0..400_u16 {
            let obs = [f32::from(step)];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
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
        assert_eq!(ring.readers()[0].ages, stats.ages);
        // Counts go on while a thread draws ahead.
        let mut batches = sampler.batches(64, BatchesOptions::prefetch(2)).unwrap();
        assert!(batches.stats().unwrap().ages.len() >= stats.ages.len());
        for _ in 130..193 {
            batches.next().unwrap().unwrap();
        }
        let stats = batches.stats().unwrap();
        assert_eq!(stats.ages.iter().map(|bin| bin.rows).sum::<u64>(), counted + 64);
        assert_eq!(ring.readers()[0].ages, stats.ages);
        drop(batches);
        assert_eq!(ring.readers(), []);

        let options = SamplerOptions::seeded(3).priority(PriorityOptions::alpha(0.6));
        let mut sampler = ring.sampler(options).unwrap();
        sampler.sample(8).unwrap();
        let priorities = sampler.stats().unwrap().priorities.unwrap();
        assert_eq!(priorities.rows, 399);
        assert!((priorities.effective_rows - 399.0).abs() < 1e-6, "{priorities:?}");
    }

    #[test]
    fn a_reader_slot_counts_the_draws_discarded_for_each_batch_once() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(500)).unwrap();
        let counts = DrawCounts::new(ring.store().claim_reader().unwrap());
        let (mut rows, mut discarded) = (0, 0);
        for (batch, (items, lapped)) in (1..).zip([(10, 5), (4, 0), (7, 3), (1, 1)]) {
            let before = counts.lapped();
            assert_eq!(before, discarded);
            counts.add_lapped(lapped);
            counts.add_batch(items, before);
            (rows, discarded) = (rows + items as u64, discarded + lapped);
            let readers = ring.readers();
            let shown = &readers[0];
            let shown = (shown.sampled_rows, shown.sampled_batches, shown.lapped);
            assert_eq!(shown, (rows, batch, discarded));
            assert_eq!((counts.sampled(), counts.lapped()), (rows, discarded));
        }
    }
}
