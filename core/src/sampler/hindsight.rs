//! Hindsight: transitions whose goal is replaced by one that their episode achieved.

mod episode_rows;
mod places;
mod relabel;
mod returns;

use backcast_layout::{Column, DType, Role};

pub(crate) use self::places::count_of;
pub(crate) use self::relabel::GoalDraws;
use super::columns::{ColumnWindow, SelectedColumns};
use super::options::DrawOptions;
use crate::batch_key as key;
use crate::error::HindsightError;
use crate::schema::{Schema, USER};

/// Rows of an episode that a new goal is drawn from, uniformly.
///
/// The newest published row of an episode that still runs counts as its end. Rows that are too old
/// for [`max_age`](crate::SamplerOptions::max_age) give no goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum GoalStrategy {
    /// Goals that the drawn transition or a later one of its episode achieved. The default.
    #[default]
    Future,
    /// The goal that the last transition of the episode achieved.
    Final,
    /// Goals that any transition of the episode achieved, if its row is in the ring.
    Episode,
}

impl GoalStrategy {
    /// Returns `"future"`, `"final"` or `"episode"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GoalStrategy::Future => "future",
            GoalStrategy::Final => "final",
            GoalStrategy::Episode => "episode",
        }
    }

    /// Returns the strategy that `word` names, or `None` for another word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        [Self::Future, Self::Final, Self::Episode].into_iter().find(|of| of.as_str() == word)
    }
}

/// Relabelling of goals in hindsight (Andrychowicz et al., "Hindsight experience replay", NIPS
/// 2017, section 3.3 and appendix).
///
/// Each drawn transition is relabelled with probability `ratio`, independently. Its desired goal,
/// in all of its windows, becomes one that a row of its episode achieved, as the strategy says. The
/// paper stores `k` relabelled copies of each transition; a ratio of `k / (k + 1)` draws the same
/// mixture. `relabelled`, `bool [B]`, marks these transitions. `terminated` and `truncated` change
/// only with [`terminated`](Self::terminated). n-step returns are those of the new rewards and ends;
/// the future window must show their transitions.
///
/// Goals are drawn by the sampler's seed, and gathered after the transitions. A transition that a
/// writer overwrote in between keeps its goal.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hindsight {
    /// Rows that new goals are drawn from.
    pub strategy: GoalStrategy,
    /// Share of the transitions that are relabelled, within `0..=1`.
    pub ratio: f64,
    /// Observation column of the goals that were achieved.
    pub achieved: String,
    /// Observation column of the goals that were desired, of the same dtype and shape.
    pub desired: String,
    /// Whether [`Sampler::terminations`](crate::Sampler::terminations) computes `terminated` of
    /// relabelled transitions.
    #[cfg_attr(feature = "serde", serde(default))]
    pub terminated: bool,
}

impl Hindsight {
    /// Returns hindsight of a strategy, with four relabelled transitions for each other one, and
    /// the columns `obs/achieved_goal` and `obs/desired_goal` of Gymnasium's goal environments.
    #[must_use]
    pub fn new(strategy: GoalStrategy) -> Self {
        let (achieved, desired) = ("obs/achieved_goal".to_owned(), "obs/desired_goal".to_owned());
        Self { strategy, ratio: 0.8, achieved, desired, terminated: false }
    }

    /// Relabels `k` transitions for each one that keeps its goal.
    #[must_use]
    pub fn k(self, k: u32) -> Self {
        let k = f64::from(k);
        self.ratio(k / (k + 1.0))
    }

    /// Sets the share of relabelled transitions, within `0..=1`.
    #[must_use]
    pub fn ratio(self, ratio: f64) -> Self {
        Self { ratio, ..self }
    }

    /// Sets the columns of achieved and desired goals.
    #[must_use]
    pub fn columns(self, achieved: &str, desired: &str) -> Self {
        Self { achieved: achieved.to_owned(), desired: desired.to_owned(), ..self }
    }

    /// Relabels terminations too: a function of the sampler says where the new goal ends the
    /// episode. A transition that terminated for its stored goal, and does not for the new one, is
    /// truncated.
    #[must_use]
    pub fn terminated(self) -> Self {
        Self { terminated: true, ..self }
    }

    /// Returns the columns of the goals and of the rewards. Fails if goals cannot be relabelled.
    pub(crate) fn check(
        &self,
        schema: &Schema,
        selection: &SelectedColumns,
        draws: &DrawOptions,
    ) -> Result<GoalColumns, HindsightError> {
        if !(0.0..=1.0).contains(&self.ratio) {
            return Err(HindsightError::BadRatio { ratio: self.ratio });
        }
        let future = draws.future;
        if let Some(n_step) = draws.n_step.filter(|n| n.saturating_sub(1) > future) {
            return Err(HindsightError::ShortFuture { n_step, future });
        }
        let columns = schema.columns();
        let find = |what, name: &str| {
            let at = columns.iter().position(|column| column.name() == name);
            let found = at.and_then(|at| Some((at, columns.get(at)?)));
            let Some((at, column)) = found else {
                let known = columns.iter().map(|column| column.name().to_owned()).collect();
                return Err(HindsightError::NoColumn { what, name: name.to_owned(), known });
            };
            if column.role() != Role::Obs {
                return Err(HindsightError::NotObserved { what, name: name.to_owned() });
            }
            Ok((at, column))
        };
        let (achieved, from) = find("achieved", &self.achieved)?;
        let (desired, to) = find("desired", &self.desired)?;
        if (from.dtype(), from.shape()) != (to.dtype(), to.shape()) {
            let describe = |column: &Column| format!("{}{:?}", column.dtype(), column.shape());
            return Err(HindsightError::Differ {
                achieved: self.achieved.clone(),
                achieved_type: describe(from),
                desired: self.desired.clone(),
                desired_type: describe(to),
            });
        }
        let reward = columns.iter().position(|column| column.name() == "reward");
        let bad = |found| HindsightError::BadReward { found };
        let Some(at) = reward else { return Err(bad(format!("there is none among {schema}"))) };
        let of = columns.get(at).filter(|column| {
            column.shape().is_empty() && matches!(column.dtype(), DType::F32 | DType::F64)
        });
        let Some(reward) = of else { return Err(bad("here it is of another type".to_owned())) };
        let window = |column| selection.window(column);
        let mut needed =
            vec![(&*self.achieved, window(achieved)), (&self.desired, window(desired))];
        if self.terminated {
            let [terminated, truncated] = selection.flags();
            needed.push((key::TERMINATED, terminated));
            needed.extend(truncated.map(|of| (key::TRUNCATED, Some(of))));
        }
        if draws.n_step.is_some() && draws.discounts {
            let of = columns.iter().position(|column| column.name() == "discount");
            needed.push(("discount", of.and_then(window)));
        }
        for (name, shown) in needed {
            let is_left_out = matches!(shown, None | Some(ColumnWindow::First));
            if is_left_out || shown != window(at) {
                return Err(HindsightError::OtherWindow { name: name.to_owned() });
            }
        }
        let (reward, gamma) = (reward.dtype(), draws.gamma);
        Ok(GoalColumns { achieved, desired: USER + desired, width: from.width(), reward, gamma })
    }
}

/// Columns that relabelling reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoalColumns {
    /// Number among the schema's columns.
    achieved: usize,
    /// Number among the stored columns.
    desired: usize,
    /// Bytes of a goal.
    width: usize,
    /// Element type of the rewards.
    reward: DType,
    /// Discount of n-step returns, unless a column has the discounts.
    gamma: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AutoresetMode, BatchesOptions, ColumnWindows, DType, PriorityOptions, Ring, RingOptions,
        RowIndex, SampleError, SamplerOptions, Selector, StepColumns, WriterOptions,
    };

    /// Returns a ring of one episode of `rows` transitions, whose achieved goals are their rows.
    fn ring(rows: u16) -> Ring {
        let schema = Schema::builder()
            .column("obs/achieved", DType::F32, &[])
            .column("obs/desired", DType::F32, &[])
            .column("reward", DType::F64, &[])
            .build()
            .unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(100)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for row in 0..=rows {
            let achieved = [f32::from(row)];
            let columns = StepColumns::of(&schema).with("obs/achieved", &achieved).unwrap();
            let columns = columns.with("obs/desired", &[-1.0_f32]).unwrap();
            let columns = columns.with("reward", &[-1.0_f64]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        ring
    }

    /// Returns a ring with one episode in each of two lanes.
    fn ring_of_lanes() -> Ring {
        let schema = ring(1).schema().clone();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(100).lanes(2)).unwrap();
        let options = WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep);
        let mut writer = ring.writer(options).unwrap();
        for row in 0..30_u8 {
            let (achieved, desired) = ([f32::from(row); 2], [-1.0_f32; 2]);
            let columns = StepColumns::of(&schema).with("obs/achieved", &achieved).unwrap();
            let columns = columns.with("obs/desired", &desired).unwrap();
            let columns = columns.with("reward", &[-1.0_f64; 2]).unwrap();
            writer.append(&columns.step(&[false; 2], &[false; 2]).unwrap()).unwrap();
        }
        ring
    }

    fn hindsight() -> Hindsight {
        Hindsight::new(GoalStrategy::Future).k(1).columns("obs/achieved", "obs/desired")
    }

    #[test]
    fn closures_compute_rewards_and_change_batches_also_in_the_thread_that_draws_ahead() {
        let ring = ring(30);
        let sampler = || {
            let options = SamplerOptions::seeded(3).history(4).future(2).hindsight(hindsight());
            let sampler = ring.sampler(options).unwrap().rewards(|goals, rewards| {
                let achieved = goals.achieved::<f32>().unwrap();
                let desired = goals.desired::<f32>().unwrap();
                for ((reward, achieved), desired) in rewards.iter_mut().zip(&achieved).zip(&desired)
                {
                    *reward = f64::from(u8::from(achieved.to_bits() == desired.to_bits()));
                }
            });
            sampler.transform(|batch| {
                for reward in &mut batch.column_mut::<f64>("future/reward").unwrap() {
                    *reward *= 10.0;
                }
            })
        };
        let batch = sampler().sample(200).unwrap();
        let relabelled = batch.column::<bool>("relabelled").unwrap();
        let count = relabelled.iter().filter(|flag| **flag).count();
        assert!((60..140).contains(&count), "{count}");
        for (prefix, mask, factor) in [("", "mask", 1.0), ("future/", "future_mask", 10.0)] {
            let key = |name: &str| format!("{prefix}{name}");
            let rewards = batch.column::<f64>(&key("reward")).unwrap();
            let achieved = batch.column::<f32>(&key("next_obs/achieved")).unwrap();
            let desired = batch.column::<f32>(&key("obs/desired")).unwrap();
            let mask = batch.column::<bool>(mask).unwrap();
            for ((item, place), present) in (0..200)
                .flat_map(|item| (0..mask.shape()[1]).map(move |place| (item, place)))
                .zip(mask.iter())
            {
                let at = [item, place];
                let own = achieved[&at[..]].to_bits() == desired[&at[..]].to_bits();
                let expected = match (*present, relabelled[&at[..1]]) {
                    (false, _) => 0.0,
                    (true, false) => -factor,
                    (true, true) => factor * f64::from(u8::from(own)),
                };
                assert_eq!(rewards[&at[..]].to_bits(), expected.to_bits(), "{prefix}{at:?}");
            }
        }
        let mut ahead = sampler().batches(200, BatchesOptions::prefetch(2)).unwrap();
        let drawn = ahead.next().unwrap().unwrap();
        for key in ["reward", "future/reward"] {
            let [one, two] = [&batch, &drawn].map(|of| of.column::<f64>(key).unwrap().to_owned());
            assert_eq!(one, two, "{key}");
        }
    }

    #[test]
    fn goals_are_relabelled_regardless_of_the_row_that_a_weight_chose() {
        let ring = ring(30);
        let selectors = [
            Selector::Uniform,
            Selector::Recency { half_life: 10.0 },
            Selector::Priority(PriorityOptions::alpha(0.5)),
        ];
        for selector in selectors {
            let options = SamplerOptions::seeded(3).hindsight(hindsight()).selector(selector);
            let mut sampler = ring.sampler(options).unwrap().rewards(|_, _| {});
            let mut counts = [[0_u32; 2]; 2];
            let mut drawn = Vec::new();
            for _ in 0..20 {
                let batch = sampler.sample(200).unwrap();
                let flags = batch.column::<bool>("relabelled").unwrap();
                let rows = batch.index().into_iter().map(RowIndex::seq);
                drawn.extend(rows.zip(flags.iter().copied()));
            }
            let mut seqs: Vec<u64> = drawn.iter().map(|(seq, _)| *seq).collect();
            seqs.sort_unstable();
            let middle = seqs[seqs.len() / 2];
            for (seq, relabelled) in drawn {
                counts[usize::from(seq >= middle)][usize::from(relabelled)] += 1;
            }
            // Each half has about 2,000 draws. The relabelled ones are 1,000 with a standard
            // deviation of 22.
            for [kept, relabelled] in counts {
                let half = u32::midpoint(kept, relabelled);
                assert!(relabelled.abs_diff(half) < 150, "{counts:?}");
            }
        }
        let lanes = ring_of_lanes();
        let weights = Selector::LaneWeights(vec![1.0, 1.0]);
        let options = SamplerOptions::seeded(3).hindsight(hindsight()).selector(weights);
        let mut sampler = lanes.sampler(options).unwrap().rewards(|_, _| {});
        let batch = sampler.sample(4_000).unwrap();
        let flags = batch.column::<bool>("relabelled").unwrap();
        let of_first = batch.index().into_iter().zip(&flags).filter(|(row, _)| row.lane() == 0);
        let (relabelled, all) = of_first.fold((0_u32, 0_u32), |(relabelled, all), (_, flag)| {
            (relabelled + u32::from(*flag), all + 1)
        });
        assert!(relabelled.abs_diff(all / 2) < 150, "{relabelled} of {all}");
    }

    #[test]
    fn goals_without_a_reward_function_or_that_cannot_be_relabelled_are_refused() {
        type IsRight = fn(&HindsightError) -> bool;
        let ring = ring(5);
        let seeded = SamplerOptions::seeded(1);
        let refused =
            ring.sampler(seeded.clone().hindsight(hindsight())).unwrap().sample(4).unwrap_err();
        assert!(matches!(refused, SampleError::Hindsight(HindsightError::NoRewards)), "{refused}");
        let shown = ColumnWindows::default().column("obs", ColumnWindow::Drawn);
        let specs: [(SamplerOptions, IsRight); 5] = [
            (
                seeded.clone().hindsight(hindsight().ratio(f64::NAN)),
                |error| matches!(error, HindsightError::BadRatio { ratio } if ratio.is_nan()),
            ),
            (seeded.clone().hindsight(Hindsight::new(GoalStrategy::Final)), |error| {
                let HindsightError::NoColumn { name, .. } = error else { return false };
                name == "obs/achieved_goal"
            }),
            (
                seeded.clone().hindsight(hindsight().columns("reward", "obs/desired")),
                |error| matches!(error, HindsightError::NotObserved { name, .. } if name == "reward"),
            ),
            (seeded.clone().n_step(3).gamma(0.9).hindsight(hindsight()), |error| {
                matches!(error, HindsightError::ShortFuture { n_step: 3, future: 0 })
            }),
            (seeded.columns(shown).hindsight(hindsight()), |error| {
                matches!(error, HindsightError::OtherWindow { .. })
            }),
        ];
        for (spec, is_right) in specs {
            let error = ring.sampler(spec).unwrap_err();
            let SampleError::Hindsight(error) = error else { panic!("{error}") };
            assert!(is_right(&error), "{error:?}");
        }
    }
}
