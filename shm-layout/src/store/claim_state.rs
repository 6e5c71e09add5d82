//! States of tables of claims: read beside claimants, and restored in a ring without a name.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use super::claim_table::{header_of, open};
use super::table_file::{HeapTable, listed, make};
use crate::error::SegmentError;
use crate::layout::claim_table::{ClaimHeader, ClaimMemory, ClaimSettings, claim_bytes};
use crate::layout::names::check_name;
use crate::os::mapping::Mapping;
use crate::os::space;
use crate::protocol::claim::{self, ClaimPass};
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::{UnnamedMemory, UnnamedRing};

/// A table of claims at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimTableState {
    /// Name of the table.
    pub name: String,
    /// Its settings.
    pub settings: ClaimSettings,
    /// The current pass.
    pub pass: ClaimPass,
    /// Next position in the pass.
    pub next: u64,
    /// Passes that were begun.
    pub passes: u64,
    /// Transitions of batches that were drawn.
    pub drawn: u64,
}

impl RingStore {
    /// Returns the states of all tables of claims, by name, or the error of one that cannot be
    /// opened. A pass may have any numbers.
    pub fn claim_states(&self) -> Result<Vec<ClaimTableState>, SegmentError> {
        self.each_claim_state().into_iter().collect()
    }

    /// Returns the states like [`claim_states`](Self::claim_states), without those of tables that
    /// cannot be opened.
    #[must_use]
    pub fn readable_claim_states(&self) -> Vec<ClaimTableState> {
        self.each_claim_state().into_iter().filter_map(Result::ok).collect()
    }

    fn each_claim_state(&self) -> Vec<Result<ClaimTableState, SegmentError>> {
        let (uuid, lanes) = (self.uuid(), self.spec().lanes);
        let of_heap = |table| match table {
            HeapTable::Claims(memory) => Some(memory),
            HeapTable::Priorities(_) | HeapTable::Learned(_) => None,
        };
        let tables = listed(self, of_heap, |object, name| open(object, name, uuid, lanes));
        tables.into_iter().map(|table| table.map(|(name, memory)| state(name, &memory))).collect()
    }
}

fn state(name: String, memory: &ClaimMemory) -> ClaimTableState {
    let pass = claim::read(memory, memory.lanes as usize);
    // Another pass that began meanwhile has begun because all of this one were claimed.
    let next = match claim::position(memory) {
        (number, next) if number == pass.number => next,
        _ => pass.total(),
    };
    let (drawn, passes) = memory.counts();
    let settings = header_of(memory).settings();
    ClaimTableState { name, settings, pass, next, passes, drawn }
}

impl UnnamedRing<'_> {
    /// Creates a table of claims of the ring, which goes on from a state. The caller has checked
    /// the state.
    pub fn claims(&self, state: &ClaimTableState) -> Result<(), SegmentError> {
        check_name(&state.name)?;
        let lanes = self.spec().lanes;
        match self.place() {
            UnnamedMemory::Heap { tables, .. } => {
                let image = image(lanes, [0; 16], state);
                let table = HeapTable::Claims(Arc::new(heap(lanes, &image)?));
                let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
                tables.insert(state.name.clone(), table);
            }
            UnnamedMemory::Files { folder, shapes } => {
                let image = image(lanes, shapes.ring_uuid, state);
                let bytes = bytemuck::cast_slice(&image);
                make(folder.dir, folder.path, &state.name, &[bytes], claim_bytes(lanes))?;
            }
        }
        Ok(())
    }
}

/// Returns the words of a table of which nothing was claimed.
pub(super) fn empty(lanes: u32, ring_uuid: [u8; 16], settings: ClaimSettings) -> Vec<u64> {
    let header = ClaimHeader::new(lanes, ring_uuid, settings);
    let header: [u64; 16] = bytemuck::cast(header);
    let mut words = header.to_vec();
    words.resize(usize::try_from(claim_bytes(lanes)).unwrap_or(usize::MAX) / size_of::<u64>(), 0);
    words
}

/// Returns the words of a table that goes on from a state.
fn image(lanes: u32, ring_uuid: [u8; 16], state: &ClaimTableState) -> Vec<u64> {
    let mut image = empty(lanes, ring_uuid, state.settings);
    let claim = claim::word(&state.pass, state.next);
    let counters = ClaimHeader::counters(claim, state.drawn, state.passes);
    let counters: [u64; 16] = bytemuck::cast(counters);
    let bank = claim::bank_of(state.pass.number) * (1 + 2 * lanes as usize);
    let ranges = state.pass.ranges.iter().flat_map(|rows| [rows.start, rows.end]);
    let ranges = std::iter::once(state.pass.round).chain(ranges.take(2 * lanes as usize));
    let places = (16..).zip(counters).chain((32 + bank..).zip(ranges));
    for (at, value) in places {
        if let Some(place) = image.get_mut(at) {
            *place = value;
        }
    }
    image
}

/// Creates a table in private memory.
pub(super) fn heap(lanes: u32, image: &[u64]) -> Result<ClaimMemory, SegmentError> {
    let bytes = claim_bytes(lanes);
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let map = space::private_memory(bytes, || Mapping::heap(len))?;
    let words = map.words64(0, image.len()).unwrap_or_default();
    words.iter().zip(image).for_each(|(word, value)| word.store(*value, Relaxed));
    Ok(ClaimMemory { map, lanes })
}
