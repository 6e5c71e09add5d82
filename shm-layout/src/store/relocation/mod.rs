//! Enlarges the lanes of a ring while it is written and read.
//!
//! 1. The process that resizes takes the ring's resize lock. It creates a file `lane-NNNN.next` for
//!    each lane with all its space, and copies rows to it beside the writers.
//! 2. It renames a new `ring.ctl` into place, which states the new size of the lanes. It notifies
//!    the writers by the count `resizes`, which they read before each append.
//! 3. Each writer relocates its own lane between two appends. It copies the last rows, marks the
//!    old memory as relocated, and renames the new file to the name of the old one. Lanes without a
//!    writer are relocated by the process that resizes, or by the next writer.
//!
//! A kill at any moment leaves each lane either where it was or relocated. A file `.next` is always
//! a lane with correct counters, but may lack the newest rows. Before step 2 no other process uses
//! it, and the next resize removes it.

mod leftovers;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::renameat;

use self::leftovers::{LANE_WAIT, clear_leftovers, remove_leftovers, rename};
use crate::error::SegmentError;
use crate::layout::claimed_lane::ClaimedLane;
use crate::layout::geometry::RingSpec;
use crate::layout::lane::{Lane, copy_writer_counters};
use crate::layout::lane_shape::LaneShapes;
use crate::layout::superblock::Superblock;
use crate::os::byte_lock::{LockFile, LockMode};
use crate::os::mapping::Access;
use crate::protocol::{Fence, Relocator, Words, WordsMut, has_relocated};
use crate::store::memfd::MemfdKeeper;
use crate::store::object::Object;
use crate::store::ring_files::{self, CTL, NEXT_CTL, lane_file, next_file};
use crate::store::ring_store::RingStore;

/// Byte that the process that resizes a ring locks.
pub(crate) const RESIZE_LOCK: u64 = 2;
/// Approximate bytes of the widest column that are copied at a time. They stay in L1 and L2.
const BLOCK_BYTES: usize = 128 * 1024;
/// Copying beside the writers ends after a round of fewer than `FEW_ROWS` rows, or after `ROUNDS`
/// rounds.
const FEW_ROWS: u64 = 256;
const ROUNDS: u32 = 8;

/// New size of the lanes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSize {
    /// Rows of a lane that readers may count on.
    pub lane_capacity: u64,
    /// Capacity that the user gave in rows; 0 if in bytes.
    pub asked_rows: u64,
    /// Capacity that the user gave in bytes; 0 if in rows.
    pub asked_bytes: u64,
}

/// A resize in progress. No other process resizes the ring meanwhile.
#[derive(Debug)]
pub struct Relocation {
    store: Arc<RingStore>,
    _lock: LockFile,
    shapes: LaneShapes,
    superblock: Superblock,
    /// Number of resizes of the ring, this one included.
    resizes: u32,
    /// Whether the new files are ready and writers are notified.
    notified: bool,
}

impl Relocation {
    /// Begins to enlarge the lanes of a ring: takes the lock and allocates the new files. If an
    /// earlier resize to the same size is unfinished, this one finishes it; if it is finished,
    /// nothing is done.
    ///
    /// A ring in memfds needs a `keeper` for its new memory. Without one, a kill would free the
    /// memory to which its writers are about to relocate their lanes.
    pub fn begin(
        store: &Arc<RingStore>,
        size: LaneSize,
        keeper: Option<&Mutex<MemfdKeeper>>,
    ) -> Result<Self, SegmentError> {
        let (object, _) = store.resizable()?;
        if object.is_in_memfds() && keeper.is_none() {
            return Err(SegmentError::NotItsKeeper { name: object.name().to_owned() });
        }
        let lock = lock(object)?;
        let Plan { superblock, shapes, notified } = plan(store, size)?;
        let resizes = superblock.resizes + u32::from(!notified);
        let store = Arc::clone(store);
        let mut resizing = Self { store, _lock: lock, shapes, superblock, resizes, notified };
        if !notified {
            resizing.make()?;
        }
        if let (Some(keeper), (object, _)) = (keeper, resizing.store.resizable()?) {
            keeper.lock().unwrap_or_else(PoisonError::into_inner).keep_object(object)?;
        }
        Ok(resizing)
    }

    /// Returns the bytes that a resize would allocate: the larger lanes and a new `ring.ctl`.
    /// Returns 0 if nothing is to be allocated, as when the resize finishes an earlier one. Refuses
    /// the sizes that [`begin`](Self::begin) refuses. Checks neither the space, nor the keeper, nor
    /// whether another process resizes the ring. O(lanes).
    pub fn planned_bytes(store: &Arc<RingStore>, size: LaneSize) -> Result<u64, SegmentError> {
        let Plan { shapes, notified, .. } = plan(store, size)?;
        if notified {
            return Ok(0);
        }
        let geometry = &shapes.of(size.lane_capacity)?.geometry;
        let lanes = geometry.lane_bytes.saturating_mul(store.spec().lanes.into());
        Ok(lanes.saturating_add(geometry.ctl_bytes))
    }

    /// Creates the new files. If one cannot be created, removes the others.
    fn make(&mut self) -> Result<(), SegmentError> {
        clear_leftovers(&self.store, LANE_WAIT)?;
        let (object, _) = self.store.resizable()?;
        let shape = self.shapes.of(self.shapes.spec().lane_capacity)?;
        let bytes = shape.geometry.lane_bytes.saturating_mul(self.lanes().into());
        let folder = object.folder();
        folder.check_room(bytes)?;
        let made = ring_files::make_lanes(folder, &self.shapes, &shape, self.resizes, &next_file);
        let written = made.and_then(|huge_bytes| {
            let Superblock { created_unix_ns, made_lane_capacity, .. } = self.superblock;
            let origin = (created_unix_ns, made_lane_capacity, self.resizes);
            let (shapes, shape) = (&self.shapes, &*shape);
            ring_files::write_ctl(folder, NEXT_CTL, shapes, shape, huge_bytes, origin)
        });
        if written.is_err() {
            let _ = remove_leftovers(&self.store);
            object.tidy_memory();
        }
        written
    }

    fn lanes(&self) -> u32 {
        self.store.spec().lanes
    }

    /// Copies the rows of one lane to its new file, beside its writer. Returns how many.
    pub fn copy(&self, lane: u32) -> Result<u64, SegmentError> {
        if self.notified {
            return Ok(0);
        }
        let (object, _) = self.store.resizable()?;
        self.store.follow()?;
        let Some(old) = self.store.lane(lane) else { return Ok(0) };
        let new = open(object, &self.shapes, lane, &next_file(lane))?;
        let widths = old.widths();
        let (new, block) = (Writable(&new), block(&widths));
        let mut relocator = Relocator::new(&*old, &new, &widths, block);
        let mut copied = 0;
        for _ in 0..ROUNDS {
            let rows = relocator.catch_up();
            copied += rows;
            if rows < FEW_ROWS {
                break;
            }
        }
        Ok(copied)
    }

    /// Announces the new size: from here on lanes are relocated.
    pub fn tell(&mut self) -> Result<(), SegmentError> {
        if !self.notified {
            let (object, _) = self.store.resizable()?;
            renameat(object.dir(), NEXT_CTL, object.dir(), CTL)
                .map_err(|error| SegmentError::io("rename", object.path())(error.into()))?;
            self.notified = true;
        }
        self.store.count_resizes(self.resizes);
        Ok(())
    }

    /// Relocates the lanes without a writer, and returns those that still have to be relocated by
    /// their writers.
    pub fn settle(&self) -> Result<Vec<u32>, SegmentError> {
        let (_, shapes) = self.store.resizable()?;
        settle(&self.store, shapes, self.resizes)
    }
}

impl Drop for Relocation {
    fn drop(&mut self) {
        if !self.notified {
            let _ = remove_leftovers(&self.store);
        }
    }
}

/// Plan of a resize.
struct Plan {
    superblock: Superblock,
    shapes: LaneShapes,
    /// Whether nothing is to be created: lanes have the new size, or are about to be relocated.
    notified: bool,
}

fn plan(store: &Arc<RingStore>, size: LaneSize) -> Result<Plan, SegmentError> {
    let (object, _) = store.resizable()?;
    let (superblock, columns) = ring_files::read_ctl(object)?;
    let spec = RingSpec {
        columns,
        lane_capacity: size.lane_capacity,
        asked_rows: size.asked_rows,
        asked_bytes: size.asked_bytes,
        ..store.spec().clone()
    };
    let map_align = u64::from(superblock.map_align);
    let shapes = LaneShapes::new(superblock.ring_uuid, spec, map_align);
    store.follow()?;
    let mut pending = pending(store, superblock.resizes);
    let lost = |lane| is_lost(object, &next_file(lane));
    if pending.iter().copied().any(lost) {
        // The new memory was freed with its creator, so the resize is planned without it.
        pending.clear();
    }
    let is = superblock.lane_capacity;
    let name = object.name().to_owned();
    // Whether no lane has to be relocated for the last resize that was announced.
    let settled = store.lanes().iter().all(|lane| lane.resizes() >= superblock.resizes);
    let notified = !pending.is_empty() || (settled && is == size.lane_capacity);
    if !pending.is_empty() && is != size.lane_capacity {
        return Err(SegmentError::ResizeUnfinished { name, lanes: pending, rows: is });
    }
    if size.lane_capacity < is {
        return Err(SegmentError::NotLarger { name, asked: size.lane_capacity, is });
    }
    Ok(Plan { superblock, shapes, notified })
}

/// Finishes a resize whose process was killed: relocates the lanes without a writer, or removes
/// files to which no lane will be relocated. Does nothing while another process resizes. Returns
/// the lanes that their writers still have to relocate.
pub fn finish_relocation(store: &Arc<RingStore>) -> Result<Vec<u32>, SegmentError> {
    let (object, shapes) = store.resizable()?;
    let lanes = store.spec().lanes;
    let leftover = object.has(NEXT_CTL) || (0..lanes).any(|lane| object.has(&next_file(lane)));
    if !leftover {
        return Ok(Vec::new());
    }
    let Ok(_lock) = lock(object) else { return Ok(Vec::new()) };
    let resizes = ring_files::read_ctl(object)?.0.resizes;
    let waiting = settle(store, shapes, resizes)?;
    if waiting.is_empty() {
        remove_leftovers(store)?;
    }
    Ok(waiting)
}

/// A resize whose writers were notified and have not relocated all lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingResize {
    /// Lanes that are not relocated yet.
    pub lanes: Vec<u32>,
    /// Rows of every lane once it is relocated.
    pub lane_capacity: u64,
}

impl RingStore {
    /// Maps relocated lanes again, and returns the resize that is not finished. `None` if there is
    /// none. Makes a few system calls.
    pub fn pending_resize(&self) -> Result<Option<PendingResize>, SegmentError> {
        let Ok((object, _)) = self.resizable() else { return Ok(None) };
        let superblock = ring_files::read_ctl(object)?.0;
        self.follow()?;
        let lanes = pending(self, superblock.resizes);
        let lane_capacity = superblock.lane_capacity;
        Ok((!lanes.is_empty()).then_some(PendingResize { lanes, lane_capacity }))
    }
}

/// Relocates the lanes without a writer. Returns those that are left.
fn settle(store: &RingStore, shapes: &LaneShapes, resizes: u32) -> Result<Vec<u32>, SegmentError> {
    store.follow()?;
    for lane in pending(store, resizes) {
        if let Some(_held) = store.lock_for_relocation(lane)? {
            drop(settled(store, shapes, lane, resizes)?);
        }
    }
    store.follow()?;
    Ok(pending(store, resizes))
}

/// Returns the lanes that are not relocated yet.
fn pending(store: &RingStore, resizes: u32) -> Vec<u32> {
    let lanes = store.lanes();
    let old = (0..).zip(lanes.iter()).filter(|(_, lane)| lane.resizes() < resizes);
    old.map(|(number, _)| number).collect()
}

impl RingStore {
    /// Relocates a lane to the larger file that a resize made for it. Its writer continues in the
    /// returned lane. The result is `true` if it was relocated, `false` if there is no such file
    /// that the lane can use. Takes as long as copying the rows that the file lacks.
    pub fn relocate_lane(
        &self,
        number: u32,
        lane: ClaimedLane,
    ) -> (ClaimedLane, Result<bool, SegmentError>) {
        let moved = self.resizable().and_then(|(object, shapes)| {
            move_to_next(object, shapes, number, &lane, lane.memory(), self.resizes())
        });
        match moved {
            Ok(Some(new)) => {
                self.renew_limits();
                (lane.moved_to(Arc::new(new)), Ok(true))
            }
            Ok(None) => (lane, Ok(false)),
            Err(error) => (lane, Err(error)),
        }
    }
}

/// Opens the memory of a lane for its holder, relocated if a resize has made a larger file.
pub(crate) fn settled(
    store: &RingStore,
    shapes: &LaneShapes,
    number: u32,
    resizes: u32,
) -> Result<Lane, SegmentError> {
    let (object, _) = store.resizable()?;
    let name = lane_file(number);
    let lane = open(object, shapes, number, &name)?;
    if has_relocated(&lane) {
        // It was not relocated: a peer corrupted its counters.
        if !object.has(&next_file(number)) {
            return Ok(lane);
        }
        // Its last holder was killed before it renamed the new file.
        let next = open(object, shapes, number, &next_file(number))?;
        rename(object, number);
        store.renew_limits();
        return Ok(next);
    }
    if lane.resizes() >= resizes {
        return Ok(lane);
    }
    let next = move_to_next(object, shapes, number, &Writable(&lane), &lane, resizes)?;
    Ok(next.inspect(|_| store.renew_limits()).unwrap_or(lane))
}

/// Copies the missing rows, and puts the new file in the place of the old one.
fn move_to_next<L: WordsMut>(
    object: &Object,
    shapes: &LaneShapes,
    number: u32,
    lane: &L,
    old: &Lane,
    resizes: u32,
) -> Result<Option<Lane>, SegmentError> {
    let name = next_file(number);
    if !object.has(&name) {
        return Ok(None);
    }
    let new = match open(object, shapes, number, &name) {
        // The memory was freed with its creator, so this lane keeps its size.
        Err(SegmentError::MemoryGone { .. }) => return Ok(None),
        opened => opened?,
    };
    // Ignore a file that belongs to no announced resize, as after the kill of a process that
    // resized.
    if new.resizes() <= old.resizes() || new.resizes() > resizes || new.slots() < old.slots() {
        return Ok(None);
    }
    let widths = old.widths();
    copy_writer_counters(old, &new);
    if !Relocator::new(lane, &Writable(&new), &widths, block(&widths)).finish() {
        let path = object.path().join(lane_file(number));
        return Err(SegmentError::corrupt(&path, "its counters are impossible"));
    }
    rename(object, number);
    Ok(Some(new))
}

/// Returns whether there is a link to memory that no process has.
fn is_lost(object: &Object, name: &str) -> bool {
    let opened = object.memory(name, Access::ReadOnly, None);
    matches!(opened, Err(SegmentError::MemoryGone { .. }))
}

/// Locks the ring against other resizes.
fn lock(object: &Object) -> Result<LockFile, SegmentError> {
    let taken = object.lock(RESIZE_LOCK, LockMode::Exclusive)?;
    taken.ok_or_else(|| SegmentError::BeingResized { name: object.name().to_owned() })
}

fn open(object: &Object, shapes: &LaneShapes, lane: u32, name: &str) -> Result<Lane, SegmentError> {
    ring_files::open_lane(object, shapes, lane, name, Access::ReadWrite)
}

/// Returns the rows to copy at a time.
fn block(widths: &[usize]) -> u64 {
    let widest = widths.iter().copied().max().unwrap_or(1).max(1);
    (BLOCK_BYTES / widest).max(1) as u64
}

/// A lane that only this process may write now.
struct Writable<'a>(&'a Lane);

impl Words for Writable<'_> {
    fn load_head(&self, order: Ordering) -> u64 {
        self.0.load_head(order)
    }

    fn load_reserved(&self, order: Ordering) -> u64 {
        self.0.load_reserved(order)
    }

    fn fence(&self, at: Fence) {
        self.0.fence(at);
    }

    fn slots(&self) -> u64 {
        self.0.slots()
    }

    fn copy_out(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]) {
        self.0.copy_out(column, slot, rows, out);
    }
}

impl WordsMut for Writable<'_> {
    fn store_reserved(&self, value: u64, order: Ordering) {
        self.0.store_reserved(value, order);
    }

    fn store_head(&self, value: u64, order: Ordering) {
        self.0.store_head(value, order);
    }

    fn copy_in(&self, column: usize, slot: u64, row: &[u8]) {
        self.0.store_rows(column, slot, 1, row);
    }

    fn copy_rows_in(&self, column: usize, slot: u64, rows: u64, bytes: &[u8]) {
        self.0.store_rows(column, slot, rows, bytes);
    }
}
