//! Checks the number of values of delta-encoded streams, before the decoder allocates for them.

use super::limits::MAX_DELTA_BLOCK;

/// Parser of `DELTA_BINARY_PACKED` streams, see *Encodings* of the Parquet format.
pub(super) struct DeltaStreams<'a>(pub(super) &'a [u8]);

impl DeltaStreams<'_> {
    /// Skips a stream of at most `most` values. Returns `None` if it is invalid or has more.
    pub(super) fn skip(&mut self, most: u64) -> Option<()> {
        let (block, minis) = (self.unsigned()?, self.unsigned()?);
        let values = self.unsigned()?;
        self.unsigned()?;
        if minis == 0 || block > MAX_DELTA_BLOCK || !block.is_multiple_of(minis) || values > most {
            return None;
        }
        let per_mini = block / minis;
        let mut left = values.saturating_sub(1);
        if left > 0 && per_mini == 0 {
            return None;
        }
        while left > 0 {
            self.unsigned()?;
            let (widths, rest) = self.0.split_at_checked(usize::try_from(minis).ok()?)?;
            self.0 = rest;
            for &width in widths {
                if left == 0 {
                    break;
                }
                let bytes = u64::from(width) * per_mini / 8;
                // The last miniblock of a page may lack its padding.
                let bytes = usize::try_from(bytes).ok()?.min(self.0.len());
                self.0 = &self.0[bytes..];
                left = left.saturating_sub(per_mini);
            }
        }
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::DeltaStreams;

    /// Five values 1 to 5 in one block of 128, four miniblocks: the deltas need no bits.
    const FIVE: &[u8] = &[0x80, 0x01, 4, 5, 2, 2, 0, 0, 0, 0];

    #[test]
    fn a_stream_is_skipped_to_its_end() {
        let two = [FIVE, FIVE, b"abc"].concat();
        let mut streams = DeltaStreams(&two);
        let both = (streams.skip(5), streams.skip(5));
        assert_eq!((both, streams.0), ((Some(()), Some(())), &b"abc"[..]));
        // Three values with 8-bit deltas in the first miniblock of 32.
        let wide = [&[0x80, 0x01, 4, 3, 0, 2, 8, 0, 0, 0][..], &[1; 32], b"x"].concat();
        let mut streams = DeltaStreams(&wide);
        assert_eq!((streams.skip(3), streams.0), (Some(()), &b"x"[..]));
    }

    #[test]
    fn invalid_streams_and_too_many_values_are_refused() {
        assert_eq!(DeltaStreams(FIVE).skip(4), None);
        for bytes in [
            &[][..],
            &FIVE[..5],
            &[0x80, 0x01, 0, 5, 2, 2, 0, 0, 0, 0],
            &[0x80, 0x01, 3, 5, 2, 2, 0, 0, 0, 0],
            &[0, 4, 5, 2, 2, 0, 0, 0, 0],
            &[0xff, 0xff, 0xff, 0xff, 0x7f, 1, 5, 2, 2, 0],
            &[0xff; 30],
        ] {
            assert_eq!(DeltaStreams(bytes).skip(100), None, "{bytes:?}");
        }
    }
}
