//! Mark of a lane: the first row that was not dropped. Any process may raise it. Readers ignore the
//! rows below it.
//!
//! Generic over [`MarkWord`]. A mark is stored after a load that returned a `head` of at least the
//! mark. So a reader that loads the mark first and `head` afterwards finds no correct mark above
//! `head`, and takes any other for a fault.

use std::sync::atomic::{Ordering, fence};

use crate::layout::low_marks::LowMark;

/// Mark of a lane, in memory that other processes share.
pub trait MarkWord {
    /// Loads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Issues a memory fence.
    fn fence(&self, order: Ordering);
    /// Replaces `from` by `to` with `order`, and returns whether it did.
    fn compare_exchange(&self, from: u64, to: u64, order: Ordering) -> bool;
}

/// Returns the mark. Any number may be stored there: the caller compares it with the `head` that it
/// loads afterwards, and takes a mark above it for 0.
#[inline]
pub fn load_mark(word: &impl MarkWord) -> u64 {
    // ORDERING: a relaxed load and a fence, since the memory is mapped read-only. Pairs with the
    // release in `raise_mark`: the caller then loads a `head` that is at least the mark.
    let mark = word.load(Ordering::Relaxed);
    word.fence(Ordering::Acquire);
    mark
}

/// Raises the mark to `row`, and never lowers a correct one. Returns the mark before.
///
/// `head` loads the lane's head; the caller has loaded one of at least `row` before. A mark above
/// the head counts as 0, and is replaced unless `row` is 0.
pub fn raise_mark(word: &impl MarkWord, row: u64, head: impl Fn() -> u64) -> u64 {
    loop {
        let stored = load_mark(word);
        let mark = if stored > head() { 0 } else { stored };
        // ORDERING: release, after the caller's load of a head of at least `row`; pairs with the
        // fence in `load_mark`.
        if mark >= row || word.compare_exchange(stored, row, Ordering::Release) {
            return mark;
        }
    }
}

impl MarkWord for LowMark {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        LowMark::load(self, order)
    }

    #[inline]
    fn fence(&self, order: Ordering) {
        fence(order);
    }

    fn compare_exchange(&self, from: u64, to: u64, order: Ordering) -> bool {
        LowMark::compare_exchange(self, from, to, order)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::layout::low_marks::LowMarks;

    #[test]
    fn a_mark_rises_whichever_of_two_processes_is_late() {
        let marks = Arc::new(LowMarks::heap(3).unwrap());
        let [before, mark, after, none] = [0, 1, 2, 3].map(|lane| LowMark::new(&marks, lane));
        std::thread::scope(|scope| {
            for first in [0, 1] {
                let mark = &mark;
                scope.spawn(move || {
                    for row in (first..10_000).step_by(2) {
                        let before = raise_mark(mark, row, || 10_000);
                        assert!(load_mark(mark) >= row.max(before), "row {row}, before {before}");
                    }
                });
            }
        });
        assert_eq!([&before, &mark, &after, &none].map(load_mark), [0, 9_999, 0, 0]);
        assert_eq!((raise_mark(&mark, 5, || 10_000), load_mark(&mark)), (9_999, 9_999));
        assert_eq!((raise_mark(&none, 5, || 10_000), load_mark(&none)), (0, 0));
    }

    /// The mark of a lane whose head is 9.
    #[test]
    fn a_mark_above_the_head_counts_as_0_and_is_replaced() {
        for (stored, row, before, after) in
            [(u64::MAX, 7, 0, 7), (10, 7, 0, 7), (9, 7, 9, 9), (3, 7, 3, 7), (10, 0, 0, 10)]
        {
            let mark = LowMark::new(&Arc::new(LowMarks::heap(1).unwrap()), 0);
            assert!(mark.compare_exchange(0, stored, Ordering::Relaxed));
            assert_eq!(
                (raise_mark(&mark, row, || 9), load_mark(&mark)),
                (before, after),
                "{stored}"
            );
        }
    }
}
