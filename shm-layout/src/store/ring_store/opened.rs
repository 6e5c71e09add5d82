//! Opens a ring from its files, none of which is trusted.

use std::sync::{Arc, OnceLock};

use super::{RingBacking, RingOrigin, RingStore};
use crate::error::SegmentError;
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane_policy::LanePolicy;
use crate::layout::lane_shape::{self, LaneShapes};
use crate::layout::low_marks::LowMark;
use crate::os::mapping::Access;
use crate::store::mapped_lanes::{self, MappedLanes};
use crate::store::object::Object;
use crate::store::ring_files::{self, CTL, SNAPSHOT_FILE};

impl RingStore {
    pub(crate) fn of(object: Object) -> Result<Self, SegmentError> {
        let (superblock, columns) = ring_files::read_ctl(&object)?;
        let path = object.path().join(CTL);
        let (policy, timeout_ms) = (superblock.lane_policy, superblock.lease_timeout_ms);
        let policy = LanePolicy::from_words(policy, timeout_ms).ok_or_else(|| {
            let what = format!("its lane policy, {policy} with {timeout_ms} ms, is not valid");
            SegmentError::corrupt(&path, what)
        })?;
        let spec = RingSpec {
            columns,
            lanes: superblock.lane_count,
            lane_capacity: superblock.lane_capacity,
            reserve_chunk: superblock.reserve_chunk,
            reader_slots: superblock.reader_slots,
            asked_rows: superblock.asked_rows,
            asked_bytes: superblock.asked_bytes,
            policy,
            huge_pages: superblock.huge_bytes > 0,
            memfd: object.is_in_memfds(),
            snapshot: object.has(SNAPSHOT_FILE),
            snapshot_of: ring_files::read_mark(&object)?,
            limits: ring_files::read_limits(&object)?,
        };
        ring_files::check_special_files(&object, &superblock, &spec)?;
        // Computed from the schema: the sizes in the file must agree, and are not used.
        let geometry = Geometry::of(&spec, u64::from(superblock.map_align))
            .map_err(|e| SegmentError::corrupt(&path, format!("its sizes are impossible: {e}")))?;
        let said =
            (superblock.slots, superblock.lane_bytes, superblock.ctl_bytes, superblock.rdr_bytes);
        let is = (geometry.slots, geometry.lane_bytes, geometry.ctl_bytes, geometry.rdr_bytes);
        if said != is {
            return Err(SegmentError::corrupt(
                &path,
                format!("it claims sizes {said:?}, not {is:?}"),
            ));
        }
        let ring_uuid = superblock.ring_uuid;
        // Check the offsets, widths and padding of the records: they must be the bytes that this
        // build would write.
        if lane_shape::schema_hash(&spec, &geometry) != superblock.schema_hash {
            let what = "its column records disagree with the sizes of its columns";
            return Err(SegmentError::corrupt(&path, what));
        }
        let readers = ring_files::map_readers(&object, &geometry, ring_uuid, &spec)?;
        let limiter = ring_files::map_limiter(&object, &geometry, ring_uuid, &spec)?;
        // A process that resized the ring may have been killed before it notified the writers.
        readers.count_resizes(superblock.resizes);
        let shapes = LaneShapes::new(ring_uuid, spec.clone(), superblock.map_align.into());
        let marks =
            ring_files::map_low_marks(&object, &geometry, ring_uuid, &spec, Access::ReadOnly)?;
        let marks = Arc::new(marks);
        let lanes = (0..spec.lanes)
            .map(|lane| {
                let memory = mapped_lanes::current(&object, &shapes, lane, Access::ReadOnly)?;
                Ok(Arc::new(memory.with_low(LowMark::new(&marks, lane))))
            })
            .collect::<Result<Vec<_>, SegmentError>>()?;
        let locks = object.lock_handle()?;
        let origin = RingOrigin {
            created_unix_ns: superblock.created_unix_ns,
            lane_capacity: superblock.made_lane_capacity,
        };
        let place = RingBacking::Named { object, shapes, locks };
        let lanes = MappedLanes::new(lanes, marks, (&superblock).into());
        let barrier = OnceLock::new();
        Ok(Self { spec, geometry, origin, lanes, readers, limiter, barrier, place })
    }
}
