//! Settings as nested dicts: read and written by the names of their fields in Rust.

use backcast_core::plumbing::closest_name;
use backcast_sim::{
    AccountConfig, ArousalConfig, AuctionRule, ExecutorConfig, FeatureConfig, FeeSchedule,
    FundamentalConfig, LatentConfig, Limits, MakerConfig, MarketConfig, Matching, NewsConfig,
    NoiseConfig, Population, SessionConfig, SignalConfig, SlotConfig, ValueConfig,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};

use crate::argument::{Argument, read, wrong_type};
use crate::error::{ErrorClass, Failure};

/// A setting, or a group of settings.
pub(crate) trait NamedField: Sized {
    /// Returns the value for Python.
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;

    /// Reads a value. Settings that a dict leaves out do not change. Errors name the setting by its
    /// path.
    fn read_from(&mut self, given: &Bound<'_, PyAny>, path: &str) -> Result<(), Failure>;
}

impl NamedField for f64 {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.into_bound_py_any(py)
    }

    fn read_from(&mut self, given: &Bound<'_, PyAny>, path: &str) -> Result<(), Failure> {
        let Ok(given) = given.extract::<Argument<f64>>();
        *self = given.get(path, "a number")?;
        Ok(())
    }
}

/// `None` leaves the setting out.
impl NamedField for Option<f64> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.into_bound_py_any(py)
    }

    fn read_from(&mut self, given: &Bound<'_, PyAny>, path: &str) -> Result<(), Failure> {
        *self = None;
        if given.is_none() {
            return Ok(());
        }
        let mut number = 0.0;
        number.read_from(given, path)?;
        *self = Some(number);
        Ok(())
    }
}

macro_rules! whole_numbers {
    ($($type:ty),+) => {$(
        impl NamedField for $type {
            fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.into_bound_py_any(py)
            }

            fn read_from(&mut self, given: &Bound<'_, PyAny>, path: &str) -> Result<(), Failure> {
                let Ok(given) = given.extract::<Argument<i128>>();
                let wanted = format!("a whole number from {} to {}", Self::MIN, Self::MAX);
                let number = given.get(path, &wanted)?;
                *self = Self::try_from(number).map_err(|_| {
                    Failure::new(ErrorClass::Sim, format!("{path} is {number}; give {wanted}"))
                })?;
                Ok(())
            }
        }
    )+};
}

whole_numbers!(u16, u32, i32, i64, usize);

/// Words of the setting `matching`.
const MATCHING: [(&str, Matching); 3] = [
    ("continuous", Matching::Continuous),
    ("call_auction", Matching::CallAuction(AuctionRule::PricePriority)),
    ("call_auction_pro_rata", Matching::CallAuction(AuctionRule::ProRata)),
];

impl NamedField for Matching {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let word = MATCHING.iter().find(|(_, matching)| matching == self).map(|(word, _)| *word);
        word.into_bound_py_any(py)
    }

    fn read_from(&mut self, given: &Bound<'_, PyAny>, path: &str) -> Result<(), Failure> {
        let words = MATCHING.map(|(word, _)| format!("\"{word}\"")).join(" or ");
        let Ok(given) = given.extract::<Argument<String>>();
        let word = given.get(path, &words)?;
        let found = MATCHING.iter().find(|(known, _)| *known == word);
        let (_, matching) = found.ok_or_else(|| {
            Failure::new(ErrorClass::Sim, format!("{path} is \"{word}\"; write {words}"))
        })?;
        *self = *matching;
        Ok(())
    }
}

/// A list with a dict for each slot. Settings that a dict leaves out have their defaults.
impl NamedField for Vec<SlotConfig> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let slots = self.iter().map(|slot| slot.to_python(py)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, slots)?.into_any())
    }

    fn read_from(&mut self, given: &Bound<'_, PyAny>, path: &str) -> Result<(), Failure> {
        let given: Vec<Bound<'_, PyAny>> = read(given, path, "a list with a dict for each slot")?;
        self.clear();
        for (at, given) in given.iter().enumerate() {
            let mut slot = SlotConfig::default();
            slot.read_from(given, &format!("{path}[{at}]"))?;
            self.push(slot);
        }
        Ok(())
    }
}

macro_rules! fields {
    ($($type:ty { $($field:ident),+ $(,)? })+) => {$(
        impl NamedField for $type {
            fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                let dict = PyDict::new(py);
                $(dict.set_item(stringify!($field), self.$field.to_python(py)?)?;)+
                Ok(dict.into_any())
            }

            fn read_from(&mut self, given: &Bound<'_, PyAny>, path: &str) -> Result<(), Failure> {
                let known = [$(stringify!($field)),+];
                for (name, value) in entries(given, path, &known)? {
                    $(if name == stringify!($field) {
                        self.$field.read_from(&value, &below(path, &name))?;
                    })+
                }
                Ok(())
            }
        }
    )+};
}

fields! {
    MarketConfig {
        symbols, initial_price, tick_size, book_levels, book_orders, matching, fundamental, news,
        arousal, latent, session, population, fees, lendable_shares, slots, features,
    }
    FundamentalConfig {
        volatility, fast_ticks, fast_sd, slow_ticks, slow_sd, jumps_per_day, jump_sd,
        drift_per_day, reversion_per_day, common,
    }
    NewsConfig {
        symbol_per_day, market_per_day, shock_sd, rumour_share, life_ticks, sentiment_tilt,
    }
    ArousalConfig { floor, fast, slow, fast_ticks, slow_ticks, typical, ceiling }
    LatentConfig { depth, slope, recovery_ticks, error_sd, error_ticks }
    SessionConfig { ticks, u_shape, auction_ticks, overnight_sd }
    Population { maker, noise, value, signal, executor, cash, shares, limits }
    MakerConfig {
        count, wait, half_spread, spread_per_vol, skew, flow_shift, root_shift, level_step, size,
    }
    NoiseConfig { count, wait, market, cancel, size, size_sigma, depth_exponent, life }
    ValueConfig { count, wait, strength, error_sd, error_ticks, learning, slice, aggressive }
    SignalConfig {
        count, wait, horizon_low, horizon_high, followers, threshold, inventory, size,
    }
    ExecutorConfig {
        count, wait, idle, parent_minimum, parent_exponent, parent_maximum, slice, aggressive,
    }
    Limits { long, short, order }
    FeeSchedule { maker_ppm, taker_ppm, borrow_ppm_per_day }
    SlotConfig { account, latency_ticks, initial_margin_ppm }
    AccountConfig { cash, shares, limits }
    FeatureConfig { candle_ticks, reveal_fundamental }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the entries of a dict, or of an object with a method `to_dict`. Refuses unknown names.
fn entries<'py>(
    given: &Bound<'py, PyAny>,
    path: &str,
    known: &[&str],
) -> Result<Vec<(String, Bound<'py, PyAny>)>, Failure> {
    let what = if path.is_empty() { "config" } else { path };
    let refused = || wrong_type(given, what, "a dict of settings by name");
    let made = given.getattr_opt("to_dict")?.map(|to_dict| to_dict.call0()).transpose()?;
    let given = made.as_ref().unwrap_or(given);
    let dict = given.cast::<PyDict>().map_err(|_| refused())?;
    let mut entries = Vec::with_capacity(dict.len());
    for (name, value) in dict {
        let name: String = name.extract().map_err(|_| refused())?;
        if !known.contains(&name.as_str()) {
            let hint = closest_name(&name, known.iter().copied())
                .map_or_else(|| "it".to_owned(), |near| format!("did you mean `{near}`? It"));
            let message =
                format!("{what} has no setting `{name}`; {hint} has {}", known.join(", "));
            return Err(Failure::new(ErrorClass::Sim, message));
        }
        entries.push((name, value));
    }
    Ok(entries)
}
