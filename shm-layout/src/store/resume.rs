//! Rings that continue from the rows that a killed process stored.

use std::fs;
use std::path::Path;

use crate::error::SegmentError;
use crate::layout::geometry::RingSpec;
use crate::layout::lane_shape::LaneShapes;
use crate::layout::names::Exist;
use crate::os::mapping::Access;
use crate::store::object::{Object, PartialRing, is_lock};
use crate::store::ring_creation::RingCreation;
use crate::store::ring_files::{self, CTL, RingFolder};
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::UnnamedRing;

/// State of a partial ring before it is filled.
#[derive(Debug)]
pub enum Leftover {
    /// Nothing.
    Nothing,
    /// The requested ring. The process that stored its rows must have recorded how many.
    Ring,
    /// Unusable files, for this reason. They were removed.
    Useless(SegmentError),
}

impl RingStore {
    /// Creates a ring like [`create_filled`](Self::create_filled), but keeps the rows stored so far
    /// when the process is killed or `fill` fails: the next call passes them to `fill`. Rows in
    /// memfds are lost with the process.
    pub fn create_in<E: From<SegmentError>>(
        partial: &PartialRing,
        spec: &RingSpec,
        exist: Exist,
        persistent: bool,
        mut fill: impl FnMut(&UnnamedRing<'_>, &Leftover) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut making = RingCreation::of(partial.name(), spec)?;
        let mut leftover = look(partial, spec);
        if !matches!(leftover, Leftover::Ring) {
            partial.clear_ring()?;
        }
        let made = Object::create_in(partial, exist, persistent, |dir, path| {
            let files = |folder: RingFolder<'_>| match shapes(partial, folder, spec)? {
                Some(shapes) => Ok(shapes),
                None => ring_files::make(folder, spec),
            };
            making.attempt((dir, path), files, |unnamed| {
                let filled = fill(unnamed, &leftover);
                // Another process may take the name first: then this runs again.
                leftover = if spec.memfd { Leftover::Nothing } else { Leftover::Ring };
                filled
            })
        });
        Ok(making.finish(made, persistent)?.0)
    }
}

/// Checks whether the partial ring can be continued: every header is valid, and it is the requested
/// ring.
fn look(partial: &PartialRing, spec: &RingSpec) -> Leftover {
    let same = |object| {
        let store = RingStore::of(object)?;
        store.check_same(partial.name(), spec)?;
        Ok(())
    };
    match partial.look() {
        Ok(None) => Leftover::Nothing,
        // Its maker was killed before the ring was complete, or its memory was lost with the maker.
        Ok(Some(object)) if spec.memfd || object.is_in_memfds() || !object.has(CTL) => {
            Leftover::Nothing
        }
        Ok(Some(object)) => same(object).map_or_else(Leftover::Useless, |()| Leftover::Ring),
        Err(error) => Leftover::Useless(error),
    }
}

/// Returns the shapes of the partial ring, with its headers reset. No process has attached to it
/// yet. Returns `None` if there is no ring.
fn shapes(
    partial: &PartialRing,
    folder: RingFolder<'_>,
    spec: &RingSpec,
) -> Result<Option<LaneShapes>, SegmentError> {
    let object = partial.look()?;
    let Some(object) = object.filter(|object| !spec.memfd && object.has(CTL)) else {
        clear(folder.path)?;
        return Ok(None);
    };
    let (superblock, _) = ring_files::read_ctl(&object)?;
    let shapes = LaneShapes::new(superblock.ring_uuid, spec.clone(), superblock.map_align.into());
    let geometry = &shapes.of(spec.lane_capacity)?.geometry;
    ring_files::make_readers_anew(folder, &shapes, geometry)?;
    for lane in 0..spec.lanes {
        let name = ring_files::lane_file(lane);
        let fd = folder.open(&name, Access::ReadWrite)?;
        let path = folder.path.join(name);
        ring_files::map_lane(&fd, &path, &shapes, lane, Access::ReadWrite)?.forget();
    }
    Ok(Some(shapes))
}

/// Removes files that were made before there was no space for others.
fn clear(path: &Path) -> Result<(), SegmentError> {
    let failed = || SegmentError::io("remove", path);
    for entry in fs::read_dir(path).map_err(failed())?.filter_map(Result::ok) {
        let name = entry.file_name();
        if !is_lock(&name) && name != Object::PERSISTENT {
            fs::remove_file(entry.path()).map_err(failed())?;
        }
    }
    Ok(())
}
