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
        AutoresetMode, ColumnWindow, ColumnWindows, GoalStrategy, Hindsight, LearnedOptions,
        PriorityOptions, RingOptions, StepColumns, WholeEpisodes, WriterOptions,
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

    fn sampler(ring: &Ring, options: SamplerOptions) -> Result<Sampler, SampleError> {
        let has_goals = options.hindsight.is_some();
        let sampler = ring.sampler(options)?;
        Ok(if has_goals { sampler.rewards_by_caller() } else { sampler })
    }
}
