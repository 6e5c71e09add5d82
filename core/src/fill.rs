//! One drawn window on its way into the arenas of a batch.

use backcast_layout::protocol::Words;
use backcast_layout::{DType, Lane};

use crate::episode::TERMINATED;
use crate::index::RowIndex;
use crate::plan::{Fill, Source};
use crate::reader::clean_bools;
use crate::window::{Marks, Window};

/// Bytes of rewards read at a time.
const REWARDS: usize = 512;

/// One item's window. Copies; what it copied is to be validated afterwards.
pub(crate) struct Filler<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) number: u32,
    pub(crate) head: u64,
    pub(crate) marks: &'a Marks,
    pub(crate) window: Window,
    /// Of the window's first row, kept: a division per column costs as much as a small column.
    pub(crate) slot: u64,
    /// Discount per transition of an n-step return.
    pub(crate) gamma: f64,
}

impl Filler<'_> {
    /// Fills all places of one arena's item.
    pub(crate) fn fill(&self, fill: &Fill, dtype: DType, place: &mut [u8]) {
        match fill.source {
            Source::NReward(column) => real(dtype, self.n_step(column, dtype).0, place),
            Source::NDiscount(column) => real(dtype, self.n_step(column, dtype).1, place),
            Source::NNext(column) => self.after_run(column, dtype, place),
            Source::Column(column) if fill.repeat => self.repeat(fill, column, dtype, place),
            _ => self.mask(fill, dtype, place),
        }
    }

    /// Fills the places that have a row and zeroes the others.
    #[inline]
    fn mask(&self, fill: &Fill, dtype: DType, place: &mut [u8]) {
        let Window { seq, back, ahead, .. } = self.window;
        let last = fill.first + signed(fill.rows as u64) - 1;
        let from = (fill.shift.0 - signed(back)).max(fill.first);
        let to = (fill.shift.1 + signed(ahead)).min(last);
        let rows = u64::try_from(to - from + 1).unwrap_or(0);
        let filled = if rows == fill.rows as u64 { place } else { part(fill, from, rows, place) };
        if rows == 0 {
            return;
        }
        let first = seq.wrapping_add_signed(from);
        match fill.source {
            Source::Column(column) => self.copy(column, dtype, first, rows, filled),
            Source::Flag(flag) => {
                for (byte, row) in filled.iter_mut().zip(first..) {
                    let set = self.marks.flags(row).is_some_and(|flags| flags & flag != 0);
                    *byte = u8::from(set);
                }
            }
            Source::Mask => filled.fill(1),
            Source::Index => {
                filled.copy_from_slice(&RowIndex::new(self.number, seq).0.to_ne_bytes());
            }
            Source::Age => {
                filled.copy_from_slice(&self.head.saturating_sub(seq + 1).to_ne_bytes());
            }
            Source::NReward(_) | Source::NDiscount(_) | Source::NNext(_) => {}
        }
    }

    /// Fills the places that have a row, and repeats the first and the last row beyond them. The
    /// window's last row is the one after its last transition.
    #[inline(never)]
    fn repeat(&self, fill: &Fill, column: usize, dtype: DType, place: &mut [u8]) {
        let (oldest, newest) = (-signed(self.window.back), signed(self.window.ahead) + 1);
        let from = fill.first.clamp(oldest, newest);
        let to = (fill.first + signed(fill.rows as u64) - 1).clamp(oldest, newest);
        let before = usize::try_from(from - fill.first).unwrap_or(0) * fill.width;
        let rows = u64::try_from(to - from + 1).unwrap_or(0);
        let end = before + usize::try_from(rows).unwrap_or(0) * fill.width;
        let first = self.window.seq.wrapping_add_signed(from);
        let Some(filled) = place.get_mut(before..end) else { return };
        self.copy(column, dtype, first, rows, filled);
        let (ahead_of_it, rest) = place.split_at_mut(before);
        let (filled, after_it) = rest.split_at_mut(end - before);
        for copy in ahead_of_it.chunks_exact_mut(fill.width) {
            copy.copy_from_slice(&filled[..fill.width]);
        }
        for copy in after_it.chunks_exact_mut(fill.width) {
            copy.copy_from_slice(&filled[filled.len() - fill.width..]);
        }
    }

    /// The row after the last transition of the n-step return.
    #[inline(never)]
    fn after_run(&self, column: usize, dtype: DType, place: &mut [u8]) {
        self.copy(column, dtype, self.window.seq + self.window.run, 1, place);
    }

    /// Copies consecutive rows of a column.
    #[inline]
    fn copy(&self, column: usize, dtype: DType, first: u64, rows: u64, out: &mut [u8]) {
        self.lane.copy_out(column, self.slot_of(first), rows, out);
        clean_bools(dtype, out);
    }

    /// The slot of a row not before the window's first.
    fn slot_of(&self, row: u64) -> u64 {
        let slots = self.lane.slots();
        let slot = self.slot + (row - self.window.first());
        if slot < slots { slot } else { slot - slots }
    }

    /// Discounted sum of the rewards from the drawn row on, and the discount of what follows: zero
    /// where the last of them ended the episode for good.
    #[inline(never)]
    fn n_step(&self, column: usize, dtype: DType) -> (f64, f64) {
        let (mut sum, mut discount) = (0.0, 1.0);
        let (width, end) = (dtype.size(), self.window.seq + self.window.run);
        let mut memory = [0; REWARDS];
        let mut row = self.window.seq;
        while row < end {
            let rows = (end - row).min((REWARDS / width) as u64);
            let len = usize::try_from(rows).unwrap_or(0) * width;
            let rewards = &mut memory[..len];
            self.lane.copy_out(column, self.slot_of(row), rows, rewards);
            for reward in rewards.chunks_exact(width) {
                sum += discount * to_f64(reward);
                discount *= self.gamma;
            }
            row += rows;
        }
        let ended = self.marks.flags(end - 1).is_some_and(|flags| flags & TERMINATED != 0);
        (sum, if ended { 0.0 } else { discount })
    }
}

/// The places that have a row, from an offset to the drawn one on; zeroes all others.
fn part<'a>(fill: &Fill, from: i64, rows: u64, place: &'a mut [u8]) -> &'a mut [u8] {
    let before = usize::try_from(from - fill.first).unwrap_or(0).min(fill.rows) * fill.width;
    let (zeros, rest) = place.split_at_mut(before);
    zeros.fill(0);
    let there = usize::try_from(rows).unwrap_or(0) * fill.width;
    let (filled, zeros) = rest.split_at_mut(there.min(rest.len()));
    zeros.fill(0);
    filled
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
