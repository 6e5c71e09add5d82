//! Reacts to changes of a ring between two appends: relocates lanes after a resize, and detects
//! that the ring has lost its name.

use std::mem;
use std::time::{Duration, Instant};

use super::{OwnLane, Writer};
use crate::error::AppendError;
use crate::ring::Ring;
use crate::ring::notices::NoticeKind;

/// Pause before a failed relocation is tried again. It may fail for lack of descriptors.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Changes of the ring that a writer has reacted to.
#[derive(Debug)]
pub(super) struct FollowedNotices {
    /// Value of [`RingStore::notices`](backcast_layout::RingStore::notices) at the last reaction.
    notices: u32,
    /// Number of resizes of the ring when the lanes were last relocated.
    resizes: u32,
    not_before: Option<Instant>,
}

impl FollowedNotices {
    /// Returns the state for a writer that has not claimed its lanes yet. The claims follow all
    /// resizes so far.
    pub(super) fn of(ring: &Ring) -> Self {
        let store = ring.store();
        Self { notices: store.notices(), resizes: store.resizes(), not_before: None }
    }
}

impl Writer {
    /// Relocates the lanes after a resize. Fails if the ring has lost its name and calls of the
    /// handle must fail then. Called before rows are announced.
    #[inline]
    pub(super) fn follow_notices(&mut self) -> Result<(), AppendError> {
        if self.has_followed() { Ok(()) } else { self.follow_all() }
    }

    /// Returns whether the writer has reacted to all changes.
    #[inline]
    pub(super) fn has_followed(&self) -> bool {
        self.ring.store().notices() == self.notices.notices
    }

    #[cold]
    fn follow_all(&mut self) -> Result<(), AppendError> {
        let notices = self.ring.store().notices();
        if self.ring.refuses_as_unlinked() {
            let ring = self.ring.name().unwrap_or_default().to_owned();
            return Err(AppendError::Unlinked { ring });
        }
        if self.move_lanes() {
            self.notices.notices = notices;
        }
        Ok(())
    }

    /// Makes the next append react if the ring has lost its name. Makes one or three system calls,
    /// so appends do not call it. Also detects files that were deleted by hand, which leave no mark
    /// in the ring.
    pub(super) fn check_name(&mut self) {
        if self.ring.is_unlinked() {
            self.notices.notices = !self.ring.store().notices();
        }
    }

    /// Relocates the lanes to the memory of the last resize. Returns `false` if a lane must be
    /// tried again.
    fn move_lanes(&mut self) -> bool {
        let resizes = self.ring.store().resizes();
        if resizes == self.notices.resizes {
            return true;
        }
        if self.notices.not_before.is_some_and(|then| Instant::now() < then) {
            return false;
        }
        let mut failed = false;
        let lanes = mem::take(&mut self.lanes).into_iter().zip(&self.numbers);
        self.lanes = lanes
            .map(|(own, number)| {
                let memory = own.memory.relocated(|claimed| {
                    let (lane, relocated) = self.ring.store().relocate_lane(*number, claimed);
                    if let Err(error) = relocated {
                        let text = format!(
                            "lane {number} stays in its old memory after a resize, and the writer \
                             tries again: {error}"
                        );
                        self.ring.notice_log().warn(NoticeKind::UnmovedLane, text);
                        failed = true;
                    }
                    lane
                });
                OwnLane { memory, ..own }
            })
            .collect();
        self.notices.not_before = failed.then(|| Instant::now() + RETRY_PAUSE);
        if !failed {
            self.notices.resizes = resizes;
        }
        !failed
    }
}
