//! Copies a micro-batch's regular items into the arenas of a batch, one field after the other.

use backcast_layout::protocol::Words;
use backcast_layout::{DType, InterleavedPrefetch, Lane, LearnedView, WindowSlice};

use super::micro_batch::MicroBatch;
use crate::ring::copy_rows::clean_bools;
use crate::sampler::plan::{
    ArenaField, BatchPlan, MICRO_BATCH, NStep, SegmentSlice, Source, Summed,
};

/// A discounted sum of rewards, and the discount after them.
pub(super) type Return = (f64, f64);

/// Scratch memory for the rewards and discounts of n-step returns.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    rewards: Vec<u8>,
    discounts: Vec<u8>,
}

/// Writer of windows into arenas. The caller validates the copies afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArenaWriter<'p> {
    pub(super) plan: &'p BatchPlan,
    /// Discount per transition of an n-step return, unless a column has the discounts.
    pub(super) gamma: f64,
    /// Words of the learned columns.
    pub(super) learned: Option<&'p LearnedView>,
}

impl ArenaWriter<'_> {
    /// Fills the fields of a micro-batch's items as if all items were regular. Weights, lengths and
    /// offsets are written later. If the policy of the next micro-batch interleaves prefetches, its
    /// rows are prefetched between the copies. The places of irregular items hold unspecified bytes
    /// afterwards.
    ///
    /// Returns `false` if the lanes lack a column of the plan.
    pub(super) fn copy_micro_batch(
        &self,
        now: &MicroBatch<'_>,
        next: &MicroBatch<'_>,
        scratch: &mut Scratch,
        arenas: &mut [&mut [u8]],
    ) -> bool {
        let count = now.count();
        let mut copied = true;
        let mut returns = [(0.0, 0.0); MICRO_BATCH];
        if let Some(n_step) = self.plan.n_step() {
            copied = self.returns(n_step, now, scratch, &mut returns);
        }
        for (field, arena) in self.plan.fields().iter().zip(&mut *arenas) {
            let bytes = field.rows * field.width;
            let first = now.first() * bytes;
            let Some(here) = arena.get_mut(first..first + count * bytes) else { return false };
            match (field.source, field.slice) {
                (Source::Column(_) | Source::First(_) | Source::NNext(_), Some(slice)) => {
                    copied &= self.copy_field(field, slice, now, next, here);
                }
                (Source::Index, _) if bytes == size_of::<i64>() => {
                    here.copy_from_slice(bytemuck::cast_slice(now.index()));
                }
                (Source::Age, _) if bytes == size_of::<u64>() => {
                    here.copy_from_slice(bytemuck::cast_slice(now.ages()));
                }
                (
                    Source::Weight
                    | Source::Learned(_)
                    | Source::LearnedSet(_)
                    | Source::PolicyAge
                    | Source::Length
                    | Source::Offsets,
                    _,
                ) => {}
                (Source::Mask, _) => set(here, 1),
                (Source::Flag(_) | Source::FirstFlag(_) | Source::Relabelled, _) => set(here, 0),
                // No transition of an interior window is terminated.
                (Source::NReward | Source::NDiscount, _) => {
                    let places = here.chunks_exact_mut(bytes.max(1));
                    for (place, (sum, discount)) in places.zip(returns) {
                        let value = if field.source == Source::NReward { sum } else { discount };
                        write_real(field.dtype, value, place);
                    }
                }
                _ => copied = false,
            }
        }
        if !self.plan.learned().is_empty() {
            self.learned_of_micro_batch(now.first(), now.index(), arenas);
        }
        copied
    }

    /// Copies the rows of a field. Returns `false` if the lanes lack its column.
    #[inline]
    fn copy_field(
        &self,
        field: &ArenaField,
        slice: SegmentSlice,
        now: &MicroBatch<'_>,
        next: &MicroBatch<'_>,
        here: &mut [u8],
    ) -> bool {
        let segments = self.plan.segments();
        let Some(segment) = segments.list().get(slice.segment) else { return false };
        let prefetch = next.windows_to_prefetch().and_then(|windows| {
            let lines = segments.lines_meanwhile(&slice, windows.lines())?;
            let long = (slice.is_first && segment.is_long).then(|| segment.slice());
            Some(InterleavedPrefetch { windows, lines, long })
        });
        let (first, rows) = (segment.lead + slice.first, slice.rows);
        let copied =
            now.windows().copy_to(WindowSlice { first, rows, ..segment.slice() }, here, prefetch);
        // A peer may have stored bytes other than 0 and 1.
        clean_bools(field.dtype, here);
        copied
    }

    /// Computes whole n-step returns. Returns `false` if the lanes lack a column of them.
    #[inline(never)]
    fn returns(
        &self,
        n_step: NStep,
        now: &MicroBatch<'_>,
        scratch: &mut Scratch,
        returns: &mut [Return; MICRO_BATCH],
    ) -> bool {
        let Scratch { rewards, discounts } = scratch;
        let Some(reward_bytes) = copy_summed(n_step.reward, n_step.run, now, rewards) else {
            return false;
        };
        let Some(discount) = n_step.discount else {
            for (place, rewards) in returns.iter_mut().zip(rewards.chunks_exact(reward_bytes)) {
                *place = self.discounted(n_step, rewards, &[]);
            }
            return true;
        };
        let Some(discount_bytes) = copy_summed(discount, n_step.run, now, discounts) else {
            return false;
        };
        let items = rewards.chunks_exact(reward_bytes).zip(discounts.chunks_exact(discount_bytes));
        for (place, (rewards, discounts)) in returns.iter_mut().zip(items) {
            *place = self.discounted(n_step, rewards, discounts);
        }
        true
    }

    /// Computes the n-step return of `rows` rows of an item's lane, from `slot` on.
    pub(super) fn return_of_rows(
        &self,
        n_step: NStep,
        (lane, slot): (&Lane, u64),
        rows: u64,
        scratch: &mut Scratch,
    ) -> Return {
        let Scratch { rewards, discounts } = scratch;
        let copy = |Summed { column, dtype }: Summed, out: &mut Vec<u8>| {
            out.resize(usize::try_from(rows).unwrap_or(0) * dtype.size(), 0);
            lane.copy_out(column, slot, rows, out);
        };
        copy(n_step.reward, rewards);
        match n_step.discount {
            Some(discount) => copy(discount, discounts),
            None => discounts.clear(),
        }
        self.discounted(n_step, rewards, discounts)
    }

    /// Returns the discounted sum of rewards, oldest first, and the discount after them.
    /// `discounts` holds the values of the discount column, if the returns use one.
    fn discounted(&self, n_step: NStep, rewards: &[u8], discounts: &[u8]) -> Return {
        let rewards = rewards.chunks_exact(n_step.reward.dtype.size()).map(read_real);
        let add = |(sum, discount), (reward, gamma)| (sum + discount * reward, discount * gamma);
        match n_step.discount {
            None => rewards.map(|reward| (reward, self.gamma)).fold((0.0, 1.0), add),
            Some(column) => {
                let discounts = discounts.chunks_exact(column.dtype.size()).map(read_real);
                rewards.zip(discounts).fold((0.0, 1.0), add)
            }
        }
    }
}

/// Copies the rows of a column that n-step returns sum. Returns the bytes of an item, or `None` if
/// the lanes lack the column.
fn copy_summed(
    Summed { column, dtype }: Summed,
    rows: u64,
    now: &MicroBatch<'_>,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let width = dtype.size();
    let bytes = usize::try_from(rows).ok()?.checked_mul(width)?;
    out.resize(now.count().checked_mul(bytes)?, 0);
    let slice = WindowSlice { column, width, first: now.back(), rows };
    now.windows().copy_to(slice, out, None).then_some(bytes)
}

/// Sets every byte. A flag of a full micro-batch has 16 bytes, and one of half a micro-batch has 8:
/// for these a store is cheaper than a call.
#[inline]
fn set(here: &mut [u8], byte: u8) {
    match here.len() {
        8 => here.copy_from_slice(&[byte; 8]),
        16 => here.copy_from_slice(&[byte; 16]),
        _ => here.fill(byte),
    }
}

/// Reads a float of four or eight bytes.
pub(in crate::sampler) fn read_real(bytes: &[u8]) -> f64 {
    match bytes {
        [a, b, c, d] => f32::from_ne_bytes([*a, *b, *c, *d]).into(),
        bytes => bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes),
    }
}

/// Stores a number as the element type of a reward.
pub(in crate::sampler) fn write_real(dtype: DType, value: f64, place: &mut [u8]) {
    match dtype {
        DType::F64 => place.copy_from_slice(&value.to_ne_bytes()),
        #[expect(clippy::cast_possible_truncation, reason = "rounded to the reward's own type")]
        _ => place.copy_from_slice(&(value as f32).to_ne_bytes()),
    }
}
