//! Realism battery: statistics that real markets show, computed on a simulated one.
//!
//! Every fact is a number with a pass band and a source ([`FactResult`]). A fact that is measured
//! once per seed passes if its median and enough of the seeds lie in the band. In the full battery
//! 80 % of the seeds are enough. A fact that needs all seeds together (impact, trading rules) has
//! one number, which must lie in the band.
//!
//! The statistics are plain functions on slices, independent of markets. The battery runs on
//! anything that implements [`Subject`], so that its tests can use markets that are built to fail
//! it.
//!
//! | file | reason to exist |
//! |---|---|
//! | `sample`, `autocorrelation`, `scaling`, `tails` | statistics of one series |
//! | `impact`, `rules` | statistics that need counterfactual runs or trades |
//! | `gains` | gains of each kind of agent |
//! | `ridge`, `trees`, `forecasts` | forecasts fitted to the observation |
//! | `fitted` | rules that trade on them |
//! | `manipulation` | search for round trips that gain |
//! | `opening` | the ticks after a reset |
//! | `significance` | probabilities of chance results |
//! | `subject`, `recording` | the interface of a market, and the series of one run |
//! | `simulated` | adapter of a simulated market |
//! | `spec`, `catalogue`, `verdict` | the facts, their bands, and the rule that judges them |
//! | `pool` | samples of all seeds together |
//! | `curves` | curves to plot |
//! | `battery` | runs seeds in parallel and collects the report |
#![expect(clippy::cast_precision_loss, reason = "lengths of series are far below 2^52")]

pub mod autocorrelation;
mod battery;
mod catalogue;
mod curves;
pub mod fitted;
mod forecasts;
mod gains;
pub mod impact;
pub mod manipulation;
pub mod opening;
mod pool;
mod recording;
mod ridge;
pub mod rules;
pub mod sample;
pub mod scaling;
pub mod significance;
mod simulated;
mod spec;
mod subject;
pub mod tails;
mod trees;
mod verdict;

#[cfg(test)]
mod planted;
#[cfg(test)]
mod random;

pub use battery::{BatteryOptions, FactsReport, run};
pub use curves::{Curves, DepthPoint, ImpactPoint, LinePoint};
pub use forecasts::{HORIZONS, Method};
pub use recording::{DEPTH_LEVELS, Recording, TICKS_PER_DAY};
pub use simulated::{Simulated, WARM_UP_TICKS, run_preset};
pub use spec::Band;
pub use subject::{Holding, KINDS, OUTSIDE_ACCOUNTS, OutsideKind, OutsideOrder, Subject, TickView};
pub use verdict::{FactResult, Verdict};
