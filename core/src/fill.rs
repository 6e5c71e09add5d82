//! A block's windows on their way into the arenas of a batch.

use backcast_layout::protocol::Words;
use backcast_layout::{DType, Meanwhile, RunPart};

use crate::block::{Block, Detail, Item};
use crate::episode::TERMINATED;
use crate::hand::Hand;
use crate::plan::{BatchPlan, Copied, Fill, Source, Stretch};
use crate::reader::clean_bools;
use crate::window::{Marks, Window};

/// Bytes of rewards read at a time.
const REWARDS: usize = 512;

/// Copies windows; what it copied is to be validated afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Filler<'p> {
    pub(crate) plan: &'p BatchPlan,
    /// Discount per transition of an n-step return.
    pub(crate) gamma: f64,
}

impl Filler<'_> {
    /// Fills every arena's places of the block's items, and asks for what is long of the next block's.
    pub(crate) fn fill<'a>(
        &self,
        block: &Block<'a>,
        next: Option<&Block<'a>>,
        arenas: &mut [&mut [u8]],
    ) {
        for (fill, arena) in self.plan.fills().iter().zip(arenas) {
            let bytes = fill.rows * fill.width;
            let first = block.first() * bytes;
            let Some(here) = arena.get_mut(first..first + block.items().len() * bytes) else {
                continue;
            };
            let stretches = self.plan.copies().stretches();
            if let Some(copied) = &fill.copied
                && let Some(stretch) = stretches.get(copied.stretch)
            {
                let next = next.filter(|_| copied.is_first);
                let next = next.and_then(|next| next.found_of_some(copied.stretch));
                match (block.found(copied.stretch), next) {
                    (Some(found), next) => found.copy_to(copied.first, copied.rows, here, next),
                    (None, next) => {
                        if let Some(next) = next.filter(|next| next.is_long()) {
                            next.ask();
                        }
                        copy(fill, copied, stretch, block, here);
                    }
                }
                // A peer may have stored any byte.
                clean_bools(fill.dtype, here);
                continue;
            }
            match fill.source {
                Source::Index => {
                    for (place, item) in here.as_chunks_mut().0.iter_mut().zip(block.items()) {
                        *place = item.index.0.to_ne_bytes();
                    }
                }
                Source::Age => {
                    for (place, item) in here.as_chunks_mut().0.iter_mut().zip(block.items()) {
                        *place = item.age.to_ne_bytes();
                    }
                }
                Source::Mask if block.is_whole() => set(here, 1),
                Source::Flag(_) if block.is_quiet() => set(here, 0),
                _ => self.tell(fill, block, here),
            }
        }
    }

    /// Fills every arena's places of a hand's items, in whose windows nothing happens, and asks for the windows of the next
    /// one meanwhile. `false`: not all could be.
    pub(crate) fn fill_hand(
        &self,
        hand: &Hand<'_>,
        next: &Hand<'_>,
        arenas: &mut [&mut [u8]],
    ) -> bool {
        let count = hand.count();
        let mut all = true;
        for (fill, arena) in self.plan.fills().iter().zip(arenas) {
            let bytes = fill.rows * fill.width;
            let first = hand.first() * bytes;
            let Some(here) = arena.get_mut(first..first + count * bytes) else { return false };
            match (fill.copied, fill.source) {
                (Some(copied), _) => {
                    let Some(stretch) = self.plan.copies().stretches().get(copied.stretch) else {
                        return false;
                    };
                    let (first, rows) = (stretch.lead + copied.first, copied.rows);
                    let part = RunPart { first, rows, ..stretch.part() };
                    let meanwhile = next.unasked().and_then(|runs| {
                        let lines = self.plan.copies().asked_meanwhile(&copied, runs.lines())?;
                        let long = (copied.is_first && stretch.is_long).then(|| stretch.part());
                        Some(Meanwhile { runs, lines, long })
                    });
                    all &= hand.runs().copy_to(part, here, meanwhile);
                    // A peer may have stored any byte.
                    clean_bools(fill.dtype, here);
                }
                (None, Source::Index) if bytes == size_of::<i64>() => {
                    here.copy_from_slice(bytemuck::cast_slice(hand.index()));
                }
                (None, Source::Age) if bytes == size_of::<u64>() => {
                    here.copy_from_slice(bytemuck::cast_slice(hand.ages()));
                }
                (None, Source::Mask) => set(here, 1),
                (None, Source::Flag(_)) => set(here, 0),
                _ => all = false,
            }
        }
        all
    }

    /// Tells what happens in each item's window. Apart from [`fill`](Self::fill), which most blocks need nothing
    /// of this for, and whose registers it would take.
    #[inline(never)]
    fn tell(&self, fill: &Fill, block: &Block<'_>, here: &mut [u8]) {
        let (bytes, dtype) = (fill.rows * fill.width, fill.dtype);
        match fill.source {
            Source::Mask => {
                here.fill(1);
                block.each_noted(here, bytes, |place, detail, _| {
                    let (from, rows) = present(fill, detail.window);
                    part(fill, from, rows, place).fill(1);
                });
            }
            Source::Flag(flag) => {
                set(here, 0);
                let drawn = fill.rows == 1 && fill.first == 0;
                block.each_noted(here, bytes, |place, detail, marks| {
                    if drawn {
                        place[0] = u8::from(detail.flags & flag != 0);
                    } else {
                        flags(fill, flag, detail, marks, place);
                    }
                });
            }
            Source::NReward(column) => block.each(here, bytes, |place, item, detail, marks| {
                let (sum, _) = self.n_step(column, dtype, item, detail.window, marks);
                real(dtype, sum, place);
            }),
            Source::NDiscount(column) => block.each(here, bytes, |place, item, detail, marks| {
                let (_, discount) = self.n_step(column, dtype, item, detail.window, marks);
                real(dtype, discount, place);
            }),
            _ => {}
        }
    }

    /// Discounted sum of the rewards from the drawn row on, and the discount of what follows: zero
    /// where the last of them ended the episode for good.
    fn n_step(
        &self,
        column: usize,
        dtype: DType,
        item: &Item<'_>,
        window: Window,
        marks: Marks<'_>,
    ) -> (f64, f64) {
        let (mut sum, mut discount) = (0.0, 1.0);
        let width = dtype.size();
        let mut memory = [0; REWARDS];
        let mut done = 0;
        while done < window.run {
            let rows = (window.run - done).min((REWARDS / width) as u64);
            let len = usize::try_from(rows).unwrap_or(0) * width;
            let rewards = &mut memory[..len];
            let slot = item.slot_after(window.back + done);
            item.run.lane().copy_out(column, slot, rows, rewards);
            for reward in rewards.chunks_exact(width) {
                sum += discount * to_f64(reward);
                discount *= self.gamma;
            }
            done += rows;
        }
        let last = window.seq + window.run - 1;
        let ended = marks.flags(last).is_some_and(|flags| flags & TERMINATED != 0);
        (sum, if ended { 0.0 } else { discount })
    }
}

/// Sets every byte. Those of most blocks are as many as a word or two: a call costs more.
#[inline]
fn set(here: &mut [u8], byte: u8) {
    match here.len() {
        8 => here.copy_from_slice(&[byte; 8]),
        16 => here.copy_from_slice(&[byte; 16]),
        _ => here.fill(byte),
    }
}

/// Copies rows, item by item. Not inlined, as [`Filler::tell`].
#[inline(never)]
fn copy(fill: &Fill, copied: &Copied, from: &Stretch, block: &Block<'_>, here: &mut [u8]) {
    let (bytes, column) = (fill.rows * fill.width, from.column);
    if fill.repeat {
        return block.each(here, bytes, |place, item, detail, _| {
            repeat(fill, column, item, detail.window, place);
        });
    }
    block.each(here, bytes, |place, item, detail, _| {
        if detail.whole || from.after_run {
            let slot = item.slot_after(detail.lead(from) + copied.first);
            item.run.lane().copy_out(column, slot, copied.rows, place);
        } else {
            copy_present(fill, column, item, detail.window, place);
        }
    });
}

/// Fills the places that have a row and zeroes the others.
#[inline]
fn copy_present(fill: &Fill, column: usize, item: &Item<'_>, window: Window, place: &mut [u8]) {
    let (from, rows) = present(fill, window);
    let filled = part(fill, from, rows, place);
    if rows > 0 {
        let slot = item.slot_after(window.back.saturating_add_signed(from));
        item.run.lane().copy_out(column, slot, rows, filled);
    }
}

/// The places of a fill that have a row: the first, relative to the drawn one, and how many.
#[inline]
fn present(fill: &Fill, window: Window) -> (i64, u64) {
    let Window { back, ahead, .. } = window;
    let last = fill.first + signed(fill.rows as u64) - 1;
    let from = (fill.shift.0 - signed(back)).max(fill.first);
    let to = (fill.shift.1 + signed(ahead)).min(last);
    (from, u64::try_from(to - from + 1).unwrap_or(0))
}

/// The places that have a row, from an offset to the drawn one on; zeroes all others.
#[inline]
fn part<'a>(fill: &Fill, from: i64, rows: u64, place: &'a mut [u8]) -> &'a mut [u8] {
    if rows == fill.rows as u64 {
        return place;
    }
    let before = usize::try_from(from - fill.first).unwrap_or(0).min(fill.rows) * fill.width;
    let (zeros, rest) = place.split_at_mut(before);
    zeros.fill(0);
    let there = usize::try_from(rows).unwrap_or(0) * fill.width;
    let (filled, zeros) = rest.split_at_mut(there.min(rest.len()));
    zeros.fill(0);
    filled
}

/// Fills the places of a flag: whether it is set at each row.
#[inline]
fn flags(fill: &Fill, flag: u32, detail: &Detail, marks: Marks<'_>, place: &mut [u8]) {
    if detail.all_flags & flag == 0 {
        return place.fill(0);
    }
    let (from, rows) = present(fill, detail.window);
    let first = detail.window.seq.wrapping_add_signed(from);
    let at = usize::try_from(first.saturating_sub(marks.first)).unwrap_or(usize::MAX);
    let marks = marks.rows.get(at..).unwrap_or_default();
    for (byte, mark) in part(fill, from, rows, place).iter_mut().zip(marks) {
        *byte = u8::from(mark.flags & flag != 0);
    }
}

/// Fills the places that have a row, and repeats the first and the last row beyond them. The
/// window's last row is the one after its last transition.
fn repeat(fill: &Fill, column: usize, item: &Item<'_>, window: Window, place: &mut [u8]) {
    let (oldest, newest) = (-signed(window.back), signed(window.ahead) + 1);
    let from = fill.first.clamp(oldest, newest);
    let to = (fill.first + signed(fill.rows as u64) - 1).clamp(oldest, newest);
    let before = usize::try_from(from - fill.first).unwrap_or(0) * fill.width;
    let rows = u64::try_from(to - from + 1).unwrap_or(0);
    let end = before + usize::try_from(rows).unwrap_or(0) * fill.width;
    let Some(filled) = place.get_mut(before..end) else { return };
    let slot = item.slot_after(window.back.saturating_add_signed(from));
    item.run.lane().copy_out(column, slot, rows, filled);
    let (ahead_of_it, rest) = place.split_at_mut(before);
    let (filled, after_it) = rest.split_at_mut(end - before);
    for copy in ahead_of_it.chunks_exact_mut(fill.width) {
        copy.copy_from_slice(&filled[..fill.width]);
    }
    for copy in after_it.chunks_exact_mut(fill.width) {
        copy.copy_from_slice(&filled[filled.len() - fill.width..]);
    }
}

/// A float of four or eight bytes.
fn to_f64(bytes: &[u8]) -> f64 {
    match bytes {
        [a, b, c, d] => f32::from_ne_bytes([*a, *b, *c, *d]).into(),
        bytes => bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes),
    }
}

/// Stores a number as the element type of a reward.
fn real(dtype: DType, value: f64, place: &mut [u8]) {
    match dtype {
        DType::F64 => place.copy_from_slice(&value.to_ne_bytes()),
        #[expect(clippy::cast_possible_truncation, reason = "rounded to the reward's own type")]
        _ => place.copy_from_slice(&(value as f32).to_ne_bytes()),
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
