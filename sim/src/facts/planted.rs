//! Markets that are made to pass the battery, or to fail one kind of fact, with tests that they do.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

use super::fitted::Fitted;
use super::forecasts::Forecasts;
use super::random::SeriesRandom;
use super::significance::family_p;
use super::{
    BatteryOptions, FactsReport, Holding, KINDS, Method, OutsideKind, OutsideOrder, Subject,
    TickView, Verdict, run,
};
use crate::book::Side;

/// Defect of a planted market.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    /// No defect: fat tails, clustering, long memory of signs, a loose anchor.
    None,
    /// Independent normal returns of constant size, random signs.
    PureNoise,
    /// Returns that persist for minutes.
    Trending,
    /// An observation of two slow states. The price rises while their signs are equal, and falls
    /// else, so that neither tells anything alone.
    Folded,
    /// A mid-price that always stays within a few ticks of the fundamental.
    Anchored,
    /// Impact in proportion to size that never fades.
    LinearImpact,
    /// A reset that forgets the seed.
    ForgetsSeed,
    /// A price that falls to a seventh in one tick.
    Crash,
    /// Volatility and volume that begin at four times their usual size.
    Storm,
    /// Permanent impact that grows with the square root of each order. Many small orders move the
    /// price further than the one large order that closes their position.
    SplitImpact,
    /// Gains of all kinds of agents with the opposite sign, so that makers pay.
    InvertedGains,
    /// A price that moves once an hour.
    Frozen,
    /// Nine of ten market orders buy.
    Buyers,
}

/// First price, in price ticks.
const START: f64 = 10_000.0;
/// Number of simultaneous parent orders. Their Pareto lengths give the signs of trades long memory.
const PARENTS: usize = 10;

/// Market with parent orders as in Lillo, Mike and Farmer 2005. Its log-volatility is a weighted
/// sum of three processes of different speed.
#[derive(Clone, Debug)]
struct Planted {
    plant: Plant,
    random: SeriesRandom,
    log_price: f64,
    gap: f64,
    drift: f64,
    volatility: [f64; 3],
    parents: [(f64, f64); PARENTS],
    sign: i8,
    view: TickView,
    ticks: u64,
    /// Decaying means of the changes of the log price: what a trader observes.
    trends: [f64; TRENDS.len()],
    /// States of [`Plant::Folded`].
    states: [f64; 2],
    orders: Vec<OutsideOrder>,
    outside: Holding,
    /// Volume since the start.
    traded: f64,
}

/// Time constants of the observed trends in ticks.
const TRENDS: [f64; 3] = [5.0, 30.0, 120.0];
/// Ticks before a market is handed over, in which slow processes reach their usual spread.
const WARM_UP: u64 = 5_000;
/// Gain of each kind of agent for a share that the market trades, in price ticks.
const GAINS: [f64; KINDS] = [0.4, -0.1, 0.1, -0.1, -0.3];

impl Planted {
    fn new(plant: Plant, seed: u64) -> Self {
        let mut random = SeriesRandom::new(seed);
        let parents = [(); PARENTS].map(|()| (random.sign(), random.pareto(1.5)));
        let mut market = Self {
            plant,
            random,
            log_price: START.ln(),
            gap: 0.0,
            drift: 0.0,
            volatility: [0.0; 3],
            parents,
            sign: 1,
            view: TickView::default(),
            ticks: 0,
            trends: [0.0; TRENDS.len()],
            states: [0.0; 2],
            orders: Vec::new(),
            outside: Holding::default(),
            traded: 0.0,
        };
        (0..WARM_UP).for_each(|_| market.step(0));
        market
    }

    /// Returns the standard deviation of the return of this tick.
    fn scale(&mut self) -> f64 {
        if self.plant == Plant::PureNoise {
            return 1e-4;
        }
        for (state, ticks) in self.volatility.iter_mut().zip([60.0_f64, 600.0, 6_000.0]) {
            let keep = (-1.0 / ticks).exp();
            *state = keep * *state + (1.0 - keep * keep).sqrt() * self.random.normal();
        }
        let [fast, middle, slow] = self.volatility;
        let usual = 1e-4 * (0.35 * fast + 0.4 * middle + 0.3 * slow - 0.2).exp();
        if self.plant != Plant::Storm {
            return usual;
        }
        let age = self.ticks.saturating_sub(WARM_UP);
        usual * (1.0 + 3.0 * (-(age as f64) / 300.0).exp())
    }

    /// Fills the outside market orders at the best prices, and drops the others. Returns the sum of
    /// the signed shares of the filled orders, and the sum of their signed square roots.
    fn fill(&mut self) -> (f64, f64) {
        let (mut signed, mut roots) = (0.0, 0.0);
        for order in std::mem::take(&mut self.orders) {
            let OutsideOrder { side, shares, kind, .. } = order;
            let quote = if side == Side::Buy { self.view.ask } else { self.view.bid };
            let (OutsideKind::Market, Some(price)) = (kind, quote) else { continue };
            let (sign, size) = (f64::from(side.sign()), f64::from(shares));
            let paid = f64::from(price) * size;
            self.outside.cash -= sign * paid + self.taker_fee() * paid;
            self.outside.shares += sign * size;
            signed += sign * size;
            roots += sign * size.sqrt();
        }
        (signed, roots)
    }

    fn next_sign(&mut self) -> f64 {
        if self.plant == Plant::PureNoise {
            return self.random.sign();
        }
        if self.plant == Plant::Buyers {
            return self.random.uniform() - 0.1;
        }
        let fresh = (self.random.sign(), self.random.pareto(1.5));
        self.parents
            .rotate_left(usize::try_from(self.random.word() % 1_024).unwrap_or(0) % PARENTS);
        let (sign, left) = self.parents[0];
        self.parents[0] = if left <= 1.0 { fresh } else { (sign, left - 1.0) };
        sign
    }
}

impl Subject for Planted {
    fn reset(&mut self, seed: u64) {
        let seed = if self.plant == Plant::ForgetsSeed { self.random.word() } else { seed };
        *self = Self::new(self.plant, seed);
    }

    fn step(&mut self, order: i32) {
        self.ticks += 1;
        if order != 0 {
            let side = if order > 0 { Side::Buy } else { Side::Sell };
            let kind = OutsideKind::Market;
            self.send(OutsideOrder { account: 0, side, shares: order.abs(), kind });
        }
        let (signed, roots) = self.fill();
        let scale = self.scale();
        let mut change = scale * self.random.normal();
        if self.plant == Plant::Trending {
            self.drift = 0.99 * self.drift + 0.02 * scale * self.random.normal();
            change += 2.0 * self.drift;
        }
        if self.plant == Plant::Folded {
            self.states = self.states.map(|state| 0.99 * state + 0.14 * self.random.normal());
            change += 0.3 * scale * (self.states[0] * self.states[1]).signum();
        }
        if self.plant == Plant::Crash && self.ticks == 6_000 {
            change = -2.0;
        }
        if self.plant == Plant::Frozen {
            change = if self.ticks.is_multiple_of(3_600) { 60.0 * change } else { 0.0 };
        }
        for (trend, ticks) in self.trends.iter_mut().zip(TRENDS) {
            *trend += (change - *trend) / ticks;
        }
        self.log_price += change;
        if self.plant == Plant::LinearImpact {
            self.log_price += 2e-7 * signed;
        }
        if self.plant == Plant::SplitImpact {
            self.log_price += 1e-4 * roots;
        }
        self.gap = 0.9995 * self.gap + 1e-4 * self.random.normal();
        let gap = if self.plant == Plant::Anchored { 0.0 } else { self.gap };
        self.sign = if self.next_sign() > 0.0 { 1 } else { -1 };
        let price = self.log_price.exp();
        #[expect(clippy::cast_possible_truncation, reason = "a price in ticks")]
        let bid = price.floor() as i32;
        let spread = 1 + i32::from(scale > 1e-4) + i32::from(scale > 3e-4);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a volume")]
        let volume = (scale * 1e6 * self.random.exponential()) as u64;
        self.traded += volume as f64;
        self.view = TickView {
            bid: Some(bid),
            ask: Some(bid + spread),
            volume,
            fundamental: (self.log_price + gap).exp(),
        };
    }

    fn view(&self) -> TickView {
        self.view
    }

    fn send(&mut self, order: OutsideOrder) {
        self.orders.push(order);
    }

    fn withdraw(&mut self) {}

    fn outside(&self) -> Holding {
        self.outside
    }

    fn holdings(&self) -> [Holding; KINDS] {
        let sign = if self.plant == Plant::InvertedGains { -1.0 } else { 1.0 };
        GAINS.map(|gain| Holding { cash: sign * gain * self.traded, shares: 0.0 })
    }

    fn observe(&self, features: &mut Vec<f64>) {
        if self.plant == Plant::Folded {
            features.extend(self.states);
        } else {
            // Scaled up, so that the ridge penalty does not shrink their coefficients to 0.
            features.extend(self.trends.map(|trend| 1e4 * trend));
        }
    }

    fn append_signs(&self, signs: &mut Vec<i8>) {
        signs.push(self.sign);
    }

    fn depth(&self, distance: i32) -> [u64; 2] {
        [100 + 40 * u64::try_from(distance.min(4)).unwrap_or(0); 2]
    }

    fn taker_fee(&self) -> f64 {
        0.5e-4
    }

    fn state_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.log_price.to_bits(), self.gap.to_bits(), self.random.clone().word())
            .hash(&mut hasher);
        hasher.finish()
    }

    fn is_conserved(&self) -> bool {
        true
    }
}

/// Runs the battery on markets with this defect.
fn battery(plant: Plant, options: &BatteryOptions) -> FactsReport {
    run("planted", |seed| Planted::new(plant, seed), options, |_, _| ControlFlow::Continue(()))
        .unwrap()
}

/// Returns options of six seeds of a week: enough to judge every fact of a recording.
fn week() -> BatteryOptions {
    BatteryOptions { ticks: 5 * 23_400, seeds: 6, share: 0.6, ..BatteryOptions::short() }
}

#[track_caller]
fn misses(report: &FactsReport, keys: &[&str]) {
    let missed = report.missed();
    assert!(!report.passed);
    for key in keys {
        assert!(missed.contains(key), "{key} passed: {:?}", report.fact(key));
    }
}

#[test]
fn a_market_with_the_stylised_facts_passes() {
    let report = battery(Plant::None, &week());
    let missed: Vec<_> = report.missed().into_iter().map(|key| report.fact(key)).collect();
    assert!(report.passed, "{missed:#?}");
}

#[test]
fn pure_noise_fails() {
    let report = battery(Plant::PureNoise, &week());
    misses(&report, &["hill", "kurtosis", "acf_abs_1", "acf_abs_10", "abs_decay", "sign_acf_10"]);
}

#[test]
fn a_trending_market_fails() {
    let report = battery(Plant::Trending, &week());
    misses(&report, &["acf1_60s", "acf_max_60s", "vr10"]);
}

#[test]
fn the_signature_plot_of_a_trending_market_rises() {
    let report = battery(Plant::Trending, &week());
    misses(&report, &["signature_20s", "signature_60s", "signature_300s"]);
    let ratios: Vec<f64> = report.curves.signature.iter().map(|point| point.y).collect();
    assert!((ratios[0] - 1.0).abs() < 1e-12 && ratios.is_sorted(), "{ratios:?}");
}

#[test]
fn a_rule_fitted_to_a_trending_market_gains() {
    let options = BatteryOptions { fitted_seeds: 6, ..BatteryOptions::short() };
    let trending = battery(Plant::Trending, &options);
    misses(&trending, &["fitted_p"]);
    assert!(trending.fact("explained").unwrap().median > 0.05);
    let none = battery(Plant::None, &options);
    assert!(none.fact("fitted_p").unwrap().verdict == Verdict::Pass, "{:?}", none.fact("fitted_p"));
}

#[test]
fn trees_find_what_no_sum_of_features_tells() {
    let build = |seed| Planted::new(Plant::Folded, seed);
    let fitted = Forecasts::fit((1..7).map(build));
    let [ridge, trees] = [&fitted[..1], &fitted[1..]]
        .map(|fitted| Forecasts::explained(fitted, (7..10).map(build)).into_iter().sum::<f64>());
    assert!(trees > 0.2 && ridge < 0.02, "trees {trees}, ridge {ridge}");
    let rules = Fitted::run(build, 1, 6).rules;
    let of_trees = rules.iter().filter(|rule| rule.method == Method::Trees);
    let gains: Vec<f64> = of_trees.map(|rule| rule.p).collect();
    assert!(family_p(&gains).unwrap() < 0.01, "{rules:?}");
}

#[test]
fn a_learnable_market_may_be_learned_from_its_observation() {
    let options = BatteryOptions { fitted_seeds: 2, learnable: true, ..BatteryOptions::short() };
    let report = battery(Plant::Trending, &options);
    assert_eq!(report.fact("fitted_p").unwrap().verdict, Verdict::ReportOnly);
}

#[test]
fn small_orders_that_lift_a_price_for_a_block_are_found() {
    let options = BatteryOptions { schedules: 60, ..BatteryOptions::short() };
    misses(&battery(Plant::SplitImpact, &options), &["manipulation_p"]);
    let none = battery(Plant::None, &options);
    let found = none.fact("manipulation_p").unwrap();
    assert_eq!(found.verdict, Verdict::Pass, "{found:?}");
}

#[test]
fn an_opening_storm_fails() {
    let options = BatteryOptions { openings: 60, ..BatteryOptions::short() };
    let report = battery(Plant::Storm, &options);
    misses(&report, &["opening_change", "opening_variance", "opening_volume", "opening_spread"]);
    let none = battery(Plant::None, &BatteryOptions { openings: 400, ..options });
    let change = none.fact("opening_change").unwrap();
    assert_eq!(change.verdict, Verdict::Pass, "{change:?}");
}

#[test]
fn makers_that_pay_all_others_fail() {
    let report = battery(Plant::InvertedGains, &week());
    misses(&report, &["gain_makers", "gain_noise", "gain_signal", "gain_executors"]);
    for (kind, key) in ["gain_makers", "gain_noise", "gain_value"].into_iter().enumerate() {
        let median = report.fact(key).unwrap().median;
        assert!((median + GAINS[kind]).abs() < 0.01, "{key}: {median}");
    }
}

#[test]
fn a_frozen_price_and_a_crowd_of_buyers_fail() {
    misses(&battery(Plant::Frozen, &week()), &["unchanged"]);
    misses(&battery(Plant::Buyers, &week()), &["buy_share"]);
}

#[test]
fn a_market_anchored_to_its_fundamental_fails() {
    let report = battery(Plant::Anchored, &week());
    misses(&report, &["anchor"]);
}

#[test]
fn impact_in_proportion_to_size_that_stays_fails() {
    let options = BatteryOptions { impact_moments: 4, ..BatteryOptions::short() };
    let report = battery(Plant::LinearImpact, &options);
    misses(&report, &["impact_exponent", "impact_left"]);
    let exponent = report.fact("impact_exponent").unwrap().median;
    let left = report.fact("impact_left").unwrap().median;
    assert!((exponent - 1.0).abs() < 0.05 && (left - 1.0).abs() < 0.05, "{exponent} {left}");
}

#[test]
fn a_market_without_impact_fails() {
    let options = BatteryOptions { impact_moments: 4, ..BatteryOptions::short() };
    misses(&battery(Plant::None, &options), &["impact_prefactor"]);
}

#[test]
fn a_reset_that_forgets_its_seed_fails() {
    misses(&battery(Plant::ForgetsSeed, &BatteryOptions::short()), &["same_hash"]);
}

#[test]
fn a_long_run_that_loses_its_price_fails() {
    let options =
        BatteryOptions { endurance_seeds: 2, endurance_ticks: 10_000, ..BatteryOptions::short() };
    misses(&battery(Plant::Crash, &options), &["endurance"]);
}

#[test]
fn the_report_does_not_depend_on_the_number_of_threads() {
    let report = |threads| {
        let options = BatteryOptions { threads, impact_moments: 1, ..BatteryOptions::short() };
        format!("{:?}", battery(Plant::None, &options))
    };
    assert_eq!(report(1), report(3));
}

#[test]
fn a_battery_that_is_told_to_stop_has_no_report() {
    let report = run(
        "planted",
        |seed| Planted::new(Plant::None, seed),
        &BatteryOptions::short(),
        |_, _| ControlFlow::Break(()),
    );
    assert!(report.is_none());
}
