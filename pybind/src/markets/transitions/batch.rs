//! Batches of transitions with their market windows as NumPy arrays, in the layouts of `sample`.

use std::sync::{Arc, Mutex};

use backcast_core::{ArenaBlock, ArenaPool, BatchBuffers, DType};
use backcast_market::{
    MarketPlan, Panel, TransitionBatch, TransitionLayout, TransitionRing, TransitionSelection,
    TransitionShape, TransitionSide,
};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyList, PySlice, PyTuple, PyType};

use crate::array::allocation::Allocator;
use crate::array::convert::{ShapeText, descr};
use crate::array::view::{FreshArray, LentArrays, array_over, lend_failure};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;

/// Number of price columns: open, high, low, close, volume.
const PRICES: isize = 5;

/// Names of a batch's parts: tickers, macro tickers and indicators.
pub(crate) struct BatchNames {
    pub(crate) selection: TransitionSelection,
    pub(crate) indicators: Vec<String>,
    /// All tickers as Python strings, in the panel's order.
    pub(crate) tickers: Vec<Py<PyAny>>,
}

impl BatchNames {
    /// Returns whether both name the parts of a batch alike.
    fn name_alike(&self, py: Python<'_>, other: &Self) -> bool {
        let alike = |(one, other): (&Py<PyAny>, &Py<PyAny>)| {
            one.is(other) || one.bind(py).eq(other).unwrap_or(false)
        };
        self.indicators == other.indicators
            && self.selection.macros == other.selection.macros
            && self.tickers.len() == other.tickers.len()
            && self.tickers.iter().zip(&other.tickers).all(alike)
    }
}

/// Transitions read from a ring, its sizes at that time, and the plan of their windows. The ring
/// may have other sizes by the time that they are shown.
pub(crate) struct FoundBatch {
    pub(crate) batch: TransitionBatch,
    pub(crate) plan: MarketPlan,
    pub(crate) shape: TransitionShape,
}

/// Memory of a batch, so that it can be filled again. Arrays are lent in the order of `arrays`:
/// arenas and masks, then the columns of the transitions.
#[pyclass(module = "backcast._native", name = "MarketMemory", frozen)]
pub(crate) struct MarketMemory {
    plan: MarketPlan,
    shape: TransitionShape,
    names: Arc<BatchNames>,
    arrays: Vec<Py<PyUntypedArray>>,
    /// Tokens of the `tickers` shown, and the dicts that show them.
    tokens: Mutex<Vec<u16>>,
    sides: Vec<Py<PyDict>>,
    /// Earlier batch of the other kind. Draws may alternate between kinds: both states share an
    /// arena, or each has its own.
    spare: Mutex<Option<Py<PyAny>>>,
}

/// Returns the number of the first array that holds a column of the transitions.
fn columns_at(plan: &MarketPlan) -> usize {
    2 * plan.arenas()
}

/// Returns dtype and shape of an arena and of its mask.
fn markets(plan: &MarketPlan) -> [(DType, Vec<usize>); 2] {
    [(DType::F32, plan.arena_shape().to_vec()), (DType::I32, plan.mask_shape().to_vec())]
}

/// Returns the bytes of an arena and of its mask, if they can be addressed.
fn market_bytes(plan: &MarketPlan) -> Option<[usize; 2]> {
    let [arena, mask] = markets(plan).map(|(dtype, shape)| {
        shape.iter().try_fold(dtype.size(), |bytes, axis| bytes.checked_mul(*axis))
    });
    Some([arena?, mask?])
}

/// Index of the column `outcome` in [`columns`].
const OUTCOME: usize = 7;

/// Returns the columns of a batch after arenas and masks: name, dtype and axes after `B`.
fn columns(shape: &TransitionShape) -> [(&'static str, DType, Vec<usize>); 9] {
    let tickers = shape.tickers;
    [
        ("env_ids", DType::I32, vec![]),
        ("day", DType::I32, vec![2]),
        ("cash", DType::F32, vec![2]),
        ("shares", DType::I32, vec![2, tickers]),
        ("avg_buy_price", DType::F32, vec![2, tickers]),
        ("action", DType::F32, shape.action.clone()),
        ("reward", DType::F32, vec![shape.objectives]),
        // Done, terminated, truncated.
        ("outcome", DType::Bool, vec![OUTCOMES]),
        ("tokens", DType::U16, vec![tickers]),
    ]
}

/// Number of flags of an outcome.
const OUTCOMES: usize = 3;

/// Returns how the transitions ended, `[B, 3]`: done, terminated, truncated.
fn outcomes_of(batch: &TransitionBatch) -> Vec<u8> {
    let outcomes = (0..batch.len()).map(|at| batch.outcome(at));
    outcomes
        .flat_map(|outcome| [outcome.done, outcome.terminated, outcome.truncated].map(u8::from))
        .collect()
}

fn bytes_of_columns<'a>(
    batch: &'a TransitionBatch,
    env_ids: &'a [i32],
    outcomes: &'a [u8],
) -> [&'a [u8]; 9] {
    [
        bytemuck::cast_slice(env_ids),
        bytemuck::cast_slice(&batch.days),
        bytemuck::cast_slice(&batch.cash),
        bytemuck::cast_slice(&batch.shares),
        bytemuck::cast_slice(&batch.avg_buy_prices),
        bytemuck::cast_slice(&batch.actions),
        bytemuck::cast_slice(&batch.rewards),
        outcomes,
        bytemuck::cast_slice(&batch.tokens),
    ]
}

fn sample_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "backcast.finrl._sample", "Sample")
}

/// Fills arenas, masks and columns. `buffers` are those of [`MarketMemory`], in its order.
fn fill(
    ring: &mut TransitionRing,
    plan: &MarketPlan,
    batch: &TransitionBatch,
    selection: &TransitionSelection,
    mut buffers: Vec<&mut [u8]>,
) {
    let columns = buffers.split_off(columns_at(plan));
    let env_ids: Vec<i32> = (0..batch.len()).map(|at| batch.env_id(at)).collect();
    let outcomes = outcomes_of(batch);
    for (to, from) in columns.into_iter().zip(bytes_of_columns(batch, &env_ids, &outcomes)) {
        to.copy_from_slice(from);
    }
    let mut arenas: Vec<(&mut [f32], &mut [i32])> = Vec::new();
    let mut buffers = buffers.into_iter();
    while let (Some(arena), Some(mask)) = (buffers.next(), buffers.next()) {
        // NumPy's memory is aligned for every dtype, unless it is empty.
        let arena = bytemuck::try_cast_slice_mut(arena).unwrap_or_default();
        arenas.push((arena, bytemuck::try_cast_slice_mut(mask).unwrap_or_default()));
    }
    ring.fill(plan, batch, selection, &mut arenas);
}

/// Makes a new batch of these transitions.
pub(crate) fn new_batch<'py>(
    py: Python<'py>,
    ring: &Handle<TransitionRing>,
    names: &Arc<BatchNames>,
    pool: &Arc<ArenaPool>,
    found: FoundBatch,
) -> Result<Bound<'py, PyAny>, Failure> {
    let FoundBatch { batch, plan, shape } = found;
    let mut blocks = rooms(pool, &plan)?;
    let mut arrays = Vec::new();
    for (_, dtype, axes) in columns(&shape) {
        let axes: Vec<usize> = std::iter::once(batch.len()).chain(axes).collect();
        arrays.push(ALLOCATOR.array(py, dtype, &axes)?);
    }
    let buffers = blocks.iter_mut().map(ArenaBlock::bytes_mut);
    let buffers = buffers.chain(arrays.iter_mut().map(FreshArray::bytes_mut)).collect();
    py.detach(|| {
        ring.with(|ring| {
            fill(ring, &plan, &batch, &names.selection, buffers);
            Ok(())
        })
    })?;
    let markets = markets(&plan);
    let markets = blocks
        .into_iter()
        .zip(markets.iter().cycle())
        .map(|(block, (dtype, shape))| array_over(py, block, &descr(py, *dtype)?, shape));
    let columns = arrays.into_iter().map(|array| Ok(array.into_array()));
    let arrays: Vec<_> = markets.chain(columns).collect::<PyResult<_>>()?;
    let shown = Shown::of(py, &plan, &arrays, &shape)?;
    let sample = shown.sample(py, &plan, names, &batch, &shape)?;
    let memory = MarketMemory {
        plan,
        shape,
        names: Arc::clone(names),
        arrays: arrays.into_iter().map(Bound::unbind).collect(),
        tokens: Mutex::new(batch.tokens),
        sides: sample.sides,
        spare: Mutex::new(None),
    };
    let made = sample_class(py)?.call1((sample.parts,))?;
    made.setattr(intern!(py, "_memory"), Py::new(py, memory)?)?;
    Ok(made)
}

/// Allocates memory for arenas and masks.
fn rooms(pool: &Arc<ArenaPool>, plan: &MarketPlan) -> Result<Vec<ArenaBlock>, Failure> {
    let blocks = market_bytes(plan).and_then(|[arena, mask]| {
        pool.take((0..columns_at(plan)).map(|at| if at % 2 == 0 { arena } else { mask }))
    });
    blocks.ok_or_else(|| no_room(DType::F32, &plan.arena_shape()))
}

/// Allocator of batches.
const ALLOCATOR: Allocator =
    Allocator { class: ErrorClass::Sample, remedy: "ask for shorter windows or smaller batches" };

fn no_room(dtype: DType, shape: &[usize]) -> Failure {
    let message = format!(
        "there is no memory for an array {} of {}; ask for shorter windows or smaller batches",
        ShapeText(shape),
        dtype.code()
    );
    Failure::new(ErrorClass::Sample, message)
}

/// Returns the memory of a batch, or `None` for an object that `sample` did not make.
pub(crate) fn memory_of<'py>(
    out: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, MarketMemory>>> {
    let py = out.py();
    if !out.is_instance(sample_class(py)?)? {
        return Ok(None);
    }
    let memory = out.getattr_opt(intern!(py, "_memory"))?;
    Ok(memory.and_then(|memory| memory.cast_into().ok()))
}

impl MarketMemory {
    /// Returns whether a batch of these transitions has the same parts and names.
    pub(crate) fn fits(&self, py: Python<'_>, names: &Arc<BatchNames>, found: &FoundBatch) -> bool {
        self.plan == found.plan
            && self.shape == found.shape
            && (Arc::ptr_eq(&self.names, names) || self.names.name_alike(py, names))
            && self.is_whole(py, &found.batch)
    }

    /// Returns whether the arrays have their original sizes. NumPy resizes arrays that are in use
    /// only if `refcheck` is off.
    fn is_whole(&self, py: Python<'_>, batch: &TransitionBatch) -> bool {
        let Some(markets) = market_bytes(&self.plan) else { return false };
        let markets = markets.into_iter().cycle().take(columns_at(&self.plan));
        let outcomes = vec![0; batch.len() * OUTCOMES];
        let columns = bytes_of_columns(batch, &batch.env_ids, &outcomes).map(<[u8]>::len);
        self.arrays.iter().map(|array| bytes_in(array.bind(py))).eq(markets.chain(columns))
    }

    /// Takes out the earlier batch of the other kind, if there is one.
    pub(crate) fn take_spare(&self) -> Option<Py<PyAny>> {
        self.spare.lock().ok()?.take()
    }

    pub(crate) fn keep_spare(&self, spare: Py<PyAny>) {
        if let Ok(mut kept) = self.spare.lock() {
            *kept = Some(spare);
        }
    }

    /// Fills the batch again, with transitions that [fit](Self::fits).
    pub(crate) fn refill(
        &self,
        py: Python<'_>,
        ring: &Handle<TransitionRing>,
        names: &BatchNames,
        batch: &TransitionBatch,
    ) -> Result<(), Failure> {
        let lent: Vec<_> = self
            .arrays
            .iter()
            .map(|array| {
                let array = array.bind(py).clone();
                let bytes = bytes_in(&array);
                (array, bytes)
            })
            .collect();
        let mut lent = LentArrays::of(&lent).map_err(|(_, why)| lend_failure("sample", why))?;
        py.detach(|| {
            ring.with(|ring| {
                fill(ring, &self.plan, batch, &names.selection, lent.buffers());
                Ok(())
            })
        })?;
        drop(lent);
        let Ok(mut shown) = self.tokens.lock() else { return Ok(()) };
        if *shown != batch.tokens {
            let tickers = ticker_lists(py, names, batch)?;
            for side in &self.sides {
                side.bind(py).set_item(intern!(py, "tickers"), &tickers)?;
            }
            shown.clone_from(&batch.tokens);
        }
        Ok(())
    }
}

fn bytes_in(array: &Bound<'_, PyUntypedArray>) -> usize {
    array.len() * array.dtype().itemsize()
}

/// Returns the names of the tickers as lists `[B][T]`.
fn ticker_lists<'py>(
    py: Python<'py>,
    names: &BatchNames,
    batch: &TransitionBatch,
) -> PyResult<Bound<'py, PyList>> {
    let width = batch.tokens.len().checked_div(batch.len()).unwrap_or(0).max(1);
    let lists = batch.tokens.chunks_exact(width).map(|tokens| {
        let name = |token: &u16| names.tickers.get(usize::from(*token) - 1);
        PyList::new(py, tokens.iter().filter_map(name))
    });
    PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)
}

/// Arrays as the caller may see them.
struct Shown<'py> {
    /// Arena and mask of each side; read-only where the sides overlap.
    arenas: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    columns: Vec<Bound<'py, PyAny>>,
}

/// The seven parts of a batch, and the two states among them.
struct Parts<'py> {
    parts: Bound<'py, PyTuple>,
    sides: Vec<Py<PyDict>>,
}

impl<'py> Shown<'py> {
    fn of(
        py: Python<'py>,
        plan: &MarketPlan,
        arrays: &[Bound<'py, PyUntypedArray>],
        shape: &TransitionShape,
    ) -> PyResult<Self> {
        let (markets, columns) = arrays.split_at(columns_at(plan));
        let view = |array: &Bound<'py, PyUntypedArray>| {
            let array = array.as_any().call_method0(intern!(py, "view"))?;
            if plan.shared() {
                array.call_method1(intern!(py, "setflags"), (false,))?;
            }
            Ok::<_, PyErr>(array)
        };
        let arenas = markets
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[arena, mask]| Ok((view(arena)?, view(mask)?)))
            .collect::<PyResult<_>>()?;
        debug_assert_eq!(columns.len(), self::columns(shape).len());
        let columns = columns.iter().map(|column| column.as_any().clone()).collect();
        Ok(Self { arenas, columns })
    }

    fn sample(
        &self,
        py: Python<'py>,
        plan: &MarketPlan,
        names: &BatchNames,
        batch: &TransitionBatch,
        shape: &TransitionShape,
    ) -> PyResult<Parts<'py>> {
        let tickers = ticker_lists(py, names, batch)?;
        let (mut states, mut masks) = (Vec::new(), Vec::new());
        for side in [TransitionSide::State, TransitionSide::Next] {
            let (state, mask) = (PyDict::new(py), PyDict::new(py));
            match plan.windows().layout {
                TransitionLayout::Ticker => self.by_ticker(py, plan, names, side, &state, &mask)?,
                TransitionLayout::Batched => self.batched(py, plan, side, &state, &mask)?,
            }
            self.portfolio(py, side, &state)?;
            state.set_item(intern!(py, "tickers"), &tickers)?;
            let unique = plan.unique().iter().filter_map(|at| names.tickers.get(*at as usize));
            if plan.windows().layout == TransitionLayout::Ticker {
                state.set_item(intern!(py, "unique_tickers"), PyList::new(py, unique)?)?;
            }
            let macros = names.selection.macros.iter();
            let macros = macros.filter_map(|at| names.tickers.get(*at as usize));
            state.set_item(intern!(py, "macro_tickers"), PyList::new(py, macros)?)?;
            state.set_item(intern!(py, "indicator_names"), &names.indicators)?;
            state.set_item(intern!(py, "action_shape"), PyTuple::new(py, &shape.action)?)?;
            state.set_item(intern!(py, "env_ids"), &self.columns[0])?;
            state.set_item(intern!(py, "tokens"), &self.columns[8])?;
            states.push(state);
            masks.push(mask);
        }
        let [action, reward] = [&self.columns[5], &self.columns[6]];
        let flag = |which: usize| self.columns[OUTCOME].get_item((PySlice::full(py), which));
        let done = flag(0)?;
        states[TransitionSide::Next as usize].set_item(intern!(py, "terminated"), flag(1)?)?;
        states[TransitionSide::Next as usize].set_item(intern!(py, "truncated"), flag(2)?)?;
        let parts = [
            states[0].as_any(),
            action,
            reward,
            states[1].as_any(),
            &done,
            masks[0].as_any(),
            masks[1].as_any(),
        ];
        let parts = PyTuple::new(py, parts)?;
        Ok(Parts { parts, sides: states.into_iter().map(Bound::unbind).collect() })
    }

    fn portfolio(
        &self,
        py: Python<'py>,
        side: TransitionSide,
        state: &Bound<'py, PyDict>,
    ) -> PyResult<()> {
        let half =
            |column: usize| self.columns[column].get_item((PySlice::full(py), side as usize));
        let portfolio = PyDict::new(py);
        portfolio.set_item(intern!(py, "cash"), half(2)?)?;
        portfolio.set_item(intern!(py, "shares"), half(3)?)?;
        portfolio.set_item(intern!(py, "avg_buy_price"), half(4)?)?;
        state.set_item(intern!(py, "portfolio"), portfolio)?;
        state.set_item(intern!(py, "day"), half(1)?)
    }

    /// Splits the windows of a side: prices, indicators and mask of history and future, the open.
    fn windows(
        &self,
        py: Python<'py>,
        plan: &MarketPlan,
        side: TransitionSide,
    ) -> PyResult<Windows<'py>> {
        let (arena, day) = plan.day(side);
        let (arena, mask) = &self.arenas[arena];
        let all = || PySlice::full(py);
        let span = |range: std::ops::Range<usize>| {
            Ok::<_, PyErr>(PySlice::new(
                py,
                isize::try_from(range.start)?,
                isize::try_from(range.end)?,
                1,
            ))
        };
        let prices = || PySlice::new(py, 0, PRICES, 1);
        let indicators = || PySlice::new(py, PRICES, isize::MAX, 1);
        let part = |range: std::ops::Range<usize>| {
            Ok::<_, PyErr>(Part {
                ohlcv: arena.get_item((all(), all(), span(range.clone())?, prices()))?,
                indicators: arena.get_item((all(), all(), span(range.clone())?, indicators()))?,
                mask: mask.get_item((all(), all(), span(range)?))?,
            })
        };
        Ok(Windows {
            history: part(plan.history(side))?,
            future: part(plan.future(side))?,
            open: arena.get_item((all(), all(), day, 0))?,
            shown: arena.get_item((all(), all(), day - plan.windows().lead, indicators()))?,
        })
    }

    /// Fills a dict for each ticker, `[B, ...]`.
    fn by_ticker(
        &self,
        py: Python<'py>,
        plan: &MarketPlan,
        names: &BatchNames,
        side: TransitionSide,
        state: &Bound<'py, PyDict>,
        mask: &Bound<'py, PyDict>,
    ) -> PyResult<()> {
        let windows = self.windows(py, plan, side)?;
        let add =
            |slot: usize, ticker: u32, state: &Bound<'py, PyDict>, mask: &Bound<'py, PyDict>| {
                let Some(name) = names.tickers.get(ticker as usize) else { return Ok(()) };
                state.set_item(name, windows.dict(py, plan, slot)?)?;
                mask.set_item(name, windows.history.mask.get_item(slot)?)
            };
        for (slot, ticker) in plan.unique().iter().enumerate() {
            add(slot, *ticker, state, mask)?;
        }
        let (macro_state, macro_mask) = (PyDict::new(py), PyDict::new(py));
        for (at, ticker) in names.selection.macros.iter().enumerate() {
            add(plan.own() + at, *ticker, &macro_state, &macro_mask)?;
        }
        state.set_item(intern!(py, "macro"), macro_state)?;
        mask.set_item(intern!(py, "macro"), macro_mask)
    }

    /// Fills arrays over samples and tickers, `[B, T, ...]`, and those of macro tickers, `[B, M,
    /// ...]`.
    fn batched(
        &self,
        py: Python<'py>,
        plan: &MarketPlan,
        side: TransitionSide,
        state: &Bound<'py, PyDict>,
        mask: &Bound<'py, PyDict>,
    ) -> PyResult<()> {
        let windows = self.windows(py, plan, side)?;
        let (end, future) = (isize::try_from(plan.own())?, PyDict::new(py));
        let macro_state = PyDict::new(py);
        let own = PySlice::new(py, 0, end, 1);
        let others = PySlice::new(py, end, isize::MAX, 1);
        for (slots, state, key) in [(&own, state, "market"), (&others, &macro_state, "macro")] {
            let of = |array: &Bound<'py, PyAny>| array.get_item((PySlice::full(py), slots));
            if plan.windows().history > 0 {
                state.set_item(intern!(py, "ohlcv"), of(&windows.history.ohlcv)?)?;
                state.set_item(intern!(py, "indicators"), of(&windows.history.indicators)?)?;
                state.set_item(intern!(py, "mask"), of(&windows.history.mask)?)?;
            }
            state.set_item(intern!(py, "open"), of(&windows.open)?)?;
            state.set_item(intern!(py, "current_indicators"), of(&windows.shown)?)?;
            if plan.windows().future > 0 {
                state.set_item(intern!(py, "future_ohlcv"), of(&windows.future.ohlcv)?)?;
                state
                    .set_item(intern!(py, "future_indicators"), of(&windows.future.indicators)?)?;
                state.set_item(intern!(py, "future_mask"), of(&windows.future.mask)?)?;
                future.set_item(key, of(&windows.future.mask)?)?;
            }
            mask.set_item(key, of(&windows.history.mask)?)?;
        }
        state.set_item(intern!(py, "macro"), macro_state)?;
        if !future.is_empty() {
            mask.set_item(intern!(py, "future"), future)?;
        }
        Ok(())
    }
}

/// History or future of all slots and samples.
struct Part<'py> {
    ohlcv: Bound<'py, PyAny>,
    indicators: Bound<'py, PyAny>,
    mask: Bound<'py, PyAny>,
}

struct Windows<'py> {
    history: Part<'py>,
    future: Part<'py>,
    open: Bound<'py, PyAny>,
    /// Indicators with the lag of observations.
    shown: Bound<'py, PyAny>,
}

impl<'py> Windows<'py> {
    /// Returns the dict of one slot of a slot-major arena.
    fn dict(
        &self,
        py: Python<'py>,
        plan: &MarketPlan,
        slot: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item(intern!(py, "ohlcv"), self.history.ohlcv.get_item(slot)?)?;
        dict.set_item(intern!(py, "indicators"), self.history.indicators.get_item(slot)?)?;
        dict.set_item(intern!(py, "open"), self.open.get_item(slot)?)?;
        dict.set_item(intern!(py, "current_indicators"), self.shown.get_item(slot)?)?;
        if plan.windows().future > 0 {
            dict.set_item(intern!(py, "future_ohlcv"), self.future.ohlcv.get_item(slot)?)?;
            let indicators = self.future.indicators.get_item(slot)?;
            dict.set_item(intern!(py, "future_indicators"), indicators)?;
            dict.set_item(intern!(py, "future_mask"), self.future.mask.get_item(slot)?)?;
        }
        Ok(dict)
    }
}

/// Returns a panel's tickers as Python strings.
pub(crate) fn ticker_names(py: Python<'_>, panel: &Panel) -> PyResult<Vec<Py<PyAny>>> {
    let name = |name: &String| Ok(name.into_pyobject(py)?.into_any().unbind());
    panel.tickers().iter().map(name).collect()
}
