//! Options of a sampler: windows, n-step returns, their treatment at the ends of an episode, the
//! columns of its batches, and the selector of its rows.

use super::boundary::Boundary;
use super::columns::ColumnWindows;
use super::episodes::WholeEpisodes;
use super::form::{Form, Sequence};
use super::hindsight::Hindsight;
use super::rollouts::Rollout;
use super::selector::Selector;
use super::state::SamplerState;
use crate::priority::PriorityOptions;
use crate::table::LearnedOptions;

/// Seed, windows, n-step returns, boundary and form of a sampler: the options that are `Copy`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct DrawOptions {
    pub(crate) seed: u64,
    /// Number of the first batch: a restored sampler continues there.
    pub(crate) batches: u64,
    pub(crate) history: Option<u32>,
    pub(crate) future: u32,
    pub(crate) n_step: Option<u32>,
    pub(crate) gamma: Option<f64>,
    /// Whether n-step returns take their discounts from a column.
    pub(crate) discounts: bool,
    pub(crate) boundary: Boundary,
    /// Transitions from the start of one window to that of the next, in an episode; 1 except in
    /// states of samplers that were saved before sequences existed.
    pub(crate) stride: u32,
    pub(crate) copy: bool,
    pub(crate) form: Form,
    /// Rank of the learner, and number of learners that share the draws of a seed.
    pub(crate) rank: (u32, u32),
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) max_age: MaxAge,
    /// Version of the policy that the learner of a state had set.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) policy_version: Option<u64>,
}

/// Limits to the age of rows. Samplers draw as if the ring did not have older ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct MaxAge {
    /// Newer rows of the same lane.
    pub(crate) rows: Option<u64>,
    /// Newer versions of the policy.
    pub(crate) versions: Option<u64>,
}

/// Options of a sampler: seed, windows, n-step returns, the columns of its batches, and the
/// selector of its rows. They may be set in any order; of two calls that set the same option the
/// later one counts.
///
/// ```
/// use backcast_core::{PriorityOptions, SamplerOptions};
///
/// let priorities = PriorityOptions::alpha(0.6);
/// let options = SamplerOptions::seeded(7).priority(priorities.clone()).history(4);
/// assert_eq!(options, SamplerOptions::seeded(7).history(4).priority(priorities));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SamplerOptions {
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub(crate) draws: DrawOptions,
    pub(crate) columns: Option<ColumnWindows>,
    pub(crate) selector: Selector,
    pub(crate) hindsight: Option<Hindsight>,
    /// Learned columns that batches show.
    pub(crate) learned: Option<LearnedOptions>,
}

impl From<SamplerState> for SamplerOptions {
    fn from(state: SamplerState) -> Self {
        let draws = DrawOptions {
            seed: state.seed,
            batches: state.batches,
            history: state.history,
            future: state.future,
            n_step: state.n_step,
            gamma: state.gamma,
            discounts: state.discounts,
            boundary: state.boundary,
            stride: state.stride,
            copy: state.copy,
            form: state.form,
            rank: state.rank,
            max_age: MaxAge { rows: state.max_age, versions: state.max_policy_age },
            policy_version: state.policy_version,
        };
        let SamplerState { columns, selector, hindsight, learned, .. } = state;
        Self { draws, columns, selector, hindsight, learned }
    }
}

impl SamplerOptions {
    /// Returns options for single transitions. The same seed gives the same draws on the same data.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let draws = DrawOptions {
            seed,
            batches: 0,
            history: None,
            future: 0,
            n_step: None,
            gamma: None,
            discounts: false,
            boundary: Boundary::Mask,
            stride: 1,
            copy: false,
            form: Form::Transitions,
            rank: (0, 1),
            max_age: MaxAge::default(),
            policy_version: None,
        };
        let selector = Selector::Uniform;
        Self { draws, columns: None, selector, hindsight: None, learned: None }
    }

    /// Returns options for single transitions, seeded by the operating system.
    #[must_use]
    pub fn from_entropy() -> Self {
        Self::seeded(rand::random())
    }

    /// Draws a window of `h` transitions that ends with the drawn one, instead of that one alone.
    /// Its arrays are `[B, h, ...]`. Adds `mask`, `[B, h]`: where there is a transition.
    #[must_use]
    pub fn history(mut self, h: u32) -> Self {
        self.draws.history = Some(h);
        self
    }

    /// Adds windows of the `f` transitions after the drawn one: `future/...`, arrays `[B, f, ...]`,
    /// and `future_mask` `[B, f]`, which says where there is one.
    #[must_use]
    pub fn future(mut self, f: u32) -> Self {
        self.draws.future = f;
        self
    }

    /// Adds the discounted return of `n` transitions from the drawn one on: `n_reward` and
    /// `n_discount`, `[B]`, and `n_next_*` of the observation columns, `[B, ...]`. Needs
    /// [`gamma`](Self::gamma), or [discounts](Self::discount_column), and a column `reward`, one
    /// `f4` or `f8` a row. The draws and all other columns do not change.
    ///
    /// With `k` the number of transitions used, which is `n` unless the episode, or its published
    /// part, has fewer:
    ///
    /// - `n_reward` is `r[t] + gamma r[t+1] + ... + gamma^(k-1) r[t+k-1]`;
    /// - `n_discount` is `gamma^k`, and 0 if transition `t+k-1` terminated;
    /// - `n_next_obs` is the observation after transition `t+k-1`, which is the final observation
    ///   if the episode ended there.
    ///
    /// So `n_reward + n_discount * V(n_next_obs)` is the target (Sutton, "Learning to predict by
    /// the methods of temporal differences", Machine Learning 3, 1988; as used in Hessel et al.,
    /// "Rainbow", AAAI 2018, section "Multi-step learning"). Truncated episodes bootstrap from
    /// their final observation. A return that is cut short by the newest row, or by a writer that
    /// died, bootstraps from the last observation. Rainbow assumes that `n` transitions follow.
    /// Sums are computed in `f64`, oldest first, and rounded once.
    #[must_use]
    pub fn n_step(mut self, n: u32) -> Self {
        self.draws.n_step = Some(n);
        self
    }

    /// Sets the discount per transition of n-step returns, within `0..=1`. Has no default: targets
    /// are wrong if it differs from the learner's discount.
    #[must_use]
    pub fn gamma(mut self, gamma: f64) -> Self {
        self.draws.gamma = Some(gamma);
        self
    }

    /// Takes the discounts of n-step returns from the column `discount`, one `f4` or `f8` a row, in
    /// place of [`gamma`](Self::gamma). Rewards after transition `t` are discounted by
    /// `discount[t]`, as given by the environment.
    ///
    /// With `d` that column, `n_reward` is `r[t] + d[t] r[t+1] + d[t] d[t+1] r[t+2] + ...`, and
    /// `n_discount` is the product of the discounts of all transitions used, or 0 if the last one
    /// terminated.
    #[must_use]
    pub fn discount_column(mut self) -> Self {
        self.draws.discounts = true;
        self
    }

    /// Sets the treatment of windows that reach beyond their episode; [`Boundary::Mask`] by
    /// default.
    #[must_use]
    pub fn boundary(mut self, boundary: Boundary) -> Self {
        self.draws.boundary = boundary;
        self
    }

    /// Shares the random draws of a seed among `world_size` learners. Ranks count from 0, and the
    /// learner of a rank draws the batches `rank`, `rank + world_size`, ... of those that a single
    /// learner draws. By default there is one learner, of rank 0.
    ///
    /// On the same data all learners together draw the same rows as one alone, regardless of which
    /// is faster. Selectors without random draws take no notice: FIFO and LIFO begin at the same
    /// end for every learner, and a table of claims gives each row to one of them.
    #[must_use]
    pub fn rank(mut self, rank: u32, world_size: u32) -> Self {
        self.draws.rank = (rank, world_size);
        self
    }

    /// Sets whether batches have independent arrays instead of overlapping views of one arena. In
    /// overlapping views two masked places are not zero. `next_obs` right before the first unmasked
    /// place equals the `obs` of that place. `obs` right after the last unmasked place equals the
    /// `next_obs` of that place.
    #[must_use]
    pub fn copy(mut self, copy: bool) -> Self {
        self.draws.copy = copy;
        self
    }

    /// Draws [sequences](Sequence), uniformly over their starts or as a selector says. Replaces the
    /// form that was set before.
    ///
    /// ```
    /// use backcast_core::{
    ///     AutoresetMode, DType, Ring, RingOptions, SamplerOptions, Schema, Sequence, StepColumns,
    ///     WriterOptions,
    /// };
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer =
    ///     ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep))?;
    /// for t in 0..=50_u8 {
    ///     let obs = [f32::from(t)];
    ///     let columns = StepColumns::of(&schema).with("obs", &obs)?;
    ///     writer.append(&columns.step(&[t == 49], &[false])?)?;
    /// }
    /// // Starts are 0, 10, 20, 30 and 40; the sequence from 40 on has 10 transitions.
    /// let sequences = Sequence::new(20).stride(10);
    /// let mut sampler = ring.sampler(SamplerOptions::seeded(7).sequence(sequences))?;
    /// let batch = sampler.sample(32)?;
    /// assert_eq!(batch.column::<f32>("obs")?.shape(), [32, 20]);
    /// assert_eq!(batch.column::<bool>("mask")?.shape(), [32, 20]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sequence(mut self, sequence: Sequence) -> Self {
        self.draws.form = Form::Sequence(sequence);
        self
    }

    /// Draws whole episodes, `B` of the [complete](WholeEpisodes) ones; replaces the form that was
    /// set before.
    ///
    /// With [`Padded`](crate::EpisodeLayout::Padded) every column is `[B, L, ...]`, with `next_*`
    /// of the observations, `mask` `[B, L]`, `length` `[B]`, and `index` and `age` `[B]` of each
    /// first transition. Places beyond the end of an episode are zero, except one: without
    /// [`copy`](Self::copy), `obs[b, length[b]]` is the final observation. With
    /// [`Ragged`](crate::EpisodeLayout::Ragged) every column is `[N, ...]`, with `offsets`
    /// `[B + 1]`: episode `b` is `offsets[b]..offsets[b + 1]`, and the length of a batch is `N`.
    ///
    /// Goes with selected columns, [`copy`](Self::copy), transforms, rate limiters, which count an
    /// episode as one item, and with the selectors [`Uniform`](Selector::Uniform),
    /// [`Priority`](Selector::Priority), [`Fifo`](Selector::Fifo), [`Lifo`](Selector::Lifo) and
    /// [`Table`](Selector::Table). `Fifo` and `Lifo` read every row of the ring in the worst case.
    /// Without [`max_length`](WholeEpisodes::max_length), or ragged, the memory of a batch is known
    /// only after its draw: [`sample`](crate::Sampler::sample) returns it, and no thread draws
    /// ahead.
    #[must_use]
    pub fn episodes(mut self, episodes: WholeEpisodes) -> Self {
        self.draws.form = Form::Episodes(episodes);
        self
    }

    /// Draws [rollouts](Rollout): blocks `[T, N, ...]` of the new transitions of all lanes, with
    /// `mask` `[T, N]`. Replaces the form that was set before. Needs [`Selector::Table`] with a
    /// table that consumes, oldest first.
    ///
    /// Goes with selected and learned columns, transforms, and rate limiters, which count
    /// transitions. Every draw makes new memory, and no thread draws ahead.
    ///
    /// ```
    /// use backcast_core::{
    ///     AutoresetMode, DType, Ring, RingOptions, Rollout, SamplerOptions, Schema, Selector,
    ///     StepColumns, TableOptions, WriterOptions,
    /// };
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(200).lanes(2))?;
    /// let mut writer =
    ///     ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep))?;
    /// for t in 0..=20_u8 {
    ///     let obs = [f32::from(t); 2];
    ///     let columns = StepColumns::of(&schema).with("obs", &obs)?;
    ///     writer.append(&columns.step(&[false; 2], &[false; 2])?)?;
    /// }
    /// let queue = Selector::Table(TableOptions::consume("train"));
    /// let options = SamplerOptions::seeded(1).rollout(Rollout::new(8)).selector(queue);
    /// let mut sampler = ring.sampler(options)?;
    /// let block = sampler.sample_new(None)?;
    /// // 20 transitions of each lane: two columns of 8, and 4 that wait.
    /// assert_eq!(block.column::<f32>("obs")?.shape(), [8, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rollout(mut self, rollout: Rollout) -> Self {
        self.draws.form = Form::Rollout(rollout);
        self
    }

    /// Draws as if the ring did not have rows that are older than `rows` at the moment of the draw.
    /// The age of a row counts the newer ones of its lane, as `age` in a batch does. Goes with
    /// every form and selector: no window, sequence, episode or rollout has an older row, and
    /// histories are masked where the boundary allows it. Draws in proportion to something stay so
    /// among the rows that are left.
    ///
    /// A table that [consumes](crate::TableOptions::consume) hands out each transition once, also
    /// those that are too old by then: they are skipped, and counted in
    /// [`SamplerStats::too_old`](crate::SamplerStats::too_old) and by the rate limiter. A draw of
    /// more items than can be young enough at a time fails with
    /// [`SampleError::BeyondMaxAge`](crate::SampleError::BeyondMaxAge).
    #[must_use]
    pub fn max_age(mut self, rows: u64) -> Self {
        self.draws.max_age.rows = Some(rows);
        self
    }

    /// Draws as if the ring did not have rows whose policy is more than `versions` older than the
    /// newest one at the moment of the draw: see [`max_age`](Self::max_age) and
    /// [`PolicyVersion`](crate::PolicyVersion). Needs a column `policy_version`. Rows that a lane
    /// has before a row that is too old are too old as well.
    ///
    /// ```
    /// use backcast_core::{
    ///     DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns, WriterOptions,
    /// };
    ///
    /// let schema = Schema::builder()
    ///     .column("obs", DType::F32, &[])
    ///     .column("policy_version", DType::U32, &[])
    ///     .build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// for t in 0..50_u8 {
    ///     let (obs, version) = ([f32::from(t)], [u32::from(t / 10)]);
    ///     let columns = StepColumns::of(&schema).with("obs", &obs)?;
    ///     let columns = columns.with("policy_version", &version)?;
    ///     writer.append(&columns.step(&[false], &[false])?)?;
    /// }
    /// let mut sampler = ring.sampler(SamplerOptions::seeded(7).max_policy_age(2))?;
    /// // The writer has pulled version 4, and the learner has published 5.
    /// sampler.policy_version()?.set(5);
    /// let batch = sampler.sample(32)?;
    /// assert!(batch.column::<u32>("policy_version")?.iter().all(|version| *version >= 3));
    /// assert!(batch.column::<i64>("policy_age")?.iter().all(|age| *age <= 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_policy_age(mut self, versions: u64) -> Self {
        self.draws.max_age.versions = Some(versions);
        self
    }

    /// Selects columns, and sets the window of each. Cannot be combined with
    /// [`history`](Self::history), which sets one window for all.
    #[must_use]
    pub fn columns(mut self, columns: ColumnWindows) -> Self {
        self.columns = Some(columns);
        self
    }

    /// Draws by priority instead of uniformly.
    #[must_use]
    pub fn priority(mut self, priorities: PriorityOptions) -> Self {
        self.selector = Selector::Priority(priorities);
        self
    }

    /// Sets the selector of rows, which is uniform by default.
    #[must_use]
    pub fn selector(mut self, selector: Selector) -> Self {
        self.selector = selector;
        self
    }

    /// Sets how goals are relabelled in hindsight.
    #[must_use]
    pub fn hindsight(mut self, hindsight: Hindsight) -> Self {
        self.hindsight = Some(hindsight);
        self
    }

    /// Adds the learned columns of a table to every batch: each under its name, `[B]`, or `[B, h]`
    /// with the longest history, and under `future/NAME` with a future window. The same key with
    /// `_set` says whether each value was set. Values that were not set, and masked ones, are 0.
    /// The table is created if it does not exist. The draws do not change.
    #[must_use]
    pub fn learned(mut self, learned: LearnedOptions) -> Self {
        self.learned = Some(learned);
        self
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use backcast_layout::DType;

    use super::*;
    use crate::sampler::columns::ColumnWindow;
    use crate::sampler::hindsight::GoalStrategy;
    use crate::table::TableOptions;

    #[test]
    fn options_come_back_from_their_text() {
        let seeded = SamplerOptions::seeded(u64::MAX);
        let queue = Selector::Table(TableOptions::consume("train"));
        let columns = ColumnWindows::default().column("obs", ColumnWindow::History(4));
        for options in [
            seeded.clone(),
            seeded.clone().priority(PriorityOptions::alpha(0.6).beta(0.4)).history(4).rank(1, 3),
            seeded.clone().sequence(Sequence::new(8).stride(4)).selector(queue),
            seeded.clone().episodes(WholeEpisodes::padded().max_length(9)).copy(true),
            seeded.clone().columns(columns).boundary(Boundary::Clamp).n_step(3).gamma(0.9),
            seeded.clone().hindsight(Hindsight::new(GoalStrategy::Final)),
            seeded.clone().max_age(9).max_policy_age(0),
            seeded.learned(LearnedOptions::new("online").column("value", DType::F32)),
        ] {
            let text = serde_json::to_string(&options).unwrap();
            let back: SamplerOptions = serde_json::from_str(&text).unwrap();
            assert_eq!(back, options, "{text}");
        }
    }
}
