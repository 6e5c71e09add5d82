//! Files that the loader accepts, and files that it refuses.

use std::fmt::Write;

use backcast_market::{
    NanPolicy, NumberProblem, Panel, PanelData, PanelError, PanelLoadError, PanelOptions, RowPlace,
};
use proptest::prelude::*;

const HEADER: &str = "date,tic,open,high,low,close,volume,rsi\n";

fn load(csv: impl AsRef<[u8]>) -> Result<Panel, PanelError> {
    let options = PanelOptions::default().macro_tickers(["VIX"]);
    Ok(PanelData::from_reader(csv.as_ref(), &options)?.into_heap())
}

/// Returns the error of loading a file.
fn problem(csv: impl AsRef<[u8]>) -> PanelLoadError {
    match load(csv) {
        Err(PanelError::Load { path: None, problem }) => *problem,
        other => panic!("{other:?}"),
    }
}

fn rows(rows: &str) -> Result<Panel, PanelError> {
    load(format!("{HEADER}2024-01-02,VIX,-1,0,-2,0,0,0\n{rows}\n"))
}

#[test]
fn every_bad_cell_is_refused_with_line_column_text_and_remedy() {
    const GOOD: &str = "2024-01-02,A,1,2,1,2,10,5";
    let cases = [
        ("2024-01-02,A,1,2,1,2,10,", "Missing", &["line 3", "\"rsi\"", "\"mask\""][..]),
        ("2024-01-02,A,1,2,1,2,10,   ", "Missing", &["line 3", "\"rsi\""]),
        ("2024-01-02,A,1,2,1,2,NaN,5", "Nan", &["line 3", "\"volume\"", "\"NaN\"", "\"mask\""]),
        ("2024-01-02,A,inf,2,1,2,10,5", "Infinite", &["\"open\"", "\"inf\""]),
        ("2024-01-02,A,1,-infinity,1,2,10,5", "Infinite", &["\"high\""]),
        ("2024-01-02,A,1,2,1x,2,10,5", "NotANumber", &["\"low\"", "\"1x\""]),
        ("2024-01-02,A,1,2,1,\"1,5\",10,5", "NotANumber", &["\"close\"", "\"1,5\""]),
        ("2024-01-02,A,1,2,1,2,1e39,5", "TooLarge", &["\"volume\"", "\"1e39\""]),
        ("2024-01-02,A,1,2,1,2,1e999,5", "TooLarge", &["\"volume\"", "\"1e999\""]),
        (
            "2024-01-02,A,0,2,1,2,10,5",
            "PriceNotPositive",
            &["line 3", "\"open\"", "0", "\"A\" a macro ticker"],
        ),
        ("2024-01-02,A,1,2,1,-2,10,5", "PriceNotPositive", &["\"close\"", "-2"]),
        (
            "2024-01-02,A,1,2,1e-60,2,10,5",
            "PriceTooSmall",
            &["line 3", "\"low\"", "1e-60", "\"A\"", "1e-45"],
        ),
        ("2024-01-02,A,1,1,2,2,10,5", "HighBelowLow", &["line 3", "\"A\"", "1", "2"]),
        ("2024-1-02,A,1,2,1,2,10,5", "BadDate", &["line 3", "\"2024-1-02\"", "YYYY-MM-DD"]),
        ("2023-02-29,A,1,2,1,2,10,5", "BadDate", &["line 3", "\"2023-02-29\""]),
        ("2024-01-02,,1,2,1,2,10,5", "BadTicker", &["line 3", "\"tic\"", "\"\""]),
        ("2024-01-02,<CASH>,1,2,1,2,10,5", "BadTicker", &["\"<CASH>\""]),
        ("2024-01-02,A,1,2,1,2,10", "Ragged", &["line 3", "\"rsi\"", "7", "8"]),
        ("2024-01-02,A,1,2,1,2,10,5,6", "Ragged", &["line 3", "\"rsi\"", "9", "8"]),
        (
            "2024-01-03,A,1,2,1,2,10,5\n2024-01-02,B,1,2,1,2,10,5\n2024-01-03,A,1,2,1,2,10,5",
            "DuplicateRow",
            &["line 3", "line 5", "\"date\"", "\"tic\"", "\"A\"", "2024-01-03"],
        ),
        (
            "2024-01-02,A,1,2,1,2,10,\"5\n2024-01-03,A,1,2,1,2,10,5",
            "NotANumber",
            &["line 3", "\"rsi\""],
        ),
    ];
    assert!(rows(GOOD).is_ok());
    assert!(rows("2024-01-02,A,1,2,1e-45,2,10,5").is_ok(), "the least price there is");
    for (row, kind, parts) in cases {
        let error = rows(row).expect_err(row);
        assert!(format!("{error:?}").contains(kind), "{row:?}: {error:?} is no {kind}");
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{row:?}: {message:?} lacks {part:?}");
        }
    }
}

#[test]
fn every_bad_header_is_refused_with_the_names() {
    let row = "2024-01-02,VIX,1,2,1,2,10,5\n";
    for (csv, kind, parts) in [
        (String::new(), "NoRows", &[][..]),
        ("\n\n".to_owned(), "NoRows", &[]),
        (HEADER.to_owned(), "NoRows", &[]),
        (
            format!("Date,tic,open,high,low,close,rsi,x\n{row}"),
            "MissingColumns",
            &["\"date\", \"volume\"", "\"Date\", \"tic\"", "\"Date\" for \"date\""],
        ),
        (
            format!("date,tic,open,high,low,close,volume,open\n{row}"),
            "DuplicateColumn",
            &["3", "8", "\"open\""],
        ),
        (
            format!("date,tic,open,high,low,close,volume, tic\n{row}"),
            "DuplicateColumn",
            &["2", "8", "\"tic\""],
        ),
        (
            format!("{HEADER}2024-01-02,A,1,2,1,2,10,5\n"),
            "UnknownMacroTicker",
            &["\"VIX\"", "\"A\""],
        ),
    ] {
        let error = load(&csv).expect_err(&csv);
        assert!(format!("{error:?}").contains(kind), "{csv:?}: {error:?} is no {kind}");
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{csv:?}: {message:?} lacks {part:?}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_place() {
    let mut csv = format!("{HEADER}2024-01-02,VIX,1,2,1,2,10,5\n2024-01-02,").into_bytes();
    csv.extend(b"caf\xe9,1,2,1,2,10,5\n");
    assert!(matches!(problem(csv), PanelLoadError::NotUtf8 { line: 3, column: 2 }));
    assert!(matches!(problem(b"\xff\xfed\0a\0"), PanelLoadError::NotUtf8 { line: 1, column: 1 }));
    // The two bytes of one character in neighbouring cells: valid UTF-8 only if they are joined.
    let mut csv = HEADER.trim_end().as_bytes().to_vec();
    csv.extend(b",rest\n2024-01-02,A,1,2,1,2,10,5\xc3,\xa9\n");
    assert!(matches!(problem(csv), PanelLoadError::NotUtf8 { line: 2, column: 8 }));
}

#[test]
fn cells_are_read_without_the_spaces_around_them_in_any_script() {
    let spaced =
        " 2024-01-02\t, A ,1 , 2,1,\t2,\" 10 \",5\n2024-01-03, \u{e9}t\u{e9} , 1,2,1,2,10 ,5 ";
    let plain = "2024-01-02,A,1,2,1,2,10,5\n2024-01-03,\u{e9}t\u{e9},1,2,1,2,10,5";
    let [spaced, plain] = [spaced, plain].map(|given| {
        let header = HEADER.replace(',', " , ");
        load(format!("{header}2024-01-02,VIX,-1,0,-2,0,0,0\n{given}\n")).unwrap()
    });
    assert_eq!(spaced.tickers(), plain.tickers());
    assert_eq!(spaced.values(), plain.values());
}

#[test]
fn errors_carry_their_fields() {
    let row = "2024-01-02,VIX,-1,0,-2,0,0,0\n2024-01-02,A,1,2,1,?,1,5";
    let PanelLoadError::BadNumber { place, column, text, problem } =
        problem(format!("{HEADER}{row}"))
    else {
        panic!("a question mark is no number");
    };
    assert_eq!((place, column.as_str(), text.as_str()), (RowPlace::Line(3), "close", "?"));
    assert_eq!(problem, NumberProblem::NotANumber);
    let missing = PanelData::from_csv("/nonexistent/panel.csv", &PanelOptions::default());
    assert!(missing.unwrap_err().to_string().contains("/nonexistent/panel.csv"));
}

#[test]
fn line_numbers_are_right_after_blank_lines_and_any_line_ending() {
    let bad = "2024-01-03,A,1,2,1,oops,10,5";
    for (lines, line) in [
        (format!("{HEADER}2024-01-02,VIX,1,2,1,2,10,5\n{bad}\n"), 3),
        (format!("\n\n{HEADER}\n2024-01-02,VIX,1,2,1,2,10,5\n\n\n{bad}"), 8),
        (format!("{HEADER}2024-01-02,VIX,1,2,1,2,10,\"5\"\n{bad}"), 3),
        (format!("{HEADER}2024-01-02,\"V\nIX\",1,2,1,2,10,5\n{bad}"), 4),
    ] {
        for ending in ["\n", "\r\n", "\r"] {
            for mark in ["", "\u{feff}"] {
                let csv = format!("{mark}{}", lines.replace('\n', ending));
                let PanelLoadError::BadNumber { place, .. } = problem(&csv) else {
                    panic!("{csv:?}");
                };
                assert_eq!(place, RowPlace::Line(line), "{csv:?}");
            }
        }
    }
}

#[test]
fn order_marks_blanks_quotes_and_index_columns_do_not_matter() {
    let plain = rows("2024-01-03,A,1,2,1,2,10,5\n2024-01-02,A,3,4,3,4,30,6").unwrap();
    for csv in [
        "\u{feff}date,tic,open,high,low,close,volume,rsi\r\n2024-01-02,A,3,4,3,4,30,6\r\n\
         2024-01-02,VIX,-1,0,-2,0,0,0\r\n2024-01-03,A,1,2,1,2,10,5\r\n",
        ",rsi,Unnamed: 0,volume,day,close,tic,day_idx,low,high,open,date\n\
         0,5,a,10,,2,A,NaN,1,2,1,2024-01-03\n1,6,b,30,,4,A,x,3,4,3,2024-01-02\n\
         2,0,c,0,,0,VIX,y,-2,0,-1,2024-01-02\n",
        "date, tic ,open,high,low,close,volume,rsi\n\"2024-01-02\",\"A\",3,4,3,4,30, 6 \n\
         2024-01-02, VIX,-1e0,0,-2.,0,0,+0\n2024-01-03,A,1.00,2,1,2,1e1,5",
    ] {
        let other = load(csv).unwrap();
        assert_eq!(other.fingerprint(), plain.fingerprint(), "{csv}");
        assert_eq!(other.columns(), plain.columns());
        assert_eq!(other.values(), plain.values());
        assert_eq!(other.mask(), plain.mask());
    }
    let changed = rows("2024-01-03,A,1,2,1,2,10,5\n2024-01-02,A,3,4,3,4,30,7").unwrap();
    assert_ne!(changed.fingerprint(), plain.fingerprint());
}

#[test]
fn tokens_count_from_one_and_zero_is_cash() {
    let panel = rows("2024-01-02,B,1,2,1,2,10,5\n2024-01-03,A,1,2,1,2,10,5").unwrap();
    assert_eq!(panel.tickers(), ["A", "B", "VIX"]);
    assert_eq!(panel.dates(), ["2024-01-02", "2024-01-03"]);
    assert_eq!(panel.indicators(), ["rsi"]);
    assert_eq!((panel.is_macro(2), panel.is_macro(0), panel.is_macro(9)), (true, false, false));
    assert_eq!([0, 1, 2].map(|ticker| panel.first_day(ticker)), [Some(1), Some(0), Some(0)]);
    for (token, name) in [(0, "<CASH>"), (1, "A"), (2, "B"), (3, "VIX")] {
        assert_eq!((panel.token(name), panel.ticker_of(token)), (Some(token), Some(name)));
    }
    assert_eq!(
        (panel.token("C"), panel.ticker_of(4), panel.ticker_of(u32::MAX)),
        (None, None, None)
    );
}

#[test]
fn a_sparse_file_that_asks_for_too_much_is_an_error() {
    // 40,000 tickers on 40,000 days in 40,000 rows: 8e9 values.
    let mut csv = HEADER.to_owned();
    for row in 0..40_000_u32 {
        let (year, month, day) = (1000 + row / 300, 1 + row / 25 % 12, 1 + row % 25);
        writeln!(csv, "{year}-{month:02}-{day:02},T{row},1,2,1,2,10,5").unwrap();
    }
    let error = PanelData::from_reader(csv.as_bytes(), &PanelOptions::default()).unwrap_err();
    let PanelError::Load { problem, .. } = &error else { panic!("{error:?}") };
    assert!(
        matches!(**problem, PanelLoadError::TooLarge { tickers: 40_000, days: 40_000, .. }),
        "{error}"
    );
}

/// One generated row: ticker, day of January, six numbers.
type Row = (usize, u32, [i16; 6]);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(500)))]

    /// The model reads line by line and finds every number by comparing names.
    #[test]
    fn the_loader_agrees_with_a_naive_reader(
        keys in prop::collection::btree_set((0..5_usize, 1..25_u32), 1..40),
        numbers in prop::collection::vec(prop::array::uniform6(1..i16::MAX), 40),
        order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(),
        column_order in Just((0..8_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let rows: Vec<Row> = keys.iter().zip(&numbers).map(|(&(t, d), &n)| (t, d, n)).collect();
        let names = ["date", "tic", "open", "high", "low", "close", "volume", "rsi"];
        let line = |cells: [String; 8]| {
            column_order.iter().map(|&at| cells[at].clone()).collect::<Vec<_>>().join(",") + "\n"
        };
        let mut csv = line(names.map(str::to_owned));
        for &at in order.iter().filter(|&&at| at < rows.len()) {
            let (ticker, day, [open, high, low, close, volume, rsi]) = rows[at];
            let (high, low) = (high.max(low), high.min(low));
            csv += &line([
                format!("2024-01-{day:02}"),
                format!("T{ticker}"),
                format!("{}", f64::from(open) / 8.0),
                format!("{high}"),
                format!("{low}"),
                format!("{close}e-2"),
                format!("{volume}"),
                format!("-{rsi}.5"),
            ]);
        }
        let options = PanelOptions::default();
        let panel = PanelData::from_reader(csv.as_bytes(), &options).unwrap().into_heap();

        let mut tickers: Vec<String> = rows.iter().map(|row| format!("T{}", row.0)).collect();
        let mut dates: Vec<String> =
            rows.iter().map(|row| format!("2024-01-{:02}", row.1)).collect();
        for list in [&mut tickers, &mut dates] {
            list.sort();
            list.dedup();
        }
        prop_assert_eq!(panel.tickers(), &tickers[..]);
        prop_assert_eq!(panel.dates(), &dates[..]);
        prop_assert_eq!(panel.columns(), &names[2..]);
        let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let find = |name: &str| header.iter().position(|&other| other == name).unwrap();
        for (t, ticker) in tickers.iter().enumerate() {
            for (d, date) in dates.iter().enumerate() {
                let cells = csv
                    .lines()
                    .map(|line| line.split(',').collect::<Vec<_>>())
                    .find(|cells| cells[find("tic")] == ticker && cells[find("date")] == date);
                prop_assert_eq!(panel.listed(t, d), cells.is_some());
                for (c, name) in names[2..].iter().enumerate() {
                    let number = |cells: &Vec<&str>| cells[find(name)].parse::<f64>().unwrap();
                    let expected = cells.as_ref().map(number);
                    prop_assert_eq!(panel.value(t, d, c), expected);
                }
            }
        }
    }

    #[test]
    fn any_bytes_give_a_panel_or_an_error(csv in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = load(csv);
    }

    #[test]
    fn any_change_to_a_good_file_gives_a_panel_or_an_error(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let rows = "2024-01-02,VIX,1,2,1,2,10,5\n2024-01-03,A,1,2,1,2,10,5\n";
        let mut csv = format!("{HEADER}{rows}").into_bytes();
        for (at, byte) in flips {
            let at = at.index(csv.len());
            csv[at] = byte;
        }
        let _ = load(csv);
    }
}

#[test]
fn a_day_on_which_every_ticker_lacks_a_number_stays_a_day() {
    // Days without the indicator: the first two, as of a moving average, and one in the middle.
    let lacking = [1, 2, 5];
    let mut csv = HEADER.to_owned();
    for day in 1..=8 {
        for ticker in ["A", "B"] {
            let rsi = if lacking.contains(&day) { "" } else { "50" };
            writeln!(csv, "2024-01-{day:02},{ticker},1,2,1,2,10,{rsi}").unwrap();
        }
    }
    let options = PanelOptions::default().nan(NanPolicy::Mask);
    let panel = PanelData::from_reader(csv.as_bytes(), &options).unwrap().into_heap();
    assert_eq!((panel.days(), panel.dates()[4].as_str()), (8, "2024-01-05"));
    for day in 0..8 {
        assert_eq!(panel.listed(0, day), !lacking.contains(&(day + 1)), "{day}");
    }
    let summary = panel.describe();
    assert_eq!((summary.rows, summary.masked_rows), (10, 6));
    assert_eq!((summary.coverage[0].first_day, summary.coverage[0].missing_days), (Some(2), 1));
}

#[test]
fn volumes_below_zero_are_refused_but_of_macro_tickers() {
    let error = problem(format!("{HEADER}2024-01-02,A,1,2,1,2,-5,0\n"));
    let PanelLoadError::NegativeVolume { ref ticker, value, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((ticker.as_str(), value.to_bits()), ("A", (-5.0_f64).to_bits()));
    for part in ["line 2", "\"volume\"", "-5", "\"A\" a macro ticker"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    load(format!("{HEADER}2024-01-02,VIX,1,2,1,2,-5,0\n")).unwrap();
}

#[test]
fn prices_outside_low_and_high_are_kept_and_counted() {
    let panel = rows(
        "2024-01-02,A,1,2,1,2.5,10,5\n2024-01-03,A,0.5,2,1,2,10,5\n2024-01-04,A,1,2,1,2,10,5\n\
         2024-01-02,B,3,2,1,4,10,5",
    );
    let panel = panel.unwrap();
    assert_eq!(panel.value(0, 0, 3), Some(2.5));
    // The macro ticker's row is not counted, although its close is above its high too.
    assert_eq!((panel.describe().inconsistent_rows, panel.inconsistent_rows()), (3, 3));
}

#[test]
fn files_of_other_shapes_are_known_and_refused_with_what_reads_them() {
    let long = "tic,open,high,low,close,volume\n2024-01-02,A,1,2,1,2,10\n";
    let cases = [
        (
            "Price,Close,High\nTicker,A,A\nDate,,\n".to_owned(),
            "TwoHeaders",
            &["df.stack(level=1).to_csv(path)"][..],
        ),
        (",Close,Close.1\n,AAPL,MSFT\n".to_owned(), "TwoHeaders", &["\"AAPL\""]),
        ("date;tic;open\n2024-01-02;A;1\n".to_owned(), "Separator", &["separator ';'"]),
        ("date\ttic\n".to_owned(), "Separator", &["separator '\\t'"]),
        (format!(",{long}"), "MissingColumns", &["columns {\"\": \"date\"}"]),
        (format!("Unnamed: 0,{long}"), "MissingColumns", &["columns {\"Unnamed: 0\": \"date\"}"]),
        (format!("{HEADER}1704153600,A,1,2,1,2,10,0\n"), "BadDate", &["unit \"s\""]),
        (
            format!("date,time,{long}").replace("02,A", "02,09:30,A"),
            "NoZone",
            &["\"time\"", "America/New_York"],
        ),
        (
            format!(
                "{HEADER}2024-01-02,VIX,1,2,1,2,0,0\n2024-01-02 09:30,A,1,2,1,2,10,0\n\
                 2024-01-02 09:31,A,1,2,1,2,10,0\n"
            ),
            "DuplicateRow",
            &["\"A\"", "2024-01-02"],
        ),
        (format!("{HEADER}2024-01-02,A,\"1,5\",2,1,2,10,0\n"), "NotANumber", &["\"1,5\""]),
    ];
    for (csv, kind, parts) in cases {
        let error = problem(&csv);
        assert!(format!("{error:?}").contains(kind), "{csv:?}: {error:?} is no {kind}");
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    // The remedies that the messages name work.
    let options = PanelOptions::default().separator(b';');
    let text = format!("{HEADER}2024-01-02,A,1,2,1,2,10,0\n").replace(',', ";");
    assert!(PanelData::from_reader(text.as_bytes(), &options).is_ok());
    let options = PanelOptions::default().columns([("", "date")]);
    assert!(PanelData::from_reader(format!(",{long}").as_bytes(), &options).is_ok());
}

#[test]
fn a_folder_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let options = PanelOptions::default();
    for outcome in [
        PanelData::from_csv(folder.path(), &options),
        PanelData::from_parquet(folder.path(), &options),
        PanelData::from_file(folder.path(), &options),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, PanelError::Folder { .. }), "{error:?}");
        assert!(error.to_string().contains("from_frame"), "{error}");
    }
}
