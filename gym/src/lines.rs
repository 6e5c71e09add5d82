//! Numbers of tickers in lines of sixteen: what lies behind the last ticker is zero, means nothing and is traded by
//! nobody.
//!
//! So a loop over a portfolio consists of whole vectors. Of 30 tickers without those zeros nearly half would be
//! left to the loop that follows, which takes one at a time.

/// Numbers in a line: as many as a loop takes at once, with vectors of 32 bytes.
pub(crate) const LINE: usize = 16;

/// Runs a block for every position, in sequence, written out for eight of them, then four, two and one: for
/// sums, where a loop would count longer than it adds.
///
/// `at of len, [slices]`: slices are arrays within the block.
macro_rules! in_sequence {
    ($at:ident of $len:expr, [$($slice:ident),+] $block:block) => {{
        let len: usize = $len;
        $(let $slice = &$slice[..len];)+
        for run in 0..len / 8 {
            $(let $slice = &$slice.as_chunks::<8>().0[run];)+
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
