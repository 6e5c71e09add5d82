//! Shapes of lanes by capacity. While a ring is resized, its lanes have two.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::SegmentError;
use crate::layout::column::ColumnRecord;
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane::{self, Columns};
use crate::layout::lane_header::LaneIdentity;

/// Sizes of a lane's file, the places of its columns, and the hash of the schema block.
#[derive(Debug)]
pub(crate) struct LaneShape {
    pub(crate) geometry: Geometry,
    pub(crate) columns: Columns,
    pub(crate) schema_hash: [u8; 32],
}

/// Shapes of the lanes of one ring.
#[derive(Debug)]
pub(crate) struct LaneShapes {
    pub(crate) ring_uuid: [u8; 16],
    spec: RingSpec,
    map_align: u64,
    known: Mutex<Vec<Arc<LaneShape>>>,
}

impl LaneShapes {
    /// Returns the shapes of a ring that `spec` describes, for any size of its lanes.
    pub(crate) fn new(ring_uuid: [u8; 16], spec: RingSpec, map_align: u64) -> Self {
        Self { ring_uuid, spec, map_align, known: Mutex::default() }
    }

    pub(crate) fn spec(&self) -> &RingSpec {
        &self.spec
    }

    pub(crate) fn map_align(&self) -> u64 {
        self.map_align
    }

    /// Returns the shape of a lane of this capacity.
    pub(crate) fn of(&self, lane_capacity: u64) -> Result<Arc<LaneShape>, SegmentError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = known.iter().find(|it| it.geometry.lane_capacity == lane_capacity) {
            return Ok(Arc::clone(shape));
        }
        let spec = RingSpec { lane_capacity, ..self.spec.clone() };
        let geometry = Geometry::of(&spec, self.map_align)?;
        let schema_hash = schema_hash(&spec, &geometry);
        let columns =
            lane::columns(&geometry).map_err(SegmentError::io("place", Path::new("lane")))?;
        let shape = Arc::new(LaneShape { geometry, columns, schema_hash });
        // A faulty peer may name any number of capacities; real rings have at most two.
        known.truncate(1);
        known.push(Arc::clone(&shape));
        Ok(shape)
    }

    /// Returns the identity with which the file of a lane of this shape begins.
    pub(crate) fn identity(&self, shape: &LaneShape, lane: u32, resizes: u32) -> LaneIdentity {
        LaneIdentity::new(self.ring_uuid, &shape.schema_hash, &shape.geometry, lane, resizes)
    }
}

/// Returns the BLAKE3 hash of the schema block.
pub(crate) fn schema_hash(spec: &RingSpec, geometry: &Geometry) -> [u8; 32] {
    *blake3::hash(bytemuck::cast_slice(&records(spec, geometry))).as_bytes()
}

/// Returns the schema block.
pub(crate) fn records(spec: &RingSpec, geometry: &Geometry) -> Vec<ColumnRecord> {
    let places = spec.columns.iter().zip(&geometry.places);
    places.map(|(column, place)| ColumnRecord::new(column, place.offset, place.length)).collect()
}
