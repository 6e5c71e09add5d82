//! Tables of claims of a ring: created whole under their lock, opened and listed.

use std::path::Path;
use std::sync::Arc;

use super::claim_state;
use super::table_file::{
    HeapTable, NewTable, OpenTable, TableFile, TableKind, TableLock, TableName, lock_byte,
    open_or_make, readable,
};
use crate::error::SegmentError;
use crate::layout::claim_table::{ClaimHeader, ClaimMemory, ClaimSettings, claim_bytes};
use crate::layout::table_header::KIND_CLAIMS;
use crate::os::mapping::Mapping;
use crate::protocol::claim::{self, ClaimPass};
use crate::store::ring_store::RingStore;

/// A table of claims: each row of a pass goes to one claimant, in all processes.
#[derive(Debug)]
pub struct ClaimTable {
    // Dropped before the store: the lock holds the object too, and the store removes the object
    // only as its last holder.
    lock: TableLock,
    store: Arc<RingStore>,
    memory: Arc<ClaimMemory>,
    name: TableName,
    settings: ClaimSettings,
}

/// Description of a table of claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimTableInfo {
    /// Name of the table.
    pub name: String,
    /// Its settings.
    pub settings: ClaimSettings,
    /// Bytes of the table.
    pub bytes: u64,
    /// Passes that were begun.
    pub passes: u64,
    /// Transitions of batches that were drawn.
    pub drawn: u64,
    /// Rows that writers overwrote before a draw had them, since the first draw or since the table
    /// was loaded.
    pub overwritten: u64,
    /// The current pass. Its ranges may be any numbers.
    pub pass: ClaimPass,
    /// Next position in the pass.
    pub next: u64,
}

impl ClaimTable {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// Returns the ring that the table belongs to.
    #[must_use]
    pub fn store(&self) -> &Arc<RingStore> {
        &self.store
    }

    /// Returns the settings that it was created with.
    #[must_use]
    pub fn settings(&self) -> ClaimSettings {
        self.settings
    }

    /// Fails if the table was removed since it was opened. At most one system call if it was not.
    pub fn check_not_removed(&self) -> Result<(), SegmentError> {
        self.name.check(&self.store, &self.memory)
    }

    /// Claims up to `want` positions of a pass that has `total`; see [`claim::take`].
    #[must_use]
    pub fn take(&self, pass: u64, total: u64, want: u64) -> Option<std::ops::Range<u64>> {
        claim::take(&*self.memory, pass, total, want)
    }

    /// Gives claimed positions back that were not used; see [`claim::give_back`].
    #[must_use]
    pub fn give_back(&self, pass: u64, positions: &std::ops::Range<u64>) -> bool {
        claim::give_back(&*self.memory, pass, positions)
    }

    /// Returns the number of the current pass and the next position in it.
    #[must_use]
    pub fn position(&self) -> (u64, u64) {
        claim::position(&*self.memory)
    }

    /// Copies the current pass. Its ranges may be any numbers.
    #[must_use]
    pub fn read(&self) -> ClaimPass {
        claim::read(&*self.memory, self.memory.lanes as usize)
    }

    /// Begins the pass after pass `number`, unless another process has begun it or given positions
    /// back. `next` computes the new pass from the current one and the number of its positions
    /// that are claimed, with the number of rows between the two that were overwritten. Returns
    /// `None` while another handle holds the lock, `false` if `next` returns no pass, and otherwise
    /// `true`. Fails if the table was removed.
    pub fn try_begin(
        &self,
        number: u64,
        next: impl FnOnce(ClaimPass, u64) -> Option<(ClaimPass, u64)>,
    ) -> Result<Option<bool>, SegmentError> {
        let path = self.store.path().unwrap_or(Path::new("private memory"));
        let byte = lock_byte(&self.name.name);
        let Some(_held) = self.lock.try_lock(byte, path)? else { return Ok(None) };
        self.name.check(&self.store, &self.memory)?;
        let found = self.read();
        if found.number != number {
            return Ok(Some(true));
        }
        let (of, claimed) = self.position();
        if of != number {
            return Ok(Some(true));
        }
        let Some((pass, overwritten)) = next(found, claimed) else { return Ok(Some(false)) };
        if claim::begin(&*self.memory, &pass, claimed) {
            self.memory.count_pass();
            self.memory.count_overwritten(overwritten);
        }
        Ok(Some(true))
    }

    /// Counts transitions of a batch.
    pub fn count_drawn(&self, rows: u64) {
        self.memory.count_drawn(rows);
    }

    /// Subtracts transitions of a batch that was counted and not returned.
    pub fn uncount_drawn(&self, rows: u64) {
        self.memory.count_drawn(rows.wrapping_neg());
    }

    /// Counts rows that writers overwrote before a draw had them.
    pub fn count_overwritten(&self, rows: u64) {
        self.memory.count_overwritten(rows);
    }

    /// Returns a description of the table, with its counters.
    #[must_use]
    pub fn info(&self) -> ClaimTableInfo {
        info(self.name(), &self.memory, self.settings)
    }
}

fn info(name: &str, memory: &ClaimMemory, settings: ClaimSettings) -> ClaimTableInfo {
    let (drawn, passes) = memory.counts();
    let (pass, next) = claim::read_with_position(memory, memory.lanes as usize);
    let (name, bytes) = (name.to_owned(), claim_bytes(memory.lanes));
    let overwritten = memory.overwritten();
    ClaimTableInfo { name, settings, bytes, passes, drawn, overwritten, pass, next }
}

impl RingStore {
    /// Opens a table of claims of the ring, or creates it. Returns `None` while another process
    /// creates it: try again. Fails if the table has other settings or is of another kind.
    pub fn try_claims(
        self: &Arc<Self>,
        name: &str,
        settings: ClaimSettings,
    ) -> Result<Option<ClaimTable>, SegmentError> {
        let lanes = self.spec().lanes;
        let image = |uuid| claim_state::empty(lanes, uuid, settings);
        let new = NewTable { shape: lanes, image: &image };
        let Some(opened) = open_or_make(self, name, &new)? else { return Ok(None) };
        let OpenTable { lock, memory, name } = opened;
        let found = header_of(&memory).settings();
        if found != settings {
            let (table, what) = (name.name, differing(found, settings));
            return Err(SegmentError::TableDiffers { table, what });
        }
        let store = Arc::clone(self);
        Ok(Some(ClaimTable { lock, store, memory, name, settings }))
    }

    /// Lists the tables of claims of the ring, by name. Tables that cannot be opened are left out.
    #[must_use]
    pub fn claim_tables(&self) -> Vec<ClaimTableInfo> {
        let info = |(name, memory): (String, Arc<ClaimMemory>)| {
            info(&name, &memory, header_of(&memory).settings())
        };
        readable(self).map(info).collect()
    }
}

pub(super) fn header_of(memory: &ClaimMemory) -> ClaimHeader {
    bytemuck::pod_read_unaligned(&memory.map.copy(0, size_of::<ClaimHeader>()))
}

/// Returns the first difference between two settings.
fn differing(found: ClaimSettings, asked: ClaimSettings) -> String {
    let order = |settings: ClaimSettings| {
        let kind = if settings.renewed { "epoch" } else { "consume" };
        format!("{kind}, {}", if settings.shuffled { "shuffled" } else { "oldest first" })
    };
    if order(found) != order(asked) {
        return format!("it is {}, but {} was requested", order(found), order(asked));
    }
    if found.times == asked.times {
        return format!("its seed is {}, but {} was requested", found.seed, asked.seed);
    }
    format!("its max_times_sampled is {}, but {} was requested", found.times, asked.times)
}

impl TableKind for ClaimMemory {
    const KIND: u32 = KIND_CLAIMS;
    type Header = ClaimHeader;
    /// Lanes of the ring.
    type Shape = u32;

    fn check(file: &TableFile<'_>, header: &ClaimHeader) -> Result<u32, SegmentError> {
        header.check(file.path, file.ring_uuid, file.lanes)?;
        Ok(file.lanes)
    }

    fn bytes(lanes: &u32) -> u64 {
        claim_bytes(*lanes)
    }

    fn new(map: Mapping, lanes: u32) -> Self {
        Self { map, lanes }
    }

    fn into_heap(table: Arc<Self>) -> HeapTable {
        HeapTable::Claims(table)
    }

    fn of_heap(table: &HeapTable) -> Option<Arc<Self>> {
        if let HeapTable::Claims(memory) = table { Some(Arc::clone(memory)) } else { None }
    }
}
