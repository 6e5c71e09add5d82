//! Properties of trading environments: features, masks, metrics, books, pictures.

use backcast_core::DType;
use backcast_gym::{EpisodeError, ExternalAgentConfig};
use backcast_sim::{DepthLevel, Feature, Market, Side};
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{Argument, count_in};
use crate::array::allocation::Allocator;
use crate::error::{ErrorClass, Failure};
use crate::markets::contract::metrics::{self, StopLosses};
use crate::markets::picture::{HEIGHT, Scene, WIDTH, draw_pixels, draw_text};
use crate::markets::trading::outcome::Choices;
use crate::markets::trading::{Stepped, TradingBatch};

const ALLOCATOR: Allocator = Allocator { class: ErrorClass::Env, remedy: "free some memory" };

/// Symbol, name, unit, lowest and highest value.
pub(super) type FeatureRow = (u16, &'static str, &'static str, f32, f32);

/// Choices of an action for one symbol, or `None`; values of an action; lowest and highest of each;
/// shape of commands, and the highest of each of their numbers.
pub(super) type ActionForm = (Option<usize>, usize, f64, f64, Option<(Vec<usize>, Vec<u64>)>);

/// Bids and asks.
pub(super) type BookArrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Maximum number of price levels of one side of a book.
const MOST_LEVELS: u32 = 4_096;

#[pymethods]
impl TradingBatch {
    /// Environments, ``N``; None for the single one.
    #[getter]
    fn num_envs(&self) -> Option<usize> {
        self.num_envs
    }

    /// Number of symbols, ``S``.
    #[getter]
    fn symbols(&self) -> usize {
        self.choices.symbols
    }

    /// Choices of an action for one symbol; None in a continuous scheme.
    #[getter]
    fn choices(&self) -> Option<usize> {
        (self.choices.each > 0).then_some(self.choices.each)
    }

    /// Form of an action: number of choices for one symbol (None in a continuous scheme), number of
    /// values over all symbols, the lowest and highest of each value, and of commands their shape
    /// and the highest of each of their numbers.
    #[getter]
    fn action_form(&self) -> Result<ActionForm, Failure> {
        self.env.with(|stepped| {
            Ok(action_form(&stepped.env.config().agent, self.choices, self.action_len))
        })
    }

    /// Entries of an observation: symbol, name, unit, lowest and highest value.
    #[getter]
    fn features(&self) -> Result<Vec<FeatureRow>, Failure> {
        self.env.with(|stepped| Ok(stepped.env.observation_entries().map(feature_row).collect()))
    }

    /// Autoreset mode after an episode has ended.
    #[getter]
    fn autoreset_mode(&self) -> Result<String, Failure> {
        self.env.with(|stepped| Ok(stepped.env.autoreset_mode().to_string()))
    }

    /// Return a mask of choices of a discrete scheme, bool ``[N, S * choices]``: False for a choice
    /// that limits, cash or open orders rule out now.
    fn action_masks<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let each = self.choices.count();
        if each == 0 {
            let message = format!(
                "{} have no choices to mask; make the environment with actions=\"discrete\", \
                 \"discrete_limit\" or \"discrete_target\"",
                if self.choices.commands > 0 { "limit orders" } else { "continuous actions" }
            );
            return Err(Failure::new(ErrorClass::Env, message));
        }
        let mut mask = vec![false; self.num_envs.unwrap_or(1) * each];
        self.env.with(|stepped| Ok(stepped.env.action_mask_into(&mut mask)?))?;
        let mask = PyArray1::from_vec(py, mask);
        match self.num_envs {
            Some(envs) => Ok(mask.reshape([envs, each])?.into_any()),
            None => Ok(mask.into_any()),
        }
    }

    /// Return metrics of the running episodes so far.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Entries of ``infos["metrics"]``, without masks.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     Before the first reset.
    fn metrics_so_far<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let so_far = self.env.with(|stepped| {
            let of = |at| {
                let error = || self.reworded(&EpisodeError::NotReset { env: at }.into());
                stepped.env.metrics_so_far(at).ok_or_else(error)
            };
            (0..stepped.env.num_envs()).map(of).collect::<Result<Vec<_>, Failure>>()
        })?;
        Ok(metrics::so_far(py, so_far, self.num_envs.is_some(), StopLosses::None)?)
    }

    /// Return the order book of a symbol of one environment, without hidden state of the market.
    ///
    /// Parameters
    /// ----------
    /// i : int
    ///     Environment.
    /// symbol : int
    ///     Symbol.
    /// levels : int
    ///     Maximum number of price levels of each side.
    ///
    /// Returns
    /// -------
    /// (ndarray, ndarray)
    ///     Bids and asks, float64 ``[levels, 2]``: price in currency units and shares.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If there is no such environment or symbol, or ``levels`` is out of range.
    fn book<'py>(
        &self,
        py: Python<'py>,
        i: Argument<i128>,
        symbol: Argument<i128>,
        levels: Argument<i128>,
    ) -> Result<BookArrays<'py>, Failure> {
        let at = self.place_of(i)?;
        let sides = Sides::of(symbol, levels, self.choices.symbols)?;
        self.env.with(|stepped| Ok(sides.read(stepped.env.market(at))))?.arrays(py)
    }

    /// Draw the running episode of one environment, of a batch that keeps trails.
    ///
    /// Parameters
    /// ----------
    /// i : int
    ///     Environment.
    /// ansi : bool
    ///     Draw text instead of pixels.
    ///
    /// Returns
    /// -------
    /// ndarray or str
    ///     uint8 ``[480, 640, 3]``, or lines of text.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If there is no such environment or no trail is kept, or before the first reset.
    fn picture<'py>(
        &self,
        py: Python<'py>,
        i: Argument<i128>,
        ansi: bool,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let at = self.place_of(i)?;
        picture_of(py, &self.env.with(|stepped| self.scene(stepped, at))?, ansi)
    }
}

impl TradingBatch {
    /// Reads the number of an environment.
    fn place_of(&self, i: Argument<i128>) -> Result<usize, Failure> {
        let most = self.num_envs.unwrap_or(1) as u32 - 1;
        Ok(count_in(i, "i", 0..=most, ErrorClass::Env)? as usize)
    }

    fn scene(&self, stepped: &Stepped, at: usize) -> Result<Scene, Failure> {
        if stepped.env.metrics_so_far(at).is_none() {
            return Err(self.reworded(&EpisodeError::NotReset { env: at }.into()));
        }
        let trails = stepped.trails.as_ref().ok_or_else(nothing_drawn)?;
        Ok(trails.scene(at, stepped.env.market(at)))
    }
}

/// Returns the form of an action as Python sees it.
pub(super) fn action_form(
    agent: &ExternalAgentConfig,
    choices: Choices,
    action_len: usize,
) -> ActionForm {
    let (low, high) = agent.actions.bounds();
    let highest = || (0..Choices::NUMBERS).map(|at| agent.bounds(at).1 as u64).collect();
    let commands = (choices.commands > 0).then(|| (choices.command_shape(), highest()));
    ((choices.each > 0).then_some(choices.each), action_len, low, high, commands)
}

/// Returns an entry of an observation as Python sees it.
pub(super) fn feature_row((symbol, feature): (u16, &'static Feature)) -> FeatureRow {
    (symbol, feature.name, feature.unit, feature.low, feature.high)
}

/// Request to read a book: its symbol, and the maximum number of levels of each side.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    symbol: u16,
    levels: usize,
}

/// Both sides of a book: price in currency units and shares of each level, from the touch outwards.
pub(super) struct BookSides([Vec<f64>; 2]);

impl Sides {
    /// Reads the arguments of a call in a market of `symbols` symbols.
    pub(super) fn of(
        symbol: Argument<i128>,
        levels: Argument<i128>,
        symbols: usize,
    ) -> Result<Self, Failure> {
        let most = symbols as u32 - 1;
        let symbol = count_in(symbol, "symbol", 0..=most, ErrorClass::Env)? as u16;
        let levels = count_in(levels, "levels", 1..=MOST_LEVELS, ErrorClass::Env)? as usize;
        Ok(Self { symbol, levels })
    }

    pub(super) fn read(self, market: &Market) -> BookSides {
        let config = market.config();
        let mut found = vec![DepthLevel::default(); self.levels];
        BookSides([Side::Buy, Side::Sell].map(|side| {
            let count = market.depth(self.symbol, side, &mut found).min(self.levels);
            let number = |level: &DepthLevel| [config.price(level.price), level.quantity.into()];
            found[..count].iter().flat_map(number).collect()
        }))
    }
}

impl BookSides {
    /// Returns bids and asks, float64 `[levels, 2]`.
    pub(super) fn arrays(self, py: Python<'_>) -> Result<BookArrays<'_>, Failure> {
        let [bids, asks] = self.0.map(|numbers| {
            let levels = numbers.len() / 2;
            Ok::<_, Failure>(PyArray1::from_vec(py, numbers).reshape([levels, 2])?.into_any())
        });
        Ok((bids?, asks?))
    }
}

/// Draws a scene: uint8 `[480, 640, 3]`, or lines of text.
pub(super) fn picture_of<'py>(
    py: Python<'py>,
    scene: &Scene,
    ansi: bool,
) -> Result<Bound<'py, PyAny>, Failure> {
    if ansi {
        return Ok(draw_text(scene).into_bound_py_any(py)?);
    }
    let mut array = ALLOCATOR.array(py, DType::U8, &[HEIGHT, WIDTH, 3])?;
    let pixels = array.bytes_mut();
    py.detach(|| draw_pixels(scene, pixels));
    Ok(array.into_array().into_any())
}

/// Returns the error of a picture of an environment that keeps no trails.
pub(super) fn nothing_drawn() -> Failure {
    let message = "this environment draws nothing; make it with a render_mode";
    Failure::new(ErrorClass::Env, message)
}
