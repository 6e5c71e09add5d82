//! The facts: horizons, bands, sources.
//!
//! One tick is one second. Bands of returns, volatility and flow follow Cont 2001 and the papers
//! named at each fact. Bands of the book and of the anchor are this project's choice.

use super::autocorrelation::{autocorrelation, decay_exponent, leverage};
use super::impact;
use super::pool::PooledSamples;
use super::recording::{Recording, TICKS_PER_DAY};
use super::rules::{Rule, z_score};
use super::sample::{correlation, excess_kurtosis, mean, quantile};
use super::scaling::{dfa_exponent, kurtosis_at, variance_ratio};
use super::spec::{Band, FactSpec, Measure};
use super::tails::hill;

/// Ticks of a minute, the horizon of most facts about returns.
pub(super) const MINUTE: usize = 60;
/// Ticks of five minutes, the longer horizon of autocorrelations of returns.
const FIVE_MINUTES: usize = 300;
/// Horizon of the decay of volatility.
pub(super) const TEN_SECONDS: usize = 10;
/// Ticks of a week. Shorter runs have too few returns of five minutes, and too few lags of
/// volatility.
const WEEK: usize = 5 * TICKS_PER_DAY;
/// Fraction of the returns that form the tail.
const TAIL: f64 = 0.05;

const CONT: &str = "Cont 2001";

/// Returns the facts of one recording and those of all recordings, in the order of the report.
pub(super) fn catalogue() -> Vec<FactSpec> {
    let mut facts = returns();
    facts.extend(volatility());
    facts.extend(flow_and_book());
    facts.extend(gains());
    facts.extend(pooled());
    facts
}

fn returns() -> Vec<FactSpec> {
    let none = Band::new(-0.1, 0.1);
    vec![
        seed("R1", "acf1_60s", "ACF(1) of returns, 60 s", none, CONT, |r| acf1(r, MINUTE)),
        FactSpec {
            min_ticks: WEEK,
            ..seed("R1", "acf1_300s", "ACF(1) of returns, 300 s", none, CONT, |r| {
                acf1(r, FIVE_MINUTES)
            })
        },
        FactSpec {
            noise_horizon: Some(MINUTE),
            ..seed("R1", "acf_max_60s", "largest ACF, lags 2-20, 60 s", none, CONT, |r| {
                largest_acf(r, MINUTE)
            })
        },
        FactSpec {
            noise_horizon: Some(FIVE_MINUTES),
            min_ticks: WEEK,
            ..seed("R1", "acf_max_300s", "largest ACF, lags 2-20, 300 s", none, CONT, |r| {
                largest_acf(r, FIVE_MINUTES)
            })
        },
        seed("R2", "vr10", "variance ratio VR(10), 60 s", DIFFUSIVE, LO, |r| {
            variance_ratio(&r.returns(MINUTE), 10)
        }),
        FactSpec {
            min_ticks: WEEK,
            ..seed("R2", "vr50", "variance ratio VR(50), 60 s", DIFFUSIVE, LO, |r| {
                variance_ratio(&r.returns(MINUTE), 50)
            })
        },
        signature("signature_2s", "variance ratio, 2 s to 1 s", |r| {
            variance_ratio(&r.returns(1), 2)
        }),
        signature("signature_5s", "variance ratio, 5 s to 1 s", |r| {
            variance_ratio(&r.returns(1), 5)
        }),
        signature("signature_10s", "variance ratio, 10 s to 1 s", |r| {
            variance_ratio(&r.returns(1), 10)
        }),
        signature("signature_20s", "variance ratio, 20 s to 1 s", |r| {
            variance_ratio(&r.returns(1), 20)
        }),
        signature("signature_60s", "variance ratio, 60 s to 1 s", |r| {
            variance_ratio(&r.returns(1), 60)
        }),
        FactSpec {
            band: DIFFUSIVE,
            ..signature("signature_300s", "variance ratio, 300 s to 1 s", |r| {
                variance_ratio(&r.returns(1), 300)
            })
        },
        seed(
            "R3",
            "unchanged",
            "share of unchanged mids, 1 s",
            Band::new(0.1, 0.95),
            "Bouchaud, Farmer and Lillo 2009",
            unchanged,
        ),
        seed(
            "R3",
            "acf1_1s",
            "ACF(1) of mid returns, 1 s",
            Band::new(-0.35, 0.25),
            "Roll 1984",
            |r| acf1(r, 1),
        ),
        seed("R4", "hill", "Hill index, top 5 %, 60 s", Band::new(2.0, 5.0), GOPIKRISHNAN, |r| {
            hill(&r.returns(MINUTE), TAIL)
        }),
        seed("R5", "kurtosis", "excess kurtosis, 60 s", Band::new(3.0, 50.0), CONT, |r| {
            excess_kurtosis(&r.returns(MINUTE))
        }),
        seed(
            "R6",
            "kurtosis_ratio",
            "kurtosis at 600 s / at 60 s",
            Band::new(f64::NEG_INFINITY, 0.7),
            CONT,
            aggregation,
        ),
    ]
}

/// Returns a fact of the signature plot: volatility should not depend on the interval at which
/// prices are read.
fn signature(
    key: &'static str,
    statistic: &'static str,
    measure: fn(&Recording) -> f64,
) -> FactSpec {
    let source = "Bouchaud, Farmer and Lillo 2009";
    seed("R2", key, statistic, Band::new(0.8, 1.2), source, measure)
}

const DIFFUSIVE: Band = Band::new(0.75, 1.3);
const LO: &str = "Lo and MacKinlay 1988";
const GOPIKRISHNAN: &str = "Gopikrishnan et al. 1998";

fn volatility() -> Vec<FactSpec> {
    let week = |spec: FactSpec| FactSpec { min_ticks: WEEK, ..spec };
    let above_zero = Band::at_least(f64::MIN_POSITIVE);
    vec![
        seed("R7", "acf_abs_1", "ACF of |returns|, lag 1, 60 s", Band::at_least(0.15), CONT, |r| {
            acf_of_sizes(r, 1)
        }),
        seed(
            "R7",
            "acf_abs_10",
            "ACF of |returns|, lag 10, 60 s",
            Band::at_least(0.06),
            CONT,
            |r| acf_of_sizes(r, 10),
        ),
        week(seed("R7", "acf_abs_50", "ACF of |returns|, lag 50, 60 s", above_zero, CONT, |r| {
            acf_of_sizes(r, 50)
        })),
        week(seed(
            "R8",
            "abs_decay",
            "decay of the ACF of |returns|, lags 5-100, 10 s",
            Band::new(0.1, 0.6),
            CONT,
            |r| decay_exponent(&autocorrelation(&r.sizes(TEN_SECONDS), 100), 5, 100),
        )),
        week(seed(
            "R8",
            "abs_dfa",
            "DFA exponent of |returns|, 60 s",
            Band::new(0.65, 0.95),
            "Liu et al. 1999",
            |r| dfa_exponent(&r.sizes(MINUTE)),
        )),
        seed(
            "R9",
            "volume_volatility",
            "corr(volume, |return|), 60 s",
            Band::new(0.15, 0.8),
            CONT,
            |r| {
                let (volumes, sizes) = (r.volumes(MINUTE), r.sizes(MINUTE));
                let both = volumes.len().min(sizes.len());
                correlation(&volumes[..both], &sizes[..both])
            },
        ),
        FactSpec {
            report_only: true,
            ..seed(
                "R10",
                "leverage",
                "mean corr(r(t), r(t+k)^2), k 1-10, 60 s",
                Band::at_most(0.02),
                "Bouchaud, Matacz and Potters 2001",
                |r| leverage(&r.returns(MINUTE), 10),
            )
        },
    ]
}

fn flow_and_book() -> Vec<FactSpec> {
    const LILLO: &str = "Lillo and Farmer 2004";
    const BOOK: &str = "Bouchaud, Mézard and Potters 2002";
    vec![
        FactSpec {
            min_ticks: WEEK,
            ..seed(
                "R11",
                "sign_decay",
                "decay of the sign ACF, lags 10-500 orders",
                Band::new(0.3, 0.9),
                LILLO,
                |r| decay_exponent(&sign_acf(r, 500), 10, 500),
            )
        },
        seed(
            "R11",
            "sign_acf_10",
            "ACF of order signs, lag 10 orders",
            Band::at_least(0.05),
            LILLO,
            |r| sign_acf(r, 10)[10],
        ),
        FactSpec {
            min_ticks: WEEK,
            ..seed(
                "R11",
                "buy_share",
                "share of buys among market orders",
                Band::new(0.4, 0.6),
                LILLO,
                |r| mean(&r.signs.iter().map(|s| f64::from(u8::from(*s > 0))).collect::<Vec<_>>()),
            )
        },
        seed("R14", "spread_mean", "mean spread, ticks", Band::new(1.0, 5.0), BOOK, |r| {
            mean(&r.spreads())
        }),
        seed(
            "R14",
            "spread_p95",
            "spread, 95th percentile, ticks",
            Band::at_most(12.0),
            BOOK,
            |r| quantile(&r.spreads(), 0.95),
        ),
        seed(
            "R14",
            "one_sided",
            "share of ticks with an empty side",
            Band::at_most(0.001),
            BOOK,
            |r| r.one_sided_ticks as f64 / r.ticks() as f64,
        ),
        seed(
            "R14",
            "depth_rise",
            "largest mean depth behind the best price / at it",
            Band::at_least(1.0),
            BOOK,
            |r| r.depth[1..].iter().fold(0.0, |most: f64, depth| most.max(*depth)) / r.depth[0],
        ),
        seed(
            "R15",
            "anchor",
            "sd of ln(price / fundamental)",
            Band::new(0.001, 0.03),
            "Black 1986",
            Recording::anchor,
        ),
    ]
}

/// Returns the facts about the gains of each kind of agent. Liquidity providers should gain, and
/// uninformed liquidity takers should lose.
fn gains() -> Vec<FactSpec> {
    const HUANG: &str = "Huang and Stoll 1996";
    const ODEAN: &str = "Barber et al. 2009";
    let loses = Band::at_most(-f64::MIN_POSITIVE);
    let earns = Band::at_least(f64::MIN_POSITIVE);
    let gain = |key, statistic, band, source, measure| FactSpec {
        min_ticks: WEEK,
        ..seed("R19", key, statistic, band, source, measure)
    };
    vec![
        gain("gain_makers", "gain of makers, ticks a share", earns, HUANG, |r| r.gains[0]),
        gain("gain_noise", "gain of noise traders, ticks a share", loses, ODEAN, |r| r.gains[1]),
        FactSpec {
            report_only: true,
            ..gain("gain_value", "gain of value traders, ticks a share", earns, HUANG, |r| {
                r.gains[2]
            })
        },
        gain("gain_signal", "gain of signal traders, ticks a share", loses, ODEAN, |r| r.gains[3]),
        gain("gain_executors", "gain of executors, ticks a share", loses, HUANG, |r| r.gains[4]),
    ]
}

fn pooled() -> Vec<FactSpec> {
    const TOTH: &str = "Tóth et al. 2011";
    const OWN: &str = "needed for learning";
    let one = Band::at_least(1.0);
    let settled = Band::new(0.85, 1.15);
    // p-values of gains that pass: at least 0.01.
    let chance = Band::at_least(0.01);
    let sharpe =
        |key, statistic, measure| over_all("R16", key, statistic, Band::at_most(1.0), OWN, measure);
    vec![
        over_all("R12", "impact_exponent", "impact exponent d", Band::new(0.35, 0.7), TOTH, |p| {
            p.impact(|sizes| impact::fit(sizes).exponent)
        }),
        over_all("R12", "impact_prefactor", "impact prefactor Y", Band::new(0.3, 2.0), TOTH, |p| {
            p.impact(|sizes| impact::fit(sizes).prefactor)
        }),
        over_all(
            "R13",
            "impact_left",
            "impact left three spans after the end",
            Band::new(0.3, 0.9),
            "Bershova and Rakhlin 2013",
            |p| p.impact(impact::remaining),
        ),
        sharpe("sharpe_momentum", "annual Sharpe of momentum", |p| p.sharpe(Rule::Momentum)),
        sharpe("sharpe_reversal", "annual Sharpe of reversal", |p| p.sharpe(Rule::Reversal)),
        sharpe("sharpe_macd", "annual Sharpe of MACD", |p| p.sharpe(Rule::Macd)),
        sharpe("sharpe_below_fair", "annual Sharpe of buying below the hour's mean", |p| {
            p.sharpe(Rule::BelowFair)
        }),
        FactSpec {
            report_only: true,
            ..sharpe(
                "sharpe_below_fundamental",
                "annual Sharpe of knowing the hidden fundamental",
                |p| p.sharpe(Rule::BelowFundamental),
            )
        },
        over_all(
            "R16",
            "random_policy_z",
            "random orders beyond their costs, standard errors",
            Band::new(-3.0, 3.0),
            OWN,
            |p| Some(z_score(&p.random_profits)),
        ),
        over_all("R16", "fitted_p", "probability of the fitted rules' gains", chance, OWN, |p| {
            p.fitted_p()
        }),
        FactSpec {
            report_only: true,
            ..over_all(
                "R16",
                "explained",
                "variance of price changes explained, fresh seeds",
                Band::at_most(0.02),
                OWN,
                PooledSamples::explained,
            )
        },
        over_all("R20", "opening_change", "|change| after a reset / later", settled, OWN, |p| {
            p.opening(|activity| activity.change)
        }),
        over_all("R20", "opening_variance", "variance after a reset / later", settled, OWN, |p| {
            p.opening(|activity| activity.variance)
        }),
        over_all("R20", "opening_volume", "volume after a reset / later", settled, OWN, |p| {
            p.opening(|activity| activity.volume)
        }),
        over_all("R20", "opening_spread", "spread after a reset / later", settled, OWN, |p| {
            p.opening(|activity| activity.spread)
        }),
        over_all("R20", "opening_depth", "best depth after a reset / later", settled, OWN, |p| {
            p.opening(|activity| activity.depth)
        }),
        over_all(
            "R21",
            "manipulation_p",
            "probability of the best round trips' gains",
            chance,
            "Huberman and Stanzl 2004",
            PooledSamples::manipulation_p,
        ),
        over_all("R17", "endurance", "long runs that stay alive, share", one, OWN, |p| {
            PooledSamples::share(&p.endured)
        }),
        over_all("R18", "conserved", "runs that conserve cash and shares, share", one, OWN, |p| {
            PooledSamples::share(&p.conserved)
        }),
        over_all("R18", "same_hash", "runs that repeat exactly, share", one, OWN, |p| {
            PooledSamples::share(&p.same_hash)
        }),
    ]
}

fn seed(
    id: &'static str,
    key: &'static str,
    statistic: &'static str,
    band: Band,
    source: &'static str,
    measure: fn(&Recording) -> f64,
) -> FactSpec {
    let measure = Measure::PerSeed(measure);
    FactSpec { measure, ..over_all(id, key, statistic, band, source, |_| None) }
}

fn over_all(
    id: &'static str,
    key: &'static str,
    statistic: &'static str,
    band: Band,
    source: &'static str,
    measure: fn(&PooledSamples) -> Option<f64>,
) -> FactSpec {
    FactSpec {
        id,
        key,
        statistic,
        band,
        noise_horizon: None,
        min_ticks: 0,
        report_only: false,
        source,
        measure: Measure::Pooled(measure),
    }
}

fn acf1(recording: &Recording, horizon: usize) -> f64 {
    autocorrelation(&recording.returns(horizon), 1)[1]
}

/// Returns the share of ticks after which the mid-price is that of the tick before.
fn unchanged(recording: &Recording) -> f64 {
    let changes = recording.returns(1);
    changes.iter().filter(|change| **change == 0.0).count() as f64 / changes.len() as f64
}

/// Returns the autocorrelation of largest size over lags 2 to 20, with its sign.
fn largest_acf(recording: &Recording, horizon: usize) -> f64 {
    let acf = autocorrelation(&recording.returns(horizon), 20);
    let larger = |x: f64, y: f64| if y.abs() > x.abs() { y } else { x };
    acf[2..].iter().copied().fold(0.0, larger)
}

fn acf_of_sizes(recording: &Recording, lag: usize) -> f64 {
    autocorrelation(&recording.sizes(MINUTE), lag)[lag]
}

/// Returns the excess kurtosis of ten-minute returns over that of one-minute returns. Returns NaN
/// if one-minute returns have no fat tails.
fn aggregation(recording: &Recording) -> f64 {
    let short = kurtosis_at(&recording.log_mid, MINUTE, MINUTE);
    let long = kurtosis_at(&recording.log_mid, 10 * MINUTE, MINUTE);
    if short > 0.0 { long / short } else { f64::NAN }
}

/// Returns the autocorrelation of order signs, in the order in which the orders traded.
pub(super) fn sign_acf(recording: &Recording, max_lag: usize) -> Vec<f64> {
    let signs: Vec<f64> = recording.signs.iter().copied().map(f64::from).collect();
    autocorrelation(&signs, max_lag)
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn every_fact_of_the_battery_is_there_once() {
        let facts = catalogue();
        for number in 1..=21 {
            let id = format!("R{number}");
            assert!(facts.iter().any(|fact| fact.id == id), "{id} is missing");
        }
        let mut keys: Vec<&str> = facts.iter().map(|fact| fact.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), facts.len(), "a key stands for two facts");
    }

    #[test]
    fn facts_of_many_samples_are_judged_from_a_week_on() {
        let facts = catalogue();
        let long: Vec<&str> =
            facts.iter().filter(|fact| fact.min_ticks == WEEK).map(|fact| fact.key).collect();
        let returns = ["acf1_300s", "acf_max_300s", "vr50"];
        let volatility = ["acf_abs_50", "abs_decay", "abs_dfa"];
        let gains = ["gain_makers", "gain_noise", "gain_value", "gain_signal", "gain_executors"];
        let flow = ["sign_decay", "buy_share"];
        assert_eq!(long, [&returns[..], &volatility, &flow, &gains].concat());
        assert!(facts.iter().all(|fact| fact.min_ticks == WEEK || fact.min_ticks == 0));
    }

    #[test]
    fn a_recording_of_nothing_passes_no_fact_of_prices() {
        let ticks = 10_000;
        let flat = Recording {
            log_mid: vec![9.2; ticks],
            bid: vec![9_999; ticks],
            ask: vec![10_001; ticks],
            volume: vec![1.0; ticks],
            fundamental: vec![10_000.0; ticks],
            signs: vec![1; ticks],
            depth: vec![1.0; 24],
            ..Recording::default()
        };
        for fact in catalogue() {
            let Measure::PerSeed(measure) = fact.measure else { continue };
            let value = measure(&flat);
            if !fact.id.eq("R14") && !fact.report_only && !fact.key.starts_with("acf_max") {
                assert!(!fact.band.contains(value), "{}: {value}", fact.key);
            }
        }
    }

    /// The excess kurtosis of a sum of ten independent returns is a tenth of theirs.
    #[test]
    fn aggregation_is_a_tenth_for_fat_tails_and_unknown_without_them() {
        let walk = |mut of: Box<dyn FnMut() -> f64>| Recording {
            log_mid: (0..20_000)
                .scan(0.0, |price, _| {
                    *price += of();
                    Some([*price; MINUTE])
                })
                .flatten()
                .collect(),
            ..Recording::default()
        };
        let mut fat = SeriesRandom::new(4);
        let fat = aggregation(&walk(Box::new(move || fat.sign() * fat.exponential())));
        assert!((fat - 0.1).abs() < 0.05, "{fat}");
        let mut thin = SeriesRandom::new(4);
        let thin = aggregation(&walk(Box::new(move || thin.uniform() - 0.5)));
        assert!(thin.is_nan(), "{thin}");
    }
}
