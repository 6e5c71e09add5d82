//! `backcast panel stat` on files: its output, its refusals, and that it leaves nothing behind.

use crate::shelf::{PRICES, Shelf};
use serde_json::{Value, json};

const GAPS: &str = "\
Date,tic,open,high,low,close,volume,sector,rsi
2024-01-02 00:00:00-05:00,A,10,11,9.5,10.5,1000,x,50
2024-01-03,A,10,11,8.25,10.5,1000,x,
2024-01-04,A,10,12,9.5,10.5,1000,x,52
2024-01-03,VIX,13,99,-1,13,0,x,1
2024-01-04,VIX,13,99,-1,13,0,x,1
";

#[test]
fn a_file_is_described_ticker_by_ticker_and_nothing_is_created() {
    let shelf = Shelf::new();
    let file = shelf.file("gaps.txt", GAPS);
    let args = ["panel", "stat", &file, "--nan", "mask", "--macro", "VIX", "--columns"];
    let args = [&args[..], &["Date=date,sector="]].concat();
    let found = &shelf.json(&args)[0];
    assert_eq!(found["columns"], json!(["open", "high", "low", "close", "volume", "rsi"]));
    assert_eq!(found["tickers"], json!(["A", "VIX"]));
    assert_eq!(found["macro_tickers"], json!(["VIX"]));
    // The row without a number is missing, so its low is not among the prices.
    assert_eq!((&found["rows"], &found["masked_rows"]), (&json!(4), &json!(2)));
    assert_eq!((&found["min_price"], &found["max_price"]), (&json!(9.5), &json!(12.0)));
    let expected = json!({
        "ticker": "A",
        "is_macro": false,
        "rows": 2,
        "first_day": 0,
        "last_day": 2,
        "first_date": "2024-01-02",
        "last_date": "2024-01-04",
        "missing_days": 1,
        "min_price": 9.5,
        "max_price": 12.0,
    });
    assert_eq!(found["coverage"][0], expected);
    assert_eq!(found["coverage"][1]["first_date"], Value::from("2024-01-03"));

    let table = shelf.run(&args).expect(0);
    for text in [
        "gaps.txt",
        "3: 2024-01-02 .. 2024-01-04",
        "1 tradable, 1 macro",
        "4, 66% of all days and tickers",
        "days missing: 1 (in tickers: 1); begin late: 1; end early: 0",
        "9.50 .. 12.00",
        "TICKER",
        "MISSING",
        "macro",
    ] {
        assert!(table.out.contains(text), "`{text}` is missing:\n{}", table.out);
    }
    assert!(table.err.is_empty(), "{}", table.err);
    assert_eq!(shelf.states(), [], "nothing is shared");
    assert!(!shelf.base().path().exists(), "nor is the place for it made");
}

#[test]
fn a_shared_panel_and_the_file_it_came_from_are_described_alike() {
    let shelf = Shelf::stocked();
    let file = shelf.file("prices.csv", PRICES);
    let mut shared = shelf.json(&["panel", "stat", "prices"]).remove(0);
    let mut read = shelf.json(&["panel", "stat", &file, "--macro", "VIX"]).remove(0);
    assert_eq!((&shared["state"], &shared["name"]), (&json!("idle"), &json!("prices")));
    assert_eq!((&read["state"], &read["path"]), (&Value::Null, &json!(file)));
    for report in [&mut shared, &mut read] {
        for key in ["name", "path", "state", "persistent"] {
            report[key].take();
        }
    }
    assert_eq!(shared, read);
}

#[test]
fn a_file_that_is_no_panel_is_refused_with_its_place() {
    let shelf = Shelf::new();
    let file = shelf.file("gaps.csv", GAPS);
    let renames = ["--columns", "Date=date,sector="];
    for (more, status, says) in [
        (&[][..], 1, &["gaps.csv", "\"date\"", "\"Date\""][..]),
        (&["--columns", "Date=date"], 1, &["line 2", "\"sector\"", "\"x\""]),
        (&renames, 1, &["line 3", "\"rsi\"", "nan = \"mask\""]),
        (&["--columns", "Day=date"], 2, &["\"Day\""]),
        (&[&renames[..], &["--nan", "mask"]].concat(), 1, &["line 5", "\"low\"", "macro ticker"]),
        (&[&renames[..], &["--nan", "mask", "--macro", "VIX,SPY"]].concat(), 2, &["\"SPY\""]),
    ] {
        let ran = shelf.run(&[&["panel", "stat", &file], more].concat()).expect(status);
        assert!(ran.out.is_empty(), "{}", ran.out);
        for text in says {
            assert!(ran.err.contains(text), "`{text}` is missing: {}", ran.err);
        }
    }
    let cut = shelf.file("cut.csv", "PAR1 and no more");
    let ran = shelf.run(&["panel", "stat", &cut]).expect(1);
    assert!(ran.err.contains("damaged"), "{}", ran.err);
}

#[test]
fn a_file_of_bars_is_described_in_bars() {
    let shelf = Shelf::new();
    let file = shelf.file("bars.csv", "open_time,close\n0,1\n60000,2\n120000,3\n");
    let args = ["panel", "stat", &file, "--columns", "open_time=timestamp", "--unit", "ms"];
    let args = [&args[..], &["--ticker", "BTC", "--derive", "open,high,low,volume"]].concat();
    let found = &shelf.json(&args)[0];
    assert_eq!((&found["calendar"], &found["days"]), (&json!("bars"), &json!(3)));
    assert_eq!(found["last_date"], json!("1970-01-01T00:02:00Z"));
    assert_eq!((&found["rows"], &found["tickers"]), (&json!(2), &json!(["BTC"])));
    let table = shelf.run(&args).expect(0);
    for text in ["bars", "3: 1970-01-01T00:00:00Z .. 1970-01-01T00:02:00Z", "FIRST BAR"] {
        assert!(table.out.contains(text), "`{text}` is missing:\n{}", table.out);
    }
    // Loading warns of the year, and of a unit that may be wrong.
    for text in ["warning: ", "bars_per_year", "`unit`"] {
        assert!(table.err.contains(text), "`{text}` is missing:\n{}", table.err);
    }
    let stamps = shelf.file("seconds.csv", "timestamp,close\n1704067200,1\n1704153600,2\n");
    let args = ["panel", "stat", &stamps, "--ticker", "BTC", "--derive", "open,high,low,volume"];
    let warned = shelf.run(&[&args[..], &["--unit", "ms"]].concat()).expect(0);
    assert!(warned.err.contains("set `unit` to \"s\""), "{}", warned.err);
    let right = shelf.run(&[&args[..], &["--unit", "s"]].concat()).expect(0);
    assert!(!right.err.contains("`unit`"), "{}", right.err);
    // A zone does not say the unit of numbers since 1970.
    let refused = shelf.run(&[&args[..], &["--zone", "UTC"]].concat()).expect(1);
    assert!(refused.err.contains("set the unit"), "{}", refused.err);
}
