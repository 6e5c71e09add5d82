//! The days before an observation as NumPy arrays: fresh ones, or views of an arena that moves by a day.
//!
//! Fresh in memory a history is `[H, X, C]`, one block of days, as the batch lays its days out; Python sees
//! `[X, H, C]`. An arena has a day of all environments together, and room for many more days than a history: a step
//! writes one day behind the newest, from front to back, and moves the view. What has no room any more is moved to the
//! front.

use std::sync::{Mutex, MutexGuard, PoisonError};

use backcast_core::{DType, soon};
use backcast_gym::PortfolioVectorEnv as CoreEnv;
use numpy::prelude::*;
use numpy::{PyArray1, PyUntypedArray};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyAny;

use crate::coerce::descr;
use crate::error::{Failure, Kind};
use crate::spares::Spares;
use crate::view::{Filling, FreshArray, Reused, along};

/// Days that an arena has more than a history.
///
/// Many, since moving histories to the front copies all but a day of each: of 20 days, at every step, an eighth of a day.
const SPARE_DAYS: usize = 160;

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
    at: Newest,
}

/// Where the newest history begins. `None`: the arena does not hold the days before the newest, as in a batch that was
/// copied in the middle of its episodes.
type Newest = Mutex<Option<usize>>;

struct Arrays {
    /// `[H + SPARE_DAYS, N, X, C]`, and which rows there are, `[H + SPARE_DAYS, N, X]`.
    memory: Reused,
    /// The same as Python sees them, days behind tickers. Read-only, as are all views of them.
    shown: [Py<PyUntypedArray>; 2],
}

/// The arrays of one call.
pub(crate) enum Days<'a, 'py> {
    Fresh { out: FreshArray<'py>, mask: FreshArray<'py>, axis: usize, spares: &'a Spares },
    Sliding(Box<Sliding<'a, 'py>>),
}

pub(crate) struct Sliding<'a, 'py> {
    py: Python<'py>,
    arrays: &'a Arrays,
    at: &'a Newest,
    envs: usize,
    shape: [usize; 3],
    memory: Filling<'a>,
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
        at: &'a Newest,
        /// `[H, X, C]`.
        shape: [usize; 3],
        /// Where the newest day will begin after a step, in numbers.
        next: usize,
    },
}

impl Histories {
    /// `None` where there is nothing to show.
    pub(crate) fn new(envs: Option<usize>, shape: [usize; 3], reuse: bool) -> Option<Self> {
        let arena = || Arena { arrays: PyOnceLock::new(), at: Newest::default() };
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
            let of = |dtype, shape: &[usize]| FreshArray::zeros(py, &descr(py, dtype)?, shape);
            let out = of(DType::F32, &[days, envs, rows, columns])?;
            let mask = of(DType::Bool, &[days, envs, rows])?;
            let memory = Reused::new([out, mask]);
            let shown = |array: Option<_>| {
                let view = turned(&turned(&array.expect("it was made just now"), 0)?, 1)?;
                view.call_method1("setflags", (false,))?;
                PyResult::Ok(view.unbind())
            };
            let [out, mask, ..] = memory.arrays(py);
            let shown = [shown(out)?, shown(mask)?];
            PyResult::Ok(Arrays { memory, shown })
        })?;
        let memory = arrays.memory.fill(py, "history")?;
        let (at, envs) = (&arena.at, envs.unwrap_or(1));
        Ok(Days::Sliding(Box::new(Sliding { py, arrays, at, envs, shape: self.shape, memory })))
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
        let out = PyArray1::from_slice(py, out).reshape([history, rows, columns])?.into_any();
        let mask = PyArray1::from_slice(py, mask).reshape([history, rows])?;
        let mask = mask.call_method1(intern!(py, "view"), (intern!(py, "bool"),))?;
        Ok([turned(out.cast()?, 0)?, turned(mask.cast()?, 0)?].map(Bound::into_any))
    }
}

impl<'py> Days<'_, 'py> {
    pub(crate) fn slots(&mut self) -> Result<DaySlots<'_>, Failure> {
        match self {
            Self::Fresh { out, mask, .. } => {
                Ok(DaySlots::Fresh { out: out.bytes_mut(), mask: mask.bytes_mut() })
            }
            Self::Sliding(sliding) => {
                let Sliding { memory, at, shape, envs, .. } = &mut **sliding;
                let [Some(out), Some(mask), ..] = memory.buffers() else {
                    unreachable!("an arena has two arrays");
                };
                let from = newest(at).unwrap_or_default();
                let [history, rows, columns] = *shape;
                let out = bytemuck::try_cast_slice_mut(out)
                    .map_err(|error| Failure::new(Kind::Env, error))?;
                // The first step that finds no room moves what there is, and writes elsewhere.
                let next = (from + history) * *envs * rows * columns;
                Ok(DaySlots::Sliding { out, mask, at, shape: *shape, next })
            }
        }
    }

    /// What Python sees: `[N, X, H, C]` and `[N, X, H]`.
    pub(crate) fn into_arrays(self) -> PyResult<[Bound<'py, PyAny>; 2]> {
        match self {
            Self::Fresh { out, mask, axis, spares } => {
                let [out, mask] = [out, mask].map(FreshArray::into_array);
                spares.keep([&out, &mask]);
                Ok([turned(&out, axis)?, turned(&mask, axis)?].map(Bound::into_any))
            }
            Self::Sliding(sliding) => {
                let Sliding { py, arrays, at, shape: [history, ..], memory, .. } = *sliding;
                let from = newest(at).unwrap_or_default();
                drop(memory);
                let view = |of: &Py<_>| along(of.bind(py), 2, from..from + history);
                let [out, mask] = &arrays.shown;
                Ok([view(out)?, view(mask)?].map(Bound::into_any))
            }
        }
    }
}

fn newest(at: &Newest) -> MutexGuard<'_, Option<usize>> {
    at.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An axis behind the next one.
fn turned<'py>(
    array: &Bound<'py, PyUntypedArray>,
    axis: usize,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let name = intern!(array.py(), "swapaxes");
    Ok(array.call_method1(name, (axis, axis + 1))?.cast_into()?)
}

impl DaySlots<'_> {
    /// Ask for the memory that the newest day of an environment will be written to after a step: an arena is larger
    /// than caches that are near, and each day of it is written once in many steps.
    #[inline]
    pub(crate) fn ask(&self, env: usize) {
        if let Self::Sliding { out, shape: [_, rows, columns], next, .. } = self {
            let day = rows * columns;
            soon(out.get(next + env * day..next + (env + 1) * day).unwrap_or_default());
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
                let cells = env.num_envs() * rows;
                let mut newest = newest(at);
                // Taken: what is cut short leaves nothing to build on.
                let before = newest.take();
                let from = match before {
                    Some(from) if stepped && from == SPARE_DAYS => {
                        let kept = (from + 1) * cells..(from + history) * cells;
                        out.copy_within(kept.start * columns..kept.end * columns, 0);
                        mask.copy_within(kept, 0);
                        0
                    }
                    Some(from) => from + usize::from(stepped),
                    None => 0,
                };
                for at in 0..env.num_envs() {
                    env.ask_history(at + AHEAD);
                    let old = match (env.began()[at] || before.is_none(), stepped) {
                        (true, _) => 0,
                        (false, true) => history - 1,
                        (false, false) => history,
                    };
                    for (place, younger) in (old..history).zip((0..history - old).rev()) {
                        let first = (from + place) * cells + at * rows;
                        let out = &mut out[first * columns..(first + rows) * columns];
                        let mask = &mut mask[first..first + rows];
                        env.history_into(at, day(at).saturating_sub(younger), out, mask)?;
                    }
                }
                *newest = Some(from);
            }
        }
        Ok(())
    }
}
