//! CSV files from a real writer, with edits of cells, lines and header, then of bytes.

use backcast_market::PanelOptions;
use csv::{Terminator, WriterBuilder};
use rand::{RngExt, seq::IndexedRandom};

use super::{
    bytes,
    dice::Dice,
    panel_files::{Case, options},
};

/// Texts that people and programs write into cells.
const CELLS: &[&str] = &[
    "",
    " ",
    "NaN",
    "nan",
    "-nan",
    "inf",
    "-Infinity",
    "1e999",
    "1e39",
    "1e-60",
    "0",
    "-0",
    "-5",
    "NA",
    "null",
    "None",
    "1,5",
    "1.5.2",
    "0x10",
    "1_000",
    "+7",
    ".5",
    "5.",
    "1e5",
    "true",
    "<CASH>",
    "\"",
    "a\nb",
    "2024-02-30",
    "2024-1-2",
    "20240102",
    "2024-01-02T00:00:00Z",
    "0000-00-00",
    "١٢٣",
    "\u{0}",
    "99999999999999999999999999",
    "T0",
];
const NAMES: &[&str] = &[
    "",
    "date",
    "Date",
    "tic",
    "open",
    "close",
    "rsi",
    "day",
    "Unnamed: 0",
    "__index_level_0__",
    "macd",
    "\"",
    "open ",
    "volume\n",
];

/// Returns a file with up to two edits of its cells and some of its bytes.
///
/// # Panics
/// Never: the file is written in memory.
pub fn case(dice: &mut Dice) -> Case {
    let mut mutations = Vec::new();
    let mut records = records(dice);
    let options = if dice.random_ratio(1, 8) { PanelOptions::default() } else { options(dice) };
    let plain = options == PanelOptions::default();
    if !plain {
        mutations.push("options".to_owned());
        if dice.random_ratio(1, 16) {
            records.truncate(1);
        }
    }
    for _ in 0..dice.random_range(0..3) {
        mutations.push(edit(&mut records, dice));
    }
    let mut bytes = write(&records, dice);
    if dice.random_ratio(1, 200) {
        bytes.splice(0..0, *b"PAR1");
        mutations.push("another format's magic".to_owned());
    }
    if dice.random_ratio(1, 3) {
        let other = write(&self::records(dice), dice);
        for _ in 0..dice.random_range(1..4) {
            mutations.push(bytes::mutate(&mut bytes, &other, 0..60, dice));
        }
    }
    Case { bytes, options, mutations }
}

/// Returns the header and the rows of a panel.
fn records(dice: &mut Dice) -> Vec<Vec<String>> {
    let names = ["date", "tic", "open", "high", "low", "close", "volume", "rsi"];
    let mut records = vec![names.map(str::to_owned).to_vec()];
    let (tickers, days) = (dice.random_range(1..4), dice.random_range(1..8));
    for day in 1..=days {
        for ticker in 0..tickers {
            let mut number = || format!("{:.3}", dice.random_range(10.0..20.0));
            let (open, close, rsi) = (number(), number(), number());
            let cells = [
                format!("2024-01-{day:02}"),
                format!("T{ticker}"),
                open,
                "25.5".to_owned(),
                "5".to_owned(),
                close,
                "1000".to_owned(),
                rsi,
            ];
            records.push(cells.to_vec());
        }
    }
    records
}

fn edit(records: &mut Vec<Vec<String>>, dice: &mut Dice) -> String {
    let row = dice.random_range(0..records.len());
    let column = dice.random_range(0..records[0].len().max(1));
    match dice.random_range(0..12) {
        0..=5 => {
            let text = CELLS.choose(dice).unwrap_or(&"");
            if let Some(cell) = records[row].get_mut(column) {
                (*text).clone_into(cell);
            }
            format!("{text:?} in record {row}, cell {column}")
        }
        6 | 7 => {
            let name = NAMES.choose(dice).unwrap_or(&"");
            if let Some(cell) = records[0].get_mut(column) {
                (*name).clone_into(cell);
            }
            format!("column {column} called {name:?}")
        }
        8 => {
            records[row].truncate(column);
            format!("record {row} cut to {column} cells")
        }
        9 => {
            records[row].push("1".to_owned());
            format!("a cell more in record {row}")
        }
        10 => {
            let again = records[row].clone();
            records.push(again);
            format!("record {row} again at the end")
        }
        _ => {
            let other = dice.random_range(0..records[0].len().max(1));
            for record in &mut *records {
                if column.max(other) < record.len() {
                    record.swap(column, other);
                }
            }
            format!("columns {column} and {other} swapped")
        }
    }
}

fn write(records: &[Vec<String>], dice: &mut Dice) -> Vec<u8> {
    let terminator = if dice.random() { Terminator::CRLF } else { Terminator::Any(b'\n') };
    let mut writer =
        WriterBuilder::new().flexible(true).terminator(terminator).from_writer(Vec::new());
    for record in records {
        writer.write_record(record).expect("in memory");
    }
    writer.into_inner().expect("in memory")
}
