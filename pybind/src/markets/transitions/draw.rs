//! Reads of a ring's transitions: batches, indices, single transitions and rows of the market.

use backcast_market::{
    Panel, TransitionBatch, TransitionError, TransitionRing as CoreRing, TransitionWindows,
};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use super::TransitionRing;
use super::settings::layout_of;
use super::single::{rows_of, stored};
use crate::argument::{Argument, count, wrong_type};
use crate::array::convert::int64s;
use crate::error::{ErrorClass, Failure};
use crate::markets::panel::rows::check_count;
use crate::markets::transitions::batch::{FoundBatch, MarketMemory, memory_of, new_batch};

#[pymethods]
impl TransitionRing {
    /// Draw a batch, or read the transitions of `indices`.
    #[pyo3(signature = (batch_size, history_length, future_length, layout, copy, indices, out))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python call")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Argument<i128>,
        history_length: Argument<i128>,
        future_length: Argument<i128>,
        layout: Argument<String>,
        copy: Argument<bool>,
        indices: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let batch_size = count(batch_size, "batch_size", 1, ErrorClass::Sample)? as usize;
        let layout = layout_of(layout)?;
        let windows = TransitionWindows {
            history: count(history_length, "history_length", 0, ErrorClass::Sample)? as usize,
            future: count(future_length, "future_length", 0, ErrorClass::Sample)? as usize,
            lead: self.lead,
            layout,
            apart: copy.get("copy", "True or False")?,
        };
        let indices =
            indices.map(|given| int64s(given, "indices", ErrorClass::Sample)).transpose()?;
        let memory = match out {
            None => None,
            Some(out) => {
                Some(memory_of(out)?.map(|memory| (out.clone(), memory)).ok_or_else(|| {
                    let wanted = "what sample returned before";
                    wrong_type(out, "out", wanted)
                })?)
            }
        };
        let (found, drawn) = py.detach(|| {
            self.ring.with(|ring| {
                check_windows(ring.panel(), windows)?;
                let mut batch = TransitionBatch::default();
                let drawn = if let Some(indices) = &indices {
                    batch = ring.get(indices)?;
                    None
                } else {
                    ring.draw_into(batch_size, &mut batch)?;
                    Some(ring.batches_drawn())
                };
                let plan = match ring.plan(&batch, windows, &self.names.selection) {
                    Ok(plan) => plan,
                    Err(refused) => {
                        if let Some(drawn) = drawn {
                            ring.give_back(drawn);
                        }
                        return Err(refused.into());
                    }
                };
                Ok((FoundBatch { batch, plan, shape: ring.shape().clone() }, drawn))
            })
        })?;
        let shown = self.shown(py, memory, found);
        if let (Err(refused), Some(drawn)) = (&shown, drawn) {
            self.give_back(py, drawn, refused);
        }
        shown
    }

    /// Draw the indices that `sample` would draw.
    fn sample_indices(
        &self,
        py: Python<'_>,
        batch_size: Argument<i128>,
    ) -> Result<Vec<i64>, Failure> {
        let batch_size = count(batch_size, "batch_size", 1, ErrorClass::Sample)? as usize;
        py.detach(|| self.ring.with(|ring| Ok(ring.draw_indices(batch_size)?)))
    }

    /// Get one transition as keywords of `VecStoredTransition`.
    fn get<'py>(
        &self,
        py: Python<'py>,
        index: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let index = index.get("index", "a whole number, as sample_indices returns")?;
        let get = |ring: &mut CoreRing| {
            let Ok(known) = i64::try_from(index) else {
                return Err(TransitionError::NoSuchIndex { index, size: ring.len()? }.into());
            };
            Ok(ring.get(&[known])?)
        };
        let batch = py.detach(|| self.ring.with(get))?;
        Ok(stored(py, &batch, &self.names)?)
    }

    /// Return numbers of tickers on `count` days from `first` on: float64 `[T, count, 5]` and `[T,
    /// count, K]`, int32 `[T, count]`.
    #[expect(clippy::needless_pass_by_value, reason = "an argument of the Python call")]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        tickers: Vec<String>,
        first: i64,
        count: usize,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let panel = self.panel.get()?;
        check_count(&panel, count, ErrorClass::Sample)?;
        let days = first..first.saturating_add_unsigned(count as u64);
        rows_of(py, &panel, &self.names, &tickers, days)
    }
}

/// Batch that `sample` returned, and its memory.
type Earlier<'py> = (Bound<'py, PyAny>, Bound<'py, MarketMemory>);

impl TransitionRing {
    /// Returns the transitions in the memory of an earlier batch if it fits, or in a new one.
    fn shown<'py>(
        &self,
        py: Python<'py>,
        mut memory: Option<Earlier<'py>>,
        found: FoundBatch,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let names = &self.names;
        // Draws may alternate between two kinds of memory. This chooses the one that fits.
        let mut other = None;
        if let Some((out, held)) = &memory
            && !held.get().fits(py, names, &found)
        {
            other = Some(out.clone());
            let spare = held.get().take_spare().map(|spare| spare.into_bound(py));
            memory = match spare {
                Some(spare) => memory_of(&spare)?.map(|memory| (spare, memory)),
                None => None,
            };
            memory = memory.filter(|(_, memory)| memory.get().fits(py, names, &found));
        }
        let sample = if let Some((out, memory)) = memory {
            memory.get().refill(py, &self.ring, names, &found.batch)?;
            out
        } else {
            new_batch(py, &self.ring, names, &self.pool, found)?
        };
        if let Some(other) = other
            && let Some(memory) = memory_of(&sample)?
        {
            memory.get().keep_spare(other.unbind());
        }
        Ok(sample)
    }

    /// Returns a refused draw to the ring, so that the next one repeats it.
    fn give_back(&self, py: Python<'_>, drawn: u64, refused: &Failure) {
        let given = self.ring.try_with(|ring| ring.give_back(drawn)).is_some();
        // Does not wait again after an interrupted wait for the ring.
        if !given && !matches!(refused, Failure::Python(_)) {
            let give_back = |ring: &mut CoreRing| {
                ring.give_back(drawn);
                Ok(())
            };
            // Errors, such as of a closed ring, were reported already.
            py.detach(|| self.ring.with(give_back)).ok();
        }
    }
}

/// Refuses windows that are many times as long as the panel, before anything is drawn.
fn check_windows(panel: &Panel, windows: TransitionWindows) -> Result<(), TransitionError> {
    panel.check_window("history_length", windows.history)?;
    panel.check_window("future_length", windows.future)?;
    Ok(())
}
