//! Rows of a batch that are chosen otherwise than uniformly.
//!
//! A selector offers a row for each item before the gather begins. If a row turns out to be no
//! transition, or is overwritten meanwhile, the selector offers another one for the item.

use super::claimed::ClaimedRows;
use super::extremes::ExtremeRows;
use super::ordered::OrderedRows;
use super::rollouts::ClaimedRollouts;
use super::weighted::WeightedRows;
use crate::error::SampleError;
use crate::priority::Priorities;
use crate::ring::Ring;
use crate::sampler::eligibility::{Candidate, Eligibility};
use crate::sampler::prioritised::PrioritisedDraws;
use crate::sampler::rng::CounterRng;
use crate::sampler::rollouts::Rollout;
use crate::sampler::selector::Selector;
use crate::table_lock::LockLimits;

/// State of a selector other than the uniform one.
#[derive(Debug)]
pub(super) enum SelectorState {
    Prioritised(PrioritisedDraws),
    Extreme(ExtremeRows),
    Ordered(OrderedRows),
    Weighted(WeightedRows),
    Claimed(ClaimedRows),
    Rollouts(ClaimedRollouts),
}

impl SelectorState {
    /// Opens the state of a selector. Returns `None` for uniform draws. `windows` says whether some
    /// transitions are left out for their windows. Ordered, extreme and claimed rows are then
    /// checked before they are chosen. `rollout` is the form of rollouts, if they are drawn.
    pub(super) fn open(
        ring: &Ring,
        selector: Selector,
        windows: bool,
        rollout: Option<Rollout>,
    ) -> Result<Option<Self>, SampleError> {
        selector.check(ring)?;
        Ok(Some(match selector {
            Selector::Uniform => return Ok(None),
            Selector::Priority(options) => {
                Self::Prioritised(PrioritisedDraws::open(ring, options)?)
            }
            Selector::MaxPriority(_) | Selector::MinPriority(_) => {
                Self::Extreme(ExtremeRows::open(ring, selector, windows)?)
            }
            Selector::Table(options) => match rollout {
                Some(form) => Self::Rollouts(ClaimedRollouts::open(ring, options, form)?),
                None => Self::Claimed(ClaimedRows::open(ring, options, windows)?),
            },
            Selector::Fifo | Selector::Lifo => Self::Ordered(OrderedRows::new(selector, windows)),
            Selector::Recency { .. } | Selector::LaneWeights(_) | Selector::LaneStrata => {
                Self::Weighted(WeightedRows::new(selector))
            }
        }))
    }

    /// Returns the selector that it was opened for, with later changes.
    pub(super) fn selector(&self) -> Selector {
        match self {
            Self::Prioritised(of) => Selector::Priority(of.options().clone()),
            Self::Extreme(of) => of.selector().clone(),
            Self::Ordered(of) => of.selector().clone(),
            Self::Weighted(of) => of.selector().clone(),
            Self::Claimed(of) => of.selector().clone(),
            Self::Rollouts(of) => of.selector().clone(),
        }
    }

    /// Fails if its table was removed since it was opened. Otherwise makes at most one system call.
    pub(super) fn check_not_removed(&mut self) -> Result<(), SampleError> {
        match self {
            Self::Claimed(of) => of.check_not_removed(),
            Self::Rollouts(of) => Ok(of.ledger().claims.check_not_removed()?),
            other => match other.priorities_mut() {
                Some(priorities) => Ok(priorities.check_not_removed()?),
                None => Ok(()),
            },
        }
    }

    /// Sets what ends waits for the lock of a table.
    pub(super) fn set_limits(&mut self, limits: LockLimits) {
        match self {
            Self::Claimed(of) => of.set_limits(limits),
            Self::Rollouts(of) => of.set_limits(limits),
            other => {
                if let Some(priorities) = other.priorities_mut() {
                    priorities.set_limits(limits);
                }
            }
        }
    }

    /// Returns the table of priorities, if it has one.
    pub(super) fn priorities_mut(&mut self) -> Option<&mut Priorities> {
        match self {
            Self::Prioritised(of) => Some(of.priorities_mut()),
            Self::Extreme(of) => Some(of.priorities_mut()),
            Self::Ordered(_) | Self::Weighted(_) | Self::Claimed(_) | Self::Rollouts(_) => None,
        }
    }

    /// Chooses a row for every item of batch number `batch`. Returns `false` if there is nothing to
    /// choose from.
    pub(super) fn begin(
        &mut self,
        rng: &mut CounterRng,
        (batch, items): (u64, usize),
        eligibility: &mut Eligibility,
    ) -> Result<bool, SampleError> {
        match self {
            Self::Prioritised(of) => of.begin(rng, (batch, items), eligibility),
            Self::Extreme(of) => of.begin(items, eligibility),
            Self::Ordered(of) => of.begin(items, eligibility),
            Self::Claimed(of) => of.begin(items, eligibility),
            Self::Weighted(of) => of.begin(rng, (batch, items), eligibility),
            // Blocks are begun on their own.
            Self::Rollouts(_) => Ok(false),
        }
    }

    /// Ends batch number `batch`, which was drawn.
    pub(super) fn finish(&mut self, batch: u64) {
        match self {
            Self::Claimed(of) => of.finish(batch),
            Self::Rollouts(of) => of.ledger_mut().finish(batch),
            _ => {}
        }
    }

    /// Keeps the claimed rows of the last `batches` batches, at least 1, for
    /// [`rewind`](Self::rewind).
    pub(super) fn keep(&mut self, batches: usize) {
        match self {
            Self::Claimed(of) => of.keep(batches),
            Self::Rollouts(of) => of.ledger_mut().keep(batches),
            _ => {}
        }
    }

    /// Takes back the claimed rows of batch number `batch` and of later ones.
    pub(super) fn rewind(&mut self, batch: u64) {
        match self {
            Self::Claimed(of) => of.rewind(batch),
            Self::Rollouts(of) => of.ledger_mut().rewind(batch),
            _ => {}
        }
    }

    /// Returns how many rows could be claimed now. `None` if draws do not wait for rows.
    pub(super) fn claimable(&self, eligibility: &Eligibility) -> Option<u64> {
        match self {
            Self::Claimed(of) => Some(of.claimable()),
            Self::Rollouts(of) => Some(of.claimable(eligibility)),
            _ => None,
        }
    }

    /// Returns the error of an attempt for which nothing is left to choose, though the ring has
    /// transitions.
    pub(super) fn why_empty(&self, attempt: u32, eligibility: &Eligibility) -> Option<SampleError> {
        match self {
            Self::Weighted(of) => of.why_empty(attempt, eligibility),
            _ => None,
        }
    }

    /// Returns lane and row that were chosen for an item, if there was one.
    pub(super) fn first_draw(&self, item: usize) -> Option<(usize, u64)> {
        match self {
            Self::Prioritised(of) => of.first_draw(item),
            Self::Extreme(of) => of.first_draw(item),
            Self::Ordered(of) => of.first_draw(item),
            Self::Weighted(of) => of.first_draw(item),
            Self::Claimed(of) => of.first_draw(item),
            Self::Rollouts(_) => None,
        }
    }

    /// Returns the candidate row of an item in an attempt. Returns `None` if the attempt found no
    /// row.
    pub(super) fn candidate(
        &mut self,
        rng: &CounterRng,
        eligibility: &Eligibility,
        (batch, item): (u64, usize),
        attempt: u32,
    ) -> Result<Option<Candidate>, SampleError> {
        let found = match self {
            Self::Prioritised(of) => {
                return of.candidate(rng, eligibility, (batch, item), attempt);
            }
            Self::Weighted(of) => of.candidate(rng, eligibility, (batch, item), attempt),
            Self::Extreme(of) => Some(of.next(item, eligibility)?),
            Self::Ordered(of) => Some(of.next(item, eligibility)?),
            Self::Claimed(of) => Some(of.next(item, eligibility)?),
            Self::Rollouts(_) => None,
        };
        let candidate = |(lane, seq)| Some(Candidate { attempt, lane: lane_number(lane)?, seq });
        Ok(found.and_then(candidate))
    }
}

fn lane_number(lane: usize) -> Option<u32> {
    u32::try_from(lane).ok()
}
