//! A reader slot of the models. Its leases are taken, refused and dropped in any order, and all its
//! rows are checked whenever one changes.

use backcast_layout::protocol::{HeldRows, freeze, thaw};

use crate::lane::{Lane, Machine, Mutant};

/// A slot and its leases on one lane. Only the first row of each lease is read.
pub(crate) struct Handle<'a, M: Machine> {
    lane: &'a Lane<M>,
    slot: u32,
    held: HeldRows,
    leased: Vec<u64>,
}

impl<'a, M: Machine> Handle<'a, M> {
    pub(crate) fn new(lane: &'a Lane<M>, slot: u32) -> Self {
        Self { lane, slot, held: HeldRows::default(), leased: Vec::new() }
    }

    /// Returns the first row of each lease, in no particular order.
    pub(crate) fn leased(&self) -> &[u64] {
        &self.leased
    }

    /// Requests a lease, and reads every leased row. Returns `false` if it was refused.
    pub(crate) fn lease(&mut self, start: u64) -> bool {
        let (lane, slot, mutant) = (self.lane, self.slot, self.lane.mutant());
        let has_others = self.held.oldest().is_some();
        let granted = match mutant {
            Mutant::SecondLeaseMovesUp if has_others => {
                freeze(lane, lane, slot, start, None).is_ok()
            }
            Mutant::OlderLeaseNotPinned if has_others => true,
            _ => self.held.hold(lane, lane, slot, start).is_ok(),
        };
        if granted {
            self.leased.push(start);
        } else if mutant == Mutant::RefusedTakesAll {
            thaw(lane, slot, None);
        }
        self.read();
        granted
    }

    /// Reads every leased row, ends one lease, and reads the rows of the others.
    pub(crate) fn end(&mut self, start: u64) {
        self.read();
        let at = self.leased.iter().position(|leased| *leased == start).expect("a lease of ours");
        self.leased.swap_remove(at);
        self.held.release(self.lane, self.slot, start);
        if self.lane.mutant() == Mutant::EndTakesAll {
            thaw(self.lane, self.slot, None);
        }
        self.read();
    }

    /// Keeps rows from `start` on instead of those kept before, like a follower of a ring. The slot
    /// has one lease at most. Returns `false` if that was refused, and the earlier rows stay kept.
    pub(crate) fn keep(&mut self, start: u64) -> bool {
        let before = self.leased.first().copied();
        let granted = self.lease(start);
        if let (true, Some(before)) = (granted, before) {
            self.end(before);
        }
        granted
    }

    fn read(&self) {
        for start in &self.leased {
            self.lane.read_in_place(*start);
        }
    }
}
