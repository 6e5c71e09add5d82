//! Parquet files from a real writer, with edits of types, nulls and names, then of bytes.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray, TimestampNanosecondArray, types::Int32Type,
};
use arrow_schema::{Field, Schema};
use backcast_market::PanelOptions;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding, GzipLevel, ZstdLevel},
    file::properties::{WriterProperties, WriterVersion},
};
use rand::{RngExt, seq::IndexedRandom};

use super::{
    bytes,
    dice::Dice,
    panel_files::{Case, options},
};

type Columns = Vec<(String, ArrayRef)>;

/// 2024-01-01, in days since 1970-01-01.
const FIRST_DAY: i32 = 19_723;

/// Returns a file with up to two edits of its columns and some of its bytes.
///
/// # Panics
/// Never: the file is written in memory.
pub fn case(dice: &mut Dice) -> Case {
    let mut mutations = Vec::new();
    let mut columns = columns(dice);
    let options = if dice.random_ratio(1, 8) { PanelOptions::default() } else { options(dice) };
    if options != PanelOptions::default() {
        mutations.push("options".to_owned());
    }
    for _ in 0..dice.random_range(0..3) {
        mutations.push(edit(&mut columns, dice));
    }
    let mut bytes = write(&columns, dice);
    if dice.random_ratio(1, 16) {
        codec(&mut bytes);
        mutations.push("another codec".to_owned());
    } else if dice.random_ratio(2, 3) {
        let other = write(&self::columns(dice), dice);
        for _ in 0..dice.random_range(1..4) {
            mutations.push(if dice.random_ratio(1, 5) {
                number(&mut bytes, dice)
            } else {
                let focus = focus(&bytes, dice);
                bytes::mutate(&mut bytes, &other, focus, dice)
            });
        }
    }
    Case { bytes, options, mutations }
}

/// Returns the offset of the footer, as its length says.
fn footer(bytes: &[u8]) -> usize {
    let end = bytes.len();
    let length = bytes
        .get(end.saturating_sub(8)..end.saturating_sub(4))
        .and_then(|length| length.try_into().ok())
        .map_or(0, |length| u32::from_le_bytes(length) as usize);
    end.saturating_sub(length.saturating_add(8))
}

/// Changes one number, count or length in a header or the footer.
fn number(bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
    let from = footer(bytes);
    let (begin, end) = if dice.random() { (4, from) } else { (from, bytes.len()) };
    // Bytes that look like the beginning of a Thrift field: an i32, an i64, a text, or a long list.
    let is_field = |byte: u8| matches!(byte & 0x0f, 5 | 6 | 8) && byte >> 4 < 6 || byte == 0xfc;
    let fields: Vec<usize> =
        (begin..end.saturating_sub(9)).filter(|&at| is_field(bytes[at])).collect();
    let Some(&at) = fields.choose(dice) else {
        return "no number to change".to_owned();
    };
    let rest = &bytes[at + 1..];
    let length = rest.iter().take(10).position(|byte| byte & 0x80 == 0).map_or(0, |last| last + 1);
    let values = [
        0,
        1,
        2,
        3,
        64,
        129,
        u64::from(dice.random::<u16>()),
        (1 << 31) - 1,
        (1 << 32) - 2,
        (1 << 32) - 1,
        u64::MAX - 1,
        u64::MAX,
        dice.random(),
    ];
    let value = *values.choose(dice).unwrap_or(&0);
    let mut varint = Vec::new();
    let mut left = value;
    while left > 0x7f {
        varint.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    varint.push(left.to_le_bytes()[0]);
    bytes.splice(at + 1..at + 1 + length, varint);
    if begin == from {
        // Updates the length of the footer.
        let place = bytes.len() - 8;
        let said = place.wrapping_sub(from);
        if let (Ok(said), Some(place)) = (u32::try_from(said), bytes.get_mut(place..place + 4)) {
            place.copy_from_slice(&said.to_le_bytes());
        }
    }
    format!("the number at {at} is {value}")
}

/// Returns a range to mutate: the pages, the footer or the last bytes.
fn focus(bytes: &[u8], dice: &mut Dice) -> std::ops::Range<usize> {
    let end = bytes.len();
    let footer = footer(bytes);
    match dice.random_range(0..8) {
        0 => end.saturating_sub(8)..end,
        1 | 2 => footer..end.saturating_sub(8),
        _ => 4..footer.max(5),
    }
}

/// Sets the codec of every uncompressed column chunk in a footer to Brotli.
fn codec(bytes: &mut [u8]) {
    // Field 4 of a column's metadata is the codec, an i32 after the path; 4 is Brotli.
    let needle: &[u8] = b"\x15\x00\x16";
    let at: Vec<usize> =
        bytes.windows(3).enumerate().filter(|(_, w)| *w == needle).map(|(at, _)| at).collect();
    for at in at {
        bytes[at + 1] = 0x08;
    }
}

/// Returns the columns of a panel, each in one of its allowed types.
fn columns(dice: &mut Dice) -> Columns {
    let (tickers, days) = (dice.random_range(1..4), dice.random_range(1..40));
    let keys: Vec<(i32, i32)> =
        (0..days).flat_map(|day| (0..tickers).map(move |ticker| (day, ticker))).collect();
    let texts = |text: fn((i32, i32)) -> String, dice: &mut Dice| -> ArrayRef {
        let texts = keys.iter().map(|key| Some(text(*key)));
        match dice.random_range(0..4) {
            0 => Arc::new(texts.collect::<StringArray>()),
            1 => Arc::new(texts.collect::<LargeStringArray>()),
            2 => Arc::new(texts.collect::<StringViewArray>()),
            _ => {
                let texts: Vec<_> = texts.collect();
                let texts = texts.iter().map(Option::as_deref);
                Arc::new(texts.collect::<DictionaryArray<Int32Type>>())
            }
        }
    };
    let day_of = |key: &(i32, i32)| FIRST_DAY + key.0;
    let nanos = |key: &(i32, i32)| i64::from(day_of(key)) * 86_400_000_000_000;
    let dates: ArrayRef = match dice.random_range(0..4) {
        0 => Arc::new(keys.iter().map(|key| Some(day_of(key))).collect::<Date32Array>()),
        1 => {
            Arc::new(keys.iter().map(|key| Some(nanos(key))).collect::<TimestampNanosecondArray>())
        }
        2 => {
            let micros = keys.iter().map(|key| Some(nanos(key) / 1000));
            let micros = micros.collect::<TimestampMicrosecondArray>();
            Arc::new(micros.with_timezone(*["UTC", "+02:00"].choose(dice).unwrap_or(&"UTC")))
        }
        _ => texts(|(day, _)| format!("2024-{:02}-{:02}", 1 + day / 28, 1 + day % 28), dice),
    };
    let ids: ArrayRef = texts(|(_, ticker)| format!("T{ticker}"), dice);
    let mut columns = vec![("date".to_owned(), dates), ("tic".to_owned(), ids)];
    for (name, low, high) in [
        ("open", 10, 20),
        ("high", 25, 30),
        ("low", 1, 5),
        ("close", 10, 20),
        ("volume", 0, 1000),
        ("rsi", -5, 5),
    ] {
        let numbers: Vec<i32> = keys.iter().map(|_| dice.random_range(low..high)).collect();
        let column: ArrayRef = match dice.random_range(0..4) {
            0 => Arc::new(Int32Array::from(numbers)),
            1 => Arc::new(numbers.iter().map(|&n| Some(i64::from(n))).collect::<Int64Array>()),
            2 => Arc::new(
                numbers
                    .iter()
                    .map(|&n| i16::try_from(n).ok().map(f32::from))
                    .collect::<Float32Array>(),
            ),
            _ => Arc::new(
                numbers.iter().map(|&n| Some(f64::from(n) + 0.25)).collect::<Float64Array>(),
            ),
        };
        columns.push((name.to_owned(), column));
    }
    columns
}

fn edit(columns: &mut Columns, dice: &mut Dice) -> String {
    let at = dice.random_range(0..columns.len());
    let rows = columns[at].1.len();
    let bad = dice.random_range(0..rows.max(1));
    let floats = |number: Option<f64>| {
        let numbers = (0..rows).map(|row| if row == bad { number } else { Some(15.0) });
        Arc::new(numbers.collect::<Float64Array>()) as ArrayRef
    };
    match dice.random_range(0..13) {
        12 => {
            // An index column of pandas is ignored, whatever it holds.
            let name = *["Unnamed: 0", "x"].choose(dice).unwrap_or(&"x");
            let levels = dice.random_range(1..20);
            columns.insert(at, (name.to_owned(), nested(&columns[at].1, levels)));
            format!("a list {levels} levels deep before column {at}")
        }
        0 => {
            let name = ["", "date", "close", "Close", "day", "__index_level_0__", "x"];
            (*name.choose(dice).unwrap_or(&"x")).clone_into(&mut columns[at].0);
            format!("column {at} called {:?}", columns[at].0)
        }
        1 => {
            let numbers = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, 1e-300];
            columns[at].1 = floats(Some(*numbers.choose(dice).unwrap_or(&0.0)));
            format!("an odd number in column {at}")
        }
        2 => {
            columns[at].1 = floats(None);
            format!("a null among floats in column {at}")
        }
        3 => {
            columns[at].1 = Arc::new(BooleanArray::from(vec![true; rows]));
            format!("booleans in column {at}")
        }
        4 => {
            let other = dice.random_range(0..columns.len());
            columns[at].1 = Arc::clone(&columns[other].1);
            format!("column {at} as column {other}")
        }
        5 => {
            let odd = ["", "<CASH>", "2024-13-01", "T9", "2024-01-01T00:00"];
            let odd = *odd.choose(dice).unwrap_or(&"");
            let texts = (0..rows).map(|row| (row != bad || dice.random()).then_some(odd));
            columns[at].1 = Arc::new(texts.collect::<StringArray>());
            format!("{odd:?} in column {at}")
        }
        6 => {
            // A column of days with one that is not a day.
            let days = (0..rows).map(|row| Some(if row == bad { 20_249_999 } else { 20_240_101 }));
            columns[0].1 = Arc::new(days.collect::<Int32Array>());
            "integers for days".to_owned()
        }
        7 => {
            columns.remove(at);
            format!("column {at} taken out")
        }
        8 => {
            let extra = columns[at].clone();
            columns.push(extra);
            format!("column {at} twice")
        }
        9 => {
            for (_, column) in columns.iter_mut() {
                *column = column.slice(0, 0);
            }
            "no rows".to_owned()
        }
        10 => {
            let other = dice.random_range(0..columns.len());
            columns.swap(at, other);
            format!("columns {at} and {other} swapped")
        }
        _ => {
            // The first ticker's name in every row, so that days repeat unless there is one ticker.
            columns[1].1 = Arc::new(StringArray::from(vec!["T1"; rows]));
            "one ticker".to_owned()
        }
    }
}

/// Nested lists of one element each.
fn nested(column: &ArrayRef, levels: usize) -> ArrayRef {
    (0..levels).fold(Arc::clone(column), |inner, _| {
        let field = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
        Arc::new(FixedSizeListArray::new(field, 1, inner, None))
    })
}

fn write(columns: &Columns, dice: &mut Dice) -> Vec<u8> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(name, column.data_type().clone(), true))
        .collect();
    let arrays = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema, arrays).expect("columns of one length");
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::GZIP(GzipLevel::default()),
    ];
    let mut properties = WriterProperties::builder()
        .set_compression(*codecs.choose(dice).unwrap_or(&Compression::UNCOMPRESSED))
        .set_dictionary_enabled(dice.random())
        .set_max_row_group_row_count(Some(dice.random_range(1..80)))
        .set_data_page_row_count_limit(dice.random_range(1..50))
        .set_write_batch_size(10);
    if dice.random() {
        properties = properties.set_writer_version(WriterVersion::PARQUET_2_0);
    }
    if dice.random_ratio(1, 4) {
        // Names may occur twice, and the encoding is chosen by name.
        let text = |name: &str| {
            columns.iter().all(|(known, column)| known != name || column.data_type().is_string())
        };
        for name in ["date", "tic"].into_iter().filter(|name| text(name)) {
            properties = properties
                .set_column_dictionary_enabled(name.into(), false)
                .set_column_encoding(name.into(), Encoding::DELTA_BYTE_ARRAY);
        }
    }
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build()))
        .expect("a schema");
    writer.write(&batch).expect("in memory");
    writer.into_inner().expect("in memory")
}
