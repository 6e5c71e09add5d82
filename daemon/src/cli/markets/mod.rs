//! Commands of panels and simulated markets.

pub(super) mod panel;
mod preset_arg;
pub(super) mod record;
pub(super) mod sim;
