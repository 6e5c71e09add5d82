//! Padding of numbers by ticker to lines of 16; the padding is zero and never traded.
//!
//! A loop over a portfolio then consists of whole vectors. Without padding, 14 of 30 tickers would
//! be left to a scalar loop.

/// Numbers in a line: four vectors of 32 bytes, which an unrolled loop processes in one pass.
pub(crate) const LINE: usize = 16;

/// Runs a block for every position, in sequence, unrolled by eight, then four, two and one.
///
/// Use it for sums whose loop overhead would exceed the additions. Within the block each slice is
/// an array of constant length, and `at` is the position in it.
macro_rules! in_sequence {
    ($at:ident of $len:expr, [$($slice:ident),+] $block:block) => {{
        let len: usize = $len;
        $(let $slice = &$slice[..len];)+
        for chunk in 0..len / 8 {
            $(let $slice = &$slice.as_chunks::<8>().0[chunk];)+
            for $at in 0..8 $block
        }
        $(let $slice = $slice.as_chunks::<8>().1;)+
        in_sequence!(@ 4 $at of len, [$($slice),+] $block);
        $(let $slice = $slice.as_chunks::<4>().1;)+
        in_sequence!(@ 2 $at of len, [$($slice),+] $block);
        $(let $slice = $slice.as_chunks::<2>().1;)+
        in_sequence!(@ 1 $at of len, [$($slice),+] $block);
    }};
    (@ $width:literal $at:ident of $len:ident, [$($slice:ident),+] $block:block) => {
        if $len & $width != 0 {
            $(let $slice = &$slice.as_chunks::<$width>().0[0];)+
            for $at in 0..$width $block
        }
    };
}

pub(crate) use in_sequence;
