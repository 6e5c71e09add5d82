//! Environments and their contract: portfolios over a market panel, and trading in a simulated
//! market.
//!
//! A [`PortfolioVectorEnv`] steps `N` independent portfolios of `T` tickers through the days of one
//! [`Panel`](backcast_market::Panel). On day `d` an agent sees the open of `d` and the indicators
//! of `d - indicator_lag`. It acts with one number in `[-1, 1]` for each ticker. By default its
//! orders are filled at the close of `d`, and nothing else of day `d` is shown before the fill.
//!
//! ```
//! use backcast_gym::{PortfolioOptions, PortfolioVectorEnv, ResetSeed};
//! use backcast_market::{PanelOptions, PanelData};
//!
//! let mut csv = "date,tic,open,high,low,close,volume,rsi\n".to_owned();
//! for day in 1..=28 {
//!     csv += &format!("2024-01-{day:02},AAA,{day},40,1,{}.5,100,50\n", day);
//! }
//! let panel = PanelData::from_reader(csv.as_bytes(), &PanelOptions::default())?.into_heap();
//!
//! let mut env = PortfolioVectorEnv::new(panel, 4, PortfolioOptions::default())?;
//! env.reset(ResetSeed::One(7), None, None)?;
//! let day = env.obs().day[0];
//! env.step(&[1.0_f32, 0.5, 0.0, -1.0])?; // four environments, one ticker
//! assert_eq!(env.obs().day[0], day + 1);
//! assert_eq!(env.obs().shares, [15, 7, 0, 0]); // hmax is 15; nothing to sell in the last
//! assert_eq!(env.rewards().len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`TradingEnv`] puts an agent into a [`Market`](backcast_sim::Market) with a limit order book
//! and about a hundred background agents. [`TradingVectorEnv`] steps many of them, and
//! [`MultiAgentTradingEnv`] puts several agents into one market.
//!
//! ```
//! use backcast_gym::{DiscreteAction, TradingEnv, TradingEnvConfig};
//!
//! let mut env = TradingEnv::new(TradingEnvConfig::default())?;
//! let (observation, _) = env.reset(Some(42))?;
//! assert_eq!(observation.len(), env.observation_size());
//! let step = env.step(DiscreteAction::Buy)?;
//! assert_eq!(step.info.position, 100);
//! # Ok::<(), backcast_gym::TradingError>(())
//! ```
#![forbid(unsafe_code)]
#![expect(
    clippy::inline_always,
    reason = "loops must be inlined into the variants for wide vectors"
)]

mod contract;
mod portfolio;
mod trading;

pub use backcast_core::AutoresetMode;
pub use contract::{
    EpisodeError, EpisodeMetrics, Generator, ParseChoiceError, ResetSeed, StepOutcome,
};
pub use portfolio::{
    Actions, Bidding, Delisting, EpisodeHistory, HeldUnits, Margin, Observation, OrderLimit,
    PortfolioError, PortfolioFill, PortfolioOptions, PortfolioReward, PortfolioSteps,
    PortfolioVectorEnv, RUIN_FLOOR, Reward, StepDetails, StopLossDay, StopLossPrice, Valuation,
};
pub use trading::{
    ActionScheme, CloneReward, ContinuousAction, DiscreteAction, EpisodeState, ExternalAgent,
    ExternalAgentConfig, FeatureChoice, MarkPrice, MultiAgentTradingEnv, OrderCommand,
    PnlDeltaReward, QuoteAction, RewardFactory, RewardFunction, RewardInput, RewardScale,
    RiskAdjustedReward, SeedSpace, SimulationConfig, StepInfo, StepOrders, StepResult,
    TradingAction, TradingEnv, TradingEnvConfig, TradingError, TradingResetOptions,
    TradingVectorEnv,
};

/// Examples of the page in `docs/`, which run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/concepts/trading-environment.md")]
pub struct TradingEnvironmentPage;
