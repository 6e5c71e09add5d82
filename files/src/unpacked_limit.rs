//! Limit on what an untrusted file may unpack to, so that a small file cannot exhaust memory.

/// Maximum ratio of unpacked bytes to the file's bytes.
const MAX_RATIO: u64 = 1000;
/// Unpacked bytes that a file of any size may have.
const SMALL_BYTES: u64 = 256 << 20;

/// Returns the bytes that a file of `file_bytes` bytes may unpack to: 1000 times its size, and at
/// least 256 MiB. Readers compare it with the sizes that a file claims before they allocate memory.
#[must_use]
pub fn unpacked_limit(file_bytes: u64) -> u64 {
    SMALL_BYTES.max(file_bytes.saturating_mul(MAX_RATIO))
}

#[cfg(test)]
mod tests {
    use super::unpacked_limit;

    #[test]
    fn small_files_have_one_limit_and_larger_ones_a_ratio() {
        for (file_bytes, limit) in [
            (0, 268_435_456),
            (268_435, 268_435_456),
            (268_436, 268_436_000),
            (1 << 30, 1000 << 30),
            (u64::MAX / 1000, u64::MAX / 1000 * 1000),
            (u64::MAX / 1000 + 1, u64::MAX),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(unpacked_limit(file_bytes), limit, "{file_bytes} bytes");
        }
    }
}
