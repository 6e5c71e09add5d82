//! Runs of rows that are copied column by column, without a look at each of them for every column.

use std::ops::Range;

use crate::kernels::prefetch::{self, LINE};
use crate::kernels::racy_copy::{self, Word};
use crate::layout::lane::{Lane, Placed};
use crate::layout::run::Run;

/// Up to `MOST` runs of equally many rows, in lanes that share the list of their columns.
///
/// What is asked of a run, that its rows are there, one after the other, and that its lane has the columns, is asked once,
/// when it is added. [`Found`](crate::layout::found::Found) takes rows from lanes of any kind.
#[derive(Clone, Debug)]
pub struct Runs<'a, const MOST: usize> {
    columns: &'a [Placed],
    /// Of each run.
    rows: u64,
    /// What is asked for of each: lines of its short parts, and long parts.
    asked: Vec<Asked>,
    long: Vec<(Asked, usize)>,
    count: usize,
    /// All rows of the run from its slot on are below the slots of the lane, whose columns are the list's. What lies beyond
    /// the count is of no account.
    lanes: [&'a Lane; MOST],
    slots: [usize; MOST],
    /// Where the memory of each lane begins.
    bases: [*mut u8; MOST],
}

/// Rows of a column, relative to the first of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunPart {
    /// Number of the column in the lane's file.
    pub column: usize,
    /// Bytes of a row.
    pub width: usize,
    /// The first of the rows, and how many.
    pub first: u64,
    /// None of a part of no rows is asked for or copied.
    pub rows: u64,
}

/// What is asked for of other runs while a part is copied: with that of each run, of the one of its number.
#[derive(Clone, Debug)]
pub struct Meanwhile<'r, 'a, const MOST: usize> {
    /// The other runs.
    pub runs: &'r Runs<'a, MOST>,
    /// Some of their [`lines`](Runs::lines); none that there are not.
    pub lines: Range<usize>,
    /// A long part, between the lines of what is copied.
    pub long: Option<RunPart>,
}

/// A byte that is asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// In the lane's memory, of a run that begins in slot 0.
    offset: usize,
    width: usize,
}

impl Asked {
    /// Where it is, in a lane's memory, of a run that begins in this slot.
    #[inline]
    fn at(self, base: *mut u8, slot: usize) -> *const u8 {
        base.wrapping_add(self.offset.wrapping_add(slot.wrapping_mul(self.width)))
    }
}

impl<'a, const MOST: usize> Runs<'a, MOST> {
    /// None yet, of so many rows each, in lanes that share a lane's list of columns. `short` and `long`: the parts of each
    /// run that are asked for, of which the latter are asked for by whoever copies them.
    #[must_use]
    pub fn new(
        lane: &'a Lane,
        rows: u64,
        short: impl IntoIterator<Item = RunPart>,
        long: impl IntoIterator<Item = RunPart>,
    ) -> Self {
        let columns = lane.columns();
        let find = |part| find(columns, part);
        // As many as most short rows have.
        let mut asked = Vec::with_capacity(32);
        for (Asked { offset: first, width }, len) in short.into_iter().filter_map(find) {
            asked.extend((0..len).step_by(LINE).map(|at| Asked { offset: first + at, width }));
            // What divides a line lies in one, if the column begins with one.
            if len > 1 && !(len == width && width.is_power_of_two() && first.is_multiple_of(LINE)) {
                asked.push(Asked { offset: first + len - 1, width });
            }
        }
        let long = long.into_iter().filter_map(find).collect();
        let (bases, slots) = ([std::ptr::null_mut(); MOST], [0; MOST]);
        Self { columns, rows, asked, long, count: 0, lanes: [lane; MOST], bases, slots }
    }

    /// Forgets all runs.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds the run of a lane that begins in a slot. `false`: not all of its rows are there, it runs over the end of its
    /// lane, the lane has another list of columns, or there are `MOST` runs.
    #[inline]
    pub fn push(&mut self, lane: &'a Lane, slot: u64) -> bool {
        let there = slot < lane.slots && lane.slots - slot >= self.rows;
        let known = std::ptr::eq(lane.columns().as_ptr(), self.columns.as_ptr());
        if !there || !known || self.count >= MOST {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let slot = slot as usize;
        let base = lane.memory().base();
        self.lanes[self.count] = lane;
        self.slots[self.count] = slot;
        self.bases[self.count] = base;
        self.count += 1;
        true
    }

    /// Asks for the last run added.
    #[inline]
    pub fn ask_for_last(&self) {
        self.ask_for(self.count.wrapping_sub(1));
    }

    /// Asks for all runs.
    pub fn ask_for_all(&self) {
        (0..self.count).for_each(|run| self.ask_for(run));
    }

    #[inline]
    fn ask_for(&self, run: usize) {
        if let Some((base, slot)) = self.place(run) {
            ask_for(&self.asked, base, slot);
            for (first, len) in &self.long {
                prefetch::ask(first.at(base, slot), *len);
            }
        }
    }

    /// Lines of its short parts that are asked for of each run.
    #[inline]
    #[must_use]
    pub fn lines(&self) -> usize {
        self.asked.len()
    }

    /// Where the memory of a run's lane begins, and the run's slot.
    #[inline]
    fn place(&self, run: usize) -> Option<(*mut u8, usize)> {
        let (base, slot) = (self.bases.get(run)?, self.slots.get(run)?);
        (run < self.count).then_some((*base, *slot))
    }

    /// The lanes of the runs.
    #[inline]
    pub fn lanes(&self) -> impl Iterator<Item = &'a Lane> + Clone {
        self.lanes.iter().take(self.count).copied()
    }

    /// A run on its own, if there are so many.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Run<'a>> {
        let (lane, slot) = (self.lanes.get(number)?, self.slots.get(number)?);
        (number < self.count).then(|| Run::of(lane, *slot as u64, self.rows))
    }

    /// Calls `look` with the words of the last row of each run, of a column of `N` words of eight bytes. `false`: there is
    /// no such column.
    #[inline]
    pub fn each_last<const N: usize>(
        &self,
        column: usize,
        mut look: impl FnMut(usize, [u64; N]),
    ) -> bool {
        let width = N * size_of::<u64>();
        let Some(placed) = self.columns.get(column).filter(|placed| placed.width == width) else {
            return false;
        };
        let Some(last) = self.rows.checked_sub(1) else { return false };
        #[expect(clippy::cast_possible_truncation, reason = "rows of a run are in memory")]
        let offset = placed.offset + last as usize * width;
        let runs = self.bases.iter().zip(&self.slots).take(self.count);
        for (run, (base, slot)) in runs.enumerate() {
            // SAFETY: it is a row of the run, which are in this column of rows of this width. Aligned: columns begin on
            // multiples of 8, and this one's width is one. Every writer of the column copies as we do (docs/layout.md,
            // rule 2).
            let words = unsafe { racy_copy::load_words(base.add(offset + slot * width)) };
            look(run, words);
        }
        true
    }

    /// Copies a part of every run, one after the other, into memory that they fill, and asks for other runs `meanwhile`.
    /// `false`, and nothing is copied or asked for: the runs have no such part, or it does not fill the memory exactly.
    #[inline]
    #[must_use]
    pub fn copy_to(
        &self,
        part: RunPart,
        out: &mut [u8],
        meanwhile: Option<Meanwhile<'_, '_, MOST>>,
    ) -> bool {
        let end = part.first.checked_add(part.rows);
        let there = end.is_some_and(|end| end <= self.rows) && part.rows > 0 && part.width > 0;
        let Some((Asked { offset, width }, bytes)) = find(self.columns, part).filter(|_| there)
        else {
            return false;
        };
        if self.count == 0 {
            return out.is_empty();
        }
        if out.len() != self.count * bytes {
            return false;
        }
        // SAFETY: the part is one of each run, in this column of rows of this width.
        unsafe {
            if let Some(meanwhile) = meanwhile {
                self.copy_asking(offset, width, bytes, out, meanwhile);
                return true;
            }
            // Short copies are a few instructions if their length is known.
            match bytes {
                1 => self.copy_of::<1>(offset, width, bytes, out),
                4 => self.copy_of::<4>(offset, width, bytes, out),
                8 => self.copy_of::<8>(offset, width, bytes, out),
                16 => self.copy_of::<16>(offset, width, bytes, out),
                24 => self.copy_of::<24>(offset, width, bytes, out),
                32 => self.copy_of::<32>(offset, width, bytes, out),
                64 => self.copy_of::<64>(offset, width, bytes, out),
                _ => self.copy_of::<0>(offset, width, bytes, out),
            }
        }
        true
    }

    /// Copies any number of bytes for 0, else `LEN`.
    ///
    /// # Safety
    /// So many bytes from the offset on, behind the slots of each run, are rows of this width of one column.
    #[inline]
    unsafe fn copy_of<const LEN: usize>(
        &self,
        offset: usize,
        width: usize,
        bytes: usize,
        out: &mut [u8],
    ) {
        let bytes = if LEN == 0 { bytes } else { LEN };
        let word = Word::of_width(width);
        let runs = self.bases.iter().zip(&self.slots);
        for (out, (base, slot)) in out.chunks_exact_mut(bytes).zip(runs) {
            // SAFETY: in bounds, as the caller says. The word is that of the width. Every writer of the column copies as
            // we do (docs/layout.md, rule 2).
            unsafe {
                racy_copy::copy_out(base.add(offset + slot * width), &mut out[..bytes], word);
            }
        }
    }

    /// As [`copy_of`](Self::copy_of) of any number of bytes, and asks for other runs meanwhile.
    ///
    /// # Safety
    /// As [`copy_of`](Self::copy_of).
    unsafe fn copy_asking(
        &self,
        offset: usize,
        width: usize,
        bytes: usize,
        out: &mut [u8],
        meanwhile: Meanwhile<'_, '_, MOST>,
    ) {
        let Meanwhile { runs: others, lines, long } = meanwhile;
        let (word, lines) = (Word::of_width(width), others.asked.get(lines).unwrap_or_default());
        let long = long.and_then(|part| find(others.columns, part));
        let runs = self.bases.iter().zip(&self.slots);
        for (run, (out, (base, slot))) in out.chunks_exact_mut(bytes).zip(runs).enumerate() {
            let other = others.place(run);
            if let Some((base, slot)) = other {
                ask_for(lines, base, slot);
            }
            // SAFETY: in bounds, as the caller says. The word is that of the width. Every writer of the column copies as
            // we do (docs/layout.md, rule 2).
            unsafe {
                let from = base.add(offset + slot * width);
                match (long, other) {
                    (Some((first, len)), Some((base, slot))) => {
                        racy_copy::copy_out_asking(from, out, word, first.at(base, slot), len);
                    }
                    _ => racy_copy::copy_out(from, out, word),
                }
            }
        }
    }
}

/// Asks for bytes of a run that begins in this slot of a lane's memory.
#[inline]
fn ask_for(asked: &[Asked], base: *mut u8, slot: usize) {
    for asked in asked {
        prefetch::prefetch(asked.at(base, slot));
    }
}

/// Where a part is of a run that begins in slot 0, and how many bytes it has. `None`: there is no such column.
fn find(columns: &[Placed], part: RunPart) -> Option<(Asked, usize)> {
    let RunPart { column, width, first, rows } = part;
    let placed = columns.get(column).filter(|placed| placed.width == width)?;
    let bytes = |rows: u64| usize::try_from(rows).ok()?.checked_mul(width);
    let offset = placed.offset.checked_add(bytes(first)?)?;
    Some((Asked { offset, width }, bytes(rows)?))
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

    fn part(column: usize, first: u64, rows: u64) -> RunPart {
        RunPart { column, width: WIDTHS[column], first, rows }
    }

    #[test]
    fn parts_of_all_runs_are_copied_one_after_the_other() {
        let lanes = lanes(40);
        let slots = lanes[0].slots;
        let asked = (0..WIDTHS.len()).map(|column| part(column, 0, 3));
        let mut runs = Runs::<4>::new(&lanes[0], 3, asked, []);
        let places = [0, 17, slots - 3];
        for (lane, slot) in [0, 1, 0].into_iter().zip(places) {
            assert!(runs.push(&lanes[lane], slot));
        }
        for (column, width) in WIDTHS.into_iter().enumerate() {
            for (first, rows) in [(0, 3), (1, 2), (2, 1)] {
                let wanted: Vec<u8> = places
                    .iter()
                    .flat_map(|slot| (first..first + rows).map(move |n| slot + n))
                    .flat_map(|slot| row(slot, width))
                    .collect();
                let mut out = vec![0; wanted.len()];
                assert!(runs.copy_to(part(column, first, rows), &mut out, None));
                assert_eq!(out, wanted, "{width} bytes, {rows} rows from {first} on");
            }
        }
        let mut last = Vec::new();
        assert!(runs.each_last::<3>(0, |run, words| last.push((run, words))));
        assert_eq!(last.len(), places.len());
        for ((run, words), slot) in last.into_iter().zip(places) {
            assert_eq!(bytemuck::cast_slice::<_, u8>(&words), row(slot + 2, 24), "{run}");
        }
        assert_eq!(runs.get(1).map(|run| run.slot()), Some(17));
        assert!(std::ptr::eq(runs.lanes().nth(1).unwrap(), &raw const *lanes[1]));
        assert!(runs.get(3).is_none());
    }

    #[test]
    fn asking_for_others_changes_no_byte() {
        let lanes = lanes(40);
        let places = [1, 0, 1].into_iter().zip([4, 17, 0]);
        let runs = || {
            let [short, long] =
                [0..2, 2..WIDTHS.len()].map(|columns| columns.map(|column| part(column, 0, 3)));
            Runs::<4>::new(&lanes[0], 3, short, long)
        };
        let [mut now, mut fewer, mut more, none] = [(); 4].map(|()| runs());
        assert!(places.clone().all(|(lane, slot)| now.push(&lanes[lane], slot)));
        assert!(fewer.push(&lanes[0], 30));
        assert!([3, 2, 1, 0].into_iter().all(|slot| more.push(&lanes[1], slot)));
        for runs in [&none, &fewer, &more] {
            runs.ask_for_last();
            runs.ask_for_all();
        }
        for (column, width) in WIDTHS.into_iter().enumerate() {
            let mut plain = vec![0; 3 * 3 * width];
            assert!(now.copy_to(part(column, 0, 3), &mut plain, None));
            for runs in [&now, &none, &fewer, &more] {
                let parts = [part(3, 0, 3), part(1, 2, 1), part(3, 7, u64::MAX)].map(Some);
                let asked = [0..0, 0..1, 0..runs.lines(), 2..99];
                for (lines, long) in asked.into_iter().zip([None].into_iter().chain(parts)) {
                    let mut out = vec![0; plain.len()];
                    let meanwhile = Some(Meanwhile { runs, lines: lines.clone(), long });
                    assert!(now.copy_to(part(column, 0, 3), &mut out, meanwhile));
                    assert_eq!(out, plain, "{width} bytes, meanwhile {lines:?} and {long:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_run_is_not_added() {
        let (lanes, others) = (lanes(40), lanes(60));
        let slots = lanes[0].slots;
        let mut runs = Runs::<2>::new(&lanes[0], 3, [], []);
        for slot in [slots - 2, slots, u64::MAX] {
            assert!(!runs.push(&lanes[0], slot), "{slot} of {slots}");
        }
        assert!(!runs.push(&others[0], 0), "of another list");
        assert!(runs.push(&lanes[0], 0) && runs.push(&lanes[1], slots - 3));
        assert!(!runs.push(&lanes[0], 0), "two at most");
        assert_eq!((runs.count(), runs.lanes().count()), (2, 2));
        runs.clear();
        assert_eq!((runs.count(), runs.lanes().count()), (0, 0));
        assert!(runs.get(0).is_none());
    }

    #[test]
    fn what_no_run_has_is_not_copied() {
        let lanes = lanes(40);
        let mut runs = Runs::<2>::new(&lanes[0], 3, [RunPart { width: 5, ..part(1, 0, 1) }], []);
        assert!(runs.push(&lanes[0], 0) && runs.push(&lanes[0], 1));
        let mut out = vec![9; 8];
        for wrong in [
            part(1, 3, 1),
            part(1, 0, 4),
            part(1, u64::MAX, 1),
            part(1, 0, 0),
            part(1, 0, 2),
            RunPart { width: 8, ..part(1, 0, 1) },
            RunPart { column: 4, ..part(1, 0, 1) },
        ] {
            assert!(!runs.copy_to(wrong, &mut out, None), "{wrong:?}");
            assert_eq!(out, [9; 8]);
        }
        assert!(!runs.each_last::<2>(0, |_, _| panic!("of another width")));
        assert!(!runs.each_last::<3>(4, |_, _| panic!("of no column")));
        assert!(runs.copy_to(part(1, 0, 1), &mut out, None));
        assert_eq!(out, [row(0, 4), row(1, 4)].concat());
    }
}
