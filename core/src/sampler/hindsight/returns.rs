//! n-step returns of relabelled transitions.

use super::places::Places;
use super::relabel::{GoalDraws, extent_of};
use crate::batch_key as key;
use crate::sampler::gather::{read_real, write_real};
use crate::sampler::plan::{BatchPlan, NStep};

/// A column at the transitions of an n-step return: the drawn one, and those of the future window.
#[derive(Clone, Copy, Debug)]
struct StepPlaces {
    now: Places,
    after: Option<Places>,
}

impl StepPlaces {
    fn of(plan: &BatchPlan, name: &str) -> Option<Self> {
        let after = Places::of(plan, &format!("future/{name}"));
        Some(Self { now: Places::of(plan, name)?, after })
    }

    /// Returns the bytes of the transition that lies `step` after the drawn one of an item.
    fn bytes<'a>(self, arenas: &'a [&mut [u8]], item: usize, step: usize) -> Option<&'a [u8]> {
        match step.checked_sub(1) {
            None => self.now.bytes(arenas, item, self.now.len.checked_sub(1)?),
            Some(at) => self.after?.bytes(arenas, item, at),
        }
    }
}

/// The columns of n-step returns in a batch.
struct Columns<'p> {
    n_step: NStep,
    reward: StepPlaces,
    discount: Option<StepPlaces>,
    /// Where the sum and the discount of an item are stored.
    sum: Option<Places>,
    left: Option<Places>,
    /// Terminations, if those of relabelled transitions change.
    terminated: Option<StepPlaces>,
    /// Observations after the last transition, and after each one.
    next: Vec<(Places, StepPlaces)>,
    plan: &'p BatchPlan,
}

impl GoalDraws {
    /// Computes the n-step returns of relabelled transitions from their rewards and terminations,
    /// which were stored before.
    pub(crate) fn store_returns(&self, plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
        let Some(n_step) = plan.n_step() else { return };
        let Some(reward) = StepPlaces::of(plan, "reward") else { return };
        let relabels_ends = self.options().terminated;
        let next = plan.views().iter().filter_map(|view| {
            let name = view.key.strip_prefix("n_")?;
            let each = StepPlaces::of(plan, name).filter(|_| name.starts_with("next_"))?;
            Some((Places::of(plan, &view.key)?, each))
        });
        let columns = Columns {
            n_step,
            reward,
            sum: Places::of(plan, key::N_REWARD),
            left: Places::of(plan, key::N_DISCOUNT),
            discount: n_step.discount.and_then(|_| StepPlaces::of(plan, "discount")),
            terminated: StepPlaces::of(plan, key::TERMINATED).filter(|_| relabels_ends),
            next: next.collect(),
            plan,
        };
        let gamma = self.columns.gamma.unwrap_or(1.0);
        for item in self.relabelled_items() {
            columns.store(gamma, item, arenas);
        }
    }
}

impl Columns<'_> {
    fn store(&self, gamma: f64, item: usize, arenas: &mut [&mut [u8]]) {
        let (_, ahead) = extent_of(self.plan, arenas, item);
        let shown = usize::try_from(ahead).unwrap_or(0) + 1;
        let steps = shown.min(usize::try_from(self.n_step.run).unwrap_or(usize::MAX));
        let real =
            |places: StepPlaces, step| places.bytes(arenas, item, step).map_or(0.0, read_real);
        let (mut sum, mut left, mut end) = (0.0, 1.0, None);
        for step in 0..steps {
            sum += left * real(self.reward, step);
            left *= self.discount.map_or(gamma, |discount| real(discount, step));
            let flag = self.terminated.and_then(|flags| flags.bytes(arenas, item, step));
            if flag.is_some_and(|flag| flag != [0]) {
                end = Some(step);
                break;
            }
        }
        let dtype = self.n_step.reward.dtype;
        let mut write = |places: Option<Places>, value: f64| {
            if let Some(bytes) = places.and_then(|places| places.bytes_mut(arenas, item, 0)) {
                write_real(dtype, value, bytes);
            }
        };
        write(self.sum, sum);
        if self.terminated.is_none() {
            return;
        }
        write(self.left, if end.is_some() { 0.0 } else { left });
        for (last, each) in &self.next {
            let Some(end) = end else { break };
            let Some(from) = each.bytes(arenas, item, end).map(<[u8]>::to_vec) else { continue };
            if let Some(to) = last.bytes_mut(arenas, item, 0) {
                to.copy_from_slice(&from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        AutoresetMode, Boundary, DType, GoalStrategy, Hindsight, HindsightError, PriorityOptions,
        Ring, RingOptions, RowIndex, SampleError, Sampler, SamplerOptions, Schema, StepColumns,
        WriterOptions,
    };

    /// Transitions of the episodes of [`ring`]: even ones terminate, odd ones are truncated, and
    /// the last one goes on.
    const LENGTHS: [u16; 5] = [3, 7, 1, 12, 40];
    const N: u16 = 4;
    const GAMMA: f64 = 0.75;

    /// Returns a ring whose achieved goals are the numbers of their rows. Rows discount by 0.5 and
    /// 0.25 in turn.
    fn ring() -> Ring {
        ring_with(|row, _| [0.5, 0.25][usize::from(row % 2)])
    }

    /// Returns such a ring whose discounts depend on the row, and on whether it terminates.
    fn ring_with(discount_of: impl Fn(u16, bool) -> f32) -> Ring {
        let schema = Schema::builder()
            .column("obs/achieved", DType::F32, &[])
            .column("obs/desired", DType::F32, &[])
            .column("reward", DType::F64, &[])
            .column("discount", DType::F32, &[])
            .build()
            .unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(100)).unwrap();
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep);
        let mut writer = ring.writer(options).unwrap();
        let mut row = 0_u16;
        for (number, length) in LENGTHS.into_iter().enumerate() {
            let goes_on = number + 1 == LENGTHS.len();
            for step in 0..=length {
                let achieved = [f32::from(row)];
                let columns = StepColumns::of(&schema).with("obs/achieved", &achieved).unwrap();
                let columns = columns.with("obs/desired", &[-1.0_f32]).unwrap();
                let columns = columns.with("reward", &[-1.0_f64]).unwrap();
                let end = step + 1 == length && !goes_on;
                let (terminated, truncated) = (end && number % 2 == 0, end && number % 2 == 1);
                let discount = [discount_of(row, terminated)];
                let columns = columns.with("discount", &discount).unwrap();
                writer.append(&columns.step(&[terminated], &[truncated]).unwrap()).unwrap();
                row += 1;
            }
        }
        ring
    }

    /// Returns the row after the last transition of the episode that a row belongs to, and whether
    /// that transition terminated.
    fn end_of(row: u16) -> (u16, bool) {
        let mut end = 0;
        for (number, length) in LENGTHS.into_iter().enumerate() {
            end += length;
            if row < end {
                return (end, number % 2 == 0 && number + 1 < LENGTHS.len());
            }
            end += 1;
        }
        panic!("row {row} starts no transition");
    }

    /// Reward of a transition that achieved one goal and was to achieve another.
    fn reward(achieved: f32, desired: f32) -> f64 {
        f64::from(desired) - 0.5 * f64::from(achieved)
    }

    /// n-step return of a relabelled transition: sum, discount, row after it.
    fn expected(row: u16, goal: f32, by_column: bool, relabels_ends: bool) -> (f64, f64, u16) {
        let (end, terminates) = end_of(row);
        let (mut sum, mut left, mut at) = (0.0, 1.0, row);
        while at < end.min(row + N) {
            sum += left * reward(f32::from(at + 1), goal);
            left *= match (by_column, at % 2) {
                (false, _) => GAMMA,
                (true, 0) => 0.5,
                (true, _) => 0.25,
            };
            at += 1;
            if relabels_ends && f32::from(at).to_bits() == goal.to_bits() {
                return (sum, 0.0, at);
            }
        }
        let is_over = !relabels_ends && terminates && at == end;
        (sum, if is_over { 0.0 } else { left }, at)
    }

    fn with_functions(sampler: Sampler, relabels_ends: bool) -> Sampler {
        let sampler = sampler.rewards(|goals, rewards| {
            let achieved = goals.achieved::<f32>().unwrap();
            let desired = goals.desired::<f32>().unwrap();
            for ((place, achieved), desired) in rewards.iter_mut().zip(&achieved).zip(&desired) {
                *place = reward(*achieved, *desired);
            }
        });
        if !relabels_ends {
            return sampler;
        }
        sampler.terminations(|goals, terminated| {
            let achieved = goals.achieved::<f32>().unwrap();
            let desired = goals.desired::<f32>().unwrap();
            for ((place, achieved), desired) in terminated.iter_mut().zip(&achieved).zip(&desired) {
                *place = achieved.to_bits() == desired.to_bits();
            }
        })
    }

    fn hindsight(relabels_ends: bool) -> Hindsight {
        let goals = Hindsight::new(GoalStrategy::Future).columns("obs/achieved", "obs/desired");
        if relabels_ends { goals.terminated() } else { goals }
    }

    /// Compares a batch of `sampler` with the reference, and with the batch of `plain`, which has
    /// the same draws without hindsight. Returns how many items have an end in hindsight.
    fn check(mut sampler: Sampler, mut plain: Sampler, by_column: bool, relabels: bool) -> usize {
        let (batch, stored) = (sampler.sample(300).unwrap(), plain.sample(300).unwrap());
        assert_eq!(batch.index(), stored.index());
        let relabelled = batch.column::<bool>("relabelled").unwrap();
        let real = |batch: &crate::Batch, key: &str| batch.array::<f64>(key).unwrap();
        let goals = batch.array::<f32>("n_next_obs/desired").unwrap();
        let after = batch.array::<f32>("n_next_obs/achieved").unwrap();
        let desired = batch.array::<f32>("future/obs/desired").unwrap();
        let present = batch.column::<bool>("future_mask").unwrap();
        let mut ends = 0;
        for (item, row) in batch.index().into_iter().map(RowIndex::seq).enumerate() {
            let at = [item];
            let found = ["n_reward", "n_discount"].map(|key| real(&batch, key)[&at[..]].to_bits());
            if !relabelled[&at[..]] {
                let kept = ["n_reward", "n_discount"].map(|key| real(&stored, key)[&at[..]]);
                assert_eq!(found, kept.map(f64::to_bits), "row {row}");
                continue;
            }
            let goal = goals[&at[..]];
            if present[&[item, 0][..]] {
                assert_eq!(desired[&[item, 0][..]].to_bits(), goal.to_bits(), "row {row}");
            }
            let row = u16::try_from(row).unwrap();
            let (sum, discount, last) = expected(row, goal, by_column, relabels);
            assert_eq!(found, [sum, discount].map(f64::to_bits), "row {row} to {goal}");
            assert_eq!(after[&at[..]].to_bits(), f32::from(last).to_bits(), "row {row} to {goal}");
            ends += usize::from(discount.to_bits() == 0);
        }
        ends
    }

    #[test]
    fn n_step_returns_of_relabelled_goals_sum_new_rewards_up_to_new_ends() {
        let ring = ring();
        let seeded = SamplerOptions::seeded(3).n_step(N.into()).future(u32::from(N) + 1);
        let priorities = PriorityOptions::alpha(0.5);
        for (by_column, relabels_ends) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let seeded = seeded.clone();
            let seeded = if by_column { seeded.discount_column() } else { seeded.gamma(GAMMA) };
            for options in [
                seeded.clone(),
                seeded.clone().history(3),
                seeded.clone().history(3).copy(true),
                seeded.clone().history(2).boundary(Boundary::Reject),
                seeded.clone().history(2).boundary(Boundary::Clamp),
                seeded.priority(priorities.clone()),
            ] {
                let plain = ring.sampler(options.clone()).unwrap();
                let goals = options.hindsight(hindsight(relabels_ends));
                let sampler = with_functions(ring.sampler(goals).unwrap(), relabels_ends);
                let ends = check(sampler, plain, by_column, relabels_ends);
                // With `Reject`, no return reaches an end that is stored.
                assert!(ends > 0 || !relabels_ends, "no return has ended");
            }
        }
    }

    #[test]
    fn an_end_of_the_stored_goal_becomes_a_cut_and_other_flags_stay() {
        let ring = ring();
        let options = SamplerOptions::seeded(3).history(3).future(2);
        let stored = ring.sampler(options.clone()).unwrap().sample(300).unwrap();
        let sampler = ring.sampler(options.hindsight(hindsight(true))).unwrap();
        let batch = with_functions(sampler, true).sample(300).unwrap();
        let relabelled = batch.column::<bool>("relabelled").unwrap();
        let mut cuts = 0;
        for (prefix, mask) in [("", "mask"), ("future/", "future_mask")] {
            let flags = |batch: &crate::Batch, name: &str| {
                batch.array::<bool>(&format!("{prefix}{name}")).unwrap()
            };
            let [was, now] = [&stored, &batch].map(|of| flags(of, "terminated"));
            let [was_cut, now_cut] = [&stored, &batch].map(|of| flags(of, "truncated"));
            let goal = |name: &str| batch.array::<f32>(&format!("{prefix}{name}")).unwrap();
            let (achieved, desired) = (goal("next_obs/achieved"), goal("obs/desired"));
            for (at, present) in batch.column::<bool>(mask).unwrap().indexed_iter() {
                let changes = *present && relabelled[&[at[0]][..]];
                let reached = achieved[&at].to_bits() == desired[&at].to_bits();
                let end = if changes { reached } else { was[&at] };
                assert_eq!(now[&at], end, "{prefix}terminated at {at:?}");
                let cut = was_cut[&at] || (changes && was[&at] && !reached);
                assert_eq!(now_cut[&at], cut, "{prefix}truncated at {at:?}");
                cuts += usize::from(cut && !was_cut[&at]);
            }
        }
        assert!(cuts > 0, "no end of a stored goal was drawn");
    }

    #[test]
    fn a_lost_end_whose_stored_discount_is_0_is_refused() {
        let ring =
            ring_with(|row, ends| if ends { 0.0 } else { [0.5, 0.25][usize::from(row % 2)] });
        let options = SamplerOptions::seeded(3).future(3);
        let by_gamma = options.clone().n_step(N.into()).gamma(GAMMA);
        let by_column = options.n_step(N.into()).discount_column();
        for (options, is_refused) in [(by_gamma, false), (by_column, true)] {
            let sampler = ring.sampler(options.hindsight(hindsight(true))).unwrap();
            let drawn = with_functions(sampler, true).sample(300);
            let refused = drawn.err().map(|error| match error {
                SampleError::Hindsight(error) => error,
                other => panic!("{other}"),
            });
            // Rows of the transitions that terminate, whose discount is 0.
            let found =
                matches!(refused, Some(HindsightError::NoDiscount { lane: 0, row: 2 | 12 }));
            assert_eq!(found, is_refused, "{refused:?}");
        }
    }

    #[test]
    fn terminations_without_a_function_and_returns_that_cannot_be_summed_are_refused() {
        type IsRight = fn(&HindsightError) -> bool;
        let ring = ring();
        let ends = SamplerOptions::seeded(1).hindsight(hindsight(true));
        let mut sampler = ring.sampler(ends.clone()).unwrap().rewards(|_, _| {});
        let refused = sampler.sample(4).unwrap_err();
        let SampleError::Hindsight(refused) = refused else { panic!("{refused}") };
        assert_eq!(refused, HindsightError::NoTerminations);
        let kept = SamplerOptions::seeded(1).hindsight(hindsight(false));
        for options in [kept, SamplerOptions::seeded(1)] {
            let sampler = ring.sampler(options).unwrap().rewards(|_, _| {});
            let refused = sampler.terminations(|_, _| {}).sample(4).unwrap_err();
            let SampleError::Hindsight(refused) = refused else { panic!("{refused}") };
            assert_eq!(refused, HindsightError::UnusedTerminations);
        }
        let shown = |columns: &[&str]| {
            let none = crate::ColumnWindows::default();
            let drawn = crate::ColumnWindow::Drawn;
            columns.iter().fold(none, |windows, name| windows.column(name, drawn))
        };
        let by_column = ends.clone().n_step(2).future(1).discount_column();
        let refused: [(SamplerOptions, IsRight); 3] = [
            (ends.clone().n_step(3).gamma(0.9).future(1), |error| {
                matches!(error, HindsightError::ShortFuture { n_step: 3, future: 1 })
            }),
            (
                ends.columns(shown(&["obs", "reward"])),
                |error| matches!(error, HindsightError::OtherWindow { name } if name == "terminated"),
            ),
            (
                by_column.columns(shown(&["obs", "reward", "terminated"])),
                |error| matches!(error, HindsightError::OtherWindow { name } if name == "discount"),
            ),
        ];
        for (options, is_right) in refused {
            let error = ring.sampler(options).unwrap_err();
            let SampleError::Hindsight(error) = error else { panic!("{error}") };
            assert!(is_right(&error), "{error:?}");
        }
    }
}
