//! Hidden value of a share, and the news that moves it.

use crate::{
    config::{FundamentalConfig, MarketConfig, NewsConfig},
    ledger::DAY_TICKS,
    rng::{RandomStream, StreamRole},
    session::SessionTick,
};

/// Ticks between two updates of the volatility factors.
const VOLATILITY_STEP: u64 = 16;
/// Maximum number of live news events of one symbol. If none has faded, a further one replaces the
/// oldest.
pub const LIVE_NEWS: usize = 8;

/// Kind of a news event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NewsKind {
    /// Changes the value of one symbol permanently.
    Company,
    /// Tilts sentiment on one symbol, without a change of value.
    Rumour,
    /// Changes the value of all symbols permanently.
    Market,
}

/// One news event.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct News {
    /// Kind of the event.
    pub kind: NewsKind,
    /// Tick of its arrival.
    pub since: u64,
    /// Ticks until the event has faded.
    pub life: u32,
    /// Sentiment at arrival, -1 to 1.
    pub sentiment: f64,
    /// Magnitude, 0 to 1, which does not fade.
    pub magnitude: f64,
}

impl News {
    const NONE: Self =
        Self { kind: NewsKind::Rumour, since: 0, life: 0, sentiment: 0.0, magnitude: 0.0 };

    /// Returns the ticks left at `now`; 0 once the event has faded.
    #[must_use]
    pub fn left(&self, now: u64) -> u64 {
        (self.since + u64::from(self.life)).saturating_sub(now)
    }

    /// Returns the sentiment at `now`, faded linearly.
    #[must_use]
    pub fn faded(&self, now: u64) -> f64 {
        self.sentiment * self.left(now) as f64 / f64::from(self.life.max(1))
    }
}

/// Random arrivals of news.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newsroom {
    stream: RandomStream,
    next: u64,
    mean_wait: f64,
}

impl Newsroom {
    pub(crate) const fn new() -> Self {
        Self {
            stream: RandomStream::new(0, StreamRole::News, 0),
            next: u64::MAX,
            mean_wait: f64::INFINITY,
        }
    }

    pub(crate) fn reset(&mut self, stream: RandomStream, per_day: f64, now: u64) {
        self.stream = stream;
        self.mean_wait = if per_day > 0.0 { DAY_TICKS as f64 / per_day } else { f64::INFINITY };
        self.schedule(now);
    }

    fn schedule(&mut self, now: u64) {
        self.next = if self.mean_wait.is_finite() {
            now + self.stream.wait(self.mean_wait)
        } else {
            u64::MAX
        };
    }

    /// Returns the event of this tick, if any, with its shock to the logarithm of the value.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        now: u64,
        config: &NewsConfig,
        market: bool,
    ) -> Option<(News, f64)> {
        if now < self.next {
            return None;
        }
        let size = self.stream.normal();
        let rumour = self.stream.chance(config.rumour_share);
        let life = self.stream.exponential(config.life_ticks).clamp(1.0, 1e7) as u32;
        self.schedule(now);
        let (kind, shock) = match (market, rumour) {
            (true, _) => (NewsKind::Market, size * config.shock_sd),
            (false, true) => (NewsKind::Rumour, 0.0),
            (false, false) => (NewsKind::Company, size * config.shock_sd),
        };
        // Sentiment saturates: a shock of one standard deviation reads as 0.76.
        let sentiment = size.tanh();
        let magnitude = (size.abs() / 3.0).min(1.0);
        Some((News { kind, since: now, life, sentiment, magnitude }, shock))
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        word(self.stream.state());
        word(self.next);
    }
}

/// Slowly changing error of a revealed fundamental.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Analyst {
    stream: RandomStream,
    error: f64,
}

/// Time constant of the analyst's error, in ticks.
const ANALYST_TICKS: f64 = 300.0;

impl Analyst {
    pub(crate) fn reset(&mut self, mut stream: RandomStream, config: &MarketConfig) {
        self.error = config.features.reveal_fundamental.unwrap_or(0.0) * stream.normal();
        self.stream = stream;
    }

    pub(crate) const fn reseed(&mut self, stream: RandomStream) {
        self.stream = stream;
    }

    #[inline]
    pub(crate) fn step(&mut self, config: &MarketConfig) {
        if let Some(sd) = config.features.reveal_fundamental {
            let keep = 1.0 - 1.0 / ANALYST_TICKS;
            self.error = keep * self.error + sd * (1.0 - keep * keep).sqrt() * self.stream.normal();
        }
    }

    /// Returns the error of the logarithm of the value.
    pub(crate) const fn error(&self) -> f64 {
        self.error
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        word(self.stream.state());
        word(self.error.to_bits());
    }
}

/// Normal draws of one tick that all symbols have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommonDraws {
    stream: RandomStream,
    walk: f64,
    night: f64,
}

impl CommonDraws {
    /// Starts over with the stream of an episode.
    pub(crate) const fn reseed(&mut self, stream: RandomStream) {
        self.stream = stream;
    }

    /// Draws for one tick. Draws nothing where symbols have nothing in common.
    #[inline]
    pub(crate) fn step(&mut self, config: &FundamentalConfig, session: SessionTick) {
        if config.common > 0.0 {
            self.walk = self.stream.normal();
            self.night = if session.after_night { self.stream.normal() } else { 0.0 };
        }
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        word(self.stream.state());
    }
}

/// Fundamental value of one symbol, its volatility factors and its live news.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fundamental {
    stream: RandomStream,
    start: f64,
    log: f64,
    value: f64,
    fast: f64,
    slow: f64,
    sd: f64,
    news: [News; LIVE_NEWS],
    live: u8,
}

impl Fundamental {
    pub(crate) const fn new() -> Self {
        Self {
            stream: RandomStream::new(0, StreamRole::Fundamental, 0),
            start: 0.0,
            log: 0.0,
            value: 1.0,
            fast: 0.0,
            slow: 0.0,
            sd: 0.0,
            news: [News::NONE; LIVE_NEWS],
            live: 0,
        }
    }

    pub(crate) fn reset(&mut self, config: &FundamentalConfig, price: i32, stream: RandomStream) {
        *self = Self::new();
        self.stream = stream;
        self.start = f64::from(price).ln();
        self.log = self.start;
        self.value = f64::from(price);
        self.fast = config.fast_sd * self.stream.normal();
        self.slow = config.slow_sd * self.stream.normal();
        self.renew_sd(config);
    }

    /// Replaces the random stream and keeps the state.
    pub(crate) const fn reseed(&mut self, stream: RandomStream) {
        self.stream = stream;
    }

    fn renew_sd(&mut self, config: &FundamentalConfig) {
        // The mean of the variance stays `volatility^2`: E[exp(2x)] = exp(2 sd^2).
        let centre = config.fast_sd.powi(2) + config.slow_sd.powi(2);
        self.sd = config.volatility * (self.fast + self.slow - centre).exp();
    }

    #[inline]
    pub(crate) fn step(
        &mut self,
        (config, overnight_sd): (&FundamentalConfig, f64),
        (now, session): (u64, SessionTick),
        common: &CommonDraws,
    ) {
        const DAY: f64 = DAY_TICKS as f64;
        let own = (1.0 - config.common).sqrt();
        let shared = config.common.sqrt();
        if session.after_night && overnight_sd > 0.0 {
            let draw = own * self.stream.normal() + shared * common.night;
            self.log += overnight_sd * draw;
        }
        if now.is_multiple_of(VOLATILITY_STEP) {
            let step = VOLATILITY_STEP as f64;
            for (factor, time, sd) in [
                (&mut self.fast, config.fast_ticks, config.fast_sd),
                (&mut self.slow, config.slow_ticks, config.slow_sd),
            ] {
                let keep = (-step / time).exp();
                *factor = *factor * keep + sd * (1.0 - keep * keep).sqrt() * self.stream.normal();
            }
            self.renew_sd(config);
            let hits = config.jumps_per_day * step / DAY;
            if self.stream.chance(hits) {
                self.log += config.jump_sd * self.stream.normal();
            }
            self.forget_faded(now);
        }
        let draw = own * self.stream.normal() + shared * common.walk;
        self.log += self.sd * session.volatility * draw
            + (config.drift_per_day + config.reversion_per_day * (self.start - self.log)) / DAY;
        // Keeps the value within the prices that a book can hold.
        self.log = self.log.clamp(0.7, 18.0);
        self.value = self.log.exp();
    }

    pub(crate) fn hit(&mut self, news: News, shock: f64) {
        self.log = (self.log + shock).clamp(0.7, 18.0);
        self.value = self.log.exp();
        if usize::from(self.live) == LIVE_NEWS {
            self.forget_faded(news.since);
        }
        if usize::from(self.live) == LIVE_NEWS {
            self.forget(0);
        }
        self.news[usize::from(self.live)] = news;
        self.live += 1;
    }

    /// Removes the events that have faded. Checks all of them, since a short one may follow a long
    /// one.
    fn forget_faded(&mut self, now: u64) {
        for at in (0..usize::from(self.live)).rev() {
            if self.news[at].left(now) == 0 {
                self.forget(at);
            }
        }
    }

    fn forget(&mut self, at: usize) {
        self.news.copy_within(at + 1.., at);
        self.news[LIVE_NEWS - 1] = News::NONE;
        self.live -= 1;
    }

    /// Returns the value in price ticks.
    #[inline]
    pub(crate) const fn value(&self) -> f64 {
        self.value
    }

    /// Returns the live events, oldest first. Some may have faded since the last clean-up.
    pub(crate) fn news(&self) -> &[News] {
        &self.news[..usize::from(self.live)]
    }

    /// Returns the sum of the faded sentiments, clamped to -1 to 1.
    #[inline]
    pub(crate) fn sentiment(&self, now: u64) -> f64 {
        if self.live == 0 {
            return 0.0;
        }
        self.news().iter().map(|news| news.faded(now)).sum::<f64>().clamp(-1.0, 1.0)
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        word(self.stream.state());
        word(self.log.to_bits());
        word(self.fast.to_bits());
        word(self.slow.to_bits());
        word(u64::from(self.live));
        for news in self.news() {
            word(news.since << 32 | u64::from(news.life));
            word(news.sentiment.to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentiment_fades_linearly_from_its_arrival_to_its_end() {
        let news = News { since: 100, life: 40, sentiment: -0.8, magnitude: 0.5, ..News::NONE };
        for (now, left, faded) in
            [(100, 40, -0.8), (110, 30, -0.6), (139, 1, -0.02), (140, 0, 0.0), (500, 0, 0.0)]
        {
            assert_eq!(news.left(now), left, "tick {now}");
            assert!((news.faded(now) - faded).abs() < 1e-12, "tick {now}: {}", news.faded(now));
        }
        assert_eq!(News::NONE.left(0), 0);
        assert!(News::NONE.faded(0).abs() < 1e-12, "no life, no division by zero");
    }

    #[test]
    fn the_error_of_an_analyst_has_its_deviation_and_fades_in_300_ticks() {
        let mut config = crate::Preset::Normal.config();
        config.features.reveal_fundamental = Some(0.02);
        let mut analyst = Analyst::default();
        let (mut squares, mut products) = (0.0, 0.0);
        let (runs, ticks) = (200_u32, 6_000_u32);
        for run in 0..runs {
            analyst.reset(RandomStream::new(run.into(), StreamRole::Other, 0), &config);
            let errors: Vec<f64> = (0..ticks)
                .map(|_| {
                    analyst.step(&config);
                    analyst.error()
                })
                .collect();
            squares += errors.iter().map(|error| error * error).sum::<f64>();
            products +=
                errors.iter().zip(&errors[300..]).map(|(one, other)| one * other).sum::<f64>();
        }
        let count = f64::from(runs) * f64::from(ticks);
        let variance = squares / count;
        assert!((variance / 4e-4 - 1.0).abs() < 0.12, "{variance}");
        let correlation = products / (count * f64::from(ticks - 300) / f64::from(ticks)) / variance;
        assert!((correlation - (-1.0_f64).exp()).abs() < 0.08, "{correlation}");
    }

    /// Returns settings of a value that does not move.
    fn still() -> FundamentalConfig {
        FundamentalConfig {
            volatility: 0.0,
            fast_sd: 0.0,
            slow_sd: 0.0,
            jumps_per_day: 0.0,
            drift_per_day: 0.0,
            reversion_per_day: 0.0,
            common: 0.0,
            ..crate::Preset::Normal.config().fundamental
        }
    }

    /// Returns the changes of the logarithm over ticks of an open market.
    fn changes(config: &FundamentalConfig, seed: u64, ticks: u64) -> Vec<f64> {
        let stream = |number| RandomStream::new(seed, StreamRole::Fundamental, number);
        let (mut value, mut common) = (Fundamental::new(), CommonDraws::default());
        value.reset(config, 10_000, stream(0));
        common.reseed(stream(1));
        let (mut last, open) = (value.value().ln(), crate::SessionConfig::OFF.at(1));
        (1..=ticks)
            .map(|now| {
                common.step(config, open);
                value.step((config, 0.0), (now, open), &common);
                let change = value.value().ln() - last;
                last += change;
                change
            })
            .collect()
    }

    #[test]
    fn a_value_drifts_and_returns_to_its_start_by_the_day() {
        let config = FundamentalConfig { drift_per_day: 0.6, reversion_per_day: 30.0, ..still() };
        let found: f64 = changes(&config, 1, 20_000).iter().sum();
        let mut away = 0.0;
        for _ in 0..20_000 {
            away += (0.6 - 30.0 * away) / DAY_TICKS as f64;
        }
        assert!((found - away).abs() < 1e-9, "{found}, not {away}");
        assert!(away > 0.5 * 0.6 / 30.0, "it nears where both are equal");
    }

    #[test]
    fn the_variance_of_a_value_is_that_of_its_settings_whatever_makes_it_up() {
        let plain = FundamentalConfig { volatility: 1e-3, ..still() };
        for config in [
            plain,
            FundamentalConfig { common: 0.3, ..plain },
            FundamentalConfig { common: 1.0, ..plain },
            FundamentalConfig { fast_sd: 0.3, fast_ticks: 50.0, ..plain },
            FundamentalConfig { slow_sd: 0.4, slow_ticks: 90.0, fast_sd: 0.2, ..plain },
        ] {
            let (mut squares, mut count) = (0.0, 0.0);
            for seed in 0..20 {
                let found = changes(&config, seed, 4_000);
                squares += found.iter().map(|change| change * change).sum::<f64>();
                count += found.len() as f64;
            }
            let ratio = squares / count / 1e-6;
            assert!((ratio - 1.0).abs() < 0.08, "{ratio} of the variance: {config:?}");
        }
    }

    #[test]
    fn jumps_come_as_often_and_are_as_large_as_their_settings_say() {
        let config = FundamentalConfig { jumps_per_day: 400.0, jump_sd: 0.01, ..still() };
        let found = changes(&config, 2, 400_000);
        let jumps: Vec<f64> = found.into_iter().filter(|change| change.abs() > 1e-9).collect();
        let (count, expected) = (jumps.len() as f64, 400.0 * 4e5 / DAY_TICKS as f64);
        assert!((count / expected - 1.0).abs() < 4.0 / expected.sqrt(), "{count}, not {expected}");
        let sd = (jumps.iter().map(|jump| jump * jump).sum::<f64>() / count).sqrt();
        assert!((sd / 0.01 - 1.0).abs() < 0.05, "{sd}");
    }

    #[test]
    fn news_that_have_faded_leave_first_and_then_the_oldest() {
        let mut value = Fundamental::new();
        value.reset(&still(), 10_000, RandomStream::new(1, StreamRole::Fundamental, 0));
        let news = |since, life| News { since, life, sentiment: 0.5, ..News::NONE };
        // The fourth fades at tick 9.
        for since in 0..LIVE_NEWS as u64 {
            value.hit(news(since, if since == 3 { 6 } else { 1_000 }), 0.0);
        }
        let since = |value: &Fundamental| -> Vec<u64> {
            value.news().iter().map(|news| news.since).collect()
        };
        assert_eq!(since(&value), [0, 1, 2, 3, 4, 5, 6, 7]);
        value.hit(news(9, 1_000), 0.0);
        assert_eq!(since(&value), [0, 1, 2, 4, 5, 6, 7, 9]);
        value.hit(news(10, 1_000), 0.1);
        assert_eq!(since(&value), [1, 2, 4, 5, 6, 7, 9, 10]);
        assert!((value.value() / 10_000.0 - 0.1_f64.exp()).abs() < 1e-12);
        assert!((value.sentiment(10) - 1.0).abs() < 1e-12, "the sum of all is clamped");
    }
}
