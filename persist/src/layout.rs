//! Offsets of the columns of a batch, computed from schema and rows and never read from a file.

use backcast_core::{Column, DType, Schema};

/// Alignment of columns in bytes, as Arrow recommends for mapped files.
pub(crate) const ALIGN: u64 = 64;
/// Approximate maximum bytes of a batch of more than one row.
pub(crate) const BATCH_BYTES: u64 = 4 << 20;
/// Bytes at which a file is closed.
pub(crate) const FILE_BYTES: u64 = 64 << 20;
/// Built-in columns, before the user's.
pub(crate) const BUILT_IN: [(&str, DType); 4] =
    [("seq", DType::U64), ("episode", DType::U64), ("t", DType::U32), ("flags", DType::U32)];

/// A column of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileColumn {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Shape of one row; empty for a scalar.
    pub(crate) shape: Vec<u32>,
    /// Elements per row.
    pub(crate) items: u64,
}

impl FileColumn {
    fn of(column: &Column) -> Self {
        let (name, shape) = (column.name().to_owned(), column.shape().to_owned());
        Self { name, dtype: column.dtype(), shape, items: column.items() as u64 }
    }

    pub(crate) fn scalar(name: &str, dtype: DType) -> Self {
        Self { name: name.to_owned(), dtype, shape: Vec::new(), items: 1 }
    }

    /// Returns the bytes of rows in a file, with one bit per `bool`.
    fn bytes(&self, rows: u64) -> Option<u64> {
        let items = rows.checked_mul(self.items)?;
        match self.dtype {
            DType::Bool => Some(items.div_ceil(8)),
            dtype => items.checked_mul(dtype.size() as u64),
        }
    }
}

/// Columns of a batch. A batch of rows has `lane`, the built-in columns and the user's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchLayout {
    pub(crate) columns: Vec<FileColumn>,
}

/// Place of a column in the body of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyPlace {
    /// Offset in the body.
    pub(crate) offset: u64,
    /// Bytes of the rows.
    pub(crate) bytes: u64,
    /// Bytes of the rows, padded with zeros to [`ALIGN`].
    pub(crate) padded: u64,
}

impl BatchLayout {
    pub(crate) fn of(schema: &Schema) -> Self {
        // A user's column may have the same name; no user's name contains `#`.
        let taken =
            |name: &str| schema.columns().iter().any(|c| c.name().split('/').next() == Some(name));
        let lane = if taken("lane") { "#lane" } else { "lane" };
        let columns = std::iter::once((lane, DType::U32)).chain(BUILT_IN);
        let columns = columns.map(|(name, dtype)| FileColumn::scalar(name, dtype));
        Self { columns: columns.chain(schema.columns().iter().map(FileColumn::of)).collect() }
    }

    /// Returns the approximate bytes of a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.columns.iter().filter_map(|column| column.bytes(1)).sum()
    }

    /// Returns the rows of a full batch.
    pub(crate) fn rows_per_batch(&self, batch_bytes: u64) -> u64 {
        (batch_bytes / self.row_bytes().max(1)).max(1)
    }

    /// Returns the places of the columns and the bytes of the body. `None` on overflow.
    pub(crate) fn places(&self, rows: u64) -> Option<(Vec<BodyPlace>, u64)> {
        let mut offset = 0_u64;
        let mut places = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let bytes = column.bytes(rows)?;
            let padded = bytes.checked_next_multiple_of(ALIGN)?;
            places.push(BodyPlace { offset, bytes, padded });
            offset = offset.checked_add(padded)?;
        }
        // Arrow's offsets are signed.
        i64::try_from(offset).ok()?;
        Some((places, offset))
    }
}

/// Packs bytes into bits, the first byte into the lowest bit. Every nonzero byte sets its bit.
pub(crate) fn pack_bools(bytes: &[u8], bits: &mut [u8]) {
    for (byte, eight) in bits.iter_mut().zip(bytes.chunks(8)) {
        *byte = eight
            .iter()
            .enumerate()
            .fold(0, |byte, (place, bool)| byte | (u8::from(*bool != 0) << place));
    }
}

/// Unpacks bits into bytes, from bit number `skip` on.
pub(crate) fn unpack_bools(bits: &[u8], skip: usize, bytes: &mut [u8]) {
    for (at, byte) in (skip..).zip(bytes) {
        *byte = bits.get(at / 8).map_or(0, |eight| (eight >> (at % 8)) & 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_each_other_on_lines_of_their_own() {
        let schema = Schema::builder()
            .column("obs", DType::F32, &[3])
            .column("done", DType::Bool, &[2])
            .build()
            .unwrap();
        let layout = BatchLayout::of(&schema);
        let (places, body) = layout.places(100).unwrap();
        let names: Vec<_> = layout.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["lane", "seq", "episode", "t", "flags", "obs", "done"]);
        let bytes: Vec<_> = places.iter().map(|p| p.bytes).collect();
        assert_eq!(bytes, [400, 800, 800, 400, 400, 1200, 25]);
        let mut end = 0;
        for place in &places {
            assert_eq!((place.offset, place.offset % ALIGN), (end, 0));
            assert!(place.padded >= place.bytes && place.padded - place.bytes < ALIGN);
            end = place.offset + place.padded;
        }
        assert_eq!(end, body);
        assert_eq!(layout.places(u64::MAX / 2), None);
    }

    #[test]
    fn a_full_batch_has_as_many_rows_as_fit_and_at_least_one() {
        let schema = Schema::builder()
            .column("obs", DType::F32, &[3])
            .column("done", DType::Bool, &[10])
            .build()
            .unwrap();
        let layout = BatchLayout::of(&schema);
        // `lane`, `t` and `flags`, then `seq` and `episode`, then the two columns.
        let row = 3 * 4 + 2 * 8 + 3 * 4 + 2;
        assert_eq!(layout.row_bytes(), row);
        for (bytes, rows) in [(0, 1), (1, 1), (row, 1), (7 * row, 7), (7 * row - 1, 6)] {
            assert_eq!(layout.rows_per_batch(bytes), rows, "{bytes} bytes");
        }
        assert_eq!(BatchLayout::default().rows_per_batch(9), 9);
    }

    #[test]
    fn a_column_of_the_users_called_lane_is_not_ours() {
        for name in ["lane", "lane/x"] {
            let schema = Schema::builder().column(name, DType::F32, &[]).build().unwrap();
            assert_eq!(BatchLayout::of(&schema).columns[0].name, "#lane", "{name}");
        }
    }

    #[test]
    fn bools_come_back_from_any_place() {
        let bools: Vec<u8> = (0..77).map(|i| u8::from(i % 3 == 0 || i % 7 == 1)).collect();
        let mut bits = vec![0xff; bools.len().div_ceil(8)];
        pack_bools(&bools, &mut bits);
        assert_eq!(bits[9] >> 5, 0, "places behind the last are zero");
        for skip in [0, 1, 8, 13, 76] {
            let mut out = vec![9; bools.len() - skip];
            unpack_bools(&bits, skip, &mut out);
            assert_eq!(out, bools[skip..], "{skip}");
        }
    }
}
