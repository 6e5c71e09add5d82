//! Classes of panels, environments and simulated markets.

pub(crate) mod callback;
mod calling_handle;
mod contract;
mod error;
pub(crate) mod history;
pub(crate) mod panel;
mod picture;
pub(crate) mod portfolio;
pub(crate) mod simulation;
pub(crate) mod tokenizer;
pub(crate) mod trading;
pub(crate) mod transitions;
