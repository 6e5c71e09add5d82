//! Creates the files of a ring, and stores rows in them before the ring gets its name.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::error::ObjectKind;
use crate::error::SegmentError;
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane_shape::LaneShapes;
use crate::os::mapping::{Access, page_size};
use crate::store::memfd::KeptMemfds;
use crate::store::object::{Object, check_stays};
use crate::store::ring_files::{self, RingFolder};
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::{UnnamedMemory, UnnamedRing};

/// State shared by the attempts to create a ring. `E` is the error of the function that fills it.
pub(crate) struct RingCreation<'a, E> {
    name: &'a str,
    spec: &'a RingSpec,
    geometry: Geometry,
    memory: KeptMemfds,
    stopped: Option<E>,
}

impl<'a, E: From<SegmentError>> RingCreation<'a, E> {
    pub(crate) fn of(name: &'a str, spec: &'a RingSpec) -> Result<Self, SegmentError> {
        let geometry = Geometry::of(spec, page_size() as u64)?;
        Ok(Self { name, spec, geometry, memory: KeptMemfds::default(), stopped: None })
    }

    /// Makes one attempt in a directory: `files` creates the files of the ring there, `fill` stores
    /// rows in them.
    pub(crate) fn attempt(
        &mut self,
        (dir, path): (&OwnedFd, &Path),
        files: impl FnOnce(RingFolder<'_>) -> Result<LaneShapes, SegmentError>,
        fill: impl FnOnce(&UnnamedRing<'_>) -> Result<(), E>,
    ) -> Result<(), SegmentError> {
        // Release the memory of an attempt that lost the name to another process.
        self.memory.clear();
        let folder = RingFolder { dir, path, memfds: self.spec.memfd.then_some(&self.memory) };
        let shapes = files(folder)?;
        let place = UnnamedMemory::Files { folder, shapes: &shapes };
        fill(&UnnamedRing::new(self.spec, &self.geometry, place)).map_err(|error| {
            self.stopped = Some(error);
            SegmentError::Abandoned { kind: ObjectKind::Ring, name: self.name.to_owned() }
        })?;
        self.check_fits(folder, &shapes)
    }

    /// Maps all lanes together, as users of the ring will. A ring that does not fit the address
    /// space is refused before an existing object loses the name.
    fn check_fits(&self, folder: RingFolder<'_>, shapes: &LaneShapes) -> Result<(), SegmentError> {
        let access = Access::ReadOnly;
        let map = |lane| {
            let name = ring_files::lane_file(lane);
            let fd = folder.open(&name, access)?;
            ring_files::map_lane(&fd, &folder.path.join(name), shapes, lane, access)
        };
        (0..self.spec.lanes).map(map).collect::<Result<Vec<_>, _>>().map(drop)
    }

    /// Returns the ring that the last attempt built, or an existing one, which must have the same
    /// description. The flag is `true` if it was built.
    pub(crate) fn finish(
        self,
        made: Result<(Object, bool), SegmentError>,
        persistent: bool,
    ) -> Result<(RingStore, bool), E> {
        let (mut object, built) = match (made, self.stopped) {
            (Err(_), Some(error)) => return Err(error),
            (made, _) => made?,
        };
        if built {
            object.take_over(self.memory);
        }
        let store = RingStore::of(object)?;
        if !built {
            store.check_same(self.name, self.spec)?;
            check_stays(ObjectKind::Ring, self.name, store.persistent(), persistent)?;
        }
        Ok((store, built))
    }
}
