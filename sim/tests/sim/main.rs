//! Whole markets: one module for each theme.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers of tests"
)]

mod agents;
mod allocation;
mod auction;
mod book_fuzz;
mod config;
mod conservation;
mod determinism;
mod feature_values;
mod features;
mod history;
mod latent;
mod money;
mod noise;
mod presets;
mod realism;
mod replay;
mod session;
mod slots;
