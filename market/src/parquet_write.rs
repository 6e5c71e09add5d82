//! Writes prices and indicators as a Parquet file that [`PanelData::from_parquet`] reads.
//!
//! [`PanelData::from_parquet`]: crate::PanelData::from_parquet

use std::{
    io::{self, Write},
    ops::Range,
    sync::Arc,
};

use arrow_array::{ArrayRef, Date32Array, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};
use thiserror::Error;

use crate::{date::Date, symbols::PriceColumn};

/// Prices and indicators of one ticker on consecutive calendar days.
#[derive(Clone, Copy, Debug)]
pub struct TickerDays<'a> {
    /// Ticker.
    pub ticker: &'a str,
    /// First day, in days since 1970-01-01.
    pub first_day: i32,
    /// Open, high, low, close, volume, then the indicators of the file; one value a day each.
    pub columns: &'a [Vec<f64>],
}

/// Rows that a panel file cannot take, or a file that cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum PanelWriteError {
    /// Another number of columns than the file has.
    #[error(
        "`{ticker}` has {given} columns, but the file has {expected}; give one vector for each"
    )]
    ColumnCount { ticker: String, given: usize, expected: usize },
    /// Columns of different lengths.
    #[error(
        "column {column} of `{ticker}` has {given} days, but its first column has {expected}; \
         give one value a day"
    )]
    UnequalLengths { ticker: String, column: usize, given: usize, expected: usize },
    /// Days beyond the calendar of a panel.
    #[error(
        "`{ticker}` has {days} days from day {first_day} since 1970 on, which leaves the years 1 \
         to 9999; give fewer days or an earlier first one"
    )]
    DaysOutOfRange { ticker: String, first_day: i32, days: usize },
    /// The file cannot be written.
    #[error("cannot write the panel file: {0}")]
    Io(#[from] io::Error),
}

/// Writer of a panel as a Parquet file, ticker by ticker.
///
/// ```
/// use backcast_market::{PanelData, PanelFileWriter, PanelOptions, TickerDays};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("prices.parquet");
/// let mut file = PanelFileWriter::new(std::fs::File::create(&path)?, &["rsi"])?;
/// let columns = [[10.0, 10.5], [11.0, 12.0], [9.5, 10.0], [10.5, 11.5], [1e3, 2e3], [50.0, 61.0]];
/// let columns = columns.map(|column| column.to_vec());
/// file.append(TickerDays { ticker: "AAPL", first_day: 19_724, columns: &columns })?;
/// file.finish()?;
///
/// let panel = PanelData::from_parquet(&path, &PanelOptions::default())?.into_heap();
/// assert_eq!(panel.dates(), ["2024-01-02", "2024-01-03"]);
/// assert_eq!(panel.value(0, 1, 5), Some(61.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PanelFileWriter<W: Write + Send> {
    schema: Arc<Schema>,
    writer: ArrowWriter<W>,
    rows: u64,
}

impl<W: Write + Send> PanelFileWriter<W> {
    /// Begins a file with the prices, the volume and `indicators`.
    ///
    /// # Errors
    ///
    /// [`PanelWriteError::Io`].
    pub fn new(out: W, indicators: &[&str]) -> Result<Self, PanelWriteError> {
        let number = |name: &str| Field::new(name, DataType::Float64, false);
        let keys =
            [Field::new("date", DataType::Date32, false), Field::new("tic", DataType::Utf8, false)];
        let prices = PriceColumn::ALL.into_iter().map(|column| number(column.name()));
        let indicators = indicators.iter().map(|name| number(name));
        let fields: Vec<Field> = keys.into_iter().chain(prices).chain(indicators).collect();
        let schema = Arc::new(Schema::new(fields));
        let level = ZstdLevel::try_new(1).map_err(broken)?;
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let writer =
            ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(broken)?;
        Ok(Self { schema, writer, rows: 0 })
    }

    /// Adds all days of one ticker. The values are not checked; loading the file does.
    ///
    /// # Errors
    ///
    /// [`PanelWriteError`]; unless it is [`PanelWriteError::Io`], the file is as before.
    pub fn append(&mut self, rows: TickerDays<'_>) -> Result<(), PanelWriteError> {
        let TickerDays { ticker, columns, .. } = rows;
        let days = self.check(&rows)?;
        let dates = Date32Array::from_iter_values(days.clone());
        let tickers = StringArray::from_iter_values(days.clone().map(|_| ticker));
        let keys: [ArrayRef; 2] = [Arc::new(dates), Arc::new(tickers)];
        let values = columns
            .iter()
            .map(|column| Arc::new(Float64Array::from_iter_values(column.iter().copied())) as _);
        let arrays: Vec<ArrayRef> = keys.into_iter().chain(values).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.writer.write(&batch).map_err(broken)?;
        self.rows += days.len() as u64;
        Ok(())
    }

    /// Writes the rest and returns the number of rows.
    ///
    /// # Errors
    ///
    /// [`PanelWriteError::Io`].
    pub fn finish(self) -> Result<u64, PanelWriteError> {
        self.writer.close().map_err(broken)?;
        Ok(self.rows)
    }

    /// Checks the rows, and returns their days.
    fn check(&self, rows: &TickerDays<'_>) -> Result<Range<i32>, PanelWriteError> {
        let TickerDays { ticker, first_day, columns } = *rows;
        let ticker = || ticker.to_owned();
        // The date and the ticker are fields too, but not among `columns`.
        let expected = self.schema.fields().len() - 2;
        if columns.len() != expected {
            let given = columns.len();
            return Err(PanelWriteError::ColumnCount { ticker: ticker(), given, expected });
        }
        let days = columns.first().map_or(0, Vec::len);
        for (column, values) in columns.iter().enumerate() {
            if values.len() != days {
                let (given, expected) = (values.len(), days);
                let ticker = ticker();
                return Err(PanelWriteError::UnequalLengths { ticker, column, given, expected });
            }
        }
        let end = i32::try_from(days).ok().and_then(|days| first_day.checked_add(days));
        let known = |day: i32| Date::from_unix_days(day.into()).is_some();
        end.filter(|end| days == 0 || known(first_day) && known(end - 1))
            .map(|end| first_day..end)
            .ok_or_else(|| PanelWriteError::DaysOutOfRange { ticker: ticker(), first_day, days })
    }
}

fn broken(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PanelData, PanelOptions};

    #[test]
    fn a_file_comes_back_as_the_panel_that_was_written() {
        let mut bytes = Vec::new();
        let mut file = PanelFileWriter::new(&mut bytes, &["x"]).unwrap();
        let columns = |base: f64| -> Vec<Vec<f64>> {
            [0.0, 1.0, -1.0, 0.5, 1e3, -7.25]
                .map(|shift| (0..3).map(|day| base + f64::from(day) + shift).collect())
                .to_vec()
        };
        for (ticker, first_day, base) in [("B", 10_957, 20.0), ("A", 10_958, 10.0)] {
            file.append(TickerDays { ticker, first_day, columns: &columns(base) }).unwrap();
        }
        assert_eq!(file.finish().unwrap(), 6);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("panel.parquet");
        std::fs::write(&path, bytes).unwrap();
        let panel = PanelData::from_parquet(&path, &PanelOptions::default()).unwrap().into_heap();
        assert_eq!(panel.tickers(), ["A", "B"]);
        assert_eq!(panel.dates().first().unwrap(), "2000-01-01");
        assert_eq!((panel.days(), panel.indicators()), (4, &["x".to_owned()][..]));
        assert_eq!(panel.value(0, 0, 0), None, "A is listed a day later");
        assert_eq!(panel.value(0, 1, 5), Some(10.0 - 7.25));
        assert_eq!(panel.value(1, 2, 3), Some(22.5));
    }

    #[test]
    fn rows_that_do_not_fit_are_refused_and_the_file_is_as_before() {
        let mut bytes = Vec::new();
        let mut file = PanelFileWriter::new(&mut bytes, &[]).unwrap();
        let column = |days: usize| vec![1.0; days];
        let good = vec![column(2); 5];
        let mut ragged = good.clone();
        ragged[3] = column(1);
        for (first_day, columns, named) in [
            (0, &good[..4], ["4", "5"]),
            (0, &ragged[..], ["column 3", "1"]),
            (i32::MAX - 1, &good[..], ["2147483646", "9999"]),
            (-1_000_000, &good[..], ["-1000000", "9999"]),
        ] {
            let error = file.append(TickerDays { ticker: "A", first_day, columns }).unwrap_err();
            let text = error.to_string();
            assert!(named.iter().all(|part| text.contains(part)), "{text}");
        }
        file.append(TickerDays { ticker: "A", first_day: 0, columns: &good }).unwrap();
        assert_eq!(file.finish().unwrap(), 2);
    }
}
