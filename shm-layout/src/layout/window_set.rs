//! Windows of rows that a micro-batch copies column by column, without a bounds check per column.

use std::ops::Range;

use crate::kernels::prefetch::{self, LINE};
use crate::kernels::racy_copy::{self, Word};
use crate::layout::lane::{Lane, PlacedColumn};

/// Up to `MOST` contiguous windows of the same number of rows, in lanes that share one list of
/// columns.
///
/// Bounds and columns of a window are checked once, when it is added. A copy then only computes an
/// address from base, offset, slot and width. A window that cannot be added leaves a placeholder,
/// so that the place of every window in the output is its number.
#[derive(Clone, Debug)]
pub struct WindowSet<'a, const MOST: usize> {
    columns: &'a [PlacedColumn],
    /// Rows of each window.
    rows: u64,
    /// Windows that may be added: `MOST`, or 0 if the reference lane is too short for one.
    most: usize,
    /// Lines to prefetch of each window's short slices, and its long slices.
    lines: Vec<Line>,
    long: Vec<(Line, usize)>,
    count: usize,
    /// Invariant: the rows of each of the first `count` windows are below its lane's slots, and its
    /// lane has `columns`.
    lanes: [&'a Lane; MOST],
    slots: [usize; MOST],
    /// Memory of each lane.
    bases: [*mut u8; MOST],
    /// Lane of placeholders. It has these columns and, unless `most` is 0, at least `rows` slots.
    reference: &'a Lane,
}

/// Rows of one column, relative to the first row of a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowSlice {
    /// Number of the column in the lane's file.
    pub column: usize,
    /// Bytes of a row.
    pub width: usize,
    /// First of the rows.
    pub first: u64,
    /// Number of rows; a slice without rows is neither prefetched nor copied.
    pub rows: u64,
}

/// Prefetch of other windows that is interleaved with a copy. With each window copied, the window
/// of the same number is prefetched.
#[derive(Clone, Debug)]
pub struct InterleavedPrefetch<'r, 'a, const MOST: usize> {
    /// The other windows.
    pub windows: &'r WindowSet<'a, MOST>,
    /// Range of their [`lines`](WindowSet::lines) that is prefetched with each copy.
    pub lines: Range<usize>,
    /// A long slice, prefetched between the cache lines of the copy.
    pub long: Option<WindowSlice>,
}

/// Position of a byte in a lane's memory, for a window that begins in slot 0.
#[derive(Clone, Copy, Debug)]
struct Line {
    offset: usize,
    width: usize,
}

impl Line {
    /// Returns the address of the byte for a window that begins in `slot`.
    #[inline]
    fn at(self, base: *mut u8, slot: usize) -> *const u8 {
        base.wrapping_add(self.offset.wrapping_add(slot.wrapping_mul(self.width)))
    }
}

impl<'a, const MOST: usize> WindowSet<'a, MOST> {
    /// Returns a set without windows, for windows of `rows` rows in lanes with the columns of
    /// `lane`.
    ///
    /// `short` and `long` are the slices to prefetch of each window. Long ones are prefetched
    /// between the cache lines of a copy.
    #[must_use]
    pub fn new(
        lane: &'a Lane,
        rows: u64,
        short: impl IntoIterator<Item = WindowSlice>,
        long: impl IntoIterator<Item = WindowSlice>,
    ) -> Self {
        let columns = lane.columns();
        let find = |slice| find(columns, slice);
        // Sufficient for most schemas.
        let mut lines = Vec::with_capacity(32);
        for (Line { offset: first, width }, len) in short.into_iter().filter_map(find) {
            lines.extend((0..len).step_by(LINE).map(|at| Line { offset: first + at, width }));
            // The lines above include the last byte of a single row whose width is a power of two,
            // if the column begins on a line. The last byte of any other slice may need one more.
            if len > 1 && !(len == width && width.is_power_of_two() && first.is_multiple_of(LINE)) {
                lines.push(Line { offset: first + len - 1, width });
            }
        }
        let long = long.into_iter().filter_map(find).collect();
        let most = if lane.slots < rows { 0 } else { MOST };
        let (count, reference) = (0, lane);
        let (bases, slots) = ([std::ptr::null_mut(); MOST], [0; MOST]);
        Self {
            columns,
            rows,
            most,
            lines,
            long,
            count,
            lanes: [lane; MOST],
            slots,
            bases,
            reference,
        }
    }

    /// Removes all windows.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Returns the number of windows, placeholders included.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds the window of a lane that begins in `slot`.
    ///
    /// Returns `false` if the window is not contiguous in its lane, or its lane has other columns:
    /// the set holds a placeholder for it then. Also returns `false` for a full set, to which
    /// nothing is added.
    #[inline]
    pub fn push(&mut self, lane: &'a Lane, slot: u64) -> bool {
        let contiguous = slot < lane.slots && lane.slots - slot >= self.rows;
        let known = std::ptr::eq(lane.columns().as_ptr(), self.columns.as_ptr());
        if !contiguous || !known || self.count >= self.most {
            self.push_placeholder();
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let slot = slot as usize;
        self.add(lane, slot);
        true
    }

    /// Adds a placeholder, a window whose bytes are not used. Does nothing if the set is full.
    #[inline]
    pub fn push_placeholder(&mut self) {
        if self.count < self.most {
            self.add(self.reference, 0);
        }
    }

    /// Appends a checked window or a placeholder to a set that is not full.
    #[inline]
    fn add(&mut self, lane: &'a Lane, slot: usize) {
        let base = lane.memory().base();
        self.lanes[self.count] = lane;
        self.slots[self.count] = slot;
        self.bases[self.count] = base;
        self.count += 1;
    }

    /// Prefetches the window added last.
    #[inline]
    pub fn prefetch_last(&self) {
        self.prefetch(self.count.wrapping_sub(1));
    }

    /// Prefetches all windows.
    pub fn prefetch_all(&self) {
        (0..self.count).for_each(|window| self.prefetch(window));
    }

    #[inline]
    fn prefetch(&self, window: usize) {
        if let Some((base, slot)) = self.place(window) {
            prefetch_lines(&self.lines, base, slot);
            for (first, len) in &self.long {
                prefetch::prefetch_range(first.at(base, slot), *len);
            }
        }
    }

    /// Returns the number of cache lines prefetched of each window's short slices.
    #[inline]
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the memory of a window's lane, and its slot.
    #[inline]
    fn place(&self, window: usize) -> Option<(*mut u8, usize)> {
        let (base, slot) = (self.bases.get(window)?, self.slots.get(window)?);
        (window < self.count).then_some((*base, *slot))
    }

    /// Iterates over the lanes of the windows.
    #[inline]
    pub fn lanes(&self) -> impl Iterator<Item = &'a Lane> + Clone {
        self.lanes.iter().take(self.count).copied()
    }

    /// Calls `visit` with the words of the last row of each window, of a column of `N` words of
    /// eight bytes.
    ///
    /// Returns `false` if there is no such column or the windows have no rows.
    #[inline]
    pub fn each_last<const N: usize>(
        &self,
        column: usize,
        mut visit: impl FnMut(usize, [u64; N]),
    ) -> bool {
        let width = N * size_of::<u64>();
        let Some(placed) = self.columns.get(column).filter(|placed| placed.width == width) else {
            return false;
        };
        let Some(last) = self.rows.checked_sub(1) else { return false };
        #[expect(clippy::cast_possible_truncation, reason = "rows of a window are in memory")]
        let offset = placed.offset + last as usize * width;
        let windows = self.bases.iter().zip(&self.slots).take(self.count);
        for (window, (base, slot)) in windows.enumerate() {
            // SAFETY:
            // - In bounds: it is a row of the window, whose lane has this column (`push`).
            // - Aligned: columns begin on multiples of 8, and this one's width is one.
            // - Every writer of the column uses `racy_copy` (docs/layout.md, rule 2).
            let words = unsafe { racy_copy::load_words(base.add(offset + slot * width)) };
            visit(window, words);
        }
        true
    }

    /// Copies a slice of every window, one after the other, into memory that the slices fill, and
    /// prefetches other windows between the copies.
    ///
    /// Returns `false`, having copied nothing, if the windows have no such slice or it does not
    /// fill the memory exactly.
    #[inline]
    #[must_use]
    pub fn copy_to(
        &self,
        slice: WindowSlice,
        out: &mut [u8],
        others: Option<InterleavedPrefetch<'_, '_, MOST>>,
    ) -> bool {
        let Some((from, bytes)) = self.slice(slice) else { return false };
        if self.count == 0 {
            return out.is_empty();
        }
        if out.len() != self.count * bytes {
            return false;
        }
        let word = Word::of_width(from.width);
        let outs = out.chunks_exact_mut(bytes);
        // SAFETY: `slice` found the bytes in every window. There are as many outputs as windows.
        unsafe {
            match others {
                Some(others) => self.copy_interleaved(from, outs, word, others),
                None => self.copy_each(from, bytes, outs, word),
            }
        }
        true
    }

    /// Copies the slice of window `i` to place `places[i]` of `out`, which is divided into places
    /// of the slice's length.
    ///
    /// Returns `false`, having copied nothing, if the windows have no such slice.
    ///
    /// # Panics
    /// If a place lies outside `out`.
    #[inline]
    #[must_use]
    pub fn copy_apart(&self, slice: WindowSlice, places: &[usize], out: &mut [u8]) -> bool {
        let Some((from, bytes)) = self.slice(slice) else { return false };
        let word = Word::of_width(from.width);
        for (place, (base, slot)) in places.iter().zip(self.places()) {
            let out = &mut out[place * bytes..][..bytes];
            // SAFETY: as in `copy_each`.
            unsafe { racy_copy::copy_out(base.add(from.offset + slot * from.width), out, word) };
        }
        true
    }

    /// Iterates over the memory and the slot of every window.
    #[inline]
    fn places(&self) -> impl Iterator<Item = (*mut u8, usize)> {
        self.bases.iter().copied().zip(self.slots.iter().copied()).take(self.count)
    }

    /// Finds the first byte of a slice, in a window that begins in slot 0, and its length. In every
    /// window these bytes are rows of this width.
    #[inline]
    fn slice(&self, slice: WindowSlice) -> Option<(Line, usize)> {
        let end = slice.first.checked_add(slice.rows)?;
        let inside = end <= self.rows && slice.rows > 0 && slice.width > 0;
        find(self.columns, slice).filter(|_| inside)
    }

    /// Copies `bytes` bytes of each window. Selects code for constant lengths: a short copy of
    /// known length takes a few instructions.
    ///
    /// # Safety
    /// From `from` on, `bytes` bytes of each window are rows of one column, whose word is `word`.
    /// Every output has as many bytes.
    #[inline]
    unsafe fn copy_each<'o>(
        &self,
        from: Line,
        bytes: usize,
        outs: impl Iterator<Item = &'o mut [u8]>,
        word: Word,
    ) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            match bytes {
                1 => self.copy_sized::<1>(from, bytes, outs, word),
                4 => self.copy_sized::<4>(from, bytes, outs, word),
                8 => self.copy_sized::<8>(from, bytes, outs, word),
                16 => self.copy_sized::<16>(from, bytes, outs, word),
                24 => self.copy_sized::<24>(from, bytes, outs, word),
                32 => self.copy_sized::<32>(from, bytes, outs, word),
                64 => self.copy_sized::<64>(from, bytes, outs, word),
                _ => self.copy_sized::<0>(from, bytes, outs, word),
            }
        }
    }

    /// Copies `LEN` bytes of each window, or `bytes` if `LEN` is 0.
    ///
    /// # Safety
    /// The conditions of [`copy_each`](Self::copy_each) hold.
    #[inline]
    unsafe fn copy_sized<'o, const LEN: usize>(
        &self,
        from: Line,
        bytes: usize,
        outs: impl Iterator<Item = &'o mut [u8]>,
        word: Word,
    ) {
        let bytes = if LEN == 0 { bytes } else { LEN };
        for (out, (base, slot)) in outs.zip(self.bases.iter().zip(&self.slots)) {
            // SAFETY:
            // - In bounds: the caller upholds the contract.
            // - The word is that of the column's width.
            // - Every writer of the column uses `racy_copy` (docs/layout.md, rule 2).
            unsafe {
                racy_copy::copy_out(
                    base.add(from.offset + slot * from.width),
                    &mut out[..bytes],
                    word,
                );
            }
        }
    }

    /// Copies like [`copy_each`](Self::copy_each), and prefetches other windows between the copies.
    ///
    /// # Safety
    /// The conditions of [`copy_each`](Self::copy_each) hold.
    unsafe fn copy_interleaved<'o>(
        &self,
        from: Line,
        outs: impl Iterator<Item = &'o mut [u8]>,
        word: Word,
        InterleavedPrefetch { windows, lines, long }: InterleavedPrefetch<'_, '_, MOST>,
    ) {
        let lines = windows.lines.get(lines).unwrap_or_default();
        let long = long.and_then(|slice| find(windows.columns, slice));
        let own = self.bases.iter().zip(&self.slots);
        for (window, (out, (base, slot))) in outs.zip(own).enumerate() {
            let other = windows.place(window);
            if let Some((base, slot)) = other {
                prefetch_lines(lines, base, slot);
            }
            // SAFETY: as in `copy_sized`.
            unsafe {
                let from = base.add(from.offset + slot * from.width);
                match (long, other) {
                    (Some((first, len)), Some((base, slot))) => {
                        racy_copy::copy_out_prefetching(from, out, word, first.at(base, slot), len);
                    }
                    _ => racy_copy::copy_out(from, out, word),
                }
            }
        }
    }
}

/// Prefetches lines of a window that begins in `slot`.
#[inline]
fn prefetch_lines(lines: &[Line], base: *mut u8, slot: usize) {
    for line in lines {
        prefetch::prefetch_line(line.at(base, slot));
    }
}

/// Finds a slice's first byte, in a window that begins in slot 0, and its length. Returns `None` if
/// there is no such column.
fn find(columns: &[PlacedColumn], slice: WindowSlice) -> Option<(Line, usize)> {
    let WindowSlice { column, width, first, rows } = slice;
    let placed = columns.get(column).filter(|placed| placed.width == width)?;
    let bytes = |rows: u64| usize::try_from(rows).ok()?.checked_mul(width);
    let offset = placed.offset.checked_add(bytes(first)?)?;
    Some((Line { offset, width }, bytes(rows)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::layout::counted::{self, row};

    const WIDTHS: [usize; 4] = [24, 4, 7, 32];

    fn lanes(lane_capacity: u64) -> Vec<Arc<Lane>> {
        counted::lanes(&WIDTHS, lane_capacity)
    }

    fn slice(column: usize, first: u64, rows: u64) -> WindowSlice {
        WindowSlice { column, width: WIDTHS[column], first, rows }
    }

    #[test]
    fn slices_of_all_windows_are_copied_one_after_the_other() {
        let lanes = lanes(40);
        let slots = lanes[0].slots;
        let short = (0..WIDTHS.len()).map(|column| slice(column, 0, 3));
        let mut windows = WindowSet::<4>::new(&lanes[0], 3, short, []);
        let places = [0, 17, slots - 3];
        for (lane, slot) in [0, 1, 0].into_iter().zip(places) {
            assert!(windows.push(&lanes[lane], slot));
        }
        for (column, width) in WIDTHS.into_iter().enumerate() {
            for (first, rows) in [(0, 3), (1, 2), (2, 1)] {
                let wanted: Vec<u8> = places
                    .iter()
                    .flat_map(|slot| (first..first + rows).map(move |n| slot + n))
                    .flat_map(|slot| row(slot, width))
                    .collect();
                let mut out = vec![0; wanted.len()];
                assert!(windows.copy_to(slice(column, first, rows), &mut out, None));
                assert_eq!(out, wanted, "{width} bytes, {rows} rows from {first} on");
                let (len, mut out) = (wanted.len() / 3, vec![7; wanted.len() * 4 / 3]);
                assert!(windows.copy_apart(slice(column, first, rows), &[3, 0, 1], &mut out));
                let moved = [&wanted[len..], &vec![7; len], &wanted[..len]].concat();
                assert_eq!(out, moved, "{width} bytes, {rows} rows from {first} on");
            }
        }
        let mut last = Vec::new();
        assert!(windows.each_last::<3>(0, |window, words| last.push((window, words))));
        assert_eq!(last.len(), places.len());
        for ((window, words), slot) in last.into_iter().zip(places) {
            assert_eq!(bytemuck::cast_slice::<_, u8>(&words), row(slot + 2, 24), "{window}");
        }
        assert!(std::ptr::eq(windows.lanes().nth(1).unwrap(), &raw const *lanes[1]));
    }

    #[test]
    fn interleaved_prefetch_changes_no_byte() {
        let lanes = lanes(40);
        let places = [1, 0, 1].into_iter().zip([4, 17, 0]);
        let windows = || {
            let [short, long] =
                [0..2, 2..WIDTHS.len()].map(|columns| columns.map(|column| slice(column, 0, 3)));
            WindowSet::<4>::new(&lanes[0], 3, short, long)
        };
        let [mut now, mut fewer, mut more, none] = [(); 4].map(|()| windows());
        assert!(places.clone().all(|(lane, slot)| now.push(&lanes[lane], slot)));
        assert!(fewer.push(&lanes[0], 30));
        assert!([3, 2, 1, 0].into_iter().all(|slot| more.push(&lanes[1], slot)));
        for windows in [&none, &fewer, &more] {
            windows.prefetch_last();
            windows.prefetch_all();
        }
        for (column, width) in WIDTHS.into_iter().enumerate() {
            let mut plain = vec![0; 3 * 3 * width];
            assert!(now.copy_to(slice(column, 0, 3), &mut plain, None));
            for windows in [&now, &none, &fewer, &more] {
                let slices = [slice(3, 0, 3), slice(1, 2, 1), slice(3, 7, u64::MAX)].map(Some);
                let ranges = [0..0, 0..1, 0..windows.lines(), 2..99];
                for (lines, long) in ranges.into_iter().zip([None].into_iter().chain(slices)) {
                    let mut out = vec![0; plain.len()];
                    let prefetch = InterleavedPrefetch { windows, lines: lines.clone(), long };
                    assert!(now.copy_to(slice(column, 0, 3), &mut out, Some(prefetch)));
                    assert_eq!(out, plain, "{width} bytes, prefetching {lines:?} and {long:?}");
                }
            }
        }
    }

    #[test]
    fn windows_that_are_not_contiguous_or_of_other_columns_leave_placeholders() {
        let (lanes, others) = (lanes(40), lanes(60));
        let slots = lanes[0].slots;
        let mut windows = WindowSet::<5>::new(&lanes[1], 3, [], []);
        for slot in [slots - 2, slots, u64::MAX] {
            assert!(!windows.push(&lanes[0], slot), "{slot} of {slots}");
        }
        assert!(!windows.push(&others[0], 0), "of another list");
        assert!(windows.push(&lanes[0], slots - 3));
        assert!(!windows.push(&lanes[0], 0), "five at most");
        windows.push_placeholder();
        assert_eq!((windows.count(), windows.lanes().count()), (5, 5));
        let mut out = vec![0; 5 * 3 * 24];
        assert!(windows.copy_to(slice(0, 0, 3), &mut out, None));
        let rows = |first: u64| (first..first + 3).flat_map(|slot| row(slot, 24));
        assert!(out[4 * 3 * 24..].iter().copied().eq(rows(slots - 3)));
        windows.clear();
        assert_eq!((windows.count(), windows.lanes().count()), (0, 0));
    }

    #[test]
    fn windows_longer_than_their_lanes_are_never_added() {
        let lanes = lanes(40);
        let rows = lanes[0].slots + 1;
        let mut windows = WindowSet::<2>::new(&lanes[0], rows, [slice(0, 0, rows)], []);
        assert!(!windows.push(&lanes[0], 0));
        windows.push_placeholder();
        windows.prefetch_last();
        assert_eq!(windows.count(), 0);
        assert!(!windows.copy_to(slice(0, 0, rows), &mut [0; 24], None));
    }

    #[test]
    fn slices_that_no_window_has_are_not_copied() {
        let lanes = lanes(40);
        let wrong = WindowSlice { width: 5, ..slice(1, 0, 1) };
        let mut windows = WindowSet::<2>::new(&lanes[0], 3, [wrong], []);
        assert!(windows.push(&lanes[0], 0) && windows.push(&lanes[0], 1));
        let mut out = vec![9; 8];
        for wrong in [
            slice(1, 3, 1),
            slice(1, 0, 4),
            slice(1, u64::MAX, 1),
            slice(1, 0, 0),
            slice(1, 0, 2),
            WindowSlice { width: 8, ..slice(1, 0, 1) },
            WindowSlice { column: 4, ..slice(1, 0, 1) },
        ] {
            assert!(!windows.copy_to(wrong, &mut out, None), "{wrong:?}");
            assert_eq!(out, [9; 8]);
        }
        assert!(!windows.each_last::<2>(0, |_, _| panic!("of another width")));
        assert!(!windows.each_last::<3>(4, |_, _| panic!("of no column")));
        assert!(windows.copy_to(slice(1, 0, 1), &mut out, None));
        assert_eq!(out, [row(0, 4), row(1, 4)].concat());
    }
}
