//! Integers of every type as `i128`.

use backcast_core::DType;

/// Iterates over the integers in the bytes of a column.
pub(crate) fn integers(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = i128> + '_ {
    bytes.chunks_exact(dtype.size()).map(move |bytes| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let unsigned = u64::from_le_bytes(wide);
        match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
                let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8);
                i128::from((unsigned << unused).cast_signed() >> unused)
            }
            _ => i128::from(unsigned),
        }
    })
}
