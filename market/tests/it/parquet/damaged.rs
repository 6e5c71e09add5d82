//! Files that are cut, overwritten or malicious: the error names the damaged part, and loading
//! allocates no more memory than a file of that size can need.

use std::{fs, sync::Arc};

use arrow_array::{ArrayRef, Float64Array, Int32Array, StringArray};
use backcast_market::{FilePart, PanelError, PanelLoadError, PanelOptions};
use parquet::{
    basic::{Compression, Encoding, ZstdLevel},
    file::properties::WriterProperties,
    schema::types::ColumnPath,
};

use super::{Columns, Shelf, columns};

fn damage(shelf: &Shelf, bytes: &[u8]) -> PanelLoadError {
    fs::write(shelf.path(), bytes).unwrap();
    match shelf.load(&PanelOptions::default()) {
        Err(PanelError::Load { problem, .. }) => *problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_damaged_part_is_named() {
    let shelf = Shelf::new();
    shelf.write(columns(), WriterProperties::default());
    let good = fs::read(shelf.path()).unwrap();
    let footer_bytes = u32::from_le_bytes(*good[..good.len() - 4].last_chunk().unwrap()) as usize;
    let footer = good.len() - 8 - footer_bytes;

    let cut = damage(&shelf, &good[..good.len() - 1]);
    assert!(matches!(cut, PanelLoadError::Damaged { part: FilePart::End, .. }), "{cut}");

    let mut bytes = good.clone();
    bytes[footer..footer + footer_bytes].fill(0xff);
    let lost = damage(&shelf, &bytes);
    assert!(matches!(lost, PanelLoadError::Damaged { part: FilePart::Footer, .. }), "{lost}");

    let mut bytes = good.clone();
    let length = good.len() - 8;
    bytes[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let long = damage(&shelf, &bytes);
    assert!(matches!(long, PanelLoadError::Damaged { part: FilePart::Footer, .. }), "{long}");

    let mut bytes = good.clone();
    bytes[4..footer].fill(0x15);
    let pages = damage(&shelf, &bytes);
    let PanelLoadError::Damaged { part: FilePart::Column { column, row_group }, .. } = &pages
    else {
        panic!("{pages}");
    };
    assert_eq!((column.as_str(), *row_group), ("date", 0));
    assert!(pages.to_string().contains("\"date\""), "{pages}");
    for damaged in [lost, long, pages] {
        let message = damaged.to_string();
        assert!(!message.contains("error: ") && !message.contains("External"), "{message}");
    }
}

/// A dictionary of five tickers, and a row with an index beyond it.
#[test]
fn an_index_beyond_the_dictionary_is_an_error_in_its_column() {
    let shelf = Shelf::new();
    let names = ["AA", "BB", "CC", "DD", "EE"];
    let days = Arc::new(Int32Array::from(vec![20_240_102; 5]));
    let ones = Arc::new(Float64Array::from(vec![1.0; 5]));
    let mut columns: Columns =
        vec![("date", days), ("tic", Arc::new(StringArray::from(names.to_vec())))];
    columns.extend(
        ["open", "high", "low", "close", "volume"].map(|name| (name, ones.clone() as ArrayRef)),
    );
    shelf.write(columns, WriterProperties::default());
    let mut bytes = fs::read(shelf.path()).unwrap();
    // Three bits for each index, lowest first, in one group of eight: 0, 1, 2, 3, 4 and padding.
    let indices = [3, 0b11, 0b1000_1000, 0b0100_0110, 0];
    let at = bytes.windows(5).position(|found| found == indices).expect("bit-packed indices");
    bytes[at + 2] |= 0b111;
    let refused = damage(&shelf, &bytes);
    let PanelLoadError::Damaged { part: FilePart::Column { column, row_group }, message } =
        &refused
    else {
        panic!("{refused}");
    };
    assert_eq!((column.as_str(), *row_group), ("tic", 0));
    assert!(message.contains("beyond bounds of dictionary"), "{refused}");
}

/// The decoder allocates for the count inside of a delta-encoded page, whatever the page's header
/// says.
#[test]
fn a_delta_encoded_page_of_more_values_than_rows_is_refused_before_it_is_decoded() {
    let shelf = Shelf::new();
    let deltas = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding(ColumnPath::from("tic"), Encoding::DELTA_LENGTH_BYTE_ARRAY);
    shelf.write(columns(), deltas.build());
    let mut bytes = fs::read(shelf.path()).unwrap();
    // Blocks of 128 values in four miniblocks, and three values in all.
    let at = bytes.windows(4).position(|found| found == [0x80, 0x01, 4, 3]).expect("deltas");
    bytes[at + 3..at + 8].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
    let refused = damage(&shelf, &bytes);
    let PanelLoadError::Damaged { part: FilePart::Column { column, .. }, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(column.as_str(), "tic");
}

/// A few bytes that unpack to gigabytes: run-length encoding and compression both can.
#[test]
fn a_file_that_unpacks_to_far_more_than_it_can_hold_is_refused_first() {
    const ROWS: usize = 8_000_000;
    let constant = Arc::new(Float64Array::from(vec![1.0; ROWS]));
    let columns: Columns = vec![
        ("date", Arc::new(Int32Array::from(vec![20_240_102; ROWS]))),
        ("tic", Arc::new(StringArray::from(vec!["A"; ROWS]))),
        ("open", constant.clone()),
        ("high", constant.clone()),
        ("low", constant.clone()),
        ("close", constant.clone()),
        ("volume", constant),
    ];
    let shelf = Shelf::new();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    shelf.write(columns, WriterProperties::builder().set_compression(zstd).build());
    let bytes = fs::read(shelf.path()).unwrap();
    assert!(bytes.len() < 260_000, "{} bytes", bytes.len());
    let refused = damage(&shelf, &bytes);
    assert!(matches!(refused, PanelLoadError::Bomb { rows: 8_000_000, .. }), "{refused}");
}

/// Returns a file whose schema has `elements` elements of `children` children each.
fn with_schema(elements: u32, children: u32) -> Vec<u8> {
    let varint = |mut number: u32| {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        bytes.push(number.to_le_bytes()[0]);
        bytes
    };
    let children = varint(children * 2);
    let element = [&[0x35, 0x00, 0x18, 0x01, b'a', 0x15][..], &children, &[0x00]].concat();
    let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
    footer.extend(varint(elements));
    footer.extend(element.repeat(elements as usize));
    // No rows in no row groups.
    footer.extend([0x16, 0x00, 0x19, 0x0c, 0x00]);
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [&b"PAR1"[..], &footer, &length, b"PAR1"].concat()
}

/// A deep schema would overflow the stack, and a wide one would exhaust the memory.
#[test]
fn a_schema_that_is_too_deep_or_too_wide_is_refused_before_it_is_followed() {
    let shelf = Shelf::new();
    for (elements, children, part) in [(1_000_000, 1, "100"), (1, 1 << 30, "1073741824")] {
        let refused = damage(&shelf, &with_schema(elements, children));
        assert!(
            matches!(refused, PanelLoadError::Damaged { part: FilePart::Footer, .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains(part), "{refused}");
    }
}
