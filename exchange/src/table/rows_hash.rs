//! Hash of the rows of a table.

use backcast_core::{DType, Rows};

/// Hash of rows, independent of the pieces in which they are added.
///
/// Each column has a BLAKE3 hash over its elements in memory, booleans as 0 or 1. The result is the
/// hash of these hashes, in column order: `lane`, the other built-in columns, the user's.
#[derive(Debug, Default)]
pub(crate) struct RowsHash(Vec<blake3::Hasher>);

impl RowsHash {
    /// Adds rows of a ring.
    pub(crate) fn add(&mut self, lane: u32, rows: &Rows) {
        let lanes = lane.to_ne_bytes().repeat(rows.len());
        self.column(0, DType::U32, &lanes);
        for (number, column) in (1..).zip(rows.columns()) {
            let bytes = rows.bytes(column.name()).unwrap_or_default();
            self.column(number, column.dtype(), bytes);
        }
    }

    /// Adds the next elements of column `number` of the table.
    pub(crate) fn column(&mut self, number: usize, dtype: DType, bytes: &[u8]) {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, blake3::Hasher::new);
        }
        let Some(hash) = self.0.get_mut(number) else { return };
        if dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
            // Every byte but 0 is true, and is read back as 1.
            let bytes: Vec<u8> = bytes.iter().map(|byte| u8::from(*byte != 0)).collect();
            hash.update(&bytes);
        } else {
            hash.update(bytes);
        }
    }

    pub(crate) fn finish(&self) -> String {
        let mut whole = blake3::Hasher::new();
        for column in &self.0 {
            whole.update(column.finalize().as_bytes());
        }
        whole.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_the_elements_and_not_on_the_pieces_they_come_in() {
        let of = |pieces: &[(usize, DType, &[u8])]| {
            let mut hash = RowsHash::default();
            for (number, dtype, bytes) in pieces {
                hash.column(*number, *dtype, bytes);
            }
            hash.finish()
        };
        let whole = of(&[(0, DType::U8, &[1, 2, 3]), (1, DType::Bool, &[0, 1, 1])]);
        let pieces: &[(usize, DType, &[u8])] =
            &[(0, DType::U8, &[1]), (1, DType::Bool, &[0, 9]), (0, DType::U8, &[2, 3])];
        assert_eq!(of(&[pieces, &[(1, DType::Bool, &[255])]].concat()), whole);
        for (case, other) in [
            ("an element", of(&[(0, DType::U8, &[1, 2, 4]), (1, DType::Bool, &[0, 1, 1])])),
            ("a truth", of(&[(0, DType::U8, &[1, 2, 3]), (1, DType::Bool, &[0, 1, 0])])),
            ("the order", of(&[(0, DType::U8, &[2, 1, 3]), (1, DType::Bool, &[0, 1, 1])])),
            ("the column", of(&[(1, DType::U8, &[1, 2, 3]), (0, DType::Bool, &[0, 1, 1])])),
            ("its end", of(&[(0, DType::U8, &[1, 2, 3, 0]), (1, DType::Bool, &[1, 1])])),
        ] {
            assert_ne!(other, whole, "{case}");
        }
    }
}
