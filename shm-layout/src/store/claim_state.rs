//! States of tables of claims: read beside claimants, and restored in a ring without a name.

use super::claim_table::header_of;
use super::table_file::{Listed, NamedTable, NewTable, listed, make_unnamed, opened_again};
use crate::error::SegmentError;
use crate::layout::claim_table::{ClaimHeader, ClaimMemory, ClaimSettings, claim_bytes};
use crate::protocol::claim::{self, ClaimPass};
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::UnnamedRing;

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
    /// Returns the states of the tables of claims, by name, or the error of one that cannot be
    /// opened. The numbers of a pass are not checked. Fails if the ring cannot be listed.
    pub fn claim_states(&self) -> Result<Vec<NamedTable<ClaimTableState>>, SegmentError> {
        let of_table = |(name, memory): Listed<ClaimMemory>| {
            let state = memory.map(|memory| state(name.clone(), &memory));
            (name, state)
        };
        Ok(listed(self)?.into_iter().map(of_table).collect())
    }

    /// Returns the state of a table of claims that was opened before. The numbers of its pass are
    /// not checked. Creates none: fails if it was removed.
    pub fn claim_state(&self, name: &str) -> Result<ClaimTableState, SegmentError> {
        let memory = opened_again::<ClaimMemory>(self, name)?;
        Ok(state(name.to_owned(), &memory))
    }
}

fn state(name: String, memory: &ClaimMemory) -> ClaimTableState {
    let (pass, next) = claim::read_with_position(memory, memory.lanes as usize);
    let (drawn, passes) = memory.counts();
    let settings = header_of(memory).settings();
    ClaimTableState { name, settings, pass, next, passes, drawn }
}

impl UnnamedRing<'_> {
    /// Creates a table of claims of the ring, which goes on from a state. The caller has checked
    /// the state.
    pub fn claims(&self, state: &ClaimTableState) -> Result<(), SegmentError> {
        let lanes = self.spec().lanes;
        let ClaimTableState { pass, settings, .. } = state;
        let (at, counts) = ((pass, state.next), (state.drawn, state.passes));
        let image = |uuid| image((lanes, uuid), *settings, at, counts);
        let new = NewTable::<ClaimMemory> { shape: lanes, image: &image };
        make_unnamed(self, &state.name, &new).map(|_| ())
    }
}

/// Returns the first bytes of a table of which nothing was claimed. All bytes after them are zero.
pub(super) fn empty(lanes: u32, ring_uuid: [u8; 16], settings: ClaimSettings) -> Vec<u8> {
    bytemuck::bytes_of(&ClaimHeader::new(lanes, ring_uuid, settings)).to_vec()
}

/// Returns the bytes of a table with a pass, the next position in it, and the numbers of drawn
/// transitions and of begun passes.
fn image(
    (lanes, ring_uuid): (u32, [u8; 16]),
    settings: ClaimSettings,
    (pass, next): (&ClaimPass, u64),
    (drawn, passes): (u64, u64),
) -> Vec<u8> {
    let header = ClaimHeader::new(lanes, ring_uuid, settings);
    let header: [u64; 16] = bytemuck::cast(header);
    let mut image = header.to_vec();
    image.resize(usize::try_from(claim_bytes(lanes)).unwrap_or(usize::MAX) / size_of::<u64>(), 0);
    let counters = ClaimHeader::counters(claim::word(pass, next), drawn, passes);
    let counters: [u64; 16] = bytemuck::cast(counters);
    let bank = claim::bank_of(pass.number) * (1 + 2 * lanes as usize);
    let ranges = pass.ranges.iter().flat_map(|rows| [rows.start, rows.end]);
    let ranges = std::iter::once(pass.round).chain(ranges.take(2 * lanes as usize));
    let places = (16..).zip(counters).chain((32 + bank..).zip(ranges));
    for (at, value) in places {
        if let Some(place) = image.get_mut(at) {
            *place = value;
        }
    }
    bytemuck::cast_slice(&image).to_vec()
}
