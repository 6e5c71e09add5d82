//! `table-NAME.dat` of kind 3: values that learners attach to rows, one word for each.

use std::mem::offset_of;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::{Pod, Zeroable};

use crate::error::SegmentError;
use crate::layout::column::DType;
use crate::layout::origin::header_crc;
use crate::layout::table_header::{CommonHeader, KIND_LEARNED, TableOrigin};
use crate::os::mapping::Mapping;

/// Maximum columns of a table.
pub const MAX_LEARNED_COLUMNS: usize = 16;
/// Longest name of a column, in bytes.
pub const MAX_LEARNED_NAME_BYTES: usize = 40;
/// Maximum values of a table.
pub(crate) const MAX_VALUES: u64 = 1 << 36;
/// Minimum rows of a lane that have words. The generation in a word repeats after about 2^32 times
/// as many rows, which is at least about 2^42.
const MIN_LANE_ROWS: u64 = 1 << 10;
/// Bytes of the header and the counters.
const HEADER_BYTES: usize = 256;
const WORD: usize = size_of::<u64>();

/// Header of a table of learned columns, written once before the table has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LearnedHeader {
    /// Origin of the table.
    pub origin: TableOrigin,
    /// Number of rows of a lane that the table has room for. The values of row `seq` are in place
    /// `seq mod lane_rows`.
    pub lane_rows: u64,
    /// Lanes of the ring.
    pub lane_count: u32,
    /// Kind of table: 3, learned columns.
    pub kind: u32,
    /// Columns, 1 to 16.
    pub column_count: u32,
    /// CRC-32 of the records of the columns.
    pub columns_crc32: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Zero.
    pub unused: [u8; 52],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

/// Counters of a table of learned columns. Used for their offsets only: in memory they are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LearnedCounterBytes {
    /// Values that were set.
    pub updated: u64,
    /// Values dropped because their row was overwritten.
    pub stale: u64,
    /// Zero.
    pub unused: [u8; 112],
}

/// Record of a learned column. The records follow the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LearnedColumnRecord {
    /// Name, padded with zeros.
    pub name: [u8; MAX_LEARNED_NAME_BYTES],
    /// Number of the element type.
    pub dtype: u8,
    /// Zero.
    pub unused: [u8; 23],
}

const _: () = {
    assert!(size_of::<LearnedHeader>() == 128);
    assert!(size_of::<LearnedHeader>() + size_of::<LearnedCounterBytes>() == HEADER_BYTES);
    assert!(size_of::<LearnedColumnRecord>() == 64);
};

/// A column of values that learners attach to rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LearnedColumn {
    /// Name of the column.
    pub name: String,
    /// Element type, of at most 4 bytes.
    pub dtype: DType,
}

/// Counters of a table of learned columns at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearnedCounters {
    /// Values that were set.
    pub updated: u64,
    /// Values dropped because their row was overwritten.
    pub stale: u64,
}

impl LearnedColumn {
    /// Returns why no table can have the column. `None` if a table can.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Self { name, dtype } = self;
        let mut bytes = name.bytes();
        let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let begins = bytes.next().is_some_and(letter);
        let goes_on = bytes.all(|byte| letter(byte) || byte.is_ascii_digit());
        if !begins || !goes_on || name.len() > MAX_LEARNED_NAME_BYTES {
            return Some(format!(
                "its name is no identifier of at most {MAX_LEARNED_NAME_BYTES} ASCII letters, \
                 digits and _; choose another, such as `value`"
            ));
        }
        (dtype.size() > size_of::<u32>()).then(|| {
            format!(
                "it is {dtype}, {} bytes a value, and a value and its row's generation share one \
                 word, which leaves 4; use f4, i4 or a narrower type",
                dtype.size()
            )
        })
    }

    fn record(&self) -> LearnedColumnRecord {
        let mut name = [0; MAX_LEARNED_NAME_BYTES];
        name.iter_mut().zip(self.name.bytes()).for_each(|(place, byte)| *place = byte);
        LearnedColumnRecord { name, dtype: self.dtype as u8, unused: [0; 23] }
    }

    /// Returns the column of a record, or `None` if no column has it.
    fn of_record(record: &LearnedColumnRecord) -> Option<Self> {
        let end = record.name.iter().position(|byte| *byte == 0).unwrap_or(record.name.len());
        let name = std::str::from_utf8(record.name.get(..end)?).ok()?.to_owned();
        let dtype = DType::ALL.into_iter().find(|dtype| *dtype as u8 == record.dtype)?;
        let column = Self { name, dtype };
        (column.problem().is_none() && column.record() == *record).then_some(column)
    }
}

/// Sizes of a table, computed from the lanes of its ring, the rows of a lane, and the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LearnedShape {
    pub(crate) lanes: u32,
    pub(crate) lane_rows: u64,
    pub(crate) columns: Vec<LearnedColumn>,
    pub(crate) bytes: u64,
}

impl LearnedShape {
    /// Returns the sizes of a table for `rows` rows of each lane, or `None` if none can have them.
    pub(crate) fn new(lanes: u32, rows: u64, columns: &[LearnedColumn]) -> Option<Self> {
        let lane_rows = rows.max(MIN_LANE_ROWS);
        let values = u64::from(lanes).checked_mul(lane_rows)?.checked_mul(columns.len() as u64)?;
        if columns.is_empty() || columns.len() > MAX_LEARNED_COLUMNS || values > MAX_VALUES {
            return None;
        }
        let bytes = first_word(columns.len()) as u64 + values * WORD as u64;
        usize::try_from(bytes).ok()?;
        Some(Self { lanes, lane_rows, columns: columns.to_vec(), bytes })
    }

    /// Returns the first bytes of the file of a new table: header, counters, records.
    pub(crate) fn image(&self, ring_uuid: [u8; 16]) -> Vec<u8> {
        let records: Vec<_> = self.columns.iter().map(LearnedColumn::record).collect();
        let records: &[u8] = bytemuck::cast_slice(&records);
        let mut header = LearnedHeader {
            origin: TableOrigin::new(ring_uuid),
            lane_rows: self.lane_rows,
            lane_count: self.lanes,
            kind: KIND_LEARNED,
            column_count: u32::try_from(self.columns.len()).unwrap_or(0),
            columns_crc32: crc32fast::hash(records),
            file_bytes: self.bytes,
            unused: [0; 52],
            crc32: 0,
        };
        header.crc32 = header_crc(&header);
        let counters = [0; size_of::<LearnedCounterBytes>()];
        [bytemuck::bytes_of(&header), &counters, records].concat()
    }
}

impl LearnedHeader {
    /// Checks a header against a ring's id and number of lanes. Returns the number of columns.
    pub(crate) fn check(
        &self,
        path: &Path,
        ring_uuid: [u8; 16],
        lanes: u32,
    ) -> Result<usize, SegmentError> {
        CommonHeader::of(self).check(path, KIND_LEARNED, ring_uuid, lanes)?;
        let corrupt = |what: &str| SegmentError::corrupt(path, what);
        let columns = self.column_count as usize;
        if !(1..=MAX_LEARNED_COLUMNS).contains(&columns) {
            return Err(corrupt("it has no columns, or too many"));
        }
        Ok(columns)
    }

    /// Returns the sizes that a checked header and the records of its columns state.
    pub(crate) fn shape(
        &self,
        path: &Path,
        records: &[LearnedColumnRecord],
    ) -> Result<LearnedShape, SegmentError> {
        let corrupt = |what: &str| SegmentError::corrupt(path, what);
        if crc32fast::hash(bytemuck::cast_slice(records)) != self.columns_crc32 {
            return Err(corrupt("the records of its columns have another CRC"));
        }
        let columns: Option<Vec<_>> = records.iter().map(LearnedColumn::of_record).collect();
        let columns = columns.ok_or_else(|| corrupt("it has a column that no table has"))?;
        let shape = LearnedShape::new(self.lane_count, self.lane_rows, &columns);
        let same = |shape: &LearnedShape| {
            (shape.lane_rows, shape.bytes) == (self.lane_rows, self.file_bytes)
        };
        shape.filter(same).ok_or_else(|| corrupt("its sizes do not belong together"))
    }
}

/// Returns the offset of the first word of a table.
fn first_word(columns: usize) -> usize {
    records_end(columns)
}

/// Returns the bytes of header, counters and records.
pub(crate) fn records_end(columns: usize) -> usize {
    HEADER_BYTES + columns * size_of::<LearnedColumnRecord>()
}

/// Memory of a table of learned columns. Its words are atomics, and no value in them is trusted.
#[derive(Debug)]
pub(crate) struct LearnedMemory {
    pub(crate) map: Mapping,
    pub(crate) shape: LearnedShape,
}

impl LearnedMemory {
    /// Returns the word of a row in a column.
    #[inline]
    pub(crate) fn word(&self, lane: u32, seq: u64, column: usize) -> Option<&AtomicU64> {
        let LearnedShape { lanes, lane_rows, columns, .. } = &self.shape;
        if lane >= *lanes || column >= columns.len() {
            return None;
        }
        // Below the values of the table, which were checked to fit.
        let row = u64::from(lane) * lane_rows + seq % lane_rows;
        let word = usize::try_from(row).ok()? * columns.len() + column;
        self.map.words64(first_word(columns.len()) + word * WORD, 1).and_then(<[_]>::first)
    }

    /// Returns how many times the words of a lane were handed on to newer rows before row `seq`.
    #[inline]
    pub(crate) fn lap(&self, seq: u64) -> u64 {
        seq / self.shape.lane_rows
    }

    fn counter(&self, offset: usize) -> Option<&AtomicU64> {
        self.map.words64(size_of::<LearnedHeader>() + offset, 1).and_then(<[_]>::first)
    }

    pub(crate) fn count(&self, more: LearnedCounters) {
        let LearnedCounters { updated, stale } = more;
        let counters = [
            (offset_of!(LearnedCounterBytes, updated), updated),
            (offset_of!(LearnedCounterBytes, stale), stale),
        ];
        for (offset, more) in counters {
            if let Some(word) = self.counter(offset).filter(|_| more > 0) {
                word.fetch_add(more, Relaxed);
            }
        }
    }

    pub(crate) fn counters(&self) -> LearnedCounters {
        let load = |offset| self.counter(offset).map_or(0, |word| word.load(Relaxed));
        LearnedCounters {
            updated: load(offset_of!(LearnedCounterBytes, updated)),
            stale: load(offset_of!(LearnedCounterBytes, stale)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<LearnedColumn> {
        let column = |name: &str, dtype| LearnedColumn { name: name.to_owned(), dtype };
        vec![column("value", DType::F32), column("age_2", DType::I16)]
    }

    fn parts(image: &[u8]) -> (LearnedHeader, Vec<LearnedColumnRecord>) {
        let header = bytemuck::pod_read_unaligned(&image[..128]);
        let records = image[HEADER_BYTES..].chunks_exact(64).map(bytemuck::pod_read_unaligned);
        (header, records.collect())
    }

    #[test]
    fn a_header_that_was_changed_is_refused() {
        let (uuid, path) = ([7; 16], Path::new("table-x.dat"));
        let shape = LearnedShape::new(2, 5_000, &columns()).unwrap();
        let (header, records) = parts(&shape.image(uuid));
        assert_eq!(header.check(path, uuid, 2).unwrap(), 2);
        assert_eq!(header.shape(path, &records).unwrap(), shape);
        assert!(header.check(path, [8; 16], 2).is_err() && header.check(path, uuid, 3).is_err());
        for wrong in [
            LearnedHeader { kind: 1, ..header },
            LearnedHeader { column_count: 0, ..header },
            LearnedHeader { column_count: 17, ..header },
            LearnedHeader { lane_rows: 4_999, ..header },
            LearnedHeader { lane_rows: 0, ..header },
            LearnedHeader { lane_rows: u64::MAX, ..header },
            LearnedHeader { file_bytes: 1, ..header },
            LearnedHeader { columns_crc32: 1, ..header },
        ] {
            let sealed = LearnedHeader { crc32: header_crc(&wrong), ..wrong };
            let refused = sealed.check(path, uuid, 2).and_then(|_| sealed.shape(path, &records));
            let refused = refused.unwrap_err();
            assert!(matches!(refused, SegmentError::Corrupt { .. }), "{refused}");
        }
        for (at, byte) in [(0, b'9'), (0, 0xff), (40, 5), (40, 99), (63, 1)] {
            let mut bytes = *bytemuck::bytes_of(&records[0]).first_chunk::<64>().unwrap();
            bytes[at] = byte;
            let wrong = [bytemuck::cast(bytes), records[1]];
            let crc = crc32fast::hash(bytemuck::cast_slice(&wrong));
            let sealed = LearnedHeader { columns_crc32: crc, ..header };
            assert!(sealed.shape(path, &wrong).is_err(), "byte {at} is {byte}");
        }
    }

    #[test]
    fn columns_that_no_table_has_are_refused() {
        let problem = |name: &str, dtype| LearnedColumn { name: name.to_owned(), dtype }.problem();
        for name in ["", "9", "a/b", "a b", "ä", &"x".repeat(41)] {
            assert!(problem(name, DType::F32).is_some(), "{name}");
        }
        assert!(problem("value", DType::F64).unwrap().contains("f4"));
        assert_eq!(problem("value", DType::BF16), None);
        assert_eq!(LearnedShape::new(4_096, 1 << 30, &columns()), None);
        assert_eq!(LearnedShape::new(1, 9, &[]), None);
    }
}
