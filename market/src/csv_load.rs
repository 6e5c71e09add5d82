//! Loader of long CSV files: strict, with line and column in every error.

use std::{fs, io::Read, path::Path};

use csv::{ByteRecord, ReaderBuilder};

use crate::{
    assemble::{Assembler, PanelData},
    chunk::{CHUNK_ROWS, Chunk, checked, shown},
    date::clock_nanos,
    error::PanelError,
    header::{ColumnUse, FileHeader, check_separator},
    header_hints::is_two_headers,
    load_error::{FileFormat, NumberProblem, PanelLoadError, RowPlace},
    options::PanelOptions,
};

impl PanelData {
    /// Loads a CSV file. Holds the whole file and the dense panel in memory together.
    pub fn from_csv(path: impl AsRef<Path>, options: &PanelOptions) -> Result<Self, PanelError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| PanelError::reading(path, source))?;
        parse(&bytes, options).map_err(|problem| PanelError::Load {
            path: Some(path.to_owned()),
            problem: Box::new(problem),
        })
    }

    /// Loads CSV from any reader, which is read to its end first.
    pub fn from_reader(mut reader: impl Read, options: &PanelOptions) -> Result<Self, PanelError> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|source| PanelError::Stream { source })?;
        parse(&bytes, options)
            .map_err(|problem| PanelError::Load { path: None, problem: Box::new(problem) })
    }
}

fn parse(bytes: &[u8], options: &PanelOptions) -> Result<PanelData, PanelLoadError> {
    let found = FileFormat::of(bytes);
    if found != FileFormat::Csv {
        return Err(PanelLoadError::Format { found });
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // The parser accepts ragged records, which are reported below with the right line.
    let mut records = Records {
        reader: ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(options.separator.0)
            .from_reader(bytes),
        record: ByteRecord::new(),
        lines: LineCounter { bytes, at: 0, line: 1 },
    };
    let Some(line) = records.next()? else {
        return Err(PanelLoadError::NoRows { masked: 0 });
    };
    let names = records.cells(line)?;
    check_separator(&names, options.separator.0)?;
    let header = match FileHeader::of(names.clone(), options) {
        Ok(header) => header,
        Err(refused) => {
            let second = match records.next()? {
                Some(line) => records.cells(line)?,
                None => Vec::new(),
            };
            return Err(if is_two_headers(&names, &second) {
                PanelLoadError::TwoHeaders { first: names, second }
            } else {
                refused
            });
        }
    };
    let mut chunk = Chunk::new(header.columns.len());
    let mut assembler = Assembler::new(header, options, RowPlace::Line);
    loop {
        let read = records.next().and_then(|line| match line {
            Some(line) => push_row(&records.record, line, &mut assembler, &mut chunk).map(Some),
            None => Ok(None),
        });
        if !matches!(read, Ok(Some(()))) || chunk.places.len() == CHUNK_ROWS {
            // Reports errors in earlier rows first.
            assembler.push(&mut chunk)?;
        }
        if read?.is_none() {
            return assembler.finish();
        }
    }
}

struct Records<'a> {
    reader: csv::Reader<&'a [u8]>,
    record: ByteRecord,
    lines: LineCounter<'a>,
}

impl Records<'_> {
    /// Returns the cells of the current record, which is on `line`.
    fn cells(&self, line: u64) -> Result<Vec<String>, PanelLoadError> {
        let cells = 0..self.record.len();
        cells.map(|at| text(&self.record, at, line).map(str::to_owned)).collect()
    }

    /// Reads the next record and returns its line; `None` at the end.
    fn next(&mut self) -> Result<Option<u64>, PanelLoadError> {
        let start = usize::try_from(self.reader.position().byte()).unwrap_or(usize::MAX);
        let more = self.reader.read_byte_record(&mut self.record);
        let line = self.lines.line_of_record(start);
        match more {
            Ok(more) => Ok(more.then_some(line)),
            Err(error) => Err(PanelLoadError::Syntax { line, message: error.to_string() }),
        }
    }
}

/// Adds a record to the chunk. Fails, and adds nothing, if the number of cells is wrong or a cell
/// of a used column is not UTF-8.
fn push_row(
    record: &ByteRecord,
    line: u64,
    assembler: &mut Assembler<'_>,
    chunk: &mut Chunk,
) -> Result<(), PanelLoadError> {
    let expected = assembler.header().uses.len();
    if record.len() != expected {
        let names = &assembler.header().names;
        let column = names.get(record.len()).or(names.last()).cloned().unwrap_or_default();
        return Err(PanelLoadError::Ragged { line, column, expected, found: record.len() });
    }
    // The usual case: all cells are ASCII, which one test shows.
    let plain = str::from_utf8(record.as_slice()).ok().filter(|cells| cells.is_ascii());
    for at in 0..expected {
        if plain.is_none() && assembler.header().uses[at] != ColumnUse::Ignored {
            text(record, at, line)?;
        }
    }
    for at in 0..expected {
        let what = assembler.header().uses[at];
        let cell = match plain.and_then(|cells| cells.get(record.range(at)?)) {
            Some(cell) => cell.trim_ascii(),
            None if what == ColumnUse::Ignored => "",
            None => text(record, at, line)?,
        };
        let owned = || shown(cell);
        match what {
            ColumnUse::Ignored => {}
            ColumnUse::Date => chunk.push_day(at, assembler.header().times.day_of(cell), owned),
            ColumnUse::Clock => chunk.push_clock(at, clock_nanos(cell), owned),
            ColumnUse::Timestamp => {
                chunk.push_time(at, assembler.header().times.instant_of(cell), owned);
            }
            ColumnUse::Ticker => chunk.push_ticker(at, cell, &mut assembler.tickers),
            ColumnUse::Value(column) => chunk.push_number(at, column, number(cell), owned),
        }
    }
    chunk.places.push(line);
    Ok(())
}

/// Returns a cell without the ASCII whitespace around it. Refuses bytes that are not UTF-8.
fn text(record: &ByteRecord, at: usize, line: u64) -> Result<&str, PanelLoadError> {
    str::from_utf8(record[at].trim_ascii())
        .map_err(|_| PanelLoadError::NotUtf8 { line, column: at + 1 })
}

fn number(cell: &str) -> Result<f64, NumberProblem> {
    if matches!(cell, "" | "NA" | "N/A" | "null" | "NULL" | "None") {
        return Err(NumberProblem::Missing);
    }
    let value = cell.parse().map_err(|_| NumberProblem::NotANumber)?;
    checked(value).map_err(|problem| match problem {
        // A decimal too large for f64 parses as infinity. It has digits, unlike the word.
        NumberProblem::Infinite if cell.bytes().any(|byte| byte.is_ascii_digit()) => {
            NumberProblem::TooLarge
        }
        problem => problem,
    })
}

/// Counter of lines by byte position, since the parser's count is wrong after CRLF and blank lines.
struct LineCounter<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// Returns the line of the first cell at or after byte `start`, which must not decrease.
    fn line_of_record(&mut self, start: usize) -> u64 {
        // The usual case: lines end with a single byte, and many are counted together.
        if let Some(passed) =
            self.bytes.get(self.at..start).filter(|passed| !passed.contains(&b'\r'))
        {
            self.line += passed.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
            self.at = start;
        }
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
