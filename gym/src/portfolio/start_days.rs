//! Days on which an episode may start: all tickers are listed, or one of them if they have no day
//! in common.

use std::ops::Range;

use backcast_market::Panel;

use crate::contract::EnvStream;

const BITS: usize = 64;

/// Bitmasks of the possible start days, one for every ticker of a panel.
#[derive(Clone, Debug)]
pub(crate) struct StartDays {
    /// Days of the environment.
    days: Range<usize>,
    lag: usize,
    words: usize,
    /// Days on which the ticker is listed, and was `lag` days before, `[T][words]`. A macro ticker
    /// has all days from its first one.
    listed: Vec<u64>,
    /// Days of `listed` with `history` listed days before them; empty without history.
    with_history: Vec<u64>,
    /// Lower limit of the start days of each ticker. For a ticker without a row, it is at least the
    /// number of days.
    first: Vec<usize>,
    /// First day on which the initial shares have a price; 0 without such shares.
    held_from: Vec<usize>,
    macros: Vec<usize>,
}

/// Days from which one is drawn.
struct AllowedDays {
    low: usize,
    /// Last day, inclusive.
    high: usize,
    /// Bitmask of the days; `None` allows all.
    bits: Option<Vec<u64>>,
}

impl StartDays {
    /// Computes the masks in one pass over days and tickers. `used` are the tickers that episodes
    /// may have, `held` those with initial shares.
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
        let mut days_of = Self {
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
            days_of.held_from[ticker] = panel.first_day(ticker).unwrap_or(all_days);
        }
        for &ticker in used.iter().chain(&days_of.macros) {
            let is_macro = panel.is_macro(ticker);
            // A damaged panel may hold a ticker without rows; it has no start day.
            let first_row = panel.first_day(ticker).unwrap_or(all_days);
            days_of.first[ticker] =
                if is_macro { first_row } else { first_row.saturating_add(lag) };
            let mut listed_in_a_row = 0_usize;
            for day in 0..all_days {
                let here = panel.listed(ticker, day);
                let good = if is_macro {
                    day >= first_row
                } else {
                    here && day >= lag && panel.listed(ticker, day - lag)
                };
                let bit = u64::from(good) << (day % BITS);
                let at = ticker * words + day / BITS;
                days_of.listed[at] |= bit;
                if history > 0 && listed_in_a_row >= history {
                    days_of.with_history[at] |= bit;
                }
                listed_in_a_row = if here { listed_in_a_row + 1 } else { 0 };
            }
        }
        days_of
    }

    /// Returns the last day that may be drawn, at four fifths of the range, minus one.
    pub(crate) fn high(&self) -> usize {
        self.days.start + self.days.len() * 4 / 5 - 1
    }

    /// Returns the lower limit of the days on which all `tickers` and macro tickers are listed, and
    /// the ticker with the latest limit of its own.
    pub(crate) fn low(&self, tickers: &[usize]) -> (usize, usize) {
        let all = tickers.iter().chain(&self.macros);
        let latest = all.copied().max_by_key(|&ticker| self.first[ticker]).unwrap_or_default();
        (self.first[latest].max(self.days.start), latest)
    }

    /// Returns whether an episode of `tickers` has a start day at least `shift` days after the
    /// first.
    pub(crate) fn any(&self, tickers: &[usize], shift: usize) -> bool {
        self.allowed(tickers, shift).is_some()
    }

    /// Returns the first day on which one of `tickers` could start and all their initial shares
    /// have a price, and that ticker.
    pub(crate) fn earliest(&self, tickers: &[usize]) -> (usize, usize) {
        let all = tickers.iter().copied();
        let earliest = all.min_by_key(|&ticker| self.first[ticker]).unwrap_or_default();
        (self.first[earliest].max(self.days.start).max(self.held_from(tickers)), earliest)
    }

    /// Returns the first day on which all initial shares of `tickers` have a price.
    pub(crate) fn held_from(&self, tickers: &[usize]) -> usize {
        tickers.iter().map(|&ticker| self.held_from[ticker]).max().unwrap_or_default()
    }

    /// Returns whether on some day `count` tickers of `pool` and all macro tickers are listed. The
    /// day must be at least `shift` days after the first start day of each of these tickers.
    pub(crate) fn any_of(&self, pool: &[usize], count: usize, shift: usize) -> bool {
        let could = |&ticker: &usize, day: usize| {
            day.checked_sub(shift).is_some_and(|first| first >= self.low(&[ticker]).0)
                && self.listed(ticker, day)
                && self.macros.iter().all(|&shown| self.listed(shown, day))
        };
        // Searches backwards: later days suit more tickers.
        (self.days.start.saturating_add(shift)..=self.high())
            .rev()
            .any(|day| pool.iter().filter(|ticker| could(ticker, day)).take(count).count() == count)
    }

    /// Returns the first day on which `count` tickers of `pool` and the macro tickers could start.
    /// Returns the end of the days if the pool has fewer tickers.
    pub(crate) fn low_of(&self, pool: &[usize], count: usize) -> usize {
        let mut first: Vec<usize> = pool.iter().map(|&ticker| self.low(&[ticker]).0).collect();
        first.sort_unstable();
        first.get(count.saturating_sub(1)).copied().unwrap_or(self.days.end)
    }

    fn listed(&self, ticker: usize, day: usize) -> bool {
        self.listed[ticker * self.words + day / BITS] >> (day % BITS) & 1 == 1
    }

    /// Draws a start day uniformly from the first of these sets that is not empty:
    ///
    /// 1. days on which all tickers and macro tickers are listed, with their history;
    /// 2. days on which all of them are listed;
    /// 3. if they have no such day: days on which one ticker is listed, preferably with its
    ///    history, then preferably with all macro tickers;
    /// 4. all days that the lag, the shift and the initial shares allow.
    ///
    /// `shift` leaves out that many days at the beginning. Takes `O(T * D / 64 + D)`, once per
    /// episode.
    pub(crate) fn draw(
        &self,
        tickers: &[usize],
        shift: usize,
        stream: &mut EnvStream<'_>,
    ) -> usize {
        let allowed = self
            .common(&self.with_history, tickers, shift)
            .or_else(|| self.allowed(tickers, shift))
            .unwrap_or_else(|| {
                let first = if shift > 0 { self.low(tickers).0 + shift } else { self.days.start };
                let low = first.max(self.lag);
                let high = self.high().max(low);
                AllowedDays { low: low.max(self.held_from(tickers)).min(high), high, bits: None }
            });
        let span = (allowed.high - allowed.low + 1) as u64;
        loop {
            // The day fits a `usize`, since it is below the number of days.
            let day = allowed.low + usize::try_from(stream.below(span)).unwrap_or_default();
            if allowed.bits.as_ref().is_none_or(|bits| bits[day / BITS] >> (day % BITS) & 1 == 1) {
                return day;
            }
        }
    }

    /// Returns the days on which all tickers are listed. If there are none even without `shift`,
    /// returns the days on which at least one ticker is listed. Returns `None` if no day is left.
    fn allowed(&self, tickers: &[usize], shift: usize) -> Option<AllowedDays> {
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

    /// Returns the days on which any of `tickers` is set in `bits` and all macro tickers are
    /// listed. Without such a day, ignores the macro tickers.
    fn some(&self, bits: &[u64], tickers: &[usize], shift: usize) -> Option<AllowedDays> {
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

    /// Returns the days of `bits` from `low` to the last that may be drawn, if there are any.
    fn within(&self, low: usize, bits: Vec<u64>) -> Option<AllowedDays> {
        let high = self.high();
        (low..=high).any(|day| bits[day / BITS] >> (day % BITS) & 1 == 1).then_some(AllowedDays {
            low,
            high,
            bits: Some(bits),
        })
    }

    /// Returns the days that are set in `bits` for all `tickers` and all macro tickers, if there
    /// are any. Leaves out the first `shift` days, and those after the last that may be drawn.
    fn common(&self, bits: &[u64], tickers: &[usize], shift: usize) -> Option<AllowedDays> {
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
