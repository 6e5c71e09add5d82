//! Native module of the Python package `backcast`: a table of its exports.
//!
//! A method converts its arguments, calls the Rust crates and converts the answer back. Long calls
//! release the interpreter. Decisions about meaning belong to those crates.
//!
//! A module uses only modules of its own line and of earlier lines:
//!
//! 1. `error`, `fastcall`, `warning`
//! 2. `argument`, `handle`
//! 3. `array`, `capacity`, `json`, `location`, `progress`
//! 4. `replay`: rings and what belongs to them
//! 5. `markets`: panels, environments and simulated markets, behind the feature of that name
//! 6. `cli`
#![expect(
    clippy::doc_markdown,
    clippy::doc_link_with_quotes,
    reason = "docs of exported items are numpydoc, for Python's help()"
)]
#![cfg_attr(
    not(feature = "markets"),
    allow(dead_code, reason = "the markets use more of the modules that both halves share")
)]

mod argument;
mod array;
mod capacity;
mod cli;
mod error;
mod fastcall;
mod handle;
mod json;
mod location;
#[cfg(feature = "markets")]
mod markets;
mod progress;
mod replay;
mod warning;

/// Rust side of the package `backcast`.
// Array pools rely on reference counts, and handles on the interpreter's lock. A free-threaded
// interpreter must therefore enable its lock.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::argument::_closest_name;
    #[pymodule_export]
    use super::cli::cli_main;
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::callback::_deep_copy;
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::history::{_read_history, History, Replay};
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::panel::{_attach_panel, Panel, WindowMemory};
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::portfolio::PortfolioBatch;
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::simulation::Market;
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::simulation::agent::Floor;
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::simulation::config::{check_market, market_preset, scaled_population};
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::tokenizer::{_restore_tokenizer, TickerTokenizer};
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::trading::TradingBatch;
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::trading::reward::{EpisodeState, RewardInput};
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::trading::shared::SharedMarket;
    #[cfg(feature = "markets")]
    #[pymodule_export]
    use super::markets::transitions::TransitionRing;
    #[pymodule_export]
    use super::replay::buffer::{
        _attach_buffer, _load_params, _open_snapshot, _saved_arrays, ReplayBuffer,
    };
    #[pymodule_export]
    use super::replay::client::{Client, DaemonOptions};
    #[pymodule_export]
    use super::replay::learned::LearnedTable;
    #[pymodule_export]
    use super::replay::lease::{Lease, LeaseHold};
    #[pymodule_export]
    use super::replay::limiter::{_restore_limiter, Limiter, RateLimiter};
    #[pymodule_export]
    use super::replay::objects::{collect_garbage, list_objects, remove_object};
    #[pymodule_export]
    use super::replay::params::{_attach_params, FlatParams, FlatParamsView, PinHold};
    #[pymodule_export]
    use super::replay::sampler::Sampler;
    #[pymodule_export]
    use super::replay::sampler::batches::Batches;
    #[pymodule_export]
    use super::replay::sampler::returns::_window_returns;
    #[pymodule_export]
    use super::replay::sampler::transition_order::TransitionOrder;
    #[pymodule_export]
    use super::replay::schema::Schema;
    #[pymodule_export]
    use super::replay::snapshots::{list_snapshots, remove_snapshot, verify_snapshot};
    #[pymodule_export]
    use super::replay::writer::Writer;
    #[pymodule_export]
    use super::replay::writer::reserved_row::{ReservedRow, RowMemory};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::fastcall::install::<super::replay::writer::append::Append>(module.py())?;
        super::fastcall::install::<super::replay::writer::extend::Extend>(module.py())?;
        super::replay::writer::exit::finish_at_exit(module.py())?;
        super::replay::lease::tracked::warn_at_exit(module.py())
    }
}
