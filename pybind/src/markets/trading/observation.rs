//! Observations `[N, F]` as NumPy arrays, fresh or reused.

use backcast_core::DType;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::array::allocation::Allocator;
use crate::array::convert::descr;
use crate::array::pool::{ArrayPool, PooledArrays};
use crate::array::view::{FreshArray, ReusedArrays};
use crate::error::{ErrorClass, Failure};

const ALLOCATOR: Allocator =
    Allocator { class: ErrorClass::Env, remedy: "make fewer environments" };

/// Form of observations as arrays.
pub(super) struct ObservationForm {
    /// `[N, F]`, or `[F]` of the single environment.
    shape: Vec<usize>,
    /// Array that every call writes to; `None` if every call gets a fresh one.
    reused: Option<PyOnceLock<ReusedArrays>>,
    /// Arrays of earlier observations.
    pool: ArrayPool,
}

impl ObservationForm {
    pub(super) fn new(num_envs: Option<usize>, width: usize, reuse: bool) -> Self {
        let shape = num_envs.into_iter().chain([width]).collect();
        Self { shape, reused: reuse.then(PyOnceLock::new), pool: ArrayPool::default() }
    }

    pub(super) fn is_reused(&self) -> bool {
        self.reused.is_some()
    }

    /// Drops the arrays of the pool.
    pub(super) fn forget(&self) {
        self.pool.clear();
    }

    /// Runs `work` on the memory of one observation with the interpreter released, and returns the
    /// observation with its answer. Without memory, `work` is not called.
    pub(super) fn observe<'py, R: Send>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut [f32]) -> Result<R, Failure> + Send,
    ) -> Result<(Bound<'py, PyAny>, R), Failure> {
        let Some(reused) = &self.reused else {
            let mut array = allocate(py, self.pool.take(), &self.shape)?;
            let bytes = array.bytes_mut();
            let answer = py.detach(|| work(numbers(bytes)?))?;
            let array = array.into_array();
            self.pool.keep([&array]);
            return Ok((array.into_any(), answer));
        };
        let reused = reused.get_or_try_init(py, || {
            let array = allocate(py, PooledArrays::default(), &self.shape)?;
            Ok::<_, Failure>(ReusedArrays::new([array]))
        })?;
        let mut filling = reused.fill(py, "observation")?;
        let [bytes, ..] = filling.buffers();
        let bytes = bytes.unwrap_or_default();
        let answer = py.detach(|| work(numbers(bytes)?))?;
        drop(filling);
        let [array, ..] = reused.arrays(py);
        let none = || Failure::new(ErrorClass::Env, "there is no array of observations");
        Ok((array.ok_or_else(none)?.into_any(), answer))
    }
}

/// Returns one row `[F]` in a new array.
pub(super) fn row_of<'py>(
    py: Python<'py>,
    row: &[f32],
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let mut array = allocate(py, PooledArrays::default(), &[row.len()])?;
    numbers(array.bytes_mut())?.copy_from_slice(row);
    Ok(array.into_array())
}

fn allocate<'py>(
    py: Python<'py>,
    mut pooled: PooledArrays,
    shape: &[usize],
) -> Result<FreshArray<'py>, Failure> {
    let made = pooled.take_or_new(0, &descr(py, DType::F32)?, shape);
    made.map_err(|error| ALLOCATOR.array_failure(py, error, DType::F32, shape))
}

fn numbers(bytes: &mut [u8]) -> Result<&mut [f32], Failure> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|error| Failure::new(ErrorClass::Env, error))
}
