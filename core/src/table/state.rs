//! States of tables of claims, to save them and to restore them with their ring.

use backcast_layout::protocol::claim::MAX_PASS_ROWS;
use backcast_layout::{ClaimSettings, ClaimTableState, NamedTable, SegmentError};

use crate::error::RestoreError;
use crate::ring::Ring;
use crate::ring::restore::Filling;

impl Ring {
    /// Returns the states of the tables of claims, by name. Claims that are made meanwhile may be
    /// missing. A table that cannot be opened is listed with its error, and so is one whose kind
    /// cannot be read. Fails if the ring cannot be listed. O(lanes) a table.
    pub fn claim_states(&self) -> Result<Vec<NamedTable<ClaimTableState>>, SegmentError> {
        self.store().claim_states()
    }
}

impl Filling<'_> {
    /// Restores a table of claims. Fails if its pass has rows beyond those that were begun, or
    /// its numbers contradict each other. O(lanes).
    ///
    /// ```
    /// use backcast_core::{
    ///     DType, Ring, RingOptions, SamplerOptions, Schema, Selector, StepColumns, TableOptions,
    /// };
    ///
    /// # use backcast_core::WriterOptions;
    /// # let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
    /// # let ring = Ring::heap(&schema, RingOptions::with_capacity(64))?;
    /// # let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// # for _ in 0..10 {
    /// #     let columns = StepColumns::of(&schema).with("x", &[0.0_f32])?;
    /// #     writer.append(&columns.step(&[false], &[false])?)?;
    /// # }
    /// let queue = SamplerOptions::seeded(1).selector(Selector::Table(TableOptions::consume("q")));
    /// assert_eq!(ring.sampler(queue.clone())?.sample(4)?.index(), [0, 1, 2, 3]);
    /// let states = ring.claim_states()?.into_iter().map(|(_, state)| state);
    /// let states = states.collect::<Result<Vec<_>, _>>()?;
    /// let restored = Ring::restore_heap(&schema, ring.options(), |filling| {
    ///     filling.begin(0, 0..10)?;
    /// #   let rows = ring.rows(0, 0..10).unwrap();
    /// #   let columns: Vec<&[u8]> =
    /// #       rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap()).collect();
    ///     filling.rows(0, 10, &columns)?;
    ///     states.iter().try_for_each(|state| filling.claims(state))
    /// })?;
    /// assert_eq!(restored.sampler(queue)?.sample(5)?.index(), [4, 5, 6, 7, 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn claims(&mut self, state: &ClaimTableState) -> Result<(), RestoreError> {
        let bad =
            |problem: String| Err(RestoreError::BadTable { table: state.name.clone(), problem });
        let rows = self.begun();
        let ClaimTableState { pass, settings, next, .. } = state;
        if pass.ranges.len() != rows.len() {
            return bad(format!("it has {} lanes, the ring {}", pass.ranges.len(), rows.len()));
        }
        let ClaimSettings { renewed, times, .. } = *settings;
        let most = if renewed { 1 } else { times };
        if times == 0 || times > most || pass.round >= u64::from(most) {
            return bad(format!("round {} of {times} over the same rows", pass.round));
        }
        for ((lane, claimed), rows) in (0..).zip(&pass.ranges).zip(&rows) {
            if claimed.start > claimed.end || (!claimed.is_empty() && claimed.end > rows.end) {
                let (from, to) = (claimed.start, claimed.end);
                let problem = format!("its pass has rows {from}..{to} of lane {lane}");
                return bad(format!("{problem}, the ring {}..{}", rows.start, rows.end));
            }
        }
        let total = pass.total();
        if *next > total || total > MAX_PASS_ROWS {
            return bad(format!("{next} rows of {total} are claimed"));
        }
        Ok(self.unnamed().claims(state)?)
    }
}
