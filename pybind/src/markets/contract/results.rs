//! Rewards and flags of a step as NumPy arrays.

use backcast_core::DType;
use pyo3::prelude::*;

use crate::array::convert::descr;
use crate::array::pool::ArrayPool;
use crate::array::view::FreshArray;

/// Rewards and flags of a batch.
pub(crate) struct StepArrays<'py>([FreshArray<'py>; 3]);

impl<'py> StepArrays<'py> {
    pub(crate) fn of(py: Python<'py>, envs: usize, pool: &ArrayPool) -> PyResult<Self> {
        let mut pooled = pool.take();
        let mut array = |at, dtype| pooled.take_or_new(at, &descr(py, dtype)?, &[envs]);
        Ok(Self([array(0, DType::F64)?, array(1, DType::Bool)?, array(2, DType::Bool)?]))
    }

    pub(crate) fn slots(&mut self) -> [&mut [u8]; 3] {
        self.0.each_mut().map(FreshArray::bytes_mut)
    }

    pub(crate) fn into_arrays(self, pool: &ArrayPool) -> [Bound<'py, PyAny>; 3] {
        let arrays = self.0.map(FreshArray::into_array);
        pool.keep(&arrays);
        arrays.map(Bound::into_any)
    }
}
