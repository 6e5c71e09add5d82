//! Pins: the rows of a lease are not overwritten while it lives.
//!
//! A pin is one word per lane and reader slot. It freezes every row from its start on: the writer
//! may go on until it would need the slot of the first frozen row.
//!
//! 1. The reader stores its pin (release), then [`Fence::Pinned`], then
//!    re-reads `reserved`. If the writer has announced the slot of the first row, the pin is taken
//!    back and the lease refused.
//! 2. The writer stores `reserved` (relaxed), then
//!    [`Fence::AnnouncedToPins`], then scans the pins (acquire).
//!
//! Why a frozen row stays. Both fences are sequentially consistent, so of the two stores at least
//! one is seen by the other side: either the writer finds the pin and stops before the slot, or the
//! reader finds the announcement and gives up. Letting go is a release store, which the writer's
//! acquire load pairs with: its later stores come after the reader's last look, so the reader may
//! use plain loads. The slot's next pin is a release store for the same reason: a writer may find it
//! without having seen the letting go before it.

use std::sync::atomic::Ordering;

use super::publish::{Fence, Words};

/// The pins of one lane.
pub trait Pins {
    /// Reader slots.
    fn slots(&self) -> u32;
    /// The pin of a slot as stored: 0, or one more than the first row frozen.
    fn load(&self, slot: u32, order: Ordering) -> u64;
    /// Stores the pin of a slot; its holder alone does so, or whoever holds a dead holder's lock.
    fn store(&self, slot: u32, pin: u64, order: Ordering);
}

/// A pin that stands in the writer's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The reader slot that holds it.
    pub slot: u32,
    /// First row frozen.
    pub start: u64,
}

/// The rows asked for are being overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the writer has announced rows up to {reserved}, row {start} is not in the lane any more; lease \
     newer rows"
)]
pub struct PinError {
    /// First row asked for.
    pub start: u64,
    /// One past the last row announced.
    pub reserved: u64,
}

/// Freezes a lane's rows from `start` on for `slot`; `before` is the pin it holds already.
///
/// On an error the slot's pin is as it was.
pub fn freeze<L: Words, P: Pins>(
    lane: &L,
    pins: &P,
    slot: u32,
    start: u64,
    before: Option<u64>,
) -> Result<(), PinError> {
    if before.is_some_and(|held| held <= start) {
        return Ok(());
    }
    // ORDERING: release, for the leases that the slot had before: a writer may find this pin without
    // having seen the thaw before it, and must still store after the last load of those leases.
    pins.store(slot, start + 1, Ordering::Release);
    lane.fence(Fence::Pinned);
    // ORDERING: relaxed; the fence above orders it after the pin.
    let reserved = lane.load_reserved(Ordering::Relaxed);
    if reserved <= start.saturating_add(lane.slots()) {
        return Ok(());
    }
    thaw(pins, slot, before);
    Err(PinError { start, reserved })
}

/// Moves a slot's pin up to `left`, the first row that it still needs, or takes it away.
pub fn thaw<P: Pins>(pins: &P, slot: u32, left: Option<u64>) {
    // ORDERING: pairs with the acquire load in `oldest`: a writer that finds the pin gone stores
    // after the reader's last plain load.
    pins.store(slot, left.map_or(0, |start| start + 1), Ordering::Release);
}

/// The pin that holds the writer back first; `head` is the next row to be published.
///
/// To be called after [`Fence::AnnouncedToPins`]. O(reader slots).
pub fn oldest<P: Pins>(pins: &P, head: u64, lane_slots: u64) -> Option<Pin> {
    let mut found: Option<Pin> = None;
    for slot in 0..pins.slots() {
        // ORDERING: pairs with the release store in `thaw`.
        let Some(start) = pins.load(slot, Ordering::Acquire).checked_sub(1) else { continue };
        // A pin on rows that are overwritten already was never granted: a reader is about to take
        // it back, or lies.
        let granted = start.saturating_add(lane_slots) >= head;
        if granted && found.is_none_or(|pin| start < pin.start) {
            found = Some(Pin { slot, start });
        }
    }
    found
}
