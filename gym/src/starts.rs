//! On which days an episode may start: where every ticker is listed, with real days before.

use std::ops::Range;

use backcast_market::Panel;

use crate::stream::Stream;

const BITS: usize = 64;

/// For every ticker of a panel, the days on which an episode may start for its sake, one bit each.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    /// Days to live on.
    days: Range<usize>,
    lag: usize,
    words: usize,
    /// Listed on the day and `lag` days before, `[T][words]`. Macro tickers: from their first day on.
    listed: Vec<u64>,
    /// Listed on `history` days before the day too; empty where no history is asked for.
    with_history: Vec<u64>,
    /// First day that a ticker could start on; the number of days where there is none.
    first: Vec<usize>,
    macros: Vec<usize>,
}

/// Days among which one is drawn.
struct Allowed {
    low: usize,
    /// The last one.
    high: usize,
    /// `None`: all of them.
    bits: Option<Vec<u64>>,
}

impl Starts {
    /// `used`: the tickers that episodes may have. Reads `history` once per day and ticker.
    pub(crate) fn new(
        panel: &Panel,
        used: &[usize],
        days: Range<usize>,
        lag: usize,
        history: usize,
    ) -> Self {
        let (tickers, all_days) = (panel.tickers().len(), panel.days());
        let words = all_days.div_ceil(BITS);
        let macros: Vec<usize> = (0..tickers).filter(|&ticker| panel.is_macro(ticker)).collect();
        let mut starts = Self {
            days,
            lag,
            words,
            listed: vec![0; tickers * words],
            with_history: vec![0; if history > 0 { tickers * words } else { 0 }],
            first: vec![0; tickers],
            macros,
        };
        for &ticker in used.iter().chain(&starts.macros) {
            let is_macro = panel.is_macro(ticker);
            // A ticker has at least one row; a panel that says otherwise leaves no day to start.
            let first_row = panel.first_day(ticker).unwrap_or(all_days);
            starts.first[ticker] = if is_macro { first_row } else { first_row.saturating_add(lag) };
            let mut run = 0_usize;
            for day in 0..all_days {
                let here = panel.listed(ticker, day);
                let good = if is_macro {
                    day >= first_row
                } else {
                    here && day >= lag && panel.listed(ticker, day - lag)
                };
                let bit = u64::from(good) << (day % BITS);
                let at = ticker * words + day / BITS;
                starts.listed[at] |= bit;
                if history > 0 && run >= history {
                    starts.with_history[at] |= bit;
                }
                run = if here { run + 1 } else { 0 };
            }
        }
        starts
    }

    /// The last day that may be drawn: four fifths of the range, less one.
    pub(crate) fn high(&self) -> usize {
        self.days.start + self.days.len() * 4 / 5 - 1
    }

    /// The first day that all `tickers` and the macro tickers could start on, and which is the latest.
    pub(crate) fn low(&self, tickers: &[usize]) -> (usize, usize) {
        let all = tickers.iter().chain(&self.macros);
        let latest = all.copied().max_by_key(|&ticker| self.first[ticker]).unwrap_or_default();
        (self.first[latest].max(self.days.start), latest)
    }

    /// Is there a day on which all `tickers` are listed, `shift` or more after the first that might do?
    pub(crate) fn any(&self, tickers: &[usize], shift: usize) -> bool {
        self.common(&self.listed, tickers, shift).is_some()
    }

    /// Is there a day on which so many of `pool` are listed, each `shift` or more after its own first?
    pub(crate) fn any_of(&self, pool: &[usize], count: usize, shift: usize) -> bool {
        let could = |&ticker: &usize, day: usize| {
            day.checked_sub(shift).is_some_and(|first| first >= self.low(&[ticker]).0)
                && self.listed(ticker, day)
                && self.macros.iter().all(|&shown| self.listed(shown, day))
        };
        // The last days are those that most could have.
        (self.days.start.saturating_add(shift)..=self.high())
            .rev()
            .any(|day| pool.iter().filter(|ticker| could(ticker, day)).take(count).count() == count)
    }

    /// The first day that some `count` of `pool`, together, and the macro tickers could start on.
    pub(crate) fn low_of(&self, pool: &[usize], count: usize) -> usize {
        let mut first: Vec<usize> = pool.iter().map(|&ticker| self.low(&[ticker]).0).collect();
        first.sort_unstable();
        first.get(count.saturating_sub(1)).copied().unwrap_or(self.days.end)
    }

    fn listed(&self, ticker: usize, day: usize) -> bool {
        self.listed[ticker * self.words + day / BITS] >> (day % BITS) & 1 == 1
    }

    /// A day drawn uniformly from those with a full history, else from those on which all are listed,
    /// else from all that the lag allows and, with a shift, that lie so far behind the first.
    ///
    /// `shift`: that many days at the beginning are left out; some are left. `O(T * D / 64)`, once per episode.
    pub(crate) fn draw(&self, tickers: &[usize], shift: usize, stream: &mut Stream) -> usize {
        let allowed = self
            .common(&self.with_history, tickers, shift)
            .or_else(|| self.common(&self.listed, tickers, shift))
            .unwrap_or_else(|| {
                let first = if shift > 0 { self.low(tickers).0 + shift } else { self.days.start };
                let low = first.max(self.lag);
                Allowed { low, high: self.high().max(low), bits: None }
            });
        let span = (allowed.high - allowed.low + 1) as u64;
        loop {
            // Fits: below the number of days.
            let day = allowed.low + usize::try_from(stream.below(span)).unwrap_or_default();
            if allowed.bits.as_ref().is_none_or(|bits| bits[day / BITS] >> (day % BITS) & 1 == 1) {
                return day;
            }
        }
    }

    /// The days that all have in `bits`, within the range; `None` where there are none.
    fn common(&self, bits: &[u64], tickers: &[usize], shift: usize) -> Option<Allowed> {
        let (low, high) = (self.low(tickers).0.saturating_add(shift), self.high());
        if bits.is_empty() || low > high {
            return None;
        }
        let mut both = vec![u64::MAX; self.words];
        for &ticker in tickers.iter().chain(&self.macros) {
            let theirs = &bits[ticker * self.words..(ticker + 1) * self.words];
            both.iter_mut().zip(theirs).for_each(|(both, theirs)| *both &= theirs);
        }
        let mut within = low..=high;
        within.any(|day| both[day / BITS] >> (day % BITS) & 1 == 1).then_some(Allowed {
            low,
            high,
            bits: Some(both),
        })
    }
}
