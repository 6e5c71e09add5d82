//! What a writer does about what a ring's holders are told: it moves its lanes to larger memory,
//! between two appends, and finds out that the ring has lost its name.

use std::mem;
use std::time::{Duration, Instant};

use super::{OwnLane, Writer};
use crate::error::AppendError;
use crate::ring::Ring;

/// A move that failed, for want of descriptors or address space, is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The notices that a writer has heeded.
#[derive(Debug)]
pub(super) struct Moves {
    /// [`RingStore::notices`](backcast_layout::RingStore::notices), as they were then.
    notices: u32,
    /// The lanes are where that resize put them.
    resizes: u32,
    not_before: Option<Instant>,
}

impl Moves {
    /// Of a writer whose lanes are claimed next, and are then where resizes until now put them.
    pub(super) fn of(ring: &Ring) -> Self {
        let store = ring.store();
        Self { notices: store.notices(), resizes: store.resizes(), not_before: None }
    }
}

impl Writer {
    /// Moves the lanes if the ring is being resized, and fails if it has lost its name and its handle
    /// says so. To be called before rows are announced.
    #[inline]
    pub(super) fn heed_notices(&mut self) -> Result<(), AppendError> {
        if self.has_followed() { Ok(()) } else { self.heed() }
    }

    /// Whether all notices were heeded.
    #[inline]
    pub(super) fn has_followed(&self) -> bool {
        self.ring.store().notices() == self.moves.notices
    }

    #[cold]
    fn heed(&mut self) -> Result<(), AppendError> {
        let notices = self.ring.store().notices();
        if self.ring.refuses_as_unlinked() {
            let ring = self.ring.name().unwrap_or_default().to_owned();
            return Err(AppendError::Unlinked { ring });
        }
        if self.move_lanes() {
            self.moves.notices = notices;
        }
        Ok(())
    }

    /// Has the next append heed that the ring has lost its name, if it has. Two system calls, so
    /// appends do not look: files that were deleted by hand, which leaves no notice, are found out
    /// when the writer restarts.
    pub(super) fn look_at_name(&mut self) {
        if self.ring.is_unlinked() {
            self.moves.notices = !self.ring.store().notices();
        }
    }

    /// Whether the lanes are where the last resize put them.
    fn move_lanes(&mut self) -> bool {
        let resizes = self.ring.store().resizes();
        if resizes == self.moves.resizes {
            return true;
        }
        if self.moves.not_before.is_some_and(|then| Instant::now() < then) {
            return false;
        }
        let mut failed = false;
        let lanes = mem::take(&mut self.lanes).into_iter().zip(&self.numbers);
        self.lanes = lanes
            .map(|(own, number)| {
                let memory = own.memory.moved(|claimed| {
                    let (lane, moved) = self.ring.store().move_lane(*number, claimed);
                    if let Err(error) = moved {
                        tracing::warn!(lane = number, %error, "cannot move to larger memory yet");
                        failed = true;
                    }
                    lane
                });
                OwnLane { memory, ..own }
            })
            .collect();
        self.moves.not_before = failed.then(|| Instant::now() + AGAIN);
        if !failed {
            self.moves.resizes = resizes;
        }
        !failed
    }
}
