//! Changes of the exponent of a table, by hand and by schedules.

use backcast_layout::{KEPT_MOST, LeafValues};

use super::alpha::{Alpha, check_alpha};
use super::updates::{Priorities, locked};
use crate::error::PriorityError;

impl Priorities {
    /// Returns the exponent of the priorities that the table has now. Samplers by rank have their
    /// own, and this is that of the first.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.table.exponent().unwrap_or(self.table.settings().exponent)
    }

    /// Changes the exponent of the table's priorities for all its samplers, in all processes.
    /// Returns to the same draws with an exponent that it had before, if no priority has changed.
    /// Draws and updates wait meanwhile. O(rows).
    ///
    /// Fails if the table's exponent is [fixed](crate::Alpha::Constant), or if a priority is too
    /// large for the new one.
    ///
    /// ```
    /// use backcast_core::{Alpha, DType, PriorityOptions, Ring, RingOptions, SamplerOptions};
    /// use backcast_core::{Schema, StepColumns};
    ///
    /// # use backcast_core::WriterOptions;
    /// # let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
    /// # let ring = Ring::heap(&schema, RingOptions::with_capacity(64))?;
    /// # let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// # for _ in 0..10 {
    /// #     let columns = StepColumns::of(&schema).with("x", &[0.0_f32])?;
    /// #     writer.append(&columns.step(&[false], &[false])?)?;
    /// # }
    /// let options = PriorityOptions::alpha(Alpha::Table);
    /// let mut priorities = ring.priorities(&options)?;
    /// let mut sampler = ring.sampler(SamplerOptions::seeded(7).priority(options))?;
    /// assert_eq!(priorities.alpha(), Alpha::DEFAULT);
    /// priorities.set_alpha(0.4)?;
    /// assert_eq!(sampler.sample(32)?.index().len(), 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_alpha(&mut self, alpha: f64) -> Result<(), PriorityError> {
        check_alpha("alpha", alpha)?;
        self.change_alpha(alpha, |_| true, true)
    }

    /// Changes the exponent to that of a schedule for a batch, unless it is further ahead.
    pub(crate) fn follow(&mut self, schedule: Alpha, batch: u64) -> Result<(), PriorityError> {
        match schedule.at(batch) {
            Some(next) => self.change_alpha(next, |now| schedule.moves(now, next), false),
            None => Ok(()),
        }
    }

    fn change_alpha(
        &mut self,
        alpha: f64,
        moves: impl Fn(f64) -> bool,
        checks: bool,
    ) -> Result<(), PriorityError> {
        if self.table.counts_ranks() {
            return Err(PriorityError::RankAlpha { table: self.table.name().to_owned() });
        }
        let Some(now) = self.table.exponent() else {
            let (table, alpha) = (self.table.name().to_owned(), self.table.settings().exponent);
            return Err(PriorityError::FixedAlpha { table, alpha });
        };
        let is_new = |now: f64| now.to_bits() != alpha.to_bits() && moves(now);
        if !is_new(now) {
            return Ok(());
        }
        let eps = self.table.settings().eps;
        let values = LeafValues { exponent: alpha, eps, most: self.table.most() };
        locked(&mut self.table, &self.limits, |guard| {
            if guard.exponent().is_some_and(|now| !is_new(now)) {
                return Ok(());
            }
            let largest = guard.largest_held().unwrap_or_else(|| guard.largest()).min(KEPT_MOST);
            // A schedule goes on: no draw fails, and the largest priorities share one leaf value.
            if checks && !values.has_value(largest) {
                let (value, limit) = (f64::from_bits(largest) - eps, values.limit());
                return Err(PriorityError::AlphaTooLarge { alpha, value, limit });
            }
            guard.set_exponent(alpha);
            Ok(())
        })?
    }
}
