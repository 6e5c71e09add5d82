//! Claims on a ring: lanes, reader slots, samplers and limits, each by a lock that the kernel drops
//! with its process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::{RingBacking, RingStore};
use crate::error::{ObjectKind, SegmentError};
use crate::layout::claimed_lane::ClaimedLane;
use crate::layout::limiter_table::{LimitBytes, LimitCounts, LimitedSide, LimiterTable, WaitMark};
use crate::layout::reader_table::AgeCounts;
use crate::os::byte_lock::{Claim, LockFile, LockMode};
use crate::os::clock::unix_ns;
use crate::os::fork_release::ReleasedOnFork;
use crate::os::futex::NotifyBarrier;
use crate::os::lock_holders;
use crate::protocol::clear_pins;
use crate::protocol::limit::wake;
use crate::protocol::reader_slot::{self, ReaderSlots};
use crate::store::relocation;

/// Byte that the writer of lane 0 locks. The writer of lane L locks the L-th byte after it. A
/// process that relocates a lane without a writer locks the byte of the lane in shared mode.
const LANE_LOCKS: u64 = 4096;
/// Maximum wait of a new writer for the relocation of its lane, and the pause between two attempts.
const RELOCATION_WAIT: Duration = Duration::from_secs(5);
const RELOCATION_PAUSE: Duration = Duration::from_millis(1);
/// Byte that every sampler of a ring with a limiter locks in shared mode.
const SAMPLERS_LOCK: u64 = 4;
/// Byte that the process that changes the limits locks.
const LIMITS_LOCK: u64 = 5;
/// First byte that a sampler of a ring on the heap locks.
const HEAP_SAMPLERS: u64 = 1 << 40;
/// Maximum attempts to lock the limits, and the pause between two.
const LIMITS_ATTEMPTS: u32 = 1_000;
const LIMITS_PAUSE: Duration = Duration::from_millis(1);
/// Byte that the holder of reader slot 0 locks.
const READER_LOCKS: u64 = 1 << 32;

/// A claimed reader slot. Dropping it frees the slot.
#[derive(Debug)]
pub struct ClaimedReader {
    // Dropped before the store: the claim holds the object too, and the store removes the object
    // only as its last holder.
    _claim: Claim,
    store: Arc<RingStore>,
    slot: u32,
}

impl ClaimedReader {
    /// Adds to the counters of the slot: rows and batches returned, draws lapped.
    pub fn count(&self, rows: u64, batches: u64, lapped: u64) {
        if let Some(words) = self.store.readers.slot(self.slot) {
            add(words.sampled_rows, rows);
            add(words.sampled_batches, batches);
            add(words.lapped, lapped);
        }
    }

    /// Adds the ages of drawn rows to the counters of the slot.
    pub fn count_ages(&self, counts: &AgeCounts) {
        let Some(words) = self.store.readers.ages(self.slot) else { return };
        for (word, count) in words.iter().zip(counts.0).filter(|(_, count)| *count > 0) {
            add(word, count);
        }
    }

    /// Returns the number of the slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }
}

/// A sampler of a ring with a limiter, which counts as alive until this is dropped.
#[derive(Debug)]
pub struct LiveSampler {
    // Dropped before the store: the claim holds the object too.
    _claim: Option<Claim>,
    _store: Arc<RingStore>,
}

impl RingStore {
    /// Claims a lane for writing. Returns `None` if another writer has it, in a snapshot, and for a
    /// lane that a ring on the heap lacks. Waits up to 5 s while another process relocates the
    /// lane, and then fails.
    pub fn claim_lane(&self, lane: u32) -> Result<Option<ClaimedLane>, SegmentError> {
        if self.spec.snapshot {
            return Ok(None);
        }
        let Some(claim) = self.lock_for_writer(lane, RELOCATION_WAIT)? else { return Ok(None) };
        let memory = match &self.place {
            RingBacking::Named { shapes, .. } => {
                relocation::settled(self, shapes, lane, self.resizes())?.into()
            }
            RingBacking::Heap { .. } => match self.lane(lane) {
                Some(lane) => lane,
                None => return Ok(None),
            },
        };
        // Register with the kernel once, before the first row, so that publishing needs no fence.
        self.barrier.get_or_init(NotifyBarrier::of_this_process);
        Ok(ClaimedLane::new(memory, claim, unix_ns()))
    }

    /// Clears the pins of a slot whose holder has died. Returns `true` if the slot had no holder.
    pub fn reap_reader(&self, slot: u32) -> Result<bool, SegmentError> {
        reader_slot::reap(&SlotsOfRing(self), slot)
    }

    /// Counts at a reader slot that one of its leases made a writer wait, drop or fail.
    pub fn count_stall(&self, slot: u32) {
        if let Some(words) = self.readers.slot(slot) {
            words.stalls.fetch_add(1, Relaxed);
        }
    }

    /// Returns how often leases of a reader slot made a writer wait, drop or fail.
    pub(crate) fn stalls_by(&self, slot: u32) -> u64 {
        self.readers.slot(slot).map_or(0, |words| words.stalls.load(Relaxed))
    }

    /// Counts a lease at a reader slot. One thread at a time may call it.
    pub(crate) fn count_lease(&self, slot: u32) {
        if let Some(words) = self.readers.slot(slot) {
            add(words.leases, 1);
        }
    }

    /// Returns whether a writer, in any process, holds the lane.
    #[must_use]
    pub fn lane_held(&self, lane: u32) -> bool {
        let byte = LANE_LOCKS + u64::from(lane);
        match &self.place {
            RingBacking::Named { locks, .. } => locks.held_exclusively(byte).unwrap_or(false),
            RingBacking::Heap { locks, .. } => locks.held(byte),
        }
    }

    /// Claims a free reader slot. Returns `None` if all are taken.
    pub fn claim_reader(self: &Arc<Self>) -> Result<Option<ClaimedReader>, SegmentError> {
        for slot in 0..self.spec.reader_slots {
            let Some(claim) = reader_slot::claim(&SlotsOfRing(self), slot)? else { continue };
            self.readers.sign(slot, unix_ns());
            if let Some(table) = &self.limiter {
                // Clear the mark: the last holder of the slot may have been killed in a wait.
                table.mark_sampler(slot, WaitMark::default());
            }
            return Ok(Some(ClaimedReader { store: Arc::clone(self), slot, _claim: claim }));
        }
        Ok(None)
    }

    /// Returns whether a reader, in any process, holds the slot.
    #[must_use]
    pub fn reader_held(&self, slot: u32) -> bool {
        self.held(READER_LOCKS + u64::from(slot))
    }

    /// Puts other limits into force, and other counts if they are given, for all processes. Returns
    /// `false` if the ring has no limiter. Fails if other processes hold the lock of the limits for
    /// about a second.
    pub fn change_limits(
        &self,
        limits: LimitBytes,
        counts: Option<LimitCounts>,
    ) -> Result<bool, SegmentError> {
        self.with_limits_locked(|table| table.change(limits, counts))
    }

    /// Sets the count of inserts at which writers stop, for all processes. Returns `false` if the
    /// ring has no limiter. Fails if other processes hold the lock of the limits for about a
    /// second.
    pub fn set_ceiling(&self, ceiling: Option<u64>) -> Result<bool, SegmentError> {
        self.with_limits_locked(|table| table.set_ceiling(ceiling))
    }

    /// Puts the limits into force again after a lane was relocated. Rows that its smaller memory
    /// hid can be drawn again, so each process has to compare the limits with the ring anew.
    pub(crate) fn renew_limits(&self) {
        let renewed = self.with_limits_locked(|table| {
            if let Some((limits, _)) = table.limits() {
                table.change(limits, None);
            }
        });
        if let (Ok(true), Some(table)) = (renewed, &self.limiter) {
            wake(&table.counter(LimitedSide::Inserts));
            wake(&table.counter(LimitedSide::Samples));
        }
    }

    /// Calls `change` while this process holds the lock of the limits. Returns `false` if the ring
    /// has no limiter.
    fn with_limits_locked(&self, change: impl Fn(&LimiterTable)) -> Result<bool, SegmentError> {
        let Some(table) = &self.limiter else { return Ok(false) };
        for _ in 0..LIMITS_ATTEMPTS {
            // The claim is held until the limits are in force. The kernel releases it if this
            // process dies.
            if let Some(_claim) = self.claim(LIMITS_LOCK, LockMode::Exclusive, Claim::File)? {
                change(table);
                return Ok(true);
            }
            thread::sleep(LIMITS_PAUSE);
        }
        Err(SegmentError::InUse {
            kind: ObjectKind::Ring,
            name: self.name().unwrap_or_default().to_owned(),
        })
    }

    /// Marks a sampler as alive until the claim is dropped or its process dies.
    pub fn claim_sampler(self: &Arc<Self>) -> Result<LiveSampler, SegmentError> {
        let claim = match &self.place {
            RingBacking::Named { object, .. } => {
                let lock = object.lock(SAMPLERS_LOCK, LockMode::Shared)?;
                lock.map(|lock| Claim::OwnFile(ReleasedOnFork::new(&lock), lock))
            }
            RingBacking::Heap { locks, .. } => locks.claim_next(HEAP_SAMPLERS),
        };
        Ok(LiveSampler { _claim: claim, _store: Arc::clone(self) })
    }

    /// Returns whether a sampler of a ring with a limiter lives, in any process. One system call.
    #[must_use]
    pub fn has_sampler(&self) -> bool {
        match &self.place {
            RingBacking::Named { locks, .. } => {
                locks.held_elsewhere(SAMPLERS_LOCK).unwrap_or(false)
            }
            RingBacking::Heap { locks, .. } => locks.any_held(&(HEAP_SAMPLERS..u64::MAX)),
        }
    }

    /// Returns whether a writer lives, in any process. One system call.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        let bytes = LANE_LOCKS..LANE_LOCKS + u64::from(self.spec.lanes);
        match &self.place {
            RingBacking::Named { locks, .. } => locks.any_held_exclusively(&bytes).unwrap_or(false),
            RingBacking::Heap { locks, .. } => locks.any_held(&bytes),
        }
    }

    /// Locks a lane that has no writer, so that none claims it while it is relocated. Returns
    /// `None` if it has a writer. The caller holds the lock for resizing, so that no other process
    /// relocates the lane.
    pub(crate) fn lock_for_relocation(&self, lane: u32) -> Result<Option<Claim>, SegmentError> {
        self.lock_lane(lane, LockMode::Shared)
    }

    /// Locks a lane for its writer. Waits up to `limit` while another process relocates it, and
    /// then fails. Returns `None` if another writer has it.
    pub(crate) fn lock_for_writer(
        &self,
        lane: u32,
        limit: Duration,
    ) -> Result<Option<Claim>, SegmentError> {
        let begin = Instant::now();
        loop {
            let claim = self.lock_lane(lane, LockMode::Exclusive)?;
            if claim.is_some() || self.lane_held(lane) {
                return Ok(claim);
            }
            if begin.elapsed() >= limit {
                let name = self.name().unwrap_or_default().to_owned();
                return Err(SegmentError::LaneRelocating { name, lane, waited: limit });
            }
            thread::sleep(RELOCATION_PAUSE);
        }
    }

    fn lock_lane(&self, lane: u32, mode: LockMode) -> Result<Option<Claim>, SegmentError> {
        self.claim(LANE_LOCKS + u64::from(lane), mode, |lock| {
            Claim::OwnFile(ReleasedOnFork::new(&lock), lock)
        })
    }

    /// Returns the processes of this user that hold lanes, by lane, where the system reports them.
    /// Searches all processes, so it is only for messages. Empty on the heap.
    #[must_use]
    pub fn lane_holders(&self) -> BTreeMap<u32, Vec<u32>> {
        let RingBacking::Named { locks, .. } = &self.place else { return BTreeMap::new() };
        let bytes = LANE_LOCKS..LANE_LOCKS + u64::from(self.spec.lanes);
        let held = lock_holders::of(locks.as_fd(), &bytes).into_iter();
        held.filter_map(|(byte, pids)| Some((u32::try_from(byte - LANE_LOCKS).ok()?, pids)))
            .collect()
    }

    /// Returns the processes of this user that hold a byte exclusively, where the system reports
    /// them. Empty on the heap.
    pub(crate) fn holders_of(&self, byte: u64) -> Vec<u32> {
        let RingBacking::Named { locks, .. } = &self.place else { return Vec::new() };
        lock_holders::of(locks.as_fd(), &(byte..byte + 1)).remove(&byte).unwrap_or_default()
    }

    fn claim(
        &self,
        byte: u64,
        mode: LockMode,
        of_file: impl FnOnce(LockFile) -> Claim,
    ) -> Result<Option<Claim>, SegmentError> {
        match &self.place {
            RingBacking::Named { object, .. } => Ok(object.lock(byte, mode)?.map(of_file)),
            RingBacking::Heap { locks, .. } => Ok(locks.claim(byte)),
        }
    }

    pub(crate) fn held(&self, byte: u64) -> bool {
        match &self.place {
            RingBacking::Named { locks, .. } => locks.held_elsewhere(byte).unwrap_or(false),
            RingBacking::Heap { locks, .. } => locks.held(byte),
        }
    }
}

/// Reader slots of the ring, as the protocol needs them.
struct SlotsOfRing<'a>(&'a RingStore);

impl ReaderSlots for SlotsOfRing<'_> {
    type Claim = Claim;
    type Error = SegmentError;

    fn is_held(&self, slot: u32) -> bool {
        self.0.reader_held(slot)
    }

    fn try_claim(&self, slot: u32) -> Result<Option<Claim>, SegmentError> {
        self.0.claim(READER_LOCKS + u64::from(slot), LockMode::Exclusive, Claim::File)
    }

    fn clear_pins(&self, slot: u32) {
        clear_pins(&self.0.readers, slot);
    }
}

/// Adds to a counter. One process writes it at a time, so a load and a store are enough.
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
}
