//! Reads the footer of a file and checks its schema before the decoder parses it.
//!
//! A schema is a tree in preorder: each element has the number of its children. The decoder
//! allocates for that number and recurses at each level, so a hostile file could exhaust memory or
//! the stack. The elements must form one tree of limited depth.

use std::io::{self, ErrorKind};

use parquet::file::reader::Length;

use super::{
    limits::MAX_SCHEMA_DEPTH,
    source::FileSource,
    thrift::{BINARY, BOOL, I8, I32, LIST, OPAQUE, STRUCT, StructShape, Thrift},
};

/// Bytes of the footer's length and the magic.
const TAIL_BYTES: u64 = 8;

/// Fields of `FileMetaData` up to the schema.
const FILE: &StructShape = &StructShape(&[(1, I32, OPAQUE), (2, LIST, OPAQUE)]);
const SCHEMA_ELEMENT: &StructShape = &StructShape(&[
    (1, I32, OPAQUE),
    (2, I32, OPAQUE),
    (3, I32, OPAQUE),
    (4, BINARY, OPAQUE),
    (CHILDREN, I32, OPAQUE),
    (6, I32, OPAQUE),
    (7, I32, OPAQUE),
    (8, I32, OPAQUE),
    (9, I32, OPAQUE),
    (10, STRUCT, LOGICAL_TYPE),
]);
const CHILDREN: i64 = 5;
/// Logical types. For those without parameters the decoder reads one byte, which must end the
/// struct.
const LOGICAL_TYPE: &StructShape = &StructShape(&[
    (1, STRUCT, OPAQUE),
    (2, STRUCT, OPAQUE),
    (3, STRUCT, OPAQUE),
    (4, STRUCT, OPAQUE),
    (5, STRUCT, DECIMAL),
    (6, STRUCT, OPAQUE),
    (7, STRUCT, TIME),
    (8, STRUCT, TIME),
    (10, STRUCT, INTEGER),
    (11, STRUCT, OPAQUE),
    (12, STRUCT, OPAQUE),
    (13, STRUCT, OPAQUE),
    (14, STRUCT, OPAQUE),
    (15, STRUCT, OPAQUE),
    (16, STRUCT, VARIANT),
    (17, STRUCT, GEOMETRY),
    (18, STRUCT, GEOMETRY),
    (19, STRUCT, OPAQUE),
]);
const DECIMAL: &StructShape = &StructShape(&[(1, I32, OPAQUE), (2, I32, OPAQUE)]);
const TIME: &StructShape = &StructShape(&[(1, BOOL, OPAQUE), (2, STRUCT, TIME_UNIT)]);
const TIME_UNIT: &StructShape =
    &StructShape(&[(1, STRUCT, OPAQUE), (2, STRUCT, OPAQUE), (3, STRUCT, OPAQUE)]);
const INTEGER: &StructShape = &StructShape(&[(1, I8, OPAQUE), (2, BOOL, OPAQUE)]);
const VARIANT: &StructShape = &StructShape(&[(1, I8, OPAQUE)]);
const GEOMETRY: &StructShape = &StructShape(&[(1, BINARY, OPAQUE), (2, I32, OPAQUE)]);

/// Reads the footer of a file that ends with the magic, and checks its schema.
pub fn read(source: &FileSource) -> io::Result<Vec<u8>> {
    let end = source.len().saturating_sub(TAIL_BYTES);
    let length = match source.bytes(end, 4)?[..] {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => return Err(ErrorKind::UnexpectedEof.into()),
    };
    let start = end.checked_sub(u64::from(length)).ok_or_else(|| {
        refused(format!("a footer of {length} bytes in a file of {} bytes", source.len()))
    })?;
    let length = usize::try_from(length).map_err(|_| ErrorKind::OutOfMemory)?;
    let footer = source.bytes(start, length)?;
    check(&footer)?;
    Ok(footer)
}

fn check(footer: &[u8]) -> io::Result<()> {
    let mut thrift = Thrift::new(footer, footer.len() as u64);
    let mut checked = false;
    // Only the version comes before the schema.
    let parsed = thrift.fields(FILE, &mut |thrift, field| match field.number {
        1 => thrift.skip(field),
        2 => {
            check_schema(thrift)?;
            checked = true;
            Ok(())
        }
        _ => Err(refused("it does not begin with a schema")),
    });
    if checked {
        Ok(())
    } else {
        parsed.and_then(|()| Err(refused("it does not begin with a schema")))
    }
}

fn check_schema(thrift: &mut Thrift<&[u8]>) -> io::Result<()> {
    let elements = thrift.structs()?;
    // Remaining children of each open group.
    let mut open: Vec<u64> = Vec::new();
    for element in 0..elements {
        let mut children = 0;
        thrift.fields(SCHEMA_ELEMENT, &mut |thrift, field| {
            if field.number != CHILDREN {
                return thrift.skip(field);
            }
            children = thrift.signed()?;
            Ok(())
        })?;
        let left = elements - element - 1;
        let fits = u64::try_from(children).ok().filter(|&children| children <= left);
        let children = fits.ok_or_else(|| {
            refused(format!(
                "a schema element with {children} children, where {left} elements follow"
            ))
        })?;
        if element > 0 {
            match open.last_mut() {
                Some(siblings) => *siblings -= 1,
                None => return Err(refused("a schema with elements outside of its tree")),
            }
        }
        if children > 0 {
            open.push(children);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > MAX_SCHEMA_DEPTH {
            return Err(refused(format!("a schema more than {MAX_SCHEMA_DEPTH} levels deep")));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(refused("a schema with missing children")) }
}

fn refused(message: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message.into())
}

#[cfg(test)]
mod tests {
    use super::check;

    /// Schema element named `a`, a repeated group with `children` children.
    const fn group(children: u8) -> [u8; 8] {
        [0x35, 0x04, 0x18, 0x01, b'a', 0x15, children * 2, 0x00]
    }

    fn footer(elements: &[[u8; 8]]) -> Vec<u8> {
        let count = u8::try_from(elements.len()).unwrap();
        assert!(count < 128);
        [&[0x15, 0x02, 0x19, 0xfc, count][..], &elements.concat(), &[0x16, 0, 0]].concat()
    }

    #[test]
    fn a_schema_that_is_a_tree_passes_and_every_other_list_is_refused() {
        for (children, problem) in [
            (&[0][..], None),
            (&[2, 0, 0], None),
            (&[2, 1, 1, 0, 2, 0, 0], None),
            (&[1, 1, 1, 1, 0], None),
            (&[], Some("schema")),
            (&[2, 0], Some("2 children")),
            (&[1, 2, 0], Some("2 children")),
            (&[2, 1, 0], Some("children")),
            (&[1, 0, 0], Some("tree")),
            (&[0, 0], Some("tree")),
        ] {
            let elements: Vec<_> = children.iter().map(|&children| group(children)).collect();
            let bytes =
                if elements.is_empty() { vec![0x15, 0x02, 0x00] } else { footer(&elements) };
            let found = check(&bytes).map_err(|error| error.to_string());
            match problem {
                None => assert_eq!(found, Ok(()), "{children:?}"),
                Some(part) => assert!(found.unwrap_err().contains(part), "{children:?}"),
            }
        }
        let deep =
            |levels: usize| check(&footer(&[vec![group(1); levels], vec![group(0)]].concat()));
        assert!(deep(100).is_ok());
        assert!(deep(101).unwrap_err().to_string().contains("100"));
    }

    #[test]
    fn bytes_that_the_decoder_would_read_differently_are_refused() {
        let good = footer(&[group(1), group(0)]);
        assert!(check(&good).is_ok());
        for end in 0..good.len() - 3 {
            assert!(check(&good[..end]).is_err(), "{end}");
        }
        for (id, at, byte) in [
            ("a negative number of children", 11, 0x01),
            ("children that are a text", 10, 0x18),
            ("a name that is a number", 7, 0x15),
            ("children under another number", 10, 0x05),
            ("a list of numbers", 3, 0xf5),
            ("a schema that is a text", 2, 0x18),
            ("another field before it", 2, 0x29),
        ] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            assert!(check(&bytes).is_err(), "{id}");
        }
    }
}
