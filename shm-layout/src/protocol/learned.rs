//! Learned values: one word for each row and column, written by learners without a lock.
//!
//! The upper half of a word is the generation of the value's row, the lower half the value. A word
//! is replaced as a whole, so a killed learner leaves the old value or the new one. [`set`] never
//! replaces the value of a newer row by that of an older one. [`get`] takes the value of no other
//! row. So a learner that was stopped for long does no harm when it goes on.

/// Maximum attempts to change a word. Only faulty peers change it as often meanwhile.
const ATTEMPTS: u32 = 64;
/// Number of generations, after which they repeat. No generation is 0, which marks an unset word.
const GENERATIONS: u64 = u32::MAX as u64;

/// One word of a learned column.
pub trait LearnedWord {
    /// Loads the word.
    fn load(&self) -> u64;
    /// Replaces the word by `new` if it is `current`.
    fn exchange(&self, current: u64, new: u64) -> bool;
}

/// Returns the generation of a row whose words were handed on `lap` times before.
fn generation(lap: u64) -> u64 {
    lap % GENERATIONS + 1
}

/// Returns whether a word holds the value of a newer row than one of generation `than`.
fn is_newer(word: u64, than: u64) -> bool {
    let found = word >> 32;
    let ahead = (found + GENERATIONS - than) % GENERATIONS;
    found != 0 && ahead > 0 && ahead < GENERATIONS / 2
}

/// Sets the value of a row whose word was handed on `lap` times before. Returns `false`, and
/// changes nothing, if the word is that of a newer row by now, or if others changed it during every
/// attempt.
pub fn set(word: &impl LearnedWord, lap: u64, value: u32) -> bool {
    let generation = generation(lap);
    let new = generation << 32 | u64::from(value);
    for _ in 0..ATTEMPTS {
        let current = word.load();
        if is_newer(current, generation) {
            return false;
        }
        if word.exchange(current, new) {
            return true;
        }
    }
    false
}

/// Returns the value of a row whose word was handed on `lap` times before, if it was set.
#[inline]
pub fn get(word: &impl LearnedWord, lap: u64) -> Option<u32> {
    let word = word.load();
    let [a, b, c, d, ..] = word.to_le_bytes();
    (word >> 32 == generation(lap)).then_some(u32::from_le_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Heap(Cell<u64>);

    impl LearnedWord for Heap {
        fn load(&self) -> u64 {
            self.0.get()
        }

        fn exchange(&self, current: u64, new: u64) -> bool {
            let same = self.0.get() == current;
            if same {
                self.0.set(new);
            }
            same
        }
    }

    #[test]
    fn a_value_belongs_to_one_row() {
        let word = Heap(Cell::new(0));
        assert_eq!(get(&word, 0), None);
        assert!(set(&word, 0, 7) && set(&word, 0, 0));
        assert_eq!((get(&word, 0), get(&word, 1)), (Some(0), None));
        assert!(set(&word, 5, 9));
        assert_eq!((get(&word, 0), get(&word, 5)), (None, Some(9)));
        assert!(!set(&word, 4, 1), "of an older row");
        assert_eq!(get(&word, 5), Some(9));
    }

    #[test]
    fn generations_go_on_after_the_last() {
        let word = Heap(Cell::new(0));
        let last = GENERATIONS - 1;
        assert!(set(&word, last, 1));
        assert_eq!(get(&word, last), Some(1));
        assert!(set(&word, GENERATIONS, 2), "the first generation again");
        assert!(!set(&word, last, 3));
        assert_eq!(get(&word, GENERATIONS), Some(2));
        for any in [u64::MAX, 1 << 63, 1 << 32, u64::from(u32::MAX)] {
            word.0.set(any);
            set(&word, 3, 4);
            assert!(matches!(get(&word, 3), None | Some(4)), "{any:x}");
        }
    }
}
