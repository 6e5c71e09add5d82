//! Copies a micro-batch's regular items into the arenas of a batch, one field after the other.

use backcast_layout::{DType, InterleavedPrefetch, WindowSlice};

use super::micro_batch::MicroBatch;
use crate::ring::copy_rows::clean_bools;
use crate::sampler::plan::{ArenaField, BatchPlan, SegmentSlice, Source};

/// Copies windows into arenas. Its copies are to be validated afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArenaWriter<'p> {
    pub(super) plan: &'p BatchPlan,
    /// Discount per transition of an n-step return.
    pub(super) gamma: f64,
}

impl ArenaWriter<'_> {
    /// Fills every field of a micro-batch's items as if all were regular, and prefetches the next micro-batch
    /// between the copies. The places of irregular items hold any bytes afterwards.
    ///
    /// Returns `false` if the lanes have no such columns.
    pub(super) fn copy_micro_batch(
        &self,
        now: &MicroBatch<'_>,
        next: &MicroBatch<'_>,
        rewards: &mut Vec<u8>,
        arenas: &mut [&mut [u8]],
    ) -> bool {
        let count = now.count();
        let mut copied = true;
        for (field, arena) in self.plan.fields().iter().zip(arenas) {
            let bytes = field.rows * field.width;
            let first = now.first() * bytes;
            let Some(here) = arena.get_mut(first..first + count * bytes) else { return false };
            match (field.source, field.slice) {
                (Source::Column(_) | Source::NNext(_), Some(slice)) => {
                    copied &= self.copy_field(field, slice, now, next, here);
                }
                (Source::Index, _) if bytes == size_of::<i64>() => {
                    here.copy_from_slice(bytemuck::cast_slice(now.index()));
                }
                (Source::Age, _) if bytes == size_of::<u64>() => {
                    here.copy_from_slice(bytemuck::cast_slice(now.ages()));
                }
                (Source::Mask, _) => set(here, 1),
                (Source::Flag(_), _) => set(here, 0),
                (Source::NReward(_), Some(slice)) => {
                    copied &= self.sum_rewards(field.dtype, slice, now, rewards, here);
                }
                (Source::NDiscount(_), _) => {
                    // No transition of an interior window terminated.
                    let discount = self.n_step_discount();
                    for place in here.chunks_exact_mut(bytes.max(1)) {
                        write_real(field.dtype, discount, place);
                    }
                }
                _ => copied = false,
            }
        }
        copied
    }

    /// Copies the rows of a field.
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
        // A peer may have stored any byte.
        clean_bools(field.dtype, here);
        copied
    }

    /// Sums the rewards of whole n-step returns. `rewards` is scratch memory.
    #[inline(never)]
    fn sum_rewards(
        &self,
        dtype: DType,
        slice: SegmentSlice,
        now: &MicroBatch<'_>,
        rewards: &mut Vec<u8>,
        here: &mut [u8],
    ) -> bool {
        let Some(segment) = self.plan.segments().list().get(slice.segment) else { return false };
        let (first, rows) = (segment.lead + slice.first, slice.rows);
        let bytes = usize::try_from(rows).unwrap_or(0) * segment.width;
        rewards.resize(now.count() * bytes, 0);
        let slice = WindowSlice { first, rows, ..segment.slice() };
        if bytes == 0 || !now.windows().copy_to(slice, rewards, None) {
            return false;
        }
        for (place, rewards) in here.chunks_exact_mut(dtype.size()).zip(rewards.chunks_exact(bytes))
        {
            let (sum, _) = self.discounted(dtype, rewards);
            write_real(dtype, sum, place);
        }
        true
    }

    /// Returns the discount after an n-step return that nothing cuts short.
    fn n_step_discount(&self) -> f64 {
        (0..self.plan.run()).fold(1.0, |discount, _| discount * self.gamma)
    }

    /// Returns the discounted sum of rewards, oldest first, and the discount after them.
    pub(super) fn discounted(&self, dtype: DType, rewards: &[u8]) -> (f64, f64) {
        rewards.chunks_exact(dtype.size()).fold((0.0, 1.0), |(sum, discount), reward| {
            (sum + discount * to_f64(reward), discount * self.gamma)
        })
    }
}

/// Sets every byte. Most micro-batches have a word or two of them, for which a call costs more.
#[inline]
fn set(here: &mut [u8], byte: u8) {
    match here.len() {
        8 => here.copy_from_slice(&[byte; 8]),
        16 => here.copy_from_slice(&[byte; 16]),
        _ => here.fill(byte),
    }
}

/// Reads a float of four or eight bytes.
fn to_f64(bytes: &[u8]) -> f64 {
    match bytes {
        [a, b, c, d] => f32::from_ne_bytes([*a, *b, *c, *d]).into(),
        bytes => bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes),
    }
}

/// Stores a number as the element type of a reward.
pub(super) fn write_real(dtype: DType, value: f64, place: &mut [u8]) {
    match dtype {
        DType::F64 => place.copy_from_slice(&value.to_ne_bytes()),
        #[expect(clippy::cast_possible_truncation, reason = "rounded to the reward's own type")]
        _ => place.copy_from_slice(&(value as f32).to_ne_bytes()),
    }
}
