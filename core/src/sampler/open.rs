//! Opens samplers of a ring.

use std::sync::Arc;

use backcast_layout::{ClaimedReader, DType, Role, SegmentError};

use super::Sampler;
use super::boundary::Boundary;
use super::columns::SelectedColumns;
use super::eligibility::StartIndex;
use super::episodes::EpisodeLayout;
use super::form::{self, Form};
use super::gate::Gate;
use super::gather::Gather;
use super::hindsight::GoalDraws;
use super::hooks::Hooks;
use super::options::{DrawOptions, MaxAge, SamplerOptions};
use super::plan::{NStep, Summed};
use super::plans::BatchPlans;
use super::points::DrawPoints;
use super::policy_version::PolicyVersion;
use super::selection::{DrawnWindows, Selection};
use super::selector::Selector;
use super::stats::DrawCounts;
use super::stream::DrawStream;
use super::window::{StartRule, WindowExtent};
use crate::batch_key;
use crate::error::SampleError;
use crate::priority::{PriorityOptions, WeightNorm};
use crate::ring::Ring;
use crate::schema::Schema;

impl Ring {
    /// Returns a sampler of the ring's transitions. `options` are [`SamplerOptions`], or the
    /// [state](crate::SamplerState) of another sampler, whose draws the new one continues.
    ///
    /// To a rate limiter the sampler is alive from now on.
    pub fn sampler(&self, options: impl Into<SamplerOptions>) -> Result<Sampler, SampleError> {
        let mut sampler = self.idle_sampler(options)?;
        sampler.gate.claim()?;
        Ok(sampler)
    }

    /// Returns a [`sampler`](Self::sampler) that is alive to a rate limiter only from its first
    /// draw on. Gathers are no draws: use it to gather rows beside the samplers of a learner.
    pub fn idle_sampler(&self, options: impl Into<SamplerOptions>) -> Result<Sampler, SampleError> {
        Sampler::new(self, options.into())
    }
}

impl Sampler {
    pub(crate) fn new(ring: &Ring, options: SamplerOptions) -> Result<Self, SampleError> {
        let (schema, draws) = (ring.schema(), options.draws);
        let columns = SelectedColumns::of(&options, schema)?;
        refuse_taken_keys(schema, &columns, &keys_of(&options))?;
        form::check(&options, &columns, (ring.lane_capacity(), ring.lanes()))?;
        let extent = extent_of(&draws, &columns, ring.lane_capacity())?;
        check_max_age(&draws, extent, schema.policy_version().is_some())?;
        let by_table = |of: &PriorityOptions| of.normalize == WeightNorm::Table;
        if draws.max_age != MaxAge::default() && options.selector.priorities().is_some_and(by_table)
        {
            return Err(SampleError::WeightsOfOldRows);
        }
        let n_step = draws.n_step.map(|_| summed(schema, draws.discounts, extent)).transpose()?;
        if draws.stride == 0 {
            return Err(SampleError::BadStride);
        }
        let stream = DrawStream::of(&draws)?;
        let goals = options.hindsight.clone().map(|of| {
            let goals = of.check(schema, &columns, &draws)?;
            Ok::<_, SampleError>(GoalDraws::new(of, goals))
        });
        let hooks = Hooks::new(goals.transpose()?);
        let (rule, starts) = starts_of(&draws, extent);
        let windows = DrawnWindows::of(&draws, &columns, rule);
        let selector = options.selector.clone().every(draws.form.priority_stride());
        let policy_version = PolicyVersion::default();
        draws.policy_version.iter().for_each(|version| policy_version.set(*version));
        let mut selection = Selection::open(ring, selector, (windows, starts))?;
        selection.eligibility =
            selection.eligibility.at_most(draws.max_age).with_versions(&policy_version);
        let learned = options.learned.as_ref().map(|of| ring.learned(of)).transpose()?;
        let slot = match ring.store().claim_reader() {
            Err(SegmentError::Unlinked { .. }) => None,
            slot => slot?,
        };
        let number = slot.as_ref().map(ClaimedReader::slot);
        // Without a reader slot the sampler cannot let writers continue while it awaits rows.
        if selection.awaits_rows() && number.is_none() && ring.store().limiter().is_some() {
            return Err(SampleError::NoSlot { slots: ring.store().spec().reader_slots });
        }
        let plans = BatchPlans {
            schema: schema.clone(),
            options: draws,
            columns,
            extent,
            n_step,
            learned: options.learned.as_ref().map_or_else(Vec::new, |of| of.columns().to_vec()),
            has_weight: selection.priority_options().is_some(),
            has_relabelled: options.hindsight.is_some(),
            kept: None,
            varying: Arc::default(),
        };
        Ok(Self {
            selection,
            gather: Gather::new(plans, draws.gamma, learned),
            hooks,
            gate: Gate::of(ring, number),
            counts: DrawCounts::new(slot),
            points: DrawPoints::default(),
            stream,
            options,
            policy_version,
            ring: ring.clone(),
        })
    }
}

/// Returns the windows of drawn transitions. Fails for windows and discounts that are not valid.
fn extent_of(
    options: &DrawOptions,
    columns: &SelectedColumns,
    lane_capacity: u64,
) -> Result<WindowExtent, SampleError> {
    let (history, future) = match options.form.sequence() {
        Some(sequence) => (1, sequence.length - 1),
        None if columns.has_empty_window() => (0, options.future),
        None => (columns.longest().unwrap_or(1), options.future),
    };
    let n_step = options.n_step.unwrap_or(1);
    let after = u64::from(future).max(u64::from(n_step).saturating_sub(1));
    let rows = u64::from(history) + after + 1;
    for (what, steps) in [("history", history), ("n_step", n_step)] {
        if steps == 0 {
            return Err(SampleError::EmptyWindow { what });
        }
    }
    if rows > lane_capacity {
        return Err(SampleError::BadWindow { history, future, n_step, rows, limit: lane_capacity });
    }
    let DrawOptions { gamma, discounts, n_step, .. } = *options;
    let usable = gamma.is_none_or(|gamma| (0.0..=1.0).contains(&gamma));
    let given = u32::from(gamma.is_some()) + u32::from(discounts);
    if given != u32::from(n_step.is_some()) || !usable {
        return Err(SampleError::BadGamma { gamma, discounts, n_step });
    }
    let steps = n_step.unwrap_or(0).into();
    Ok(WindowExtent { back: u64::from(history) - 1, ahead: future.into(), steps })
}

/// Fails if every item has rows that are older than the limit, or if a limit needs a column that
/// the ring lacks.
fn check_max_age(
    options: &DrawOptions,
    extent: WindowExtent,
    has_versions: bool,
) -> Result<(), SampleError> {
    if options.max_age.versions.is_some() && !has_versions {
        return Err(SampleError::NoPolicyVersion);
    }
    // Only whole windows are drawn with `Reject`, and an episode that goes on has only whole
    // sequences.
    let needed = match options.form {
        Form::Rollout(of) => of.length.into(),
        Form::Sequence(of) => of.length.into(),
        Form::Transitions if options.boundary == Boundary::Reject => extent.back + extent.ahead + 1,
        _ => 1,
    };
    match options.max_age.rows {
        Some(asked) if asked < needed => Err(SampleError::BadMaxAge { asked, needed }),
        _ => Ok(()),
    }
}

/// Returns the rule for the transitions that may be drawn, and their index.
fn starts_of(options: &DrawOptions, extent: WindowExtent) -> (StartRule, StartIndex) {
    let DrawOptions { boundary, stride, form, .. } = *options;
    let WindowExtent { back, ahead, .. } = extent;
    let (rule, starts) = match (form.sequence(), boundary) {
        (Some(sequence), _) => {
            (StartRule::sequences(sequence.stride, boundary), StartIndex::new(0, ahead))
        }
        // Only whole windows are drawn: the last one of an episode ends where the episode does.
        (None, Boundary::Reject) => {
            (StartRule::windows(stride, back, ahead), StartIndex::new(back, ahead))
        }
        (None, Boundary::Clamp) => {
            (StartRule::windows(stride, back, 0), StartIndex::of_known_history(back))
        }
        (None, Boundary::Mask) => (StartRule::windows(stride, back, 0), StartIndex::new(0, 0)),
    };
    (rule, starts.only(rule))
}

/// Returns the keys that batches with these options have and a ring of an earlier version may have
/// as columns. Those of learned columns are checked with their table.
fn keys_of(options: &SamplerOptions) -> Vec<&'static str> {
    let episodes: &[&'static str] = match options.draws.form.episodes().map(|of| of.layout) {
        None => &[],
        Some(EpisodeLayout::Padded) => &[batch_key::LENGTH],
        Some(EpisodeLayout::Ragged) => &[batch_key::OFFSETS],
    };
    let weight = matches!(options.selector, Selector::Priority(_)).then_some(batch_key::WEIGHT);
    let relabelled = options.hindsight.as_ref().map(|_| batch_key::RELABELLED);
    episodes.iter().copied().chain(weight).chain(relabelled).collect()
}

/// Refuses a selected column whose key is one of `keys`, which the batch uses for something else.
pub(super) fn refuse_taken_keys(
    schema: &Schema,
    selection: &SelectedColumns,
    keys: &[&'static str],
) -> Result<(), SampleError> {
    for (at, column) in schema.columns().iter().enumerate() {
        let key = keys.iter().find(|key| **key == batch_key::first_part(column.name()));
        if let Some(&key) = key.filter(|_| selection.window(at).is_some()) {
            return Err(SampleError::KeyTaken { column: column.name().to_owned(), key });
        }
    }
    Ok(())
}

/// Returns the columns that n-step returns sum. Fails if one is missing or not one float a row.
fn summed(schema: &Schema, discounts: bool, extent: WindowExtent) -> Result<NStep, SampleError> {
    let reward =
        float_column(schema, "reward").map_err(|found| SampleError::BadReward { found })?;
    let discount = discounts
        .then(|| float_column(schema, "discount"))
        .transpose()
        .map_err(|found| SampleError::BadDiscount { found })?;
    Ok(NStep { reward, discount, run: extent.run() })
}

/// Returns the step column of this name if it is one float a row, or a description of the column
/// found instead.
fn float_column(schema: &Schema, name: &str) -> Result<Summed, String> {
    let place = schema.stored().iter().position(|column| column.name() == name);
    let Some((at, column)) = place.and_then(|at| Some((at, schema.stored().get(at)?))) else {
        return Err(format!("there is none among {schema}"));
    };
    let (dtype, shape) = (column.dtype(), column.shape());
    let real = matches!(dtype, DType::F32 | DType::F64);
    if real && shape.is_empty() && column.role() == Role::Step {
        return Ok(Summed { column: at, dtype });
    }
    let of = if column.role() == Role::Obs { " of the observation" } else { "" };
    Err(format!("here it is {dtype}{shape:?}{of}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AutoresetMode, ColumnWindow, ColumnWindows, FormError, GoalStrategy, Hindsight,
        LearnedOptions, PriorityOptions, RingOptions, Rollout, Sequence, StepColumns, TableOptions,
        WholeEpisodes, WriterOptions,
    };

    /// Forms of batches that differ in their keys, learned columns included.
    fn forms() -> Vec<SamplerOptions> {
        let seeded = SamplerOptions::seeded(1);
        let goals = Hindsight::new(GoalStrategy::default()).columns("obs/from", "obs/to");
        let learned = LearnedOptions::new("online").column("value", DType::F32);
        vec![
            seeded.clone(),
            seeded.clone().history(2).future(2).n_step(2).gamma(0.9),
            seeded.clone().priority(PriorityOptions::alpha(0.5)),
            seeded.clone().hindsight(goals),
            seeded.clone().episodes(WholeEpisodes::padded()),
            seeded.clone().episodes(WholeEpisodes::ragged()),
            seeded.clone().learned(learned),
        ]
    }

    /// Returns a ring of an earlier version with equally long episodes, and one more column.
    fn ring(extra: &str) -> Ring {
        let schema = Schema::builder()
            .column("obs/from", DType::F32, &[])
            .column("obs/to", DType::F32, &[])
            .column("reward", DType::F32, &[])
            .column(extra, DType::F32, &[]);
        let ring = Ring::heap(&schema.build_existing().unwrap(), RingOptions::with_capacity(40));
        let ring = ring.unwrap();
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep);
        let mut writer = ring.writer(options).unwrap();
        for t in 0..20_u8 {
            let (value, end) = ([f32::from(t)], [t % 5 == 3]);
            let mut step = StepColumns::of(ring.schema());
            for column in ring.schema().columns() {
                step = step.with(column.name(), &value).unwrap();
            }
            writer.append(&step.step(&end, &[false]).unwrap()).unwrap();
        }
        ring
    }

    #[test]
    fn every_key_of_a_batch_is_a_column_a_learned_column_or_reserved() {
        let ring = ring("plain");
        for spec in forms() {
            let drawn = sampler(&ring, spec.clone()).unwrap().sample(2).unwrap();
            for key in drawn.keys() {
                let first = batch_key::first_part(key);
                let is_column = ring.schema().column(key).is_some();
                let is_learned = ["value", "value_set"].contains(&first);
                assert!(
                    is_column || is_learned || batch_key::is_reserved(first),
                    "{key} of {spec:?}"
                );
            }
        }
    }

    #[test]
    fn a_column_of_an_earlier_version_is_shown_or_its_key_is_refused() {
        let later = batch_key::reserved();
        let later = later.split(", ").filter(|name| !batch_key::is_never_a_column(name));
        let mut refused = Vec::new();
        for name in later.flat_map(|name| [name.to_owned(), format!("{name}/below")]) {
            let ring = ring(&name);
            for (at, spec) in forms().into_iter().enumerate() {
                match sampler(&ring, spec.clone()) {
                    Ok(mut sampler) => {
                        let drawn = sampler.sample(2).unwrap();
                        let shown = drawn.column::<f32>(&name).unwrap();
                        let obs = drawn.column::<f32>("obs/from").unwrap();
                        assert!(shown == obs, "{name} of {spec:?} is not what was stored");
                        let mut keys: Vec<_> = drawn.keys().collect();
                        let all = keys.len();
                        keys.sort_unstable();
                        keys.dedup();
                        assert_eq!(keys.len(), all, "{keys:?}");
                    }
                    Err(SampleError::KeyTaken { column, key }) => {
                        assert_eq!((&column, key), (&name, batch_key::first_part(&name)));
                        refused.push((at, key));
                        let others = ColumnWindows::default().column("obs", ColumnWindow::Drawn);
                        let others = others.column("reward", ColumnWindow::Drawn);
                        assert!(sampler(&ring, spec.columns(others)).unwrap().sample(2).is_ok());
                    }
                    Err(error) => panic!("{name} of {spec:?}: {error}"),
                }
            }
            let mut named = ring.sampler(SamplerOptions::seeded(1)).unwrap();
            let second = named.gather(&[1]).unwrap();
            assert_eq!(second.column::<f32>(&name).unwrap().first(), Some(&1.0));
            let found = named.gather_present(&[1]);
            let is_refused = matches!(found, Err(SampleError::KeyTaken { key: "found", .. }));
            assert_eq!(is_refused, name.starts_with("found"), "{name}");
        }
        refused.sort_unstable();
        refused.dedup();
        assert_eq!(refused, [(2, "weight"), (3, "relabelled"), (4, "length"), (5, "offsets")]);
    }

    #[test]
    fn the_largest_options_of_each_form_are_taken_and_the_next_ones_refused() {
        let schema = Schema::builder()
            .column("obs", DType::F32, &[])
            .column("reward", DType::F32, &[])
            .build()
            .unwrap();
        // Each lane has 60 rows.
        let ring = Ring::heap(&schema, RingOptions::with_capacity(120).lanes(2)).unwrap();
        let seeded = || SamplerOptions::seeded(1);
        let window = |history, future| seeded().history(history).future(future);
        let whole = |rows| window(4, 2).boundary(Boundary::Reject).max_age(rows);
        let sequence = |length| seeded().sequence(Sequence::new(length));
        let strided = |stride| seeded().sequence(Sequence::new(8).stride(stride));
        let episode = |limit| seeded().episodes(WholeEpisodes::padded().max_length(limit));
        let queue = || seeded().selector(Selector::Table(TableOptions::consume("queue")));
        let rollout = |length| queue().rollout(Rollout::new(length));
        let lanes = |lanes| queue().rollout(Rollout::new(4).lanes(lanes));
        let steps = |n| seeded().n_step(n).gamma(0.5);
        let gamma = |gamma| seeded().n_step(3).gamma(gamma);
        let cases: Vec<(SamplerOptions, SamplerOptions)> = vec![
            // An item takes a row for each transition and one for the last observation.
            (sequence(59), sequence(60)),
            (sequence(1), sequence(0)),
            (strided(8), strided(9)),
            (strided(1), strided(0)),
            (episode(59), episode(60)),
            (episode(1), episode(0)),
            (window(59, 0), window(60, 0)),
            (window(1, 58), window(1, 59)),
            (window(30, 29), window(30, 30)),
            (window(1, 0), window(0, 0)),
            (steps(59), steps(60)),
            (steps(1), steps(0)),
            // Each transition of a rollout may take two rows.
            (rollout(29), rollout(30)),
            (rollout(1), rollout(0)),
            (lanes(2), lanes(3)),
            (lanes(1), lanes(0)),
            (gamma(0.0), gamma(-f64::MIN_POSITIVE)),
            (gamma(1.0), gamma(1.0 + f64::EPSILON)),
            // Whole items are not older than the limit.
            (whole(6), whole(5)),
            (sequence(8).max_age(8), sequence(8).max_age(7)),
            (rollout(9).max_age(9), rollout(9).max_age(8)),
            (window(4, 2).max_age(1), window(4, 2).max_age(0)),
            (episode(9).max_age(1), episode(9).max_age(0)),
        ];
        for (taken, refused) in cases {
            let found = ring.sampler(taken.clone()).map(drop);
            assert!(found.is_ok(), "{found:?} for {taken:?}");
            assert!(ring.sampler(refused.clone()).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_discount_without_steps_is_refused_for_every_form() {
        let ring = ring("plain");
        let seeded = SamplerOptions::seeded(1);
        let queue = Selector::Table(TableOptions::consume("queue"));
        for form in [
            seeded.clone().sequence(Sequence::new(4)),
            seeded.clone().episodes(WholeEpisodes::ragged()),
            seeded.selector(queue).rollout(Rollout::new(4)),
        ] {
            assert!(ring.sampler(form.clone()).is_ok(), "{form:?}");
            for spec in [form.clone().gamma(0.9), form.discount_column()] {
                let error = ring.sampler(spec.clone()).unwrap_err();
                let SampleError::Form(
                    FormError::WithSequence { what }
                    | FormError::WithEpisodes { what }
                    | FormError::WithRollout { what },
                ) = error
                else {
                    panic!("{error} for {spec:?}")
                };
                assert_eq!(what, "a discount", "{spec:?}");
            }
        }
    }

    fn sampler(ring: &Ring, options: SamplerOptions) -> Result<Sampler, SampleError> {
        let has_goals = options.hindsight.is_some();
        let sampler = ring.sampler(options)?;
        Ok(if has_goals { sampler.rewards_by_caller() } else { sampler })
    }
}
