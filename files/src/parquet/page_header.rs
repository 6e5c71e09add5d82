//! Reads the sizes in a page's header, before the decoder allocates for them.
//!
//! A header is a Thrift struct (`PageHeader` in the Parquet format). Four of its values are read
//! and the rest is skipped.

use std::io::{self, Read};

use super::thrift::{BOOL, I32, OPAQUE, STRUCT, StructShape, Thrift};

/// Fields of `PageHeader` and its structs, without statistics, which are not read.
const SHAPE: &StructShape = &StructShape(&[
    (1, I32, OPAQUE),
    (2, I32, OPAQUE),
    (3, I32, OPAQUE),
    (4, I32, OPAQUE),
    (5, STRUCT, DATA_PAGE),
    (6, STRUCT, OPAQUE),
    (7, STRUCT, DICTIONARY_PAGE),
    (8, STRUCT, DATA_PAGE_V2),
]);
const DATA_PAGE: &StructShape =
    &StructShape(&[(1, I32, OPAQUE), (2, I32, OPAQUE), (3, I32, OPAQUE), (4, I32, OPAQUE)]);
const DICTIONARY_PAGE: &StructShape =
    &StructShape(&[(1, I32, OPAQUE), (2, I32, OPAQUE), (3, BOOL, OPAQUE)]);
const DATA_PAGE_V2: &StructShape = &StructShape(&[
    (1, I32, OPAQUE),
    (2, I32, OPAQUE),
    (3, I32, OPAQUE),
    (4, I32, OPAQUE),
    (5, I32, OPAQUE),
    (6, I32, OPAQUE),
    (7, BOOL, OPAQUE),
]);

/// Unchecked values of a page's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: i64,
    pub(super) uncompressed_bytes: i64,
    pub(super) compressed_bytes: i64,
    /// Number of values of the data or dictionary page.
    pub(super) values: i64,
    /// Size of the header in bytes.
    pub(super) header_bytes: u64,
}

impl PageHeader {
    /// Type of index pages, which the decoder skips.
    pub(super) const INDEX: i64 = 1;
    pub(super) const DICTIONARY: i64 = 2;

    /// Reads a header of at most `limit` bytes.
    pub(super) fn read(input: impl Read, limit: u64) -> io::Result<Self> {
        let mut thrift = Thrift::new(input, limit);
        let mut header = Self::default();
        thrift.fields(SHAPE, &mut |thrift, field| {
            match field.number {
                1 => header.kind = thrift.signed()?,
                2 => header.uncompressed_bytes = thrift.signed()?,
                3 => header.compressed_bytes = thrift.signed()?,
                5 | 7 | 8 => thrift.inner_fields(field, &mut |thrift, field| {
                    if field.number == 1 {
                        header.values = thrift.signed()?;
                        return Ok(());
                    }
                    thrift.skip(field)
                })?,
                _ => thrift.skip(field)?,
            }
            Ok(())
        })?;
        header.header_bytes = thrift.position();
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::PageHeader;

    /// Header of a data page: 300 bytes, 100 compressed, 40 values in encoding 0, with statistics.
    const HEADER: &[u8] = &[
        0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0xc8, 0x01, 0x2c, 0x15, 0x50, 0x15, 0x00, 0x3c, 0x18,
        2, b'a', b'b', 0x00, 0x00, 0x00,
    ];

    #[test]
    fn sizes_and_counts_are_read_and_the_rest_is_skipped() {
        let header = PageHeader::read(HEADER, 1000).unwrap();
        let expected = PageHeader {
            kind: 0,
            uncompressed_bytes: 300,
            compressed_bytes: 100,
            values: 40,
            header_bytes: HEADER.len() as u64,
        };
        assert_eq!(header, expected);
    }

    #[test]
    fn a_cut_endless_or_malformed_header_is_an_error() {
        for end in 0..HEADER.len() {
            assert!(PageHeader::read(&HEADER[..end], 1000).is_err(), "{end}");
            assert!(PageHeader::read(HEADER, end as u64).is_err(), "{end}");
        }
        for (id, bytes) in [
            ("structures without end", vec![0x1c; 100]),
            ("lists without end", vec![0x19; 100]),
            ("a varint without end", [vec![0x15], vec![0xff; 100]].concat()),
            ("a text larger than anything", [vec![0x98], vec![0xff; 9], vec![1]].concat()),
            ("a list larger than anything", [vec![0x99, 0xf5], vec![0xff; 9], vec![1]].concat()),
            ("a map", vec![0x9b, 0x00]),
            ("a size that is a text", vec![0x18, 0x00, 0x00]),
            ("a page's header that is a text", vec![0x58, 0x00, 0x00]),
            ("a count that is a text", vec![0x5c, 0x18, 0x00, 0x00, 0x00]),
            ("a count of 64 bits", vec![0x5c, 0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0]),
            ("a size that comes twice", vec![0x25, 0x02, 0x05, 0x04, 0x02, 0x00]),
            ("a field whose number wraps", vec![0x15, 0x00, 0x05, 0x84, 0x80, 0x08, 0x02, 0x00]),
            ("a list of booleans", vec![0x99, 0x11, 0x01, 0x00]),
        ] {
            assert!(PageHeader::read(&bytes[..], 1 << 40).is_err(), "{id}");
        }
    }
}
