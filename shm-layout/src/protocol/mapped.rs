//! Implements the protocol for memory that processes share: lanes, pins, notifiers and tables as
//! they are mapped.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use super::claim::{ClaimFence, ClaimWords};
use super::learned::LearnedWord;
use super::limit::{LimitCounter, WAITED};
use super::notify::{Notifier, NotifyFence};
use super::pin::{Pins, thaw};
use super::publish::{Fence, Words, WordsMut};
use super::sum_tree::{FAN_OUT, TreeFence, TreeWords};
use super::version::{VersionFence, VersionWords, VersionWordsMut};
use crate::kernels::racy_copy;
use crate::layout::claim_table::ClaimMemory;
use crate::layout::claimed_lane::ClaimedLane;
use crate::layout::lane::Lane;
use crate::layout::limiter_table::SharedCounter;
use crate::layout::params_table::ParamsMemory;
use crate::layout::priority_table::TableMemory;
use crate::layout::reader_table::{LanePins, ReaderTable, SharedNotifier};
use crate::os::futex;

impl Words for Lane {
    #[inline]
    fn load_head(&self, order: Ordering) -> u64 {
        self.head().load(order)
    }

    #[inline]
    fn load_reserved(&self, order: Ordering) -> u64 {
        self.reserved().load(order)
    }

    #[inline]
    fn fence(&self, at: Fence) {
        fence(at.ordering());
        // On x86-64 a release fence is no instruction, since plain stores keep their order.
        // Streaming stores do not: those of long `memcpy` calls, or of code that fills a reserved
        // row.
        if at == Fence::Announced {
            racy_copy::order_streaming_stores();
        }
    }

    #[inline]
    fn slots(&self) -> u64 {
        self.slots
    }

    #[inline]
    fn copy_out(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]) {
        self.load_rows(column, slot, rows, out);
    }
}

impl Words for ClaimedLane {
    #[inline]
    fn load_head(&self, order: Ordering) -> u64 {
        self.memory().load_head(order)
    }

    #[inline]
    fn load_reserved(&self, order: Ordering) -> u64 {
        self.memory().load_reserved(order)
    }

    #[inline]
    fn fence(&self, at: Fence) {
        self.memory().fence(at);
    }

    #[inline]
    fn slots(&self) -> u64 {
        self.memory().slots
    }

    #[inline]
    fn copy_out(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]) {
        self.memory().copy_out(column, slot, rows, out);
    }
}

impl WordsMut for ClaimedLane {
    #[inline]
    fn store_reserved(&self, value: u64, order: Ordering) {
        self.memory().reserved().store(value, order);
    }

    #[inline]
    fn store_head(&self, value: u64, order: Ordering) {
        self.memory().head().store(value, order);
    }

    #[inline]
    fn copy_in(&self, column: usize, slot: u64, row: &[u8]) {
        self.write_row(column, slot, row);
    }

    #[inline]
    fn copy_part_in(&self, column: usize, slot: u64, width: usize, at: usize, part: &[u8]) {
        self.write_part(column, slot, width, at, part);
    }

    fn copy_rows_in(&self, column: usize, slot: u64, rows: u64, bytes: &[u8]) {
        self.memory().store_rows(column, slot, rows, bytes);
    }
}

impl Pins for LanePins<'_> {
    #[inline]
    fn slots(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn load(&self, slot: u32, order: Ordering) -> u64 {
        self.0.get(slot as usize).map_or(0, |pin| pin.load(order))
    }

    fn store(&self, slot: u32, pin: u64, order: Ordering) {
        if let Some(word) = self.0.get(slot as usize) {
            word.store(pin, order);
        }
    }
}

impl TreeWords for TableMemory {
    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.load(word)
    }

    #[inline]
    fn line(&self, word: usize) -> [u64; FAN_OUT] {
        self.line(word)
    }

    #[inline]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.store(word, value, order);
    }

    #[inline]
    fn fence(&self, at: TreeFence) {
        match at {
            // ORDERING: a process that is killed leaves no count without its entries, and no leaf
            // without its count. The next holder is ordered by the lock.
            TreeFence::Listed | TreeFence::Counted | TreeFence::Summed => fence(Ordering::Release),
            // ORDERING: `Descended` pairs with `Counted`: a reader that saw a leaf or a sum of a
            // change sees its count too. `Observed` pairs with the release stores that end one.
            TreeFence::Observed | TreeFence::Descended => fence(Ordering::Acquire),
        }
    }

    #[inline]
    fn prefetch(&self, word: usize) {
        self.prefetch(word);
    }

    fn replace_kept(&self, kept: &mut [u64]) {
        self.leaf_values(self.exponent()).replace(kept);
    }
}

impl LearnedWord for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        // A value and its row are one word, which orders nothing else.
        self.load(Ordering::Relaxed)
    }

    fn exchange(&self, current: u64, new: u64) -> bool {
        self.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl VersionWords for ParamsMemory {
    #[inline]
    fn slots(&self) -> u32 {
        self.slot_count()
    }

    #[inline]
    fn load_newest(&self, order: Ordering) -> u64 {
        self.newest_word().load(order)
    }

    #[inline]
    fn load_stamp(&self, slot: u32, order: Ordering) -> u64 {
        if slot < self.slot_count() { self.stamp_word(slot).load(order) } else { 0 }
    }

    #[inline]
    fn fence(&self, at: VersionFence) {
        fence(at.ordering());
        if at == VersionFence::Announced {
            racy_copy::order_streaming_stores();
        }
    }
}

/// Publishers map the memory for writing.
impl VersionWordsMut for std::sync::Arc<ParamsMemory> {
    fn store_newest(&self, word: u64, order: Ordering) {
        // Long copies may store past the cache.
        racy_copy::order_streaming_stores();
        self.newest_word().store(word, order);
    }

    fn store_stamp(&self, slot: u32, stamp: u64, order: Ordering) {
        racy_copy::order_streaming_stores();
        if slot < self.slot_count() {
            self.stamp_word(slot).store(stamp, order);
        }
    }
}

impl VersionWords for std::sync::Arc<ParamsMemory> {
    fn slots(&self) -> u32 {
        self.slot_count()
    }

    fn load_newest(&self, order: Ordering) -> u64 {
        ParamsMemory::load_newest(self, order)
    }

    fn load_stamp(&self, slot: u32, order: Ordering) -> u64 {
        ParamsMemory::load_stamp(self, slot, order)
    }

    fn fence(&self, at: VersionFence) {
        VersionWords::fence(&**self, at);
    }
}

impl Notifier for SharedNotifier<'_> {
    fn load_seq(&self, order: Ordering) -> u32 {
        self.words().0.load(order)
    }

    fn count_seq(&self, order: Ordering) {
        self.words().0.fetch_add(1, order);
    }

    #[inline]
    fn load_listening(&self, order: Ordering) -> bool {
        self.words().1.load(order) != 0
    }

    fn store_listening(&self, listening: bool, order: Ordering) {
        self.words().1.store(listening.into(), order);
    }

    #[inline]
    fn fence(&self, at: NotifyFence) -> bool {
        match at {
            NotifyFence::Notified => {
                self.barrier.fence();
                true
            }
            NotifyFence::Listening => futex::listening_fence(),
        }
    }

    fn sleep(&self, expected: u32, limit: Duration) {
        futex::sleep(self.words().0, expected, limit);
    }

    fn wake_all(&self) {
        futex::wake_all(self.words().0);
    }
}

impl LimitCounter for SharedCounter<'_> {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.count.load(order)
    }

    #[inline]
    fn add(&self, n: u64, order: Ordering) -> u64 {
        self.count.fetch_add(n, order)
    }

    #[inline]
    fn exchange(&self, current: u64, new: u64, order: Ordering) -> Result<u64, u64> {
        self.count.compare_exchange(current, new, order, Ordering::Relaxed)
    }

    fn set_waited(&self, order: Ordering) -> u64 {
        self.count.fetch_or(WAITED, order)
    }

    fn clear_waited(&self, order: Ordering) {
        self.count.fetch_and(!WAITED, order);
    }

    fn load_wake_at(&self, order: Ordering) -> u64 {
        self.wake_at.load(order)
    }

    fn lower_wake_at(&self, to: u64, order: Ordering) {
        self.wake_at.fetch_min(to, order);
    }

    fn reset_wake_at(&self, order: Ordering) {
        self.wake_at.store(u64::MAX, order);
    }

    fn load_seq(&self, order: Ordering) -> u32 {
        self.seq.load(order)
    }

    fn count_seq(&self, order: Ordering) {
        self.seq.fetch_add(1, order);
    }

    fn sleep(&self, expected: u32, limit: Duration) {
        futex::sleep(self.seq, expected, limit);
    }

    fn wake_all(&self) {
        futex::wake_all(self.seq);
    }
}

/// Clears every pin of a slot. The caller holds its lock: the owner of the slot, or a process that
/// found the owner dead.
pub(crate) fn clear_pins(readers: &ReaderTable, slot: u32) {
    for lane in 0..readers.lanes() {
        thaw(&readers.pins(lane), slot, None);
    }
}

impl ClaimWords for ClaimMemory {
    fn claim(&self, order: Ordering) -> u64 {
        self.load_claim(order)
    }

    fn exchange(&self, current: u64, new: u64) -> bool {
        // ORDERING: acquire and release: a claimant that sees a pass sees its bank.
        self.exchange_claim(current, new, Ordering::AcqRel)
    }

    fn load(&self, bank: usize, word: usize) -> u64 {
        self.load_bank(bank, word)
    }

    fn store(&self, bank: usize, word: usize, value: u64) {
        self.store_bank(bank, word, value);
    }

    fn fence(&self, at: ClaimFence) {
        fence(match at {
            // ORDERING: a reader that copied a word of the new pass sees that the pass before it
            // has begun.
            ClaimFence::Writing => Ordering::Release,
            ClaimFence::Copied => Ordering::Acquire,
        });
    }
}
