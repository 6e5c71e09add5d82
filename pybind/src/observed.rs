//! Observations of the environment as NumPy arrays: a dict or one flat array, fresh or reused.

use backcast_core::DType;
use backcast_gym::{EnvError, Observation};
use numpy::prelude::*;
use numpy::{Element, PyArrayDyn, PyReadwriteArrayDyn, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::coerce::descr;
use crate::error::{Failure, Kind};
use crate::view::FreshArray;

/// What a field has per environment.
#[derive(Clone, Copy)]
enum Axes {
    One,
    Tickers,
    Indicators,
    Macros,
    MacroIndicators,
}

/// The fields of a dict, sorted by name as Gymnasium sorts them.
const FIELDS: [(&str, DType, Axes); 9] = [
    ("avg_buy_price", DType::F64, Axes::Tickers),
    ("cash", DType::F64, Axes::One),
    ("day", DType::I32, Axes::One),
    ("indicators", DType::F64, Axes::Indicators),
    ("macro_indicators", DType::F64, Axes::MacroIndicators),
    ("macro_open", DType::F64, Axes::Macros),
    ("open", DType::F64, Axes::Tickers),
    ("shares", DType::I32, Axes::Tickers),
    ("total_asset", DType::F64, Axes::One),
];

/// The bytes of the fields, in the order of [`FIELDS`].
fn bytes(obs: &Observation) -> [&[u8]; FIELDS.len()] {
    [
        bytemuck::cast_slice(&obs.avg_buy_price),
        bytemuck::cast_slice(&obs.cash),
        bytemuck::cast_slice(&obs.day),
        bytemuck::cast_slice(&obs.indicators),
        bytemuck::cast_slice(&obs.macro_indicators),
        bytemuck::cast_slice(&obs.macro_open),
        bytemuck::cast_slice(&obs.open),
        bytemuck::cast_slice(&obs.shares),
        bytemuck::cast_slice(&obs.total_asset),
    ]
}

/// How observations become arrays.
pub(crate) struct Form {
    /// The leading axis; `None` for the one environment that has none.
    envs: Option<usize>,
    tickers: usize,
    indicators: usize,
    macros: usize,
    /// Numbers of a flat observation; `None` for dicts.
    flat: Option<usize>,
    /// Arrays to write to again and again; `None` where every call gets fresh ones.
    reused: Option<PyOnceLock<Vec<Py<PyUntypedArray>>>>,
}

impl Form {
    pub(crate) fn new(envs: Option<usize>, obs: &Observation, flat: bool, reuse: bool) -> Self {
        let envs_or_one = obs.num_envs().max(1);
        let tickers = obs.open.len() / envs_or_one;
        let indicators = (obs.indicators.len() / envs_or_one).checked_div(tickers);
        Self {
            envs,
            tickers,
            indicators: indicators.unwrap_or_default(),
            macros: obs.macro_open.len() / envs_or_one,
            flat: flat.then(|| obs.flat_width()),
            reused: reuse.then(PyOnceLock::new),
        }
    }

    pub(crate) fn is_flat(&self) -> bool {
        self.flat.is_some()
    }

    pub(crate) fn reuses(&self) -> bool {
        self.reused.is_some()
    }

    /// Do what `work` does, detached from the interpreter, and return the observation that it wrote to
    /// the slots it was given, along with its answer.
    ///
    /// When the slots cannot be had, `work` is not called.
    pub(crate) fn observe<'py, R: Send>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(Slots<'_>) -> Result<R, Failure> + Send,
    ) -> Result<(Bound<'py, PyAny>, R), Failure> {
        let Some(reused) = &self.reused else {
            return self.fresh(py, self.envs, work);
        };
        let arrays = reused.get_or_try_init(py, || {
            let arrays = self.allocate(py, self.envs)?;
            PyResult::Ok(arrays.into_iter().map(|array| array.into_array().unbind()).collect())
        })?;
        let mut borrowed = arrays
            .iter()
            .map(|array| Borrowed::of(array.bind(py)))
            .collect::<Result<Vec<_>, _>>()?;
        let slots = borrowed.iter_mut().map(Borrowed::bytes_mut).collect::<Result<_, _>>()?;
        let answer = py.detach(|| work(Slots(slots)))?;
        drop(borrowed);
        Ok((self.collect(py, arrays.iter().map(|array| array.bind(py).clone()))?, answer))
    }

    /// The observation of a batch of one as arrays of its own, without the leading axis.
    pub(crate) fn row<'py>(
        &self,
        py: Python<'py>,
        obs: &Observation,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        Ok(self.fresh(py, None, |slots| slots.fill(obs))?.0)
    }

    fn fresh<'py, R: Send>(
        &self,
        py: Python<'py>,
        envs: Option<usize>,
        work: impl FnOnce(Slots<'_>) -> Result<R, Failure> + Send,
    ) -> Result<(Bound<'py, PyAny>, R), Failure> {
        let mut arrays = self.allocate(py, envs)?;
        let slots = arrays.iter_mut().map(FreshArray::bytes_mut).collect();
        let answer = py.detach(|| work(Slots(slots)))?;
        Ok((self.collect(py, arrays.into_iter().map(FreshArray::into_array))?, answer))
    }

    fn allocate<'py>(
        &self,
        py: Python<'py>,
        envs: Option<usize>,
    ) -> PyResult<Vec<FreshArray<'py>>> {
        let array = |dtype, axes: &[usize]| {
            let shape: Vec<usize> = envs.into_iter().chain(axes.iter().copied()).collect();
            FreshArray::for_filling(py, &descr(py, dtype)?, &shape)
        };
        if let Some(width) = self.flat {
            return Ok(vec![array(DType::F32, &[width])?]);
        }
        FIELDS
            .iter()
            .map(|&(_, dtype, axes)| match axes {
                Axes::One => array(dtype, &[]),
                Axes::Tickers => array(dtype, &[self.tickers]),
                Axes::Indicators => array(dtype, &[self.tickers, self.indicators]),
                Axes::Macros => array(dtype, &[self.macros]),
                Axes::MacroIndicators => array(dtype, &[self.macros, self.indicators]),
            })
            .collect()
    }

    /// The flat array, or a dict. A panel without indicators, or an environment without macro tickers, has
    /// no such field: no space has it.
    fn collect<'py>(
        &self,
        py: Python<'py>,
        mut arrays: impl Iterator<Item = Bound<'py, PyUntypedArray>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.flat.is_some()
            && let Some(array) = arrays.next()
        {
            return Ok(array.into_any());
        }
        let dict = PyDict::new(py);
        for ((name, _, axes), array) in FIELDS.into_iter().zip(arrays) {
            let there = match axes {
                Axes::One | Axes::Tickers => true,
                Axes::Indicators => self.indicators > 0,
                Axes::Macros => self.macros > 0,
                Axes::MacroIndicators => self.macros > 0 && self.indicators > 0,
            };
            if there {
                dict.set_item(name, array)?;
            }
        }
        Ok(dict.into_any())
    }
}

/// Memory of the arrays of one observation: one piece per field, or a single flat one.
pub(crate) struct Slots<'a>(Vec<&'a mut [u8]>);

impl Slots<'_> {
    pub(crate) fn fill(mut self, obs: &Observation) -> Result<(), Failure> {
        if let [flat] = self.0.as_mut_slice() {
            let flat = bytemuck::try_cast_slice_mut(flat)
                .map_err(|error| Failure::new(Kind::Env, error))?;
            return Ok(obs.flatten_into(flat)?);
        }
        for (slot, field) in self.0.iter_mut().zip(bytes(obs)) {
            if slot.len() != field.len() {
                let (expected, found) = (field.len(), slot.len());
                return Err(EnvError::BadLength { what: "out", expected, found }.into());
            }
            slot.copy_from_slice(field);
        }
        Ok(())
    }
}

/// A reused array, borrowed from Python for one call.
enum Borrowed<'py> {
    Doubles(PyReadwriteArrayDyn<'py, f64>),
    Singles(PyReadwriteArrayDyn<'py, f32>),
    Ints(PyReadwriteArrayDyn<'py, i32>),
}

impl<'py> Borrowed<'py> {
    fn of(array: &Bound<'py, PyUntypedArray>) -> Result<Self, Failure> {
        fn writable<'py, T: Element>(
            array: &Bound<'py, PyAny>,
        ) -> Result<PyReadwriteArrayDyn<'py, T>, Failure> {
            let array = array.cast::<PyArrayDyn<T>>().map_err(PyErr::from)?;
            array.try_readwrite().map_err(|error| {
                let remedy = "leave the arrays writable, or ask for fresh ones with copy=True";
                Failure::new(
                    Kind::Env,
                    format!("the reused observation cannot be written to: {error}; {remedy}"),
                )
            })
        }
        Ok(match array.dtype().num() {
            number if number == numpy::dtype::<f64>(array.py()).num() => {
                Self::Doubles(writable(array)?)
            }
            number if number == numpy::dtype::<f32>(array.py()).num() => {
                Self::Singles(writable(array)?)
            }
            _ => Self::Ints(writable(array)?),
        })
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8], Failure> {
        let bytes = match self {
            Self::Doubles(array) => array.as_slice_mut().map(bytemuck::cast_slice_mut),
            Self::Singles(array) => array.as_slice_mut().map(bytemuck::cast_slice_mut),
            Self::Ints(array) => array.as_slice_mut().map(bytemuck::cast_slice_mut),
        };
        bytes.map_err(|error| Failure::new(Kind::Env, error))
    }
}
