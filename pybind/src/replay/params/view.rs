//! Versions of parameters in place, as read-only arrays that keep their slot.

use std::sync::Arc;

use backcast_core::ParamsView;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::argument::no_constructor;
use crate::array::convert::descr;
use crate::array::view::read_only_view;
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;

/// Base object of the arrays of a view. A slice of a slice keeps it, and with it the version.
#[pyclass(module = "backcast._native", name = "PinHold", frozen)]
pub(crate) struct PinHold(Handle<Arc<ParamsView>>);

#[pymethods]
impl PinHold {
    fn __repr__(&self) -> String {
        format!("<backcast.PinHold: {}>", self.0.label())
    }
}

/// A version of parameters in place. Used by :class:`ParamsView`.
#[pyclass(module = "backcast._native", name = "FlatParamsView", frozen)]
pub(crate) struct FlatParamsView {
    view: Handle<Arc<ParamsView>>,
    version: u64,
}

impl FlatParamsView {
    pub(crate) fn new(params: &str, view: ParamsView) -> Self {
        let version = view.version();
        let label = format!("the view of version {version} of {params}");
        Self { view: Handle::new(label, "call `view` again for another", Arc::new(view)), version }
    }
}

#[exact_arguments]
#[pymethods]
impl FlatParamsView {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("FlatParamsView", "call params.view()"))
    }

    /// Return every array in place, read-only, in order.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn arrays<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>, Failure> {
        let view = self.view.with(|view| Ok(Arc::clone(view)))?;
        let hold = PinHold(Handle::new(self.view.label().to_owned(), "", Arc::clone(&view)));
        let hold = Bound::new(py, hold)?.into_any();
        let list = PyList::empty(py);
        for (at, array) in view.arrays().iter().enumerate() {
            let dtype = array.dtype();
            let mut axes: Vec<(usize, usize)> = Vec::with_capacity(array.shape().len());
            let mut stride = dtype.size();
            for length in array.shape().iter().rev() {
                let length = usize::try_from(*length).unwrap_or(usize::MAX);
                axes.push((length, stride));
                stride = stride.saturating_mul(length.max(1));
            }
            axes.reverse();
            if let Some(address) = view.address(at) {
                list.append(read_only_view(&hold, address, &descr(py, dtype)?, &axes)?)?;
            }
        }
        Ok(list)
    }

    /// The version.
    #[getter]
    fn version(&self) -> u64 {
        self.version
    }

    /// Whether the view was closed. Its arrays stay valid.
    #[getter]
    fn closed(&self) -> bool {
        self.view.is_closed()
    }

    /// Release the version as soon as its last array is gone.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.view.close())
    }

    fn __repr__(&self) -> String {
        let state = self.view.describe(|view| format!("{} arrays", view.arrays().len()));
        format!("<backcast.types.FlatParamsView: {}, {state}>", self.view.label())
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{} belongs to its process and cannot be pickled or copied; copy the arrays, or \
                 pickle the Params and call `view` in the other process",
                self.view.label()
            ),
        ))
    }
}
