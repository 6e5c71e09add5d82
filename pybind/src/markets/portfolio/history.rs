//! Histories of observations as NumPy arrays: fresh ones, or views that slide over an arena.
//!
//! A fresh history is `[H, X, C]` in memory, as the environment writes it. Python sees it as
//! `[X, H, C]`. An arena holds days of all environments, and is mapped twice in a row, so that
//! its first day follows its last ([`MirroredBlocks`]). A step overwrites a day that no history
//! needs any more with the newest day, and moves the views.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backcast_core::DType;
use backcast_core::plumbing::{MirroredBlocks, MirroredBlocksMut};
use backcast_gym::PortfolioVectorEnv as CoreEnv;
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyAny;

use crate::array::allocation::Allocator;
use crate::array::convert::descr;
use crate::array::pool::ArrayPool;
use crate::array::view::{FreshArray, LendError, read_only_view, reuse_failure, swap_axes};
use crate::error::{ErrorClass, Failure};

/// Bytes of a float32.
const SINGLE: usize = size_of::<f32>();

/// Allocator of histories.
const ALLOCATOR: Allocator =
    Allocator { class: ErrorClass::Env, remedy: "ask for a shorter history or fewer portfolios" };

/// Prefetch distance of newest days, in portfolios.
const AHEAD: usize = 4;

/// Histories of observations, as arrays.
pub(crate) struct Histories {
    /// Shape of a history, `[H, X, C]`.
    shape: [usize; 3],
    /// Arena of `copy=False`.
    arena: Option<PyOnceLock<Py<HistoryArena>>>,
    /// Arrays of earlier observations.
    pool: ArrayPool,
}

/// Arena that `copy=False` writes to: the base object of its views.
#[pyclass(module = "backcast._native", name = "HistoryArena", frozen)]
pub(crate) struct HistoryArena {
    /// Blocks of one day each: values `[N, X, C]`, then the mask `[N, X]`.
    days: MirroredBlocks,
    /// First block of the current histories. `None` if the arena lacks the days before the newest,
    /// as in a batch that was copied in mid-episode.
    first: Mutex<Option<usize>>,
}

/// Arrays of one call.
pub(crate) enum Days<'a, 'py> {
    Fresh { out: FreshArray<'py>, mask: FreshArray<'py>, axis: usize, pool: &'a ArrayPool },
    Sliding { arena: &'a Bound<'py, HistoryArena>, envs: usize, shape: [usize; 3] },
}

/// Memory of the arrays of one call.
pub(crate) enum DayBuffers<'a> {
    Fresh { out: &'a mut [u8], mask: &'a mut [u8] },
    Sliding { days: MirroredBlocksMut<'a>, first: &'a Mutex<Option<usize>>, history: usize },
}

impl Histories {
    /// Returns the memory of histories, or `None` if none are shown.
    pub(crate) fn new(envs: Option<usize>, shape: [usize; 3], reuse: bool) -> Option<Self> {
        let arena = (reuse && envs.is_some()).then(PyOnceLock::new);
        (shape[0] > 0).then_some(Self { shape, arena, pool: ArrayPool::default() })
    }

    /// Allocates the arrays of one call.
    pub(crate) fn allocate<'a, 'py>(
        &'a self,
        py: Python<'py>,
        envs: Option<usize>,
    ) -> Result<Days<'a, 'py>, Failure> {
        let [history, rows, columns] = self.shape;
        let Some(arena) = &self.arena else {
            let shape: Vec<usize> = envs.into_iter().chain([history, rows, columns]).collect();
            let mut spare = self.pool.take();
            let mut array = |at, dtype, shape: &[usize]| {
                let made = spare.take_or_new(at, &descr(py, dtype)?, shape);
                made.map_err(|error| ALLOCATOR.array_failure(py, error, dtype, shape))
            };
            let out = array(0, DType::F32, &shape)?;
            let mask = array(1, DType::Bool, &shape[..shape.len() - 1])?;
            let axis = usize::from(envs.is_some());
            return Ok(Days::Fresh { out, mask, axis, pool: &self.pool });
        };
        let envs = envs.unwrap_or(1);
        let arena =
            arena.get_or_try_init(py, || Py::new(py, HistoryArena::new(envs, self.shape)?))?;
        Ok(Days::Sliding { arena: arena.bind(py), envs, shape: self.shape })
    }

    /// Drops the arrays of the pool.
    pub(crate) fn forget(&self) {
        self.pool.clear();
    }

    /// Returns the history of one observation in arrays of its own: `[X, H, C]` and `[X, H]`.
    pub(crate) fn arrays_of<'py>(
        &self,
        py: Python<'py>,
        (out, mask): &(Vec<f32>, Vec<u8>),
    ) -> PyResult<[Bound<'py, PyAny>; 2]> {
        let [history, rows, columns] = self.shape;
        let out = PyArray1::from_slice(py, out).reshape([history, rows, columns])?.into_any();
        let mask = PyArray1::from_slice(py, mask).reshape([history, rows])?;
        let mask = mask.call_method1(intern!(py, "view"), (intern!(py, "bool"),))?;
        Ok([swap_axes(out.cast()?, 0)?, swap_axes(mask.cast()?, 0)?].map(Bound::into_any))
    }
}

impl HistoryArena {
    fn new(envs: usize, [history, rows, columns]: [usize; 3]) -> Result<Self, Failure> {
        let row = columns.checked_mul(SINGLE).and_then(|numbers| numbers.checked_add(1));
        let day = row.and_then(|row| row.checked_mul(rows)?.checked_mul(envs));
        // Adds a day to those of a history, so that a step does not change the previous views.
        let days = day.ok_or_else(|| io::ErrorKind::OutOfMemory.into());
        let days =
            days.and_then(|day| MirroredBlocks::zeros(history + 1, day)).map_err(|error| {
                let why = format!("no memory for views of {history} days of history: {error}");
                Failure::new(
                    ErrorClass::Env,
                    format!("{why}; ask for arrays of their own with copy=True"),
                )
            })?;
        Ok(Self { days, first: Mutex::default() })
    }
}

impl<'py> Days<'_, 'py> {
    pub(crate) fn slots(&mut self) -> Result<DayBuffers<'_>, Failure> {
        match self {
            Self::Fresh { out, mask, .. } => {
                Ok(DayBuffers::Fresh { out: out.bytes_mut(), mask: mask.bytes_mut() })
            }
            Self::Sliding { arena, shape: [history, ..], .. } => {
                let HistoryArena { days, first } = arena.get();
                let days =
                    days.borrow_mut().ok_or_else(|| reuse_failure("history", LendError::Busy))?;
                Ok(DayBuffers::Sliding { days, first, history: *history })
            }
        }
    }

    /// Returns the arrays for Python: `[N, X, H, C]` and `[N, X, H]`.
    pub(crate) fn into_arrays(self) -> PyResult<[Bound<'py, PyAny>; 2]> {
        match self {
            Self::Fresh { out, mask, axis, pool } => {
                let [out, mask] = [out, mask].map(FreshArray::into_array);
                pool.keep([&out, &mask]);
                Ok([swap_axes(&out, axis)?, swap_axes(&mask, axis)?].map(Bound::into_any))
            }
            Self::Sliding { arena, envs, shape: [history, rows, columns] } => {
                let HistoryArena { days, first } = arena.get();
                let numbers = days.address(locked(first).unwrap_or_default());
                let mask = numbers.wrapping_add(envs * rows * columns * SINGLE);
                let (row, day) = (columns * SINGLE, (history, days.stride()));
                let axes = [(envs, rows * row), (rows, row), day, (columns, SINGLE)];
                let mask_axes = [(envs, rows), (rows, 1), day];
                let view = |address, dtype, axes: &[_]| {
                    let dtype = descr(arena.py(), dtype)?;
                    read_only_view(arena.as_any(), address, &dtype, axes).map(Bound::into_any)
                };
                Ok([view(numbers, DType::F32, &axes)?, view(mask, DType::Bool, &mask_axes)?])
            }
        }
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DayBuffers<'_> {
    /// Writes the histories of some portfolios, unless they lie in an arena.
    pub(crate) fn fill_block(&mut self, env: &CoreEnv, of: Range<usize>) -> Result<(), Failure> {
        match self {
            Self::Fresh { out, mask } => fill_some(out, mask, env, of),
            Self::Sliding { .. } => Ok(()),
        }
    }

    /// Writes the histories in an arena: only the newest day where a step continued an episode, and
    /// all days otherwise.
    pub(crate) fn finish(self, env: &CoreEnv, stepped: bool) -> Result<(), Failure> {
        match self {
            Self::Fresh { .. } => Ok(()),
            Self::Sliding { days, first, history } => {
                let mut first = locked(first);
                // Takes the state. After a failed write it is `None`, so that the next write fills
                // all days.
                let before = first.take();
                *first = Some(slide(days, before, history, env, stepped)?);
                Ok(())
            }
        }
    }
}

/// Returns the current day of an environment. Its history ends on the day before.
fn day(env: &CoreEnv, at: usize) -> usize {
    // Days are never negative.
    usize::try_from(env.obs().day[at]).unwrap_or_default()
}

fn singles(bytes: &mut [u8]) -> Result<&mut [f32], Failure> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|error| Failure::new(ErrorClass::Env, error))
}

fn fill_some(
    out: &mut [u8],
    mask: &mut [u8],
    env: &CoreEnv,
    of: Range<usize>,
) -> Result<(), Failure> {
    let [history, rows, columns] = env.history_shape();
    let cells = history * rows;
    let out = &mut singles(out)?[of.start * cells * columns..of.end * cells * columns];
    let mask = &mut mask[of.start * cells..of.end * cells];
    let each = out.chunks_exact_mut(cells * columns).zip(mask.chunks_exact_mut(cells));
    for (at, (out, mask)) in of.zip(each) {
        env.history_into(at, day(env, at), out, mask)?;
    }
    Ok(())
}

/// Writes the days that the arena lacks. Its histories began at block `before`; `None` if it has
/// none. Returns the block at which they begin now.
fn slide(
    mut days: MirroredBlocksMut<'_>,
    before: Option<usize>,
    history: usize,
    env: &CoreEnv,
    stepped: bool,
) -> Result<usize, Failure> {
    let ([_, rows, columns], envs) = (env.history_shape(), env.num_envs());
    let first = before.map_or(0, |first| first + usize::from(stepped)) % days.blocks();
    // An episode that continues lacks only these days; one that began lacks all days.
    let newest = if stepped { history - 1 } else { history };
    let restarted = |at: &usize| before.is_none() || env.began()[*at];
    let any = before.is_none() || env.began().contains(&true);
    let others: Vec<usize> = (0..if any { envs } else { 0 }).filter(restarted).collect();
    for place in if any { 0 } else { newest }..history {
        let (out, mask) =
            days.block_mut(first + place).split_at_mut(envs * rows * columns * SINGLE);
        let (out, younger) = (singles(out)?, history - 1 - place);
        if place < newest {
            for &at in &others {
                let out = &mut out[at * rows * columns..(at + 1) * rows * columns];
                let mask = &mut mask[at * rows..(at + 1) * rows];
                env.history_into(at, day(env, at).saturating_sub(younger), out, mask)?;
            }
            continue;
        }
        let each = out.chunks_exact_mut(rows * columns).zip(mask.chunks_exact_mut(rows));
        for (at, (out, mask)) in each.enumerate() {
            env.prefetch_history(at + AHEAD);
            env.history_into(at, day(env, at).saturating_sub(younger), out, mask)?;
        }
    }
    Ok(first)
}
