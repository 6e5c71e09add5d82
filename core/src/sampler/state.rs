//! The state of a sampler: its position in the stream of draws, to continue in another process.

use super::boundary::Boundary;
use super::columns::ColumnWindows;
use super::form::Form;
use super::hindsight::Hindsight;
use super::options::SamplerOptions;
use super::selector::Selector;
use crate::table::LearnedOptions;

/// State of a sampler. Together with the data it determines the next batches.
///
/// Draws are counted, so a seed and a number of batches are a position. `ring.sampler(state)` draws
/// what the first sampler would have drawn next from the same data, in any process and language.
///
/// ```
/// use backcast_core::{
///     DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns, WriterOptions,
/// };
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..50_u8 {
///     let obs = [f32::from(t)];
///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
/// }
/// let mut sampler = ring.sampler(SamplerOptions::seeded(7).history(4))?;
/// sampler.sample(32)?;
/// let mut again = ring.sampler(sampler.state())?;
/// assert_eq!(again.sample(32)?.index(), sampler.sample(32)?.index());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerState {
    /// The seed of the draws.
    pub seed: u64,
    /// Batches that this learner has drawn.
    pub batches: u64,
    /// Rank of the learner, and number of learners that share the draws of the seed.
    pub rank: (u32, u32),
    /// Transitions of the history window of all columns; `None` without it.
    pub history: Option<u32>,
    /// Transitions of the future window.
    pub future: u32,
    /// Transitions of n-step returns.
    pub n_step: Option<u32>,
    /// Discount of n-step returns.
    pub gamma: Option<f64>,
    /// Whether n-step returns take their discounts from the column `discount`.
    pub discounts: bool,
    /// Treatment of windows that reach beyond their episode.
    pub boundary: Boundary,
    /// Transitions from the start of one window to that of the next; 1 draws every window. Other
    /// values occur only in states that were saved before there were [sequences](crate::Sequence).
    /// They draw the windows that start every `stride` transitions of an episode, and the one that
    /// ends with the episode.
    pub stride: u32,
    /// Whether arrays are independent of each other.
    pub copy: bool,
    /// Form of what is drawn.
    pub form: Form,
    /// The columns of a batch and the window of each. With `None` a batch has all columns, with the
    /// window that `history` sets.
    pub columns: Option<ColumnWindows>,
    /// Selector of the rows. Priorities and claims of a table are data, in the table that the
    /// selector names.
    pub selector: Selector,
    /// Goals that are relabelled in hindsight. A state does not have the function that computes
    /// their rewards.
    pub hindsight: Option<Hindsight>,
    /// Table of learned columns that batches show. Its values are data, in that table.
    pub learned: Option<LearnedOptions>,
    /// Maximum age of rows, in newer rows of the same lane; `None` for any.
    pub max_age: Option<u64>,
    /// Maximum age of rows, in newer versions of the policy; `None` for any.
    pub max_policy_age: Option<u64>,
    /// Version of the policy that the learner has [set](crate::PolicyVersion::set), which ages count
    /// from; `None` if it has set none.
    pub policy_version: Option<u64>,
}

impl SamplerState {
    pub(crate) fn of(options: SamplerOptions, batches: u64) -> Self {
        let draws = options.draws;
        Self {
            seed: draws.seed,
            batches,
            rank: draws.rank,
            history: draws.history,
            future: draws.future,
            n_step: draws.n_step,
            gamma: draws.gamma,
            discounts: draws.discounts,
            boundary: draws.boundary,
            stride: draws.stride,
            copy: draws.copy,
            form: draws.form,
            columns: options.columns,
            selector: options.selector,
            hindsight: options.hindsight,
            learned: options.learned,
            max_age: draws.max_age.rows,
            max_policy_age: draws.max_age.versions,
            policy_version: draws.policy_version,
        }
    }
}

#[cfg(test)]
mod tests {
    use backcast_layout::DType;

    use super::*;
    use crate::{
        AutoresetMode, BatchesOptions, ColumnWindow, GoalStrategy, PriorityOptions, Ring,
        RingOptions, Schema, Sequence, StepColumns, TableOptions, WholeEpisodes, WriterOptions,
    };

    fn ring() -> Ring {
        let schema = Schema::builder().column("reward", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(200)).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for step in 0..150_u8 {
            let reward = [f32::from(step)];
            let columns = StepColumns::of(&schema).with("reward", &reward).unwrap();
            writer.append(&columns.step(&[step % 9 == 8], &[false]).unwrap()).unwrap();
        }
        ring
    }

    #[test]
    fn a_sampler_made_of_a_state_draws_what_the_first_would_have_drawn() {
        let ring = ring();
        let options = SamplerOptions::seeded(u64::MAX);
        for options in [
            options.clone(),
            options.clone().history(4).future(2).boundary(Boundary::Reject),
            options.clone().n_step(3).gamma(0.9).boundary(Boundary::Clamp).history(2),
            options.sequence(Sequence::new(4).stride(3)),
        ] {
            // States saved before `Sequence` existed may have a stride without a sequence.
            let stride = if options.draws.form == Form::Transitions { 3 } else { 1 };
            let state = ring.sampler(options).unwrap().state();
            let states = [state.clone(), SamplerState { stride, ..state }];
            for mut first in states.map(|state| ring.sampler(state).unwrap()) {
                for batches in 0..5 {
                    let state = first.state();
                    assert_eq!(state.batches, batches);
                    let mut again = ring.sampler(state.clone()).unwrap();
                    assert_eq!(again.state(), state);
                    let (expected, found) = (first.sample(50).unwrap(), again.sample(50).unwrap());
                    assert_eq!(found.index(), expected.index());
                    assert_eq!(again.sample(7).unwrap().index(), {
                        let mut third = ring.sampler(first.state()).unwrap();
                        third.sample(7).unwrap().index()
                    });
                }
            }
        }
    }

    #[test]
    fn batches_that_were_drawn_ahead_and_not_returned_are_still_to_come() {
        let ring = ring();
        let mut plain = ring.sampler(SamplerOptions::seeded(3).history(2)).unwrap();
        let expected: Vec<_> = (0..6).map(|_| plain.sample(20).unwrap().index()).collect();
        for prefetch in [0, 4] {
            let sampler = ring.sampler(SamplerOptions::seeded(3).history(2)).unwrap();
            let mut batches = sampler.batches(20, BatchesOptions::prefetch(prefetch)).unwrap();
            for expected in &expected[..3] {
                assert_eq!(batches.next().unwrap().unwrap().index(), *expected);
            }
            assert_eq!(batches.state().batches, 3);
            let mut again = ring.sampler(batches.state()).unwrap();
            for expected in &expected[3..] {
                assert_eq!(again.sample(20).unwrap().index(), *expected);
            }
        }
    }

    #[test]
    fn the_last_number_of_a_batch_is_followed_by_the_first() {
        let ring = ring();
        let state = {
            let first = ring.sampler(SamplerOptions::seeded(1)).unwrap().state();
            SamplerState { batches: u64::MAX, ..first }
        };
        let mut sampler = ring.sampler(state.clone()).unwrap();
        sampler.sample(4).unwrap();
        assert_eq!(sampler.state().batches, 0);
    }

    #[test]
    fn a_state_has_every_option_of_its_sampler() {
        let schema = Schema::builder()
            .column("obs/from", DType::F32, &[])
            .column("obs/to", DType::F32, &[])
            .column("reward", DType::F32, &[])
            .column("discount", DType::F32, &[])
            .column("policy_version", DType::I64, &[])
            .build()
            .unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(100)).unwrap();
        let seeded = || SamplerOptions::seeded(9);
        let plain = || SamplerState {
            seed: 9,
            batches: 0,
            rank: (0, 1),
            history: None,
            future: 0,
            n_step: None,
            gamma: None,
            discounts: false,
            boundary: Boundary::Mask,
            stride: 1,
            copy: false,
            form: Form::Transitions,
            columns: None,
            selector: Selector::Uniform,
            hindsight: None,
            learned: None,
            max_age: None,
            max_policy_age: None,
            policy_version: None,
        };
        let sequence = Sequence::new(8).stride(4);
        let episodes = WholeEpisodes::padded().max_length(9);
        let columns = ColumnWindows::default().column("obs", ColumnWindow::History(4));
        let goals = Hindsight::new(GoalStrategy::Final).columns("obs/from", "obs/to");
        let learned = LearnedOptions::new("online").column("value", DType::F32);
        let by = || PriorityOptions::alpha(0.5);
        let mut cases = vec![
            (seeded(), plain()),
            (SamplerState { batches: 5, ..plain() }.into(), SamplerState { batches: 5, ..plain() }),
            (SamplerState { stride: 3, ..plain() }.into(), SamplerState { stride: 3, ..plain() }),
            (seeded().rank(1, 3), SamplerState { rank: (1, 3), ..plain() }),
            (seeded().history(4), SamplerState { history: Some(4), ..plain() }),
            (seeded().future(3), SamplerState { future: 3, ..plain() }),
            (
                seeded().n_step(3).gamma(0.9),
                SamplerState { n_step: Some(3), gamma: Some(0.9), ..plain() },
            ),
            (
                seeded().n_step(2).discount_column(),
                SamplerState { n_step: Some(2), discounts: true, ..plain() },
            ),
            (
                seeded().boundary(Boundary::Clamp),
                SamplerState { boundary: Boundary::Clamp, ..plain() },
            ),
            (seeded().max_age(30), SamplerState { max_age: Some(30), ..plain() }),
            (seeded().max_policy_age(0), SamplerState { max_policy_age: Some(0), ..plain() }),
            (
                SamplerState { policy_version: Some(7), ..plain() }.into(),
                SamplerState { policy_version: Some(7), ..plain() },
            ),
            (seeded().copy(true), SamplerState { copy: true, ..plain() }),
            (
                seeded().sequence(sequence),
                SamplerState { form: Form::Sequence(sequence), ..plain() },
            ),
            (
                seeded().episodes(episodes),
                SamplerState { form: Form::Episodes(episodes), ..plain() },
            ),
            (seeded().columns(columns.clone()), SamplerState { columns: Some(columns), ..plain() }),
            (
                seeded().priority(by()),
                SamplerState { selector: Selector::Priority(by()), ..plain() },
            ),
            (seeded().hindsight(goals.clone()), SamplerState { hindsight: Some(goals), ..plain() }),
            (seeded().learned(learned.clone()), SamplerState { learned: Some(learned), ..plain() }),
        ];
        let selectors = [
            Selector::MaxPriority(by()),
            Selector::MinPriority(by()),
            Selector::Fifo,
            Selector::Lifo,
            Selector::Recency { half_life: 9.0 },
            Selector::LaneWeights(vec![2.0]),
            Selector::LaneStrata,
            Selector::Table(TableOptions::consume("queue")),
        ];
        cases.extend(selectors.map(|selector| {
            (seeded().selector(selector.clone()), SamplerState { selector, ..plain() })
        }));
        for (options, expected) in cases {
            let state = ring.sampler(options).unwrap().state();
            assert_eq!(state, expected);
            assert_eq!(ring.sampler(state).unwrap().state(), expected, "of its own state");
        }
    }

    #[test]
    fn a_state_has_what_changed_in_the_selector_of_its_sampler() {
        let ring = ring();
        let by = |table| PriorityOptions::alpha(0.6).table(table);
        let mut later_beta = ring.sampler(SamplerOptions::seeded(1).priority(by("rows"))).unwrap();
        later_beta.set_beta(0.7).unwrap();
        // The form gives its stride to the priorities.
        let sequences = SamplerOptions::seeded(1).sequence(Sequence::new(4).stride(2));
        let of_sequences = ring.sampler(sequences.priority(by("starts"))).unwrap();
        for (sampler, expected) in
            [(later_beta, by("rows").beta(0.7)), (of_sequences, by("starts").stride(2))]
        {
            let state = sampler.state();
            assert_eq!(state.selector, Selector::Priority(expected.clone()));
            assert_eq!(ring.sampler(state).unwrap().priority_options(), Some(&expected));
        }
    }
}
