//! Sessions: the pattern of a trading day, its auctions and the night between two days.
//!
//! Activity and volatility of a day have the shape of a U: Admati and Pfleiderer, *A theory of
//! intraday patterns: volume and price variability* (1988).

use crate::config::SessionConfig;

/// Effects of the session in one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent events of one tick")]
pub(crate) struct SessionTick {
    /// A night lies before this tick.
    pub(crate) after_night: bool,
    /// Orders wait for an auction.
    pub(crate) auction: bool,
    /// The auction that orders wait for is held at the end of this tick.
    pub(crate) call: bool,
    /// Open orders are cancelled at the end of this tick.
    pub(crate) expires: bool,
    /// Factor on wake rates.
    pub(crate) activity: f64,
    /// Factor on the standard deviation of the fundamental's random walk.
    pub(crate) volatility: f64,
}

impl SessionTick {
    /// A tick of a market that never closes.
    const OPEN: Self = Self {
        after_night: false,
        auction: false,
        call: false,
        expires: false,
        activity: 1.0,
        volatility: 1.0,
    };
}

impl SessionConfig {
    /// Sessions turned off: one day that never ends.
    pub const OFF: Self = Self { ticks: 23_400, u_shape: 0.0, auction_ticks: 0, overnight_sd: 0.0 };

    /// Returns whether days differ from a market that never closes.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.u_shape > 0.0 || self.auction_ticks > 0 || self.overnight_sd > 0.0
    }

    /// Returns what the session makes of tick `now`, counted from 1.
    #[inline]
    pub(crate) fn at(&self, now: u64) -> SessionTick {
        if !self.is_on() {
            return SessionTick::OPEN;
        }
        let (ticks, auction) = (u64::from(self.ticks), u64::from(self.auction_ticks));
        let time = (now - 1) % ticks;
        // From -1 at the open to 1 at the close: the mean of `3 x^2 - 1` is 0, that of its square
        // 0.8. So the mean of the wake rates stays, and that of the variance.
        let x = (2 * time + 1) as f64 / ticks as f64 - 1.0;
        let activity = 1.0 + self.u_shape * (3.0 * x * x - 1.0);
        SessionTick {
            after_night: time == 0 && now > 1,
            auction: time < auction || time >= ticks - auction,
            call: auction > 0 && (time == auction - 1 || time == ticks - 1),
            expires: time == ticks - auction - 1,
            activity,
            volatility: activity / (1.0 + 0.8 * self.u_shape * self.u_shape).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SessionConfig =
        SessionConfig { ticks: 100, u_shape: 0.5, auction_ticks: 10, overnight_sd: 0.01 };

    #[test]
    fn a_day_has_two_auctions_and_one_night_before_it() {
        let ticks: Vec<_> = (1..=200).map(|now| DAY.at(now)).collect();
        let at = |chosen: fn(&SessionTick) -> bool| -> Vec<usize> {
            (0..200).filter(|&tick| chosen(&ticks[tick])).map(|tick| tick + 1).collect()
        };
        assert_eq!(at(|tick| tick.after_night), [101]);
        assert_eq!(at(|tick| tick.call), [10, 100, 110, 200]);
        assert_eq!(at(|tick| tick.expires), [90, 190]);
        let waiting: Vec<_> = [1..=10, 91..=110, 191..=200].into_iter().flatten().collect();
        assert_eq!(at(|tick| tick.auction), waiting);
    }

    #[test]
    fn the_means_of_wake_rates_and_of_the_variance_over_a_day_are_one() {
        for u_shape in [0.0, 0.3, 0.9] {
            let day = SessionConfig { ticks: 10_000, u_shape, ..DAY };
            let ticks = || (1..=10_000).map(|now| day.at(now));
            let rate = ticks().map(|tick| tick.activity).sum::<f64>() / 1e4;
            let variance = ticks().map(|tick| tick.volatility.powi(2)).sum::<f64>() / 1e4;
            assert!((rate - 1.0).abs() < 1e-6, "{rate}");
            assert!((variance - 1.0).abs() < 1e-6, "{variance}");
            assert!(ticks().all(|tick| tick.activity > 0.0));
        }
    }

    #[test]
    fn a_day_ends_as_it_begins_and_rests_in_between() {
        let ticks: Vec<_> = (1..=100).map(|now| DAY.at(now).activity).collect();
        for (morning, evening) in ticks.iter().zip(ticks.iter().rev()) {
            assert!((morning - evening).abs() < 1e-12, "{morning} and {evening}");
        }
        assert!(ticks[..50].windows(2).all(|pair| pair[0] > pair[1]));
        // 1 + 0.5 (3 x^2 - 1) at x = 0.99 and x = 0.01.
        assert!((ticks[0] - 1.970_15).abs() < 1e-9 && (ticks[49] - 0.500_15).abs() < 1e-9);
    }

    #[test]
    fn a_market_without_sessions_never_closes() {
        let never = SessionConfig::OFF;
        assert!((1..=3 * 23_400).all(|now| never.at(now) == SessionTick::OPEN));
    }
}
