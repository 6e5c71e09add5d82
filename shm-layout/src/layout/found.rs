//! Rows that were found once: asked for, and copied later.

use std::marker::PhantomData;

use crate::kernels::prefetch::{self, LINE};
use crate::kernels::racy_copy::{self, Word};
use crate::layout::lane::{Lane, Located};
use crate::layout::run::Run;

/// Bytes of a place from which on it is not asked for all at once. A processor that has as many requests under
/// way as it can have drops more of them.
const LONG: usize = 1024;

/// As many consecutive rows of a column, from `MOST` places at most, in any lanes of a ring. The rows of a
/// place stand one after the other in its lane's memory.
#[derive(Clone, Debug)]
pub struct Found<'a, const MOST: usize> {
    column: usize,
    /// Of a place.
    rows: u64,
    /// Bytes of a row, and of a place.
    width: usize,
    bytes: usize,
    /// Each is valid for reads of `bytes` bytes of rows of this width, for as long as the lifetime says.
    at: [*const u8; MOST],
    count: usize,
    /// Of the lane before: most share the list of their columns.
    located: Located<'a>,
}

impl<'a, const MOST: usize> Found<'a, MOST> {
    /// Nothing yet, of so many rows a place of a column whose rows have so many bytes.
    #[must_use]
    pub fn new(column: usize, rows: u64, width: usize) -> Self {
        // Of more rows than there is memory for, no lane has a place.
        let bytes = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(width);
        let (at, count) = ([std::ptr::null(); MOST], 0);
        Self { column, rows, width, bytes, at, count, located: Located::default() }
    }

    /// Finds the places of the rows from a slot of a lane on, instead of those that it had. `false`: some were not
    /// found, and those that were stand in order. There are no such rows, they run over the end of the lane, or
    /// they are more than `MOST` places.
    #[inline]
    pub fn find(&mut self, rows: impl IntoIterator<Item = (&'a Lane, u64)>) -> bool {
        let (mut count, mut all) = (0, true);
        let mut located = self.located;
        for (lane, slot) in rows {
            let mut place = lane.place(located, slot, self.rows);
            if place.is_none() {
                (located, place) = self.look_up(lane, slot);
            }
            let (Some(place), Some(at)) = (place, self.at.get_mut(count)) else {
                all = false;
                continue;
            };
            *at = place;
            count += 1;
        }
        (self.count, self.located) = (count, located);
        all
    }

    /// As [`find`](Self::find), of as many rows from a row of each run on, in fewer instructions. `false`: one was not
    /// found, and neither are those after it.
    #[inline]
    pub fn find_in(&mut self, first: u64, runs: impl ExactSizeIterator<Item = Run<'a>>) -> bool {
        let (mut located, count) = (self.located, runs.len());
        self.count = 0;
        for (i, (at, run)) in self.at.iter_mut().zip(runs).enumerate() {
            let place = run.place(located, first, self.rows).or_else(|| {
                located = run.lane().located(self.column, self.width).unwrap_or_default();
                run.place(located, first, self.rows)
            });
            let Some(place) = place else {
                self.count = i;
                return false;
            };
            *at = place;
        }
        (self.count, self.located) = (count.min(MOST), located);
        count <= MOST
    }

    /// The place of rows of a lane whose list of columns is another one, or which are in no place: they are asked
    /// for where they begin.
    #[cold]
    #[inline(never)]
    fn look_up(&self, lane: &'a Lane, slot: u64) -> (Located<'a>, Option<*const u8>) {
        let located = lane.located(self.column, self.width).unwrap_or_default();
        let place = lane.place(located, slot, self.rows);
        if place.is_none() {
            lane.ahead(self.column, slot).ask(self.bytes);
        }
        (located, place)
    }

    /// Whether a place is so long that it is better asked for while another one is copied.
    #[inline]
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.bytes > LONG
    }

    /// Asks the processor for the rows of all places.
    #[inline]
    pub fn ask(&self) {
        let places = self.at.iter().take(self.count);
        if self.bytes <= LINE {
            // Of a line, or of two. That of an empty place may be any.
            let last = self.bytes.saturating_sub(1);
            if self.rows == 1 && self.width.is_power_of_two() && self.located.begins_a_line() {
                return places.for_each(|at| prefetch::prefetch(*at));
            }
            return places.for_each(|at| {
                prefetch::prefetch(*at);
                prefetch::prefetch(at.wrapping_add(last));
            });
        }
        places.for_each(|at| prefetch::ask(*at, self.bytes));
    }

    /// Copies some rows of every place, from one on and so many, one place after the other, into memory
    /// that they fill. Asks for the places of `next` meanwhile, if there are such and they are long.
    ///
    /// # Panics
    /// If a place has no such rows, or they do not fill the memory exactly.
    #[inline]
    pub fn copy_to(&self, first: u64, rows: u64, out: &mut [u8], next: Option<&Self>) {
        assert!(first.checked_add(rows).is_some_and(|end| end <= self.rows), "rows of a place");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most all rows, which are in memory"
        )]
        let (first, bytes) = (first as usize * self.width, rows as usize * self.width);
        // SAFETY: the rows are among those of a place.
        unsafe {
            // Also where little is copied: nobody else asks for what is long.
            if let Some(next) = next.filter(|next| next.is_long() && bytes > 0) {
                return self.copy_asking(first, bytes, out, next);
            }
            // Short copies are a few instructions if their length is known.
            match bytes {
                0 => {}
                1 => self.copy_of::<1>(first, bytes, out),
                4 => self.copy_of::<4>(first, bytes, out),
                8 => self.copy_of::<8>(first, bytes, out),
                16 => self.copy_of::<16>(first, bytes, out),
                24 => self.copy_of::<24>(first, bytes, out),
                32 => self.copy_of::<32>(first, bytes, out),
                64 => self.copy_of::<64>(first, bytes, out),
                _ => self.copy_of::<0>(first, bytes, out),
            }
        }
    }

    /// Copies any number of bytes for 0, else `LEN`.
    ///
    /// # Safety
    /// So many bytes from the first on are whole rows of a place.
    #[inline]
    unsafe fn copy_of<const LEN: usize>(&self, first: usize, bytes: usize, out: &mut [u8]) {
        let bytes = if LEN == 0 { bytes } else { LEN };
        let word = Word::of_width(self.width);
        for (out, at) in self.each(out, bytes) {
            // SAFETY: as `at` says and the caller. The word is that of the width. Every writer of the column
            // copies as we do (docs/layout.md, rule 2).
            unsafe { racy_copy::copy_out(at.add(first).cast_mut(), &mut out[..bytes], word) };
        }
    }

    /// Copies all rows of each place to a part of its own in the memory: that of this number, all of as many bytes.
    ///
    /// # Panics
    /// If there are not as many parts as places, or one lies outside the memory.
    #[inline]
    pub fn copy_apart(&self, to: impl ExactSizeIterator<Item = usize>, out: &mut [u8]) {
        assert!(to.len() == self.count, "a part for each place");
        // SAFETY: all rows of a place.
        unsafe {
            match self.bytes {
                4 => self.copy_apart_of::<4>(to, out),
                8 => self.copy_apart_of::<8>(to, out),
                _ => self.copy_apart_of::<0>(to, out),
            }
        }
    }

    /// Copies any number of bytes for 0, else `LEN`.
    ///
    /// # Safety
    /// So many bytes are all rows of a place.
    #[inline]
    unsafe fn copy_apart_of<const LEN: usize>(
        &self,
        to: impl Iterator<Item = usize>,
        out: &mut [u8],
    ) {
        let bytes = if LEN == 0 { self.bytes } else { LEN };
        let word = Word::of_width(self.width);
        for (to, at) in to.zip(self.at.iter().take(self.count)) {
            let out = &mut out[to * bytes..][..bytes];
            // SAFETY: as `at` says and the caller. The word is that of the width. Every writer of the column
            // copies as we do (docs/layout.md, rule 2).
            unsafe { racy_copy::copy_out(at.cast_mut(), out, word) };
        }
    }

    /// Copies, and asks for a place of `next` with each that is copied.
    ///
    /// # Safety
    /// As [`copy_of`](Self::copy_of).
    unsafe fn copy_asking(&self, first: usize, bytes: usize, out: &mut [u8], next: &Self) {
        let word = Word::of_width(self.width);
        let ahead = next.at.iter().take(next.count).map(Some).chain(std::iter::repeat(None));
        for ((out, at), ahead) in self.each(out, bytes).zip(ahead) {
            // SAFETY: as in `copy_of`.
            unsafe {
                let from = at.add(first).cast_mut();
                match ahead {
                    Some(ahead) => racy_copy::copy_out_asking(from, out, word, *ahead, next.bytes),
                    None => racy_copy::copy_out(from, out, word),
                }
            }
        }
    }

    /// So many bytes of memory for each place.
    #[inline]
    fn each<'o>(
        &self,
        out: &'o mut [u8],
        bytes: usize,
    ) -> impl Iterator<Item = (&'o mut [u8], &*const u8)> {
        let at = self.at.get(..self.count).unwrap_or_default();
        assert!(out.len() == at.len() * bytes, "the memory fits the rows exactly");
        out.chunks_exact_mut(bytes).zip(at)
    }
}

/// A row of a column of `N` words of eight bytes, found once: asked for, and read later.
#[derive(Clone, Copy, Debug)]
pub struct FoundRow<'a, const N: usize> {
    /// Valid for reads of the words for as long as the lifetime says, and aligned to them.
    at: *const u8,
    lane: PhantomData<&'a Lane>,
}

impl<const N: usize> FoundRow<'_, N> {
    /// Asks for it straight into the nearest cache, which takes few requests at a time: it will be read
    /// before anything else.
    #[inline]
    pub fn ask_at_once(self) {
        prefetch::prefetch_nearest(self.at);
    }

    /// A copy of it, in registers.
    #[inline]
    #[must_use]
    pub fn words(self) -> [u64; N] {
        // SAFETY: in bounds, as `at` says. Aligned: columns begin on multiples of 8, and this one's width is one.
        // Every writer of the column copies as we do (docs/layout.md, rule 2).
        unsafe { racy_copy::load_words(self.at.cast_mut()) }
    }
}

/// Finds rows of one column of `N` words of eight bytes, in lanes that share the list of their columns.
#[derive(Clone, Copy, Debug)]
pub struct RowFinder<'a, const N: usize>(Located<'a>);

impl<'a, const N: usize> RowFinder<'a, N> {
    /// Of the column of this number in a lane, and in those of its list; it finds nothing if its rows have another length.
    #[must_use]
    pub fn of(lane: &'a Lane, column: usize) -> Self {
        const { assert!(N > 0) };
        Self(lane.located(column, N * size_of::<u64>()).unwrap_or_default())
    }

    /// The last row of a run. `None`: it has no rows, or is of a lane of another list.
    #[inline]
    #[must_use]
    pub fn last(&self, run: &Run<'a>) -> Option<FoundRow<'a, N>> {
        let last = run.rows().checked_sub(1)?;
        let at = run.place(self.0.of_width(N * size_of::<u64>())?, last, 1)?;
        Some(FoundRow { at, lane: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::layout::counted::{self, row};

    const WIDTHS: [usize; 3] = [4, 24, 7];

    fn lanes() -> Vec<Arc<Lane>> {
        lanes_of(40)
    }

    fn lanes_of(lane_capacity: u64) -> Vec<Arc<Lane>> {
        counted::lanes(&WIDTHS, lane_capacity)
    }

    #[test]
    fn parts_of_places_are_copied_one_after_the_other() {
        let lanes = lanes();
        let slots = lanes[0].slots;
        for (column, width) in WIDTHS.into_iter().enumerate() {
            let mut found = Found::<8>::new(column, 3, width);
            let places = [0, 17, slots - 3];
            assert!(found.find([0, 1, 0].into_iter().map(|lane| &*lanes[lane]).zip(places)));
            assert_eq!(found.count, 3);
            for (first, rows) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
                let wanted: Vec<u8> = places
                    .iter()
                    .flat_map(|slot| (first..first + rows).map(move |n| slot + n))
                    .flat_map(|slot| row(slot, width))
                    .collect();
                let mut out = vec![0; wanted.len()];
                found.copy_to(first, rows, &mut out, None);
                assert_eq!(out, wanted, "{width} bytes, {rows} rows from {first} on");
            }
            assert!(found.find([]));
            assert_eq!(found.count, 0);
        }
    }

    #[test]
    fn each_place_is_copied_to_a_part_of_its_own() {
        let lanes = lanes();
        let lane = &*lanes[1];
        for (column, width) in WIDTHS.into_iter().enumerate() {
            for rows in [1, 2] {
                let mut found = Found::<8>::new(column, rows, width);
                let slots = [9, 0, lane.slots - 2];
                assert!(found.find(slots.map(|slot| (lane, slot))));
                let bytes = width * usize::try_from(rows).unwrap();
                let mut out = vec![7; 5 * bytes];
                found.copy_apart([3, 0, 4].into_iter(), &mut out);
                let of = |slot| (0..rows).flat_map(move |n| row(slot + n, width));
                let untouched = vec![7; 2 * bytes].into_iter();
                let wanted = of(0).chain(untouched).chain(of(9)).chain(of(lane.slots - 2));
                assert_eq!(out, wanted.collect::<Vec<u8>>(), "{rows} rows of {width} bytes");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a part for each place")]
    fn places_and_parts_are_as_many() {
        let lanes = lanes();
        let mut found = Found::<2>::new(0, 1, WIDTHS[0]);
        found.find([(&*lanes[0], 0)]);
        found.copy_apart(0..2, &mut [0; 8]);
    }

    #[test]
    fn columns_are_looked_up_anew_in_lanes_of_another_size() {
        let lanes = [lanes(), lanes_of(4_000)];
        let places = [(0, 0, 3), (1, 0, 3), (1, 1, 2_990), (0, 1, 17)];
        for (column, width) in WIDTHS.into_iter().enumerate() {
            let mut found = Found::<4>::new(column, 2, width);
            assert!(found.find(places.map(|(store, lane, slot)| (&*lanes[store][lane], slot))));
            let mut out = vec![0; 4 * 2 * width];
            found.copy_to(0, 2, &mut out, None);
            let slots = places.iter().flat_map(|(_, _, slot)| [*slot, slot + 1]);
            let wanted: Vec<u8> = slots.flat_map(|slot| row(slot, width)).collect();
            assert_eq!(out, wanted, "{width} bytes");
        }
    }

    #[test]
    fn rows_of_words_are_found_and_no_others() {
        let lanes = lanes();
        let lane = &lanes[1];
        let run = Run::of(lane, 17, 5);
        let finder = RowFinder::<3>::of(lane, 1);
        let found = finder.last(&run).unwrap();
        found.ask_at_once();
        assert_eq!(bytemuck::cast::<_, [u8; 24]>(found.words()).to_vec(), row(21, 24));
        let others = [0, 2, WIDTHS.len()];
        assert!(others.iter().all(|column| RowFinder::<3>::of(lane, *column).last(&run).is_none()));
        assert!(RowFinder::<2>::of(lane, 1).last(&run).is_none());
        let slots = lane.slots;
        for (slot, rows) in [(slots, 1), (slots - 2, 3), (u64::MAX, 1), (1, u64::MAX), (4, 0)] {
            let none = finder.last(&Run::of(lane, slot, rows)).is_none();
            assert!(none, "{rows} rows from {slot} on");
        }
        assert!(finder.last(&Run::of(lane, slots - 2, 2)).is_some());
        let larger = lanes_of(4_000);
        let run = Run::of(&larger[0], 1_000, 2_000);
        assert!(finder.last(&run).is_none(), "another list");
        let found = RowFinder::<3>::of(&larger[0], 1).last(&run).unwrap();
        assert_eq!(bytemuck::cast::<_, [u8; 24]>(found.words()).to_vec(), row(2_999, 24));
    }

    #[test]
    fn rows_of_runs_are_found_as_those_of_slots_are() {
        let lanes = [lanes(), lanes_of(4_000)];
        let slots = lanes[0][0].slots;
        let places = [(0, 0, 3), (1, 0, 2_990), (1, 1, 17), (0, 1, slots - 5)];
        let runs = places.map(|(store, lane, slot)| Run::of(&lanes[store][lane], slot, 5));
        for (column, width) in WIDTHS.into_iter().enumerate() {
            for (first, rows) in [(0, 5), (2, 2), (4, 1)] {
                let [mut one, mut other] = [(); 2].map(|()| Found::<4>::new(column, rows, width));
                assert!(one.find_in(first, runs.into_iter()));
                let slots = places.map(|(store, lane, slot)| (&*lanes[store][lane], slot + first));
                assert!(other.find(slots));
                assert_eq!((one.at, one.count), (other.at, other.count), "{rows} from {first} on");
            }
        }
        let mut found = Found::<2>::new(0, 2, 4);
        let beyond = [Run::of(&lanes[0][0], 0, 3), Run::of(&lanes[0][0], 0, 2)];
        assert!(!found.find_in(1, beyond.into_iter()), "one row is left of the second");
        assert_eq!(found.count, 1);
        let over_the_end = Run::of(&lanes[0][0], slots - 1, 3);
        assert!(!found.find_in(0, [over_the_end].into_iter()));
        assert!(!found.find_in(u64::MAX, [runs[0]].into_iter()));
        assert_eq!(found.count, 0);
        assert!(!found.find_in(0, runs.into_iter()), "more than two places");
        assert_eq!(found.count, 2);
        let mut other_width = Found::<4>::new(0, 2, 8);
        assert!(!other_width.find_in(0, runs.into_iter()));
    }

    #[test]
    fn asking_for_long_places_changes_no_byte() {
        let lanes = lanes();
        let (rows, width) = (lanes[0].slots - 4, 24);
        let [mut found, mut fewer, mut short] =
            [rows, rows, 1].map(|rows| Found::<4>::new(1, rows, width));
        assert!(found.find([(&*lanes[0], 4), (&lanes[1], 0)]) && fewer.find([(&*lanes[1], 3)]));
        assert!(short.find([(&*lanes[0], 0)]));
        assert_eq!((found.is_long(), short.is_long()), (true, false));
        found.ask();
        for (first, rows) in [(0, rows), (3, rows - 5), (rows - 1, 1)] {
            let bytes = usize::try_from(2 * rows).unwrap() * width;
            let mut plain = vec![0; bytes];
            found.copy_to(first, rows, &mut plain, None);
            for next in [&found, &fewer, &short] {
                let mut out = vec![0; bytes];
                found.copy_to(first, rows, &mut out, Some(next));
                assert_eq!(out, plain, "{rows} rows from {first} on");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let lanes = lanes();
        let slots = lanes[0].slots;
        for (column, rows, width, slot) in [
            (0, 3, 4, slots - 2),
            (0, 3, 4, slots),
            (0, 3, 4, u64::MAX - 1),
            (0, u64::MAX, 4, 1),
            (0, slots + 1, 4, 0),
            (0, 1, 24, 0),
            (1, 1, 4, 0),
            (WIDTHS.len(), 1, 4, 0),
        ] {
            let mut found = Found::<2>::new(column, rows, width);
            assert!(
                !found.find([(&*lanes[0], slot)]),
                "{rows} rows of column {column} at slot {slot}"
            );
            assert_eq!(found.count, 0);
        }
        let mut full = Found::<2>::new(0, 1, 4);
        let found = [2, 3].map(|slots| full.find((0..slots).map(|slot| (&*lanes[0], slot))));
        assert_eq!((found, full.count), ([true, false], 2));
    }

    #[test]
    #[should_panic(expected = "rows of a place")]
    fn rows_beyond_a_place_are_not_copied() {
        Found::<1>::new(0, 3, 4).copy_to(2, 2, &mut [], None);
    }

    #[test]
    #[should_panic(expected = "fits the rows exactly")]
    fn rows_are_copied_into_memory_of_their_size() {
        let lanes = lanes();
        let mut found = Found::<1>::new(0, 3, 4);
        assert!(found.find([(&*lanes[0], 0)]));
        found.copy_to(0, 2, &mut [0; 12], None);
    }
}
