//! State of a market between two ticks, as numbers and arrays.

use backcast_pybind_macros::exact_arguments;
use backcast_sim::{DepthLevel, Feature, FeatureSet, FullFeatures, NormalisedFeatures, Side};
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{Argument, count_in};
use crate::error::{ErrorClass, Failure};
use crate::markets::simulation::fields::NamedField;
use crate::markets::simulation::{Market, word_of};

/// Maximum number of price levels of one side of a book.
const MOST_LEVELS: u32 = 4_096;

#[exact_arguments]
#[pymethods]
impl Market {
    /// Ticks since the start of the episode.
    #[getter]
    fn now(&self) -> Result<u64, Failure> {
        self.look(backcast_sim::Market::now)
    }

    /// Seed of the episode.
    #[getter]
    fn seed(&self) -> Result<u64, Failure> {
        self.look(backcast_sim::Market::seed)
    }

    /// Number of symbols, ``S``.
    #[getter]
    fn symbols(&self) -> u16 {
        self.symbols
    }

    /// Settings of the market by name, nested: ``MarketConfig.of`` makes an object of them.
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let config = self.look(|market| std::sync::Arc::clone(market.config()))?;
        Ok(config.to_python(py)?)
    }

    /// Return the current prices of every symbol.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Arrays ``[S]``: ``mid`` (float64), ``bid``, ``ask`` (int32, 0 for an empty side),
    ///     ``last`` (int32), ``volume`` of the last tick (int64), ``fundamental`` (float64).
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If an agent calls it in its turn.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn quotes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let quotes = PyDict::new(py);
        self.look(|market| {
            let all = 0..market.symbols();
            let mid = all.clone().map(|symbol| market.mid(symbol));
            quotes.set_item("mid", PyArray1::from_iter(py, mid))?;
            let bid = all.clone().map(|symbol| market.best_bid(symbol).unwrap_or_default());
            quotes.set_item("bid", PyArray1::from_iter(py, bid))?;
            let ask = all.clone().map(|symbol| market.best_ask(symbol).unwrap_or_default());
            quotes.set_item("ask", PyArray1::from_iter(py, ask))?;
            let last = all.clone().map(|symbol| market.last_price(symbol));
            quotes.set_item("last", PyArray1::from_iter(py, last))?;
            let volume = all.clone().map(|symbol| market.volume(symbol));
            quotes.set_item("volume", PyArray1::from_iter(py, volume))?;
            let fundamental = all.map(|symbol| market.fundamental(symbol));
            quotes.set_item("fundamental", PyArray1::from_iter(py, fundamental))
        })??;
        Ok(quotes)
    }

    /// Return the current order book of a symbol.
    ///
    /// Parameters
    /// ----------
    /// symbol : int, default 0
    ///     Symbol.
    /// levels : int, default 10
    ///     Maximum number of price levels of each side.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``"bids"`` and ``"asks"``: int32 ``[levels, 2]``, price and shares, from the touch
    ///     outwards; fewer levels if the book has no more.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such symbol, ``levels`` is out of range, or an agent calls it in its
    ///     turn.
    #[pyo3(signature = (symbol=0_i64.into(), levels=10_i64.into()))]
    #[pyo3(text_signature = "($self, symbol=0, levels=10)")]
    fn book<'py>(
        &self,
        py: Python<'py>,
        symbol: Argument<i128>,
        levels: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let symbol = self.symbol_of(symbol)?;
        let levels = count_in(levels, "levels", 1..=MOST_LEVELS, ErrorClass::Sim)? as usize;
        let side = |side| {
            self.look(|market| {
                let mut found = vec![DepthLevel::default(); levels];
                let count = market.depth(symbol, side, &mut found);
                let numbers = found[..count].iter().flat_map(|level| [level.price, level.quantity]);
                PyArray1::from_iter(py, numbers).reshape([count, 2])
            })?
        };
        let book = PyDict::new(py);
        book.set_item("bids", side(Side::Buy)?)?;
        book.set_item("asks", side(Side::Sell)?)?;
        Ok(book)
    }

    /// Return the current account of a slot.
    ///
    /// Parameters
    /// ----------
    /// slot : int, default 0
    ///     Slot.
    ///
    /// Returns
    /// -------
    /// dict
    ///     In cash units: ``cash``, ``equity`` at the mid-price, ``liquidation`` (cash if all
    ///     positions were closed now), ``realised``, ``fees`` and ``borrowing``. ``positions``
    ///     int32 ``[S]``. Counts: ``bought`` and ``sold`` shares, ``fills``, ``refused`` requests,
    ///     and those ``in_flight``.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such slot, or an agent calls it in its turn.
    #[pyo3(signature = (slot=0_i64.into()), text_signature = "($self, slot=0)")]
    fn account<'py>(
        &self,
        py: Python<'py>,
        slot: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let slot = count_in(slot, "slot", 0..=u32::MAX, ErrorClass::Sim)? as usize;
        let account = PyDict::new(py);
        self.look(|market| {
            let refused = |error| Failure::new(ErrorClass::Sim, error);
            let totals = market.totals(slot).map_err(refused)?;
            account.set_item("cash", market.cash(slot).map_err(refused)?)?;
            account.set_item("equity", market.equity(slot).map_err(refused)?)?;
            account.set_item("realised", market.realised(slot).map_err(refused)?)?;
            let closed = (0..market.symbols()).map(|symbol| market.liquidation_value(slot, symbol));
            let closed = closed.sum::<Result<i64, _>>().map_err(refused)?;
            account.set_item("liquidation", market.cash(slot).map_err(refused)? + closed)?;
            account.set_item("fees", totals.fees)?;
            account.set_item("borrowing", market.borrowing(slot).map_err(refused)?)?;
            let position = |symbol| market.position(slot, symbol).unwrap_or_default();
            let positions = (0..market.symbols()).map(position);
            account.set_item("positions", PyArray1::from_iter(py, positions))?;
            account.set_item("bought", totals.bought)?;
            account.set_item("sold", totals.sold)?;
            account.set_item("fills", totals.fills)?;
            account.set_item("refused", totals.refused)?;
            account.set_item("in_flight", market.in_flight(slot).map_err(refused)?)?;
            Ok::<_, Failure>(())
        })??;
        Ok(account)
    }

    /// Return the current features of a symbol, as the trading environment shows them.
    ///
    /// Parameters
    /// ----------
    /// features : {"normalised", "full"}
    ///     Set of features.
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     float32 ``[F]``: 40 or 55 numbers, in the order of `feature_names`.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such set or symbol, or an agent calls it in its turn.
    #[pyo3(signature = (features="normalised".into(), symbol=0_i64.into()))]
    #[pyo3(text_signature = "($self, features=\"normalised\", symbol=0)")]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        features: Argument<String>,
        symbol: Argument<i128>,
    ) -> Result<Bound<'py, PyArray1<f32>>, Failure> {
        let set = set_of(features)?;
        let symbol = self.symbol_of(symbol)?;
        let mut out = vec![0.0; set.count()];
        self.look(|market| set.observe(market, symbol, &mut out))?
            .map_err(|error| Failure::new(ErrorClass::Sim, error))?;
        Ok(PyArray1::from_vec(py, out))
    }

    /// Return the names of the features of a set, in order.
    ///
    /// Parameters
    /// ----------
    /// features : {"normalised", "full"}
    ///     Set of features.
    ///
    /// Returns
    /// -------
    /// list of str
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such set.
    #[staticmethod]
    #[pyo3(signature = (features="normalised".into()))]
    #[pyo3(text_signature = "(features=\"normalised\")")]
    fn feature_names(features: Argument<String>) -> Result<Vec<&'static str>, Failure> {
        Ok(set_of(features)?.features().iter().map(|feature: &Feature| feature.name).collect())
    }

    /// Return a hash of the whole state: markets with equal states and settings have equal hashes.
    ///
    /// Returns
    /// -------
    /// int
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If an agent calls it in its turn.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn state_hash(&self) -> Result<u64, Failure> {
        self.look(backcast_sim::Market::state_hash)
    }
}

fn set_of(features: Argument<String>) -> Result<&'static dyn FeatureSet, Failure> {
    let sets: [(&str, &'static dyn FeatureSet); 2] =
        [("normalised", &NormalisedFeatures), ("full", &FullFeatures)];
    word_of(features, "features", &sets)
}
