//! For tests: rings whose bytes tell where they stand.

use crate::protocol::Words;
use crate::{Column, DType, LanePolicy, RingSpec, RingStore, Role};

/// Two lanes with a column of each width.
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
    }
}

/// Rows of such lanes whose bytes count up, slot by slot.
pub(super) fn store(widths: &[usize], lane_capacity: u64) -> RingStore {
    let store = RingStore::heap(&spec(widths, lane_capacity)).unwrap();
    for lane in store.lanes().iter() {
        for (column, width) in widths.iter().enumerate() {
            for slot in 0..lane.slots() {
                lane.store_rows(column, slot, 1, &row(slot, *width));
            }
        }
    }
    store
}

/// What stands in a slot of a column.
pub(super) fn row(slot: u64, width: usize) -> Vec<u8> {
    (0..width).map(|i| u8::try_from((usize::try_from(slot).unwrap() + i) % 256).unwrap()).collect()
}
