//! Configurations of markets: presets by name, and checks before anything is built.

use backcast_sim::{MarketConfig, Population, Preset};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};

use crate::argument::{Argument, count_in};
use crate::error::{ErrorClass, Failure};
use crate::markets::simulation::fields::NamedField;

/// Maximum number of agents of one symbol.
const MOST_AGENTS: u32 = 60_000;

/// Reads a market: the name of a preset, or settings. Missing settings have their defaults.
pub(crate) fn market_of(given: &Bound<'_, PyAny>) -> Result<MarketConfig, Failure> {
    if let Ok(name) = given.cast::<PyString>() {
        return preset_of(&name.to_string_lossy());
    }
    let mut config = MarketConfig::default();
    config.read_from(given, "")?;
    Ok(config)
}

fn preset_of(name: &str) -> Result<MarketConfig, Failure> {
    Ok(name.parse::<Preset>()?.config())
}

/// Settings of a preset: ``backcast.sim.MarketConfig.preset`` makes an object of them.
///
/// Parameters
/// ----------
/// name : str
///     Name of a preset.
///
/// Returns
/// -------
/// dict
///     Every setting by name, nested.
///
/// Raises
/// ------
/// SimError
///     If there is no such preset.
#[pyfunction]
pub(crate) fn market_preset(
    py: Python<'_>,
    name: Argument<String>,
) -> Result<Bound<'_, PyAny>, Failure> {
    let names = Preset::ALL.map(Preset::name).join(", ");
    let name = name.get("name", &format!("the name of a preset: {names}"))?;
    Ok(preset_of(&name)?.to_python(py)?)
}

/// Check a market's settings without building it.
///
/// Parameters
/// ----------
/// config : str or dict
///     Name of a preset, or settings by name.
/// agents : int
///     Number of agents that the user adds.
///
/// Raises
/// ------
/// SimError
///     If no market can be built.
#[pyfunction]
#[pyo3(signature = (config, agents=0))]
pub(crate) fn check_market(config: &Bound<'_, PyAny>, agents: usize) -> Result<(), Failure> {
    Ok(market_of(config)?.check(agents)?)
}

/// Scale a population to another number of agents, in nearly the same proportions.
///
/// Parameters
/// ----------
/// population : dict
///     Settings of the population by name.
/// total : int
///     Agents of one symbol.
///
/// Returns
/// -------
/// dict
///     Settings of the scaled population by name.
///
/// Raises
/// ------
/// SimError
///     If the number is out of range.
#[pyfunction]
pub(crate) fn scaled_population<'py>(
    population: &Bound<'py, PyAny>,
    total: Argument<i128>,
) -> Result<Bound<'py, PyAny>, Failure> {
    let mut unscaled: Population = MarketConfig::default().population;
    unscaled.read_from(population, "population")?;
    let total = count_in(total, "total", 1..=MOST_AGENTS, ErrorClass::Sim)?;
    Ok(unscaled.scaled(total as u16).to_python(population.py())?)
}
