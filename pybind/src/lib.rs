//! The native module of the Python package `backcast`: a table of what it exports.
//!
//! Every method converts its arguments, releases the interpreter, calls the Rust crates, and
//! converts the answer back; a branch on meaning belongs there, not here.
#![expect(
    clippy::doc_markdown,
    clippy::doc_link_with_quotes,
    reason = "docs of exported items are numpydoc, for Python's help()"
)]

mod batch;
mod batches;
mod buffer;
mod capacity;
mod cli;
mod client;
mod coerce;
mod columns;
mod env;
mod env_rows;
mod env_settings;
mod episode;
mod error;
mod exchange;
mod extend;
mod fastcall;
mod final_obs;
mod given;
mod handle;
mod held;
mod histories;
mod json;
mod lease;
mod market_batch;
mod metrics;
mod observed;
mod out;
mod outcome;
mod panel;
mod place;
mod plain;
mod progress;
mod reset;
mod room;
mod row;
mod rows;
mod sampler;
mod schema;
mod shortcut;
mod snapshots;
mod spares;
mod states;
mod stats;
mod tokenizer;
mod transitions;
mod turns;
mod view;
mod writer;

/// The Rust side of the package `backcast`.
// Arrays are used again when nobody else refers to them, and handles are tried without waiting: both count
// on the interpreter's lock, so an interpreter that can do without it is told to keep it.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::batches::Batches;
    #[pymodule_export]
    use super::buffer::{_attach_buffer, _open_snapshot, ReplayBuffer};
    #[pymodule_export]
    use super::cli::cli_main;
    #[pymodule_export]
    use super::client::{Client, connect};
    #[pymodule_export]
    use super::env::PortfolioBatch;
    #[pymodule_export]
    use super::lease::{Lease, LeaseHold};
    #[pymodule_export]
    use super::panel::{_attach_panel, Panel, WindowMemory};
    #[pymodule_export]
    use super::place::{collect_objects, list_objects, remove_object};
    #[pymodule_export]
    use super::row::{ReservedRow, RowMemory};
    #[pymodule_export]
    use super::sampler::Sampler;
    #[pymodule_export]
    use super::schema::Schema;
    #[pymodule_export]
    use super::snapshots::{remove_snapshot, snapshots, verify_snapshot};
    #[pymodule_export]
    use super::tokenizer::{_restore_tokenizer, TickerTokenizer};
    #[pymodule_export]
    use super::transitions::TransitionRing;
    #[pymodule_export]
    use super::writer::Writer;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::fastcall::install::<super::writer::Append>(module.py())?;
        super::fastcall::install::<super::extend::Extend>(module.py())?;
        super::held::tell_at_exit(module.py())
    }
}
