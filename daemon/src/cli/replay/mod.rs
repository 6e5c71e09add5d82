//! Commands of rings, parameters and snapshots. They know nothing of markets.

pub(super) mod bench;
pub(super) mod clear;
pub(super) mod create;
pub(super) mod doctor;
pub(super) mod export;
pub(super) mod format_arg;
pub(super) mod gc;
pub(super) mod import;
pub(super) mod limiter;
pub(super) mod load;
pub(super) mod ls;
pub(super) mod open_error;
pub(super) mod params_report;
pub(super) mod resize;
pub(super) mod ring_errors;
pub(super) mod rm;
pub(super) mod save;
pub(super) mod serve;
pub(super) mod snapshots;
pub(super) mod stat;
pub(super) mod top;
pub(super) mod ui;
pub(super) mod verify;
