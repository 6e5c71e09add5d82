//! `backcast.Writer`: appends rows to lanes that only it writes.

pub(crate) mod append;
mod columns;
pub(crate) mod exit;
pub(crate) mod extend;
mod fast_arguments;
mod observations;
pub(crate) mod reserved_row;
mod state;
mod warnings;

use std::sync::{Arc, Mutex, PoisonError};

use backcast_core::{AutoresetMode, DType, Ring, Step, WriterCounts, WriterOptions};
use backcast_pybind_macros::exact_arguments;
use numpy::{PyArray1, PyArray2, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::argument::{found, method, no_constructor, refuse_unexpected};
use crate::array::convert::{LeadingAxes, Target, array_of, check_shape, descr};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};
use crate::handle::{Closing, Handle};
use crate::replay::schema::Schema;
use crate::replay::writer::columns::AppendColumns;
use crate::replay::writer::fast_arguments::FastArguments;
use crate::replay::writer::observations::{ObservationColumn, final_columns, observation_columns};
use crate::replay::writer::state::WriterState;

/// Appends rows to lanes that no other writer has while it is open.
///
/// Made by :meth:`ReplayBuffer.writer`; a context manager. The kernel releases the lanes when the
/// process dies, however it dies, and the next writer adopts them. A writer serves one call at a
/// time; other threads wait without holding the interpreter.
#[pyclass(module = "backcast", name = "Writer", frozen)]
pub(crate) struct Writer {
    pub(crate) handle: Arc<Handle<WriterState>>,
    pub(crate) schema: Schema,
    pub(crate) columns: AppendColumns,
    lanes: Vec<u32>,
    mode: AutoresetMode,
    /// Reserved row, which is abandoned when the writer is closed.
    pub(crate) row: Mutex<Option<Arc<reserved_row::Opened>>>,
    /// Dtype of the indices that an append returns.
    index: Py<PyArrayDescr>,
    /// Counts, outside the handle: an append that waits for a lease holds the handle for long.
    counts: Arc<WriterCounts>,
}

impl Writer {
    fn shut(&self, py: Python<'_>) -> Result<(), Failure> {
        // A reserved row refers to the lane's memory.
        let row = self.row.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(row) = row {
            reserved_row::give_up(py, self, &row)?;
        }
        // `take` closes the writer, even if `finish` then fails for lack of room.
        py.detach(|| match self.handle.take()? {
            Some(mut pen) => Ok(pen.writer.finish()?),
            None => Ok(()),
        })
    }

    /// Makes a writer of the ring named `label`. Its waits end when it is closed.
    pub(crate) fn open(
        py: Python<'_>,
        label: &str,
        ring: &Ring,
        options: WriterOptions,
    ) -> Result<Self, Failure> {
        let closing = Closing::of(format!("the writer of {label}"));
        let interrupt = closing.interrupt_on(ring);
        let writer = py.detach(|| ring.clone().interrupted_by(interrupt).writer(options))?;
        let made = Self {
            schema: Schema(writer.schema().clone()),
            columns: AppendColumns::of(writer.schema()),
            lanes: writer.lanes().to_vec(),
            mode: writer.autoreset_mode(),
            index: descr(py, DType::I64)?.unbind(),
            row: Mutex::new(None),
            counts: writer.counts(),
            handle: Arc::new(Handle::closed_by(
                closing,
                "call `writer` again for another",
                WriterState {
                    fast_arguments: FastArguments::of(py, writer.schema())?,
                    writer,
                    reserved: None,
                    window: None,
                    spare: None,
                },
            )),
        };
        exit::watch(py, &made.handle);
        Ok(made)
    }

    pub(crate) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// Reads one boolean per lane.
    fn flags(&self, what: &str, given: Option<&Bound<'_, PyAny>>) -> Result<Vec<bool>, Failure> {
        let Some(given) = given else {
            return Err(Failure::new(
                ErrorClass::Append,
                format!(
                    "{what} is missing; give one boolean per lane, of which this writer has {}",
                    self.lanes.len()
                ),
            ));
        };
        let target = Target { what, class: ErrorClass::Append, dtype: DType::Bool };
        let array = array_of(given, target)?;
        check_shape(&array, LeadingAxes::Lanes(self.lanes.len()), &[], target)?;
        Ok(bytes_of(&array).unwrap_or_default().iter().map(|&byte| byte != 0).collect())
    }
}

#[exact_arguments]
#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("Writer", "call buf.writer(lanes=..., autoreset_mode=...)"))
    }

    /// Append one row to every lane of this writer.
    ///
    /// Everything is checked before anything is written: after an error the ring is unchanged. The
    /// values are copied once, from their arrays into the ring, with the interpreter released when
    /// there are many. Do not write to the arrays from another thread meanwhile. A C-contiguous
    /// array of the column's dtype is read in place; others are converted first, as NumPy's
    /// ``casting="same_kind"`` allows (``f8`` to ``f4``, integers to floats), and between integer
    /// dtypes where every value fits.
    ///
    /// Parameters
    /// ----------
    /// terminated, truncated : array_like of bool, shape (lanes,)
    ///     Whether the action ended the episode, and how.
    /// next_obs : array_like or dict, shape (lanes, ...), optional
    ///     Observation that ``env.step`` returned; a dict of observations where there are several
    ///     columns. It is stored once: the next append has to begin with it. If that append shows
    ///     another observation, the episode is cut before it, so that no transition leads across;
    ///     ``stats()["cuts"]`` counts the cuts. If the writer is closed or restarted before the
    ///     next append, ``next_obs`` ends the episode, so that the last transition can be drawn. An
    ///     observation column with another name than ``obs`` has a keyword of its own:
    ///     ``next_state=`` for ``state``.
    /// final_obs : array_like, dict or object array, optional
    ///     The last observation of the lanes that ended: an array ``[lanes, ...]``, a dict of such,
    ///     or Gymnasium's object array of None or an observation. Lanes that continue are not read.
    ///     When a lane ends, it is needed in the mode ``"same_step"``, where ``next_obs`` is the
    ///     reset's observation, and in the mode ``"disabled"`` unless there is ``next_obs``.
    /// **columns : array_like or dict, shape (lanes, ...)
    ///     Every column of the schema by name; a dict for columns below a ``/``. With one lane the
    ///     leading axis may be left out. Masked arrays are refused, also where nothing is masked:
    ///     fill them first.
    ///
    /// Returns
    /// -------
    /// ndarray of int64, shape (lanes,)
    ///     Index of each row, ``lane << 48 | seq``, as in :attr:`Batch.index`; -1 for a lane whose
    ///     row was dropped because a lease blocked it. If the row that ends an episode is dropped,
    ///     the append of its final observation returns -1 too. If only the final observation is
    ///     dropped, the row before it stays, with its index, but starts no transition: it has no
    ///     next observation.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If a column is missing, unknown, given twice, or of another dtype or shape, or an end
    ///     lacks its observation.
    /// RateLimitTimeoutError
    ///     If the ring's limiter held the append back for the writer's ``timeout``; the message
    ///     says what each side waits for.
    /// RateLimitError
    ///     If no sampler lives and the limiter has ``no_learner="error"``.
    /// LeaseError
    ///     If the ring's ``lane_policy`` is ``"fail"`` and a lease blocks the row.
    /// NotFoundError
    ///     If the ring was removed or replaced, and the buffer has ``on_unlinked="error"``.
    /// ClosedError
    ///     If the writer was closed.
    ///
    /// Warns
    /// -----
    /// WaitWarning
    ///     Once per wait of more than 10 s: says what each side of a rate limiter waits for, or
    ///     which process holds a lease.
    /// WriterWarning
    ///     Once, if episodes begin in a way that is unusual for this autoreset mode
    ///     (``stats()["suspect_resets"]`` counts them), and once if over 5 % of the appends cut an
    ///     episode.
    ///
    /// Examples
    /// --------
    /// >>> columns = {"obs": ("f4", (3,)), "action": "i4"}
    /// >>> buf = bc.ReplayBuffer.create(None, columns, capacity=100, lanes=2)
    /// >>> obs, go_on = [[0, 0, 1], [0, 0, 2]], [False, False]
    /// >>> with buf.writer(lanes=2, autoreset_mode="next_step") as writer:
    /// ...     writer.append(obs=obs, action=[1, 0], terminated=go_on, truncated=go_on)
    /// array([              0, 281474976710656])
    #[pyo3(signature = (
        *extra, terminated=None, truncated=None, next_obs=None, final_obs=None, **columns
    ))]
    #[pyo3(text_signature = "($self, *, terminated, truncated, next_obs=None, final_obs=None, \
                             **columns)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn append<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        terminated: Option<&Bound<'py, PyAny>>,
        truncated: Option<&Bound<'py, PyAny>>,
        next_obs: Option<&Bound<'py, PyAny>>,
        final_obs: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyArray1<i64>>, Failure> {
        refuse_unexpected(extra, None, method::<Self>("append"))?;
        let lanes = self.lanes.len();
        let next_obs = self.columns.take_next(columns, next_obs)?;
        let arrays = self
            .columns
            .find(
                columns,
                "append",
                [("terminated", terminated.is_some()), ("truncated", truncated.is_some())],
            )?
            .arrays(LeadingAxes::Lanes(lanes))?;
        let terminated = self.flags("terminated", terminated)?;
        let truncated = self.flags("truncated", truncated)?;
        let ended: Vec<bool> = terminated.iter().zip(&truncated).map(|(a, b)| a | b).collect();
        let finals = match final_obs {
            Some(given) if ended.contains(&true) => {
                Some(final_columns(&self.columns, given, &ended)?)
            }
            _ => None,
        };
        let nexts = next_obs.map(|given| {
            observation_columns(&self.columns, "next_obs", &given, LeadingAxes::Lanes(lanes))
        });
        let nexts = nexts.transpose()?;
        let rows: Vec<&[u8]> =
            arrays.iter().map(|array| bytes_of(array).unwrap_or_default()).collect();
        let [next_rows, final_rows] = [&nexts, &finals].map(|given| {
            let columns = given.as_ref()?.iter().map(ObservationColumn::bytes);
            Some(columns.collect::<Vec<&[u8]>>())
        });
        let step = Step {
            schema: &self.schema.0,
            columns: &rows,
            terminated: &terminated,
            truncated: &truncated,
            next_obs: next_rows.as_deref(),
            final_obs: final_rows.as_deref(),
        };
        let (index, has_warnings) = py.detach(|| {
            self.handle.with(|pen| {
                let writer = pen.free()?;
                let index: Vec<i64> = writer.append(step)?.iter().map(|row| row.0).collect();
                Ok((index, writer.has_warnings()))
            })
        })?;
        if has_warnings {
            self.warn_pending(py)?;
        }
        Ok(PyArray1::from_slice(py, &index))
    }

    /// Append many steps in one call, with the same result as a call of ``append`` for each.
    ///
    /// Everything that can be checked is checked before the first step. A writer of one lane copies
    /// up to 64 rows at a time, so it fills the lane about as fast as memory is copied.
    ///
    /// Parameters
    /// ----------
    /// terminated, truncated : array_like of bool, shape (steps, lanes)
    ///     Whether each action ended its episode, and how.
    /// next_obs : array_like or dict, shape (steps, lanes, ...), optional
    ///     Observation that ``env.step`` returned, as for :meth:`append`.
    /// final_obs : array_like or dict, shape (steps, lanes, ...), optional
    ///     The last observations of episodes, where they ended; other places are not read. Needed
    ///     as for :meth:`append`.
    /// **columns : array_like or dict, shape (steps, lanes, ...)
    ///     Every column of the schema by name, as for :meth:`append`. With one lane its axis may be
    ///     left out, of the flags too.
    ///
    /// Returns
    /// -------
    /// ndarray of int64, shape (steps, lanes)
    ///     Indices of the rows, see :meth:`append`.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If a column is missing, unknown, given twice, or of another dtype or shape, or an end
    ///     lacks its observation. Nothing was appended then.
    /// RateLimitError, RateLimitTimeoutError
    ///     If :meth:`append` would raise it. Steps that were appended before the error stay, and
    ///     the message says how many.
    /// LeaseError
    ///     If the ring's ``lane_policy`` is ``"fail"`` and a lease blocks a step: the steps
    ///     before it stay, and the message says how many.
    /// NotFoundError
    ///     If :meth:`append` would raise it.
    /// ClosedError
    ///     If the writer was closed.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": ("f4", (3,)), "reward": "f4"}, capacity=100)
    /// >>> go_on = np.zeros(5, bool)
    /// >>> with buf.writer() as writer:
    /// ...     obs, reward = np.zeros((5, 3), np.float32), np.ones(5, np.float32)
    /// ...     writer.extend(obs=obs, reward=reward, terminated=go_on, truncated=go_on).shape
    /// (5, 1)
    #[pyo3(signature = (
        *extra, terminated=None, truncated=None, next_obs=None, final_obs=None, **columns
    ))]
    #[pyo3(text_signature = "($self, *, terminated, truncated, next_obs=None, final_obs=None, \
                             **columns)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn extend<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        terminated: Option<&Bound<'py, PyAny>>,
        truncated: Option<&Bound<'py, PyAny>>,
        next_obs: Option<&Bound<'py, PyAny>>,
        final_obs: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyArray2<i64>>, Failure> {
        refuse_unexpected(extra, None, method::<Self>("extend"))?;
        extend::extend_checked(self, py, [terminated, truncated, next_obs, final_obs], columns)
    }

    /// Begin a new episode in mid-episode.
    ///
    /// The next row of these lanes does not continue the row before it: no transition leads from
    /// one to the other. Use it for an environment that was reset in mid-episode or replaced. If
    /// the last append had a ``next_obs``, it ends the old episode, and the last transition is
    /// kept.
    ///
    /// Parameters
    /// ----------
    /// lanes : array_like of bool, shape (lanes,), optional
    ///     Mask of the lanes; all by default.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If ``lanes`` is not one boolean per lane, or a row is reserved.
    /// LeaseError
    ///     If a lease leaves no room for that ``next_obs`` and the ring's ``lane_policy`` is
    ///     ``"fail"``.
    /// ClosedError
    ///     If the writer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(4):
    /// ...         if t == 2:
    /// ...             writer.restart()
    /// ...         index = writer.append(obs=t, terminated=False, truncated=False)
    /// >>> len(buf)  # from 0 to 1, and from 2 to 3
    /// 2
    #[pyo3(signature = (lanes=None), text_signature = "($self, lanes=None)")]
    fn restart<'py>(
        &self,
        py: Python<'py>,
        lanes: Option<&Bound<'py, PyAny>>,
    ) -> Result<(), Failure> {
        let chosen = match lanes {
            Some(given) => {
                refuse_numbers_of_lanes(given)?;
                self.flags("lanes", Some(given))?
            }
            None => vec![true; self.lanes.len()],
        };
        py.detach(|| self.handle.with(|pen| Ok(pen.free()?.restart(&chosen)?)))
    }

    /// The columns of the ring.
    #[getter]
    fn schema(&self) -> Schema {
        self.schema.clone()
    }

    /// The lanes of the ring that this writer owns, int64 ``[lanes]``.
    ///
    /// Row i of an append goes to ``lanes[i]``.
    #[getter]
    fn lanes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let lanes: Vec<i64> = self.lanes.iter().map(|&lane| i64::from(lane)).collect();
        PyArray1::from_slice(py, &lanes)
    }

    /// Autoreset mode: ``"next_step"``, ``"same_step"`` or ``"disabled"``.
    #[getter]
    fn autoreset_mode(&self) -> String {
        self.mode.to_string()
    }

    /// Rows that this writer has published, FINAL ones included. Never waits for a lease.
    #[getter]
    fn rows_written(&self) -> Result<u64, Failure> {
        let before = || self.counts.rows_written_before_the_wait();
        self.handle.with_or(|pen| Ok(pen.writer.rows_written()), before)
    }

    /// Rows that were dropped because a lease blocked them, by the ring's ``lane_policy``.
    ///
    /// The append of each dropped row returned -1 in place of an index. The final row of an episode
    /// whose end was dropped is dropped too. Never waits.
    #[getter]
    fn rows_dropped(&self) -> Result<u64, Failure> {
        self.handle.check_is_open()?;
        Ok(self.counts.rows_dropped())
    }

    /// Release the lanes and abandon a reserved row. Closing again does nothing.
    ///
    /// A ``next_obs`` that waits for the next append ends its episode, so that the last transition
    /// can be drawn.
    ///
    /// Raises
    /// ------
    /// LeaseError
    ///     If a lease leaves no room for that observation and the ring's ``lane_policy`` is
    ///     ``"fail"``; the writer is closed all the same.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.shut(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.shut(py)
    }

    fn __repr__(&self) -> String {
        let state =
            self.handle.describe(|pen| format!("{} rows written", pen.writer.rows_written()));
        format!(
            "<backcast.Writer: {}, lane{} {}, autoreset_mode '{}', {state}>",
            self.handle.label(),
            if self.lanes.len() == 1 { "" } else { "s" },
            ranges(&self.lanes),
            self.mode
        )
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{} cannot be pickled or copied, because no other writer may have its lanes; \
                 pickle the ReplayBuffer and make a writer from it",
                self.handle.label()
            ),
        ))
    }
}

/// Formats ascending numbers as ranges: `0-3, 7`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let texts: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(u32::to_string).collect(),
        })
        .collect();
    texts.join(", ")
}

/// Refuses numbers in place of a mask: `[0, 1]` may mean two lanes, or one of two.
fn refuse_numbers_of_lanes(given: &Bound<'_, PyAny>) -> Result<(), Failure> {
    let py = given.py();
    let asarray = py.import("numpy")?.getattr("asarray")?;
    // Values that NumPy cannot convert are refused later, as a mask.
    let Some(array) = found(py, asarray.call1((given,)))? else { return Ok(()) };
    let dtype = array.getattr("dtype")?;
    if dtype.getattr("kind")?.extract::<String>()? == "b" {
        return Ok(());
    }
    let text =
        format!("`lanes` holds {dtype} values; give booleans, one for each lane of the writer");
    Err(Failure::new(ErrorClass::Append, text))
}
