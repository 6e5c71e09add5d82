//! `backcast.types.Lease`: rows of a lane in place, as read-only arrays that keep writers out.

pub(crate) mod tracked;

use std::collections::BTreeSet;
use std::sync::Arc;

use backcast_core::plumbing::closest_name;
use backcast_core::{Column, Lease as CoreLease};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::argument::{Argument, no_constructor};
use crate::array::convert::descr;
use crate::array::nested::insert;
use crate::array::view::read_only_view;
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;
use crate::replay::lease::tracked::TrackedLease;
use crate::warning::warn;

/// Base object of a lease's arrays. A slice of a slice keeps it, and with it the rows.
#[pyclass(module = "backcast._native", name = "LeaseHold", frozen)]
pub(crate) struct LeaseHold(Handle<Arc<TrackedLease>>);

#[pymethods]
impl LeaseHold {
    fn __repr__(&self) -> String {
        format!("<backcast.LeaseHold: {}>", self.0.label())
    }
}

/// Consecutive rows of one lane, read in place without a copy.
///
/// Made by :meth:`backcast.ReplayBuffer.lease`; a context manager. While it or any array from it
/// lives, no writer overwrites the rows. The arrays are read-only and stay valid when the ring is
/// closed or removed; a slice of one keeps all rows pinned. Once closed, the lease ends when its
/// last array is gone. A writer that would overwrite the rows follows the ring's ``lane_policy``,
/// so close leases soon and copy what you want to keep. The holder of a lease that blocked a writer
/// gets one :class:`backcast.errors.LeaseWarning`: from :meth:`close`, when the last array is gone,
/// or at interpreter exit.
///
/// Column names are keys: ``lease["obs"]`` is an array ``[length, ...]``, or a dict of arrays where
/// names hold a ``/``. The built-in columns ``seq``, ``episode``, ``t`` and ``flags`` are included.
///
/// Examples
/// --------
/// >>> buf = bc.ReplayBuffer.create(None, {"obs": ("f4", (3,)), "reward": "f4"}, capacity=400)
/// >>> with buf.writer() as w:
/// ...     for t in range(100):
/// ...         at = w.append(obs=[t, 0, 0], reward=t, terminated=False, truncated=False)
/// >>> with buf.lease(lane=0, start=10, length=50) as rows:
/// ...     rows["obs"].shape, rows.windows(20)["obs"].shape, float(rows["reward"].mean())
/// ((50, 3), (31, 20, 3), 34.5)
#[pyclass(module = "backcast.types", name = "Lease", frozen)]
pub(crate) struct Lease {
    hold: Handle<Arc<TrackedLease>>,
    columns: Vec<Column>,
    lane: u32,
    start: u64,
    length: usize,
}

impl Lease {
    pub(crate) fn new(ring: &str, lease: CoreLease) -> Self {
        let (lane, range) = lease.place();
        let label =
            format!("the lease of rows {}..{} of lane {lane} of {ring}", range.start, range.end);
        Self {
            columns: lease.columns().to_vec(),
            lane,
            start: range.start,
            length: lease.len(),
            hold: Handle::new(
                label.clone(),
                "call `lease` again for another",
                TrackedLease::new(label, lease),
            ),
        }
    }

    /// Returns the wanted columns as rows, or as windows of `window` rows.
    fn arrays<'py>(
        &self,
        py: Python<'py>,
        wanted: impl Fn(&str) -> bool,
        window: Option<usize>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let lease = self.hold.with(|lease| Ok(Arc::clone(lease)))?;
        let hold = LeaseHold(Handle::new(self.hold.label().to_owned(), "", Arc::clone(&lease)));
        let hold = Bound::new(py, hold)?.into_any();
        let dict = PyDict::new(py);
        for (at, column) in self.columns.iter().enumerate() {
            let Some((address, row)) = lease.address(at).filter(|_| wanted(column.name())) else {
                continue;
            };
            let mut axes = match window {
                Some(window) => vec![(self.length + 1 - window, row), (window, row)],
                None => vec![(self.length, row)],
            };
            let mut stride = column.width();
            for axis in column.shape().iter().map(|axis| *axis as usize) {
                stride /= axis.max(1);
                axes.push((axis, stride));
            }
            let dtype = descr(py, column.dtype())?;
            insert(&dict, column.name(), read_only_view(&hold, address, &dtype, &axes)?)?;
        }
        Ok(dict)
    }

    /// Closes the lease, and warns if writers waited, dropped rows or failed because of it.
    fn shut(&self, py: Python<'_>) -> Result<(), Failure> {
        let Some(held) = py.detach(|| self.hold.take())? else { return Ok(()) };
        let warning = held.take_warning();
        drop(held);
        if let Some(message) = warning {
            warn(py, &message)?;
        }
        Ok(())
    }

    fn names(&self) -> BTreeSet<&str> {
        let top = |column: &'_ Column| column.name().split('/').next().map(str::len);
        self.columns.iter().filter_map(|c| c.name().get(..top(c)?)).collect()
    }
}

#[exact_arguments]
#[pymethods]
impl Lease {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("Lease", "call buf.lease(lane, start, length)"))
    }

    /// Return a column's rows, in place.
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
    ///     Read-only ``[length, ...]``, or a dict of such.
    ///
    /// Raises
    /// ------
    /// ColumnError
    ///     If there is no such column; also a ``KeyError``.
    /// ClosedError
    ///     If the lease was closed.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name.get("name", "a column, such as `obs`; rows are in its array")?;
        let below = format!("{name}/");
        let dict = self.arrays(py, |c| c == name.as_str() || c.starts_with(&below), None)?;
        let mut found = Some(dict.into_any());
        for key in name.split('/') {
            let inner = found.and_then(|dict| dict.cast_into::<PyDict>().ok());
            found = inner.and_then(|dict| dict.get_item(key).ok().flatten());
        }
        found.ok_or_else(|| {
            let known: Vec<&str> = self.columns.iter().map(Column::name).collect();
            let inside = format!("/{name}");
            let near = known.iter().copied().find(|known| known.ends_with(&inside));
            let near = near.or_else(|| closest_name(&name, known.iter().copied()));
            let hint =
                near.map_or_else(|| "it".to_owned(), |near| format!("did you mean `{near}`? It"));
            let known = known.join(", ");
            Failure::new(
                ErrorClass::Column,
                format!("the lease has no column `{name}`; {hint} has {known}"),
            )
        })
    }

    /// Return every window of consecutive rows, in place, as one strided view.
    ///
    /// Windows may cross ends of episodes: ``episode`` and ``flags`` tell where.
    ///
    /// Parameters
    /// ----------
    /// length : int
    ///     Rows of a window, ``H``; at most those of the lease.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Every column, read-only ``[n, H, ...]`` with ``n = lease.length - H + 1``; nested as in
    ///     a batch. Window ``i`` begins at row ``lease.start + i``.
    ///
    /// Raises
    /// ------
    /// LeaseError
    ///     If ``length`` is less than 1 or more than the lease's.
    /// ClosedError
    ///     If the lease was closed.
    #[pyo3(signature = (length=Argument::Missing))]
    #[pyo3(text_signature = "($self, length)")]
    fn windows<'py>(
        &self,
        py: Python<'py>,
        length: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let length = length.get("length", "the rows of a window, from 1 up")?;
        let window = usize::try_from(length).ok().filter(|h| (1..=self.length).contains(h));
        let Some(window) = window else {
            return Err(Failure::new(
                ErrorClass::Lease,
                format!(
                    "length is {length}, the limits are 1 and the {} rows of the lease; ask for \
                     shorter windows or lease more rows",
                    self.length
                ),
            ));
        };
        self.arrays(py, |_| true, Some(window))
    }

    /// Return the top-level names: ``obs`` for a column ``obs/image``.
    ///
    /// Returns
    /// -------
    /// list of str
    #[pyo3(signature = (), text_signature = "($self)")]
    fn keys(&self) -> Result<Vec<&str>, Failure> {
        Ok(self.names().into_iter().collect())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let names: Vec<&str> = self.names().into_iter().collect();
        names.into_pyobject(py)?.call_method0("__iter__")
    }

    fn __len__(&self) -> usize {
        self.names().len()
    }

    fn __contains__(&self, name: Argument<String>) -> bool {
        let Argument::Value(name) = name else { return false };
        let below = format!("{name}/");
        self.columns.iter().any(|c| c.name() == name || c.name().starts_with(&below))
    }

    fn _ipython_key_completions_(&self) -> Vec<&str> {
        self.names().into_iter().collect()
    }

    /// The lane.
    #[getter]
    fn lane(&self) -> u32 {
        self.lane
    }

    /// Sequence number of the first row.
    #[getter]
    fn start(&self) -> u64 {
        self.start
    }

    /// Rows leased.
    #[getter]
    fn length(&self) -> usize {
        self.length
    }

    /// Whether the lease was closed. Its arrays stay valid.
    #[getter]
    fn closed(&self) -> bool {
        self.hold.is_closed()
    }

    /// Appends that waited, dropped rows or failed because of this lease.
    ///
    /// Counts for the oldest lease of a handle on a lane, not for newer ones that it covers.
    #[getter]
    fn stalls(&self) -> Result<u64, Failure> {
        self.hold.with(|lease| Ok(lease.stalls()))
    }

    /// Release the rows as soon as the last array of the lease is gone.
    ///
    /// Closing again does nothing.
    ///
    /// Warns
    /// -----
    /// LeaseWarning
    ///     If a writer had to wait, drop rows or fail, as :attr:`stalls` counts. A lease warns at
    ///     most once. If a writer is first blocked after the close, the lease warns when its last
    ///     array is gone, or at interpreter exit if an array still lives.
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

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{} belongs to its process and cannot be pickled or copied; copy the arrays, or \
                 lease the rows again in the other process",
                self.hold.label()
            ),
        ))
    }

    fn __repr__(&self) -> String {
        let columns = self.columns.len();
        let state =
            self.hold.describe(|lease| format!("{} rows of {columns} columns", lease.len()));
        format!("<backcast.types.Lease: {}, {state}>", self.hold.label())
    }
}
