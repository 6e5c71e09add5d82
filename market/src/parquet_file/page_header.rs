//! The sizes that a page's header claims, read before the decoder allocates them.
//!
//! A header is a Thrift struct in the compact protocol (`PageHeader` in the Parquet format): fields
//! of a type and a number, of which six are looked at here and all others skipped.

use std::io::{self, ErrorKind, Read};

/// What a page claims of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: i64,
    pub(super) uncompressed_bytes: i64,
    pub(super) compressed_bytes: i64,
    /// Of the data or dictionary page.
    pub(super) values: i64,
    /// Bytes of the header itself.
    pub(super) header_bytes: u64,
}

impl PageHeader {
    /// Page types with values that nobody needs.
    pub(super) const INDEX: i64 = 1;
    pub(super) const DICTIONARY: i64 = 2;

    /// Read a header of at most `limit` bytes.
    pub(super) fn read(input: impl Read, limit: u64) -> io::Result<Self> {
        let mut thrift = Thrift { input: input.take(limit), limit };
        let mut header = Self::default();
        thrift.fields(0, &mut |thrift, field, kind, depth| {
            let target = match field {
                1 => &mut header.kind,
                2 => &mut header.uncompressed_bytes,
                3 => &mut header.compressed_bytes,
                5 | 7 | 8 if kind == STRUCT => {
                    return thrift.fields(depth + 1, &mut |thrift, field, kind, depth| {
                        if field == 1 && kind == I32 {
                            header.values = thrift.signed()?;
                            return Ok(());
                        }
                        thrift.skip(kind, depth)
                    });
                }
                _ => return thrift.skip(kind, depth),
            };
            if kind != I32 {
                return Err(malformed("a size that is no 32-bit number"));
            }
            *target = thrift.signed()?;
            Ok(())
        })?;
        header.header_bytes = thrift.limit - thrift.input.limit();
        Ok(header)
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;
/// Real headers nest three deep.
const DEEPEST: u32 = 16;

/// What to do with a field: its number, its type, and how deep it lies.
type OnField<'a, R> = &'a mut dyn FnMut(&mut Thrift<R>, i64, u8, u32) -> io::Result<()>;

struct Thrift<R> {
    input: io::Take<R>,
    limit: u64,
}

impl<R: Read> Thrift<R> {
    fn fields(&mut self, depth: u32, on_field: OnField<'_, R>) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(malformed("structures nested too deeply"));
        }
        let mut field = 0_i64;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            field = match byte >> 4 {
                0 => self.signed()?,
                step => field.wrapping_add(i64::from(step)),
            };
            on_field(self, field, byte & 0x0f, depth)?;
        }
    }

    fn skip(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        match kind {
            TRUE | FALSE => Ok(()),
            I8 => self.byte().map(drop),
            I16 | I32 | I64 => self.unsigned().map(drop),
            DOUBLE => self.skip_bytes(8),
            BINARY => {
                let length = self.unsigned()?;
                self.skip_bytes(length)
            }
            LIST | SET => self.skip_list(depth),
            STRUCT => {
                self.fields(depth + 1, &mut |thrift, _, kind, depth| thrift.skip(kind, depth))
            }
            _ => Err(malformed("a type that no header has")),
        }
    }

    fn skip_list(&mut self, depth: u32) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(malformed("lists nested too deeply"));
        }
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.unsigned()?,
            count => u64::from(count),
        };
        for _ in 0..count {
            match byte & 0x0f {
                // In a list each boolean is a byte of its own.
                TRUE | FALSE => self.byte().map(drop)?,
                kind => self.skip(kind, depth + 1)?,
            }
        }
        Ok(())
    }

    fn skip_bytes(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(count), &mut io::sink())?;
        if skipped == count { Ok(()) } else { Err(malformed("a text longer than its column")) }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn unsigned(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(malformed("a number of more than ten bytes"))
    }

    /// Zigzag: the lowest bit is the sign.
    fn signed(&mut self) -> io::Result<i64> {
        let number = self.unsigned()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("its page header has {what}"))
}

#[cfg(test)]
mod tests {
    use super::PageHeader;

    /// `type` 0, 300 bytes, 100 compressed, a data page of 40 values in encoding 0 with statistics.
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
    fn a_header_that_is_cut_or_endless_is_an_error() {
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
            ("a map", vec![0x1b, 0x00]),
            ("a size that is a text", vec![0x18, 0x00, 0x00]),
        ] {
            assert!(PageHeader::read(&bytes[..], 1 << 40).is_err(), "{id}");
        }
    }
}
