//! Loops over memory that need code of their own: racy copies, prefetches, wide vectors, and
//! threads that share the work of a call.

#![expect(unsafe_code, reason = "assembly, vector instructions and copies by address")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "columns begin on multiples of 8 and their word divides their width"
)]

pub(crate) mod huge_array;
pub(crate) mod power;
pub(crate) mod prefetch;
pub(crate) mod racy_copy;
pub(crate) mod rank;
pub(crate) mod shared_words;
pub(crate) mod simd;
pub(crate) mod thread_pool;
