//! Properties of a ring of transitions.

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::TransitionRing;
use crate::error::Failure;
use crate::markets::panel::Panel;

#[pymethods]
impl TransitionRing {
    /// Maximum number of transitions.
    #[getter]
    fn capacity(&self) -> Result<u64, Failure> {
        self.ring.with(|ring| Ok(ring.capacity()))
    }

    /// Bytes of one transition.
    #[getter]
    fn transition_bytes(&self) -> Result<usize, Failure> {
        self.ring.with(|ring| Ok(ring.ring().schema().row_bytes()))
    }

    /// Shape of one action.
    #[getter]
    fn action_shape(&self) -> Vec<usize> {
        self.state().shape.action.clone()
    }

    /// Number of rewards of one transition.
    #[getter]
    fn n_objectives(&self) -> usize {
        self.state().shape.objectives
    }

    /// Number of tickers of a portfolio.
    #[getter]
    fn n_tickers(&self) -> usize {
        self.state().shape.tickers
    }

    /// Panel that the transitions refer to.
    #[getter]
    fn panel(&self) -> Result<Panel, Failure> {
        self.panel.again()
    }

    /// The indicators shown.
    #[getter]
    fn indicators(&self) -> Vec<String> {
        self.names.indicators.clone()
    }

    /// The macro tickers shown.
    #[getter]
    fn macro_tickers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let macros = self.names.selection.macros.iter();
        PyList::new(py, macros.map(|ticker| &self.names.tickers[*ticker as usize]))
    }

    /// Days by which the indicators of observations are older than their opening prices.
    #[getter]
    fn indicator_lag(&self) -> usize {
        self.lead
    }

    /// First day that future windows do not show.
    #[getter]
    fn end(&self) -> Result<usize, Failure> {
        self.ring.with(|ring| Ok(ring.end()))
    }

    /// Name that other processes attach to; None for a private ring.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Directory of the ring; None for a private ring.
    #[getter]
    fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.to_string_lossy().into_owned())
    }
}
