//! `Writer.reserve`: the next row as writable arrays over the ring's memory.

mod open;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backcast_core::plumbing::{LaneAlias, closest_name};
use backcast_core::{AppendError, Ends, ObsBytes, Role, RowIndex};
use backcast_pybind_macros::exact_arguments;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use self::open::{Observed, Open, Reservation, ReservedColumn, lock, unreserve, withdraw};
pub(crate) use self::open::{Opened, give_up};
use crate::argument::{Argument, no_constructor, text_of};
use crate::array::convert::{LeadingAxes, Target, array_of, descr};
use crate::array::nested::insert;
use crate::array::view::{FreshArray, bytes_of, row_view};
use crate::error::{ErrorClass, Failure, on_drop, reworded};
use crate::replay::writer::Writer;
use crate::replay::writer::observations::observation_columns;

/// Base object of the arrays of a reserved row.
#[pyclass(module = "backcast._native", name = "RowMemory", frozen)]
pub(crate) struct RowMemory {
    #[expect(dead_code, reason = "held for its drop; the arrays have its addresses")]
    window: Arc<LaneAlias>,
}

/// The next row of a writer, to be written in place.
///
/// Made by :meth:`backcast.Writer.reserve`; a context manager. Its items are writable arrays. In a
/// named ring on Linux they are the ring's own memory: values written into them are not copied.
/// Leaving the block publishes the row, an exception discards it. Then the arrays are read-only. An
/// array that the caller kept, and every view of it, is moved to private memory, so that it cannot
/// reach the ring.
///
/// Examples
/// --------
/// >>> columns = {"obs": ("f4", (3,)), "action": "i4"}
/// >>> buf = bc.ReplayBuffer.create(None, columns, capacity=100)
/// >>> with buf.writer() as writer:
/// ...     with writer.reserve() as row:
/// ...         row["obs"][:] = [1, 2, 3]
/// ...         row["action"] = 7
/// ...         row.terminated, row.next_obs = True, [4, 5, 6]
/// >>> row.index, buf.rows(0, 0, 1)["obs"]
/// (0, array([[1., 2., 3.]], dtype=float32))
#[pyclass(module = "backcast.types", name = "ReservedRow", frozen)]
pub(crate) struct ReservedRow {
    writer: Py<Writer>,
    open: Arc<Opened>,
    /// Index of the row, known after the commit.
    index: Mutex<Option<i64>>,
}

impl ReservedRow {
    fn make(py: Python<'_>, writer: Py<Writer>, found: Reservation) -> Result<Self, Failure> {
        let memory = found.window.as_ref().map(|window| {
            Ok::<_, PyErr>(Py::new(py, RowMemory { window: Arc::clone(window) })?.into_any())
        });
        let memory = memory.transpose()?;
        let dict = PyDict::new(py);
        let schema = writer.get().schema.0.clone();
        let mut columns = Vec::new();
        for (column, place) in schema.columns().iter().zip(found.places) {
            let shape: Vec<usize> = column.shape().iter().map(|axis| *axis as usize).collect();
            let dtype = descr(py, column.dtype())?;
            let array = if let (Some(address), Some(memory)) = (place, &memory) {
                row_view(memory.bind(py), address, &dtype, &shape)?
            } else {
                let mut fresh = FreshArray::allocate(py, &dtype, &shape)?;
                fresh.bytes_mut().fill(0);
                fresh.into_array()
            };
            insert(&dict, column.name(), &array)?;
            let (column, in_place) = (column.clone(), place.is_some());
            columns.push(ReservedColumn { column, array: array.unbind(), in_place, asked: false });
        }
        let Reservation { window, slot, is_final, .. } = found;
        let open = Open {
            columns,
            dict: dict.unbind(),
            window,
            slot,
            ends: (false, false),
            next_obs: None,
            final_obs: None,
            is_final,
        };
        let open = Arc::new(Mutex::new(Some(open)));
        *writer.get().row.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&open));
        Ok(Self { writer, open, index: Mutex::new(None) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        lock(&self.open)
    }

    fn with_open<R>(
        &self,
        work: impl FnOnce(&mut Open) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        // A forked child does not have the memory of the arrays.
        self.writer.get().handle.check_process()?;
        match self.lock().as_mut() {
            Some(open) => work(open),
            None => Err(Failure::new(
                ErrorClass::Closed,
                "the reserved row was published or discarded; call `reserve` for the next",
            )),
        }
    }

    fn publish(&self, py: Python<'_>) -> Result<i64, Failure> {
        self.with_open(|open| {
            let missed = open.columns.iter().find(|column| {
                !column.asked && (!open.is_final || column.column.role() == Role::Obs)
            });
            match missed {
                Some(column) => {
                    let name = column.column.name().to_owned();
                    Err(AppendError::NotWritten { name }.into())
                }
                None => Ok(()),
            }
        })?;
        let Some(open) = withdraw(py, self.writer.get(), &self.open)? else {
            return self.with_open(|_| Ok(0));
        };
        let staged: Vec<(usize, Bound<'_, PyUntypedArray>)> = (0..)
            .zip(&open.columns)
            .filter(|(_, column)| !column.in_place)
            .map(|(at, column)| (at, column.array.bind(py).clone()))
            .collect();
        let bytes: Vec<(usize, &[u8])> =
            staged.iter().map(|(at, array)| (*at, bytes_of(array).unwrap_or_default())).collect();
        let (terminated, truncated) = open.ends;
        let [next, last] =
            [&open.next_obs, &open.final_obs].map(|given| given.as_ref().map(Observed::rows));
        let schema = &self.writer.get().schema.0;
        let obs = |columns| ObsBytes { schema, columns };
        let (next_obs, final_obs) = (next.as_deref().map(obs), last.as_deref().map(obs));
        let ends = Ends { terminated, truncated, next_obs, final_obs };
        let committed = py.detach(|| {
            self.writer.get().handle.with_uninterrupted(|state| {
                let row = unreserve(state);
                let row = row.and_then(|row| state.writer.resume(&row));
                let Some(mut row) = row else {
                    return Err(Failure::new(
                        ErrorClass::Append,
                        "the row is gone; reserve another",
                    ));
                };
                for (at, bytes) in bytes {
                    row.write_bytes(at, bytes)?;
                }
                if let Some(window) = &open.window {
                    // Columns written in place are marked as written.
                    for (at, column) in open.columns.iter().enumerate().filter(|(_, h)| h.in_place)
                    {
                        if row.place(window, at).is_none() {
                            let name = column.column.name().to_owned();
                            return Err(AppendError::NotWritten { name }.into());
                        }
                    }
                }
                Ok((row.commit_with(&ends)?, state.writer.has_warnings()))
            })
        });
        let (index, has_warnings) = committed?;
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = Some(index.0);
        if has_warnings {
            self.writer.get().warn_pending(py)?;
        }
        Ok(index.0)
    }

    fn observe(
        &self,
        name: &'static str,
        given: &Bound<'_, PyAny>,
    ) -> Result<Option<Observed>, Failure> {
        if given.is_none() {
            return Ok(None);
        }
        let columns = &self.writer.get().columns;
        let columns = observation_columns(columns, name, given, LeadingAxes::Lanes(1))?;
        let columns = columns.iter().map(|column| column.bytes().to_vec()).collect();
        Ok(Some(Observed { given: given.clone().unbind(), columns }))
    }

    fn give_up(&self, py: Python<'_>) -> Result<(), Failure> {
        give_up(py, self.writer.get(), &self.open)
    }
}

#[exact_arguments]
#[pymethods]
impl Writer {
    /// Reserve the next row, to be written in place.
    ///
    /// Needs a writer of one lane. The row is a context manager whose items are arrays; an
    /// environment that fills ``row["obs"]`` writes its observation once, into the ring. Every
    /// column must be accessed or set. Waits for the rate limiter and for a lease like
    /// :meth:`append`. In a private ring, and on systems other than Linux, the arrays are memory of
    /// this process, which is copied into the ring when the row is published.
    ///
    /// An end needs ``row.next_obs`` or ``row.final_obs``, like :meth:`append`. In the mode
    /// ``"next_step"`` the row after an end is the FINAL row instead. Its observations are the
    /// final ones, and its other columns are ignored.
    ///
    /// Returns
    /// -------
    /// ReservedRow
    ///     Until it is published or abandoned, the writer appends nothing else.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If the writer has several lanes, or a row is reserved already.
    /// RateLimitError, RateLimitTimeoutError
    ///     If :meth:`append` would raise it.
    /// LeaseError
    ///     If a lease blocks the row and the ring's ``lane_policy`` is ``"fail"``.
    /// StorageError
    ///     If the lane cannot be mapped again for the arrays.
    /// ClosedError
    ///     If the writer was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn reserve(slf: &Bound<'_, Self>) -> Result<ReservedRow, Failure> {
        let (py, this) = (slf.py(), slf.get());
        let found = py.detach(|| this.handle.with(Reservation::of))?;
        let made = ReservedRow::make(py, slf.clone().unbind(), found);
        if made.is_err() {
            let _ = this.handle.with_uninterrupted(|state| {
                unreserve(state);
                Ok(())
            });
        }
        made
    }
}

#[exact_arguments]
#[pymethods]
impl ReservedRow {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("ReservedRow", "call writer.reserve()"))
    }

    /// Return the writable array of a column, or a dict of arrays for a group.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     A column, such as ``"obs"`` or ``"obs/image"``, or the part before a ``/`` that several
    ///     columns share.
    ///
    /// Returns
    /// -------
    /// ndarray or dict
    ///     Array of the column's shape, ``()`` for a single number.
    ///
    /// Raises
    /// ------
    /// ColumnError
    ///     If there is no such column; also a ``KeyError``.
    /// ClosedError
    ///     If the row was published or abandoned.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name.get("name", "a column, such as `obs`")?;
        self.with_open(|open| {
            let below = format!("{name}/");
            let mut found = Some(open.dict.bind(py).clone().into_any());
            for key in name.split('/') {
                let inner = found.and_then(|dict| dict.cast_into::<PyDict>().ok());
                found = inner.and_then(|dict| dict.get_item(key).ok().flatten());
            }
            let Some(found) = found else {
                let known: Vec<&str> =
                    open.columns.iter().map(|column| column.column.name()).collect();
                let hint = closest_name(&name, known.iter().copied())
                    .map_or_else(|| "it".to_owned(), |near| format!("did you mean `{near}`? It"));
                let known = known.join(", ");
                let text = format!("the reserved row has no column `{name}`; {hint} has {known}");
                return Err(Failure::new(ErrorClass::Column, text));
            };
            for column in &mut open.columns {
                column.asked |=
                    column.column.name() == name || column.column.name().starts_with(&below);
            }
            Ok(found)
        })
    }

    /// Write a whole column: ``row["reward"] = 1.0``.
    ///
    /// Converts values to the column's dtype as :meth:`backcast.Writer.append` does, or refuses
    /// them. A single number is written to all elements. NumPy casts values that are written into
    /// an array (``row["obs"][:] = ...``) by its own rules.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If a value does not fit the column's dtype or shape.
    /// ColumnError
    ///     If there is no such column; also a ``KeyError``.
    /// ArgumentTypeError
    ///     If the name stands for several columns.
    /// ClosedError
    ///     If the row was published or abandoned.
    fn __setitem__(
        &self,
        py: Python<'_>,
        name: Argument<String>,
        value: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        let what = name.get("name", "a column, such as `obs`")?;
        let known = self.with_open(|open| Ok(open.names_below(&what)))?;
        if !known.is_empty() {
            let known: Vec<String> = known.iter().map(|name| format!("row[\"{name}\"]")).collect();
            return Err(Failure::new(
                ErrorClass::ArgumentType,
                format!(
                    "row[\"{what}\"] is several columns; write each of them: {}",
                    known.join(", ")
                ),
            ));
        }
        let place = self.__getitem__(py, what.clone().into())?;
        let dtype = self.with_open(|open| {
            let column = open.columns.iter().find(|column| column.column.name() == what);
            Ok(column.map(|column| column.column.dtype()))
        })?;
        let Some(dtype) = dtype else { return Ok(()) };
        let what = format!("column `{what}`");
        let target = Target { what: &what, class: ErrorClass::Append, dtype };
        let array = array_of(value, target)?;
        place.set_item(py.Ellipsis(), array).map_err(|raised| {
            reworded(py, raised, |error| {
                let said = text_of(error.value(py).as_any())?;
                Ok(target.refuse(format!("{said}; give the column's own shape")))
            })
        })
    }

    /// Return the top-level names: ``obs`` for a column ``obs/image``.
    ///
    /// Returns
    /// -------
    /// list of str
    #[pyo3(signature = (), text_signature = "($self)")]
    fn keys(&self) -> Result<Vec<String>, Failure> {
        Ok(self.writer.get().columns.keys())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.writer.get().columns.keys().into_pyobject(py)?.call_method0("__iter__")
    }

    fn __len__(&self) -> usize {
        self.writer.get().columns.keys().len()
    }

    /// Returns True for any row, although it has a length.
    #[expect(clippy::unused_self, reason = "what Python calls")]
    fn __bool__(&self) -> bool {
        true
    }

    fn __contains__(&self, name: Argument<String>) -> bool {
        let Argument::Value(name) = name else { return false };
        self.writer.get().columns.has(&name)
    }

    fn _ipython_key_completions_(&self) -> Vec<String> {
        self.writer.get().columns.keys()
    }

    /// Whether the action of this row ended the episode. False until the caller sets it.
    #[getter]
    fn terminated(&self) -> Result<bool, Failure> {
        self.with_open(|open| Ok(open.ends.0))
    }

    #[setter]
    fn set_terminated(&self, given: Argument<bool>) -> Result<(), Failure> {
        let ended = given.get("terminated", "True or False")?;
        self.with_open(|open| {
            open.ends.0 = ended;
            Ok(())
        })
    }

    /// Whether the episode was truncated after this row. False until the caller sets it.
    #[getter]
    fn truncated(&self) -> Result<bool, Failure> {
        self.with_open(|open| Ok(open.ends.1))
    }

    #[setter]
    fn set_truncated(&self, given: Argument<bool>) -> Result<(), Failure> {
        let ended = given.get("truncated", "True or False")?;
        self.with_open(|open| {
            open.ends.1 = ended;
            Ok(())
        })
    }

    /// Next observation, as :meth:`backcast.Writer.append` takes it. None until the caller sets it.
    #[getter]
    fn next_obs(&self, py: Python<'_>) -> Result<Option<Py<PyAny>>, Failure> {
        self.with_open(|open| Ok(open.next_obs.as_ref().map(|next| next.given.clone_ref(py))))
    }

    #[setter]
    fn set_next_obs(&self, given: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let observed = self.observe("next_obs", given)?;
        self.with_open(|open| {
            open.next_obs = observed;
            Ok(())
        })
    }

    /// The last observation of an episode that ends with this row, or None until it is set.
    ///
    /// Takes the same values as :meth:`backcast.Writer.append`.
    #[getter]
    fn final_obs(&self, py: Python<'_>) -> Result<Option<Py<PyAny>>, Failure> {
        self.with_open(|open| Ok(open.final_obs.as_ref().map(|last| last.given.clone_ref(py))))
    }

    #[setter]
    fn set_final_obs(&self, given: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let observed = self.observe("final_obs", given)?;
        self.with_open(|open| {
            open.final_obs = observed;
            Ok(())
        })
    }

    /// Whether this is the FINAL row of an episode, of which only observations are stored.
    #[getter]
    fn is_final(&self) -> Result<bool, Failure> {
        self.with_open(|open| Ok(open.is_final))
    }

    /// Index of the row, as from :meth:`backcast.Writer.append`; None before it is published.
    #[getter]
    fn index(&self) -> Option<i64> {
        *self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the row was published or abandoned.
    #[getter]
    fn closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Publish the row, as leaving the block does.
    ///
    /// Returns
    /// -------
    /// int
    ///     Index of the row, ``lane << 48 | seq``; -1 if it was dropped because a lease blocked it.
    ///
    /// Raises
    /// ------
    /// AppendError
    ///     If a column was neither accessed nor set, or an end lacks its observation.
    /// ClosedError
    ///     If the row was already published or abandoned.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn commit(&self, py: Python<'_>) -> Result<i64, Failure> {
        self.publish(py)
    }

    /// Abandon the row, so that the writer can continue. Calling it again does nothing.
    ///
    /// Raises
    /// ------
    /// StorageError
    ///     If an array was kept and memory for its private copy cannot be allocated; try again.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn abort(&self, py: Python<'_>) -> Result<(), Failure> {
        self.give_up(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        if !exception.is_none() {
            return self.give_up(py);
        }
        if self.closed() {
            return Ok(());
        }
        let published = self.publish(py);
        if published.is_err() {
            self.give_up(py)?;
        }
        published.map(drop)
    }

    fn __repr__(&self) -> String {
        let state = match (self.closed(), self.index()) {
            (false, _) => "open".to_owned(),
            (true, Some(index)) if index == RowIndex::NONE.0 => "dropped".to_owned(),
            (true, Some(index)) => format!("published as {index}"),
            (true, None) => "discarded".to_owned(),
        };
        format!("<backcast.types.ReservedRow: of {}, {state}>", self.writer.get().handle.label())
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        let label = self.writer.get().handle.label();
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!("a reserved row of {label} cannot be pickled or copied; copy its arrays"),
        ))
    }
}

impl Drop for ReservedRow {
    fn drop(&mut self) {
        on_drop(|py| {
            let _ = self.give_up(py);
        });
    }
}
