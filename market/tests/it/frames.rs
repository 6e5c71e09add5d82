//! Tables in memory: equal to files bit for bit, and the columns that they may lack.

use std::{fmt::Write, sync::Arc};

use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, LargeStringArray, RecordBatch, RecordBatchIterator,
    StringArray, StringViewArray, types::Int8Type,
};
use arrow_schema::ArrowError;
use backcast_market::{
    DerivedColumn, Panel, PanelData, PanelError, PanelLoadError, PanelOptions, RowPlace,
};
use proptest::prelude::*;

const NUMBERS: [&str; 6] = ["open", "high", "low", "close", "volume", "rsi"];

/// Rows of a table, in any order: day, ticker, numbers.
type Rows = Vec<(u32, u8, [f64; 6])>;

fn date(day: u32) -> String {
    format!("2024-{:02}-{:02}", 1 + day / 28, 1 + day % 28)
}

fn ticker(number: u8) -> String {
    format!("T{number}")
}

fn batch(rows: &[(u32, u8, [f64; 6])]) -> RecordBatch {
    let texts = |texts: Vec<String>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let mut columns = vec![
        ("date", texts(rows.iter().map(|row| date(row.0)).collect())),
        ("tic", texts(rows.iter().map(|row| ticker(row.1)).collect())),
    ];
    for (at, name) in NUMBERS.into_iter().enumerate() {
        let numbers: Vec<f64> = rows.iter().map(|row| row.2[at]).collect();
        columns.push((name, Arc::new(Float64Array::from(numbers))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn csv(rows: &[(u32, u8, [f64; 6])]) -> String {
    let mut text = format!("date,tic,{}\n", NUMBERS.join(","));
    for (day, number, numbers) in rows {
        let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:?}")).collect();
        writeln!(text, "{},{},{}", date(*day), ticker(*number), numbers.join(",")).unwrap();
    }
    text
}

fn load(batches: Vec<RecordBatch>, options: &PanelOptions) -> Result<Panel, PanelError> {
    let schema = batches[0].schema();
    let batches = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    Ok(PanelData::from_batches(batches, options)?.into_heap())
}

fn problem(batches: Vec<RecordBatch>, options: &PanelOptions) -> PanelLoadError {
    match load(batches, options) {
        Err(PanelError::Load { path: None, problem }) => *problem,
        other => panic!("{other:?}"),
    }
}

fn rows() -> impl Strategy<Value = Rows> {
    let prices = (0.01_f64..1e6, 0.0_f64..1e9, -1e6_f64..1e6);
    let row = (0_u32..200, 0_u8..4, prices).prop_map(|(day, ticker, (price, volume, rsi))| {
        (day, ticker, [price, price * 1.5, price * 0.5, price * 1.25, volume, rsi])
    });
    prop::collection::vec(row, 1..60).prop_map(|mut rows: Rows| {
        rows.sort_by_key(|row| (row.0, row.1));
        rows.dedup_by_key(|row| (row.0, row.1));
        rows
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(256)))]

    #[test]
    fn a_table_in_any_order_and_batches_equals_its_csv_bit_for_bit(
        rows in rows().prop_shuffle(),
        cut in any::<prop::sample::Index>(),
    ) {
        let from_csv = PanelData::from_reader(csv(&rows).as_bytes(), &PanelOptions::default());
        let from_csv = from_csv.unwrap().into_heap();
        let (first, second) = rows.split_at(cut.index(rows.len()));
        let parts = vec![batch(first), batch(second)];
        let panel = load(parts, &PanelOptions::default()).unwrap();
        prop_assert_eq!(panel.fingerprint(), from_csv.fingerprint());
        let bits = |panel: &Panel| -> Vec<u64> {
            panel.values().into_iter().map(f64::to_bits).collect()
        };
        prop_assert_eq!(bits(&panel), bits(&from_csv));
    }

    #[test]
    fn a_derived_row_is_made_of_closes_that_are_known(rows in rows()) {
        use DerivedColumn::{High, Low, Open, Volume};
        let closes = batch(&rows).project(&[0, 1, 5]).unwrap();
        let options = PanelOptions::default().derive([Open, High, Low, Volume]);
        let single = (0..4).find(|number| rows.iter().filter(|row| row.1 == *number).count() == 1);
        if let Some(number) = single {
            let refused = problem(vec![closes], &options);
            let PanelLoadError::NoOpen { ticker: first } = refused else { panic!("{refused:?}") };
            prop_assert_eq!(first, ticker(number));
            return Ok(());
        }
        let panel = load(vec![closes], &options).unwrap();
        for (day, number, [.., close, _, _]) in &rows {
            let name = ticker(*number);
            let at = panel.tickers().iter().position(|known| *known == name).unwrap();
            let on = panel.dates().iter().position(|known| *known == date(*day)).unwrap();
            let before = rows.iter().rev().find(|row| row.1 == *number && row.0 < *day);
            let value = |column| panel.value(at, on, column);
            let found: Option<Vec<f64>> = (0..5).map(value).collect();
            let expected = before.map(|before| {
                let open = before.2[3];
                vec![open, open.max(*close), open.min(*close), *close, 0.0]
            });
            prop_assert_eq!(found, expected);
        }
    }
}

fn three() -> Rows {
    let row = |price: f64| [price, price + 1.0, price - 0.5, price + 0.5, 1000.0, 50.0];
    vec![(1, 0, row(10.0)), (2, 0, row(11.0)), (2, 1, row(20.0))]
}

/// The three rows with a column replaced, renamed or left out.
fn with(change: impl Fn(&str, &ArrayRef) -> Option<(&'static str, ArrayRef)>) -> RecordBatch {
    let batch = batch(&three());
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.filter_map(|(field, column)| change(field.name(), column));
    RecordBatch::try_from_iter(columns).unwrap()
}

fn known(name: &str) -> &'static str {
    ["date", "tic"].into_iter().chain(NUMBERS).find(|known| *known == name).unwrap()
}

#[test]
fn every_kind_of_text_and_dictionary_gives_the_same_panel() {
    type Make = fn(Vec<String>) -> ArrayRef;
    let expected = load(vec![batch(&three())], &PanelOptions::default()).unwrap();
    let texts = |array: &ArrayRef| -> Vec<String> {
        let array = array.as_any().downcast_ref::<StringArray>().unwrap();
        array.iter().map(|text| text.unwrap().to_owned()).collect()
    };
    let kinds: [Make; 3] = [
        |texts| Arc::new(LargeStringArray::from(texts)),
        |texts| Arc::new(StringViewArray::from_iter_values(texts)),
        |texts| {
            let texts: DictionaryArray<Int8Type> = texts.iter().map(String::as_str).collect();
            Arc::new(texts)
        },
    ];
    for make in kinds {
        let batch = with(|name, column| {
            let text = matches!(name, "date" | "tic");
            Some((known(name), if text { make(texts(column)) } else { column.clone() }))
        });
        let panel = load(vec![batch], &PanelOptions::default()).unwrap();
        assert_eq!(panel.fingerprint(), expected.fingerprint());
    }
}

#[test]
fn names_in_other_cases_are_known_where_asked() {
    let spelled = |name: &str| match name {
        "date" => "Date",
        "tic" => "Symbol",
        "open" => "Open",
        "close" => "CLOSE",
        name => known(name),
    };
    let batch = || with(|name, column| Some((spelled(name), column.clone())));
    let expected = load(vec![self::batch(&three())], &PanelOptions::default()).unwrap();
    let panel = load(vec![batch()], &PanelOptions::default().any_case()).unwrap();
    assert_eq!(panel.fingerprint(), expected.fingerprint());
    let exact = problem(vec![batch()], &PanelOptions::default());
    assert!(matches!(exact, PanelLoadError::MissingColumns { .. }), "{exact:?}");
    // Two columns that resemble a known name are none of it.
    let two = with(|name, column| match name {
        "high" => Some(("OPEN", column.clone())),
        name => Some((spelled(name), column.clone())),
    });
    let refused = problem(vec![two], &PanelOptions::default().any_case());
    let PanelLoadError::MissingColumns { missing, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(missing, ["open", "high"]);
}

#[test]
fn a_table_without_tickers_is_of_the_named_one() {
    let one = || {
        let batch = with(|name, column| (name != "tic").then(|| (known(name), column.clone())));
        batch.slice(0, 2)
    };
    let panel = load(vec![one()], &PanelOptions::default().ticker("BTC")).unwrap();
    assert_eq!((panel.tickers(), panel.days()), (&["BTC".to_owned()][..], 2));
    let lacks = problem(vec![one()], &PanelOptions::default());
    assert!(matches!(lacks, PanelLoadError::MissingColumns { .. }), "{lacks:?}");
    for name in ["", "<CASH>"] {
        let refused = problem(vec![one()], &PanelOptions::default().ticker(name));
        assert!(matches!(refused, PanelLoadError::TickerName { .. }), "{refused:?}");
    }
    let twice = problem(vec![batch(&three())], &PanelOptions::default().ticker("BTC"));
    let PanelLoadError::TickerTwice { column, ticker } = twice else { panic!("{twice:?}") };
    assert_eq!((column.as_str(), ticker.as_str()), ("tic", "BTC"));
}

#[test]
fn a_derived_column_that_is_there_is_refused() {
    let options = PanelOptions::default().derive([DerivedColumn::Volume]);
    let twice = problem(vec![batch(&three())], &options);
    assert!(matches!(&twice, PanelLoadError::DerivedTwice { column } if column == "volume"));
    let without = with(|name, column| (name != "volume").then(|| (known(name), column.clone())));
    let panel = load(vec![without], &options).unwrap();
    assert_eq!(panel.value(0, 0, 4), Some(0.0));
    assert_eq!("close".parse::<DerivedColumn>().unwrap_err().text, "close");
}

#[test]
fn a_given_high_or_low_that_contradicts_a_derived_one_is_refused() {
    use DerivedColumn::{High, Low, Volume};
    // The closes are 0.5 above the opens: 10.5, 11.5 and 20.5.
    let prices = |name: &'static str, prices: [f64; 3]| {
        with(|known_name, column| match known_name {
            "volume" => None,
            "high" | "low" if name != known_name => None,
            known_name if name == known_name => {
                Some((name, Arc::new(Float64Array::from(prices.to_vec())) as ArrayRef))
            }
            other => Some((known(other), column.clone())),
        })
    };
    let cases = [
        ("high", Low, [10.0, 10.5, 20.0], RowPlace::Row(1), (10.5, 11.0)),
        ("low", High, [10.5, 11.5, 21.0], RowPlace::Row(2), (20.5, 21.0)),
    ];
    for (name, derived, given, at, range) in cases {
        let options = PanelOptions::default().derive([derived, Volume]);
        let refused = problem(vec![prices(name, given)], &options);
        let PanelLoadError::HighBelowLow { place, column, high, low, .. } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((place, column.as_str(), (high, low)), (at, name, range));
        // A close outside the range is kept.
        let kept = load(vec![prices(name, [10.2, 11.2, 20.2])], &options).unwrap();
        assert_eq!(kept.days(), 2);
    }
}

#[test]
fn bad_cells_and_broken_batches_are_refused_with_their_row() {
    let twice = problem(vec![batch(&three()), batch(&three())], &PanelOptions::default());
    let PanelLoadError::DuplicateRow { first, second, .. } = twice else { panic!("{twice:?}") };
    assert_eq!((first, second), (RowPlace::Row(0), RowPlace::Row(3)));
    let bad = with(|name, column| {
        let nan = || Arc::new(Float64Array::from(vec![1.0, f64::INFINITY, 1.0])) as ArrayRef;
        Some((known(name), if name == "close" { nan() } else { column.clone() }))
    });
    let refused = problem(vec![bad], &PanelOptions::default());
    let PanelLoadError::BadNumber { place, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(place, RowPlace::Row(1));
    let schema = batch(&three()).schema();
    let failing = [Ok(batch(&three())), Err(ArrowError::CDataInterface("gone".to_owned()))];
    let failed = PanelData::from_batches(
        RecordBatchIterator::new(failing, schema),
        &PanelOptions::default(),
    );
    let Err(PanelError::Load { problem, .. }) = failed else { panic!("{failed:?}") };
    let PanelLoadError::Batch { row, message } = *problem else { panic!("{problem:?}") };
    assert_eq!((row, message.as_str()), (3, "gone"));
}
