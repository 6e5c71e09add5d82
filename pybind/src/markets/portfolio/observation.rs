//! Observations of the environment as NumPy arrays: a dict or one flat array, fresh or reused.

use std::ops::Range;

use backcast_core::DType;
use backcast_core::plumbing::copy_slice;
use backcast_gym::{EpisodeError, Observation, PortfolioError, PortfolioVectorEnv as CoreEnv};
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::array::allocation::Allocator;
use crate::array::convert::descr;
use crate::array::pool::{ArrayPool, MAX_ARRAYS, PerArray, PooledArrays, per_array};
use crate::array::view::{FreshArray, ReusedArrays};
use crate::error::{ErrorClass, Failure};
use crate::markets::portfolio::history::{DayBuffers, Days, Histories};

/// Axes of a field per environment.
#[derive(Clone, Copy)]
enum Axes {
    One,
    Tickers,
    Indicators,
    Macros,
    MacroIndicators,
}

/// Fields of a dict observation, sorted by name as Gymnasium sorts them.
const FIELDS: [(&str, DType, Axes); MAX_ARRAYS] = [
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

/// Returns the bytes of the fields, in the order of [`FIELDS`].
fn bytes(obs: &Observation) -> [&[u8]; FIELDS.len()] {
    [
        bytemuck::cast_slice(&obs.avg_buy_price),
        bytemuck::cast_slice(&obs.cash),
        bytemuck::cast_slice(&obs.day),
        bytemuck::cast_slice(&obs.indicators),
        bytemuck::cast_slice(&obs.macro_indicators),
        bytemuck::cast_slice(&obs.macro_open),
        bytemuck::cast_slice(&obs.open),
        if obs.units.is_empty() {
            bytemuck::cast_slice(&obs.shares)
        } else {
            bytemuck::cast_slice(&obs.units)
        },
        bytemuck::cast_slice(&obs.total_asset),
    ]
}

/// Options of the form of observations.
#[derive(Clone, Copy)]
pub(crate) struct ObservationOptions {
    /// Return one float32 array instead of a dict.
    pub(crate) flat: bool,
    /// Write every observation to the same arrays.
    pub(crate) reuse: bool,
    /// Give single numbers an axis of length one, as learners expect of every leaf of a space.
    pub(crate) unit_axis: bool,
}

/// Form of observations as arrays.
pub(crate) struct ObservationForm {
    /// Leading axis; `None` for the single environment.
    envs: Option<usize>,
    /// Positions in [`FIELDS`] of the fields shown.
    fields: Vec<usize>,
    /// Dtype and axes of each array, without the leading axis.
    arrays: Vec<(DType, Vec<usize>)>,
    options: ObservationOptions,
    /// Arrays that every call writes to; `None` if every call gets fresh ones.
    reused: Option<PyOnceLock<ReusedArrays>>,
    /// Arrays of earlier observations.
    pool: ArrayPool,
    /// Histories as arrays of their own. `None` if no history is shown, or if it is part of a flat
    /// observation.
    histories: Option<Histories>,
    history_shape: [usize; 3],
    /// Whether a step takes less time than releasing the interpreter.
    brief: bool,
}

/// Allocator of observations.
const ALLOCATOR: Allocator =
    Allocator { class: ErrorClass::Env, remedy: "make fewer portfolios, or show less of each" };

/// Largest observation, in numbers, that is written without releasing the interpreter.
const BRIEF: usize = 1_024;

impl ObservationForm {
    pub(crate) fn new(envs: Option<usize>, env: &CoreEnv, options: ObservationOptions) -> Self {
        let ObservationOptions { flat, reuse, unit_axis } = options;
        let obs = env.obs();
        let envs_or_one = obs.num_envs().max(1);
        let tickers = obs.open.len() / envs_or_one;
        let macros = obs.macro_open.len() / envs_or_one;
        let indicators = (obs.indicators.len() / envs_or_one).checked_div(tickers);
        let indicators = indicators.unwrap_or_default();
        // Leaves out fields without indicators or macro tickers, since no space can be empty.
        let axes = |axes: Axes| match axes {
            Axes::One => Some(if unit_axis { vec![1] } else { vec![] }),
            Axes::Tickers => Some(vec![tickers]),
            Axes::Indicators => (indicators > 0).then(|| vec![tickers, indicators]),
            Axes::Macros => (macros > 0).then(|| vec![macros]),
            Axes::MacroIndicators => {
                (macros > 0 && indicators > 0).then(|| vec![macros, indicators])
            }
        };
        let there = FIELDS.iter().enumerate();
        let fractional = !obs.units.is_empty();
        let dtype = |name, dtype| match name {
            "shares" if fractional => DType::F64,
            _ => dtype,
        };
        let there = there
            .filter_map(|(at, (name, of, shape))| Some((at, (dtype(*name, *of), axes(*shape)?))));
        let (fields, arrays) = there.unzip();
        Self {
            envs,
            fields,
            arrays: if flat { vec![(DType::F32, vec![env.flat_width()])] } else { arrays },
            options,
            reused: reuse.then(PyOnceLock::new),
            pool: ArrayPool::default(),
            // A flat observation includes its history.
            histories: (!flat).then(|| Histories::new(envs, env.history_shape(), reuse)).flatten(),
            history_shape: env.history_shape(),
            brief: envs_or_one * env.flat_width() <= BRIEF,
        }
    }

    pub(crate) fn options(&self) -> ObservationOptions {
        self.options
    }

    /// Drops the arrays of the pool.
    pub(crate) fn forget(&self) {
        self.pool.clear();
        if let Some(histories) = &self.histories {
            histories.forget();
        }
    }

    /// Runs `work` on buffers for one observation, and returns the observation with its answer. The
    /// interpreter is released unless the work is brief.
    ///
    /// If the buffers cannot be allocated, `work` is not called.
    pub(crate) fn observe<'py, R: Send>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(ObservationBuffers<'_>) -> Result<R, Failure> + Send,
    ) -> Result<(Bound<'py, PyAny>, R), Failure> {
        let mut histories = self
            .histories
            .as_ref()
            .map(|histories| histories.allocate(py, self.envs))
            .transpose()?;
        let days = histories.as_mut().map(Days::slots).transpose()?;
        let numbers = &self.fields[..];
        let (arrays, answer) = match &self.reused {
            None => {
                let mut arrays = self.allocate(py, self.envs, self.pool.take())?;
                let fields = per_array(arrays.iter_mut().flatten().map(FreshArray::bytes_mut));
                let answer = self.run(py, || work(ObservationBuffers { fields, numbers, days }))?;
                let arrays = arrays.map(|array| array.map(FreshArray::into_array));
                self.pool.keep(arrays.iter().flatten());
                (arrays, answer)
            }
            Some(reused) => {
                let reused = reused.get_or_try_init(py, || {
                    let arrays = self.allocate(py, self.envs, PooledArrays::default())?;
                    Ok::<_, Failure>(ReusedArrays::new(arrays.into_iter().flatten()))
                })?;
                let mut filling = reused.fill(py, "observation")?;
                let fields = filling.buffers();
                let answer = self.run(py, || work(ObservationBuffers { fields, numbers, days }))?;
                drop(filling);
                (reused.arrays(py), answer)
            }
        };
        let days = histories.map(Days::into_arrays).transpose()?;
        Ok((self.collect(py, arrays, days)?, answer))
    }

    fn run<R: Send>(&self, py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
        if self.brief { work() } else { py.detach(work) }
    }

    /// Returns the last observation of one environment in new arrays, without the leading axis.
    pub(crate) fn row<'py>(
        &self,
        py: Python<'py>,
        last: &LastObservation,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let mut arrays = self.allocate(py, None, PooledArrays::default())?;
        let fields = per_array(arrays.iter_mut().flatten().map(FreshArray::bytes_mut));
        let numbers = &self.fields[..];
        py.detach(|| {
            ObservationBuffers { fields, numbers, days: None }.fill_from(last, self.history_shape)
        })?;
        let days = match (&self.histories, &last.days) {
            (Some(histories), Some(days)) => Some(histories.arrays_of(py, days)?),
            _ => None,
        };
        let arrays = arrays.map(|array| array.map(FreshArray::into_array));
        Ok(self.collect(py, arrays, days)?)
    }

    fn allocate<'py>(
        &self,
        py: Python<'py>,
        envs: Option<usize>,
        mut pooled: PooledArrays,
    ) -> Result<PerArray<FreshArray<'py>>, Failure> {
        let mut arrays = PerArray::default();
        for (at, (array, (dtype, axes))) in arrays.iter_mut().zip(&self.arrays).enumerate() {
            let mut shape = [envs.unwrap_or_default(), 0, 0];
            let first = usize::from(envs.is_some());
            shape[first..first + axes.len()].copy_from_slice(axes);
            let shape = &shape[..first + axes.len()];
            let made = pooled.take_or_new(at, &descr(py, *dtype)?, shape);
            *array = Some(made.map_err(|error| ALLOCATOR.array_failure(py, error, *dtype, shape))?);
        }
        Ok(arrays)
    }

    /// Returns the flat array, or a dict of the fields.
    fn collect<'py>(
        &self,
        py: Python<'py>,
        arrays: PerArray<Bound<'py, PyUntypedArray>>,
        days: Option<[Bound<'py, PyAny>; 2]>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Interned once for all observations.
        static NAMES: PyOnceLock<Vec<Py<PyString>>> = PyOnceLock::new();
        if self.options.flat
            && let [Some(array), ..] = arrays
        {
            return Ok(array.into_any());
        }
        let names = NAMES.get_or_init(py, || {
            FIELDS.iter().map(|(name, ..)| PyString::intern(py, name).unbind()).collect()
        });
        let dict = PyDict::new(py);
        let mut days = days;
        for (&at, array) in self.fields.iter().zip(arrays.into_iter().flatten()) {
            // Keeps the dict sorted by name, as the spaces are.
            if FIELDS[at].0 > "history"
                && let Some([history, mask]) = days.take()
            {
                dict.set_item(intern!(py, "history"), history)?;
                dict.set_item(intern!(py, "history_mask"), mask)?;
            }
            dict.set_item(names[at].bind(py), array)?;
        }
        Ok(dict.into_any())
    }
}

/// Last observation of an episode, with its history.
pub(crate) struct LastObservation {
    pub(crate) obs: Observation,
    pub(crate) days: Option<(Vec<f32>, Vec<u8>)>,
}

/// Memory of one observation: one buffer per field or a single flat one, and the history.
pub(crate) struct ObservationBuffers<'a> {
    fields: PerArray<&'a mut [u8]>,
    /// Positions in [`FIELDS`].
    numbers: &'a [usize],
    days: Option<DayBuffers<'a>>,
}

impl ObservationBuffers<'_> {
    /// Writes the observations after a reset.
    pub(crate) fn fill(mut self, env: &CoreEnv) -> Result<(), Failure> {
        self.fill_block(env, 0..env.num_envs())?;
        self.finish(env, false)
    }

    /// Writes the observations of some portfolios, without histories in an arena.
    pub(crate) fn fill_block(&mut self, env: &CoreEnv, of: Range<usize>) -> Result<(), Failure> {
        let envs = env.num_envs();
        if let [Some(flat), None, ..] = &mut self.fields {
            let width = flat.len() / envs;
            let flat = &mut flat[of.start * width..of.end * width];
            env.flatten_of(of, cast_mut(flat)?)?;
            return Ok(());
        }
        let fields = bytes(env.obs());
        let (mut indicators, mut of_macros) = (&mut [][..], &mut [][..]);
        for (slot, &at) in self.fields.iter_mut().flatten().zip(self.numbers) {
            let width = slot.len() / envs;
            let slot = &mut slot[of.start * width..of.end * width];
            match FIELDS[at].2 {
                Axes::Indicators => indicators = cast_mut(slot)?,
                Axes::MacroIndicators => of_macros = cast_mut(slot)?,
                _ => copy_field(slot, part(fields[at], envs, &of))?,
            }
        }
        env.indicators_of(of.clone(), indicators, of_macros)?;
        match &mut self.days {
            Some(days) => days.fill_block(env, of),
            None => Ok(()),
        }
    }

    /// Writes the histories in an arena, after all portfolios.
    pub(crate) fn finish(self, env: &CoreEnv, stepped: bool) -> Result<(), Failure> {
        self.days.map_or(Ok(()), |days| days.finish(env, stepped))
    }

    fn fill_from(
        mut self,
        last: &LastObservation,
        history_shape: [usize; 3],
    ) -> Result<(), Failure> {
        let LastObservation { obs, days } = last;
        if let [Some(flat), None, ..] = &mut self.fields {
            let (days, mask) = days.as_ref().map_or((&[][..], &[][..]), |(d, m)| (d, m));
            return Ok(obs.flatten_with_history(days, mask, history_shape, cast_mut(flat)?)?);
        }
        let fields = bytes(obs);
        for (slot, &at) in self.fields.iter_mut().flatten().zip(self.numbers) {
            copy_field(slot, fields[at])?;
        }
        Ok(())
    }
}

/// Returns the part of a field of some environments.
fn part<'a>(field: &'a [u8], envs: usize, of: &Range<usize>) -> &'a [u8] {
    let width = field.len() / envs;
    &field[of.start * width..of.end * width]
}

fn cast_mut<V: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
    slot: &mut [u8],
) -> Result<&mut [V], Failure> {
    bytemuck::try_cast_slice_mut(slot).map_err(|error| Failure::new(ErrorClass::Env, error))
}

fn copy_field(slot: &mut [u8], field: &[u8]) -> Result<(), Failure> {
    if slot.len() != field.len() {
        let (expected, found) = (field.len(), slot.len());
        let error = EpisodeError::BadLength { what: "out", expected, found };
        return Err(PortfolioError::from(error).into());
    }
    copy_slice(field, slot);
    Ok(())
}
