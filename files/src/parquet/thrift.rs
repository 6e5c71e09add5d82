//! Parser of Thrift's compact protocol, as far as Parquet uses it: structs of numbered, typed
//! fields.
//!
//! The decoder parses the same bytes again by the types that it expects, not by the written ones.
//! Fields of unexpected types and fields out of order are errors, so that the decoder reads the
//! values that were checked.

use std::io::{self, ErrorKind, Read};

use super::limits::MAX_THRIFT_DEPTH;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
pub(super) const I8: u8 = 3;
const I16: u8 = 4;
pub(super) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
pub(super) const STRUCT: u8 = 12;
/// Type of a boolean field in a [`StructShape`]. Thrift encodes the value in the type, so a field
/// of type `TRUE` or `FALSE` matches.
pub(super) const BOOL: u8 = TRUE;

/// Number, type and shape of the fields that the decoder reads. It skips all others.
pub(super) struct StructShape(pub(super) &'static [(i64, u8, &'static StructShape)]);

/// A field of a struct, positioned before its value.
#[derive(Clone, Copy)]
pub(super) struct ThriftField {
    pub(super) number: i64,
    kind: u8,
    shape: &'static StructShape,
    depth: u32,
}

/// Empty shape, for scalar fields and for structs of which no field is read.
pub(super) const OPAQUE: &StructShape = &StructShape(&[]);

/// A parser of at most `limit` bytes.
pub(super) struct Thrift<R> {
    input: io::Take<R>,
    limit: u64,
}

impl<R: Read> Thrift<R> {
    pub(super) fn new(input: R, limit: u64) -> Self {
        Self { input: input.take(limit), limit }
    }

    /// Returns the number of bytes read.
    pub(super) fn position(&self) -> u64 {
        self.limit - self.input.limit()
    }

    /// Parses a struct. `on_field` must read or skip the value of each field.
    pub(super) fn fields(
        &mut self,
        shape: &'static StructShape,
        on_field: &mut dyn FnMut(&mut Self, ThriftField) -> io::Result<()>,
    ) -> io::Result<()> {
        self.fields_at(shape, 0, on_field)
    }

    /// Parses a struct within a struct.
    pub(super) fn inner_fields(
        &mut self,
        field: ThriftField,
        on_field: &mut dyn FnMut(&mut Self, ThriftField) -> io::Result<()>,
    ) -> io::Result<()> {
        self.fields_at(field.shape, field.depth + 1, on_field)
    }

    fn fields_at(
        &mut self,
        shape: &'static StructShape,
        depth: u32,
        on_field: &mut dyn FnMut(&mut Self, ThriftField) -> io::Result<()>,
    ) -> io::Result<()> {
        if depth > MAX_THRIFT_DEPTH {
            return Err(malformed("structures nested too deeply"));
        }
        let mut last = 0;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            let number = match byte >> 4 {
                0 => self.signed()?,
                step => last + i64::from(step),
            };
            if number <= last || number > i64::from(i16::MAX) {
                return Err(malformed("fields out of order"));
            }
            last = number;
            let kind = byte & 0x0f;
            let known = shape.0.iter().find(|(known, ..)| *known == number);
            if known.is_some_and(|&(_, asked, _)| kind != asked && (asked, kind) != (BOOL, FALSE)) {
                return Err(malformed("a field of another type"));
            }
            let shape = known.map_or(OPAQUE, |(.., shape)| shape);
            on_field(self, ThriftField { number, kind, shape, depth })?;
        }
    }

    /// Reads the header of a list of structs, and returns their number.
    pub(super) fn structs(&mut self) -> io::Result<u64> {
        match self.list()? {
            (STRUCT, count) => Ok(count),
            _ => Err(malformed("a list of another type")),
        }
    }

    pub(super) fn skip(&mut self, field: ThriftField) -> io::Result<()> {
        self.skip_kind(field.kind, field.shape, field.depth)
    }

    fn skip_kind(&mut self, kind: u8, shape: &'static StructShape, depth: u32) -> io::Result<()> {
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
            STRUCT => self.fields_at(shape, depth + 1, &mut Self::skip),
            _ => Err(malformed("a field of unknown type")),
        }
    }

    fn skip_list(&mut self, depth: u32) -> io::Result<()> {
        if depth > MAX_THRIFT_DEPTH {
            return Err(malformed("lists nested too deeply"));
        }
        let (kind, count) = self.list()?;
        if count > 0 && matches!(kind, TRUE | FALSE) {
            return Err(malformed("a list of booleans"));
        }
        for _ in 0..count {
            self.skip_kind(kind, OPAQUE, depth + 1)?;
        }
        Ok(())
    }

    fn list(&mut self) -> io::Result<(u8, u64)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.unsigned()?,
            count => u64::from(count),
        };
        Ok((byte & 0x0f, count))
    }

    fn skip_bytes(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(count), &mut io::sink())?;
        if skipped == count { Ok(()) } else { Err(malformed("a string longer than the input")) }
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

    /// Reads an `i32` in zigzag encoding: the lowest bit is the sign.
    pub(super) fn signed(&mut self) -> io::Result<i64> {
        let number = self.unsigned()?;
        let number = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
        if i32::try_from(number).is_err() {
            return Err(malformed("a number of more than 32 bits"));
        }
        Ok(number)
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("malformed Thrift: {what}"))
}
