//! Pins: the rows of a lease are not overwritten while it lives.
//!
//! A pin is one word per lane and reader slot. It freezes every row from its start on: the writer
//! may go on until it would need the slot of the first frozen row.
//!
//! 1. The reader stores its pin (release), then [`Fence::Pinned`], then re-reads `reserved`. If the
//!    writer has announced the slot of the first row, the pin is reset and the lease refused.
//! 2. The writer stores `reserved` (relaxed), then
//!    [`Fence::AnnouncedToPins`], then scans the pins (acquire).
//!
//! A frozen row is not overwritten: both fences are sequentially consistent, so of the two stores
//! at least one is seen by the other side. Either the writer finds the pin and stops before the
//! slot, or the reader finds the announcement and gives up. Releasing a pin is a release store,
//! which the writer's acquire load pairs with. The writer's later stores come after the reader's
//! last load, so the reader may use plain loads. The slot's next pin is a release store for the
//! same reason: a writer may find it without having seen the release before it.
//!
//! A second lease of the slot uncovers no row: the word is never above the oldest row granted. A
//! newer lease leaves it; an older one lowers it until that lease is refused or ends
//! ([`HeldRows`]). The writer stops for every pin it finds, also for one on rows that it has
//! overwritten. Such a pin was not granted, but the one that it replaced may have been.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::publish::{Fence, Words};

/// Pins of one lane.
pub trait Pins {
    /// Number of reader slots.
    fn slots(&self) -> u32;
    /// Loads the pin of a slot: 0, or one more than the first row frozen.
    fn load(&self, slot: u32, order: Ordering) -> u64;
    /// Stores the pin of a slot. Only its holder does so, or a process that holds the lock of a
    /// dead holder.
    fn store(&self, slot: u32, pin: u64, order: Ordering);
}

/// A pin that blocks the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The reader slot that holds it.
    pub slot: u32,
    /// First row frozen.
    pub start: u64,
}

/// Error of pinning rows that the writer has announced to overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the writer has announced rows up to {reserved}, row {start} is not in the lane any more; \
     lease newer rows"
)]
pub struct PinError {
    /// First row to be pinned.
    pub start: u64,
    /// One past the last row announced.
    pub reserved: u64,
}

/// Freezes a lane's rows from `start` on for `slot`. `before` is the first row that the slot has
/// frozen already.
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
    let announced = || {
        // ORDERING: relaxed; the second call is ordered after the pin by the fence before it, and
        // the first one decides nothing that the second would not.
        let reserved = lane.load_reserved(Ordering::Relaxed);
        let gone = reserved > start.saturating_add(lane.slots());
        if gone { Err(PinError { start, reserved }) } else { Ok(()) }
    };
    // Rows that are known to be overwritten get no pin: it would stop the writer.
    announced()?;
    // ORDERING: release, for earlier leases of the slot. A writer may find this pin without having
    // seen the thaw before it. It must still store after the last load of those leases.
    pins.store(slot, start.saturating_add(1), Ordering::Release);
    lane.fence(Fence::Pinned);
    announced().inspect_err(|_| thaw(pins, slot, before))
}

/// Raises a slot's pin to `left`, the first row that it still needs, or clears it.
pub fn thaw<P: Pins>(pins: &P, slot: u32, left: Option<u64>) {
    // ORDERING: pairs with the acquire load in `oldest`: a writer that no longer finds the pin
    // stores after the reader's last plain load.
    pins.store(slot, left.map_or(0, |start| start.saturating_add(1)), Ordering::Release);
}

/// The first rows that a reader slot holds frozen in one lane, each with the number of its holders.
///
/// The slot's pin is the oldest of them. Threads that share a slot call these methods one at a
/// time.
#[derive(Debug, Default)]
pub struct HeldRows(BTreeMap<u64, usize>);

impl HeldRows {
    /// Returns the row of the slot's pin.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.0.first_key_value().map(|(start, _)| *start)
    }

    /// Returns whether rows from `start` on are held.
    #[must_use]
    pub fn holds(&self, start: u64) -> bool {
        self.0.contains_key(&start)
    }

    /// Freezes a lane's rows from `start` on, in addition to those that are held.
    ///
    /// On an error nothing has changed: the pin is as before, and rows held before stay frozen.
    pub fn hold<L: Words, P: Pins>(
        &mut self,
        lane: &L,
        pins: &P,
        slot: u32,
        start: u64,
    ) -> Result<(), PinError> {
        freeze(lane, pins, slot, start, self.oldest())?;
        *self.0.entry(start).or_default() += 1;
        Ok(())
    }

    /// Releases one hold of `start`. Returns whether the pin moved, which may unblock a writer.
    pub fn release<P: Pins>(&mut self, pins: &P, slot: u32, start: u64) -> bool {
        let before = self.oldest();
        if let Some(count) = self.0.get_mut(&start) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&start);
            }
        }
        let left = self.oldest();
        let moves = left != before;
        if moves {
            thaw(pins, slot, left);
        }
        moves
    }
}

/// Returns the pin that holds the writer back first.
///
/// The writer has issued [`Fence::AnnouncedToPins`] before. A pin on overwritten rows counts like
/// any other: its reader slot may hold newer rows, which only this pin covers until the reader
/// resets it. O(reader slots).
pub fn oldest<P: Pins>(pins: &P) -> Option<Pin> {
    let pinned = (0..pins.slots()).filter_map(|slot| {
        // ORDERING: pairs with the release store in `thaw`.
        let start = pins.load(slot, Ordering::Acquire).checked_sub(1)?;
        Some(Pin { slot, start })
    });
    pinned.min_by_key(|pin| pin.start)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A lane of four slots without rows, and the pins of two reader slots.
    struct Lane {
        reserved: Cell<u64>,
        /// Rows that the writer announces between the pin and the second check.
        meanwhile: Cell<u64>,
        pins: [Cell<u64>; 2],
    }

    impl Words for Lane {
        fn load_head(&self, _: Ordering) -> u64 {
            self.reserved.get()
        }

        fn load_reserved(&self, _: Ordering) -> u64 {
            self.reserved.get()
        }

        fn fence(&self, at: Fence) {
            assert_eq!(at, Fence::Pinned);
            self.reserved.set(self.reserved.get() + self.meanwhile.take());
        }

        fn slots(&self) -> u64 {
            4
        }

        fn copy_out(&self, _: usize, _: u64, _: u64, _: &mut [u8]) {}
    }

    impl Pins for Lane {
        fn slots(&self) -> u32 {
            2
        }

        fn load(&self, slot: u32, _: Ordering) -> u64 {
            self.pins[slot as usize].get()
        }

        fn store(&self, slot: u32, pin: u64, _: Ordering) {
            self.pins[slot as usize].set(pin);
        }
    }

    fn lane(reserved: u64) -> Lane {
        let pins = [Cell::new(0), Cell::new(0)];
        Lane { reserved: Cell::new(reserved), meanwhile: Cell::new(0), pins }
    }

    fn pin(lane: &Lane) -> Option<u64> {
        oldest(lane).map(|pin| pin.start)
    }

    #[test]
    fn the_pin_is_the_oldest_held_row_in_any_order_of_leases() {
        let lane = lane(4);
        let mut held = HeldRows::default();
        for (start, pinned) in [(2, 2), (3, 2), (1, 1), (1, 1), (0, 0)] {
            held.hold(&lane, &lane, 0, start).unwrap();
            assert_eq!((held.oldest(), pin(&lane)), (Some(pinned), Some(pinned)), "held {start}");
        }
        for (start, moves, left) in
            [(2, false, Some(0)), (0, true, Some(1)), (1, false, Some(1)), (1, true, Some(3))]
        {
            assert_eq!(held.release(&lane, 0, start), moves, "let go of {start}");
            assert_eq!((held.oldest(), pin(&lane)), (left, left), "let go of {start}");
        }
        assert!(held.release(&lane, 0, 3));
        assert_eq!((held.oldest(), pin(&lane)), (None, None));
    }

    #[test]
    fn a_refused_row_leaves_the_pin_where_it_was() {
        let lane = lane(4);
        let mut held = HeldRows::default();
        // The writer announces row 4 after the pin on row 0.
        lane.meanwhile.set(1);
        let refused = held.hold(&lane, &lane, 1, 0).unwrap_err();
        assert_eq!((refused, pin(&lane)), (PinError { start: 0, reserved: 5 }, None));
        held.hold(&lane, &lane, 1, 2).unwrap();
        lane.meanwhile.set(1);
        assert!(held.hold(&lane, &lane, 1, 1).is_err());
        assert_eq!((held.oldest(), pin(&lane)), (Some(2), Some(2)));
        // Rows known to be overwritten: the pin does not move.
        lane.meanwhile.set(100);
        assert!(held.hold(&lane, &lane, 1, 0).is_err());
        assert_eq!((lane.meanwhile.get(), pin(&lane)), (100, Some(2)));
    }

    #[test]
    fn a_pin_on_rows_that_are_overwritten_holds_the_writer_back_like_any_other() {
        let lane = lane(100);
        lane.pins[0].set(1);
        lane.pins[1].set(98);
        assert_eq!(oldest(&lane), Some(Pin { slot: 0, start: 0 }));
    }
}
