//! Panels: read access to names, tokens and values.

use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use backcast_layout::{Base, Exist, ObjectKind, SealedSegment, prefetch_l2};

use crate::{
    blocks::{PanelShape, is_listed, longest_run},
    calendar::{Calendar, YearOfBars, year_of},
    date::Date,
    error::{LookupError, PanelError},
    meta::Meta,
    moment::{Moment, TimeRules},
    symbols::CASH,
};

pub(crate) use crate::symbols::PriceColumn;

/// A read-only table of prices by day or by bar, `[ticker, day, column]`, in which rows may be
/// missing.
///
/// Cloning increments a reference count. Reads take no lock and make no system call. A panel that
/// processes share exists once in memory.
#[derive(Clone)]
pub struct Panel(Arc<PanelInner>);

struct PanelInner {
    segment: SealedSegment,
    shape: PanelShape,
    meta: Meta,
    first_days: Vec<Option<usize>>,
    last_days: Vec<Option<usize>>,
    /// Longest range of consecutive days with a row, for each ticker.
    unbroken: Vec<Range<usize>>,
    /// Texts of the instants of bars, written when they are asked for.
    labels: OnceLock<Vec<String>>,
    year: OnceLock<YearOfBars>,
}

impl std::fmt::Debug for Panel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PanelShape { tickers, days, columns } = self.0.shape;
        f.debug_struct("Panel")
            .field("name", &self.name())
            .field("tickers", &tickers)
            .field("days", &days)
            .field("columns", &columns)
            .finish_non_exhaustive()
    }
}

impl Panel {
    /// Attaches a shared panel in the standard directory.
    pub fn attach(name: &str) -> Result<Self, PanelError> {
        Self::attach_in(&Base::standard(), name)
    }

    /// Attaches a shared panel below `base`. Arbitrary bytes in the segment cause an error or wrong
    /// numbers, nothing else.
    pub fn attach_in(base: &Base, name: &str) -> Result<Self, PanelError> {
        Self::from_segment(SealedSegment::attach(base, ObjectKind::Panel, name)?)
    }

    pub(crate) fn share(
        meta: &Meta,
        parts: [&[u8]; 3],
        name: &str,
        base: &Base,
        exist: Exist,
        persistent: bool,
    ) -> Result<Self, PanelError> {
        let meta = meta.to_bytes();
        let segment =
            SealedSegment::create(base, ObjectKind::Panel, name, &meta, &parts, exist, persistent)?;
        Self::from_segment(segment)
    }

    pub(crate) fn heap(meta: &Meta, parts: [&[u8]; 3]) -> Result<Self, PanelError> {
        let segment = SealedSegment::try_heap(&meta.to_bytes(), &parts)?;
        let shape = PanelShape {
            tickers: meta.tickers.len(),
            days: meta.len(),
            columns: meta.columns.len(),
        };
        Ok(Self::assemble(segment, shape, meta.clone()))
    }

    pub(crate) fn from_segment(segment: SealedSegment) -> Result<Self, PanelError> {
        let (meta, shape) =
            Meta::parse(segment.meta(), segment.data_bytes()).map_err(|problem| {
                PanelError::Damaged { name: segment.name().unwrap_or_default().to_owned(), problem }
            })?;
        // Later calls with the same offsets and sizes cannot fail: the mapping is immutable.
        segment.words64(0, shape.values())?;
        segment.words64(shape.singles_offset(), shape.single_words())?;
        segment.words64(shape.listed_offset(), shape.listed_words())?;
        Ok(Self::assemble(segment, shape, meta))
    }

    fn assemble(segment: SealedSegment, shape: PanelShape, meta: Meta) -> Self {
        let (first_days, last_days, unbroken) = (Vec::new(), Vec::new(), Vec::new());
        let (labels, year) = (OnceLock::new(), OnceLock::new());
        let mut inner =
            PanelInner { segment, shape, meta, first_days, last_days, unbroken, labels, year };
        inner.unbroken =
            (0..shape.tickers).map(|ticker| longest_run(inner.marks(ticker), shape.days)).collect();
        inner.first_days = (0..shape.tickers)
            .map(|ticker| (0..shape.days).find(|&day| is_listed(inner.marks(ticker), day)))
            .collect();
        inner.last_days = (0..shape.tickers)
            .map(|ticker| (0..shape.days).rfind(|&day| is_listed(inner.marks(ticker), day)))
            .collect();
        Self(Arc::new(inner))
    }

    /// Returns the number of days, or of bars, `D`.
    #[must_use]
    pub fn days(&self) -> usize {
        self.0.shape.days
    }

    /// Returns whether the rows are labelled with days or with instants.
    #[must_use]
    pub fn calendar(&self) -> Calendar {
        self.0.meta.calendar()
    }

    /// Returns the days as `YYYY-MM-DD`, or the instants of bars as `2024-01-02T14:30:00Z`,
    /// ascending. The texts of instants are written by the first call.
    #[must_use]
    pub fn dates(&self) -> &[String] {
        match self.calendar() {
            Calendar::Days => &self.0.meta.dates,
            Calendar::Bars => self
                .0
                .labels
                .get_or_init(|| (0..self.days()).filter_map(|day| self.date(day)).collect()),
        }
    }

    /// Returns the text of one day or bar, as [`dates`](Self::dates) has it; `None` outside the
    /// panel.
    #[must_use]
    pub fn date(&self, day: usize) -> Option<String> {
        match self.calendar() {
            Calendar::Days => self.0.meta.dates.get(day).cloned(),
            Calendar::Bars => {
                let micros = *self.0.meta.times.get(day)?;
                Some(Moment::from_micros(micros)?.to_string())
            }
        }
    }

    /// Returns the instants of bars, or the midnights of days, in microseconds since 1970 in UTC.
    #[must_use]
    pub fn micros(&self) -> Vec<i64> {
        self.0.meta.micros()
    }

    /// Returns the number of days or bars of a year, which annualises ratios: as stated when the
    /// panel was loaded, or by the calendar.
    ///
    /// A typical week, from the first bar on, tells: its bars times 252/5 if the market closes for
    /// more than a day and a half in most weeks, else times 365/7. Bars of weeks, months, quarters
    /// and years give 52, 12, 4 and 1. Panels of days of less than two weeks have 252, unless a
    /// week of them has no hole. [`PanelData::warnings`](crate::PanelData::warnings) has a guess.
    #[must_use]
    pub fn bars_per_year(&self) -> f64 {
        let guessed = || self.0.year.get_or_init(|| year_of(self.calendar(), &self.micros())).bars;
        self.0.meta.bars_per_year.unwrap_or_else(guessed)
    }

    /// Returns the position of the first day or bar at or after a date or an ISO timestamp; the
    /// number of days if all are earlier.
    ///
    /// A date means midnight in UTC on a panel of bars, whose timestamps need an offset or `Z`. On
    /// a daily panel the day of a timestamp is the one written.
    pub fn position(&self, when: &str) -> Result<usize, LookupError> {
        let refused = || LookupError { when: when.to_owned(), calendar: self.calendar() };
        let day = Date::parse(when).map(Moment::of_day);
        Ok(match self.calendar() {
            Calendar::Days => {
                let day = day.ok_or_else(refused)?.day().to_string();
                self.0.meta.dates.partition_point(|known| *known < day)
            }
            Calendar::Bars => {
                let is_date = !when.contains(['T', ' ']);
                let instant = TimeRules::default().instant_of(when).ok();
                let instant = instant.or(day.filter(|_| is_date)).ok_or_else(refused)?;
                self.0.meta.times.partition_point(|known| *known < instant.micros())
            }
        })
    }

    /// Returns all tickers, macro tickers included, sorted by their bytes.
    #[must_use]
    pub fn tickers(&self) -> &[String] {
        &self.0.meta.tickers
    }

    /// Returns whether a ticker is a macro ticker, which is shown and never traded; false for a
    /// position outside the panel.
    #[must_use]
    pub fn is_macro(&self, ticker: usize) -> bool {
        self.0.meta.is_macro.get(ticker) == Some(&true)
    }

    /// Returns the columns, `C`: open, high, low, close, volume, then the indicators in file order.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.0.meta.columns
    }

    /// Returns the indicators in file order.
    #[must_use]
    pub fn indicators(&self) -> &[String] {
        &self.0.meta.columns[PriceColumn::ALL.len()..]
    }

    /// Returns the token of a name: 0 for `<CASH>`, else one more than its position in
    /// [`Panel::tickers`]. Returns `None` for a name that the panel lacks.
    #[must_use]
    pub fn token(&self, name: &str) -> Option<u32> {
        if name == CASH {
            return Some(0);
        }
        let at = self.0.meta.tickers.binary_search_by(|ticker| ticker.as_str().cmp(name)).ok()?;
        u32::try_from(at + 1).ok()
    }

    /// Returns the name of a token, `<CASH>` for 0; `None` for a token that the panel lacks.
    #[must_use]
    pub fn ticker_of(&self, token: u32) -> Option<&str> {
        match usize::try_from(token).ok()?.checked_sub(1) {
            None => Some(CASH),
            Some(ticker) => self.0.meta.tickers.get(ticker).map(String::as_str),
        }
    }

    /// Returns one number; `None` without a row, or outside the panel.
    #[must_use]
    pub fn value(&self, ticker: usize, day: usize, column: usize) -> Option<f64> {
        (self.listed(ticker, day) && column < self.0.shape.columns)
            .then(|| self.rows().row(ticker, day).value(column))
    }

    /// Returns whether a ticker has a row on a day; false outside the panel.
    #[must_use]
    pub fn listed(&self, ticker: usize, day: usize) -> bool {
        ticker < self.0.shape.tickers
            && day < self.0.shape.days
            && is_listed(self.0.marks(ticker), day)
    }

    /// Returns the first day on which a ticker has a row; `None` without a row, or outside the
    /// panel.
    #[must_use]
    pub fn first_day(&self, ticker: usize) -> Option<usize> {
        self.0.first_days.get(ticker).copied().flatten()
    }

    /// Returns the last day on which a ticker has a row; `None` without a row, or outside the
    /// panel.
    #[must_use]
    pub fn last_day(&self, ticker: usize) -> Option<usize> {
        self.0.last_days.get(ticker).copied().flatten()
    }

    /// Returns access to single rows, for loops over many of them.
    #[must_use]
    pub fn rows(&self) -> PanelRows<'_> {
        PanelRows { words: self.0.words(0, self.0.shape.values()), shape: self.0.shape }
    }

    /// Copies all numbers, `[T, D, C]`, zero without a row.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.rows().words.iter().map(load).collect()
    }

    /// Copies the mask of rows, `[T, D]`.
    #[must_use]
    pub fn mask(&self) -> Vec<bool> {
        let PanelShape { tickers, days, .. } = self.0.shape;
        (0..tickers)
            .flat_map(|ticker| (0..days).map(move |day| is_listed(self.0.marks(ticker), day)))
            .collect()
    }

    /// Returns a hash of names, dates, columns and numbers, in hex; equal panels have equal hashes.
    ///
    /// Loading the file computes the hash. Attaching does not read the numbers again.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.0.meta.fingerprint
    }

    /// Returns the macro tickers.
    pub(crate) fn macro_tickers(&self) -> Vec<String> {
        let all = self.tickers().iter().enumerate();
        all.filter(|(at, _)| self.is_macro(*at)).map(|(_, name)| name.clone()).collect()
    }

    /// Computes the fingerprint that the panel would have with other macro tickers. Reads all
    /// numbers.
    pub(crate) fn fingerprint_with(&self, macro_tickers: &[String]) -> String {
        let mut meta = self.0.meta.clone();
        meta.is_macro = meta.tickers.iter().map(|name| macro_tickers.contains(name)).collect();
        let listed: Vec<u64> = self.all_marks().iter().map(|mark| mark.load(Relaxed)).collect();
        meta.sealed(&self.values(), &listed).fingerprint
    }

    /// Returns the size of the numbers in bytes, in shared or private memory.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.0.segment.data_bytes()
    }

    /// Returns the name of a shared panel; `None` for one in private memory.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.segment.name()
    }

    /// Returns the directory of a shared panel; `None` for one in private memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.segment.path()
    }

    /// Removes the name; processes that hold the panel keep reading it.
    pub fn unlink(&self) -> Result<(), PanelError> {
        Ok(self.0.segment.unlink()?)
    }

    pub(crate) fn shape(&self) -> PanelShape {
        self.0.shape
    }

    pub(crate) fn singles(&self) -> &[AtomicU64] {
        self.0.words(self.0.shape.singles_offset(), self.0.shape.single_words())
    }

    /// Returns the listed bits of one ticker.
    pub(crate) fn marks(&self, ticker: usize) -> &[AtomicU64] {
        self.0.marks(ticker)
    }

    /// Returns the longest range of consecutive days with a row, for each ticker. Most tickers have
    /// no row outside it.
    pub(crate) fn unbroken(&self) -> &[Range<usize>] {
        &self.0.unbroken
    }

    /// Returns the listed bits of all tickers, [`PanelShape::listed_stride`] words each.
    pub(crate) fn all_marks(&self) -> &[AtomicU64] {
        self.0.words(self.0.shape.listed_offset(), self.0.shape.listed_words())
    }
}

impl PanelInner {
    /// Returns the listed bits of one ticker.
    fn marks(&self, ticker: usize) -> &[AtomicU64] {
        let stride = self.shape.listed_stride();
        self.words(self.shape.listed_offset() + ticker * stride * 8, stride)
    }

    /// Returns part of a block whose bounds the constructor has checked.
    fn words(&self, byte_offset: usize, count: usize) -> &[AtomicU64] {
        self.segment.words64(byte_offset, count).unwrap_or_default()
    }
}

/// Rows of a panel, borrowed for a loop.
#[derive(Clone, Copy, Debug)]
pub struct PanelRows<'a> {
    words: &'a [AtomicU64],
    shape: PanelShape,
}

impl<'a> PanelRows<'a> {
    /// Returns the row of a ticker on a day; zeros if there is none.
    ///
    /// # Panics
    ///
    /// If `ticker` or `day` is outside the panel, as with any slice.
    #[must_use]
    #[inline]
    pub fn row(self, ticker: usize, day: usize) -> PanelRow<'a> {
        assert!(day < self.shape.days, "day {day} of {}", self.shape.days);
        let start = self.shape.row(ticker, day);
        PanelRow(&self.words[start..start + self.shape.columns])
    }

    /// Prefetches the row of a ticker. Beyond the panel, prefetches another row or nothing.
    #[inline]
    pub fn prefetch(self, ticker: usize, day: usize) {
        let start = self.shape.row(ticker, day);
        prefetch_l2(self.words.get(start..start + self.shape.columns).unwrap_or_default());
    }
}

/// Row of one ticker on one day.
#[derive(Clone, Copy, Debug)]
pub struct PanelRow<'a>(&'a [AtomicU64]);

impl PanelRow<'_> {
    /// Returns the number in a column.
    ///
    /// # Panics
    ///
    /// If `column` is outside the panel, as with any slice.
    #[must_use]
    #[inline]
    pub fn value(self, column: usize) -> f64 {
        load(&self.0[column])
    }

    /// Copies the indicators to `out`.
    #[inline]
    pub fn copy_indicators(self, out: &mut [f64]) {
        for (value, word) in out.iter_mut().zip(&self.0[PriceColumn::ALL.len()..]) {
            *value = load(word);
        }
    }
}

#[inline]
fn load(word: &AtomicU64) -> f64 {
    f64::from_bits(word.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use backcast_layout::SealedSegment;
    use proptest::prelude::*;

    use super::Panel;
    use crate::{PanelData, PanelError, PanelOptions};

    const CSV: &str = "date,tic,open,high,low,close,volume,rsi\n\
        2024-01-02,A,1,2,1,2,10,5\n2024-01-03,A,2,3,2,3,10,5\n2024-01-03,B,4,5,4,5,10,5\n";

    fn panel() -> Panel {
        PanelData::from_reader(CSV.as_bytes(), &PanelOptions::default().macro_tickers(["B"]))
            .unwrap()
            .into_heap()
    }

    fn segment_bytes(panel: &Panel) -> (Vec<u8>, Vec<u8>) {
        let data = panel.0.segment.words64(0, panel.data_bytes() / 8).unwrap();
        let bytes = data.iter().flat_map(|word| word.load(super::Relaxed).to_ne_bytes()).collect();
        (panel.0.segment.meta().to_vec(), bytes)
    }

    /// Calls read functions on a panel whose description cannot be trusted.
    fn read_everything(panel: &Panel) {
        for ticker in 0..=panel.tickers().len() {
            for day in 0..=panel.days() {
                for column in 0..=panel.columns().len() {
                    let _ = panel.value(ticker, day, column);
                }
            }
            let _ = panel.first_day(ticker);
        }
        let tokens: Vec<i64> =
            (0..=panel.tickers().len()).map(|t| i64::try_from(t).unwrap()).collect();
        let plan = panel.window_shape(1, tokens.len(), 3, 3).unwrap();
        let (mut arena, mut mask) = (vec![0.0; plan.arena_len()], vec![false; plan.mask_len()]);
        panel.windows_into(&[0], &tokens, tokens.len(), 3, 3, &mut arena, &mut mask).unwrap();
        assert_eq!(panel.values().len() / panel.columns().len(), panel.mask().len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(10_000)))]

        #[test]
        fn any_bytes_in_description_or_data_give_an_error_or_numbers(
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            data_flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let (mut meta, mut data) = segment_bytes(&panel());
            for (at, byte) in flips {
                let at = at.index(meta.len());
                meta[at] = byte;
            }
            for (at, byte) in data_flips {
                let at = at.index(data.len());
                data[at] ^= byte;
            }
            if let Some(cut) = cut {
                meta.truncate(cut.index(meta.len()));
            }
            if let Ok(panel) = Panel::from_segment(SealedSegment::heap(&meta, &[&data])) {
                read_everything(&panel);
            }
        }

        #[test]
        fn foreign_bytes_give_an_error(meta in prop::collection::vec(any::<u8>(), 0..200)) {
            let attached = Panel::from_segment(SealedSegment::heap(&meta, &[&[0; 64]]));
            let damaged = matches!(attached, Err(PanelError::Damaged { .. }));
            prop_assert!(damaged);
        }
    }

    #[test]
    fn descriptions_that_lie_are_refused_with_what_does_not_fit() {
        let (meta, data) = segment_bytes(&panel());
        let meta = String::from_utf8(meta).unwrap();
        for (from, to, value) in [
            ("\"version\":1", "\"version\":2", "2"),
            ("\"version\":1", "\"times\":[5],\"version\":2", "days and 1 bars"),
            ("\"version\":1", "\"bars_per_year\":-1,\"version\":2", "-1"),
            ("backcast-panel", "another-panel", "another-panel"),
            ("[\"A\",\"B\"]", "[\"B\",\"A\"]", "tickers"),
            ("[\"A\",\"B\"]", "[\"A\",\"A\"]", "tickers"),
            ("[\"A\",\"B\"]", "[\"A\",\"<CASH>\"]", ""),
            ("[\"A\",\"B\"]", "[\"A\"]", "1 tickers"),
            ("2024-01-03", "2024-01-01", ""),
            ("2024-01-03", "2024-01-33", ""),
            ("\"rsi\"", "\"open\"", "columns"),
            ("\"open\",\"high\"", "\"high\",\"open\"", "columns"),
            ("\"rsi\"", "\"rsi\",\"macd\"", "2 tickers x 2 days x 7 columns"),
            ("\"2024-01-03\"]", "\"2024-01-03\",\"2024-01-04\"]", "3 days"),
            ("{", "[", ""),
            ("\"format\"", "\"extra\":1,\"format\"", "extra"),
        ] {
            assert!(meta.contains(from), "{from}");
            let changed = meta.replacen(from, to, 1);
            let error = Panel::from_segment(SealedSegment::heap(changed.as_bytes(), &[&data]));
            let error = error.expect_err(to);
            let PanelError::Damaged { problem, .. } = &error else { panic!("{to}: {error:?}") };
            assert!(problem.contains(value), "{to}: {problem}");
        }
        for size in [0, 8, data.len() - 8] {
            let error = Panel::from_segment(SealedSegment::heap(meta.as_bytes(), &[&data[..size]]));
            let error = error.unwrap_err();
            let PanelError::Damaged { problem, .. } = &error else { panic!("{error:?}") };
            assert!(problem.contains(&size.to_string()), "{problem}");
        }
    }
}
