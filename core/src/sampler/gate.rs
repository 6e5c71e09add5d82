//! Gate of a sampler: what a draw waits for and passes before it chooses rows.

use std::time::Duration;

use backcast_layout::{ObjectKind, SegmentError};

use super::selection::Selection;
use crate::error::{FormError, LimitError, SampleError};
use crate::limiter::absent::NoWriter;
use crate::limiter::draw_gate::DrawGate;
use crate::limiter::waiting::Caller;
use crate::ring::Ring;
use crate::ring::wait::WaitStopped;
use crate::table_lock::LockLimits;
use crate::wait::{Interrupt, Wait, WaitEnd, WaitReport, WaitStart};

/// Batches after which the names of the ring and of the tables are checked without a new notice:
/// files that are deleted by hand leave none.
const NAME_CHECKS: u32 = 1024;

/// Checks and waits of a draw before it chooses rows: the ring and the tables are still there, and
/// the rate limiter has counted its items. Waits end by one timeout and one interrupt.
#[derive(Debug)]
pub(super) struct Gate {
    /// Gate of the rate limiter, if the ring has one.
    limiter: Option<DrawGate>,
    /// Maximum wait for the limiter, for new rows, and for the lock of a table.
    timeout: Option<Duration>,
    interrupt: Interrupt,
    /// Count of the ring's notices that was handled last, and batches until the names are checked
    /// without a new notice.
    notices: u32,
    name_check: u32,
}

impl Gate {
    /// Returns the gate of a sampler. `slot` is the sampler's reader slot.
    pub(super) fn of(ring: &Ring, slot: Option<u32>) -> Self {
        let (timeout, interrupt) = (None, ring.interrupt().clone());
        let limiter = DrawGate::of(ring.store(), slot);
        Self { limiter, timeout, interrupt, notices: 0, name_check: NAME_CHECKS }
    }

    /// Makes the rate limiter count the sampler as alive while the gate exists. The first draw does
    /// so too.
    pub(super) fn claim(&mut self) -> Result<(), SegmentError> {
        self.limiter.as_mut().map_or(Ok(()), DrawGate::claim)
    }

    /// Sets the maximum wait. Returns whether it changed.
    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) -> bool {
        let differs = self.timeout != timeout;
        self.timeout = timeout;
        differs
    }

    /// Sets what ends the waits.
    pub(super) fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// Returns what ends waits for the lock of a table.
    pub(super) fn lock_limits(&self) -> LockLimits {
        LockLimits::within(self.timeout, &self.interrupt)
    }

    /// Fails if the ring is unlinked and its handle refuses such rings, or if `tables` finds that a
    /// table was removed. Usually makes one relaxed load.
    pub(super) fn follow_notices(
        &mut self,
        ring: &Ring,
        tables: impl FnOnce() -> Result<(), SampleError>,
    ) -> Result<(), SampleError> {
        self.name_check = self.name_check.saturating_sub(1);
        if ring.store().notices() == self.notices && self.name_check > 0 {
            return Ok(());
        }
        let notices = ring.store().notices();
        if ring.refuses_as_unlinked() {
            return Err(unlinked_error(ring));
        }
        // An error keeps the old notices, so that the next draw fails too.
        tables()?;
        (self.notices, self.name_check) = (notices, NAME_CHECKS);
        Ok(())
    }

    /// Returns whether the ring has a rate limiter.
    pub(super) fn is_limited(&self) -> bool {
        self.limiter.is_some()
    }

    /// Waits until the rate limiter has allowed and counted each item of a batch. The wait began at
    /// `since`, which also records its report. `anew` says that a draw found the ring empty.
    #[cold]
    pub(super) fn take_turn(
        &mut self,
        ring: &Ring,
        (batch, anew): (usize, bool),
        since: &mut WaitStart,
    ) -> Result<(), SampleError> {
        let Some(limiter) = &mut self.limiter else { return Ok(()) };
        limiter.claim()?;
        let unlinked = |wait: Option<&mut Wait<'_>>| ring.refuses_wait(wait);
        let drawable = || ring.len();
        let wait = Some(Wait::new(self.timeout, &self.interrupt).since(*since));
        let mut caller = Caller { wait, unlinked: &unlinked, drawable: &drawable };
        let taken = limiter.take(batch as u64, anew, &mut caller);
        caller.wait.iter().for_each(|wait| wait.keep_report(since));
        taken.map_err(|stopped| match stopped {
            LimitError::Unlinked => unlinked_error(ring),
            stopped => stopped.into(),
        })
    }

    /// Returns whether a draw that found too few rows has to wait for the limiter again: rows were
    /// dropped since an earlier draw found too few, or the ring is empty. Returns `false` if the
    /// limiter is disabled, or lets draws through because no writer is left.
    #[cold]
    pub(super) fn was_emptied(&mut self, ring: &Ring, error: &SampleError) -> bool {
        if !found_too_few(error) || !Self::may_wait(ring) {
            return false;
        }
        // Writers may have appended since, so that a ring with rows may have been empty.
        let kept = (0..ring.lanes()).filter_map(|lane| ring.first_kept(lane));
        let dropped = kept.fold(0, u64::wrapping_add);
        let is_empty = matches!(error, SampleError::Empty { .. }) && ring.is_empty();
        self.limiter.as_mut().is_some_and(|limiter| limiter.notes_dropped(dropped) || is_empty)
    }

    /// Returns whether the ring is empty and its limiter can hold draws back.
    #[cold]
    pub(super) fn holds_empty_ring(&self, ring: &Ring) -> bool {
        self.is_limited() && ring.is_empty() && Self::may_wait(ring)
    }

    /// Returns whether the limiter can hold draws back: it is enabled, and does not let draws
    /// through because no writer is left.
    fn may_wait(ring: &Ring) -> bool {
        let limits = ring.limiter().and_then(|limiter| limiter.limits().ok());
        limits.is_some_and(|limits| {
            let passes = limits.no_writer_choice() == NoWriter::Pass;
            limits.is_enabled() && (!passes || ring.store().has_writer())
        })
    }

    /// Waits until `needed` rows can be claimed. The wait began at `since`, which also records its
    /// report. `too_old` claimed transitions were skipped for this batch, which errors tell. With a
    /// rate limiter that does not wait for absent writers it ends when no writer has
    /// lived for 100 ms.
    #[cold]
    pub(super) fn await_rows(
        &self,
        ring: &Ring,
        selection: &Selection,
        (selector, needed): (&'static str, u64),
        too_old: u64,
        since: &mut WaitStart,
    ) -> Result<(), SampleError> {
        let count = || selection.claimable().unwrap_or(u64::MAX);
        let unit = selection.claim_unit();
        // The batch is counted: until its rows are there, the limiter holds no writer back.
        let _awaits = self.limiter.as_ref().and_then(DrawGate::await_rows);
        let claimed =
            || joined([selection.too_old_in_words(too_old), selection.claimed_in_words()]);
        let late = |available, waited: Duration| {
            let (wanted, waited_ms) = (needed, waited.as_millis());
            let reason = joined([claimed(), ring.why_no_transitions()]);
            SampleError::TimedOut { selector, unit, wanted, available, waited_ms, reason }
        };
        let report = |available, waited| late(available, waited).to_string();
        let limits = ring.limiter().and_then(|limiter| limiter.limits().ok());
        let choice = limits.map_or(NoWriter::Wait, |limits| limits.no_writer_choice());
        let limiter = self.limiter.as_ref().filter(|_| choice != NoWriter::Wait);
        let is_alone = || limiter.is_some_and(DrawGate::is_alone);
        let ends =
            |report: Option<WaitReport<'_>>| self.interrupt.is_ended_by(report) || is_alone();
        let mut wait = Wait::ended_by(self.timeout, &ends).since(*since);
        let slept = ring.sleep_until(needed, &count, &mut wait, &report);
        wait.keep_report(since);
        let Err(stopped) = slept else { return Ok(()) };
        Err(match stopped {
            WaitStopped::Unlinked => unlinked_error(ring),
            WaitStopped::Ended { .. } if is_alone() => match count() {
                // A writer has published its last rows and closed before it was missed.
                available if available >= needed => return Ok(()),
                available => {
                    let (wanted, choice) = (needed, choice.as_str());
                    let claimed = claimed();
                    let claimed = if claimed.is_empty() { claimed } else { format!(": {claimed}") };
                    SampleError::NoWriter { selector, unit, wanted, available, claimed, choice }
                }
            },
            WaitStopped::Ended { end: WaitEnd::TimedOut, have, .. } => late(have, since.waited()),
            WaitStopped::Ended { end: WaitEnd::Interrupted, .. } => {
                LimitError::Interrupted { waited_ms: since.waited().as_millis() }.into()
            }
        })
    }

    /// Counts further items of a batch that was drawn, without a wait.
    pub(super) fn count(&self, items: u64) {
        if let Some(limiter) = &self.limiter {
            limiter.count(items);
        }
    }

    /// Subtracts the items of batches that were not returned from the count of the limiter.
    #[cold]
    pub(super) fn give_back(&self, items: u64) {
        if let Some(limiter) = &self.limiter {
            limiter.give_back(items);
        }
    }

    /// Returns a guard for `items` that the limiter has counted for a batch. A drop gives them
    /// back, unless they are kept.
    pub(super) fn counted(&self, items: usize) -> CountedItems<'_> {
        CountedItems { gate: self, items: items as u64 }
    }
}

/// Items that the rate limiter has counted for a batch. A drop subtracts them: the function of the
/// caller has panicked, and the batch is not drawn.
pub(super) struct CountedItems<'a> {
    gate: &'a Gate,
    items: u64,
}

impl CountedItems<'_> {
    pub(super) fn keep(mut self) {
        self.items = 0;
    }
}

impl Drop for CountedItems<'_> {
    fn drop(&mut self) {
        self.gate.give_back(self.items);
    }
}

/// Returns whether a draw failed because of the rows in the ring, so that it may succeed with rows
/// that are appended later.
pub(super) fn found_too_few(error: &SampleError) -> bool {
    use SampleError::{
        Empty, EmptyLanes, Form, NoHistory, NoStride, NoWindow, Outrun, TooFew, TooOld, Unlikely,
    };

    match error {
        Form(of) => matches!(of, FormError::NoSequence { .. } | FormError::NoneComplete { .. }),
        Empty { .. }
        | EmptyLanes { .. }
        | TooFew { .. }
        | TooOld { .. }
        | Outrun { .. }
        | Unlikely { .. }
        | NoWindow { .. }
        | NoStride { .. }
        | NoHistory { .. } => true,
        _ => false,
    }
}

/// Joins the parts of a message that are not empty.
fn joined(parts: [String; 2]) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

/// Returns the error of a ring that was removed or replaced.
fn unlinked_error(ring: &Ring) -> SampleError {
    let name = ring.name().unwrap_or_default().to_owned();
    SegmentError::Unlinked { kind: ObjectKind::Ring, name }.into()
}

#[cfg(test)]
mod tests;
