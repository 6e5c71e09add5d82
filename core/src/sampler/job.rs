//! What a batch is made of and why it may not be made: what drawing, looking and copying share.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use backcast_layout::{Lane, Lanes};

use super::Sampler;
use crate::error::SampleError;
use crate::fill::Filler;

/// Draws for one item are given up after so many: writers overwrite each of them.
pub(super) const MAX_ATTEMPTS: u32 = 10_000;

/// Where the rows of a batch come from.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// The draws of the batch of this number.
    Draws(u64),
    Rows(&'a [i64]),
}

/// Why a batch is not made.
pub(super) enum Stopped {
    /// Lanes are elsewhere now: the batch begins anew.
    Moved,
    Failed(SampleError),
}

impl From<SampleError> for Stopped {
    fn from(error: SampleError) -> Self {
        Self::Failed(error)
    }
}

/// A batch on its way: what does not change while it is made.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) wanted: Wanted<'a>,
    pub(super) lanes: &'a [Arc<Lane>],
    /// Where these are.
    pub(super) mapped: &'a Arc<Lanes>,
    pub(super) filler: Filler<'a>,
}

impl Sampler {
    /// A writer came by: looks at what there is now.
    pub(super) fn note_lap(&mut self, job: Job<'_>) -> Result<(), Stopped> {
        match job.wanted {
            Wanted::Draws(_) => self.refresh(),
            // Perhaps only rows of the history are gone: with a shorter one it may do.
            Wanted::Rows(_) => self.lanes = self.spans.refresh(&self.ring),
        }
        if !Arc::ptr_eq(&self.lanes, job.mapped) {
            return Err(Stopped::Moved);
        }
        if let Wanted::Draws(_) = job.wanted {
            self.counters.lapped.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
