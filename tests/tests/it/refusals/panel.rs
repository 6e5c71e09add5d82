//! Invalid market data, and windows that a panel cannot serve.

use std::fs;

use backcast_core::Exist;
use backcast_market::{Panel, PanelData, PanelError, PanelOptions};

use crate::refusals::stage::{Stage, csv, macros, prices};
use crate::refusals::{Refusal, Row, refusal, row};

pub(crate) const ROWS: &[Row] = &[
    row(
        "a file that is not there",
        |s| refusal(PanelData::from_csv(s.file("none.csv"), &macros())),
        "Read",
        &["none.csv", "No such file", "path"],
    ),
    row("a file without rows", |_| text("date,tic\n"), "", &["header"]),
    row(
        "a header without its columns",
        |_| text("Date,tic,open,high,low,close\n2024-01-01,A,1,1,1,1\n"),
        "MissingColumns",
        &["\"date\", \"volume\"", "\"Date\"", "case-sensitive"],
    ),
    row(
        "a doubled header",
        |_| text("date,tic,open,high,low,close,volume,open\n2024-01-01,A,1,1,1,1,1,1\n"),
        "DuplicateColumn",
        &["3 and 8", "\"open\"", "rename"],
    ),
    row("a short line", |_| line("2024-02-01,AAA,1,2"), "Ragged", &["line 22", "4", "8"]),
    row(
        "text for a number",
        |_| line("2024-02-01,AAA,1,2,1,n/a,1,1"),
        "BadNumber",
        &["line 22", "\"close\"", "\"n/a\"", "drop the row"],
    ),
    row(
        "NaN for a number",
        |_| line("2024-02-01,AAA,1,2,1,2,1,nan"),
        "BadNumber",
        &["\"rsi\"", "is NaN", "mask"],
    ),
    row(
        "a price of nothing",
        |_| line("2024-02-01,AAA,0,2,1,2,1,1"),
        "PriceNotPositive",
        &["\"open\"", "price 0", "\"AAA\"", "macro"],
    ),
    row(
        "a price that single precision does not have",
        |_| line("2024-02-01,AAA,1,2,1e-50,2,1,1"),
        "PriceTooSmall",
        &["\"low\"", "price 1e-50", "\"AAA\"", "least price is 1e-45", "macro"],
    ),
    row(
        "a high below its low",
        |_| line("2024-02-01,AAA,1,1,2,1,1,1"),
        "HighBelowLow",
        &["high 1", "low 2", "correct or drop"],
    ),
    row(
        "a volume below zero",
        |_| line("2024-02-01,AAA,1,2,1,2,-5,1"),
        "NegativeVolume",
        &["line 22", "volume -5", "\"AAA\"", "drop the row"],
    ),
    row(
        "semicolons",
        |_| text("date;tic;open\n"),
        "Separator",
        &["separated by ';'", "separator ';'"],
    ),
    row(
        "a header of fields over one of tickers",
        |_| text("Price,Close,High\nTicker,AAPL,AAPL\n"),
        "TwoHeaders",
        &["two header rows", "long form", "columns {"],
    ),
    row(
        "a folder",
        |s| refusal(PanelData::from_csv(s.file("none.csv").parent().unwrap(), &macros())),
        "Folder",
        &["is a folder", "one file"],
    ),
    row(
        "a date of another country",
        |_| line("01/02/2024,AAA,1,2,1,2,1,1"),
        "BadDate",
        &["\"01/02/2024\"", "YYYY-MM-DD"],
    ),
    row("an empty ticker", |_| line("2024-02-01,,1,2,1,2,1,1"), "BadTicker", &["\"\"", "tic"]),
    row(
        "a day twice",
        |_| line("2024-01-05,AAA,1,2,1,2,1,1"),
        "DuplicateRow",
        &["line 10 and line 22", "\"tic\"", "\"AAA\"", "keep one"],
    ),
    row(
        "a macro ticker without rows",
        |_| {
            let options = PanelOptions::default().macro_tickers(["VXI"]);
            load(csv("").as_bytes(), &options)
        },
        "UnknownMacroTicker",
        &["\"VXI\"", "\"VIX\"", "correct"],
    ),
    row(
        "a panel under a bad name",
        |s| refusal(prices("").share("a/b", &s.base, Exist::Error, false)),
        "Segment(BadName",
        &["`a/b`", "1 to 100"],
    ),
    row(
        "a panel that is not there",
        |s| refusal(Panel::attach_in(&s.base, "pong")),
        "Segment(NotFound",
        &["panel", "`pong`", "backcast ls"],
    ),
    row(
        "a panel of other bytes",
        |s| refusal(Panel::attach_in(&s.base, "torn")),
        "",
        &["torn", "remove"],
    )
    .given(|s| {
        let panel = prices("").share("torn", &s.base, Exist::Error, true).unwrap();
        let folder = panel.path().unwrap().to_owned();
        drop(panel);
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            fs::write(path, vec![b'x'; bytes.len()]).unwrap();
        }
    }),
    row(
        "a day before the panel",
        |s| windows(s, &[-1], &[1]),
        "BadDay",
        &["days[0] is -1", "0 to 9"],
    ),
    row("a day after the panel", |s| windows(s, &[9, 10], &[1, 1]), "BadDay", &["days[1]", "10"]),
    row(
        "a token of nobody",
        |s| windows(s, &[0], &[3]),
        "BadToken",
        &["tokens[0] is 3", "0 (<CASH>)"],
    ),
    row(
        "a history of many panels",
        |s| refusal(s.panel.window_shape(1, 1, 4_137, 0)),
        "TooLong",
        &["`history` is 4137 days", "has 10", "at most 4136"],
    ),
    row(
        "a future of many panels",
        |s| refusal(s.panel.window_shape(1, 1, 4_136, usize::MAX)),
        "TooLong",
        &["`future` is", "at most 4136"],
    ),
    row("tokens left out", |s| windows(s, &[0, 1], &[1]), "BadLength", &["`tokens`", "1", "2"]),
];

fn text(csv: &str) -> Option<Refusal> {
    load(csv.as_bytes(), &macros())
}

/// Returns the refusal of a CSV file.
fn load(csv: &[u8], options: &PanelOptions) -> Option<Refusal> {
    let outcome = PanelData::from_reader(csv, options);
    if let Err(PanelError::Load { problem, .. }) = outcome {
        return refusal::<(), _>(Err(problem));
    }
    refusal(outcome)
}

/// Returns the refusal of a file that is valid but for line 22.
fn line(more: &str) -> Option<Refusal> {
    text(&csv(&format!("{more}\n")))
}

fn windows(stage: &Stage, days: &[i64], tokens: &[i64]) -> Option<Refusal> {
    let plan = stage.panel.window_shape(days.len(), 1, 2, 1).unwrap();
    let (mut arena, mut mask) = (vec![7.0; plan.arena_len()], vec![true; plan.mask_len()]);
    let outcome = stage.panel.windows_into(days, tokens, 1, 2, 1, &mut arena, &mut mask);
    let untouched = (vec![7.0; plan.arena_len()], vec![true; plan.mask_len()]);
    assert_eq!((arena, mask), untouched, "written to");
    refusal(outcome)
}
