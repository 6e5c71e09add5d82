//! The type matrix: what a day, a ticker and a number may be stored as.

use std::{path::Path, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal32Array, Decimal64Array,
    Decimal128Array, Decimal256Array, DictionaryArray, DurationMillisecondArray, Float16Array,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray,
    ListArray, NullArray, StringArray, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, types::Int8Type,
    types::Int32Type,
};
use backcast_market::{ColumnRole, PanelLoadError, PanelOptions};

use super::{columns, load, refusal, with};

/// 2024-01-02 00:00 UTC.
const FIRST: i64 = 1_704_153_600;
const DAY: i64 = 86_400;
const DAYS: [i64; 3] = [FIRST, FIRST + DAY, FIRST + DAY];

fn stamps(per_second: i64, offset_seconds: i64) -> Vec<i64> {
    DAYS.iter().map(|second| (second + offset_seconds) * per_second).collect()
}

#[test]
fn a_day_may_be_text_a_date_a_timestamp_or_an_integer() {
    let texts = ["2024-01-02", "2024-01-03", "2024-01-03"];
    let numbers = [20_240_102, 20_240_103, 20_240_103];
    let day_numbers: Vec<i32> =
        DAYS.iter().map(|second| i32::try_from(second / DAY).unwrap()).collect();
    let afternoon = 16 * 3600 + 59;
    let dictionary: DictionaryArray<Int8Type> = texts.into_iter().collect();
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("string", Arc::new(StringArray::from(texts.to_vec()))),
        ("large string", Arc::new(LargeStringArray::from(texts.to_vec()))),
        ("string view", Arc::new(StringViewArray::from(texts.to_vec()))),
        ("bytes of text", Arc::new(BinaryArray::from_iter_values(texts))),
        ("dictionary", Arc::new(dictionary)),
        ("compact text", Arc::new(StringArray::from(vec!["20240102", "20240103", "20240103"]))),
        (
            "text of timestamps",
            Arc::new(StringArray::from(vec![
                "2024-01-02 00:00:00-05:00",
                "2024-01-03T16:00:00Z",
                "2024-01-03 00:00:00.000",
            ])),
        ),
        ("int32", Arc::new(Int32Array::from(numbers.to_vec()))),
        ("int64", Arc::new(Int64Array::from(numbers.map(i64::from).to_vec()))),
        ("uint32", Arc::new(UInt32Array::from(numbers.map(i32::unsigned_abs).to_vec()))),
        (
            "uint64",
            Arc::new(UInt64Array::from(numbers.map(|n| u64::from(n.unsigned_abs())).to_vec())),
        ),
        ("date32", Arc::new(Date32Array::from(day_numbers))),
        ("date64", Arc::new(Date64Array::from(stamps(1000, 0)))),
        ("timestamp[s]", Arc::new(TimestampSecondArray::from(stamps(1, 0)))),
        ("timestamp[ms]", Arc::new(TimestampMillisecondArray::from(stamps(1000, afternoon)))),
        ("timestamp[us]", Arc::new(TimestampMicrosecondArray::from(stamps(1_000_000, 0)))),
        (
            "timestamp[ns]",
            Arc::new(TimestampNanosecondArray::from(stamps(1_000_000_000, afternoon))),
        ),
        (
            "timestamp[ns, UTC]",
            Arc::new(TimestampNanosecondArray::from(stamps(1_000_000_000, 0)).with_timezone("UTC")),
        ),
        (
            "timestamp[us, +09:00] at midnight there",
            Arc::new(
                TimestampMicrosecondArray::from(stamps(1_000_000, -9 * 3600))
                    .with_timezone("+09:00"),
            ),
        ),
        (
            "timestamp[s, -05:00] at midnight there",
            Arc::new(TimestampSecondArray::from(stamps(1, 5 * 3600)).with_timezone("-05:00")),
        ),
    ];
    let expected = load(columns()).unwrap();
    assert_eq!(expected.dates(), ["2024-01-02", "2024-01-03"]);
    for (id, days) in cases {
        let panel = load(with("date", days)).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(panel.fingerprint(), expected.fingerprint(), "{id}: {:?}", panel.dates());
    }
}

/// Named zones need the machine's time zone database. Without it, this test checks nothing.
#[test]
fn a_day_in_a_named_zone_is_the_one_on_its_clocks() {
    let midnight = |zone: &str, seconds: i64| {
        let stamps = TimestampNanosecondArray::from(stamps(1_000_000_000, seconds));
        with("date", Arc::new(stamps.with_timezone(zone)))
    };
    if Path::new("/usr/share/zoneinfo/Asia/Tokyo").exists() {
        let expected = load(columns()).unwrap();
        // In January New York is five hours behind UTC.
        for (zone, seconds) in [("America/New_York", 5 * 3600), ("Asia/Tokyo", -9 * 3600)] {
            let panel = load(midnight(zone, seconds)).unwrap();
            assert_eq!(panel.dates(), expected.dates(), "{zone}");
        }
    }
    for zone in ["Mars/Olympus_Mons", "../../../etc/passwd"] {
        let (problem, message) = refusal(midnight(zone, 0), &PanelOptions::default());
        assert!(matches!(problem, PanelLoadError::UnknownZone { .. }), "{message}");
        for part in ["\"date\"", zone] {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
}

#[test]
fn a_ticker_may_be_text_or_an_integer() {
    let dictionary: DictionaryArray<Int32Type> = ["A", "A", "B"].into_iter().collect();
    let cases: Vec<(&str, ArrayRef, [&str; 2])> = vec![
        ("large string", Arc::new(LargeStringArray::from(vec!["A", "A", "B"])), ["A", "B"]),
        ("string view", Arc::new(StringViewArray::from(vec!["A", "A", "B"])), ["A", "B"]),
        ("dictionary", Arc::new(dictionary), ["A", "B"]),
        ("blanks around", Arc::new(StringArray::from(vec!["A ", "A", " B"])), ["A", "B"]),
        ("int64", Arc::new(Int64Array::from(vec![600_519, 600_519, 7])), ["600519", "7"]),
        ("uint16", Arc::new(UInt16Array::from(vec![5, 5, 60_000])), ["5", "60000"]),
    ];
    for (id, tickers, expected) in cases {
        let panel = load(with("tic", tickers)).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(panel.tickers(), expected, "{id}");
    }
}

#[test]
fn a_number_may_be_an_integer_a_float_or_a_decimal_of_any_width() {
    let half = |number: f32| half_of(number);
    let cents: DictionaryArray<Int8Type> =
        DictionaryArray::new(vec![0_i8, 1, 0].into(), Arc::new(Int64Array::from(vec![50, 61])));
    let cases: Vec<(&str, ArrayRef, [f64; 3])> = vec![
        ("int8", Arc::new(Int8Array::from(vec![50, 61, -3])), [50.0, 61.0, -3.0]),
        ("int16", Arc::new(Int16Array::from(vec![50, 61, -300])), [50.0, 61.0, -300.0]),
        ("int32", Arc::new(Int32Array::from(vec![50, 61, -3])), [50.0, 61.0, -3.0]),
        ("int64", Arc::new(Int64Array::from(vec![50, 61, 1 << 60])), [50.0, 61.0, 2_f64.powi(60)]),
        ("uint8", Arc::new(UInt8Array::from(vec![50, 61, 255])), [50.0, 61.0, 255.0]),
        ("uint16", Arc::new(UInt16Array::from(vec![50, 61, 65_535])), [50.0, 61.0, 65_535.0]),
        (
            "uint32",
            Arc::new(UInt32Array::from(vec![50, 61, u32::MAX])),
            [50.0, 61.0, 4_294_967_295.0],
        ),
        (
            "uint64",
            Arc::new(UInt64Array::from(vec![50, 61, u64::MAX])),
            [50.0, 61.0, 2_f64.powi(64)],
        ),
        (
            "float16",
            Arc::new(Float16Array::from(vec![half(50.0), half(61.5), half(-3.0)])),
            [50.0, 61.5, -3.0],
        ),
        ("float32", Arc::new(Float32Array::from(vec![50.25, 61.5, -3.0])), [50.25, 61.5, -3.0]),
        (
            "decimal32",
            Arc::new(
                Decimal32Array::from(vec![5025, 6150, -301])
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
            [50.25, 61.5, -3.01],
        ),
        (
            "decimal64",
            Arc::new(
                Decimal64Array::from(vec![5025, 6150, -301])
                    .with_precision_and_scale(18, 2)
                    .unwrap(),
            ),
            [50.25, 61.5, -3.01],
        ),
        (
            "decimal128",
            Arc::new(
                Decimal128Array::from(vec![5_025_000_000_000_000_000_000, 6150, -1])
                    .with_precision_and_scale(38, 20)
                    .unwrap(),
            ),
            [50.25, 6150e-20, -1e-20],
        ),
        (
            "decimal256",
            Arc::new(
                Decimal256Array::from_iter_values([5025, 6150, -301].map(|n: i128| n.into()))
                    .with_precision_and_scale(76, 2)
                    .unwrap(),
            ),
            [50.25, 61.5, -3.01],
        ),
        ("dictionary of int64", Arc::new(cents), [50.0, 61.0, 50.0]),
    ];
    for (id, numbers, expected) in cases {
        let panel = load(with("rsi", numbers)).unwrap_or_else(|error| panic!("{id}: {error}"));
        let found = [panel.value(0, 0, 5), panel.value(0, 1, 5), panel.value(1, 1, 5)];
        assert_eq!(found, expected.map(Some), "{id}");
    }
}

/// The native type of 16-bit floats, without naming its crate.
fn half_of(
    number: f32,
) -> <arrow_array::types::Float16Type as arrow_array::ArrowPrimitiveType>::Native {
    <arrow_array::types::Float16Type as arrow_array::ArrowPrimitiveType>::Native::from_f32(number)
}

#[test]
fn other_types_are_refused_with_column_type_and_remedy() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None, None]);
    let booleans = || Arc::new(BooleanArray::from(vec![true, false, true])) as ArrayRef;
    let floats = || Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])) as ArrayRef;
    let texts = || Arc::new(StringArray::from(vec!["Energy", "Energy", "Health"])) as ArrayRef;
    let cases: Vec<(&'static str, ArrayRef, ColumnRole, &str)> = vec![
        ("date", booleans(), ColumnRole::Date, "booleans"),
        ("date", floats(), ColumnRole::Date, "floats"),
        ("date", Arc::new(NullArray::new(3)), ColumnRole::Date, "nulls"),
        ("tic", booleans(), ColumnRole::Ticker, "booleans"),
        ("tic", floats(), ColumnRole::Ticker, "floats"),
        ("tic", Arc::new(Date32Array::from(vec![1, 2, 3])), ColumnRole::Ticker, "dates"),
        ("open", booleans(), ColumnRole::Number, "booleans"),
        ("flag", booleans(), ColumnRole::Number, "booleans"),
        ("sector", texts(), ColumnRole::Number, "text"),
        ("listed", Arc::new(Date64Array::from(vec![0; 3])), ColumnRole::Number, "dates"),
        ("at", Arc::new(TimestampSecondArray::from(vec![0; 3])), ColumnRole::Number, "timestamps"),
        (
            "at",
            Arc::new(Time64MicrosecondArray::from(vec![0; 3])),
            ColumnRole::Number,
            "times of day",
        ),
        (
            "age",
            Arc::new(DurationMillisecondArray::from(vec![0; 3])),
            ColumnRole::Number,
            "durations",
        ),
        ("tags", Arc::new(list), ColumnRole::Number, "nested"),
    ];
    for (name, column, expected, words) in cases {
        let (problem, message) = refusal(with(name, column), &PanelOptions::default());
        let PanelLoadError::ColumnType { column, role, .. } = problem else { panic!("{message}") };
        assert_eq!((column.as_str(), role), (name, expected));
        for part in ["prices.parquet", &format!("{name:?}"), words] {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
    // A column that is left out may be of any type.
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None, None]);
    let options = PanelOptions::default().columns([("tags", "")]);
    let panel = super::load_with(with("tags", Arc::new(list)), &options).unwrap();
    assert_eq!(panel.fingerprint(), load(columns()).unwrap().fingerprint());
}
