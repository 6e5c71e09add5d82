//! Settings of prioritised draws.

use backcast_layout::{BehindTree, TableSettings};

use super::alpha::Alpha;
use crate::error::PriorityError;
use crate::variant_words::variant_words;

/// Options of draws by priority.
///
/// ```
/// use backcast_core::{
///     DType, PriorityOptions, Ring, RingOptions, SamplerOptions, Schema, StepColumns,
///     WriterOptions,
/// };
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..50_u8 {
///     let obs = [f32::from(t)];
///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
/// }
/// let options = SamplerOptions::seeded(7).priority(PriorityOptions::alpha(0.6).beta(0.4));
/// let mut sampler = ring.sampler(options)?;
/// let batch = sampler.sample(32)?;
/// let weights = batch.column::<f32>("weight")?;
/// assert!(weights.iter().all(|weight| *weight == 1.0), "all rows have the first priority yet");
/// let dropped = sampler.update_priorities(&batch.index(), &[0.5; 32])?;
/// assert_eq!(dropped, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PriorityOptions {
    /// Name of the table. Samplers that use the same name share their priorities, in all processes.
    pub table: String,
    /// Exponent of priorities: 0 draws uniformly, 1 in proportion to priorities.
    pub alpha: Alpha,
    /// Number added to priorities before the exponent, so that rows of priority 0 are drawn too.
    pub eps: f64,
    /// Exponent of the importance weights.
    pub beta: Beta,
    /// Weight that all weights are divided by.
    pub normalize: WeightNorm,
    /// Whether one item is drawn from each of `B` ranges of equal total priority, which lowers the
    /// variance of a batch.
    pub stratified: bool,
    /// Steps of an episode from one transition that has a priority to the next. With 1 all
    /// transitions have one. Fixed when the table is created.
    pub stride: u32,
    /// Priority that new transitions get. Fixed when the table is created.
    #[cfg_attr(feature = "serde", serde(default))]
    pub initial: InitialPriority,
    /// Whether rows are drawn by their priorities or by the ranks of these. Fixed when the table is
    /// created.
    #[cfg_attr(feature = "serde", serde(default))]
    pub by: PriorityOrder,
}

/// Property of a row that its probability depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PriorityOrder {
    /// Its priority: `(priority + eps) ^ alpha`. The default.
    #[default]
    Priority,
    /// The rank of its priority: `(1 / rank) ^ alpha`, where the largest priority has rank 1.
    /// Priorities that agree in their highest five bits, which differ by less than one part in 16,
    /// count as equal, and their rows share the mean of these numbers. The exponent belongs to the
    /// sampler and not to the table.
    Rank,
}

variant_words! {
    /// Returns `"priority"` or `"rank"`.
    PriorityOrder { Priority = "priority", Rank = "rank" }

    /// A word that does not name a [`PriorityOrder`].
    #[error("by is `{0}`; use \"priority\" or \"rank\"")]
    BadPriorityOrder(String)
}

impl PriorityOrder {
    /// Returns what the samplers of a table with these settings draw by.
    #[must_use]
    pub fn of(settings: &TableSettings) -> Self {
        if settings.counts_ranks() { Self::Rank } else { Self::Priority }
    }
}

/// Priority that new transitions get, until one is set for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum InitialPriority {
    /// The largest `(priority + eps) ^ alpha` that was ever set in the table, and at least 1. The
    /// default.
    #[default]
    Ever,
    /// The largest that a transition of the ring has when they enter, so that it falls again with
    /// the priorities; 1 if there is none.
    Held,
}

variant_words! {
    /// Returns `"ever"` or `"held"`.
    InitialPriority { Ever = "ever", Held = "held" }

    /// A word that does not name an [`InitialPriority`].
    #[error("initial is `{0}`; use \"ever\" or \"held\"")]
    BadInitialPriority(String)
}

impl InitialPriority {
    /// Returns what new transitions get in a table with these settings.
    #[must_use]
    pub fn of(settings: &TableSettings) -> Self {
        if settings.tracks_largest { Self::Held } else { Self::Ever }
    }
}

/// Exponent of importance weights. With 1 they correct the bias of prioritised draws fully, with 0
/// not at all.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Beta {
    /// One number, 0 to 1.
    Constant(f64),
    /// An exponent that grows linearly from `from` at batch 0 to 1 at batch `batches`, and stays 1.
    Annealed {
        /// First value, 0 to 1.
        from: f64,
        /// Number of the batch at which the exponent is 1, at least 1.
        batches: u64,
    },
    /// The caller computes the exponent, and sets it with
    /// [`Sampler::set_beta`](crate::Sampler::set_beta), which is needed once before the first draw.
    /// The function is no part of a state.
    Function,
}

impl From<f64> for Beta {
    fn from(beta: f64) -> Self {
        Self::Constant(beta)
    }
}

impl Beta {
    /// Returns the exponent for the batch with number `batch`, or `None` if the caller has a
    /// function.
    #[must_use]
    pub fn at(self, batch: u64) -> Option<f64> {
        match self {
            Self::Constant(beta) => Some(beta),
            Self::Annealed { batches, .. } if batch >= batches => Some(1.0),
            #[expect(clippy::cast_precision_loss, reason = "a share of a schedule")]
            Self::Annealed { from, batches } => {
                Some(from + (1.0 - from) * (batch as f64 / batches as f64))
            }
            Self::Function => None,
        }
    }
}

/// Weight that importance weights are divided by, so that none is above 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum WeightNorm {
    /// The largest weight of the batch. The default.
    #[default]
    Batch,
    /// The largest weight that any row of the table has now. While beta and the smallest priority
    /// of the table stay the same, rows with equal priorities have equal weights in all batches.
    Table,
}

variant_words! {
    /// Returns `"batch"` or `"table"`.
    WeightNorm { Batch = "batch", Table = "table" }

    /// A word that does not name a [`WeightNorm`].
    #[error("normalize is `{0}`; use \"batch\" or \"table\"")]
    BadWeightNorm(String)
}

impl PriorityOptions {
    /// Name of the table if no other is given.
    pub const TABLE: &'static str = "priority";
    /// Number added to priorities if no other is given.
    pub const EPS: f64 = 1e-6;
    /// Exponent of importance weights if no other is given.
    pub const BETA: f64 = 0.4;
    /// Stride at which only the first transition of each episode has a priority.
    pub const EPISODE_STARTS: u32 = u32::MAX;

    /// Returns options that draw in proportion to `(priority + 1e-6) ^ alpha`, with weights of
    /// exponent 0.4.
    #[must_use]
    pub fn alpha(alpha: impl Into<Alpha>) -> Self {
        Self {
            table: Self::TABLE.to_owned(),
            alpha: alpha.into(),
            eps: Self::EPS,
            beta: Beta::Constant(Self::BETA),
            normalize: WeightNorm::Batch,
            stratified: false,
            stride: 1,
            initial: InitialPriority::Ever,
            by: PriorityOrder::Priority,
        }
    }

    /// Sets whether rows are drawn by their priorities or by the ranks of these.
    #[must_use]
    pub fn by(mut self, by: PriorityOrder) -> Self {
        self.by = by;
        self
    }

    /// Sets the priority that new transitions get.
    #[must_use]
    pub fn initial(mut self, initial: InitialPriority) -> Self {
        self.initial = initial;
        self
    }

    /// Sets the exponent of the importance weights: a number, or a schedule.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Beta>) -> Self {
        self.beta = beta.into();
        self
    }

    /// Sets the number that is added to priorities before the exponent.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Sets the weight that all weights are divided by.
    #[must_use]
    pub fn normalize(mut self, normalize: WeightNorm) -> Self {
        self.normalize = normalize;
        self
    }

    /// Sets whether one item is drawn from each of `B` ranges of equal total priority.
    #[must_use]
    pub fn stratified(mut self, stratified: bool) -> Self {
        self.stratified = stratified;
        self
    }

    /// Gives priorities only to transitions whose step in their episode is a multiple of `stride`.
    /// A sampler sets it to the stride of [its form](crate::Form::priority_stride). A handle that
    /// sets priorities in the sampler's table needs the same stride.
    #[must_use]
    pub fn stride(mut self, stride: u32) -> Self {
        self.stride = stride;
        self
    }

    /// Sets the name of the table (default: `"priority"`).
    #[must_use]
    pub fn table(mut self, name: &str) -> Self {
        name.clone_into(&mut self.table);
        self
    }

    pub(crate) fn settings(&self) -> TableSettings {
        TableSettings {
            exponent: self.alpha.first(),
            eps: self.eps,
            stride: self.stride,
            tracks_largest: self.initial == InitialPriority::Held,
            behind: match self.by {
                // Ranks need no powers of priorities.
                PriorityOrder::Rank => BehindTree::RankCounts,
                PriorityOrder::Priority if self.alpha.can_change() => BehindTree::Priorities,
                PriorityOrder::Priority => BehindTree::Nothing,
            },
        }
    }

    /// Refuses numbers out of range.
    pub(crate) fn check(&self) -> Result<(), PriorityError> {
        let refuse = |what, value, wanted| Err(PriorityError::BadOption { what, value, wanted });
        self.alpha.check()?;
        if self.by == PriorityOrder::Rank && self.alpha == Alpha::Table {
            return Err(PriorityError::RankAlpha { table: self.table.clone() });
        }
        if !(self.eps.is_finite() && self.eps >= 0.0) {
            return refuse("eps", self.eps, "a number from 0 up, such as 1e-6");
        }
        if let Beta::Constant(beta) | Beta::Annealed { from: beta, .. } = self.beta {
            check_beta(beta)?;
        }
        if self.stride == 0 {
            return refuse("the stride of priorities", 0.0, "a whole number from 1 up");
        }
        if let Beta::Annealed { batches: 0, .. } = self.beta {
            return refuse("the second number of beta", 0.0, "batches until beta is 1, at least 1");
        }
        Ok(())
    }
}

/// Refuses an exponent of importance weights that is out of range.
pub(crate) fn check_beta(beta: f64) -> Result<(), PriorityError> {
    if (0.0..=1.0).contains(&beta) {
        return Ok(());
    }
    let (what, wanted) = ("beta", "0 to 1: 0 corrects nothing, 1 all of the bias");
    Err(PriorityError::BadOption { what, value: beta, wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_and_the_message_names_them() {
        let good = PriorityOptions::alpha(0.6);
        assert!(good.check().is_ok());
        for (options, option, number) in [
            (PriorityOptions::alpha(-0.5), "alpha", "-0.5"),
            (PriorityOptions::alpha(f64::NAN), "alpha", "NaN"),
            (good.clone().eps(-1.0), "eps", "-1"),
            (good.clone().eps(f64::INFINITY), "eps", "inf"),
            (good.clone().beta(1.5), "beta", "1.5"),
            (good.clone().beta(f64::NAN), "beta", "NaN"),
            (good.clone().beta(Beta::Annealed { from: -1.0, batches: 9 }), "beta", "-1"),
            (good.clone().stride(0), "stride", "0"),
            (good.beta(Beta::Annealed { from: 0.4, batches: 0 }), "beta", "0"),
        ] {
            let error = options.check().unwrap_err();
            let PriorityError::BadOption { what, value, wanted } = &error else {
                panic!("{error}")
            };
            assert!(what.contains(option) && value.to_string() == number, "{error:?}");
            let text = error.to_string();
            let parts = [what, number, wanted];
            assert!(parts.iter().all(|part| text.contains(part)), "{text} lacks {parts:?}");
        }
    }

    #[test]
    fn an_annealed_beta_grows_to_one_and_stays() {
        let beta = Beta::Annealed { from: 0.4, batches: 3 };
        let values = [0, 1, 2, 3, 4, u64::MAX].map(|batch| beta.at(batch).unwrap());
        let expected = [0.4, 0.6, 0.8, 1.0, 1.0, 1.0];
        for (value, expected) in values.into_iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{values:?}");
        }
        assert!((Beta::from(0.7).at(9).unwrap() - 0.7).abs() < f64::EPSILON);
    }
}
