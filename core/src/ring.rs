//! A replay: created once, attached by name from any process.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use backcast_layout::protocol::{Bell, Pins, Words, still_whole};
use backcast_layout::{
    Base, Geometry, LanePolicy, LeaseBook, MemfdKeeper, RingSpec, RingStore, SegmentError,
};

use crate::error::{RingError, SampleError, WriterError};
use crate::mark::Mark;
use crate::options::{Capacity, RingOptions, WriterOptions};
use crate::reader::Look;
use crate::sampler::Sampler;
use crate::sampler_options::SamplerOptions;
use crate::schema::Schema;
use crate::stats::{LaneStats, PinStats, ReaderStats, RingStats};
use crate::unlinked::NameWatch;
use crate::writer::Writer;

/// Rows announced at a time by a writer that appends row by row: a thousandth of a lane within these
/// bounds. The fence between announcing and writing costs a small row a fifth if there are 16 to it.
const RESERVE_CHUNK: RangeInclusive<u32> = 16..=1024;
/// Reads of two rows are tried this often against a writer that laps them.
const ATTEMPTS: u32 = 64;

/// A handle on a ring. Cloning shares it; the last handle of a non-persistent ring removes it.
#[derive(Clone, Debug)]
pub struct Ring {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<RingStore>,
    schema: Schema,
    /// Of the leases held through this handle; made with the first and gone with the last.
    leases: Mutex<Weak<LeaseBook>>,
    name_watch: NameWatch,
}

impl Ring {
    /// Makes a ring under a name. All its memory is allocated now: a full `/dev/shm`, control
    /// group or disk is an error here and never a crash later. O(bytes).
    pub fn create(name: &str, schema: &Schema, options: RingOptions) -> Result<Self, RingError> {
        let spec = spec(schema, &options, page_size())?;
        check_capacity(&spec, options.capacity, page_size())?;
        let RingOptions { base, exist, persistent, .. } = options;
        let (store, _) = RingStore::create(&base, name, &spec, exist, persistent)?;
        Self::of(store)
    }

    /// Joins the ring of that name in the standard place. O(lanes × columns), no copy.
    pub fn attach(name: &str) -> Result<Self, RingError> {
        Self::attach_in(&Base::standard(), name)
    }

    /// Joins the ring of that name in a place of your choice.
    pub fn attach_in(base: &Base, name: &str) -> Result<Self, RingError> {
        Self::of(RingStore::attach(base, name)?)
    }

    /// Joins a ring through its directory, which a process that holds it handed over
    /// ([`directory`](Self::directory)): for processes that do not see the ring's name.
    pub fn attach_at(dir: OwnedFd, path: &Path, name: &str) -> Result<Self, RingError> {
        Self::of(RingStore::attach_at(dir, path, name)?)
    }

    /// A descriptor of the ring's directory, to be sent to another process. `None` on the heap.
    pub fn directory(&self) -> Result<Option<OwnedFd>, RingError> {
        Ok(self.store().directory()?)
    }

    /// Has a keeper keep the ring's memory, if it lies in memfds: the ring may then outlive this handle.
    pub fn keep_by(&self, keeper: &Mutex<MemfdKeeper>) -> Result<(), RingError> {
        Ok(keeper.lock().unwrap_or_else(PoisonError::into_inner).keep(self.store())?)
    }

    /// Bytes that [`create`](Self::create) would allocate. Checks what it would check before.
    pub fn planned_bytes(schema: &Schema, options: &RingOptions) -> Result<u64, RingError> {
        let spec = spec(schema, options, page_size())?;
        Ok(Geometry::of(&spec, page_size())?.total_bytes(spec.lanes))
    }

    /// A ring in private memory: threads of this process share it by cloning.
    #[expect(clippy::needless_pass_by_value, reason = "the same call as `create`")]
    pub fn heap(schema: &Schema, options: RingOptions) -> Result<Self, RingError> {
        let spec = spec(schema, &options, 1)?;
        check_capacity(&spec, options.capacity, 1)?;
        Self::of(RingStore::heap(&spec)?)
    }

    pub(crate) fn of(store: RingStore) -> Result<Self, RingError> {
        let schema = Schema::from_columns(&store.spec().columns)?;
        Ok(Self {
            inner: Arc::new(Inner {
                store: Arc::new(store),
                schema,
                leases: Mutex::default(),
                name_watch: NameWatch::default(),
            }),
        })
    }

    pub(crate) fn store(&self) -> &Arc<RingStore> {
        &self.inner.store
    }

    pub(crate) fn name_watch(&self) -> &NameWatch {
        &self.inner.name_watch
    }

    /// The leases of this handle. `None`: every reader slot is taken, or the name is gone.
    pub(crate) fn leases(&self) -> Result<Option<Arc<LeaseBook>>, SegmentError> {
        let mut known = self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(book) = known.upgrade() {
            return Ok(Some(book));
        }
        let opened = LeaseBook::open(self.store())?;
        if let Some(book) = &opened {
            *known = Arc::downgrade(book);
        }
        Ok(opened)
    }

    /// The columns of a row.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    /// Name; `None` on the heap.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.store().name()
    }

    /// Directory; `None` on the heap.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.store().path()
    }

    /// Random, of this ring alone: one made anew under the same name has another.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.store().uuid()
    }

    /// Whether nobody can write it: it holds what a ring held once.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.store().spec().snapshot
    }

    /// What it is a snapshot of, as its maker said ([`RingOptions::snapshot_of`]).
    #[must_use]
    pub fn snapshot_of(&self) -> &str {
        &self.store().spec().snapshot_of
    }

    /// How to make a ring like this one, in the standard place.
    #[must_use]
    pub fn options(&self) -> RingOptions {
        let spec = self.store().spec();
        let capacity = match self.store().asked() {
            (rows, 0) => Capacity::Rows(rows),
            (_, bytes) => Capacity::Bytes(bytes),
        };
        RingOptions::with_capacity(capacity)
            .lanes(spec.lanes)
            .persistent(self.store().persistent())
            .reader_slots(spec.reader_slots)
            .lane_policy(spec.policy)
            .huge_pages(spec.huge_pages)
            .memfd(spec.memfd)
            .snapshot(spec.snapshot)
    }

    /// Single-writer lanes.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.store().spec().lanes
    }

    /// Rows a lane keeps for readers. While the ring is resized, of the lane that keeps fewest.
    /// O(lanes).
    #[must_use]
    pub fn lane_capacity(&self) -> u64 {
        (0..self.lanes()).filter_map(|lane| self.lane_capacity_of(lane)).min().unwrap_or(0)
    }

    /// Rows that one lane keeps for readers: while the ring is resized, lanes that have moved keep more
    /// than others. `None` for a lane the ring lacks.
    #[must_use]
    pub fn lane_capacity_of(&self, lane: u32) -> Option<u64> {
        self.look(lane).map(|look| look.memory.capacity())
    }

    /// Readers that can hold leases at once.
    #[must_use]
    pub fn reader_slots(&self) -> u32 {
        self.store().spec().reader_slots
    }

    /// What a writer does about a lease in its way.
    #[must_use]
    pub fn lane_policy(&self) -> LanePolicy {
        self.store().spec().policy
    }

    /// Physical rows of a lane.
    #[must_use]
    pub fn slots(&self) -> u64 {
        let slots = |lane| self.look(lane).map(|look| look.memory.slots());
        (0..self.lanes()).filter_map(slots).min().unwrap_or(0)
    }

    /// Rows all lanes keep together.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.lane_capacity() * u64::from(self.lanes())
    }

    /// Transitions that can be drawn. O(lanes).
    #[must_use]
    pub fn len(&self) -> u64 {
        (0..self.lanes()).map(|lane| self.transitions(lane)).sum()
    }

    /// Whether no transition can be drawn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sequence numbers of a lane that can be read now; `None` for a lane the ring lacks.
    #[must_use]
    pub fn lane_span(&self, lane: u32) -> Option<Range<u64>> {
        self.look(lane).map(|look| look.rows)
    }

    /// Claims lanes and writes them. The kernel releases them if this process dies.
    pub fn writer(&self, options: WriterOptions) -> Result<Writer, WriterError> {
        Writer::new(self, options)
    }

    /// Draws from the ring.
    pub fn sampler(&self, options: SamplerOptions) -> Result<Sampler, SampleError> {
        Sampler::new(self, options)
    }

    /// Takes the name away. Every handle, in any process, keeps its memory.
    pub fn unlink(&self) -> Result<(), RingError> {
        self.expect_unlink();
        Ok(self.store().unlink()?)
    }

    /// Transitions of a lane: each episode that ended, or was broken off, costs one row more than
    /// it has transitions, and so does the newest one.
    fn transitions(&self, lane: u32) -> u64 {
        let mut count = 0;
        for _ in 0..ATTEMPTS {
            let Some(Look { memory, rows }) = self.look(lane) else { return 0 };
            count = (rows.end - rows.start).saturating_sub(1);
            if count == 0 {
                return 0;
            }
            let first = Mark::read(&*memory, rows.start).episode;
            let last = Mark::read(&*memory, rows.end - 1).episode;
            if still_whole(&*memory, rows.start) {
                return count.saturating_sub(last.wrapping_sub(first));
            }
        }
        // A writer that laps two loads this often has a lane of a few rows.
        count
    }

    /// What readers that live hold. O(lanes × readers).
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

    /// The process that holds each of some lanes, and the one that claimed it, as it says. They differ
    /// where that one has ended and a child that it forked keeps its lanes.
    pub(crate) fn holders(&self, lanes: &[u32]) -> Vec<(u64, u64)> {
        let store = self.store();
        let writer = |lane: &u32| store.lane(*lane).map_or(0, |lane| lane.pid());
        let writers: Vec<u64> = lanes.iter().map(writer).collect();
        let some_ended = writers
            .chunk_by(u64::eq)
            .any(|same| same.first().is_some_and(|pid| backcast_layout::has_ended(*pid)));
        // Dear, and seldom.
        let found = if some_ended { store.lane_holders() } else { BTreeMap::new() };
        let holder = |(lane, writer): (&u32, u64)| {
            let others =
                found.get(lane).filter(|pids| !pids.iter().any(|pid| u64::from(*pid) == writer));
            let holder = others.and_then(|pids| pids.first()).map_or(writer, |pid| u64::from(*pid));
            (holder, writer)
        };
        lanes.iter().zip(writers).map(holder).collect()
    }

    /// What the ring looks like now. O(lanes × readers).
    #[must_use]
    pub fn stats(&self) -> RingStats {
        use std::sync::atomic::Ordering::Relaxed;
        let store = self.store();
        let spec = store.spec();
        let mut lane_stats: Vec<LaneStats> = (0..spec.lanes)
            .filter_map(|number| Some((number, self.look(number)?)))
            .map(|(number, Look { memory: lane, rows })| {
                let written = rows.end > 0;
                LaneStats {
                    lane: number,
                    head: rows.end,
                    reserved: lane.load_reserved(Relaxed),
                    rows: rows.end - rows.start,
                    transitions: self.transitions(number),
                    episodes: if written {
                        Mark::read(&*lane, rows.end - 1).episode.wrapping_add(1)
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
        let readers: Vec<ReaderStats> = (0..spec.reader_slots)
            .filter(|slot| store.reader_held(*slot))
            .filter_map(|slot| store.reader(slot).map(|record| (slot, record)))
            .map(|(slot, record)| ReaderStats {
                slot,
                pid: record.pid,
                sampled_rows: record.sampled_rows,
                sampled_batches: record.sampled_batches,
                lapped: record.lapped,
                leases: record.leases,
                stalls: record.stalls,
            })
            .collect();
        let row_bytes = self.schema().row_bytes() as u64;
        let asked = match store.asked() {
            (rows, 0) => rows.saturating_mul(row_bytes),
            (_, bytes) => bytes,
        };
        RingStats {
            name: self.name().map(str::to_owned),
            path: self.path().map(Path::to_owned),
            lanes: spec.lanes,
            lane_capacity: self.lane_capacity(),
            slots: self.slots(),
            capacity: self.capacity(),
            transitions: lane_stats.iter().map(|l| l.transitions).sum(),
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
            rows_awaited: store.published().load_listening(Relaxed),
            release_awaited: store.released().load_listening(Relaxed),
            lane_stats,
            readers,
        }
    }
}

pub(crate) fn page_size() -> u64 {
    backcast_layout::page_size()
}

pub(crate) fn spec(
    schema: &Schema,
    options: &RingOptions,
    align: u64,
) -> Result<RingSpec, RingError> {
    let mut spec = RingSpec {
        columns: schema.stored().to_vec(),
        lanes: options.lanes,
        lane_capacity: 0,
        reserve_chunk: *RESERVE_CHUNK.start(),
        reader_slots: options.reader_slots,
        asked_rows: 0,
        asked_bytes: 0,
        policy: options.policy,
        huge_pages: options.huge_pages,
        memfd: options.memfd,
        snapshot: options.snapshot,
        snapshot_of: options.snapshot_of.clone(),
    };
    match options.capacity {
        Capacity::Rows(rows) => {
            spec.asked_rows = rows;
            spec.lane_capacity = rows.div_ceil(u64::from(options.lanes.max(1)));
            spec.reserve_chunk = reserve_chunk(spec.lane_capacity);
        }
        Capacity::Bytes(bytes) => {
            spec.asked_bytes = bytes;
            let rows = Geometry::lane_capacity_for_bytes(&spec, align, bytes)?;
            // A larger chunk comes out of the capacity, so that the bytes stay what they are.
            let chunk = reserve_chunk(rows);
            spec.lane_capacity = rows - u64::from(chunk - spec.reserve_chunk);
            spec.reserve_chunk = chunk;
        }
    }
    Ok(spec)
}

/// Refuses lanes that can never hold a transition.
fn check_capacity(spec: &RingSpec, capacity: Capacity, align: u64) -> Result<(), RingError> {
    /// A transition's own row and its successor's.
    const LEAST: u64 = 2;
    let (lanes, rows) = (spec.lanes, spec.lane_capacity);
    // No rows and no lanes at all are refused elsewhere, with their limits.
    if rows != 1 || lanes == 0 {
        return Ok(());
    }
    // Other limits are said first.
    Geometry::of(spec, align)?;
    let (asked, least) = match capacity {
        Capacity::Rows(rows) => {
            (format!("{rows} row(s)"), format!("{} rows", u64::from(lanes) + 1))
        }
        Capacity::Bytes(bytes) => {
            let least = RingSpec { lane_capacity: LEAST, ..spec.clone() };
            let least = Geometry::of(&least, align)?.total_bytes(lanes);
            (format!("{bytes} bytes"), format!("{least} bytes"))
        }
    };
    Err(RingError::TooSmall { asked, lanes, rows, least })
}

/// Rows announced at a time on a lane of so many.
fn reserve_chunk(lane_capacity: u64) -> u32 {
    let thousandth = u32::try_from(lane_capacity / 1024).unwrap_or(u32::MAX);
    thousandth.clamp(*RESERVE_CHUNK.start(), *RESERVE_CHUNK.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn lanes_that_never_hold_a_transition_are_refused_with_the_least_capacity() {
        let schema = Schema::builder().column("obs", DType::F32, &[8]).build().unwrap();
        let make =
            |rows: u64, lanes| Ring::heap(&schema, RingOptions::with_capacity(rows).lanes(lanes));
        for (rows, lanes) in [(1, 1), (10, 16), (16, 16), (1, 4_096)] {
            let refused = make(rows, lanes).unwrap_err();
            let RingError::TooSmall { least, .. } = &refused else { panic!("{refused}") };
            let least: u64 = least.trim_end_matches(" rows").parse().unwrap();
            assert!(refused.to_string().contains(&format!("{rows} row")), "{refused}");
            assert_eq!(make(least, lanes).unwrap().lane_capacity(), 2, "{refused}");
            assert!(make(least - 1, lanes).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_chunk_is_a_thousandth_of_a_lane_and_comes_out_of_the_bytes_asked_for() {
        let schema = Schema::builder().column("obs", DType::F32, &[8]).build().unwrap();
        let of = |options| spec(&schema, &options, 4_096).unwrap();
        for (rows, chunk) in [(1, 16), (16_384, 16), (102_400, 100), (1 << 30, 1_024)] {
            let spec = of(RingOptions::with_capacity(rows));
            assert_eq!((spec.lane_capacity, spec.reserve_chunk), (rows, chunk));
        }
        for shift in 16..36 {
            let bytes = Capacity::Bytes(1 << shift);
            let spec = of(RingOptions::with_capacity(1).capacity(bytes));
            let Ok(geometry) = Geometry::of(&spec, 4_096) else { panic!("{spec:?}") };
            assert!(geometry.total_bytes(1) <= 1 << shift, "{spec:?}");
            assert_eq!(geometry.slots, spec.lane_capacity + u64::from(spec.reserve_chunk));
            assert!(spec.reserve_chunk >= reserve_chunk(spec.lane_capacity));
        }
    }
}
