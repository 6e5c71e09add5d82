//! Selectors: which transitions a sampler draws, and in which order.

use std::fmt;

use crate::error::BadSelector;
use crate::priority::PriorityOptions;
use crate::ring::Ring;
use crate::table::TableOptions;

/// Way in which the transitions of a batch are chosen.
///
/// ```
/// use backcast_core::{
///     DType, Ring, RingOptions, SamplerOptions, Schema, Selector, StepColumns, WriterOptions,
/// };
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..50_u8 {
///     let obs = [f32::from(t)];
///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
/// }
/// let mut newest = ring.sampler(SamplerOptions::seeded(7).selector(Selector::Lifo))?;
/// assert_eq!(newest.sample(3)?.index(), [48, 47, 46]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Selector {
    /// Draws uniformly over all transitions, with replacement. The default.
    #[default]
    Uniform,
    /// Draws in proportion to priorities, with replacement.
    Priority(PriorityOptions),
    /// The `B` transitions of largest priority, largest first. The order of equal ones is fixed and
    /// has no meaning. O(rows) a batch where priorities are alike, far less where few stand out.
    /// The options of importance weights and strata have no effect.
    MaxPriority(PriorityOptions),
    /// The `B` transitions of smallest priority, smallest first; see
    /// [`MaxPriority`](Self::MaxPriority).
    MinPriority(PriorityOptions),
    /// The `B` oldest transitions, oldest first. Lanes take turns: the oldest of each, then the
    /// next of each.
    Fifo,
    /// The `B` newest transitions, newest first. Lanes take turns.
    Lifo,
    /// Draws with replacement, in proportion to `0.5 ^ (age / half_life)`, where `age` counts the
    /// newer rows of the same lane.
    Recency {
        /// Rows over which the weight halves, above 0.
        half_life: f64,
    },
    /// Draws with replacement: a lane in proportion to its weight, among lanes with transitions,
    /// then a transition of it uniformly. One weight for each lane, from 0 up, one of them above 0.
    LaneWeights(Vec<f64>),
    /// Draws with replacement: every lane with transitions in turn, from batch to batch, then a
    /// transition of it uniformly.
    LaneStrata,
    /// Draws without replacement: in each pass a row goes to one of the samplers that name the
    /// table. With [`TableOptions::consume`] each transition is drawn once, as from a queue.
    Table(TableOptions),
}

impl Selector {
    /// Sets the stride of the priorities, if the selector uses any.
    pub(super) fn every(self, stride: u32) -> Self {
        match self {
            Self::Priority(options) => Self::Priority(options.stride(stride)),
            Self::MaxPriority(options) => Self::MaxPriority(options.stride(stride)),
            Self::MinPriority(options) => Self::MinPriority(options.stride(stride)),
            other => other,
        }
    }

    /// Returns the name of the selector in Python and on the command line.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Priority(_) => "priority",
            Self::MaxPriority(_) => "max_priority",
            Self::MinPriority(_) => "min_priority",
            Self::Fifo => "fifo",
            Self::Lifo => "lifo",
            Self::Recency { .. } => "recency",
            Self::LaneWeights(_) => "lane_weights",
            Self::LaneStrata => "lane_strata",
            Self::Table(options) => options.kind(),
        }
    }

    /// Returns the options of the priorities, if the selector uses any.
    #[must_use]
    pub fn priorities(&self) -> Option<&PriorityOptions> {
        match self {
            Self::Priority(options) | Self::MaxPriority(options) | Self::MinPriority(options) => {
                Some(options)
            }
            _ => None,
        }
    }

    /// Refuses settings out of range.
    pub(crate) fn check(&self, ring: &Ring) -> Result<(), BadSelector> {
        let refuse = |what, remedy| Err(BadSelector { what, remedy });
        match self {
            Self::Recency { half_life } if !(half_life.is_finite() && *half_life > 0.0) => refuse(
                format!("half_life is {half_life}, and it is a number of rows above 0"),
                "give the rows over which a transition's weight halves, such as 10_000",
            ),
            Self::LaneWeights(weights) if weights.len() != ring.lanes() as usize => refuse(
                format!("{} lane weights for {} lanes", weights.len(), ring.lanes()),
                "give one weight for each lane",
            ),
            Self::LaneWeights(weights) => {
                let bad = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
                if let Some((lane, weight)) = weights.iter().enumerate().find(|(_, w)| bad(w)) {
                    return refuse(
                        format!("the weight of lane {lane} is {weight}, and weights are from 0 up"),
                        "give finite numbers from 0 up",
                    );
                }
                let sum: f64 = weights.iter().sum();
                if sum > 0.0 && sum.is_finite() {
                    return Ok(());
                }
                refuse(
                    format!("the lane weights add up to {sum}, and no lane can be drawn by them"),
                    "give one of them a number above 0, and none a huge one",
                )
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, RingOptions, Schema};

    #[test]
    fn settings_out_of_range_are_refused_and_those_at_its_ends_are_not() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(20).lanes(2)).unwrap();
        let recency = |half_life| Selector::Recency { half_life };
        let weights = |weights: &[f64]| Selector::LaneWeights(weights.to_vec());
        let (tiny, huge) = (f64::MIN_POSITIVE, f64::MAX);
        for good in [recency(tiny), recency(huge), weights(&[0.0, tiny]), weights(&[huge, 0.0])] {
            assert_eq!(good.check(&ring), Ok(()), "{good:?}");
        }
        let half_lives = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(recency);
        let lanes = [
            weights(&[]),
            weights(&[1.0]),
            weights(&[1.0; 3]),
            weights(&[0.0; 2]),
            weights(&[2.0, -1.0]),
            weights(&[1.0, f64::NAN]),
            weights(&[f64::INFINITY, 1.0]),
            weights(&[huge; 2]),
        ];
        for bad in half_lives.into_iter().chain(lanes) {
            assert!(bad.check(&ring).is_err(), "{bad:?}");
        }
    }
}
