//! Counts how often a table of claims handed out the transitions of a ring.

use std::collections::BTreeMap;

use backcast_layout::protocol::claim::ClaimPass;
use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{ClaimSettings, ClaimTableState};

use super::claims::{Table, order_of};
use crate::error::TableError;
use crate::ring::Ring;
use crate::ring::claim_stats::sound;
use crate::ring::lane_inspection::InspectedLane;
use crate::row_header::{RowHeader, starts_transition};

/// Transitions that were handed out equally often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesBin {
    /// Number of times that each was handed out.
    pub times: u64,
    /// Number of these transitions in the ring.
    pub rows: u64,
}

impl Table {
    /// Returns the transitions that the ring holds by how often they were claimed, fewest times
    /// first. Claims of all samplers of the table count, in all processes, draws ahead included.
    /// There are no empty bins. If the passes of the table are renewed, only claims in the current
    /// pass count.
    ///
    /// The result is exact unless samplers claim rows, or rows change, meanwhile. It is computed
    /// from what the table stores anyway, so draws are not slower for it. O(rows of the ring).
    #[must_use]
    pub fn times_sampled(&self) -> Vec<TimesBin> {
        let pass = self.claims.current_pass();
        let claimed = self.claims.claimed_of(&pass);
        times_sampled(self.claims.ring(), self.claims.settings(), &pass, claimed)
    }
}

impl Ring {
    /// Returns how often each transition was claimed from every table of claims, by name, as
    /// [`Table::times_sampled`] does. Creates and changes nothing, so the process needs no sampler.
    /// Tables that cannot be opened are left out. O(rows of the ring) a table.
    ///
    /// ```
    /// use backcast_core::{
    ///     DType, Ring, RingOptions, SamplerOptions, Schema, Selector, StepColumns, TableOptions,
    ///     TimesBin,
    /// };
    ///
    /// # use backcast_core::WriterOptions;
    /// # let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
    /// # let ring = Ring::heap(&schema, RingOptions::with_capacity(64))?;
    /// # let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// # for _ in 0..11 {
    /// #     let columns = StepColumns::of(&schema).with("x", &[0.0_f32])?;
    /// #     writer.append(&columns.step(&[false], &[false])?)?;
    /// # }
    /// let queue = Selector::Table(TableOptions::consume("queue"));
    /// ring.sampler(SamplerOptions::seeded(1).selector(queue))?.sample(4)?;
    /// let bins = [TimesBin { times: 0, rows: 6 }, TimesBin { times: 1, rows: 4 }];
    /// assert_eq!(ring.times_sampled()["queue"], bins);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn times_sampled(&self) -> BTreeMap<String, Vec<TimesBin>> {
        let states = self.store().claim_states().unwrap_or_default().into_iter();
        let states = states.filter_map(|(_, state)| state.ok());
        states.map(|state| (state.name.clone(), self.times_of(&state))).collect()
    }

    /// Returns how often each transition was claimed from a table that was opened before. Fails if
    /// the table was removed.
    pub(crate) fn times_sampled_of(&self, table: &str) -> Result<Vec<TimesBin>, TableError> {
        Ok(self.times_of(&self.store().claim_state(table)?))
    }

    fn times_of(&self, state: &ClaimTableState) -> Vec<TimesBin> {
        times_sampled(self, state.settings, &state.pass, state.next)
    }
}

/// Counts the transitions of a ring by the times they were claimed, where `claimed` is the number
/// of claimed rows of the current pass. The pass may have any numbers.
fn times_sampled(
    ring: &Ring,
    settings: ClaimSettings,
    pass: &ClaimPass,
    claimed: u64,
) -> Vec<TimesBin> {
    let (order, shuffle) = order_of(ring, settings, pass);
    let claimed = claimed.min(order.total());
    // Rows before the pass were handed out `times` times. A renewed table counts only its current
    // pass, so there they count as never handed out. Rows after the pass were not handed out yet.
    let before = if settings.renewed { 0 } else { u64::from(settings.times) };
    let round = if settings.renewed { 0 } else { pass.round.min(before) };
    let mut bins = BTreeMap::<u64, u64>::new();
    let mut add = |times, rows| {
        if rows > 0 {
            *bins.entry(times).or_default() += rows;
        }
    };
    let ranges = sound(ring, pass);
    let empty = 0..0;
    let mut once_more = vec![0_u64; ring.lanes() as usize];
    let starts: Vec<_> = (0..ring.lanes())
        .map(|lane| ring.inspect_lane(lane).map(|found| starts_of(&found)))
        .collect();
    let is_start = |(lane, seq): (usize, u64)| {
        let found = starts.get(lane).and_then(Option::as_ref);
        found.is_some_and(|(first, starts)| {
            let at = seq.checked_sub(*first).and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| starts.get(at)).is_some_and(|start| *start)
        })
    };
    for n in 0..claimed {
        let n = shuffle.map_or(n, |shuffle| shuffle.at(n));
        let row = order.nth(n).filter(|row| is_start(*row));
        if let Some(count) = row.and_then(|(lane, _)| once_more.get_mut(lane)) {
            *count += 1;
        }
    }
    for (lane, found) in starts.iter().enumerate() {
        let Some((first, starts)) = found else { continue };
        let range = ranges.get(lane).unwrap_or(&empty);
        let rows = |wanted: &dyn Fn(u64) -> bool| {
            let all = (*first..).zip(starts).filter(|(seq, start)| **start && wanted(*seq));
            all.count() as u64
        };
        let once_more = once_more.get(lane).copied().unwrap_or(0);
        add(before, rows(&|seq| seq < range.start));
        add(round, rows(&|seq| range.contains(&seq)).saturating_sub(once_more));
        add(round + 1, once_more);
        add(0, rows(&|seq| seq >= range.end));
    }
    bins.into_iter().map(|(times, rows)| TimesBin { times, rows }).collect()
}

/// Returns the first readable row of a lane, and whether a transition starts at each.
fn starts_of(found: &InspectedLane) -> (u64, Vec<bool>) {
    let lane = &*found.memory;
    let mut headers = [RowHeader::default(); 2];
    let start = |seq: u64| {
        RowHeader::read_into(lane, seq % lane.slots(), &mut headers);
        starts_transition(&headers, seq) && still_whole(lane, seq)
    };
    let rows = found.rows.start..found.rows.end.saturating_sub(1).max(found.rows.start);
    (found.rows.start, rows.map(start).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::FileExt;

    use rand::prelude::IndexedRandom;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use crate::{
        AutoresetMode, Base, DType, PriorityOptions, Ring, RingOptions, RowIndex, SampleError,
        SamplerOptions, Schema, Selector, StepColumns, TableOptions, WriterOptions,
    };

    /// Returns all transitions of a ring.
    fn transitions(ring: &Ring) -> Vec<RowIndex> {
        let fifo = SamplerOptions::seeded(1).selector(Selector::Fifo);
        let mut all = ring.sampler(fifo).unwrap();
        match all.sample(1 << 16) {
            Err(SampleError::TooFew { available, .. }) => {
                all.sample(usize::try_from(available).unwrap()).unwrap().index()
            }
            Err(SampleError::Empty { .. }) => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// Compares the bins with a list of everything that was drawn, while rows come and go.
    #[test]
    fn bins_are_those_of_a_list_of_draws() {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        for (options, times) in [
            (TableOptions::consume("c"), 1),
            (TableOptions::consume("c").max_times_sampled(3).shuffled(true).seed(4), 3),
        ] {
            let ring = Ring::heap(&schema, RingOptions::with_capacity(60).lanes(2)).unwrap();
            let mode = WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep);
            let mut writer = ring.writer(mode).unwrap();
            let spec = SamplerOptions::seeded(1).selector(Selector::Table(options.clone()));
            let mut samplers = [(); 2].map(|()| ring.sampler(spec.clone()).unwrap());
            for sampler in &mut samplers {
                sampler.set_timeout(Some(std::time::Duration::ZERO));
            }
            let table = ring.table(&options).unwrap();
            assert_eq!(table.times_sampled(), []);
            let mut drawn = BTreeMap::<RowIndex, u64>::new();
            let mut most = 0;
            for step in 0..160_u64 {
                let obs = [step; 2];
                let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                let ends = [step % 7 == 6, step % 11 == 10];
                writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
                let sampler = &mut samplers[usize::try_from(step % 2).unwrap()];
                if let Ok(batch) = sampler.sample(1 + usize::try_from(step % 5).unwrap()) {
                    for index in batch.index() {
                        *drawn.entry(index).or_default() += 1;
                    }
                }
                // A sampler that found too few transitions holds those that it claimed.
                if step % 2 == 0 {
                    continue;
                }
                let mut expected = BTreeMap::<u64, u64>::new();
                for index in transitions(&ring) {
                    *expected.entry(drawn.get(&index).copied().unwrap_or(0)).or_default() += 1;
                }
                let found = table.times_sampled();
                let total: u64 = found.iter().map(|bin| bin.rows).sum();
                assert_eq!(total, expected.values().sum::<u64>(), "step {step}");
                let held = |bins: &mut dyn Iterator<Item = (u64, u64)>| {
                    bins.map(|(times, rows)| times * rows).sum::<u64>()
                };
                let claimed = held(&mut found.iter().map(|bin| (bin.times, bin.rows)));
                let returned = held(&mut expected.into_iter());
                assert!((returned..=returned + 10).contains(&claimed), "{found:?} at {step}");
                most = most.max(found.iter().map(|bin| bin.times).max().unwrap_or(0));
            }
            assert_eq!(most, times);
        }
    }

    #[test]
    fn a_pass_that_was_drawn_in_part_is_counted_exactly() {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(100)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for step in 0..41_u64 {
            let obs = [step];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        let options = TableOptions::consume("c").max_times_sampled(3);
        let spec = SamplerOptions::seeded(1).selector(Selector::Table(options));
        let mut sampler = ring.sampler(spec).unwrap();
        let bins = |sampler: &crate::Sampler| {
            let bins = sampler.stats().unwrap().times_sampled.unwrap();
            bins.into_iter().map(|bin| (bin.times, bin.rows)).collect::<Vec<_>>()
        };
        assert_eq!(bins(&sampler), [(0, 40)]);
        sampler.sample(10).unwrap();
        assert_eq!(bins(&sampler), [(0, 30), (1, 10)]);
        sampler.sample(45).unwrap();
        assert_eq!(bins(&sampler), [(1, 25), (2, 15)]);
        sampler.sample(65).unwrap();
        assert_eq!(bins(&sampler), [(3, 40)]);
        let uniform = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        assert_eq!(uniform.stats().unwrap().times_sampled, None);
    }

    /// Random bytes behind the headers of both kinds of tables give some numbers, within bounds.
    /// A damaged header leaves its table out.
    #[test]
    fn hostile_bytes_give_numbers_or_leave_a_table_out() {
        let dir = tempfile::tempdir().unwrap();
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let options = RingOptions::with_capacity(120).lanes(2).base(Base::at(dir.path()));
        let ring = Ring::create("torn", &schema, options).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
        for step in 0..100_u64 {
            let obs = [step; 2];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[step % 7 == 6, false], &[false; 2]).unwrap()).unwrap();
        }
        for table in [TableOptions::consume("c").max_times_sampled(3), TableOptions::epoch("e")] {
            let spec = SamplerOptions::seeded(1).selector(Selector::Table(table));
            ring.sampler(spec).unwrap().sample(8).unwrap();
        }
        ring.priorities(&PriorityOptions::alpha(1.0)).unwrap().update(&[50], &[2.0]).unwrap();
        let held = ring.stats().transitions;
        let counted = |name: &str| {
            let bins = &ring.times_sampled()[name];
            bins.iter().map(|bin| bin.rows).sum::<u64>()
        };
        assert_eq!((counted("c"), counted("e")), (held, held));
        assert_eq!(ring.priority_distributions()["priority"].rows, held);
        let path = |name: &str| ring.path().unwrap().join(format!("table-{name}.dat"));
        let mut dice = StdRng::seed_from_u64(3);
        for case in 0..300 {
            for name in ["c", "e", "priority"] {
                let file = std::fs::File::options().write(true).open(path(name)).unwrap();
                let len = file.metadata().unwrap().len();
                for _ in 0..dice.random_range(1..60) {
                    // Writes behind the header, where a table of priorities has its counters.
                    let at = dice.random_range(128 / 8..len.min(4_096) / 8) * 8;
                    let small = dice.random_range(0..200_u64);
                    let word = *[small, !small, dice.random(), 1 << dice.random_range(0..64)]
                        .choose(&mut dice)
                        .unwrap();
                    file.write_all_at(&word.to_ne_bytes(), at).unwrap();
                }
            }
            let times = ring.times_sampled();
            for (name, most) in [("c", 4), ("e", 1)] {
                assert!(times[name].iter().all(|bin| bin.times <= most), "{case}: {times:?}");
                assert!(counted(name) <= 2 * held, "{case}: {times:?}");
            }
            let found = &ring.priority_distributions()["priority"];
            assert!(found.rows <= 2 * 120 && found.effective_rows.is_finite(), "{found:?}");
            let rows = f64::from(u32::try_from(found.rows).unwrap());
            assert!(found.effective_rows <= rows * 1.001, "{found:?}");
        }
        for name in ["c", "priority"] {
            let file = std::fs::File::options().write(true).open(path(name)).unwrap();
            file.write_all_at(&[0xff; 8], 60).unwrap();
        }
        assert_eq!(ring.times_sampled().into_keys().collect::<Vec<_>>(), ["e"]);
        assert!(ring.priority_distributions().is_empty());
    }
}
