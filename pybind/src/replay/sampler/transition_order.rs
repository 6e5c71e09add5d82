//! `backcast.types.TransitionOrder`: the transitions of a ring, numbered without gaps.

use backcast_core::{Ring, TransitionOrder as CoreOrder};
use backcast_pybind_macros::exact_arguments;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::argument::{Argument, no_constructor, required};
use crate::array::convert;
use crate::error::{ErrorClass, Failure, bad_argument};
use crate::handle::Handle;

/// Index or number of a transition that is not there.
const MISSING: i64 = -1;

/// The transitions that a ring holds at one moment, numbered from 0 without gaps.
///
/// Made by :meth:`backcast.ReplayBuffer.transitions`; a context manager. Numbers go lane by lane,
/// oldest first, which is the order of :attr:`backcast.Batch.index`. In a ring of one lane, number
/// ``i`` is the ``i``-th oldest transition. FINAL rows, rows before a gap, and the newest row of
/// each lane have no number, since no transition starts there. ``len`` is the number of
/// transitions. Numbers change only with :meth:`refresh`.
///
/// Examples
/// --------
/// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
/// >>> with buf.writer(autoreset_mode="next_step") as writer:
/// ...     for t in range(6):
/// ...         at = writer.append(obs=t, terminated=t == 2, truncated=False)
/// >>> order = buf.transitions()  # row 3 is the FINAL row of the first episode
/// >>> len(order), order.index_at([0, 2, 3]), order.position_of([4])
/// (4, array([0, 2, 4]), array([3]))
#[pyclass(module = "backcast.types", name = "TransitionOrder", frozen)]
pub(crate) struct TransitionOrder {
    handle: Handle<CoreOrder>,
}

impl TransitionOrder {
    pub(crate) fn of(ring: &Ring, label: &str) -> Self {
        let label = format!("the order of transitions of {label}");
        let again = "call `transitions` again for another";
        Self { handle: Handle::new(label, again, ring.transition_order()) }
    }

    /// Maps each number of `given` with `find`. If one is not found, `missing` decides: `"mask"`
    /// puts `MISSING` in its place, `"error"` fails with the message that `refused` makes.
    fn look_up<'py>(
        &self,
        py: Python<'py>,
        given: &[i64],
        missing: Argument<String>,
        find: impl Fn(&CoreOrder, i64) -> Option<i64> + Sync,
        refused: impl Fn(usize, i64, u64) -> String,
    ) -> Result<Bound<'py, PyArray1<i64>>, Failure> {
        const CHOICE: &str = "\"error\" or \"mask\"";
        let missing = missing.get("missing", CHOICE)?;
        if !matches!(missing.as_str(), "error" | "mask") {
            return Err(bad_argument(format!("missing is '{missing}'; give {CHOICE}")));
        }
        let all = || {
            self.handle.with(|order| {
                let found = given.iter().map(|number| find(order, *number).unwrap_or(MISSING));
                Ok((found.collect::<Vec<_>>(), order.len()))
            })
        };
        let (found, len) = py.detach(all)?;
        let lost = found.iter().zip(given).enumerate().find(|(_, (found, _))| **found == MISSING);
        if let Some((at, (_, number))) = lost.filter(|_| missing == "error") {
            return Err(Failure::new(ErrorClass::Sample, refused(at, *number, len)));
        }
        Ok(PyArray1::from_vec(py, found))
    }

    /// Releases the ring.
    fn release(&self, py: Python<'_>) -> Result<(), Failure> {
        drop(py.detach(|| self.handle.take())?);
        Ok(())
    }
}

#[exact_arguments]
#[pymethods]
impl TransitionOrder {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("TransitionOrder", "call buf.transitions()"))
    }

    /// Number the transitions that the ring holds now.
    ///
    /// Reads the headers of the rows that were published since the last call, and drops the numbers
    /// of those that were overwritten. Takes O(published rows + overwritten rows + lanes).
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the order was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn refresh(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| {
            self.handle.with(|order| {
                order.refresh();
                Ok(())
            })
        })
    }

    /// Return the indices of transitions by their numbers.
    ///
    /// Parameters
    /// ----------
    /// position : array_like of int64, any shape
    ///     Numbers from 0 to ``len - 1``; ``B`` is their count, in C order.
    /// missing : {"error", "mask"}, default "error"
    ///     Policy for numbers out of range; ``"mask"`` gives -1 for them.
    ///
    /// Returns
    /// -------
    /// ndarray of int64, [B]
    ///     Indices for :meth:`backcast.ReplayBuffer.gather`. O(log lanes + log episodes) for each.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If a number is out of range, unless ``missing="mask"``; or if there are more than
    ///     ``2**24``.
    /// ArgumentError
    ///     If ``missing`` is neither of its choices.
    /// ClosedError
    ///     If the order was closed.
    #[pyo3(signature = (position=None, *, missing="error".into()))]
    #[pyo3(text_signature = "($self, position, *, missing='error')")]
    fn index_at<'py>(
        &self,
        py: Python<'py>,
        position: Option<&Bound<'py, PyAny>>,
        missing: Argument<String>,
    ) -> Result<Bound<'py, PyArray1<i64>>, Failure> {
        let position = required(position, "position", "numbers of transitions, from 0 up")?;
        let given = convert::int64s_of_any_shape(position, "position", ErrorClass::Sample)?;
        let find = |order: &CoreOrder, position: i64| {
            let position = u64::try_from(position).ok()?;
            order.index_at(position).map(i64::from)
        };
        self.look_up(py, &given, missing, find, |at, number, len| {
            format!("position[{at}] is {number}; give numbers from 0, fewer than {len} transitions")
        })
    }

    /// Return the numbers of transitions by their indices.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, any shape
    ///     Indices as in :attr:`backcast.Batch.index`; ``B`` is their count, in C order.
    /// missing : {"error", "mask"}, default "error"
    ///     Policy for indices that have no number: their row was overwritten, is not complete yet,
    ///     or starts no transition, such as a FINAL row. ``"mask"`` gives -1 for them.
    ///
    /// Returns
    /// -------
    /// ndarray of int64, [B]
    ///     Numbers from 0 to ``len - 1``. O(log episodes) for each.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If an index has no number, unless ``missing="mask"``; or if there are more than
    ///     ``2**24``.
    /// ArgumentError
    ///     If ``missing`` is neither of its choices.
    /// ClosedError
    ///     If the order was closed.
    #[pyo3(signature = (index=None, *, missing="error".into()))]
    #[pyo3(text_signature = "($self, index, *, missing='error')")]
    fn position_of<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
        missing: Argument<String>,
    ) -> Result<Bound<'py, PyArray1<i64>>, Failure> {
        let index = required(index, "index", "what a batch has as its index")?;
        let given = convert::row_indices(index)?;
        let find = |order: &CoreOrder, index: i64| {
            order.position_of(index).and_then(|position| i64::try_from(position).ok())
        };
        self.look_up(py, &given, missing, find, |at, number, _| {
            format!(
                "index[{at}] = {number} is no transition that the ring held at the last refresh; \
                 call refresh(), or give missing=\"mask\" for -1 in its place"
            )
        })
    }

    fn __len__(&self) -> Result<usize, Failure> {
        let len = self.handle.with(|order| Ok(order.len()))?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn __bool__(&self) -> Result<bool, Failure> {
        self.handle.with(|order| Ok(!order.is_empty()))
    }

    /// Release the ring. Closing again does nothing.
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
        let state = self.handle.describe(|order| format!("{} transitions", order.len()));
        format!("<backcast.types.TransitionOrder: {}, {state}>", self.handle.label())
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{} cannot be pickled or copied; pickle the ReplayBuffer and call `transitions` \
                 there",
                self.handle.label()
            ),
        ))
    }
}
