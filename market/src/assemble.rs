//! Builds a dense panel from typed rows and checks every rule about the contents of a panel.

use std::collections::BTreeSet;

use backcast_layout::{Base, Exist};

use crate::{
    blocks::{MAX_VALUES, PanelShape, mark_listed},
    calendar::Calendar,
    chunk::{BadCell, BadCellKind, Chunk, DroppedTimes, Tickers, to_single},
    derive::{Contradiction, derive},
    error::PanelError,
    header::{ColumnUse, FileHeader},
    load_error::{PanelLoadError, RowPlace},
    meta::Meta,
    moment::{EpochUnit, Moment},
    options::{NanPolicy, PanelOptions},
    panel::Panel,
    symbols::PriceColumn,
};

/// Largest ratio of (ticker, day) pairs to rows of a large table; a sparser one would waste memory.
const SPARSEST: u64 = 1000;
/// Number of values up to which a table may have any density: 384 MiB.
const SMALL_VALUES: u64 = 1 << 25;

/// Rows of a file, collected chunk by chunk, from which a panel is built.
pub(crate) struct Assembler<'a> {
    pub(crate) tickers: Tickers<'a>,
    options: &'a PanelOptions,
    header: FileHeader,
    place: fn(u64) -> RowPlace,
    /// Number of the ticker of all rows, if the table has no column of tickers.
    only_ticker: Option<u32>,
    keys: Vec<RowKey>,
    /// Values row by row, in the order of the panel's columns.
    values: Vec<f64>,
    masked: u64,
    dropped: DroppedTimes,
    /// Days or instants of rows that count as absent; they remain those of the panel.
    masked_times: BTreeSet<Moment>,
}

struct RowKey {
    ticker: u32,
    time: Moment,
    place: u64,
}

impl<'a> Assembler<'a> {
    pub(crate) fn new(
        header: FileHeader,
        options: &'a PanelOptions,
        place: fn(u64) -> RowPlace,
    ) -> Self {
        let mut tickers = Tickers::new(options);
        let only_ticker = options.ticker.as_ref().and_then(|name| tickers.number(name));
        Self {
            tickers,
            options,
            header,
            place,
            only_ticker,
            keys: Vec::new(),
            values: Vec::new(),
            masked: 0,
            dropped: DroppedTimes::default(),
            masked_times: BTreeSet::new(),
        }
    }

    pub(crate) fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Moves the rows out of a chunk, which is empty unless an error is returned. The error is that
    /// of the first bad row.
    pub(crate) fn push(&mut self, chunk: &mut Chunk) -> Result<(), PanelLoadError> {
        let rows = chunk.places.len();
        if let (None, Some(name)) = (self.only_ticker, &self.options.ticker) {
            return Err(PanelLoadError::TickerName { ticker: name.clone() });
        }
        let width = self.header.columns.len();
        if self.values.try_reserve(rows * width).is_err() || self.keys.try_reserve(rows).is_err() {
            return Err(self.too_large(self.tickers.len(), 0, self.values.len() as u64));
        }
        chunk.flaws.sort_by_key(|flaw| (flaw.row, flaw.column));
        let mut flaws = chunk.flaws.as_slice();
        for row in 0..rows {
            let (of_row, rest) = flaws.split_at(flaws.partition_point(|flaw| flaw.row == row));
            flaws = rest;
            let place = chunk.places[row];
            let time = self.time_of(chunk, row, of_row)?;
            if !of_row.is_empty() {
                if let Some(flaw) = of_row.iter().find(|flaw| !self.is_absence(flaw)) {
                    return Err(self.refusal(place, flaw));
                }
                self.masked += 1;
                self.masked_times.insert(time);
                continue;
            }
            let start = self.values.len();
            // Derived columns have no cells.
            let cell = |column: &Vec<f64>| column.get(row).copied().unwrap_or_default();
            self.values.extend(chunk.values.iter().map(cell));
            let ticker = self.only_ticker.unwrap_or_else(|| chunk.tickers[row]);
            let key = RowKey { ticker, time, place };
            self.check_prices(&self.values[start..], &key)?;
            self.keys.push(key);
        }
        self.dropped.take_from(&mut chunk.dropped);
        chunk.clear();
        Ok(())
    }

    /// Returns the instant of a row: that of its cell, or of its day and time of day.
    fn time_of(
        &self,
        chunk: &Chunk,
        row: usize,
        flaws: &[BadCell],
    ) -> Result<Moment, PanelLoadError> {
        let time = chunk.times[row];
        let Some(&clock) = chunk.clocks.get(row) else { return Ok(time) };
        if flaws.iter().any(|flaw| !matches!(flaw.kind, BadCellKind::Number(_))) {
            return Ok(time);
        }
        let local = time.micros() + clock;
        self.header.times.local_instant(local).map_err(|problem| {
            let at = self.header.uses.iter().position(|what| *what == ColumnUse::Clock);
            let shown = Moment::from_micros(local).unwrap_or(time).to_string();
            PanelLoadError::BadTime {
                place: (self.place)(chunk.places[row]),
                column: at.map_or_else(String::new, |at| self.header.names[at].clone()),
                text: shown.trim_end_matches('Z').to_owned(),
                problem,
            }
        })
    }

    fn is_absence(&self, flaw: &BadCell) -> bool {
        self.options.nan == NanPolicy::Mask
            && matches!(flaw.kind, BadCellKind::Number(problem) if problem.is_missing())
    }

    fn refusal(&self, place: u64, flaw: &BadCell) -> PanelLoadError {
        let place = (self.place)(place);
        let column = self.header.names.get(flaw.column).cloned().unwrap_or_default();
        let text = flaw.text.clone().into_owned();
        match flaw.kind {
            BadCellKind::Date => PanelLoadError::BadDate { place, column, text },
            BadCellKind::Time(problem) => PanelLoadError::BadTime { place, column, text, problem },
            BadCellKind::Ticker => PanelLoadError::BadTicker { place, column, text },
            BadCellKind::Number(problem) => {
                PanelLoadError::BadNumber { place, column, text, problem }
            }
        }
    }

    fn check_prices(&self, row: &[f64], key: &RowKey) -> Result<(), PanelLoadError> {
        use PriceColumn::{Close, High, Low, Open, Volume};
        let place = || (self.place)(key.place);
        let column = |column: PriceColumn| self.header.source_name(column as usize).to_owned();
        let ticker = || self.tickers.name(key.ticker).to_owned();
        let given = |column: &PriceColumn| !self.options.derives(*column);
        if !self.tickers.is_macro(key.ticker) {
            for price in [Open, High, Low, Close].into_iter().filter(given) {
                let value = row[price as usize];
                // Checks the 32-bit copy too, where a price of 0 means "no row".
                if to_single(value) <= 0.0 {
                    let (place, column, ticker) = (place(), column(price), ticker());
                    return Err(if value > 0.0 {
                        PanelLoadError::PriceTooSmall { place, column, ticker, value }
                    } else {
                        PanelLoadError::PriceNotPositive { place, column, ticker, value }
                    });
                }
            }
        }
        let volume = row[Volume as usize];
        if volume < 0.0 && !self.tickers.is_macro(key.ticker) {
            let (place, column, ticker) = (place(), column(Volume), ticker());
            return Err(PanelLoadError::NegativeVolume { place, column, ticker, value: volume });
        }
        let (high, low) = (row[High as usize], row[Low as usize]);
        if high < low && given(&High) && given(&Low) {
            let (place, column, ticker) = (place(), column(High), ticker());
            return Err(PanelLoadError::HighBelowLow { place, column, ticker, high, low });
        }
        Ok(())
    }

    fn contradiction(&self, row: &Contradiction, key: &RowKey) -> PanelLoadError {
        // Names the column of the table; the other one is derived.
        let high_is_derived = self.options.derives(PriceColumn::High);
        let given = if high_is_derived { PriceColumn::Low } else { PriceColumn::High };
        PanelLoadError::HighBelowLow {
            place: (self.place)(key.place),
            column: self.header.source_name(given as usize).to_owned(),
            ticker: self.tickers.name(key.ticker).to_owned(),
            high: row.high,
            low: row.low,
        }
    }

    /// Returns the error for a table of more rows than a panel may have.
    #[cfg(feature = "parquet")]
    pub(crate) fn too_many_rows(&self, rows: u64) -> PanelLoadError {
        let columns = self.header.columns.len();
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        PanelLoadError::TooLarge { tickers: 1, days: rows, columns, rows, limit: MAX_VALUES }
    }

    fn too_large(&self, tickers: usize, days: usize, limit: u64) -> PanelLoadError {
        let columns = self.header.columns.len();
        PanelLoadError::TooLarge { tickers, days, columns, rows: self.keys.len(), limit }
    }

    /// Builds the panel of all rows so far. Refuses a table without rows, two rows of a ticker on
    /// one day, macro tickers without a row, a high below its low of which one is derived, and a
    /// panel that is too large.
    pub(crate) fn finish(self) -> Result<PanelData, PanelLoadError> {
        if let Some(value) = self.options.bars_per_year
            && !(value.is_finite() && value > 0.0)
        {
            return Err(PanelLoadError::BarsPerYear { value });
        }
        if self.keys.is_empty() {
            return Err(PanelLoadError::NoRows { masked: self.masked });
        }
        let (tickers, ticker_ranks) = self.ranked_tickers();
        let times = self.distinct_times();
        let missing: Vec<String> = self
            .options
            .macro_tickers
            .iter()
            .filter(|name| tickers.binary_search(name).is_err())
            .cloned()
            .collect();
        if !missing.is_empty() {
            return Err(PanelLoadError::UnknownMacroTicker { missing, found: tickers });
        }
        let calendar = self.header.calendar();
        let label = |time: Moment| match calendar {
            Calendar::Days => time.day().to_string(),
            Calendar::Bars => time.to_string(),
        };
        let columns = self.header.columns.clone();
        let dense = (self.values.len() as u64).saturating_mul(SPARSEST);
        let limit = MAX_VALUES.min(SMALL_VALUES.max(dense));
        let shape = PanelShape::new(tickers.len(), times.len(), columns.len())
            .filter(|shape| shape.values() as u64 <= limit)
            .ok_or_else(|| self.too_large(tickers.len(), times.len(), limit))?;
        let (mut values, mut singles, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        let cells = shape.tickers * shape.days;
        // Too little memory is an error, not an abort.
        if values.try_reserve_exact(shape.values()).is_err()
            || singles.try_reserve_exact(shape.values()).is_err()
            || seen.try_reserve_exact(cells).is_err()
        {
            return Err(self.too_large(tickers.len(), times.len(), self.values.len() as u64));
        }
        let mut listed = vec![0_u64; shape.listed_words()];
        values.resize(shape.values(), 0.0);
        singles.resize(shape.values(), 0.0);
        // For each (ticker, day), one more than the number of its row; 0 for none.
        seen.resize(cells, 0_usize);

        for (at, (row, cells)) in
            self.keys.iter().zip(self.values.chunks_exact(columns.len())).enumerate()
        {
            let ticker = ticker_ranks[row.ticker as usize];
            let day = times.partition_point(|time| *time < row.time);
            let seen = &mut seen[ticker * shape.days + day];
            if let Some(first) = seen.checked_sub(1) {
                return Err(PanelLoadError::DuplicateRow {
                    calendar,
                    columns: self.header.key_names(),
                    ticker: tickers[ticker].clone(),
                    date: label(row.time),
                    first: (self.place)(self.keys[first].place),
                    second: (self.place)(row.place),
                });
            }
            *seen = at + 1;
            let start = shape.row(ticker, day);
            values[start..start + cells.len()].copy_from_slice(cells);
            let stride = shape.listed_stride();
            mark_listed(&mut listed[ticker * stride..(ticker + 1) * stride], day);
        }
        derive(self.options, &shape, &mut values, &mut listed).map_err(|row| {
            let key = &self.keys[seen[row.ticker * shape.days + row.day] - 1];
            self.contradiction(&row, key)
        })?;
        let mut marks = tickers.iter().zip(listed.chunks_exact(shape.listed_stride()));
        if let Some((ticker, _)) = marks.find(|(_, marks)| marks.iter().all(|&word| word == 0)) {
            return Err(PanelLoadError::NoOpen { ticker: ticker.clone() });
        }
        for (single, &value) in singles.iter_mut().zip(&values) {
            *single = to_single(value);
        }
        let is_macro =
            tickers.iter().map(|name| self.options.macro_tickers.contains(name)).collect();
        let (dates, times) = match calendar {
            Calendar::Days => (times.iter().map(|time| time.day().to_string()).collect(), vec![]),
            Calendar::Bars => (vec![], times.iter().map(|time| time.micros()).collect()),
        };
        let mut meta = Meta::new(self.options.bars_per_year);
        (meta.tickers, meta.is_macro) = (tickers, is_macro);
        (meta.dates, meta.times, meta.columns) = (dates, times, columns);
        let meta = meta.sealed(&values, &listed);
        let times = self.times_read();
        Ok(PanelData { meta, times, values, singles, listed })
    }

    fn times_read(&self) -> TimesRead {
        let dates = self.header.uses.iter().position(|what| *what == ColumnUse::Date);
        let dates = dates.map(|at| self.header.names[at].clone());
        TimesRead { unit: self.options.unit, dates, dropped: self.dropped }
    }

    /// Returns the tickers that have a row, sorted by their bytes, and for each ticker number its
    /// rank among them.
    fn ranked_tickers(&self) -> (Vec<String>, Vec<usize>) {
        let mut used = vec![false; self.tickers.len()];
        for row in &self.keys {
            used[row.ticker as usize] = true;
        }
        let name = |number: usize| self.tickers.name(u32::try_from(number).unwrap_or(u32::MAX));
        let mut numbers: Vec<usize> = (0..used.len()).filter(|&number| used[number]).collect();
        numbers.sort_unstable_by_key(|&number| name(number));
        let mut ranks = vec![0; used.len()];
        for (rank, &number) in numbers.iter().enumerate() {
            ranks[number] = rank;
        }
        (numbers.into_iter().map(|number| name(number).to_owned()).collect(), ranks)
    }

    fn distinct_times(&self) -> Vec<Moment> {
        let mut times = self.masked_times.clone();
        for row in &self.keys {
            times.insert(row.time);
        }
        times.into_iter().collect()
    }
}

/// How the times of a table were read, of which loading may warn.
#[derive(Clone, Debug)]
pub(crate) struct TimesRead {
    /// Unit of numbers since 1970.
    pub(crate) unit: Option<EpochUnit>,
    /// Column of days.
    pub(crate) dates: Option<String>,
    /// Times of day that it had.
    pub(crate) dropped: DroppedTimes,
}

/// A loaded panel that cannot be read yet: share it or build it in private memory first.
#[doc = include_str!("formats.md")]
#[derive(Clone, Debug)]
pub struct PanelData {
    meta: Meta,
    times: TimesRead,
    values: Vec<f64>,
    singles: Vec<f32>,
    listed: Vec<u64>,
}

impl PanelData {
    /// Publishes the panel under `name`, so that every process on this machine can attach it. A
    /// `persistent` panel stays when no process holds it.
    ///
    /// With [`Exist::Attach`] an equal panel that is already there is attached instead; a different
    /// one of that name is an error. Panels are equal if all their contents are, by the hash in
    /// their descriptions.
    pub fn share(
        self,
        name: &str,
        base: &Base,
        exist: Exist,
        persistent: bool,
    ) -> Result<Panel, PanelError> {
        Panel::share(&self.meta, self.parts(), name, base, exist, persistent)
    }

    /// Builds a panel in private memory. Takes twice the panel's size meanwhile.
    ///
    /// # Panics
    /// If there is too little memory; [`try_into_heap`](Self::try_into_heap) returns an error
    /// instead.
    #[must_use]
    pub fn into_heap(self) -> Panel {
        self.try_into_heap().expect("memory for the panel")
    }

    /// Builds a panel in private memory, or returns an error if there is too little. Takes twice
    /// the panel's size meanwhile.
    pub fn try_into_heap(self) -> Result<Panel, PanelError> {
        Panel::heap(&self.meta, self.parts())
    }

    /// Returns one row per traded ticker and day; zeros for a day on which the ticker has none.
    pub(crate) fn traded_rows(&self) -> impl Iterator<Item = &[f64]> {
        let columns = self.meta.columns.len();
        let tickers = self.values.chunks_exact(columns * self.meta.len());
        let traded = tickers.zip(&self.meta.is_macro).filter(|(_, is_macro)| !**is_macro);
        traded.flat_map(move |(rows, _)| rows.chunks_exact(columns))
    }

    /// Returns the rows of each ticker, `[D][C]`.
    pub(crate) fn by_ticker(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.meta.columns.len() * self.meta.len())
    }

    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn times_read(&self) -> &TimesRead {
        &self.times
    }

    /// Returns for each ticker the words of its listed bits.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &[u64]> {
        self.listed.chunks_exact(self.listed.len() / self.meta.tickers.len())
    }

    fn parts(&self) -> [&[u8]; 3] {
        [
            bytemuck::cast_slice(&self.values),
            bytemuck::cast_slice(&self.singles),
            bytemuck::cast_slice(&self.listed),
        ]
    }
}
