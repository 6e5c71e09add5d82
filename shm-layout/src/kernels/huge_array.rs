//! Private arrays that are written once and then read at random places.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use bytemuck::Pod;

use crate::kernels::racy_copy::asm::{self, ASM};
use crate::os::mapping::{HUGE_PAGE, Mapping};

/// Immutable array of numbers, on huge pages if it is large. Random reads from small pages spend
/// more time on page walks than on the numbers.
///
/// An array larger than half a huge page occupies whole huge pages.
pub struct HugeArray<V> {
    memory: Mapping,
    len: usize,
    of: PhantomData<V>,
}

impl<V: Pod> HugeArray<V> {
    /// Copies `values`.
    ///
    /// # Panics
    /// If the memory cannot be allocated.
    #[must_use]
    pub fn copy_of(values: &[V]) -> Self {
        const { assert!(align_of::<V>() <= 8) };
        let bytes = size_of_val(values);
        let room = if bytes > HUGE_PAGE / 2 { bytes.next_multiple_of(HUGE_PAGE) } else { bytes };
        let memory = Mapping::heap(room).expect("memory for a copy");
        // SAFETY: `memory` has `room` bytes, no fewer than `values`, and only this function refers
        // to it.
        unsafe {
            memory.base().cast::<V>().copy_from_nonoverlapping(values.as_ptr(), values.len());
        }
        Self { memory, len: values.len(), of: PhantomData }
    }
}

/// Copies between private slices, by whole cache lines where they are long. From hundreds of bytes
/// to some KiB this takes a tenth to a third less time than the C library's `memcpy`
/// (docs/decisions/0016).
///
/// # Panics
/// If the slices differ in length.
#[inline]
pub fn copy_slice<V: Pod>(from: &[V], to: &mut [V]) {
    assert!(from.len() == to.len(), "{} numbers for {}", from.len(), to.len());
    if !ASM {
        return to.copy_from_slice(from);
    }
    // SAFETY: both slices are valid for their bytes, and their lengths are equal. `to` is borrowed
    // mutably, so they do not overlap.
    unsafe {
        asm::copy_lines(to.as_mut_ptr().cast(), from.as_ptr().cast(), size_of_val(from));
    }
}

impl<V: Pod> Deref for HugeArray<V> {
    type Target = [V];

    #[inline]
    fn deref(&self) -> &[V] {
        // SAFETY: `copy_of` wrote `len` values there, aligned to 8, and `V: Pod` allows all bits.
        // Only this value refers to `memory`, and nothing writes to it any more.
        unsafe { std::slice::from_raw_parts(self.memory.base().cast(), self.len) }
    }
}

impl<V: Pod + fmt::Debug> fmt::Debug for HugeArray<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_what_was_copied() {
        assert!(HugeArray::<f64>::copy_of(&[]).is_empty());
        assert_eq!(HugeArray::copy_of(&[1_u8, 2, 3])[..], [1, 2, 3]);
        for count in [HUGE_PAGE / 8 - 1, HUGE_PAGE / 8, HUGE_PAGE / 8 + 1] {
            let values: Vec<u64> = (0..count as u64).collect();
            assert!(HugeArray::copy_of(&values)[..] == values[..], "{count}");
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn arrays_of_half_a_huge_page_or_more_begin_at_one() {
        let numbers = HugeArray::copy_of(&vec![1_u8; HUGE_PAGE / 2 + 1]);
        assert_eq!(numbers.as_ptr().addr() % HUGE_PAGE, 0);
    }

    #[test]
    fn numbers_of_any_count_are_copied_and_none_beside_them() {
        let numbers: Vec<f64> = (0..500).map(f64::from).collect();
        for count in 0..400 {
            let mut to = vec![-1.0; count + 20];
            copy_slice(&numbers[count % 7..][..count], &mut to[10..count + 10]);
            assert_eq!(to[10..count + 10], numbers[count % 7..][..count]);
            assert!(to[..10].iter().chain(&to[count + 10..]).all(|&other| other < 0.0), "{count}");
        }
    }

    #[test]
    #[should_panic(expected = "500 numbers for 499")]
    fn as_many_numbers_are_copied_as_there_is_room_for() {
        copy_slice(&[0.0; 500], &mut [0.0; 499]);
    }
}
