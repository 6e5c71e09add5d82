//! Long copies of numbers, whose stores fill whole lines of the cache.
//!
//! The C library's `memcpy` leaves copies of this length to one instruction (`rep movsb`), which takes a tenth longer
//! where they begin within a line, as histories do.

use backcast_core::{Wide, wide};

const CACHE_LINE_BYTES: usize = 64;

/// Numbers from which on a copy is long.
const LONG: usize = 1_024;

/// Copies all of `from` to `to`.
///
/// # Panics
///
/// If they are not equally long, like any slice.
pub(crate) fn long(from: &[f32], to: &mut [f32]) {
    if from.len() != to.len() || from.len() < LONG {
        to.copy_from_slice(from);
        return;
    }
    let first_line = to.as_ptr().align_offset(CACHE_LINE_BYTES).min(LONG);
    let (head, from) = from.split_at(first_line);
    let (head_to, to) = to.split_at_mut(first_line);
    head_to.copy_from_slice(head);
    wide(Lines, (from, &[], &[]), (to, &mut []), ());
}

struct Lines;

impl Wide<f32, (), (), f32, (), (), ()> for Lines {
    #[inline(always)]
    fn run(from: &[f32], _: &[()], _: &[()], to: &mut [f32], _: &mut [()], (): ()) {
        let (from, tail) = from.as_chunks::<8>();
        let (to, tail_to) = to.as_chunks_mut::<8>();
        tail_to.copy_from_slice(tail);
        let (from, tail) = from.as_chunks::<4>();
        let (to, tail_to) = to.as_chunks_mut::<4>();
        tail_to.copy_from_slice(tail);
        for (from, to) in from.iter().zip(to) {
            // One register after the other: of whole chunks the compiler would make one call of `memcpy`.
            let [a, b, c, d] = *from;
            to[0] = a;
            to[1] = b;
            to[2] = c;
            to[3] = d;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_any_length_to_any_place_writes_what_it_was_given_and_nothing_else() {
        let numbers: Vec<f32> = (1..=u16::try_from(2 * LONG).unwrap()).map(f32::from).collect();
        for len in [0, 1, LONG - 1, LONG, LONG + 1, LONG + 31, LONG + 32, LONG + 77] {
            for at in 0..20 {
                let from = &numbers[at / 3..][..len];
                let mut to = vec![-1.0; at + len + 9];
                long(from, &mut to[at..at + len]);
                assert_eq!(to[at..at + len], *from, "{len} numbers to place {at}");
                assert!(to[..at].iter().chain(&to[at + len..]).all(|&other| other < 0.0));
            }
        }
    }

    #[test]
    #[should_panic(expected = "length")]
    fn a_copy_of_another_length_is_refused() {
        long(&[0.0; 2 * LONG], &mut [0.0; LONG]);
    }
}
