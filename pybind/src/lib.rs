//! Native module of the Python package `backcast`: a table of its exports.
//!
//! Every method converts its arguments, releases the interpreter, calls the Rust crates and
//! converts the answer back. Decisions about meaning belong to those crates.
//!
//! A module uses modules of earlier lines only:
//!
//! 1. `error`, `fastcall`, `warning`
//! 2. `argument`, `handle`
//! 3. `array`, `callback`, `capacity`, `json`, `location`, `picture`, `progress`
//! 4. `schema`, `client`, `learned`, `lease`, `limiter`, `params`, then `sampler`, `panel`,
//!    `tokenizer`, `objects`, `contract`, `simulation`
//! 5. `writer`, `snapshots`, `portfolio`, `trading`, `transitions`
//! 6. `buffer`
//! 7. `cli`
#![expect(
    clippy::doc_markdown,
    clippy::doc_link_with_quotes,
    reason = "docs of exported items are numpydoc, for Python's help()"
)]

mod argument;
mod array;
mod buffer;
mod callback;
mod capacity;
mod cli;
mod client;
mod contract;
mod error;
mod fastcall;
mod handle;
mod json;
mod learned;
mod lease;
mod limiter;
mod location;
mod objects;
mod panel;
mod params;
mod picture;
mod portfolio;
mod progress;
mod sampler;
mod schema;
mod simulation;
mod snapshots;
mod tokenizer;
mod trading;
mod transitions;
mod warning;
mod writer;

/// Rust side of the package `backcast`.
// Array pools rely on reference counts, and handles on the interpreter's lock. A free-threaded
// interpreter must therefore enable its lock.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::buffer::{
        _attach_buffer, _load_params, _open_snapshot, _saved_arrays, ReplayBuffer,
    };
    #[pymodule_export]
    use super::cli::cli_main;
    #[pymodule_export]
    use super::client::{Client, DaemonOptions};
    #[pymodule_export]
    use super::learned::LearnedTable;
    #[pymodule_export]
    use super::lease::{Lease, LeaseHold};
    #[pymodule_export]
    use super::limiter::{_restore_limiter, Limiter, RateLimiter};
    #[pymodule_export]
    use super::objects::{collect_garbage, list_objects, remove_object};
    #[pymodule_export]
    use super::panel::{_attach_panel, Panel, WindowMemory};
    #[pymodule_export]
    use super::params::{_attach_params, FlatParams, FlatParamsView, PinHold};
    #[pymodule_export]
    use super::portfolio::PortfolioBatch;
    #[pymodule_export]
    use super::sampler::Sampler;
    #[pymodule_export]
    use super::sampler::batches::Batches;
    #[pymodule_export]
    use super::sampler::returns::_window_returns;
    #[pymodule_export]
    use super::sampler::transition_order::TransitionOrder;
    #[pymodule_export]
    use super::schema::Schema;
    #[pymodule_export]
    use super::simulation::Market;
    #[pymodule_export]
    use super::simulation::agent::Floor;
    #[pymodule_export]
    use super::simulation::config::{check_market, market_preset, scaled_population};
    #[pymodule_export]
    use super::snapshots::{list_snapshots, remove_snapshot, verify_snapshot};
    #[pymodule_export]
    use super::tokenizer::{_restore_tokenizer, TickerTokenizer};
    #[pymodule_export]
    use super::trading::TradingBatch;
    #[pymodule_export]
    use super::trading::reward::{EpisodeState, RewardInput};
    #[pymodule_export]
    use super::trading::shared::SharedMarket;
    #[pymodule_export]
    use super::transitions::TransitionRing;
    #[pymodule_export]
    use super::writer::Writer;
    #[pymodule_export]
    use super::writer::reserved_row::{ReservedRow, RowMemory};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::fastcall::install::<super::writer::append::Append>(module.py())?;
        super::fastcall::install::<super::writer::extend::Extend>(module.py())?;
        super::writer::exit::finish_at_exit(module.py())?;
        super::lease::tracked::warn_at_exit(module.py())
    }
}
