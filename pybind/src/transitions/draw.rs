//! What is read of a ring's transitions: batches, their indices, single ones, and the market's rows.

use backcast_market::{
    Panel, TransitionBatch, TransitionError, TransitionRing as CoreRing, Windows,
};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use super::TransitionRing;
use super::looked_up::{rows_of, stored};
use super::settings::layout_of;
use crate::coerce::{count, int64s};
use crate::env_rows::check_window;
use crate::error::{Failure, Kind};
use crate::given::{Given, of_another_type};
use crate::market_batch::{Found, MarketMemory, fresh, memory_of};

#[pymethods]
impl TransitionRing {
    /// Draw a batch, or get that of `indices`.
    #[pyo3(signature = (batch_size, history_length, future_length, layout, copy, indices, out))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python call")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Given<i128>,
        history_length: Given<i128>,
        future_length: Given<i128>,
        layout: Given<String>,
        copy: Given<bool>,
        indices: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let batch_size = count(batch_size, "batch_size", 1, Kind::Sample)? as usize;
        let layout = layout_of(layout)?;
        let windows = Windows {
            history: count(history_length, "history_length", 0, Kind::Sample)? as usize,
            future: count(future_length, "future_length", 0, Kind::Sample)? as usize,
            lead: self.lead,
            layout,
            apart: copy.get("copy", "True or False")?,
        };
        let indices = indices.map(|given| int64s(given, "indices", Kind::Sample)).transpose()?;
        let memory = match out {
            None => None,
            Some(out) => {
                Some(memory_of(out)?.map(|memory| (out.clone(), memory)).ok_or_else(|| {
                    let wanted = "what sample returned before";
                    of_another_type(out, "out", wanted)
                })?)
            }
        };
        let (found, drawn) = py.detach(|| {
            self.ring.with(|ring| {
                whole_window(ring.panel(), windows)?;
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
                Ok((Found { batch, plan, shape: ring.shape().clone() }, drawn))
            })
        })?;
        let shown = self.shown(py, memory, found);
        if let (Err(refused), Some(drawn)) = (&shown, drawn) {
            self.give_back(py, drawn, refused);
        }
        shown
    }

    /// Indices as `sample` would draw them.
    fn sample_indices(&self, py: Python<'_>, batch_size: Given<i128>) -> Result<Vec<i64>, Failure> {
        let batch_size = count(batch_size, "batch_size", 1, Kind::Sample)? as usize;
        py.detach(|| self.ring.with(|ring| Ok(ring.draw_indices(batch_size)?)))
    }

    /// One transition, as keywords of `VecStoredTransition`.
    fn get<'py>(&self, py: Python<'py>, index: Given<i128>) -> Result<Bound<'py, PyDict>, Failure> {
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

    /// Numbers of tickers on `count` days from `first` on: float64 `[T, count, 5]` and
    /// `[T, count, K]`, int32 `[T, count]`.
    #[expect(clippy::needless_pass_by_value, reason = "an argument of the Python call")]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        tickers: Vec<String>,
        first: i64,
        count: usize,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let panel = self.panel.get()?;
        check_window(&panel, count, Kind::Sample)?;
        let days = first..first.saturating_add_unsigned(count as u64);
        rows_of(py, &panel, &self.names, &tickers, days)
    }
}

/// A batch that `sample` returned, and what it lies in.
type Earlier<'py> = (Bound<'py, PyAny>, Bound<'py, MarketMemory>);

impl TransitionRing {
    /// Show transitions in the memory of an earlier batch, where it fits, or in a new one.
    fn shown<'py>(
        &self,
        py: Python<'py>,
        mut memory: Option<Earlier<'py>>,
        found: Found,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let names = &self.names;
        // Of the two kinds of memory that a series of draws may need, the one that fits.
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
            fresh(py, &self.ring, names, &self.pool, found)?
        };
        if let Some(other) = other
            && let Some(memory) = memory_of(&sample)?
        {
            memory.get().keep_spare(other.unbind());
        }
        Ok(sample)
    }

    /// A batch that is refused was not drawn.
    fn give_back(&self, py: Python<'_>, drawn: u64, refused: &Failure) {
        let given = self.ring.try_with(|ring| ring.give_back(drawn)).is_some();
        // Who was interrupted while waiting for the ring is not made to wait for it again.
        if !given && !matches!(refused, Failure::Python(_)) {
            let give_back = |ring: &mut CoreRing| {
                ring.give_back(drawn);
                Ok(())
            };
            // What else is wrong, such as a ring that was closed meanwhile, is said already.
            py.detach(|| self.ring.with(give_back)).ok();
        }
    }
}

/// Refuse windows of many times the market before anything is drawn.
fn whole_window(panel: &Panel, windows: Windows) -> Result<(), Failure> {
    let days = windows.history.saturating_add(windows.future).saturating_add(1);
    let (known, limit) = (panel.days(), panel.longest_window());
    if days <= limit {
        return Ok(());
    }
    let message = format!(
        "the window is {days} days, of a panel that has {known}; give at most {limit}: what lies \
         beyond the panel is masked"
    );
    Err(Failure::new(Kind::Sample, message))
}
