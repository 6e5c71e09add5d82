//! Conversion of environment states, dicts of arrays with a leading axis of envs, to transitions.

mod tickers;

use std::fmt::{self, Display};

use backcast_core::DType;
use backcast_core::plumbing::closest_name;
use backcast_market::{TransitionBatch, TransitionOutcome, TransitionShape};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

pub(crate) use self::tickers::TickerLists;
use crate::array::convert::{ShapeText, Target, array_of, is_masked};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};

/// Limit of environment numbers, exclusive; the lower limit is its negative, inclusive.
const MOST_ENVS: i32 = 1 << 30;

/// Names of the arguments of `add` in errors.
#[derive(Clone, Copy)]
pub(crate) struct ArgumentNames {
    states: &'static str,
    actions: &'static str,
    rewards: &'static str,
    next_states: &'static str,
    terminal: &'static str,
    terminated: &'static str,
    dones: &'static str,
    /// Whether the caller passes a single transition, without the leading axis.
    alone: bool,
}

impl ArgumentNames {
    pub(crate) const MANY: Self = Self {
        states: "states",
        actions: "actions",
        rewards: "rewards",
        next_states: "next_states",
        terminal: "next_states['terminal']",
        terminated: "next_states['terminated']",
        dones: "dones",
        alone: false,
    };
    pub(crate) const ALONE: Self = Self {
        states: "state",
        actions: "action",
        rewards: "reward",
        next_states: "next_state",
        terminal: "next_state['terminal']",
        terminated: "next_state['terminated']",
        dones: "done",
        alone: true,
    };
}

/// Explanation of a shape: for many transitions, and for a single one.
type Meaning = [&'static str; 2];

const PER_ENVIRONMENT: Meaning = ["one per environment", "a single one"];
const PER_TICKER: Meaning = ["one per environment and ticker", "one per ticker"];
const ACTION: Meaning = ["the environments first, then action_shape", "action_shape"];
const OBJECTIVES: Meaning = ["the environments first, then objectives", "one per objective"];

/// Arguments of `add`.
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) called: ArgumentNames,
    pub(crate) states: &'a Bound<'py, PyDict>,
    pub(crate) actions: &'a Bound<'py, PyAny>,
    pub(crate) rewards: &'a Bound<'py, PyAny>,
    pub(crate) next_states: &'a Bound<'py, PyDict>,
    pub(crate) dones: &'a Bound<'py, PyAny>,
}

/// Values of an array in C order.
enum Numbers<'a> {
    F64(&'a [f64]),
    F32(&'a [f32]),
    I64(&'a [i64]),
    I32(&'a [i32]),
    Bool(&'a [u8]),
}

/// Subject of an error: an argument, or an entry of a state. Formatted only if there is an error.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Argument(&'static str),
    Entry(&'static str, &'a Bound<'a, PyString>),
}

impl Display for Subject<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(name) => out.write_str(name),
            // Formatting the key with `{}` would lose what a signal handler raises.
            Self::Entry(state, key) => write!(out, "{state}['{}']", key.to_string_lossy()),
        }
    }
}

/// Array and its name in errors.
struct Field<'a, 'py> {
    what: Subject<'a>,
    array: Bound<'py, PyUntypedArray>,
}

impl<'a, 'py> Field<'a, 'py> {
    fn of(value: &Bound<'py, PyAny>, what: Subject<'a>) -> Result<Self, Failure> {
        if let Ok(array) = value.cast::<PyUntypedArray>()
            && array.is_c_contiguous()
            && native(array)
            && !is_masked(value)?
        {
            return Ok(Self { what, array: array.clone() });
        }
        // Converts another dtype to the first of bool, int64 and float64 that keeps its values.
        let text = what.to_string();
        let target = |dtype| Target { what: &text, class: ErrorClass::Append, dtype };
        let array = array_of(value, target(DType::Bool))
            .or_else(|refused| refused.or(|| array_of(value, target(DType::I64))))
            .or_else(|refused| refused.or(|| array_of(value, target(DType::F64))))?;
        Ok(Self { what, array })
    }

    fn entry(
        state: &Bound<'py, PyDict>,
        key: &'a Bound<'py, PyString>,
        which: &'static str,
    ) -> Result<Self, Failure> {
        match state.get_item(key)? {
            Some(value) => Self::of(&value, Subject::Entry(which, key)),
            None => Err(missing(state, &key.to_string_lossy(), which)),
        }
    }

    fn numbers(&self) -> Result<Numbers<'_>, Failure> {
        let dtype = self.array.dtype();
        let bytes = bytes_of(&self.array);
        let cast = |bytes| match (dtype.kind(), dtype.itemsize()) {
            (b'f', 8) => bytemuck::try_cast_slice(bytes).map(Numbers::F64).ok(),
            (b'f', 4) => bytemuck::try_cast_slice(bytes).map(Numbers::F32).ok(),
            (b'i', 8) => bytemuck::try_cast_slice(bytes).map(Numbers::I64).ok(),
            (b'i', 4) => bytemuck::try_cast_slice(bytes).map(Numbers::I32).ok(),
            (b'b', 1) => Some(Numbers::Bool(bytes)),
            _ => None,
        };
        bytes.and_then(cast).ok_or_else(|| {
            let message = format!("{}: got unaligned {dtype} values; give a copy", self.what);
            Failure::new(ErrorClass::Append, message)
        })
    }

    fn expect(
        &self,
        shape: &[usize],
        meaning: Meaning,
        called: ArgumentNames,
    ) -> Result<(), Failure> {
        if self.array.shape() == shape {
            return Ok(());
        }
        Err(misshapen(self.what, self.array.shape(), shape, meaning, called))
    }

    /// Converts to `f32`, row `i` of `width` numbers to `out[i * step + at..]`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "rounding to f32 is what is stored"
    )]
    fn floats(&self, out: &mut [f32], width: usize, step: usize, at: usize) -> Result<(), Failure> {
        match self.numbers()? {
            Numbers::F64(from) => spread(from, out, width, step, at, |value| value as f32),
            Numbers::F32(from) => spread(from, out, width, step, at, |value| value),
            Numbers::I64(from) => spread(from, out, width, step, at, |value| value as f32),
            Numbers::I32(from) => spread(from, out, width, step, at, |value| value as f32),
            Numbers::Bool(from) => spread(from, out, width, step, at, f32::from),
        }
        Ok(())
    }

    /// Converts to `i32` like [`floats`](Self::floats). Refuses float32 and bools, and numbers that
    /// are not whole or do not fit.
    fn wholes(&self, out: &mut [i32], width: usize, step: usize, at: usize) -> Result<(), Failure> {
        let mut odd = None;
        match self.numbers()? {
            Numbers::I32(from) => spread(from, out, width, step, at, |value| value),
            Numbers::I64(from) => spread(from, out, width, step, at, |value| {
                i32::try_from(value).unwrap_or_else(|_| {
                    odd = Some(value.to_string());
                    0
                })
            }),
            #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
            Numbers::F64(from) => spread(from, out, width, step, at, |value| {
                let whole = value as i32;
                if f64::from(whole).to_bits() != (value + 0.0).to_bits() {
                    odd = Some(value.to_string());
                }
                whole
            }),
            Numbers::F32(_) | Numbers::Bool(_) => odd = Some("no whole number".to_owned()),
        }
        odd.map_or(Ok(()), |odd| {
            let message = format!("{}: got {odd}; give whole numbers of 32 bits", self.what);
            Err(Failure::new(ErrorClass::Append, message))
        })
    }
}

fn misshapen(
    what: impl Display,
    got: &[usize],
    wanted: &[usize],
    meaning: Meaning,
    called: ArgumentNames,
) -> Failure {
    // The leading axis is hidden from the caller of a single transition.
    let own = usize::from(called.alone);
    let (got, wanted) = (ShapeText(&got[own.min(got.len())..]), ShapeText(&wanted[own..]));
    let message = format!("{what}: got shape {got}; give {wanted}, {}", meaning[own]);
    Failure::new(ErrorClass::Append, message)
}

/// Returns whether the values of an array can be read in place.
fn native(array: &Bound<'_, PyUntypedArray>) -> bool {
    let dtype = array.dtype();
    let kind = dtype.kind();
    dtype.is_native_byteorder() != Some(false)
        && matches!((kind, dtype.itemsize()), (b'f' | b'i', 4 | 8) | (b'b', 1))
}

fn spread<A: Copy, B>(
    from: &[A],
    out: &mut [B],
    width: usize,
    step: usize,
    at: usize,
    mut convert: impl FnMut(A) -> B,
) {
    if width == 0 {
        return;
    }
    for (row, place) in from.chunks_exact(width).zip(out.chunks_exact_mut(step)) {
        for (value, to) in row.iter().zip(&mut place[at..at + width]) {
            *to = convert(*value);
        }
    }
}

fn missing(state: &Bound<'_, PyDict>, key: &str, which: &str) -> Failure {
    let keys: Vec<String> = state.keys().iter().filter_map(|known| known.extract().ok()).collect();
    let hint = closest_name(key, keys.iter().map(String::as_str))
        .map_or_else(String::new, |near| format!(" (it has '{near}')"));
    Failure::new(
        ErrorClass::Append,
        format!(
            "{which} has no '{key}'{hint}; give states of an environment with return_format='vec'"
        ),
    )
}

/// Returns the numbers of tickers of a portfolio and of rewards of a transition in this batch. An
/// axis that is missing counts as 0 tickers or 1 reward.
pub(crate) fn sizes_of(arguments: &Arguments<'_, '_>) -> Result<(usize, usize), Failure> {
    let (py, called) = (arguments.actions.py(), arguments.called);
    let shares = Field::entry(arguments.states, intern!(py, "shares"), called.states)?;
    let rewards = Field::of(arguments.rewards, Subject::Argument(called.rewards))?;
    let tickers = shares.array.shape().get(1).copied().unwrap_or(0);
    let objectives = rewards.array.shape().get(1).copied().unwrap_or(1);
    Ok((tickers, objectives))
}

/// Reads a batch. The ring is not changed.
pub(crate) fn read(
    arguments: &Arguments<'_, '_>,
    shape: &TransitionShape,
    lists: &mut TickerLists,
    batch: &mut TransitionBatch,
) -> Result<(), Failure> {
    let (py, called) = (arguments.actions.py(), arguments.called);
    let width = shape.tickers;
    let sides = [(arguments.states, called.states), (arguments.next_states, called.next_states)];
    let n = Field::entry(arguments.states, intern!(py, "day"), called.states)?.array.len();
    batch.resize(n, shape);
    if let Some(ids) = arguments.states.get_item(intern!(py, "env_ids"))? {
        let ids = Field::of(&ids, Subject::Entry(called.states, intern!(py, "env_ids")))?;
        ids.expect(&[n], PER_ENVIRONMENT, called)?;
        ids.wholes(&mut batch.env_ids, 1, 1, 0)?;
        if let Some(id) = batch.env_ids.iter().find(|id| !(-MOST_ENVS..MOST_ENVS).contains(*id)) {
            let (which, least, most) = (called.states, -MOST_ENVS, MOST_ENVS - 1);
            let message =
                format!("{which}['env_ids'] holds {id}; give numbers from {least} to {most}");
            return Err(Failure::new(ErrorClass::Append, message));
        }
    } else {
        for (at, env_id) in (0..).zip(&mut batch.env_ids) {
            *env_id = at;
        }
    }
    let each = [n, width];
    for (side, (state, which)) in sides.into_iter().enumerate() {
        let field = |key| Field::entry(state, key, which);
        let day = field(intern!(py, "day"))?;
        day.expect(&[n], PER_ENVIRONMENT, called)?;
        day.wholes(&mut batch.days, 1, 2, side)?;
        let cash = field(intern!(py, "cash"))?;
        cash.expect(&[n], PER_ENVIRONMENT, called)?;
        cash.floats(&mut batch.cash, 1, 2, side)?;
        let shares = field(intern!(py, "shares"))?;
        shares.expect(&each, PER_TICKER, called)?;
        shares.wholes(&mut batch.shares, width, 2 * width, side * width)?;
        let price = field(intern!(py, "avg_buy_price"))?;
        price.expect(&each, PER_TICKER, called)?;
        price.floats(&mut batch.avg_buy_prices, width, 2 * width, side * width)?;
    }
    lists.read_both(arguments, each, &mut batch.tokens)?;

    let actions = Field::of(arguments.actions, Subject::Argument(called.actions))?;
    let expected: Vec<usize> = std::iter::once(n).chain(shape.action.iter().copied()).collect();
    actions.expect(&expected, ACTION, called)?;
    let numbers = shape.action_len();
    actions.floats(&mut batch.actions, numbers, numbers, 0)?;

    let rewards = Field::of(arguments.rewards, Subject::Argument(called.rewards))?;
    if shape.objectives > 1 || rewards.array.ndim() != 1 {
        rewards.expect(&[n, shape.objectives], OBJECTIVES, called)?;
    } else {
        rewards.expect(&[n], PER_ENVIRONMENT, called)?;
    }
    rewards.floats(&mut batch.rewards, shape.objectives, shape.objectives, 0)?;

    flags(arguments.dones, called.dones, called, n, &mut batch.ends, 0)?;
    match arguments.next_states.get_item(intern!(py, "terminal"))? {
        Some(terminal) => flags(&terminal, called.terminal, called, n, &mut batch.ends, 1)?,
        None => batch.ends.iter_mut().skip(1).step_by(2).for_each(|terminal| *terminal = 0),
    }
    if let Some(terminated) = arguments.next_states.get_item(intern!(py, "terminated"))? {
        let mut flagged = vec![0; 2 * n];
        flags(&terminated, called.terminated, called, n, &mut flagged, 0)?;
        for at in 0..n {
            let outcome = batch.outcome(at);
            let terminated = outcome.terminated || (outcome.done && flagged[2 * at] != 0);
            batch.set_outcome(at, TransitionOutcome { terminated, ..outcome });
        }
    }
    Ok(())
}

/// Reads booleans `[n]`. A trailing axis of one is accepted, because some buffers return it.
fn flags(
    value: &Bound<'_, PyAny>,
    what: &'static str,
    called: ArgumentNames,
    n: usize,
    out: &mut [u8],
    at: usize,
) -> Result<(), Failure> {
    let target = Target { what, class: ErrorClass::Append, dtype: DType::Bool };
    let array = array_of(value, target)?;
    if array.shape() != [n] && array.shape() != [n, 1] {
        return Err(misshapen(what, array.shape(), &[n], PER_ENVIRONMENT, called));
    }
    let field = Field { what: Subject::Argument(what), array };
    if let Numbers::Bool(from) = field.numbers()? {
        spread(from, out, 1, 2, at, |flag| u8::from(flag != 0));
    }
    Ok(())
}
