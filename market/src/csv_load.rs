//! From a long CSV to a panel in private memory: strict, with line and column in every refusal.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::Read,
    path::Path,
};

use backcast_layout::{Base, Exist};
use csv::{ByteRecord, ReaderBuilder, Trim};

use crate::{
    blocks::{Geometry, MAX_VALUES, mark_listed},
    date::is_calendar_date,
    error::{NumberProblem, PanelError},
    meta::Meta,
    panel::{CASH, Panel, PriceColumn},
};

/// How to read a CSV.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvOptions {
    macro_tickers: BTreeSet<String>,
}

impl CsvOptions {
    /// Tickers that are shown but never traded, such as an index or a volatility series.
    ///
    /// Their values may be zero or negative. Each must have at least one row.
    #[must_use]
    pub fn macro_tickers<I: IntoIterator<Item: Into<String>>>(mut self, tickers: I) -> Self {
        self.macro_tickers = tickers.into_iter().map(Into::into).collect();
        self
    }
}

/// A panel in private memory, not yet readable: share it or keep it.
///
/// # What a file must look like
///
/// UTF-8 (a byte-order mark and CRLF are fine), comma-separated, a header, one row per `(date, tic)`
/// in any order. Blanks around a cell are dropped.
/// - `date`: calendar days as `YYYY-MM-DD`; the day index is the rank among all dates, from 0.
/// - `tic`: any text but the empty one and `<CASH>`; tickers are sorted by their bytes.
/// - `open`, `high`, `low`, `close`, `volume`: finite numbers, `high >= low`; the four prices of a
///   ticker that is not a macro one are above 0.
/// - Columns called `day` or `day_idx`, without a name, or named `Unnamed: ...` (a pandas index) are
///   ignored, whatever they hold. Every other column is an indicator of finite numbers, in file order.
///
/// A pair `(date, tic)` without a row (a late listing, a gap) is masked. There are no silent repairs:
/// an empty or non-finite cell, a duplicate row or a ragged line is an error that names its line.
#[derive(Clone, Debug)]
pub struct PanelData {
    meta: Meta,
    values: Vec<f64>,
    singles: Vec<f32>,
    listed: Vec<u64>,
}

impl PanelData {
    /// Load a file. Cost: the whole file and the dense panel are in memory at once.
    pub fn from_csv(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Self, PanelError> {
        let path = path.as_ref();
        let bytes =
            fs::read(path).map_err(|source| PanelError::Read { path: path.to_owned(), source })?;
        parse(&bytes, options)
    }

    /// Load from any reader, read to its end first.
    pub fn from_reader(mut reader: impl Read, options: &CsvOptions) -> Result<Self, PanelError> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|source| PanelError::Stream { source })?;
        parse(&bytes, options)
    }

    /// Publish the panel under `name`, for every process on this machine to attach.
    ///
    /// With [`Exist::Attach`] an equal panel that is already there is attached instead; a different
    /// one of that name is an error. Equal means all of it: the description carries a hash of the data.
    pub fn share(
        self,
        name: &str,
        base: &Base,
        exist: Exist,
        persistent: bool,
    ) -> Result<Panel, PanelError> {
        Panel::share(&self.meta, self.parts(), name, base, exist, persistent)
    }

    /// Keep the panel in this process.
    #[must_use]
    pub fn into_heap(self) -> Panel {
        Panel::heap(&self.meta, self.parts())
    }

    fn parts(&self) -> [&[u8]; 3] {
        [
            bytemuck::cast_slice(&self.values),
            bytemuck::cast_slice(&self.singles),
            bytemuck::cast_slice(&self.listed),
        ]
    }

    fn from_rows(
        columns: Vec<String>,
        rows: Rows,
        options: &CsvOptions,
    ) -> Result<Self, PanelError> {
        let (tickers, ticker_ranks) = rows.tickers.sorted();
        let (dates, date_ranks) = rows.dates.sorted();
        let missing: Vec<String> = options
            .macro_tickers
            .iter()
            .filter(|name| tickers.binary_search(name).is_err())
            .cloned()
            .collect();
        if !missing.is_empty() {
            return Err(PanelError::UnknownMacroTicker { missing, found: tickers });
        }
        let too_large = |limit| PanelError::TooLarge {
            tickers: tickers.len(),
            days: dates.len(),
            columns: columns.len(),
            limit,
        };
        let geometry = Geometry::new(tickers.len(), dates.len(), columns.len())
            .ok_or_else(|| too_large(MAX_VALUES))?;
        let (mut values, mut singles) = (Vec::new(), Vec::new());
        let mut listed = vec![0_u64; geometry.listed_words()];
        let mut lines = Vec::new();
        let cells = geometry.tickers * geometry.days;
        // A sparse file can ask for far more than it holds: out of memory is an answer, not an abort.
        if values.try_reserve_exact(geometry.values()).is_err()
            || singles.try_reserve_exact(geometry.values()).is_err()
            || lines.try_reserve_exact(cells).is_err()
        {
            return Err(too_large(rows.values.len() as u64));
        }
        values.resize(geometry.values(), 0.0);
        singles.resize(geometry.values(), 0.0);
        lines.resize(cells, 0_u64);

        for (row, cells) in rows.keys.iter().zip(rows.values.chunks_exact(columns.len())) {
            let (ticker, day) = (ticker_ranks[row.ticker], date_ranks[row.date]);
            let line = &mut lines[ticker * geometry.days + day];
            if *line != 0 {
                return Err(PanelError::DuplicateRow {
                    ticker: tickers[ticker].clone(),
                    date: dates[day].clone(),
                    first_line: *line,
                    second_line: row.line,
                });
            }
            *line = row.line;
            let start = geometry.row(ticker, day);
            values[start..start + cells.len()].copy_from_slice(cells);
            for (single, &value) in singles[start..].iter_mut().zip(cells) {
                *single = to_single(value);
            }
            let stride = geometry.listed_stride();
            mark_listed(&mut listed[ticker * stride..(ticker + 1) * stride], day);
        }
        let is_macro = tickers.iter().map(|name| options.macro_tickers.contains(name)).collect();
        let meta = Meta::new(tickers, is_macro, dates, columns, &values, &listed);
        Ok(Self { meta, values, singles, listed })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what the copy is for")]
fn to_single(value: f64) -> f32 {
    value as f32
}

/// What a column of the file is for.
enum Use {
    Date,
    Ticker,
    /// Position among the panel's columns.
    Value(usize),
    Ignored,
}

/// The header, understood.
struct Header {
    uses: Vec<Use>,
    /// Names of the panel's columns: the five prices, then indicators in file order.
    columns: Vec<String>,
}

impl Header {
    fn parse(record: &ByteRecord, line: u64) -> Result<Self, PanelError> {
        let names =
            (0..record.len()).map(|at| text(record, at, line)).collect::<Result<Vec<_>, _>>()?;
        let mut columns: Vec<String> =
            PriceColumn::ALL.iter().map(|column| column.name().to_owned()).collect();
        let mut seen = HashMap::new();
        let mut uses = Vec::with_capacity(names.len());
        for (at, &name) in names.iter().enumerate() {
            if is_ignored(name) {
                uses.push(Use::Ignored);
                continue;
            }
            if let Some(first) = seen.insert(name, at + 1) {
                return Err(PanelError::DuplicateColumn {
                    name: name.to_owned(),
                    first,
                    second: at + 1,
                });
            }
            uses.push(match name {
                "date" => Use::Date,
                "tic" => Use::Ticker,
                _ => {
                    let column = columns.iter().position(|column| column == name);
                    // Duplicates were refused, so a name that is known is one of the five.
                    Use::Value(column.unwrap_or_else(|| {
                        columns.push(name.to_owned());
                        columns.len() - 1
                    }))
                }
            });
        }
        let missing: Vec<String> = ["date", "tic"]
            .into_iter()
            .chain(PriceColumn::ALL.iter().map(|column| column.name()))
            .filter(|name| !seen.contains_key(name))
            .map(str::to_owned)
            .collect();
        if !missing.is_empty() {
            let found = names.into_iter().map(str::to_owned).collect();
            return Err(PanelError::MissingColumns { missing, found });
        }
        Ok(Self { uses, columns })
    }
}

fn is_ignored(name: &str) -> bool {
    matches!(name, "" | "day" | "day_idx") || name.starts_with("Unnamed:")
}

/// Rows in file order, with texts numbered as they first appeared.
#[derive(Default)]
struct Rows {
    tickers: Names,
    dates: Names,
    keys: Vec<RowKey>,
    /// Row after row, in panel column order.
    values: Vec<f64>,
}

struct RowKey {
    ticker: usize,
    date: usize,
    line: u64,
}

/// Distinct texts, numbered by first appearance.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.0.get(name) {
            return number;
        }
        let number = self.0.len();
        self.0.insert(name.to_owned(), number);
        number
    }

    /// The texts sorted by their bytes, and for each number its rank.
    fn sorted(self) -> (Vec<String>, Vec<usize>) {
        let mut numbered: Vec<(String, usize)> = self.0.into_iter().collect();
        numbered.sort_unstable();
        let mut ranks = vec![0; numbered.len()];
        for (rank, (_, number)) in numbered.iter().enumerate() {
            ranks[*number] = rank;
        }
        (numbered.into_iter().map(|(name, _)| name).collect(), ranks)
    }
}

fn parse(bytes: &[u8], options: &CsvOptions) -> Result<PanelData, PanelError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // Ragged records are let through to be reported in our words, with the right line.
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(bytes);
    let mut lines = LineCounter { bytes, at: 0, line: 1 };
    let mut record = ByteRecord::new();
    let mut header: Option<Header> = None;
    let mut rows = Rows::default();
    loop {
        let start = usize::try_from(reader.position().byte()).unwrap_or(bytes.len());
        let more = reader.read_byte_record(&mut record);
        let line = lines.line_of_record(start);
        let more = more.map_err(|error| PanelError::Syntax { line, message: error.to_string() })?;
        match &header {
            _ if !more => break,
            None => header = Some(Header::parse(&record, line)?),
            Some(header) => read_row(&record, line, header, options, &mut rows)?,
        }
    }
    match header {
        Some(header) if !rows.keys.is_empty() => {
            PanelData::from_rows(header.columns, rows, options)
        }
        header => Err(PanelError::NoRows { lines: header.map_or(0, |_| 1) }),
    }
}

fn read_row(
    record: &ByteRecord,
    line: u64,
    header: &Header,
    options: &CsvOptions,
    rows: &mut Rows,
) -> Result<(), PanelError> {
    if record.len() != header.uses.len() {
        return Err(PanelError::Ragged { line, expected: header.uses.len(), found: record.len() });
    }
    let start = rows.values.len();
    rows.values.resize(start + header.columns.len(), 0.0);
    let (mut ticker, mut date) = ("", "");
    for (at, what) in header.uses.iter().enumerate() {
        match what {
            Use::Ignored => {}
            Use::Date => date = text(record, at, line)?,
            Use::Ticker => ticker = text(record, at, line)?,
            Use::Value(column) => {
                let cell = text(record, at, line)?;
                rows.values[start + column] =
                    number(cell).map_err(|problem| PanelError::BadNumber {
                        line,
                        column: header.columns[*column].clone(),
                        text: cell.to_owned(),
                        problem,
                    })?;
            }
        }
    }
    if !is_calendar_date(date) {
        return Err(PanelError::BadDate { line, text: date.to_owned() });
    }
    if ticker.is_empty() || ticker == CASH {
        return Err(PanelError::BadTicker { line, text: ticker.to_owned() });
    }
    check_prices(&rows.values[start..], line, ticker, options.macro_tickers.contains(ticker))?;
    let (ticker, date) = (rows.tickers.number(ticker), rows.dates.number(date));
    rows.keys.push(RowKey { ticker, date, line });
    Ok(())
}

fn check_prices(row: &[f64], line: u64, ticker: &str, is_macro: bool) -> Result<(), PanelError> {
    use PriceColumn::{Close, High, Low, Open};
    for column in [Open, High, Low, Close] {
        let value = row[column as usize];
        // In the 32-bit copy too: there a price of 0 would read as "no row".
        if !is_macro && to_single(value) <= 0.0 {
            return Err(PanelError::PriceNotPositive {
                line,
                column: column.name().to_owned(),
                ticker: ticker.to_owned(),
                value,
            });
        }
    }
    let (high, low) = (row[High as usize], row[Low as usize]);
    if high < low {
        return Err(PanelError::HighBelowLow { line, ticker: ticker.to_owned(), high, low });
    }
    Ok(())
}

fn text(record: &ByteRecord, at: usize, line: u64) -> Result<&str, PanelError> {
    str::from_utf8(&record[at]).map_err(|_| PanelError::NotUtf8 { line, column: at + 1 })
}

fn number(cell: &str) -> Result<f64, NumberProblem> {
    if cell.is_empty() {
        return Err(NumberProblem::Empty);
    }
    let value: f64 = cell.parse().map_err(|_| NumberProblem::NotANumber)?;
    if !value.is_finite() {
        // A decimal too large for f64 parses as infinity; the word itself has no digit.
        let digits = cell.bytes().any(|byte| byte.is_ascii_digit());
        return Err(if digits { NumberProblem::TooLarge } else { NumberProblem::NotFinite });
    }
    if to_single(value).is_finite() { Ok(value) } else { Err(NumberProblem::TooLarge) }
}

/// Line numbers from byte positions: the parser's own count is one short after CRLF and blank lines.
struct LineCounter<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// The line of the first cell at or after byte `start`; `start` never goes back.
    fn line_of_record(&mut self, start: usize) -> u64 {
        while let Some(&byte) = self.bytes.get(self.at) {
            if self.at >= start && !matches!(byte, b'\r' | b'\n') {
                break;
            }
            let ends_line = match byte {
                b'\n' => true,
                b'\r' => self.bytes.get(self.at + 1) != Some(&b'\n'),
                _ => false,
            };
            self.line += u64::from(ends_line);
            self.at += 1;
        }
        self.line
    }
}
