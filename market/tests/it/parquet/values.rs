//! Nulls, NaNs, order, duplicates, renames: the same rules as in a CSV, with rows instead of lines.

use std::{fs, sync::Arc};

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use backcast_market::{
    NanPolicy, NumberProblem, PanelData, PanelError, PanelLoadError, PanelOptions, RowPlace,
};
use parquet::{
    basic::{Compression, GzipLevel, ZstdLevel},
    file::properties::{WriterProperties, WriterVersion},
};

use super::{Columns, Shelf, columns, load, load_with, refusal, with};

fn floats(numbers: Vec<Option<f64>>) -> ArrayRef {
    Arc::new(Float64Array::from(numbers))
}

fn texts(texts: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(StringArray::from(texts))
}

#[test]
fn every_bad_cell_is_refused_with_row_column_text_and_remedy() {
    let days = |days| with("date", texts(days));
    let cases: Vec<(Columns, &str, &[&str])> = vec![
        (
            with("rsi", floats(vec![Some(1.0), None, Some(2.0)])),
            "Missing",
            &["row 1 (from 0)", "\"rsi\"", "\"null\"", "nan = \"mask\""],
        ),
        (
            with("close", floats(vec![Some(10.5), Some(f64::NAN), Some(2.0)])),
            "Nan",
            &["row 1", "\"close\"", "\"NaN\"", "\"mask\""],
        ),
        (
            with("rsi", floats(vec![Some(1.0), Some(0.0), Some(f64::NEG_INFINITY)])),
            "Infinite",
            &["row 2", "\"rsi\"", "\"-inf\""],
        ),
        (with("rsi", floats(vec![Some(1e39), None, None])), "TooLarge", &["row 0", "\"rsi\""]),
        (
            with("open", floats(vec![Some(10.0), Some(0.0), Some(20.0)])),
            "PriceNotPositive",
            &["row 1", "\"open\"", "0", "\"A\" a macro ticker"],
        ),
        (
            with("high", floats(vec![Some(10.0), Some(12.0), Some(18.0)])),
            "HighBelowLow",
            &["row 2", "\"high\"", "18", "\"B\"", "19"],
        ),
        (days(vec![Some("2024-01-02"), None, None]), "BadDate", &["row 1", "\"date\"", "\"null\""]),
        (
            days(vec![Some("02.01.2024"), None, None]),
            "BadDate",
            &["row 0", "\"02.01.2024\"", "YYYY-MM-DD"],
        ),
        (
            with("date", Arc::new(Int32Array::from(vec![20_240_102, 19_724, 20_240_103]))),
            "BadDate",
            &["row 1", "\"date\"", "\"19724\""],
        ),
        (
            with("date", Arc::new(Int64Array::from(vec![1_704_153_600_000_000_000; 3]))),
            "BadDate",
            &["row 0", "\"1704153600000000000\""],
        ),
        (with("tic", texts(vec![Some("A"), None, Some("B")])), "BadTicker", &["row 1", "\"tic\""]),
        (
            with("tic", texts(vec![Some("A"), Some("<CASH>"), None])),
            "BadTicker",
            &["row 1", "<CASH>"],
        ),
        (
            days(vec![Some("2024-01-03"), Some("2024-01-03"), Some("2024-01-03")]),
            "DuplicateRow",
            &["row 0 (from 0)", "row 1 (from 0)", "\"date\"", "\"tic\"", "\"A\"", "2024-01-03"],
        ),
    ];
    for (columns, kind, parts) in cases {
        let (problem, message) = refusal(columns, &PanelOptions::default());
        assert!(format!("{problem:?}").contains(kind), "{problem:?} is no {kind}");
        for part in parts.iter().chain(&["prices.parquet"]) {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

#[test]
fn a_row_without_a_number_is_absent_where_that_is_asked_for() {
    let mask = PanelOptions::default().nan(NanPolicy::Mask);
    let numbers = with("rsi", floats(vec![Some(1.0), None, Some(f64::NAN)]));
    let panel = load_with(numbers, &mask).unwrap();
    assert_eq!(
        (panel.tickers(), panel.dates()),
        (&["A".to_owned()][..], &["2024-01-02", "2024-01-03"].map(str::to_owned)[..]),
        "a day on which all rows are masked stays in the calendar"
    );

    // A row that counts as absent may have the ticker and day of another row.
    let mut columns = with("rsi", floats(vec![None, Some(1.0), Some(2.0)]));
    columns[0].1 = texts(vec![Some("2024-01-03"); 3]);
    let panel = load_with(columns, &mask).unwrap();
    assert_eq!((panel.value(0, 0, 0), panel.value(1, 0, 5)), (Some(10.5), Some(2.0)));

    let all = with("rsi", floats(vec![None, None, None]));
    let (problem, message) = refusal(all, &mask);
    assert!(matches!(problem, PanelLoadError::NoRows { masked: 3 }), "{message}");
    let infinite = with("rsi", floats(vec![None, Some(f64::INFINITY), None]));
    let (problem, _) = refusal(infinite, &mask);
    let PanelLoadError::BadNumber { place, problem, .. } = problem else { panic!("{problem}") };
    assert_eq!((place, problem), (RowPlace::Row(1), NumberProblem::Infinite));
    let macros = mask.macro_tickers(["B"]);
    let (problem, _) = refusal(with("rsi", floats(vec![Some(1.0), Some(1.0), None])), &macros);
    assert!(matches!(problem, PanelLoadError::UnknownMacroTicker { .. }), "{problem}");
}

#[test]
fn renames_come_first_and_must_fit() {
    let theirs = ["Date", "Symbol", "Open", "High", "Low", "Close", "Volume", "rsi"];
    let renamed = |names: [&'static str; 8]| -> Columns {
        columns().into_iter().zip(names).map(|((_, column), name)| (name, column)).collect()
    };
    let pairs = || {
        let ours = ["date", "tic", "open", "high", "low", "close", "volume"];
        theirs.into_iter().zip(ours)
    };
    let options = PanelOptions::default().columns(pairs());
    let panel = load_with(renamed(theirs), &options).unwrap();
    assert_eq!(panel.fingerprint(), load(columns()).unwrap().fingerprint());

    // Index columns are ignored, unless they are given a name.
    let mut indexed = with("day", texts(vec![None; 3]));
    indexed[0].0 = "__index_level_0__";
    let (problem, message) = refusal(indexed.clone(), &PanelOptions::default());
    assert!(matches!(problem, PanelLoadError::MissingColumns { .. }), "{message}");
    assert!(message.contains("__index_level_0__"), "{message}");
    let options = PanelOptions::default().columns([("__index_level_0__", "date")]);
    assert!(load_with(indexed, &options).is_ok());

    let bad = |names, pairs: &[(&str, &str)]| {
        refusal(renamed(names), &PanelOptions::default().columns(pairs.iter().copied())).1
    };
    for (message, parts) in [
        (
            bad(theirs, &[]),
            &["\"date\", \"tic\", \"open\"", "\"Symbol\"", "\"Close\" for \"close\""][..],
        ),
        (bad(theirs, &[("date", "Date")]), &["column \"date\"", "\"Volume\"", "\"Date\""]),
        (
            bad(
                ["date", "tic", "open", "high", "low", "close", "volume", "adj_close"],
                &[("adj_close", "close")],
            ),
            &["6", "8", "\"close\"", "\"adj_close\""],
        ),
        (
            bad(["date", "tic", "open", "high", "low", "close", "volume", "x"], &[("close", "")]),
            &["\"close\"", "\"volume\""],
        ),
    ] {
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

#[test]
fn a_parquet_file_and_the_csv_of_its_numbers_are_one_panel() {
    let csv = "rsi,tic,date,open,high,low,close,volume\n\
        -3,B,2024-01-03,20,22,19,21,0\n\
        61,A,2024-01-03,10.5,12,10,11.5,1200\n\
        50,A,2024-01-02,10,11,9.5,10.5,1000\n";
    let options = PanelOptions::default().macro_tickers(["B"]);
    let from_csv = PanelData::from_reader(csv.as_bytes(), &options).unwrap().into_heap();
    let from_parquet = load_with(columns(), &options).unwrap();
    assert_eq!(from_csv.fingerprint(), from_parquet.fingerprint());
    assert_eq!(from_csv.values(), from_parquet.values());
    assert_eq!(from_csv.mask(), [true, true, false, true]);
}

/// Many row groups, pages and chunks, in every codec, both page versions, with and without
/// dictionaries: tickers interleaved, days backwards.
#[test]
fn rows_come_through_every_way_of_writing_them() {
    const ROWS: u16 = 10_000;
    let of = |number: fn(f64) -> f64| {
        Arc::new((0..ROWS).map(|row| Some(number(row.into()))).collect::<Float64Array>())
            as ArrayRef
    };
    let day = |row: u16| {
        let day = 2_500 - row / 4;
        format!("{}-{:02}-{:02}", 2000 + day / 336, 1 + day / 28 % 12, 1 + day % 28)
    };
    let wide: Columns = vec![
        ("date", Arc::new((0..ROWS).map(|row| Some(day(row))).collect::<StringArray>())),
        (
            "tic",
            Arc::new((0..ROWS).map(|row| Some(format!("T{}", row % 4))).collect::<StringArray>()),
        ),
        ("open", of(|row| row + 1.0)),
        ("high", of(|row| row + 2.0)),
        ("low", of(|row| row + 0.5)),
        ("close", of(|row| row + 1.25)),
        ("volume", Arc::new((0..ROWS).map(|row| Some(i64::from(row))).collect::<Int64Array>())),
        ("constant", of(|_| 7.0)),
    ];
    let default = || WriterProperties::builder().set_max_row_group_row_count(Some(3_333));
    let mut prints = Vec::new();
    for (id, properties) in [
        ("plain", default()),
        ("snappy", default().set_compression(Compression::SNAPPY)),
        ("lz4", default().set_compression(Compression::LZ4)),
        ("lz4 raw", default().set_compression(Compression::LZ4_RAW)),
        ("gzip", default().set_compression(Compression::GZIP(GzipLevel::default()))),
        ("zstd", default().set_compression(Compression::ZSTD(ZstdLevel::default()))),
        ("no dictionaries", default().set_dictionary_enabled(false)),
        ("small pages", default().set_data_page_row_count_limit(100).set_write_batch_size(100)),
        (
            "version 2, deltas",
            default()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_dictionary_enabled(false)
                .set_compression(Compression::ZSTD(ZstdLevel::default())),
        ),
        ("one row group", WriterProperties::builder()),
    ] {
        let shelf = Shelf::new();
        shelf.write(wide.clone(), properties.build());
        let panel = shelf.load(&PanelOptions::default()).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!((panel.tickers().len(), panel.days()), (4, 2_500), "{id}");
        // Row 9,999: ticker 3 on the oldest day.
        assert_eq!(panel.value(3, 0, 0), Some(10_000.0), "{id}");
        prints.push(panel.fingerprint().to_owned());
    }
    assert!(prints.iter().all(|print| *print == prints[0]));
}

#[test]
fn the_first_bad_row_of_the_file_is_the_one_that_is_named() {
    let rows = 9_000;
    let number = |bad: &[usize]| {
        let numbers = (0..rows).map(|row| (!bad.contains(&row)).then_some(5.0));
        Arc::new(numbers.collect::<Float64Array>()) as ArrayRef
    };
    let tickers = (0..rows).map(|row| Some(format!("T{row}"))).collect::<StringArray>();
    let days = Int32Array::from(vec![20_240_102; rows]);
    let columns: Columns = vec![
        ("date", Arc::new(days)),
        ("tic", Arc::new(tickers)),
        ("open", number(&[8_500])),
        ("high", number(&[])),
        ("low", number(&[])),
        ("close", number(&[8_200, 8_300])),
        ("volume", number(&[8_200])),
    ];
    let (problem, _) = refusal(columns, &PanelOptions::default());
    let PanelLoadError::BadNumber { place, column, .. } = problem else { panic!("{problem}") };
    assert_eq!((place, column.as_str()), (RowPlace::Row(8_200), "close"));
}

#[test]
fn a_file_is_read_as_what_it_is() {
    let shelf = Shelf::new();
    shelf.write(columns(), WriterProperties::default());
    let options = PanelOptions::default();
    let expected = shelf.load(&options).unwrap();
    let renamed = shelf.path().with_extension("dat");
    fs::copy(shelf.path(), &renamed).unwrap();
    let found = PanelData::from_file(&renamed, &options).unwrap().into_heap();
    assert_eq!(found.fingerprint(), expected.fingerprint());
    fs::write(&renamed, "date,tic,open,high,low,close,volume\n2024-01-02,A,1,2,1,2,0\n").unwrap();
    assert_eq!(PanelData::from_file(&renamed, &options).unwrap().into_heap().days(), 1);

    for (bytes, as_csv, as_parquet) in [
        (&b"PAR1 and so on"[..], "Format { found: Parquet }", "Damaged { part: End"),
        (b"date,tic\n", "MissingColumns", "Format { found: Csv }"),
        (b"\x1f\x8b\x08\x00", "Format { found: Compressed }", "Format { found: Compressed }"),
        (b"", "NoRows", "Format { found: Csv }"),
    ] {
        fs::write(shelf.path(), bytes).unwrap();
        let csv = PanelData::from_csv(shelf.path(), &options).unwrap_err();
        let parquet = PanelData::from_parquet(shelf.path(), &options).unwrap_err();
        for (error, kind) in [(csv, as_csv), (parquet, as_parquet)] {
            assert!(format!("{error:?}").contains(kind), "{error:?} is no {kind}");
            assert!(error.to_string().contains("prices.parquet"), "{error}");
        }
    }
    let nowhere = shelf.path().with_file_name("nowhere.parquet");
    let error = PanelData::from_parquet(&nowhere, &options).unwrap_err();
    let PanelError::Read { path, source } = &error else { panic!("{error:?}") };
    assert_eq!((path, source.kind()), (&nowhere, std::io::ErrorKind::NotFound));
}

#[test]
fn a_file_without_rows_is_no_panel() {
    let shelf = Shelf::new();
    let empty = RecordBatch::try_from_iter(columns()).unwrap().slice(0, 0);
    let names = ["date", "tic", "open", "high", "low", "close", "volume", "rsi"];
    let columns = names.into_iter().zip(empty.columns().iter().cloned()).collect();
    shelf.write(columns, WriterProperties::default());
    let error = shelf.load(&PanelOptions::default()).unwrap_err();
    let PanelError::Load { problem, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(**problem, PanelLoadError::NoRows { masked: 0 }), "{error:?}");
}
