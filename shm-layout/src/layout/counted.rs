//! Lanes for tests, whose bytes encode their position.

use std::sync::Arc;

use super::column::{Column, DType, Role};
use super::geometry::{Geometry, RingSpec};
use super::lane::{self, Lane};
use super::lane_policy::LanePolicy;

/// Describes two lanes with a column of each width.
pub(crate) fn spec(widths: &[usize], lane_capacity: u64) -> RingSpec {
    let column = |(number, width): (usize, &usize)| {
        let bytes = u32::try_from(*width).unwrap();
        Column::new(&format!("c{number}"), DType::U8, &[bytes], Role::Step).unwrap()
    };
    RingSpec {
        columns: widths.iter().enumerate().map(column).collect(),
        lanes: 2,
        lane_capacity,
        reserve_chunk: 16,
        reader_slots: 4,
        asked_rows: 2 * lane_capacity,
        asked_bytes: 0,
        policy: LanePolicy::default(),
        huge_pages: false,
        memfd: false,
        snapshot: false,
        snapshot_of: String::new(),
        limits: None,
    }
}

/// Allocates two such lanes on the heap. Their bytes count up, slot by slot.
pub(super) fn lanes(widths: &[usize], lane_capacity: u64) -> Vec<Arc<Lane>> {
    let geometry = Geometry::of(&spec(widths, lane_capacity), 1).unwrap();
    let columns = lane::columns(&geometry).unwrap();
    let lanes = [(); 2].map(|()| Arc::new(Lane::heap(&geometry, &columns).unwrap()));
    for lane in &lanes {
        for (column, width) in widths.iter().enumerate() {
            for slot in 0..lane.slots {
                lane.store_rows(column, slot, 1, &row(slot, *width));
            }
        }
    }
    lanes.into()
}

/// Returns the bytes of the row in a slot.
pub(super) fn row(slot: u64, width: usize) -> Vec<u8> {
    (0..width).map(|i| u8::try_from((usize::try_from(slot).unwrap() + i) % 256).unwrap()).collect()
}
