//! On which days an episode may start: where every ticker is listed, with real days before, or, where the tickers
//! have no such day in common, where one of them is.

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
    /// First day on which the shares that an episode begins with have a price; 0 without such shares.
    held_from: Vec<usize>,
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
    /// `used`: the tickers that episodes may have; `held`: those of which they begin with shares. Reads `history`
    /// once per day and ticker.
    pub(crate) fn new(
        panel: &Panel,
        used: &[usize],
        held: impl Iterator<Item = usize>,
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
            held_from: vec![0; tickers],
            macros,
        };
        for ticker in held {
            starts.held_from[ticker] = panel.first_day(ticker).unwrap_or(all_days);
        }
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

    /// Is there a day on which an episode of `tickers` may start, `shift` or more after the first that might do?
    pub(crate) fn any(&self, tickers: &[usize], shift: usize) -> bool {
        self.allowed(tickers, shift).is_some()
    }

    /// The first day that one of `tickers` could start on, and which that is.
    pub(crate) fn earliest(&self, tickers: &[usize]) -> (usize, usize) {
        let all = tickers.iter().copied();
        let earliest = all.min_by_key(|&ticker| self.first[ticker]).unwrap_or_default();
        (self.first[earliest].max(self.days.start).max(self.held_from(tickers)), earliest)
    }

    /// First day on which all shares that an episode of `tickers` begins with have a price.
    pub(crate) fn held_from(&self, tickers: &[usize]) -> usize {
        tickers.iter().map(|&ticker| self.held_from[ticker]).max().unwrap_or_default()
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

    /// A day drawn uniformly from those with a full history, else from those on which all are listed, else (where the
    /// tickers have no day in common) from those on which one of them is, else from all that the lag allows and, with a
    /// shift, that lie so far behind the first.
    ///
    /// `shift`: that many days at the beginning are left out; some are left. `O(T * D / 64)`, once per episode.
    pub(crate) fn draw(&self, tickers: &[usize], shift: usize, stream: &mut Stream) -> usize {
        let allowed = self
            .common(&self.with_history, tickers, shift)
            .or_else(|| self.allowed(tickers, shift))
            .unwrap_or_else(|| {
                let first = if shift > 0 { self.low(tickers).0 + shift } else { self.days.start };
                let low = first.max(self.lag);
                let high = self.high().max(low);
                Allowed { low: low.max(self.held_from(tickers)).min(high), high, bits: None }
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

    /// The days on which all are listed; where the tickers have none in common, those on which one of them is.
    fn allowed(&self, tickers: &[usize], shift: usize) -> Option<Allowed> {
        let common = self.common(&self.listed, tickers, 0);
        if shift == 0 && common.is_some() {
            return common;
        }
        if common.is_some() {
            return self.common(&self.listed, tickers, shift);
        }
        self.some(&self.with_history, tickers, shift)
            .or_else(|| self.some(&self.listed, tickers, shift))
    }

    /// The days that one of `tickers` has in `bits`, within the range, with the macro tickers if there are such.
    fn some(&self, bits: &[u64], tickers: &[usize], shift: usize) -> Option<Allowed> {
        if bits.is_empty() {
            return None;
        }
        let first = if shift > 0 {
            self.low(tickers).0.saturating_add(shift)
        } else {
            self.days.start.max(self.lag)
        };
        let mut some = vec![0_u64; self.words];
        for &ticker in tickers {
            let theirs = &bits[ticker * self.words..(ticker + 1) * self.words];
            some.iter_mut().zip(theirs).for_each(|(some, theirs)| *some |= theirs);
        }
        let mut with_macros = some.clone();
        for &ticker in &self.macros {
            let theirs = &self.listed[ticker * self.words..(ticker + 1) * self.words];
            with_macros.iter_mut().zip(theirs).for_each(|(both, theirs)| *both &= theirs);
        }
        let low = first.max(self.held_from(tickers));
        self.within(low, with_macros).or_else(|| self.within(low, some))
    }

    /// The days of `bits` from `low` to the last that may be drawn; `None` where there are none.
    fn within(&self, low: usize, bits: Vec<u64>) -> Option<Allowed> {
        let high = self.high();
        (low..=high).any(|day| bits[day / BITS] >> (day % BITS) & 1 == 1).then_some(Allowed {
            low,
            high,
            bits: Some(bits),
        })
    }

    /// The days that all have in `bits`, within the range; `None` where there are none.
    fn common(&self, bits: &[u64], tickers: &[usize], shift: usize) -> Option<Allowed> {
        let low = self.low(tickers).0.saturating_add(shift);
        if bits.is_empty() || low > self.high() {
            return None;
        }
        let mut both = vec![u64::MAX; self.words];
        for &ticker in tickers.iter().chain(&self.macros) {
            let theirs = &bits[ticker * self.words..(ticker + 1) * self.words];
            both.iter_mut().zip(theirs).for_each(|(both, theirs)| *both &= theirs);
        }
        self.within(low, both)
    }
}
