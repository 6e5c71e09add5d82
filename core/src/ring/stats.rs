//! Statistics of a ring, its lanes and its readers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backcast_layout::protocol::{Notifier, Pins, Words, still_whole};
use backcast_layout::{Column, LanePolicy, LearnedTableInfo, ReaderRecord, TableInfo};

use super::Ring;
use super::ages::AgeBin;
use super::claim_stats::ClaimStats;
use super::lane_inspection::InspectedLane;
use super::notices::Notice;
use crate::error::RingError;
use crate::limiter::stats::{self, LimiterStats};
use crate::row_header::RowHeader;

/// Attempts to read two rows against a writer that laps them.
const ATTEMPTS: u32 = 64;

/// Sizes, lanes and readers of a ring. Read without stopping any process: each number is correct,
/// but they are not of one instant.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
#[non_exhaustive]
pub struct RingStats {
    /// Name; `None` on the heap.
    pub name: Option<String>,
    /// Directory; `None` on the heap.
    pub path: Option<PathBuf>,
    /// Single-writer lanes.
    pub lanes: u32,
    /// Rows a lane keeps for readers.
    pub lane_capacity: u64,
    /// Physical rows of a lane.
    pub slots: u64,
    /// Rows all lanes keep together.
    pub capacity: u64,
    /// Transitions that can be drawn.
    pub transitions: u64,
    /// Rows published over all lanes, rows before a restore included.
    pub rows_published: u64,
    /// Bytes that the requested capacity needs, built-in columns included.
    pub bytes_asked: u64,
    /// Bytes allocated.
    pub bytes_allocated: u64,
    /// Bytes on huge pages at creation, part of `bytes_allocated`.
    pub bytes_huge: u64,
    /// Whether the ring stays when no process holds it.
    pub persistent: bool,
    /// Whether the ring lies in sealed memfds and not in files.
    pub memfd: bool,
    /// Whether the ring was removed or replaced, so that no process can attach to it any more.
    pub unlinked: bool,
    /// Bytes of a row, built-in columns included.
    pub row_bytes: u64,
    /// Wall clock at creation, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// Policy of writers when a lease stops them.
    pub lane_policy: LanePolicy,
    /// The user's columns.
    pub columns: Vec<Column>,
    /// Statistics of each lane.
    pub lane_stats: Vec<LaneStats>,
    /// Readers that hold a slot.
    pub readers: Vec<ReaderStats>,
    /// Pins that freeze rows now.
    pub pins: Vec<PinStats>,
    /// Tables of priorities.
    pub tables: Vec<TableInfo>,
    /// Tables of claims.
    pub claim_tables: Vec<ClaimStats>,
    /// Tables of learned columns.
    pub learned_tables: Vec<LearnedTableInfo>,
    /// Whether a process may be asleep until a row is published. One that was killed in its sleep
    /// counts until the next row.
    pub rows_awaited: bool,
    /// Whether a writer may be asleep until a lease ends. One that was killed in its sleep counts
    /// until the next lease ends.
    pub release_awaited: bool,
    /// Statistics of the rate limiter, if the ring has one.
    pub limiter: Option<LimiterStats>,
    /// Warnings of this handle: see [`Ring::notices`].
    pub notices: Vec<Notice>,
}

/// Statistics of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// Number of the lane.
    pub lane: u32,
    /// Rows published, rows before a restore included.
    pub head: u64,
    /// First row that was not dropped by [`clear`](Ring::clear) or
    /// [`drop_episode`](Ring::drop_episode); 0 at first.
    pub first_kept: u64,
    /// One past the last row announced.
    pub reserved: u64,
    /// Rows readable now.
    pub rows: u64,
    /// Transitions that can be drawn.
    pub transitions: u64,
    /// Episodes begun, those before a restore included.
    pub episodes: u64,
    /// How often a writer claimed the lane.
    pub generation: u64,
    /// Whether a writer holds it now.
    pub held: bool,
    /// Process that holds the lane, or else the last writer, as it recorded itself. `None` if no
    /// writer has claimed the lane.
    pub pid: Option<u64>,
    /// Rows that writers dropped because a lease blocked them.
    pub dropped: u64,
    /// How often a writer waited, dropped or failed because of a lease.
    pub stalls: u64,
    /// Episodes cut because an append did not begin with the `next_obs` of the one before.
    pub cuts: u64,
    /// Episodes whose beginning suggests another autoreset mode: see
    /// [`WriterWarning`](crate::WriterWarning).
    pub suspect_resets: u64,
}

/// The pin of one reader on one lane, which stands for all of its leases there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinStats {
    /// Number of the reader's slot.
    pub slot: u32,
    /// Process of the reader, as it recorded itself.
    pub pid: u64,
    /// Number of the lane.
    pub lane: u32,
    /// First row frozen.
    pub start: u64,
}

/// Statistics of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderStats {
    /// Number of its slot.
    pub slot: u32,
    /// Process of the reader, as it recorded itself.
    pub pid: u64,
    /// Items it has drawn or gathered.
    pub sampled_rows: u64,
    /// Batches it has drawn or gathered.
    pub sampled_batches: u64,
    /// Draws that it discarded because a writer overwrote rows.
    pub lapped: u64,
    /// Leases it was granted.
    pub leases: u64,
    /// How often a writer waited, dropped or failed because of one of them.
    pub stalls: u64,
    /// Ages of the transitions it has drawn, of every 64th batch: see
    /// [`SamplerStats::ages`](crate::SamplerStats::ages).
    pub ages: Vec<AgeBin>,
}

impl ReaderStats {
    fn new(slot: u32, record: &ReaderRecord) -> Self {
        Self {
            slot,
            pid: record.pid,
            sampled_rows: record.sampled_rows,
            sampled_batches: record.sampled_batches,
            lapped: record.lapped,
            leases: record.leases,
            stalls: record.stalls,
            ages: AgeBin::all_of(&record.ages),
        }
    }
}

impl Ring {
    /// Counts the transitions of a lane. Each episode that ended or was cut takes one row more than
    /// it has transitions, and so does the newest one.
    pub(super) fn transitions(&self, lane: u32) -> u64 {
        let mut count = 0;
        for _ in 0..ATTEMPTS {
            let Some(InspectedLane { memory, rows, .. }) = self.inspect_lane(lane) else {
                return 0;
            };
            count = (rows.end - rows.start).saturating_sub(1);
            if count == 0 {
                return 0;
            }
            let first = RowHeader::read(&*memory, rows.start).episode;
            let last = RowHeader::read(&*memory, rows.end - 1).episode;
            if still_whole(&*memory, rows.start) {
                return count.saturating_sub(last.wrapping_sub(first));
            }
        }
        // A writer that laps two loads this often has a lane of a few rows.
        count
    }

    /// Returns the pins of live readers. O(lanes × readers).
    fn pins(&self, readers: &[ReaderStats]) -> Vec<PinStats> {
        use std::sync::atomic::Ordering::Relaxed;
        let of = |lane: u32, reader: &ReaderStats| {
            let pin = self.store().pins(lane).load(reader.slot, Relaxed);
            let start = pin.checked_sub(1)?;
            Some(PinStats { slot: reader.slot, pid: reader.pid, lane, start })
        };
        (0..self.lanes())
            .flat_map(|lane| readers.iter().filter_map(move |reader| of(lane, reader)))
            .collect()
    }

    /// Returns for each lane the process that holds it, and the process that recorded itself as its
    /// writer. They differ if the writer has ended and a child that it forked keeps its lanes.
    pub(crate) fn holders(&self, lanes: &[u32]) -> Vec<(u64, u64)> {
        let store = self.store();
        let writer = |lane: &u32| store.lane(*lane).map_or(0, |lane| lane.pid());
        let writers: Vec<u64> = lanes.iter().map(writer).collect();
        let some_ended = writers
            .chunk_by(u64::eq)
            .any(|same| same.first().is_some_and(|pid| backcast_layout::has_ended(*pid)));
        // The search is expensive, so it is made only if a writer has ended.
        let found = if some_ended { store.lane_holders() } else { BTreeMap::new() };
        let holder = |(lane, writer): (&u32, u64)| {
            let others =
                found.get(lane).filter(|pids| !pids.iter().any(|pid| u64::from(*pid) == writer));
            let holder = others.and_then(|pids| pids.first()).map_or(writer, |pid| u64::from(*pid));
            (holder, writer)
        };
        lanes.iter().zip(writers).map(holder).collect()
    }

    /// Returns the statistics of the readers that hold a slot now, in any process, in order of
    /// slots.
    ///
    /// Each shows what a reader drew, with the ages of the drawn transitions in newer rows of the
    /// same lane. A reader counts from zero when it takes a slot. Makes one system call for each
    /// slot. Stops no process. The numbers are those in shared memory: a faulty process can make
    /// them wrong.
    ///
    /// ```
    /// use backcast_core::{DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns};
    /// use backcast_core::WriterOptions;
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// for step in 0..50_u8 {
    ///     let obs = [f32::from(step)];
    ///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
    /// }
    /// let mut sampler = ring.sampler(SamplerOptions::seeded(1))?;
    /// sampler.sample(32)?;
    /// let readers = ring.readers();
    /// assert_eq!(readers[0].ages, sampler.stats()?.ages);
    /// assert_eq!(readers[0].ages.iter().map(|bin| bin.rows).sum::<u64>(), 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn readers(&self) -> Vec<ReaderStats> {
        let store = self.store();
        (0..store.spec().reader_slots)
            .filter(|slot| store.reader_held(*slot))
            .filter_map(|slot| Some(ReaderStats::new(slot, &store.reader(slot)?)))
            .collect()
    }

    /// Returns the statistics like [`stats`](Self::stats). Fails if the ring cannot be listed, or
    /// if the process has too few files or too little memory left to open all tables.
    pub fn whole_stats(&self) -> Result<RingStats, RingError> {
        let stats = self.stats();
        self.store().check_tables()?;
        Ok(stats)
    }

    /// Returns the statistics of the ring, without tables that cannot be opened. O(lanes ×
    /// readers).
    #[must_use]
    pub fn stats(&self) -> RingStats {
        use std::sync::atomic::Ordering::Relaxed;
        let store = self.store();
        let spec = store.spec();
        let mut lane_stats: Vec<LaneStats> = (0..spec.lanes)
            .filter_map(|number| Some((number, self.inspect_lane(number)?)))
            .map(|(number, InspectedLane { memory: lane, mark, rows })| {
                let written = rows.end > 0;
                LaneStats {
                    lane: number,
                    head: rows.end,
                    first_kept: mark,
                    reserved: lane.load_reserved(Relaxed),
                    rows: rows.end - rows.start,
                    transitions: self.transitions(number),
                    episodes: if written {
                        RowHeader::read(&*lane, rows.end - 1).episode.wrapping_add(1)
                    } else {
                        0
                    },
                    generation: lane.generation(),
                    held: store.lane_held(number),
                    pid: (lane.generation() > 0).then(|| lane.pid()),
                    dropped: lane.dropped(),
                    stalls: lane.stalls(),
                    cuts: lane.cuts(),
                    suspect_resets: lane.suspect_resets(),
                }
            })
            .collect();
        let held: Vec<u32> = lane_stats.iter().filter(|l| l.held).map(|l| l.lane).collect();
        let holders = self.holders(&held);
        for (lane, (pid, _)) in lane_stats.iter_mut().filter(|l| l.held).zip(holders) {
            lane.pid = lane.pid.map(|_| pid);
        }
        let readers = self.readers();
        let row_bytes = self.schema().row_bytes() as u64;
        let asked = match store.asked() {
            (rows, 0) => rows.saturating_mul(row_bytes),
            (_, bytes) => bytes,
        };
        let transitions = lane_stats.iter().map(|l| l.transitions).sum();
        RingStats {
            name: self.name().map(str::to_owned),
            path: self.path().map(Path::to_owned),
            lanes: spec.lanes,
            lane_capacity: self.lane_capacity(),
            slots: self.slots(),
            capacity: self.capacity(),
            transitions,
            rows_published: lane_stats.iter().map(|l| l.head).sum(),
            bytes_asked: asked,
            bytes_allocated: store.bytes(),
            bytes_huge: store.huge_bytes(),
            persistent: store.persistent(),
            memfd: spec.memfd,
            unlinked: self.is_unlinked(),
            row_bytes,
            created_unix_ns: store.created_unix_ns(),
            columns: self.schema().columns().to_vec(),
            lane_policy: spec.policy,
            pins: self.pins(&readers),
            tables: store.tables(),
            claim_tables: ClaimStats::of(self),
            learned_tables: store.learned_tables(),
            rows_awaited: store.published().load_listening(Relaxed),
            release_awaited: store.released().load_listening(Relaxed),
            limiter: stats::of(store, transitions),
            notices: self.notices(),
            lane_stats,
            readers,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        AutoresetMode, Capacity, DType, Ring, RingOptions, Schema, StepColumns, WriterOptions,
    };

    #[test]
    fn the_bytes_that_were_asked_for_are_those_given_or_those_of_the_rows() {
        let schema = Schema::builder().column("obs", DType::U64, &[3]).build().unwrap();
        let row = u64::try_from(schema.row_bytes()).unwrap();
        for (capacity, asked) in
            [(Capacity::Rows(100), 100 * row), (Capacity::Bytes(1 << 20), 1 << 20)]
        {
            let options = RingOptions::with_capacity(capacity).lanes(2);
            let stats = Ring::heap(&schema, options).unwrap().stats();
            assert_eq!((stats.bytes_asked, stats.row_bytes), (asked, row), "{capacity:?}");
        }
    }

    #[test]
    fn statistics_count_the_rows_transitions_and_episodes_of_each_lane() {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(60).lanes(3)).unwrap();
        let options = WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep);
        let mut writer = ring.writer(options).unwrap();
        for step in 0..12_u64 {
            let obs = [step; 2];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            // The first lane ends twice. Each final row is that of the next step.
            let ends = [step == 3 || step == 7, false];
            writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
        }
        let stats = ring.stats();
        let of_lanes: Vec<_> = stats
            .lane_stats
            .iter()
            .map(|of| (of.lane, of.head, of.rows, of.transitions, of.episodes, of.held))
            .collect();
        let expected = [(0, 12, 12, 9, 3, true), (1, 12, 12, 11, 1, true), (2, 0, 0, 0, 0, false)];
        assert_eq!(of_lanes, expected);
        assert_eq!((stats.rows_published, stats.transitions, ring.len()), (24, 20, 20));
        let pids: Vec<_> = stats.lane_stats.iter().map(|of| of.pid).collect();
        let own = Some(u64::from(std::process::id()));
        assert_eq!(pids, [own, own, None]);
    }
}
