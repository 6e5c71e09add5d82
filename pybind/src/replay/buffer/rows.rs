//! Copied rows of a lane as a dict of arrays.

use backcast_core::Rows;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::convert::descr;
use crate::array::nested::insert;
use crate::array::view::FreshArray;

/// Returns every column under its name, built-in ones first, nested at each `/`.
pub(crate) fn as_dict<'py>(py: Python<'py>, rows: &Rows) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for column in rows.columns() {
        let mut shape = vec![rows.len()];
        shape.extend(column.shape().iter().map(|&axis| axis as usize));
        let mut array = FreshArray::allocate(py, &descr(py, column.dtype())?, &shape)?;
        array.bytes_mut().copy_from_slice(rows.bytes(column.name()).unwrap_or_default());
        insert(&dict, column.name(), array.into_array())?;
    }
    Ok(dict)
}
