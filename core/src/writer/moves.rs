//! A writer's part in a resize: moving its lanes to larger memory, between two appends.

use std::mem;
use std::time::{Duration, Instant};

use super::{OwnLane, Writer};

/// A move that failed, for want of descriptors or address space, is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The resizes that a writer has followed.
#[derive(Debug)]
pub(super) struct Moves {
    resizes: u32,
    not_before: Option<Instant>,
}

impl Moves {
    /// The lanes are where that resize put them, or will be asked to move.
    pub(super) fn after(resizes: u32) -> Self {
        Self { resizes, not_before: None }
    }
}

impl Writer {
    /// Moves the lanes if the ring is being resized. To be called before rows are announced.
    #[inline]
    pub(super) fn follow_resize(&mut self) {
        if !self.has_followed() {
            self.move_lanes();
        }
    }

    /// Whether no resize asks for a move of the lanes.
    #[inline]
    pub(super) fn has_followed(&self) -> bool {
        self.ring.store().resizes() == self.moves.resizes
    }

    #[cold]
    fn move_lanes(&mut self) {
        if self.moves.not_before.is_some_and(|then| Instant::now() < then) {
            return;
        }
        let resizes = self.ring.store().resizes();
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
        if failed {
            self.moves.not_before = Some(Instant::now() + AGAIN);
        } else {
            self.moves = Moves::after(resizes);
        }
    }
}
