//! `backcast.types.LearnedTable`: values that learners attach to the rows of a ring.

use backcast_core::plumbing::closest_name;
use backcast_core::{DType, LearnedOptions, LearnedValues, Ring};
use backcast_pybind_macros::exact_arguments;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyByteArray, PyBytes, PyDict, PyString, PyTuple};

use crate::argument::{found, no_constructor, repr_of, required, wrong_type};
use crate::array::convert::{self, Target, array_of, descr, dtype_of};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;

/// Description of the argument `index`.
const INDEX: &str = "what a batch has as its index, or append returned";

/// Columns of values that learners attach to the rows of a ring, such as value estimates.
///
/// Made by :meth:`backcast.ReplayBuffer.table`; a context manager. The values live in shared
/// memory, beside the ring: every process that opens the table sees them, and any may set them,
/// without a lock. A value and its row's generation are one word. So a process that is killed
/// leaves the old value or the new one, and a value is never taken for that of a newer row. Writers
/// never change the values.
///
/// ``buf.sampler(learned=table)`` joins them to every batch.
///
/// Examples
/// --------
/// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
/// >>> with buf.writer() as writer:
/// ...     for t in range(10):
/// ...         at = writer.append(obs=t, terminated=False, truncated=False)
/// >>> table = buf.table("online", learned={"value": "f4", "visits": "u2"})
/// >>> batch = buf.sampler(seed=7).sample(32)
/// >>> table.update_values(batch.index, value=batch["obs"] / 2)
/// 0
/// >>> joined = buf.sampler(learned=table).gather(batch.index)
/// >>> bool((joined["value"] == joined["obs"] / 2).all()), bool(joined["visits_set"].any())
/// (True, False)
#[pyclass(module = "backcast.types", name = "LearnedTable", frozen)]
pub(crate) struct LearnedTable {
    handle: Handle<LearnedValues>,
    options: LearnedOptions,
}

impl LearnedTable {
    /// Opens a table of a ring, or creates it. Without options, the table must exist.
    pub(crate) fn open(
        ring: &Ring,
        label: &str,
        name: &str,
        options: Option<LearnedOptions>,
    ) -> Result<Self, Failure> {
        let options = match options {
            Some(options) => options,
            None => ring.learned_options(name)?,
        };
        let values = ring.learned(&options)?;
        let label = format!("the table '{name}' of {label}");
        Ok(Self { handle: Handle::new(label, "call `table` again for another", values), options })
    }

    /// Reads the columns of a new table.
    pub(crate) fn options(
        name: &str,
        columns: &Bound<'_, PyAny>,
    ) -> Result<LearnedOptions, Failure> {
        let wanted = "a dict of names and dtypes, such as {\"value\": \"f4\"}";
        let Ok(columns) = columns.cast::<PyDict>() else {
            return Err(wrong_type(columns, "learned", wanted));
        };
        let mut options = LearnedOptions::new(name);
        for (key, dtype) in columns {
            let Some(column) = found(key.py(), key.extract::<String>())? else {
                return Err(wrong_type(&key, "a key of learned", "the name of a column"));
            };
            if dtype.is_instance_of::<PyTuple>() {
                let message = format!(
                    "learned column `{column}`: {} is a tuple, and a learned column holds one \
                     number for each row; give a dtype alone, such as \"f4\", and a column for \
                     each number",
                    repr_of(&dtype)?
                );
                return Err(Failure::new(ErrorClass::Schema, message));
            }
            options = options.column(&column, dtype_of(&column, &dtype, "")?);
        }
        Ok(options)
    }

    /// Closes the table.
    fn release(&self, py: Python<'_>) -> Result<(), Failure> {
        drop(py.detach(|| self.handle.take())?);
        Ok(())
    }
}

/// Table of learned columns whose values a sampler joins: a table, or the name of one.
pub(crate) enum JoinedTable {
    Open(LearnedOptions),
    Named(String),
}

impl JoinedTable {
    /// Reads the `learned` argument of a sampler.
    pub(crate) fn given(value: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        if let Ok(table) = value.cast::<LearnedTable>() {
            return Ok(Self::Open(table.get().options.clone()));
        }
        if value.is_instance_of::<PyString>()
            && let Some(name) = found(value.py(), value.extract::<String>())?
        {
            return Ok(Self::Named(name));
        }
        Err(wrong_type(value, "learned", "what buf.table(...) returned, or the name of a table"))
    }

    /// Returns name and columns of the table.
    pub(crate) fn options(self, ring: &Ring) -> Result<LearnedOptions, Failure> {
        match self {
            Self::Open(options) => Ok(options),
            Self::Named(name) => Ok(ring.learned_options(&name)?),
        }
    }
}

/// Returns the bytes of an argument's elements, converted to the dtype of its column.
fn bytes_of<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    dtype: DType,
) -> Result<Bound<'py, PyBytes>, Failure> {
    let target = Target { what: name, class: ErrorClass::Sample, dtype };
    let bytes = array_of(value, target)?.call_method0("tobytes")?;
    Ok(bytes.cast_into::<PyBytes>().map_err(PyErr::from)?)
}

#[exact_arguments]
#[pymethods]
impl LearnedTable {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("LearnedTable", "call buf.table(name, learned={\"value\": \"f4\"})"))
    }

    /// Set values of rows, from any process.
    ///
    /// Each value is one atomic change, without a lock. Columns of one call are set one after the
    /// other: a reader may see the new value of one beside the old value of another.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, any shape
    ///     Indices as in :attr:`backcast.Batch.index`, or as :meth:`backcast.Writer.append`
    ///     returned them.
    /// **values : array_like
    ///     One value for each index, by column. If a row is given twice, the later value counts.
    ///
    /// Returns
    /// -------
    /// int
    ///     Number of indices whose values were not set, because their row was overwritten or
    ///     dropped.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If a column is unknown, the number of values differs from that of the indices, values do
    ///     not fit the dtype, or an index names a row that this ring never had. Nothing was changed
    ///     then.
    /// NotFoundError
    ///     If the table was removed (:meth:`backcast.ReplayBuffer.remove_table`).
    /// ClosedError
    ///     If the table was closed.
    #[pyo3(signature = (index=None, *others, **values))]
    #[pyo3(text_signature = "($self, index, **values)")]
    fn update_values(
        &self,
        py: Python<'_>,
        index: Option<&Bound<'_, PyAny>>,
        others: &Bound<'_, PyTuple>,
        values: Option<&Bound<'_, PyDict>>,
    ) -> Result<u64, Failure> {
        let known = || {
            let names = self.options.columns().iter().map(|column| column.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        if !others.is_empty() {
            let message =
                format!("values are given by column, such as value=...; here: {}", known());
            return Err(Failure::new(ErrorClass::ArgumentType, message));
        }
        let mut given = Vec::new();
        for (name, value) in values.into_iter().flatten() {
            let name: String = name.extract()?;
            let column = self.options.columns().iter().find(|column| column.name == name);
            let Some(column) = column else {
                let table = self.options.name();
                let names = self.options.columns().iter().map(|column| column.name.as_str());
                let hint = closest_name(&name, names.chain(["index"]))
                    .map_or_else(String::new, |near| format!("did you mean `{near}`? Otherwise "));
                let message = format!(
                    "the table '{table}' has no column `{name}`; {hint}give values of {}",
                    known()
                );
                return Err(Failure::new(ErrorClass::Sample, message));
            };
            given.push((bytes_of(&value, &name, column.dtype)?, name));
        }
        let index = required(index, "index", INDEX)?;
        let index = convert::row_indices(index)?;
        if given.is_empty() {
            let message = format!("no values are given; give some of {}", known());
            return Err(Failure::new(ErrorClass::Sample, message));
        }
        let given: Vec<(&str, &[u8])> =
            given.iter().map(|(bytes, name)| (name.as_str(), bytes.as_bytes())).collect();
        py.detach(|| self.handle.with(|table| Ok(table.update_bytes(&index, &given)?)))
    }

    /// Return values of rows.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, any shape
    ///     Indices as in :attr:`backcast.Batch.index`; ``B`` is their number, in C order.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Each column, ``[B]``, and beside it, with ``_set`` behind its name, whether the value
    ///     was set, bool ``[B]``. Values that were not set are 0. Those of overwritten and of
    ///     dropped rows are not set.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If an index is not an integer of 64 bits, or there are more than ``2**24``.
    /// NotFoundError
    ///     If the table was removed (:meth:`backcast.ReplayBuffer.remove_table`).
    /// ClosedError
    ///     If the table was closed.
    #[pyo3(signature = (index=None), text_signature = "($self, index)")]
    fn values<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        static FROMBUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let index = required(index, "index", INDEX)?;
        let index = convert::row_indices(index)?;
        let read = || {
            self.handle.with(|table| {
                let columns = self.options.columns().iter();
                let read = columns.map(|column| table.value_bytes(&column.name, &index));
                Ok(read.collect::<Result<Vec<_>, _>>()?)
            })
        };
        let found = py.detach(read)?;
        let frombuffer = FROMBUFFER.import(py, "numpy", "frombuffer")?;
        let values = PyDict::new(py);
        for (column, (bytes, set)) in self.options.columns().iter().zip(found) {
            let array =
                frombuffer.call1((PyByteArray::new(py, &bytes), descr(py, column.dtype)?))?;
            values.set_item(&column.name, array)?;
            values.set_item(format!("{}_set", column.name), PyArray1::from_vec(py, set))?;
        }
        Ok(values)
    }

    /// Return counters of the table, of all processes together.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``updated``: values that were set; ``stale``: values that were not set because their row
    ///     was overwritten or dropped.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the table was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let counters = self.handle.with(|table| Ok(table.counters()))?;
        let dict = PyDict::new(py);
        dict.set_item("updated", counters.updated)?;
        dict.set_item("stale", counters.stale)?;
        Ok(dict)
    }

    /// Name of the table.
    #[getter]
    fn name(&self) -> &str {
        self.options.name()
    }

    /// Dtypes of the columns, by name.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for column in self.options.columns() {
            columns.set_item(&column.name, column.dtype.code())?;
        }
        Ok(columns)
    }

    /// Release the ring; the table stays with it. Closing again does nothing.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.release(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.release(py)
    }

    fn __repr__(&self) -> String {
        let state = self.handle.describe(|table| {
            let columns = table.columns().iter();
            let columns = columns.map(|column| format!("{} {}", column.name, column.dtype));
            format!(
                "{}; {} values set",
                columns.collect::<Vec<_>>().join(", "),
                table.counters().updated
            )
        });
        format!("<backcast.types.LearnedTable: {}, {state}>", self.handle.label())
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{} cannot be pickled or copied; pickle the ReplayBuffer and call `table` there",
                self.handle.label()
            ),
        ))
    }
}
