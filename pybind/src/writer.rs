//! `backcast.Writer`: appends rows to lanes that it alone writes.

use std::mem;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use backcast_core::{
    AppendError, AutoresetMode, DType, RowIndex, Stall, Step, Suspended, Window,
    Writer as CoreWriter, WriterCounts,
};
use numpy::{PyArray1, PyArray2, PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyTuple, PyType};

use crate::coerce::{Leading, Target, array_of, check_shape, descr};
use crate::columns::WantedColumns;
use crate::error::{Failure, Kind};
use crate::extend;
use crate::fastcall::{Call, FastMethod};
use crate::final_obs::{FinalColumn, final_columns, whole_columns};
use crate::given::{method, not_called, refuse_strangers};
use crate::handle::Handle;
use crate::held::{warn, warn_unlinked};
use crate::row;
use crate::schema::Schema;
use crate::shortcut::Shortcut;
use crate::view::{FreshArray, bytes_of};

/// Appends rows to lanes that nobody else writes while it lives.
///
/// Made by :meth:`ReplayBuffer.writer`; a context manager. The kernel releases the lanes when the
/// process dies, however it dies, and the next writer adopts them. One call at a time enters a
/// writer; further threads wait for their turn without holding the interpreter.
#[pyclass(module = "backcast", name = "Writer", frozen)]
pub(crate) struct Writer {
    pub(crate) handle: Handle<Pen>,
    pub(crate) schema: Schema,
    pub(crate) columns: WantedColumns,
    lanes: Vec<u32>,
    mode: AutoresetMode,
    /// The reserved one, to be given up when the writer is closed.
    pub(crate) row: Mutex<Option<Arc<row::Opened>>>,
    /// The dtype of what an append returns.
    index: Py<PyArrayDescr>,
    /// Beside the handle: an append that waits for a lease has that for long.
    counts: Arc<WriterCounts>,
}

/// What one thread at a time uses.
#[derive(Debug)]
pub(crate) struct Pen {
    pub(crate) writer: CoreWriter,
    /// Not there while a row is reserved.
    pub(crate) shortcut: Option<Shortcut>,
    pub(crate) reserved: Option<Aside>,
    /// Of the last reserved row, for the next.
    pub(crate) window: Option<Arc<Window>>,
    /// What an append returned: memory for the next one, if nobody kept it.
    spare: Option<Py<PyUntypedArray>>,
}

/// What waits while a row is reserved.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) row: Suspended,
    pub(crate) shortcut: Option<Shortcut>,
}

impl Pen {
    /// The writer, unless a row is reserved.
    pub(crate) fn free(&mut self) -> Result<&mut CoreWriter, Failure> {
        if self.reserved.is_some() {
            return Err(Failure::new(
                Kind::Append,
                "a row of this writer is reserved; commit it or give it up first",
            ));
        }
        Ok(&mut self.writer)
    }
}

/// The memory of rows of so many bytes is asked for one append before it is written to. Shorter ones wait for less
/// than asking takes, and of longer ones more lines would be under way than a processor has places for.
const WORTH_ASKING: RangeInclusive<usize> = 192..=4_096;

/// An append of more bytes is copied with the interpreter released. Fewer take a few microseconds.
const WORTH_RELEASING: usize = 32 << 10;

impl Writer {
    fn shut(&self, py: Python<'_>) -> Result<(), Failure> {
        // What is reserved is the lane's memory.
        let row = self.row.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(row) = row {
            row::give_up(py, self, &row)?;
        }
        let mut signal = None;
        let mut interrupted = || {
            signal = Python::attach(|py| py.check_signals().err());
            signal.is_some()
        };
        // Closed in any case, and then said that the last transitions had no room.
        let finished = py.detach(|| -> Result<_, Failure> {
            let pen = self.handle.take()?;
            Ok(pen.map(|mut pen| pen.writer.finish_until(&mut interrupted)))
        });
        if let Some(raised) = signal {
            return Err(raised.into());
        }
        Ok(finished?.unwrap_or(Ok(()))?)
    }

    pub(crate) fn new(py: Python<'_>, ring: &str, writer: CoreWriter) -> PyResult<Self> {
        Ok(Self {
            schema: Schema(writer.schema().clone()),
            columns: WantedColumns::of(writer.schema()),
            lanes: writer.lanes().to_vec(),
            mode: writer.autoreset_mode(),
            index: descr(py, DType::I64)?.unbind(),
            row: Mutex::new(None),
            counts: writer.counts(),
            handle: Handle::new(
                format!("the writer of {ring}"),
                "call `writer` again for another",
                Pen {
                    shortcut: Shortcut::of(py, writer.schema())?,
                    writer,
                    reserved: None,
                    window: None,
                    spare: None,
                },
            ),
        })
    }

    /// The append that a call most likely is. `None`: nothing was appended, look more closely.
    #[inline]
    fn append_at_once<'py>(
        &self,
        call: Call<'_, 'py>,
    ) -> Option<Result<Bound<'py, PyAny>, Failure>> {
        let (py, lanes, dtype) = (call.py(), self.lanes.len(), self.index.bind(call.py()));
        let appended = self.handle.try_with(|Pen { writer, shortcut, spare, .. }| {
            let appended = shortcut.as_mut()?.with_step(call, lanes, false, |step| {
                // Errors are large, and moving one about costs as much as moving the result.
                let mut append =
                    || writer.append_until(step, &mut || true).map(|_| ()).map_err(Box::new);
                let bytes: usize = step.columns.iter().map(|rows| rows.len()).sum();
                let appended = if bytes > WORTH_RELEASING { py.detach(append) } else { append() };
                if WORTH_ASKING.contains(&bytes) {
                    writer.ask_ahead();
                }
                appended
            })?;
            Some(appended.map(|()| {
                let again = spare.as_ref().and_then(|spare| {
                    let mut again = FreshArray::again(spare.bind(py), dtype, &[lanes])?;
                    put_indices(again.bytes_mut(), writer.appended());
                    Some(again.into_array())
                });
                // New memory only once the writer is free: the interpreter may run code when it
                // allocates, and that may append.
                let indices = again.ok_or_else(|| writer.appended().to_vec());
                (indices, writer.has_news())
            }))
        })??;
        let (indices, has_news) = match appended {
            Ok(appended) => appended,
            // Whoever has to wait for a lease does so on the long way, with the interpreter released.
            Err(error) if matches!(*error, AppendError::Interrupted { .. }) => return None,
            Err(error) => return Some(Err((*error).into())),
        };
        let told = if has_news { self.complain(py) } else { Ok(()) };
        let indices = match indices {
            Ok(again) => Ok(again),
            Err(rows) => self.first_indices(py, &rows),
        };
        Some(told.and(indices).map(Bound::into_any))
    }

    /// The indices of an append in new memory, which the next append may use again.
    #[cold]
    fn first_indices<'py>(
        &self,
        py: Python<'py>,
        rows: &[RowIndex],
    ) -> Result<Bound<'py, PyUntypedArray>, Failure> {
        let mut indices = FreshArray::for_filling(py, self.index.bind(py), &[rows.len()])?;
        put_indices(indices.bytes_mut(), rows);
        let indices = indices.into_array();
        let spare = Some(indices.clone().unbind());
        // The one before goes when the writer is free again.
        drop(self.handle.try_with(|pen| mem::replace(&mut pen.spare, spare)));
        Ok(indices)
    }

    /// Warns of the lease that made an append wait or drop rows, and of rows that may not mean what they
    /// should, if there is news of such. If another thread uses the writer by now, its append does.
    #[cold]
    pub(crate) fn complain(&self, py: Python<'_>) -> Result<(), Failure> {
        let take = |pen: &mut Pen| {
            let ring = pen.writer.ring();
            let unlinked = ring.take_unlinked().then(|| ring.clone());
            (pen.writer.take_stall(), pen.writer.take_doubt(), unlinked)
        };
        let (stall, doubt, unlinked) = self.handle.try_with(take).unwrap_or_default();
        if let Some(ring) = unlinked {
            warn_unlinked(py, &ring)?;
        }
        if let Some(doubt) = doubt {
            static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            let class = CLASS.import(py, "backcast._errors", "WriterWarning")?;
            let message = std::ffi::CString::new(doubt.to_string()).map_err(PyErr::from)?;
            PyErr::warn(py, class.as_any(), &message, 1)?;
        }
        if let Some(stall) = stall {
            warn(py, &complaint(&stall))?;
        }
        Ok(())
    }

    pub(crate) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// One boolean per lane.
    fn flags(&self, what: &str, given: Option<&Bound<'_, PyAny>>) -> Result<Vec<bool>, Failure> {
        let Some(given) = given else {
            return Err(Failure::new(
                Kind::Append,
                format!(
                    "{what} is missing; give one boolean per lane, of which this writer has {}",
                    self.lanes.len()
                ),
            ));
        };
        let target = Target { what, kind: Kind::Append, dtype: DType::Bool };
        let array = array_of(given, target)?;
        check_shape(&array, Leading::Lanes(self.lanes.len()), &[], target)?;
        Ok(bytes_of(&array).unwrap_or_default().iter().map(|&byte| byte != 0).collect())
    }
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(not_called("Writer", "call buf.writer(lanes=..., autoreset_mode=...)"))
    }

    /// Append one row to every lane of this writer.
    ///
    /// Everything is checked before anything is written: after an error the ring is as it was. The
    /// values are copied once, from their arrays into the ring, with the interpreter released when
    /// there are many; do not write to the arrays from another thread meanwhile. An array that has the column's
    /// dtype and is C-contiguous is read where it lies; others are converted first, as NumPy's
    /// ``casting="same_kind"`` allows (``f8`` to ``f4``, integers to floats), and between integer
    /// dtypes where every value fits.
    ///
    /// Parameters
    /// ----------
    /// terminated, truncated : array_like of bool, shape (lanes,)
    ///     How the action ended the episode, if it did.
    /// next_obs : array_like or dict, shape (lanes, ...), optional
    ///     What ``env.step`` returned; a dict of observations where there are several columns. It is stored
    ///     once: the next append has to begin with it. Where that shows another observation, the episode
    ///     is cut before it, so that no transition leads across; ``stats()["cuts"]`` counts it. What
    ///     still waits when the writer is closed or restarted ends the episode there, so that the last
    ///     transition can be drawn. An observation with a name of its own may be given by it:
    ///     ``next_state=``.
    /// final_obs : array_like, dict or object array, optional
    ///     The last observation of the lanes that ended: an array ``[lanes, ...]``, a dict of such,
    ///     or Gymnasium's object array of None or an observation. Lanes that go on are not read. When
    ///     a lane ends, it is needed in the mode ``"same_step"``, where ``next_obs`` is the reset's
    ///     observation, and in the mode ``"disabled"`` unless there is ``next_obs``.
    /// **columns : array_like or dict, shape (lanes, ...)
    ///     Every column of the schema by name; a dict for columns below a ``/``. With one lane the
    ///     leading axis may be left out. Masked arrays are refused, also where nothing is masked: fill
    ///     them first.
    ///
    /// Returns
    /// -------
    /// ndarray of int64, shape (lanes,)
    ///     Where each row went: ``lane << 48 | seq``, as in :attr:`Batch.index`; -1 for a lane whose
    ///     row was dropped because a lease was in the way. The final observation of an episode goes with
    ///     the row that ended it: after a -1 for that row there is one for the final observation as well.
    ///     A -1 for the final observation alone leaves the row before it where it is, with its index, but
    ///     no transition begins there: it has no next observation.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If a column is missing, unknown, doubled, or of another dtype or shape, or an end lacks its
    ///     observation.
    /// ClosedError
    ///     If the writer was closed.
    ///
    /// Warns
    /// -----
    /// WriterWarning
    ///     Once, if episodes begin as they hardly do in this autoreset mode
    ///     (``stats()["suspect_resets"]`` counts them), and once if over 5 % of the appends cut an episode.
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
        refuse_strangers(extra, None, method::<Self>("append"))?;
        let lanes = self.lanes.len();
        let next_obs = self.columns.take_next(columns, next_obs)?;
        let arrays = self
            .columns
            .find(
                columns,
                "append",
                [("terminated", terminated.is_some()), ("truncated", truncated.is_some())],
            )?
            .arrays(Leading::Lanes(lanes))?;
        let terminated = self.flags("terminated", terminated)?;
        let truncated = self.flags("truncated", truncated)?;
        let ended: Vec<bool> = terminated.iter().zip(&truncated).map(|(a, b)| a | b).collect();
        let finals = match final_obs {
            Some(given) if ended.contains(&true) => {
                Some(final_columns(&self.columns, given, &ended)?)
            }
            _ => None,
        };
        let nexts = next_obs
            .map(|given| whole_columns(&self.columns, "next_obs", &given, Leading::Lanes(lanes)));
        let nexts = nexts.transpose()?;
        let rows: Vec<&[u8]> =
            arrays.iter().map(|array| bytes_of(array).unwrap_or_default()).collect();
        let [next_rows, final_rows] = [&nexts, &finals].map(|given| {
            let columns = given.as_ref()?.iter().map(FinalColumn::bytes);
            Some(columns.collect::<Vec<&[u8]>>())
        });
        let step = Step {
            columns: &rows,
            terminated: &terminated,
            truncated: &truncated,
            next_obs: next_rows.as_deref(),
            final_obs: final_rows.as_deref(),
        };
        let mut signal = None;
        // Asked only while the append waits for a lease.
        let mut interrupted = || {
            signal = Python::attach(|py| py.check_signals().err());
            signal.is_some()
        };
        let appended = py.detach(|| {
            self.handle.with(|pen| {
                let writer = pen.free()?;
                let index = writer.append_until(&step, &mut interrupted)?;
                let index: Vec<i64> = index.iter().map(|row| row.0).collect();
                Ok((index, writer.has_news()))
            })
        });
        if let Some(raised) = signal {
            return Err(raised.into());
        }
        let (index, has_news) = appended?;
        if has_news {
            self.complain(py)?;
        }
        Ok(PyArray1::from_slice(py, &index))
    }

    /// Append many steps in one call, as so many calls of ``append`` would.
    ///
    /// Everything that can be checked is checked before the first step. Rows of one lane are copied
    /// up to 64 at a time, so that a writer of one lane fills it about as fast as memory is copied.
    ///
    /// Parameters
    /// ----------
    /// terminated, truncated : array_like of bool, shape (steps, lanes)
    ///     How each action ended its episode, if it did.
    /// next_obs : array_like or dict, shape (steps, lanes, ...), optional
    ///     What ``env.step`` returned, as for :meth:`append`.
    /// final_obs : array_like or dict, shape (steps, lanes, ...), optional
    ///     The last observations of episodes, where they ended; other places are not read. Needed as for
    ///     :meth:`append`.
    /// **columns : array_like or dict, shape (steps, lanes, ...)
    ///     Every column of the schema by name, as for :meth:`append`. With one lane its axis may be
    ///     left out, of the flags too.
    ///
    /// Returns
    /// -------
    /// ndarray of int64, shape (steps, lanes)
    ///     Where each row went, as from :meth:`append`.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If a column is missing, unknown, doubled, or of another dtype or shape; nothing was
    ///     appended then.
    /// LeaseError
    ///     If the ring's ``lane_policy`` is ``"fail"`` and a lease is in the way of a step: those
    ///     before it stay, and the message says how many they are.
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
        refuse_strangers(extra, None, method::<Self>("extend"))?;
        extend::closely(self, py, [terminated, truncated, next_obs, final_obs], columns)
    }

    /// Begin a new episode without having seen the end of the old one.
    ///
    /// The next row of these lanes does not continue the row before it: no transition leads from
    /// one to the other. For an environment that was reset in mid-episode or replaced. Where the last
    /// append had a ``next_obs``, that ends the old episode, and its last transition is kept.
    ///
    /// Parameters
    /// ----------
    /// lanes : array_like of bool, shape (lanes,), optional
    ///     Which lanes; all of them when left out.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If ``lanes`` is not one boolean per lane.
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
    #[pyo3(signature = (lanes=None, *extra, **unknown), text_signature = "($self, lanes=None)")]
    fn restart<'py>(
        &self,
        py: Python<'py>,
        lanes: Option<&Bound<'py, PyAny>>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<(), Failure> {
        refuse_strangers(extra, unknown, method::<Self>("restart"))?;
        let chosen = match lanes {
            Some(given) => {
                refuse_numbers_of_lanes(given)?;
                self.flags("lanes", Some(given))?
            }
            None => vec![true; self.lanes.len()],
        };
        let mut signal = None;
        let mut interrupted = || {
            signal = Python::attach(|py| py.check_signals().err());
            signal.is_some()
        };
        let restarted = py.detach(|| {
            self.handle.with(|pen| Ok(pen.free()?.restart_until(&chosen, &mut interrupted)?))
        });
        signal.map_or(restarted, |raised| Err(raised.into()))
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

    /// How the environments reset: ``"next_step"``, ``"same_step"`` or ``"disabled"``.
    #[getter]
    fn autoreset_mode(&self) -> String {
        self.mode.to_string()
    }

    /// Rows that this writer has published, FINAL ones included. Asking waits for no lease.
    #[getter]
    fn rows_written(&self) -> Result<u64, Failure> {
        let before = || self.counts.rows_written_before_the_wait();
        self.handle.with_or(|pen| Ok(pen.writer.rows_written()), before)
    }

    /// Rows that were dropped because a lease was in the way, as the ring's ``lane_policy`` says.
    ///
    /// For each there was a -1 in place of an index; the final row of an episode whose end was dropped is
    /// one of them. Asking waits for nobody.
    #[getter]
    fn rows_dropped(&self) -> Result<u64, Failure> {
        self.handle.check_is_open()?;
        Ok(self.counts.rows_dropped())
    }

    /// Release the lanes; a reserved row is given up. Closing again does nothing.
    ///
    /// A ``next_obs`` that waits for the next append ends its episode, so that the last transition can be
    /// drawn.
    ///
    /// Raises
    /// ------
    /// LeaseError
    ///     If a lease leaves no room for that and the ring's ``lane_policy`` is ``"fail"``; the writer is
    ///     closed.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn close<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<(), Failure> {
        refuse_strangers(extra, unknown, method::<Self>("close"))?;
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
            Kind::ArgumentType,
            format!(
                "{} cannot be pickled or copied, since nobody else may write its lanes; pickle the \
                 ReplayBuffer and make a writer from it",
                self.handle.label()
            ),
        ))
    }
}

/// Row indices, as the bytes of an array of int64.
fn put_indices(bytes: &mut [u8], rows: &[RowIndex]) {
    for (place, row) in bytes.chunks_exact_mut(size_of::<i64>()).zip(rows) {
        place.copy_from_slice(&row.0.to_ne_bytes());
    }
}

/// `Writer.append` as the interpreter calls it.
pub(crate) struct Append;

impl FastMethod for Append {
    type Class = Writer;
    const NAME: &'static str = "append";

    fn call<'py>(writer: &Writer, call: Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(done) = writer.append_at_once(call) {
            return Ok(done?);
        }
        let Taken { extra, ends, named } = Taken::of(call)?;
        let [terminated, truncated, next_obs, final_obs] = ends.each_ref().map(Option::as_ref);
        let named = Some(&named);
        let indices =
            writer.append(call.py(), &extra, terminated, truncated, next_obs, final_obs, named)?;
        Ok(indices.into_any())
    }
}

/// The arguments of an append, taken apart.
pub(crate) struct Taken<'py> {
    pub(crate) extra: Bound<'py, PyTuple>,
    /// `terminated`, `truncated`, `next_obs` and `final_obs`.
    pub(crate) ends: [Option<Bound<'py, PyAny>>; 4],
    /// The columns.
    pub(crate) named: Bound<'py, PyDict>,
}

impl<'py> Taken<'py> {
    pub(crate) fn of(call: Call<'_, 'py>) -> PyResult<Self> {
        let (extra, named) = call.unpack()?;
        let take = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
            let value = named.get_item(name)?;
            if value.is_some() {
                named.del_item(name)?;
            }
            Ok(value.filter(|value| !value.is_none()))
        };
        let ends = [take("terminated")?, take("truncated")?, take("next_obs")?, take("final_obs")?];
        Ok(Self { extra, ends, named })
    }
}

/// Ascending numbers, neighbours drawn together: `0-3, 7`.
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

fn complaint(stall: &Stall) -> String {
    let Stall { lane, slot, pid, start, waited, dropped } = stall;
    let (what, waited_ms) =
        (if *dropped { "dropped its row" } else { "went on" }, waited.as_millis());
    format!(
        "lane {lane} waited {waited_ms} ms for a lease of rows from {start} on, held by process {pid} \
         (reader slot {slot}), and then {what}; hold leases for a shorter time, copy rows with \
         rows(), or create the ring with a larger capacity"
    )
}

/// Refuses numbers in place of a mask: `[0, 1]` may mean two lanes, or one of two.
fn refuse_numbers_of_lanes(given: &Bound<'_, PyAny>) -> Result<(), Failure> {
    let py = given.py();
    let asarray = py.import("numpy")?.getattr("asarray")?;
    // What makes no array is refused with the mask's own words.
    let Ok(array) = asarray.call1((given,)) else { return Ok(()) };
    let dtype = array.getattr("dtype")?;
    if dtype.getattr("kind")?.extract::<String>()? == "b" {
        return Ok(());
    }
    let text =
        format!("`lanes` holds {dtype} values; give booleans, one for each lane of the writer");
    Err(Failure::new(Kind::Append, text))
}
