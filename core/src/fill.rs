//! A block's windows on their way into the arenas of a batch.

use backcast_layout::protocol::Words;
use backcast_layout::{DType, Start, gather};

use crate::block::{Block, Item};
use crate::episode::TERMINATED;
use crate::plan::{BatchPlan, Fill, Source};
use crate::reader::clean_bools;
use crate::window::{Marks, Reach, Window};

/// Bytes of rewards read at a time.
const REWARDS: usize = 512;

/// Copies windows; what it copied is to be validated afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Filler<'p> {
    pub(crate) plan: &'p BatchPlan,
    pub(crate) reach: Reach,
    /// Discount per transition of an n-step return.
    pub(crate) gamma: f64,
}

impl Filler<'_> {
    /// Fills every arena's places of the block's items.
    pub(crate) fn fill(&self, block: &Block<'_>, arenas: &mut [&mut [u8]]) {
        let plan = self.plan.fills().iter().zip(self.plan.arenas());
        for ((fill, arena), buffer) in plan.zip(arenas) {
            let (bytes, dtype) = (fill.rows * fill.width, arena.dtype());
            let first = block.first() * bytes;
            let Some(here) = buffer.get_mut(first..first + block.items().len() * bytes) else {
                continue;
            };
            let places = here.chunks_exact_mut(bytes);
            match fill.source {
                Source::Column(column) if fill.repeat => {
                    places.zip(block.items()).for_each(|(place, item)| {
                        repeat(fill, column, item, place);
                    });
                }
                Source::Column(column) if block.is_whole() => {
                    let (lead, rows) = (self.lead(fill), fill.rows as u64);
                    let starts = block.items().iter().map(|item| start(item, lead));
                    gather(column, rows, starts, here, bytes);
                }
                Source::Column(column) => {
                    let lead = self.lead(fill);
                    for (place, item) in places.zip(block.items()) {
                        copy(fill, column, item, lead, place);
                    }
                }
                Source::NNext(column) => {
                    let starts = block.items().iter().map(after_run);
                    gather(column, 1, starts, here, bytes);
                }
                Source::Index => {
                    for (place, item) in words(places).zip(block.items()) {
                        *place = item.index.0.to_ne_bytes();
                    }
                }
                Source::Age => {
                    for (place, item) in words(places).zip(block.items()) {
                        *place = item.age.to_ne_bytes();
                    }
                }
                Source::Mask => {
                    for (place, item) in places.zip(block.items()) {
                        let (from, rows) = present(fill, item.window);
                        part(fill, from, rows, place).fill(1);
                    }
                }
                Source::Flag(flag) if fill.rows == 1 && fill.first == 0 => {
                    for (place, item) in places.zip(block.items()) {
                        place[0] = u8::from(item.flags & flag != 0);
                    }
                }
                Source::Flag(flag) => {
                    for (place, (item, marks)) in places.zip(block.marked()) {
                        flags(fill, flag, item, marks, place);
                    }
                }
                Source::NReward(column) => {
                    for (place, (item, marks)) in places.zip(block.marked()) {
                        real(dtype, self.n_step(column, dtype, item, marks).0, place);
                    }
                }
                Source::NDiscount(column) => {
                    for (place, (item, marks)) in places.zip(block.marked()) {
                        real(dtype, self.n_step(column, dtype, item, marks).1, place);
                    }
                }
            }
            // A peer may have stored any byte.
            if matches!(fill.source, Source::Column(_) | Source::NNext(_)) {
                clean_bools(dtype, here);
            }
        }
    }

    /// Asks for the memory of a block, so that it is on its way before it is copied.
    pub(crate) fn ask(&self, block: &Block<'_>) {
        // All of an item's together: a request that has to look its page up holds back what comes
        // after it, and so gets as many lines as follow it on the same page.
        for item in block.items() {
            for fill in self.plan.fills() {
                let (column, Start { lane, slot }) = match fill.source {
                    Source::Column(column) => (column, start(item, self.lead(fill))),
                    Source::NNext(column) => (column, after_run(item)),
                    _ => continue,
                };
                lane.ahead(column, slot).ask(fill.rows * fill.width);
            }
        }
    }

    /// Rows from the first of a whole window to the first place of a fill.
    fn lead(&self, fill: &Fill) -> u64 {
        self.reach.back.saturating_add_signed(fill.first)
    }

    /// Discounted sum of the rewards from the drawn row on, and the discount of what follows: zero
    /// where the last of them ended the episode for good.
    fn n_step(&self, column: usize, dtype: DType, item: &Item<'_>, marks: Marks<'_>) -> (f64, f64) {
        let (mut sum, mut discount) = (0.0, 1.0);
        let window = item.window;
        let width = dtype.size();
        let mut memory = [0; REWARDS];
        let mut done = 0;
        while done < window.run {
            let rows = (window.run - done).min((REWARDS / width) as u64);
            let len = usize::try_from(rows).unwrap_or(0) * width;
            let rewards = &mut memory[..len];
            item.lane.copy_out(column, slot_after(item, window.back + done), rows, rewards);
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

/// Where a fill begins whose first place is `lead` rows after a whole window's first row; of a window
/// that is not whole, about there.
#[inline]
fn start<'a>(item: &Item<'a>, lead: u64) -> Start<'a> {
    let slot = slot_after(item, lead.saturating_sub(item.missing));
    Start { lane: item.lane, slot }
}

/// The row after the last transition of the n-step return.
#[inline]
fn after_run<'a>(item: &Item<'a>) -> Start<'a> {
    let slot = slot_after(item, item.window.back + item.window.run);
    Start { lane: item.lane, slot }
}

/// Fills the places that have a row and zeroes the others.
#[inline]
fn copy(fill: &Fill, column: usize, item: &Item<'_>, lead: u64, place: &mut [u8]) {
    if item.whole {
        let slot = slot_after(item, lead);
        return item.lane.copy_out(column, slot, fill.rows as u64, place);
    }
    let (from, rows) = present(fill, item.window);
    let filled = part(fill, from, rows, place);
    if rows > 0 {
        let slot = slot_after(item, item.window.back.saturating_add_signed(from));
        item.lane.copy_out(column, slot, rows, filled);
    }
}

/// Places of eight bytes.
fn words(places: std::slice::ChunksExactMut<'_, u8>) -> impl Iterator<Item = &mut [u8; 8]> {
    places.filter_map(|place| place.first_chunk_mut())
}

/// The slot so many rows after the window's first.
#[inline]
fn slot_after(item: &Item<'_>, rows: u64) -> u64 {
    item.lane.slot_after(item.slot, rows)
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
fn flags(fill: &Fill, flag: u32, item: &Item<'_>, marks: Marks<'_>, place: &mut [u8]) {
    if item.all_flags & flag == 0 {
        return place.fill(0);
    }
    let (from, rows) = present(fill, item.window);
    let first = item.window.seq.wrapping_add_signed(from);
    let at = usize::try_from(first.saturating_sub(marks.first)).unwrap_or(usize::MAX);
    let marks = marks.rows.get(at..).unwrap_or_default();
    for (byte, mark) in part(fill, from, rows, place).iter_mut().zip(marks) {
        *byte = u8::from(mark.flags & flag != 0);
    }
}

/// Fills the places that have a row, and repeats the first and the last row beyond them. The
/// window's last row is the one after its last transition.
fn repeat(fill: &Fill, column: usize, item: &Item<'_>, place: &mut [u8]) {
    let window = item.window;
    let (oldest, newest) = (-signed(window.back), signed(window.ahead) + 1);
    let from = fill.first.clamp(oldest, newest);
    let to = (fill.first + signed(fill.rows as u64) - 1).clamp(oldest, newest);
    let before = usize::try_from(from - fill.first).unwrap_or(0) * fill.width;
    let rows = u64::try_from(to - from + 1).unwrap_or(0);
    let end = before + usize::try_from(rows).unwrap_or(0) * fill.width;
    let Some(filled) = place.get_mut(before..end) else { return };
    let slot = slot_after(item, window.back.saturating_add_signed(from));
    item.lane.copy_out(column, slot, rows, filled);
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
