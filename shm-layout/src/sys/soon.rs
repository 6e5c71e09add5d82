//! Asking for memory before it is read.

use super::copy::ask;

/// Asks the processor for numbers that will be read soon, not at once: they come to the second cache meanwhile.
#[inline]
pub fn soon<V>(numbers: &[V]) {
    ask(numbers.as_ptr().cast(), size_of_val(numbers));
}
