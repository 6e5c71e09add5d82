//! Claims: each row of a pass goes to one claimant, in all processes.
//!
//! A pass is a set of rows: a range for each lane. Its rows are numbered from 0. One word holds the
//! number of the pass and the next position in it. [`take`] claims positions by one atomic change
//! of that word. A claimant that is killed afterwards loses what it claimed, and nothing else.
//!
//! The ranges of a pass stand in one of two banks, by the parity of its number. The holder of the
//! table's lock begins a pass ([`begin`]): it writes the bank that the last pass does not use, then
//! changes the word. If it is killed before that, the next holder writes the bank again. A reader
//! ([`read`]) copies a bank, and then checks the word again. The bank of a pass is overwritten only
//! once the next pass has begun, so a torn copy is never used.

use std::ops::Range;
use std::sync::atomic::Ordering::{self, Acquire};

/// Bits of the position in the word; the number of the pass has the others.
const POSITION_BITS: u32 = 40;
/// Largest number of rows of a pass.
pub const MAX_PASS_ROWS: u64 = (1 << POSITION_BITS) - 1;
/// Bits of the number of a pass.
const PASS_MASK: u64 = u64::MAX >> POSITION_BITS;
/// Copies of a bank before a reader gives up: only faulty peers begin passes that fast.
const READS: u32 = 64;

/// Fences of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimFence {
    /// Between looking at the word and writing a bank. Release.
    Writing,
    /// Reader, between copying a bank and looking at the word again. Acquire.
    Copied,
}

/// Words of a table of claims.
pub trait ClaimWords {
    /// Loads the word of the pass and the position.
    fn claim(&self, order: Ordering) -> u64;
    /// Replaces the word of the pass and the position if it is `current`, with acquire and release.
    fn exchange(&self, current: u64, new: u64) -> bool;
    /// Loads a word of a bank. 0 outside the memory.
    fn load(&self, bank: usize, word: usize) -> u64;
    /// Stores a word of a bank.
    fn store(&self, bank: usize, word: usize, value: u64);
    /// Executes a fence.
    fn fence(&self, at: ClaimFence);
}

/// A pass, as copied from its bank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimPass {
    /// Number of the pass.
    pub number: u64,
    /// Number of earlier passes over the same rows.
    pub round: u64,
    /// Rows of each lane.
    pub ranges: Vec<Range<u64>>,
}

impl ClaimPass {
    /// Returns the rows of all lanes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        let rows = self.ranges.iter().map(|rows| rows.end.saturating_sub(rows.start));
        rows.fold(0, u64::saturating_add)
    }
}

/// Returns the word of a pass and the next position in it.
pub(crate) fn word(pass: &ClaimPass, next: u64) -> u64 {
    (pass.number & PASS_MASK) << POSITION_BITS | next.min(MAX_PASS_ROWS)
}

fn unpack(word: u64) -> (u64, u64) {
    (word >> POSITION_BITS, word & MAX_PASS_ROWS)
}

/// Returns the bank of a pass.
pub(crate) fn bank_of(number: u64) -> usize {
    usize::from(number & 1 == 1)
}

/// Returns the number of the pass and the next position in it.
pub fn position(words: &impl ClaimWords) -> (u64, u64) {
    // ORDERING: acquire, pairs with the exchange in `begin`.
    unpack(words.claim(Acquire))
}

/// Claims up to `want` positions of a pass that has `total`. Returns `None` if all are claimed,
/// another pass has begun, or `want` is 0.
pub fn take(words: &impl ClaimWords, pass: u64, total: u64, want: u64) -> Option<Range<u64>> {
    loop {
        // ORDERING: acquire, pairs with the exchange in `begin`.
        let word = words.claim(Acquire);
        let (number, first) = unpack(word);
        let count = want.min(total.min(MAX_PASS_ROWS).checked_sub(first)?);
        if number != pass || count == 0 {
            return None;
        }
        if words.exchange(word, word + count) {
            return Some(first..first + count);
        }
    }
}

/// Gives positions back that the caller claimed and did not use: the last ones that were claimed of
/// this pass. Returns `false`, and changes nothing, if others were claimed after them, another pass
/// has begun, or `positions` is empty.
pub fn give_back(words: &impl ClaimWords, pass: u64, positions: &Range<u64>) -> bool {
    let end = positions.end.min(MAX_PASS_ROWS);
    if positions.start >= end {
        return false;
    }
    let at = |position| (pass & PASS_MASK) << POSITION_BITS | position;
    words.exchange(at(end), at(positions.start))
}

/// Copies the current pass. The ranges are returned as stored, also impossible ones: the caller
/// checks them. Returns empty ranges after 64 torn copies.
pub fn read(words: &impl ClaimWords, lanes: usize) -> ClaimPass {
    for _ in 0..READS {
        let (number, _) = position(words);
        let bank = bank_of(number);
        let round = words.load(bank, 0);
        let range = |lane: usize| words.load(bank, 1 + 2 * lane)..words.load(bank, 2 + 2 * lane);
        let ranges = (0..lanes).map(range).collect();
        words.fence(ClaimFence::Copied);
        if position(words).0 == number {
            return ClaimPass { number, round, ranges };
        }
    }
    ClaimPass { ranges: vec![0..0; lanes], ..ClaimPass::default() }
}

/// Copies the current pass, and returns it with the next position in it: its end if another pass
/// has begun meanwhile, since no more of its rows are claimed then.
pub fn read_with_position(words: &impl ClaimWords, lanes: usize) -> (ClaimPass, u64) {
    let pass = read(words, lanes);
    let next = match position(words) {
        (number, next) if number == pass.number => next,
        _ => pass.total(),
    };
    (pass, next)
}

/// Begins the pass after `pass.number`, with the round and the ranges of `pass`. The caller holds
/// the table's lock, and saw that `claimed` positions of the current pass are claimed. Returns
/// `false`, and the current pass goes on, if it is not `pass.number` or has another position:
/// positions that were given back since would be lost.
pub fn begin(words: &impl ClaimWords, pass: &ClaimPass, claimed: u64) -> bool {
    let number = (pass.number + 1) & PASS_MASK;
    if position(words) != (pass.number, claimed) {
        return false;
    }
    words.fence(ClaimFence::Writing);
    let bank = bank_of(number);
    words.store(bank, 0, pass.round);
    for (lane, rows) in pass.ranges.iter().enumerate() {
        words.store(bank, 1 + 2 * lane, rows.start);
        words.store(bank, 2 + 2 * lane, rows.end);
    }
    words.exchange(pass.number << POSITION_BITS | claimed, number << POSITION_BITS)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Heap {
        claim: Cell<u64>,
        banks: RefCell<[Vec<u64>; 2]>,
        /// Stores until the process is killed.
        left: Cell<usize>,
    }

    impl Heap {
        fn new() -> Self {
            let heap = Self { left: Cell::new(usize::MAX), ..Self::default() };
            *heap.banks.borrow_mut() = [vec![0; 7], vec![0; 7]];
            heap
        }

        fn dies(&self) -> bool {
            self.left.set(self.left.get().saturating_sub(1));
            self.left.get() == 0
        }
    }

    impl ClaimWords for Heap {
        fn claim(&self, _: Ordering) -> u64 {
            self.claim.get()
        }

        fn exchange(&self, current: u64, new: u64) -> bool {
            if self.dies() {
                return true;
            }
            let same = self.claim.get() == current;
            if same {
                self.claim.set(new);
            }
            same
        }

        fn load(&self, bank: usize, word: usize) -> u64 {
            self.banks.borrow()[bank].get(word).copied().unwrap_or(0)
        }

        fn store(&self, bank: usize, word: usize, value: u64) {
            if !self.dies() {
                self.banks.borrow_mut()[bank][word] = value;
            }
        }

        fn fence(&self, _: ClaimFence) {}
    }

    proptest! {
        #[test]
        fn every_position_goes_to_one_claimant(
            total in 0..200_u64,
            wants in prop::collection::vec(1..40_u64, 0..40),
        ) {
            let heap = Heap::new();
            let all = ClaimPass { number: 0, round: 0, ranges: vec![0..total; 1] };
            prop_assert!(begin(&heap, &all, 0));
            let mut next = 0;
            for want in wants {
                let Some(claimed) = take(&heap, 1, total, want) else {
                    prop_assert_eq!(next, total);
                    continue;
                };
                prop_assert_eq!(claimed.start, next);
                prop_assert!(claimed.end - claimed.start <= want && claimed.end <= total);
                next = claimed.end;
            }
            prop_assert_eq!(take(&heap, 0, total, 1), None, "of an earlier pass");
            prop_assert_eq!(take(&heap, 2, total, 1), None, "of a later pass");
        }

        #[test]
        fn positions_that_are_given_back_go_to_the_next_claimant_and_only_to_one(
            total in 1..60_u64,
            steps in prop::collection::vec((0..3_usize, 0..9_u64), 0..80),
        ) {
            let heap = Heap::new();
            let all = ClaimPass { number: 0, round: 0, ranges: vec![0..total; 1] };
            prop_assert!(begin(&heap, &all, 0));
            // The last claim of each of three samplers, of which nothing was handed out.
            let mut last = [const { None }; 3];
            let mut owners = vec![None; usize::try_from(total).unwrap()];
            for (who, want) in steps {
                if want > 0 {
                    let Some(claimed) = take(&heap, 1, total, want) else { continue };
                    for at in claimed.clone() {
                        let owner = &mut owners[usize::try_from(at).unwrap()];
                        prop_assert_eq!(owner.replace(who), None, "position {}", at);
                    }
                    last[who] = Some(claimed);
                } else if let Some(claimed) = last[who].take() {
                    let newest = position(&heap) == (1, claimed.end);
                    prop_assert_eq!(give_back(&heap, 1, &claimed), newest);
                    if newest {
                        for at in claimed {
                            owners[usize::try_from(at).unwrap()] = None;
                        }
                    }
                }
            }
            prop_assert!(!give_back(&heap, 0, &(0..position(&heap).1)), "of an earlier pass");
            prop_assert!(!give_back(&heap, 1, &(0..0)));
            let (_, next) = position(&heap);
            for (at, owner) in (0..).zip(owners) {
                prop_assert_eq!(owner.is_some(), at < next);
            }
        }

        #[test]
        fn a_killed_beginner_leaves_the_pass_before_or_the_new_one(kill in 1..12_usize) {
            let heap = Heap::new();
            let first = ClaimPass { number: 0, round: 0, ranges: vec![3..9, 1..2, 0..0] };
            begin(&heap, &first, 0);
            let second = ClaimPass { number: 1, round: 1, ranges: vec![9..12, 2..2, 0..7] };
            heap.left.set(kill);
            begin(&heap, &second, 0);
            heap.left.set(usize::MAX);
            let found = read(&heap, 3);
            let expected = if found.number == 1 { &first } else { &second };
            prop_assert_eq!((found.round, &found.ranges), (expected.round, &expected.ranges));
            if found.number == 1 {
                prop_assert!(begin(&heap, &second, 0));
            }
            prop_assert_eq!(read(&heap, 3).ranges, second.ranges);
        }
    }

    #[test]
    fn any_word_claims_within_the_total_or_nothing() {
        let heap = Heap::new();
        for word in [u64::MAX, 1 << 40, (1 << 40) - 1, 7] {
            heap.claim.set(word);
            let (number, _) = position(&heap);
            let claimed = take(&heap, number, 100, 9);
            assert!(claimed.is_none_or(|rows| rows.end <= 100), "{word:x}");
        }
        heap.claim.set(u64::MAX);
        let (number, claimed) = position(&heap);
        assert!(begin(&heap, &ClaimPass { number, round: 0, ranges: vec![0..1; 3] }, claimed));
        assert_eq!(position(&heap), (0, 0), "numbers begin again");
    }

    #[test]
    fn no_pass_begins_once_positions_of_the_last_one_are_given_back() {
        let heap = Heap::new();
        let pass = |number| ClaimPass { number, round: 0, ranges: vec![0..5; 1] };
        assert!(begin(&heap, &pass(0), 0));
        let taken = take(&heap, 1, 5, 5).unwrap();
        let claimed = position(&heap).1;
        assert!(give_back(&heap, 1, &(3..taken.end)));
        assert!(!begin(&heap, &pass(1), claimed), "positions 3 and 4 would be lost");
        assert_eq!(take(&heap, 1, 5, 5), Some(3..5));
        assert!(begin(&heap, &pass(1), claimed));
    }
}
