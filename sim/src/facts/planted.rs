//! Markets that are made to pass the battery, or to fail one kind of fact, with tests that they do.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

use super::random::SeriesRandom;
use super::{BatteryOptions, FactsReport, Subject, TickView, run};

/// Defect of a planted market.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    /// No defect: fat tails, clustering, long memory of signs, a loose anchor.
    None,
    /// Independent normal returns of constant size, random signs.
    PureNoise,
    /// Returns that persist for minutes.
    Trending,
    /// A mid-price that follows the fundamental within ticks.
    Anchored,
    /// Impact in proportion to size that never fades.
    LinearImpact,
    /// A reset that forgets the seed.
    ForgetsSeed,
    /// A price that falls to a seventh in one tick.
    Crash,
}

/// First price, in price ticks.
const START: f64 = 10_000.0;
/// Number of simultaneous parent orders. Their Pareto lengths give signs long memory.
const PARENTS: usize = 10;

/// Market with parent orders as in Lillo, Mike and Farmer 2005. Its volatility is a sum of three
/// processes of different speed.
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
}

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
        };
        // The slow processes need time to reach their usual spread.
        (0..5_000).for_each(|_| market.step(0));
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
        1e-4 * (0.35 * fast + 0.4 * middle + 0.3 * slow - 0.2).exp()
    }

    fn next_sign(&mut self) -> f64 {
        if self.plant == Plant::PureNoise {
            return self.random.sign();
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
        let scale = self.scale();
        let mut change = scale * self.random.normal();
        if self.plant == Plant::Trending {
            self.drift = 0.99 * self.drift + 0.02 * scale * self.random.normal();
            change += 2.0 * self.drift;
        }
        if self.plant == Plant::Crash && self.ticks == 6_000 {
            change = -2.0;
        }
        self.log_price += change;
        if self.plant == Plant::LinearImpact {
            self.log_price += 2e-7 * f64::from(order);
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

/// Returns options of six seeds of a week: enough for every fact to be judged.
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
