//! Settings of a table of claims.

use backcast_layout::ClaimSettings;

use crate::error::TableError;

/// Name and settings of a table of claims, from which several samplers draw without replacement, in
/// any number of processes.
///
/// Rows are drawn in passes. A pass has the rows of every lane at one moment, or the new ones among
/// them. Each row goes to one of the samplers. Rows at which no transition starts, and rows that
/// were overwritten before they were drawn, are skipped. A killed process loses the rows that it
/// had claimed: those of its batch, of batches drawn ahead, and rows that it held for a later one.
///
/// ```
/// use backcast_core::{
///     DType, Ring, RingOptions, RowIndex, SamplerOptions, Schema, Selector, StepColumns,
///     TableOptions, WriterOptions,
/// };
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..41_u8 {
///     let obs = [f32::from(t)];
///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
/// }
/// let epoch = Selector::Table(TableOptions::epoch("train"));
/// let mut samplers = [
///     ring.sampler(SamplerOptions::seeded(1).selector(epoch.clone()))?,
///     ring.sampler(SamplerOptions::seeded(2).selector(epoch))?,
/// ];
/// let mut rows = [samplers[0].sample(20)?.index(), samplers[1].sample(20)?.index()].concat();
/// rows.sort();
/// assert!(rows.into_iter().eq((0..40).map(RowIndex)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TableOptions {
    name: String,
    settings: ClaimSettings,
}

impl TableOptions {
    /// Returns options for an endless sequence of passes. Each is over all transitions that the
    /// ring holds at its beginning, in shuffled order: draws without replacement.
    #[must_use]
    pub fn epoch(name: &str) -> Self {
        let settings = ClaimSettings { renewed: true, shuffled: true, times: 1, seed: 0 };
        Self { name: name.to_owned(), settings }
    }

    /// Returns options for passes over new transitions only, oldest first: a queue. Each transition
    /// is drawn at most once, or [`max_times_sampled`](Self::max_times_sampled) times. Draws wait
    /// for writers if there are too few new transitions.
    #[must_use]
    pub fn consume(name: &str) -> Self {
        let settings = ClaimSettings { renewed: false, shuffled: false, times: 1, seed: 0 };
        Self { name: name.to_owned(), settings }
    }

    /// Sets the maximum draws of each transition. Samplers make `times` passes over the new
    /// transitions before they take later ones. At least 1; an epoch table allows only 1.
    #[must_use]
    pub fn max_times_sampled(mut self, times: u32) -> Self {
        self.settings.times = times;
        self
    }

    /// Sets whether the rows of every pass are shuffled, in an order of its own.
    #[must_use]
    pub fn shuffled(mut self, shuffled: bool) -> Self {
        self.settings.shuffled = shuffled;
        self
    }

    /// Sets the seed of the shuffled order (default: 0). All samplers of a table must set the same.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Returns the name of the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> ClaimSettings {
        self.settings
    }

    /// Returns `"epoch"` or `"consume"`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.settings.renewed { "epoch" } else { "consume" }
    }

    pub(crate) fn check(&self) -> Result<(), TableError> {
        let ClaimSettings { times, renewed, .. } = self.settings;
        if times == 0 || (renewed && times > 1) {
            let selector = self.kind();
            return Err(TableError::BadTimes { selector, times });
        }
        Ok(())
    }
}
