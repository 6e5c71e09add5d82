//! Items that a sampler claimed from a table: those of its batch, those that are left over, and
//! those of batches that can be taken back.

use std::collections::VecDeque;

use crate::table::{ClaimPlace, Claims};

/// Item of a batch that was claimed from a table.
pub(super) trait ClaimedItem {
    /// Returns the last place that was claimed for the item.
    fn last_place(&self) -> ClaimPlace;

    /// Returns the number of its transitions that the table counts as drawn.
    fn transitions(&self) -> u64;
}

/// Claimed items of a batch, and those that are left over from batches that were not returned.
///
/// A drop gives back the claimed items that were not returned to a caller, as far as no other
/// sampler has claimed after them.
#[derive(Debug)]
pub(super) struct ClaimLedger<T: ClaimedItem> {
    pub(super) claims: Claims,
    /// Items of the batch that is being drawn.
    pub(super) items: Vec<T>,
    /// Items that were claimed and not returned; the next batch takes them first.
    pub(super) held: VecDeque<T>,
    /// Items of the last batches, with their numbers, which can be taken back.
    ahead: VecDeque<(u64, Vec<T>)>,
    /// Maximum length of `ahead`, at least 1.
    kept: usize,
    /// Last place of an item whose batch cannot be taken back any more.
    handed_out: Option<ClaimPlace>,
    /// Process that made the claims. A forked child has copies of them, which are not its own.
    pid: u32,
}

impl<T: ClaimedItem> ClaimLedger<T> {
    pub(super) fn new(claims: Claims) -> Self {
        let (items, held, ahead) = (Vec::new(), VecDeque::new(), VecDeque::new());
        let (kept, handed_out, pid) = (1, None, std::process::id());
        Self { claims, items, held, ahead, kept, handed_out, pid }
    }

    /// Holds the items of a batch that failed.
    pub(super) fn hold_items(&mut self) {
        self.items.drain(..).rev().for_each(|item| self.held.push_front(item));
    }

    /// Keeps the items of the last `batches` batches, at least 1, for [`rewind`](Self::rewind).
    pub(super) fn keep(&mut self, batches: usize) {
        self.kept = batches.max(1);
        while self.ahead.len() > self.kept {
            self.hand_out();
        }
    }

    /// Forgets the oldest batch that is kept. Returns its memory.
    fn hand_out(&mut self) -> Vec<T> {
        let mut items = self.ahead.pop_front().map_or_else(Vec::new, |(_, items)| items);
        let last = items.drain(..).map(|item| item.last_place()).max();
        self.handed_out = self.handed_out.max(last);
        items
    }

    /// Takes back the items of batch `batch` and later ones.
    pub(super) fn rewind(&mut self, batch: u64) {
        while self.ahead.back().is_some_and(|(number, _)| *number >= batch) {
            let Some((_, items)) = self.ahead.pop_back() else { return };
            self.claims.uncount_drawn(items.iter().map(T::transitions).sum());
            items.into_iter().rev().for_each(|item| self.held.push_front(item));
        }
    }

    /// Ends a batch that was drawn.
    pub(super) fn finish(&mut self, batch: u64) {
        self.claims.count_drawn(self.items.iter().map(T::transitions).sum());
        let memory = if self.ahead.len() < self.kept { Vec::new() } else { self.hand_out() };
        self.ahead.push_back((batch, std::mem::replace(&mut self.items, memory)));
    }
}

impl<T: ClaimedItem> Drop for ClaimLedger<T> {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        while !self.ahead.is_empty() {
            self.hand_out();
        }
        self.claims.give_back_after(self.handed_out);
    }
}
