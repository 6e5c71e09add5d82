//! The trading environments: one or several agents in a simulated market with a limit order book.
//!
//! Modules from the bottom up: settings (`commands`, `actions`, `error`, `external_agent`,
//! `episode`, `reward`, `config`), what is observed (`observation`), memory (`footprint`), checked
//! settings (`setup`), one agent in a market (`seat`), one sub-environment (`runner`), the
//! environments (`trading_env`, `vector_env`, `multi_agent`) and their common readouts
//! (`readouts`).
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "prices, sizes and counts are bounded by the checked configuration"
)]

mod actions;
mod commands;
mod config;
mod episode;
mod error;
mod external_agent;
mod footprint;
mod multi_agent;
mod observation;
mod readouts;
mod reward;
mod runner;
mod seat;
mod setup;
mod trading_env;
mod vector_env;

pub use actions::{ActionScheme, ContinuousAction, DiscreteAction, QuoteAction, TradingAction};
pub use commands::{OrderCommand, StepOrders};
pub use config::{
    FeatureChoice, SeedSpace, SimulationConfig, TradingEnvConfig, TradingResetOptions,
};
pub use episode::{EpisodeState, MarkPrice, StepInfo, StepResult};
pub use error::TradingError;
pub use external_agent::{ExternalAgent, ExternalAgentConfig};
pub use multi_agent::MultiAgentTradingEnv;
pub use reward::{
    CloneReward, PnlDeltaReward, RewardFactory, RewardFunction, RewardInput, RewardScale,
    RiskAdjustedReward,
};
pub use trading_env::TradingEnv;
pub use vector_env::TradingVectorEnv;
