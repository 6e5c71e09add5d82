//! Search for round trips that move the price and gain from it.
//!
//! A schedule builds a position, waits and closes it. It is played twice from each moment of a
//! market, once buying first and once selling first: the mean of the two profits is free of the
//! price moves that would have come without it. Huberman and Stanzl 2004 call a round trip with a
//! positive expected profit a price manipulation; Gatheral 2010 has conditions under which none
//! exists.

use super::sample::{mean, std_error};
use super::significance::one_sided_p;
use super::subject::{OUTSIDE_ACCOUNTS, OutsideKind, OutsideOrder, Subject};
use crate::book::Side;
use crate::rng::{RandomStream, StreamRole};

/// Moments on which every schedule is played.
const FIRST_MOMENTS: usize = 2;
/// Divisor of the number of schedules that are played again in a second round.
const SECOND_SHARE: usize = 10;
/// Moments on which the schedules of the second round are played.
const SECOND_MOMENTS: usize = 12;
/// Schedules that are played on fresh seeds.
const FINALISTS: usize = 20;
/// Fresh moments on which the finalists are played, each from a seed of its own.
const FRESH_MOMENTS: usize = 60;
/// Maximum shares of a schedule.
const MOST_SHARES: i32 = 20_000;
/// Maximum ticks after a schedule in which the rest of its position is closed.
const CLOSING_TICKS: usize = 50;

/// A round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Ticks in which the position is built.
    pub ticks: u32,
    /// Orders in each of these ticks.
    pub orders: u32,
    /// Shares of each order.
    pub shares: i32,
    /// Ticks between the last order and the first block that closes the position.
    pub wait: u32,
    /// Blocks that close the position.
    pub blocks: u32,
    /// Ticks between two blocks.
    pub gap: u32,
    /// Distance in ticks behind the best price of the limit orders that build the position; `None`
    /// builds it with market orders.
    pub behind: Option<i32>,
    /// Whether another account closes the position.
    pub two_accounts: bool,
}

impl Schedule {
    /// Draws a schedule: sizes, numbers and times are log-uniform.
    fn draw(stream: &mut RandomStream) -> Self {
        let mut whole = |low: f64, high: f64| {
            let drawn = stream.range(low.ln(), (high + 1.0).ln()).exp();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 500")]
            let drawn = drawn as u32;
            drawn
        };
        let (ticks, orders, shares) = (whole(1.0, 120.0), whole(1.0, 60.0), whole(1.0, 500.0));
        let (wait, blocks, gap) = (whole(1.0, 120.0) - 1, whole(1.0, 20.0), whole(1.0, 20.0));
        let behind = stream.chance(0.2).then(|| i32::from(stream.chance(0.5)));
        let two_accounts = stream.chance(0.2);
        let most = MOST_SHARES / i32::try_from(ticks * orders).unwrap_or(i32::MAX);
        let shares = i32::try_from(shares).unwrap_or(1).min(most).max(1);
        Self { ticks, orders, shares, wait, blocks, gap, behind, two_accounts }
    }

    /// Plays the schedule on a copy of `market` in both directions. Returns the mean profit in
    /// price ticks times shares.
    pub fn play<S: Subject>(&self, market: &S) -> f64 {
        let [bought, sold] = [Side::Buy, Side::Sell].map(|side| self.round(market.clone(), side));
        0.5 * (bought + sold)
    }

    /// Plays the schedule in one direction and returns its profit.
    fn round<S: Subject>(&self, mut market: S, side: Side) -> f64 {
        let start = market.outside();
        let held = |market: &S| market.outside().shares - start.shares;
        let kind = self.behind.map_or(OutsideKind::Market, |behind| OutsideKind::Limit { behind });
        for _ in 0..self.ticks {
            for _ in 0..self.orders {
                market.send(OutsideOrder { account: 0, side, shares: self.shares, kind });
            }
            market.step(0);
        }
        market.withdraw();
        for _ in 0..self.wait {
            market.step(0);
        }
        let closer = usize::from(self.two_accounts) * (OUTSIDE_ACCOUNTS - 1);
        for block in 0..self.blocks {
            let part = held(&market) / f64::from(self.blocks - block);
            close(&mut market, closer, part);
            for _ in 0..self.gap {
                market.step(0);
            }
        }
        for _ in 0..CLOSING_TICKS {
            let left = held(&market);
            if left.abs() < 0.5 {
                break;
            }
            close(&mut market, closer, left);
            market.step(0);
        }
        let mid = market.view().mid().unwrap_or(market.view().fundamental);
        market.outside().cash - start.cash + held(&market) * mid
    }
}

/// Sends a market order of `account` that reduces a position of `shares`.
fn close<S: Subject>(market: &mut S, account: usize, shares: f64) {
    let side = if shares > 0.0 { Side::Sell } else { Side::Buy };
    #[expect(clippy::cast_possible_truncation, reason = "at most the shares of a schedule")]
    let shares = shares.abs().ceil() as i32;
    if shares > 0 {
        market.send(OutsideOrder { account, side, shares, kind: OutsideKind::Market });
    }
}

/// Profit of one schedule on fresh seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScheduleResult {
    /// The schedule.
    pub schedule: Schedule,
    /// Mean profit in price ticks times shares.
    pub profit: f64,
    /// Standard error of `profit`.
    pub std_error: f64,
    /// One-sided p-value of `profit` if the true mean is zero.
    pub p: f64,
}

/// Draws `count` schedules, keeps the most profitable ones, and returns their results on fresh
/// seeds, best first. Takes seeds from `first` on. O(count · ticks).
pub fn search<S: Subject>(
    build: impl Fn(u64) -> S,
    first: u64,
    count: usize,
) -> Vec<ScheduleResult> {
    let mut stream = RandomStream::new(first, StreamRole::Other, 1);
    let seed = |number: usize| first + number as u64;
    let moments: Vec<S> = (0..SECOND_MOMENTS).map(|number| build(seed(number))).collect();
    let drawn = (0..count).map(|number| {
        let schedule = Schedule::draw(&mut stream);
        let on = moments.iter().cycle().skip(number * FIRST_MOMENTS).take(FIRST_MOMENTS);
        let profits: Vec<f64> = on.map(|market| schedule.play(market)).collect();
        let size = f64::from(schedule.shares) * f64::from(schedule.orders * schedule.ticks);
        (mean(&profits) / size, schedule)
    });
    let mut drawn: Vec<_> = drawn.collect();
    drawn.sort_by(|left, right| right.0.total_cmp(&left.0));
    drawn.truncate((count / SECOND_SHARE).max(FINALISTS));
    let mut again: Vec<(f64, Schedule)> = drawn
        .into_iter()
        .map(|(_, schedule)| {
            let profits: Vec<f64> = moments.iter().map(|market| schedule.play(market)).collect();
            (mean(&profits) / std_error(&profits).max(f64::MIN_POSITIVE), schedule)
        })
        .collect();
    again.sort_by(|left, right| right.0.total_cmp(&left.0));
    again.truncate(FINALISTS);
    let fresh: Vec<S> =
        (0..FRESH_MOMENTS).map(|number| build(seed(SECOND_MOMENTS + number))).collect();
    let result = |(_, schedule): (f64, Schedule)| {
        let profits: Vec<f64> = fresh.iter().map(|market| schedule.play(market)).collect();
        ScheduleResult {
            schedule,
            profit: mean(&profits),
            std_error: std_error(&profits),
            p: one_sided_p(&profits),
        }
    };
    let mut results: Vec<_> = again.into_iter().map(result).collect();
    results.sort_by(|left, right| left.p.total_cmp(&right.p));
    results
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::subject::{Holding, KINDS, TickView};
    use super::*;

    #[test]
    fn schedules_stay_within_their_bounds_and_reach_them() {
        let mut stream = RandomStream::new(2, StreamRole::Other, 0);
        let drawn: Vec<Schedule> = (0..5_000).map(|_| Schedule::draw(&mut stream)).collect();
        let of = |part: fn(&Schedule) -> u32, low: u32, high: u32| {
            let (least, most) = (drawn.iter().map(part).min(), drawn.iter().map(part).max());
            let near = high - high / 20;
            assert_eq!(least, Some(low));
            assert!(most.is_some_and(|most| (near..=high).contains(&most)), "{most:?} of {high}");
        };
        of(|schedule| schedule.ticks, 1, 120);
        of(|schedule| schedule.orders, 1, 60);
        of(|schedule| schedule.shares.unsigned_abs(), 1, 500);
        of(|schedule| schedule.wait, 0, 119);
        of(|schedule| schedule.blocks, 1, 20);
        of(|schedule| schedule.gap, 1, 20);
        let mut large = 0;
        for schedule in &drawn {
            let total = schedule.ticks * schedule.orders * schedule.shares.unsigned_abs();
            assert!(total <= MOST_SHARES.unsigned_abs(), "{schedule:?}");
            large += u32::from(total > MOST_SHARES.unsigned_abs() / 2);
        }
        assert!(large > 100, "{large} schedules are large");
    }

    type Log = Arc<Mutex<Vec<(u32, OutsideOrder)>>>;

    /// A market whose price stays, which fills market orders alone, for a price tick a share. Its
    /// clones log their orders together.
    #[derive(Clone, Default)]
    struct Flat {
        tick: u32,
        sent: Vec<OutsideOrder>,
        held: Holding,
        log: Log,
    }

    impl Subject for Flat {
        fn reset(&mut self, _seed: u64) {}

        fn step(&mut self, order: i32) {
            assert_eq!(order, 0);
            self.tick += 1;
            for order in self.sent.drain(..).filter(|order| order.kind == OutsideKind::Market) {
                self.held.shares += f64::from(order.side.sign() * order.shares);
                self.held.cash -= f64::from(order.shares * (100 * order.side.sign() + 1));
            }
        }

        fn send(&mut self, order: OutsideOrder) {
            self.log.lock().unwrap().push((self.tick, order));
            self.sent.push(order);
        }

        fn withdraw(&mut self) {}

        fn outside(&self) -> Holding {
            self.held
        }

        fn holdings(&self) -> [Holding; KINDS] {
            [Holding::default(); KINDS]
        }

        fn observe(&self, _features: &mut Vec<f64>) {}

        fn view(&self) -> TickView {
            TickView { bid: Some(99), ask: Some(101), ..TickView::default() }
        }

        fn append_signs(&self, _signs: &mut Vec<i8>) {}

        fn depth(&self, _distance: i32) -> [u64; 2] {
            [0; 2]
        }

        fn taker_fee(&self) -> f64 {
            0.0
        }

        fn state_hash(&self) -> u64 {
            0
        }

        fn is_conserved(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_schedule_closes_its_position_in_equal_blocks_both_ways() {
        let schedule = Schedule {
            ticks: 2,
            orders: 3,
            shares: 4,
            wait: 5,
            blocks: 4,
            gap: 3,
            behind: None,
            two_accounts: true,
        };
        let market = Flat::default();
        let profit = schedule.play(&market);
        assert!((profit + 48.0).abs() < 1e-9, "{profit}: 48 shares are traded each way");
        let order = |account, side, shares| {
            let kind = OutsideKind::Market;
            OutsideOrder { account, side, shares, kind }
        };
        let mut expected = Vec::new();
        for (opens, closes) in [(Side::Buy, Side::Sell), (Side::Sell, Side::Buy)] {
            expected.extend((0..6).map(|at| (at / 3, order(0, opens, 4))));
            let last = OUTSIDE_ACCOUNTS - 1;
            expected.extend([7, 10, 13, 16].map(|tick| (tick, order(last, closes, 6))));
        }
        assert_eq!(*market.log.lock().unwrap(), expected);
    }

    #[test]
    fn a_schedule_whose_orders_do_not_trade_closes_nothing() {
        let (shares, behind) = (2, Some(1));
        let (ticks, orders, wait, blocks, gap) = (1, 2, 0, 3, 1);
        let schedule =
            Schedule { ticks, orders, shares, wait, blocks, gap, behind, two_accounts: false };
        let market = Flat::default();
        assert!(schedule.play(&market).abs() < 1e-9);
        let sent = market.log.lock().unwrap();
        assert_eq!(sent.len(), 4, "two orders each way");
        assert!(sent.iter().all(|(_, order)| order.kind == OutsideKind::Limit { behind: 1 }));
    }
}
