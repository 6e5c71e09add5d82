//! The days before an observation as NumPy arrays: fresh ones, or views of an arena that moves by a day.
//!
//! In memory a history is `[H, X, C]`, one block of days, as the batch lays its days out; Python sees
//! `[X, H, C]`. An arena has room for many more days than a history: a step writes one day behind the newest
//! and moves the view, and what has no room any more begins at the front again.

use std::sync::{Mutex, PoisonError};

use backcast_core::{DType, soon};
use backcast_gym::PortfolioVectorEnv as CoreEnv;
use numpy::prelude::*;
use numpy::{PyArray1, PyArrayDyn, PyReadwriteArrayDyn};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PySlice};

use crate::coerce::descr;
use crate::error::{Failure, Kind};
use crate::spares::Spares;
use crate::view::FreshArray;

/// Days that an arena has more than a history: a view stays as it is for as many steps.
const SPARE_DAYS: usize = 64;

/// Portfolios that lie between the copy of a newest day and the request for it.
const AHEAD: usize = 4;

/// How histories become arrays.
pub(crate) struct Histories {
    /// `[H, X, C]`.
    shape: [usize; 3],
    arena: Option<Arena>,
    /// The days before the observations before.
    spares: Spares,
}

/// What `copy=False` writes to.
struct Arena {
    arrays: PyOnceLock<Arrays>,
    /// Where the newest history begins.
    at: Mutex<usize>,
}

struct Arrays {
    /// `[N, H + SPARE_DAYS, X, C]`.
    out: Py<PyArrayDyn<f32>>,
    /// `[N, H + SPARE_DAYS, X]`.
    mask: Py<PyArrayDyn<u8>>,
    /// The same as Python sees them, tickers before days, the second as booleans. Read-only, as are
    /// all views of them.
    shown: [Py<PyAny>; 2],
}

/// The arrays of one call.
pub(crate) enum Days<'a, 'py> {
    Fresh { out: FreshArray<'py>, mask: FreshArray<'py>, axis: usize, spares: &'a Spares },
    Sliding(Box<Sliding<'a, 'py>>),
}

pub(crate) struct Sliding<'a, 'py> {
    py: Python<'py>,
    arrays: &'a Arrays,
    at: &'a Mutex<usize>,
    shape: [usize; 3],
    out: PyReadwriteArrayDyn<'py, f32>,
    mask: PyReadwriteArrayDyn<'py, u8>,
}

/// Their memory.
pub(crate) enum DaySlots<'a> {
    Fresh {
        out: &'a mut [u8],
        mask: &'a mut [u8],
    },
    Sliding {
        out: &'a mut [f32],
        mask: &'a mut [u8],
        at: &'a Mutex<usize>,
        /// `[H, X, C]`.
        shape: [usize; 3],
        /// Where the newest day of the first portfolio will begin after a step, in numbers.
        next: usize,
    },
}

impl Histories {
    /// `None` where there is nothing to show.
    pub(crate) fn new(envs: Option<usize>, shape: [usize; 3], reuse: bool) -> Option<Self> {
        let arena = || Arena { arrays: PyOnceLock::new(), at: Mutex::new(0) };
        let arena = (reuse && envs.is_some()).then(arena);
        (shape[0] > 0).then_some(Self { shape, arena, spares: Spares::default() })
    }

    /// The days that are shown, for a call to fill.
    pub(crate) fn allocate<'a, 'py>(
        &'a self,
        py: Python<'py>,
        envs: Option<usize>,
    ) -> Result<Days<'a, 'py>, Failure> {
        let [history, rows, columns] = self.shape;
        let Some(arena) = &self.arena else {
            let shape: Vec<usize> = envs.into_iter().chain([history, rows, columns]).collect();
            let mut spare = self.spares.take();
            let out = spare.or_new(0, &descr(py, DType::F32)?, &shape)?;
            let mask = spare.or_new(1, &descr(py, DType::Bool)?, &shape[..shape.len() - 1])?;
            let axis = usize::from(envs.is_some());
            return Ok(Days::Fresh { out, mask, axis, spares: &self.spares });
        };
        let days = history + SPARE_DAYS;
        let arrays = arena.arrays.get_or_try_init(py, || {
            let envs = envs.unwrap_or(1);
            let out = PyArrayDyn::<f32>::zeros(py, [envs, days, rows, columns].as_slice(), false);
            let mask = PyArrayDyn::<u8>::zeros(py, [envs, days, rows].as_slice(), false);
            let flags = mask.call_method1("view", ("bool",))?;
            let shown = turned(out.clone().into_any(), flags, 1)?;
            for view in &shown {
                view.call_method1("setflags", (false,))?;
            }
            let shown = shown.map(Bound::unbind);
            PyResult::Ok(Arrays { out: out.unbind(), mask: mask.unbind(), shown })
        })?;
        let busy = |error| {
            let remedy = "let one thread at a time use it, or ask for fresh arrays with copy=True";
            Failure::new(Kind::Env, format!("the history is being written to: {error}; {remedy}"))
        };
        let out = arrays.out.bind(py).try_readwrite().map_err(busy)?;
        let mask = arrays.mask.bind(py).try_readwrite().map_err(busy)?;
        let at = &arena.at;
        Ok(Days::Sliding(Box::new(Sliding { py, arrays, at, shape: self.shape, out, mask })))
    }

    /// Let go of the arrays that were kept for filling them again.
    pub(crate) fn forget(&self) {
        self.spares.clear();
    }

    /// The days before one observation, as arrays of their own: `[X, H, C]` and `[X, H]`.
    pub(crate) fn arrays_of<'py>(
        &self,
        py: Python<'py>,
        (out, mask): &(Vec<f32>, Vec<u8>),
    ) -> PyResult<[Bound<'py, PyAny>; 2]> {
        let [history, rows, columns] = self.shape;
        let out = PyArray1::from_slice(py, out).reshape([history, rows, columns])?;
        let mask = PyArray1::from_slice(py, mask).reshape([history, rows])?;
        let mask = mask.call_method1(intern!(py, "view"), (intern!(py, "bool"),))?;
        turned(out.into_any(), mask, 0)
    }
}

impl<'py> Days<'_, 'py> {
    pub(crate) fn slots(&mut self) -> Result<DaySlots<'_>, Failure> {
        match self {
            Self::Fresh { out, mask, .. } => {
                Ok(DaySlots::Fresh { out: out.bytes_mut(), mask: mask.bytes_mut() })
            }
            Self::Sliding(sliding) => {
                let Sliding { out, mask, at, shape, .. } = &mut **sliding;
                let scattered = |error| Failure::new(Kind::Env, error);
                let from = *at.lock().unwrap_or_else(PoisonError::into_inner);
                let [history, rows, columns] = *shape;
                Ok(DaySlots::Sliding {
                    out: out.as_slice_mut().map_err(scattered)?,
                    mask: mask.as_slice_mut().map_err(scattered)?,
                    at,
                    shape: *shape,
                    next: (from + history) * rows * columns,
                })
            }
        }
    }

    /// What Python sees: `[N, X, H, C]` and `[N, X, H]`.
    pub(crate) fn into_arrays(self) -> PyResult<[Bound<'py, PyAny>; 2]> {
        match self {
            Self::Fresh { out, mask, axis, spares } => {
                let [out, mask] = [out, mask].map(FreshArray::into_array);
                spares.keep([&out, &mask]);
                turned(out.into_any(), mask.into_any(), axis)
            }
            Self::Sliding(sliding) => {
                let Sliding { py, arrays, at, shape: [history, ..], out, mask } = *sliding;
                drop((out, mask));
                let from = *at.lock().unwrap_or_else(PoisonError::into_inner);
                let days = PySlice::new(py, from.cast_signed(), (from + history).cast_signed(), 1);
                let shown = (PySlice::full(py), PySlice::full(py), days).into_pyobject(py)?;
                let [out, mask] = &arrays.shown;
                Ok([out.bind(py).get_item(&shown)?, mask.bind(py).get_item(&shown)?])
            }
        }
    }
}

/// Tickers before days.
fn turned<'py>(
    out: Bound<'py, PyAny>,
    mask: Bound<'py, PyAny>,
    axis: usize,
) -> PyResult<[Bound<'py, PyAny>; 2]> {
    let swap = |array: Bound<'py, PyAny>| {
        let name = intern!(array.py(), "swapaxes");
        array.call_method1(name, (axis, axis + 1))
    };
    Ok([swap(out)?, swap(mask)?])
}

impl DaySlots<'_> {
    /// Ask for the memory that the newest day of an environment will be written to after a step: an arena is larger
    /// than caches that are near, and each day of it is written once in many steps.
    #[inline]
    pub(crate) fn ask(&self, env: usize) {
        if let Self::Sliding { out, shape: [history, rows, columns], next, .. } = self {
            let from = env * (history + SPARE_DAYS) * rows * columns + next;
            soon(out.get(from..from + rows * columns).unwrap_or_default());
        }
    }

    /// Write the days before what the environment shows: all of them, or, after a step and in an arena, the
    /// newest alone wherever an episode goes on.
    pub(crate) fn fill(self, env: &CoreEnv, stepped: bool) -> Result<(), Failure> {
        let [_, rows, columns] = env.history_shape();
        // Days are never negative.
        let day = |at: usize| usize::try_from(env.obs().day[at]).unwrap_or_default();
        match self {
            Self::Fresh { out, mask } => {
                let out: &mut [f32] = bytemuck::try_cast_slice_mut(out)
                    .map_err(|error| Failure::new(Kind::Env, error))?;
                let cells = mask.len() / env.num_envs();
                let each = out.chunks_exact_mut(cells * columns).zip(mask.chunks_exact_mut(cells));
                for (at, (out, mask)) in each.enumerate() {
                    env.history_into(at, day(at), out, mask)?;
                }
            }
            Self::Sliding { out, mask, at, shape: [history, ..], .. } => {
                let days = history + SPARE_DAYS;
                let mut from = at.lock().unwrap_or_else(PoisonError::into_inner);
                *from += usize::from(stepped);
                let moved = *from + history > days;
                if moved {
                    *from = 0;
                }
                let cells = days * rows;
                let each = out.chunks_exact_mut(cells * columns).zip(mask.chunks_exact_mut(cells));
                for (at, (out, mask)) in each.enumerate() {
                    env.ask_history(at + AHEAD);
                    let whole = moved || env.began()[at];
                    let new = if whole { *from } else { *from + history - 1 };
                    if whole || stepped {
                        let new = new * rows..(*from + history) * rows;
                        let numbers = new.start * columns..new.end * columns;
                        env.history_into(at, day(at), &mut out[numbers], &mut mask[new])?;
                    }
                }
            }
        }
        Ok(())
    }
}
