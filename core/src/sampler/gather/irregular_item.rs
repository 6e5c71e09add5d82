//! Copies one irregular item into the arenas of a batch, with its masks, and with zeros or repeated
//! observations in masked places.

use backcast_layout::protocol::Words;

use super::arena_writer::{ArenaWriter, Return, Scratch, write_real};
use super::inspect::IrregularItem;
use crate::ring::copy_rows::clean_bools;
use crate::row_flags::TERMINATED;
use crate::sampler::plan::{ArenaField, Source};
use crate::sampler::window::{RowHeaders, Window};

impl ArenaWriter<'_> {
    /// Fills the fields of an item. Weights, ages of policies, lengths and offsets are written
    /// later.
    pub(super) fn copy_item(
        &self,
        item: &IrregularItem<'_>,
        headers: RowHeaders<'_>,
        scratch: &mut Scratch,
        arenas: &mut [&mut [u8]],
    ) {
        let (sum, discount) = self.n_step(item, headers, scratch);
        if !self.plan.learned().is_empty() {
            let present = |field: &ArenaField| present(field, item.window);
            self.learned_of_item(item.item, item.index, present, arenas);
        }
        for (field, arena) in self.plan.fields().iter().zip(arenas) {
            let bytes = field.rows * field.width;
            let first = item.item * bytes;
            let Some(place) = arena.get_mut(first..first + bytes) else { continue };
            match field.source {
                Source::Column(column) if field.repeat => repeat(field, column, item, place),
                Source::Column(column) => copy_present(field, column, item, place),
                Source::NNext(column) => {
                    let slot = item.slot_after(item.window.back + item.window.run);
                    item.lane.copy_out(column, slot, 1, place);
                }
                Source::Mask => {
                    let (from, rows) = present(field, item.window);
                    part(field, from, rows, place).fill(1);
                }
                Source::Flag(flag) => flags(field, flag, item, headers, place),
                Source::Index => place.copy_from_slice(&item.index.0.to_ne_bytes()),
                Source::Weight
                | Source::Learned(_)
                | Source::LearnedSet(_)
                | Source::PolicyAge
                | Source::Length
                | Source::Offsets => {}
                Source::Relabelled => place.fill(0),
                Source::Age => place.copy_from_slice(&item.age.to_ne_bytes()),
                Source::First(column) => item.lane.copy_out(column, item.slot, 1, place),
                Source::FirstFlag(flag) => {
                    let flags = headers.flags(item.window.first()).unwrap_or(0);
                    place.fill(u8::from(flags & flag != 0));
                }
                Source::NReward => write_real(field.dtype, sum, place),
                Source::NDiscount => write_real(field.dtype, discount, place),
            }
            // A peer may have stored any byte.
            clean_bools(field.dtype, place);
        }
    }

    /// Returns the discounted sum of the rewards from the drawn row on, and the discount of the
    /// value after them. That discount is zero if the last transition terminated. Both are zero
    /// without n-step returns.
    fn n_step(
        &self,
        item: &IrregularItem<'_>,
        headers: RowHeaders<'_>,
        scratch: &mut Scratch,
    ) -> Return {
        let Some(n_step) = self.plan.n_step() else { return (0.0, 0.0) };
        let window = item.window;
        let from = (item.lane, item.slot_after(window.back));
        let (sum, discount) = self.return_of_rows(n_step, from, window.run, scratch);
        let last = window.seq + window.run - 1;
        let ended = headers.flags(last).is_some_and(|flags| flags & TERMINATED != 0);
        (sum, if ended { 0.0 } else { discount })
    }
}

/// Fills the places that have a row and zeroes the others.
fn copy_present(field: &ArenaField, column: usize, item: &IrregularItem<'_>, place: &mut [u8]) {
    let (from, rows) = present(field, item.window);
    let filled = part(field, from, rows, place);
    if rows > 0 {
        let slot = item.slot_after(item.window.back.saturating_add_signed(from));
        item.lane.copy_out(column, slot, rows, filled);
    }
}

/// Returns the first place of a field that has a row, relative to the drawn row, and how many have
/// one.
fn present(field: &ArenaField, window: Window) -> (i64, u64) {
    field.present(signed(window.back), signed(window.ahead))
}

/// Returns the places of `rows` rows from row `from` on, counted from the drawn row. Zeroes all
/// other places.
fn part<'a>(field: &ArenaField, from: i64, rows: u64, place: &'a mut [u8]) -> &'a mut [u8] {
    if rows == field.rows as u64 {
        return place;
    }
    let before = usize::try_from(from - field.first).unwrap_or(0).min(field.rows) * field.width;
    let (zeros, rest) = place.split_at_mut(before);
    zeros.fill(0);
    let there = usize::try_from(rows).unwrap_or(0) * field.width;
    let (filled, zeros) = rest.split_at_mut(there.min(rest.len()));
    zeros.fill(0);
    filled
}

/// Stores in each place whether a flag is set at its row.
fn flags(
    field: &ArenaField,
    flag: u32,
    item: &IrregularItem<'_>,
    headers: RowHeaders<'_>,
    place: &mut [u8],
) {
    if item.all_flags & flag == 0 {
        return place.fill(0);
    }
    if let (1, 0, [place]) = (field.rows, field.first, &mut *place) {
        *place = u8::from(item.flags & flag != 0);
        return;
    }
    let (from, rows) = present(field, item.window);
    let first = item.window.seq.wrapping_add_signed(from);
    let at = usize::try_from(first.saturating_sub(headers.first)).unwrap_or(usize::MAX);
    let headers = headers.rows.get(at..).unwrap_or_default();
    for (byte, header) in part(field, from, rows, place).iter_mut().zip(headers) {
        *byte = u8::from(header.flags & flag != 0);
    }
}

/// Fills the places that have a row, and repeats the first and the last row beyond them. The last
/// row is the one after the window's last transition.
fn repeat(field: &ArenaField, column: usize, item: &IrregularItem<'_>, place: &mut [u8]) {
    let window = item.window;
    let (oldest, newest) = (-signed(window.back), signed(window.ahead) + 1);
    let from = field.first.clamp(oldest, newest);
    let to = (field.first + signed(field.rows as u64) - 1).clamp(oldest, newest);
    let before = usize::try_from(from - field.first).unwrap_or(0) * field.width;
    let rows = u64::try_from(to - from + 1).unwrap_or(0);
    let end = before + usize::try_from(rows).unwrap_or(0) * field.width;
    let Some(filled) = place.get_mut(before..end) else { return };
    let slot = item.slot_after(window.back.saturating_add_signed(from));
    item.lane.copy_out(column, slot, rows, filled);
    let (ahead_of_it, rest) = place.split_at_mut(before);
    let (filled, after_it) = rest.split_at_mut(end - before);
    for copy in ahead_of_it.chunks_exact_mut(field.width) {
        copy.copy_from_slice(&filled[..field.width]);
    }
    for copy in after_it.chunks_exact_mut(field.width) {
        copy.copy_from_slice(&filled[filled.len() - field.width..]);
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
