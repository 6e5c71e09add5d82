//! Leftovers of an earlier resize: files to which no lane will be relocated, and relocated lanes
//! whose new file lacks the name of the lane.
//!
//! Only the holder of a lane renames its new file. No resize creates another new file before that:
//! `lane-NNNN.next` would then mean a file without the rows of the lane.

use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, renameat, unlinkat};

use crate::error::SegmentError;
use crate::os::mapping::Access;
use crate::protocol::has_relocated;
use crate::store::object::Object;
use crate::store::ring_files::{self, NEXT_CTL, lane_file, next_file};
use crate::store::ring_store::RingStore;

/// Maximum wait for the holder of a relocated lane to rename the new file, which is its next system
/// call. A holder that takes longer is stopped, or its file system refuses.
pub(super) const LANE_WAIT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Gives the file that a lane was relocated to the name of the old one. Readers keep the old one as
/// long as they need. The caller holds the lane. If renaming fails, the new file is nevertheless
/// the lane: processes find it under either name, and the next holder tries again.
pub(super) fn rename(object: &Object, number: u32) {
    let _ = renameat(object.dir(), next_file(number), object.dir(), lane_file(number));
}

/// Removes leftover new files. Waits up to `limit` for holders of relocated lanes that have not
/// renamed theirs yet, and then fails.
pub(super) fn clear_leftovers(store: &RingStore, limit: Duration) -> Result<(), SegmentError> {
    let begin = Instant::now();
    loop {
        let lanes = remove_leftovers(store)?;
        if lanes.is_empty() {
            return Ok(());
        }
        if begin.elapsed() >= limit {
            let (object, _) = store.resizable()?;
            let rows = ring_files::read_ctl(object)?.0.lane_capacity;
            let name = object.name().to_owned();
            return Err(SegmentError::ResizeUnfinished { name, lanes, rows });
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Removes the files of a resize that was not announced. A file that cannot be removed only costs
/// space. Renames the new file of a lane whose holder was killed before it did. Returns lanes that
/// are left to live holders. The caller holds the lock for resizing.
pub(super) fn remove_leftovers(store: &RingStore) -> Result<Vec<u32>, SegmentError> {
    let (object, shapes) = store.resizable()?;
    let relocated = |lane| {
        let name = lane_file(lane);
        let old = ring_files::open_lane(object, shapes, lane, &name, Access::ReadOnly);
        old.map(|old| has_relocated(&old))
    };
    let mut left = Vec::new();
    for lane in (0..store.spec().lanes).filter(|lane| object.has(&next_file(*lane))) {
        match relocated(lane) {
            Ok(true) => match store.lock_for_relocation(lane)? {
                // Its holder may have renamed it first.
                Some(_held) if matches!(relocated(lane), Ok(true)) => rename(object, lane),
                Some(_) => {}
                None => left.push(lane),
            },
            Ok(false) => drop(unlinkat(object.dir(), next_file(lane), AtFlags::empty())),
            // Whether it was relocated is unknown.
            Err(_) => {}
        }
    }
    let _ = unlinkat(object.dir(), NEXT_CTL, AtFlags::empty());
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::layout::counted::spec;
    use crate::layout::lane::Lane;
    use crate::os::byte_lock::Claim;
    use crate::protocol::{Relocator, Words, WordsMut};
    use crate::store::mapped_lanes::current_of;
    use crate::store::relocation::{LaneSize, Relocation, Writable, block};
    use crate::{Base, Exist, RingSpec};

    const ROWS: u64 = 100;

    fn size(lane_capacity: u64) -> LaneSize {
        LaneSize { lane_capacity, asked_rows: lane_capacity, asked_bytes: 0 }
    }

    fn file(store: &RingStore, name: &str, access: Access) -> Result<Lane, SegmentError> {
        let (object, shapes) = store.resizable()?;
        ring_files::open_lane(object, shapes, 0, name, access)
    }

    /// Creates a ring of one lane with some rows, for which a resize is announced.
    fn notified_store(base: &Base) -> Arc<RingStore> {
        let spec = RingSpec { lanes: 1, ..spec(&[8], 1_000) };
        let store = RingStore::create(base, "moves", &spec, Exist::Error, false).unwrap().0;
        let store = Arc::new(store);
        let writer = store.claim_lane(0).unwrap().unwrap();
        writer.store_reserved(ROWS, Relaxed);
        writer.store_head(ROWS, Relaxed);
        let mut resizing = Relocation::begin(&store, size(5_000), None).unwrap();
        resizing.copy(0).unwrap();
        resizing.tell().unwrap();
        store
    }

    /// Relocates a lane like a writer, but does not rename the new file. The lane stays held.
    fn moves(store: &RingStore) -> Claim {
        let held = store.lock_for_writer(0, Duration::ZERO).unwrap().unwrap();
        let [old, new] =
            [lane_file(0), next_file(0)].map(|name| file(store, &name, Access::ReadWrite).unwrap());
        let widths = old.widths();
        let (old, new) = (Writable(&old), Writable(&new));
        assert!(Relocator::new(&old, &new, &widths, block(&widths)).finish());
        held
    }

    #[test]
    fn no_new_file_is_made_while_a_writer_is_about_to_give_one_its_name() {
        let dir = tempfile::tempdir().unwrap();
        for killed in [false, true] {
            let store = notified_store(&Base::at(dir.path()));
            let held = moves(&store);
            let refused = clear_leftovers(&store, Duration::ZERO).unwrap_err();
            let SegmentError::ResizeUnfinished { lanes, rows, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!((lanes, rows), (vec![0], 5_000));
            if !killed {
                rename(store.resizable().unwrap().0, 0);
            }
            drop(held);
            let resizing = Relocation::begin(&store, size(9_000), None).unwrap();
            let named = file(&store, &lane_file(0), Access::ReadOnly).unwrap();
            assert_eq!((named.resizes(), named.load_head(Relaxed)), (1, ROWS), "{killed}");
            drop(resizing);
            assert!(file(&store, &next_file(0), Access::ReadOnly).is_err(), "{killed}");
        }
    }

    #[test]
    fn a_writer_waits_for_a_relocation_and_is_refused_by_another_writer() {
        let dir = tempfile::tempdir().unwrap();
        let store = notified_store(&Base::at(dir.path()));
        let relocating = store.lock_for_relocation(0).unwrap().unwrap();
        assert!(!store.lane_held(0) && !store.has_writer(), "nobody writes");
        let error = store.lock_for_writer(0, Duration::ZERO).unwrap_err();
        assert!(matches!(error, SegmentError::LaneRelocating { lane: 0, .. }), "{error}");
        thread::scope(|scope| {
            let (sender, claimed) = std::sync::mpsc::channel();
            let store = &store;
            scope.spawn(move || sender.send(store.claim_lane(0).unwrap()));
            // A claim that did not wait for the relocation would return within 20 ms.
            let early = claimed.recv_timeout(Duration::from_millis(20));
            assert!(early.is_err(), "{early:?}");
            drop(relocating);
            let claim = claimed.recv_timeout(backcast_budget::WATCHDOG).unwrap();
            let _writer = claim.expect("no other writer has the lane");
            assert!(store.lane_held(0) && store.has_writer());
            assert!(store.claim_lane(0).unwrap().is_none());
            assert!(store.lock_for_relocation(0).unwrap().is_none(), "it relocates itself");
        });
    }

    #[test]
    fn unannounced_files_are_not_taken_for_a_relocated_lane() {
        let dir = tempfile::tempdir().unwrap();
        let store = notified_store(&Base::at(dir.path()));
        drop(moves(&store));
        let mut resizing = None;
        let found = current_of(0, |name| {
            // Another resize begins between the opening of the two names.
            if name == next_file(0) && resizing.is_none() {
                resizing = Some(Relocation::begin(&store, size(9_000), None)?);
            }
            file(&store, name, Access::ReadOnly)
        });
        let found = found.unwrap();
        assert!(resizing.is_some());
        assert_eq!((found.resizes(), found.load_head(Relaxed)), (1, ROWS));
    }
}
