//! Runs the battery over seeds on several threads. The result does not depend on their number.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde::Serialize;

use super::catalogue::catalogue;
use super::curves::Curves;
use super::fitted::Fitted;
use super::impact::{self, DECAY_FROM, METAORDER_TICKS, PARTICIPATIONS, Pair, SizeImpact};
use super::manipulation::{self, ScheduleResult};
use super::opening::Activity;
use super::pool::PooledSamples;
use super::recording::{Recording, TICKS_PER_DAY};
use super::rules::{self, Rule};
use super::sample::mean;
use super::spec::{FactSpec, Measure};
use super::subject::Subject;
use super::verdict::{FactResult, Verdict};
use crate::rng::{RandomStream, StreamRole};

/// Ticks that are run again to test whether a market repeats itself.
const EXACT_TICKS: usize = 2_000;
/// Number of consecutive ticks without a trade or new quote, or with an empty side, after which a
/// book counts as stuck.
const STUCK_TICKS: usize = 600;
/// Range of the prices of a long run, as multiples of its first price.
const PRICE_RANGE: (f64, f64) = (0.2, 5.0);

/// Options of a run of the battery: its seeds, lengths and threads.
#[derive(Clone, Debug, PartialEq)]
pub struct BatteryOptions {
    /// First seed; the others follow it.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: usize,
    /// Number of ticks recorded per seed.
    pub ticks: usize,
    /// Share of the seeds that must lie in a band.
    pub share: f64,
    /// Number of moments per seed from which impact is measured; 0 leaves out R12 and R13.
    pub impact_moments: usize,
    /// Number of long runs, each with its own seed; 0 leaves out R17.
    pub endurance_seeds: usize,
    /// Ticks of each long run.
    pub endurance_ticks: usize,
    /// Number of seeds on which trading rules are fitted. As many others choose the rules, and as
    /// many more trade them. 0 leaves out the fitted rules of R16.
    pub fitted_seeds: usize,
    /// Number of resets after which activity is measured; 0 leaves out R20.
    pub openings: usize,
    /// Number of schedules in the search for price manipulation; 0 leaves out R21.
    pub schedules: usize,
    /// Whether the market is made to be predictable, so that the rules of R16 are only reported.
    /// Random orders are judged all the same.
    pub learnable: bool,
    /// Number of threads, which does not change the result.
    pub threads: usize,
}

impl BatteryOptions {
    /// Returns the options of the whole battery: 20 seeds of ten days, 2,000 moments of impact, 100
    /// runs of a million ticks, fitted rules, 400 resets and a search over 10,000 schedules.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            first_seed: 1,
            seeds: 20,
            ticks: 10 * TICKS_PER_DAY,
            share: 0.8,
            impact_moments: 100,
            endurance_seeds: 100,
            endurance_ticks: 1_000_000,
            fitted_seeds: 20,
            openings: 400,
            schedules: 10_000,
            learnable: false,
            threads: 1,
        }
    }

    /// Returns the options of a short battery: four seeds of one day, without impact, long runs,
    /// fitted rules, resets and schedules.
    ///
    /// Half the seeds must pass: within one day, a statistic near the edge of its band leaves it by
    /// chance.
    #[must_use]
    pub const fn short() -> Self {
        Self {
            seeds: 4,
            ticks: TICKS_PER_DAY,
            share: 0.5,
            impact_moments: 0,
            endurance_seeds: 0,
            fitted_seeds: 0,
            openings: 0,
            schedules: 0,
            ..Self::full()
        }
    }
}

/// Outcome of the battery.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FactsReport {
    /// Name of the market.
    pub preset: String,
    /// First seed; the others follow it.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: usize,
    /// Number of ticks recorded per seed.
    pub ticks: usize,
    /// Share of the seeds that must lie in a band.
    pub share_needed: f64,
    /// Whether no fact missed.
    pub passed: bool,
    /// All facts that were measured.
    pub facts: Vec<FactResult>,
    /// Lines to plot.
    pub curves: Curves,
}

impl FactsReport {
    /// Returns the fact called `key`; `None` if it was not measured.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&FactResult> {
        self.facts.iter().find(|fact| fact.key == key)
    }

    /// Returns the keys of the facts that missed.
    #[must_use]
    pub fn missed(&self) -> Vec<&'static str> {
        let missed = |fact: &&FactResult| fact.verdict == Verdict::Miss;
        self.facts.iter().filter(missed).map(|fact| fact.key).collect()
    }
}

/// Results of one seed.
struct SeedDigest {
    /// Values of the facts of one recording, in the order of the catalogue.
    values: Vec<f64>,
    curves: Curves,
    /// Mean square of log returns over the duration of a parent order.
    variance: f64,
    pairs: Vec<Vec<Pair>>,
    profits: Vec<Vec<f64>>,
    random_profits: Vec<f64>,
    activity: Activity,
    conserved: bool,
    same_hash: bool,
}

enum FinishedJob {
    Seed(Box<SeedDigest>),
    Endurance(bool),
    Fitted(Fitted),
    Schedules(Vec<ScheduleResult>),
    Openings(Vec<Activity>),
}

/// First seeds of the measurements that take seeds of their own, relative to the first of the run.
const FITTED_SEEDS: u64 = 1 << 32;
const SCHEDULE_SEEDS: u64 = 2 << 32;
const OPENING_SEEDS: u64 = 3 << 32;

/// Runs the battery on markets that `build` makes from seeds. Takes O(seeds · ticks) time.
///
/// Calls `progress` with the numbers of finished runs and of all runs, from several threads. If
/// `progress` breaks, the battery ends and returns `None`.
pub fn run<S: Subject>(
    preset: &str,
    build: impl Fn(u64) -> S + Sync,
    options: &BatteryOptions,
    progress: impl Fn(usize, usize) -> ControlFlow<()> + Sync,
) -> Option<FactsReport> {
    let facts = catalogue();
    let jobs = Job::list(options);
    let total = jobs.len();
    let (next, finished, cancelled) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let results = Mutex::new(Vec::with_capacity(total));
    let work = || {
        while !cancelled.load(Ordering::Relaxed) {
            let task = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(task) else { return };
            let done = job.run(&build, &facts, options);
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((task, done));
            if progress(finished.fetch_add(1, Ordering::Relaxed) + 1, total).is_break() {
                cancelled.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..options.threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    if cancelled.load(Ordering::Relaxed) {
        return None;
    }
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_unstable_by_key(|(task, _)| *task);
    let mut digests = Vec::new();
    let mut pool = PooledSamples::default();
    for (_, done) in results {
        match done {
            FinishedJob::Seed(digest) => digests.push(*digest),
            FinishedJob::Endurance(held) => pool.endured.push(held),
            FinishedJob::Fitted(fitted) => pool.fitted = Some(fitted),
            FinishedJob::Schedules(schedules) => pool.schedules = schedules,
            FinishedJob::Openings(openings) => pool.openings.extend(openings),
        }
    }
    Some(collect(preset, &facts, &digests, pool, options))
}

/// Part of a run that one thread does.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// Records one seed.
    Seed(u64),
    /// Runs one seed for `endurance_ticks`.
    Endurance(u64),
    /// Fits, chooses and trades rules.
    Fitted,
    /// Searches for price manipulation.
    Schedules,
    /// Measures resets, from a first seed on; the second field is their number.
    Openings(u64, usize),
}

impl Job {
    /// Maximum number of resets that one job measures.
    const OPENINGS: usize = 50;

    /// Returns the jobs of a run. The long ones come first, so that threads end together.
    fn list(options: &BatteryOptions) -> Vec<Self> {
        let mut jobs = Vec::new();
        jobs.extend((options.schedules > 0).then_some(Self::Schedules));
        jobs.extend((options.fitted_seeds > 0).then_some(Self::Fitted));
        let seed = |number: usize| options.first_seed + number as u64;
        jobs.extend((0..options.seeds).map(|number| Self::Seed(seed(number))));
        jobs.extend((0..options.endurance_seeds).map(|number| Self::Endurance(seed(number))));
        jobs.extend((0..options.openings).step_by(Self::OPENINGS).map(|number| {
            let count = Self::OPENINGS.min(options.openings - number);
            Self::Openings(OPENING_SEEDS + seed(number), count)
        }));
        jobs
    }

    fn run<S: Subject>(
        self,
        build: &(impl Fn(u64) -> S + Sync),
        facts: &[FactSpec],
        options: &BatteryOptions,
    ) -> FinishedJob {
        match self {
            Self::Seed(seed) => FinishedJob::Seed(Box::new(examine(build, seed, facts, options))),
            Self::Endurance(seed) => FinishedJob::Endurance(endure(build(seed), options)),
            Self::Fitted => {
                let (first, seeds) = (FITTED_SEEDS + options.first_seed, options.fitted_seeds);
                FinishedJob::Fitted(Fitted::run(build, first, seeds as u64))
            }
            Self::Schedules => {
                let first = SCHEDULE_SEEDS + options.first_seed;
                FinishedJob::Schedules(manipulation::search(build, first, options.schedules))
            }
            Self::Openings(first, count) => {
                let seeds = first..first + count as u64;
                let measured = seeds.filter_map(|seed| Activity::after_reset(&mut build(seed)));
                FinishedJob::Openings(measured.collect())
            }
        }
    }
}

/// Records one seed, and takes all measurements that need its market.
fn examine<S: Subject>(
    build: &(impl Fn(u64) -> S + Sync),
    seed: u64,
    facts: &[FactSpec],
    options: &BatteryOptions,
) -> SeedDigest {
    let mut market = build(seed);
    let recording = Recording::take(&mut market, options.ticks);
    let fee = market.taker_fee();
    let values = facts.iter().filter_map(|fact| match fact.measure {
        Measure::PerSeed(measure) => Some(measure(&recording)),
        Measure::Pooled(_) => None,
    });
    let mut draws = RandomStream::new(seed, StreamRole::Other, 0);
    let spans = recording.returns(METAORDER_TICKS);
    SeedDigest {
        values: values.collect(),
        curves: Curves::of(&recording),
        variance: mean(&spans.iter().map(|r| r * r).collect::<Vec<_>>()),
        pairs: impact_pairs(&mut market, seed, mean(&recording.volume), options),
        profits: Rule::ALL.map(|rule| rules::daily_profits(&recording, rule, fee)).to_vec(),
        random_profits: rules::random_policy(&recording, fee, || draws.bits()),
        activity: Activity::of(&recording),
        conserved: recording.conserved,
        same_hash: repeats(build, &mut market, seed),
    }
}

/// Measures impact at each size, from moments spread evenly over the run.
fn impact_pairs<S: Subject>(
    market: &mut S,
    seed: u64,
    volume_per_tick: f64,
    options: &BatteryOptions,
) -> Vec<Vec<Pair>> {
    let mut pairs = vec![Vec::new(); PARTICIPATIONS.len()];
    if options.impact_moments == 0 {
        return pairs;
    }
    market.reset(seed);
    for _ in 0..options.impact_moments {
        for _ in 0..(options.ticks / options.impact_moments).max(1) {
            market.step(0);
        }
        for (participation, pairs) in PARTICIPATIONS.iter().zip(&mut pairs) {
            let shares = participation * volume_per_tick * METAORDER_TICKS as f64;
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            let shares = shares.round().max(1.0) as i32;
            pairs.extend(impact::pair(market, shares, *participation >= DECAY_FROM));
        }
    }
    pairs
}

/// Returns whether equal seeds give equal markets: fresh, as a clone after a reset, and on another
/// thread.
fn repeats<S: Subject>(build: &(impl Fn(u64) -> S + Sync), used: &mut S, seed: u64) -> bool {
    let run = |mut market: S| {
        (0..EXACT_TICKS).for_each(|_| market.step(0));
        market.state_hash()
    };
    let fresh = run(build(seed));
    used.reset(seed.wrapping_add(1));
    (0..100).for_each(|_| used.step(1));
    used.reset(seed);
    let again = run(used.clone());
    let elsewhere = thread::scope(|scope| scope.spawn(|| run(build(seed))).join());
    fresh == again && elsewhere.is_ok_and(|hash| hash == fresh)
}

/// Returns whether a long run never gets stuck, keeps its price in range, and conserves cash and
/// shares.
fn endure<S: Subject>(mut market: S, options: &BatteryOptions) -> bool {
    let mut start = None;
    let (mut quiet, mut one_sided) = (0, 0);
    let mut before = (None, None);
    for _ in 0..options.endurance_ticks {
        market.step(0);
        let view = market.view();
        let quotes = (view.bid, view.ask);
        quiet = if view.volume == 0 && quotes == before { quiet + 1 } else { 0 };
        before = quotes;
        one_sided = if view.mid().is_none() { one_sided + 1 } else { 0 };
        if quiet.max(one_sided) >= STUCK_TICKS {
            return false;
        }
        if let Some(mid) = view.mid() {
            let start = *start.get_or_insert(mid);
            if mid < PRICE_RANGE.0 * start || mid > PRICE_RANGE.1 * start {
                return false;
            }
        }
    }
    market.is_conserved()
}

/// Judges every fact and builds the report.
fn collect(
    preset: &str,
    facts: &[FactSpec],
    digests: &[SeedDigest],
    measured: PooledSamples,
    options: &BatteryOptions,
) -> FactsReport {
    let mut curves = Curves::average(&digests.iter().map(|d| d.curves.clone()).collect::<Vec<_>>());
    let pool = pool(digests, measured);
    curves.impact = pool.sizes.iter().copied().map(Into::into).collect();
    curves.explained = pool.fitted.iter().flat_map(Fitted::points).collect();
    let mut at = 0;
    let mut results = Vec::new();
    for fact in facts {
        let (values, share) = match fact.measure {
            Measure::PerSeed(_) => {
                at += 1;
                (digests.iter().map(|digest| digest.values[at - 1]).collect(), options.share)
            }
            Measure::Pooled(measure) => match measure(&pool) {
                Some(value) => (vec![value], 1.0),
                None => continue,
            },
        };
        let rule = fact.id == "R16" && fact.key != "random_policy_z";
        let learnable = options.learnable && rule;
        let fact = FactSpec { report_only: fact.report_only || learnable, ..*fact };
        results.push(FactResult::judge(&fact, values, options.ticks, share));
    }
    FactsReport {
        preset: preset.to_owned(),
        first_seed: options.first_seed,
        seeds: options.seeds,
        ticks: options.ticks,
        share_needed: options.share,
        passed: results.iter().all(|fact| fact.verdict != Verdict::Miss),
        facts: results,
        curves,
    }
}

/// Adds the samples of all seeds to `measured`, the results of the other jobs.
fn pool(digests: &[SeedDigest], measured: PooledSamples) -> PooledSamples {
    let profits = |at: usize| digests.iter().flat_map(|d| d.profits[at].iter().copied()).collect();
    PooledSamples {
        sizes: impact_of(digests),
        profits: (0..Rule::ALL.len()).map(profits).collect(),
        random_profits: digests.iter().flat_map(|d| d.random_profits.iter().copied()).collect(),
        later: digests.iter().map(|digest| digest.activity).collect(),
        conserved: digests.iter().map(|digest| digest.conserved).collect(),
        same_hash: digests.iter().map(|digest| digest.same_hash).collect(),
        ..measured
    }
}

/// Returns the mean impact of each size over all seeds, for sizes with at least two pairs of runs.
fn impact_of(digests: &[SeedDigest]) -> Vec<SizeImpact> {
    let volatility = mean(&digests.iter().map(|digest| digest.variance).collect::<Vec<_>>()).sqrt();
    let of = |(at, participation): (usize, &f64)| {
        let pairs: Vec<Pair> =
            digests.iter().flat_map(|digest| digest.pairs[at].iter().copied()).collect();
        (pairs.len() > 1).then(|| SizeImpact::of(*participation, &pairs, volatility))
    };
    PARTICIPATIONS.iter().enumerate().filter_map(of).collect()
}
