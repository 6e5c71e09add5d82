//! Limit-order-book market with background agents, deterministic by seed.
//!
//! A [`Market`] has one or more symbols, each with an order book, a hidden fundamental value and a
//! population of background agents. One [`Market::tick`] is one second. Orders from outside enter
//! through slots. Prices are whole ticks, cash and shares whole numbers. Every random draw comes
//! from a stream that depends only on the seed and on the agent or process that draws.
//!
//! ```
//! use backcast_sim::{Market, Preset, SlotRequest, Side};
//!
//! let mut market = Market::new(&Preset::Normal.config(), 7)?;
//! market.run(300);
//! market.send(0, 0, SlotRequest::market(Side::Buy, 10))?;
//! market.tick();
//! assert_eq!(market.position(0, 0)?, 10);
//! assert!(market.best_bid(0) < market.best_ask(0));
//! market.check()?; // cash and shares are conserved to the unit
//!
//! let mut again = Market::new(&Preset::Normal.config(), 7)?;
//! again.run(301);
//! assert_ne!(again.state_hash(), market.state_hash()); // without the order
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts, prices and sizes are bounded by the checked configuration"
)]

mod agents;
mod book;
mod candles;
mod clone_in_place;
mod config;
pub mod facts;
mod features;
mod fundamental;
mod history;
mod latent;
mod ledger;
mod market;
mod rng;
mod session;
mod tape;
mod venue;
mod wheel;

pub use agents::{Agent, AgentFactory, CloneAgent, Floor};
pub use book::{
    Book, BookEvents, BookFill, BookOp, BookOutcome, BookReject, NewOrder, Order, OrderKind,
    Removal, Side,
    auction::{AuctionRule, CallAuction, Cleared},
};
pub use candles::{Candle, Candles};
pub use config::{
    AccountConfig, Archetype, ArousalConfig, ConfigError, ExecutorConfig, FeatureConfig,
    FundamentalConfig, LatentConfig, MakerConfig, MarketConfig, Matching, NewsConfig, NoiseConfig,
    Population, Preset, SessionConfig, SignalConfig, SlotConfig, ValueConfig,
};
pub use features::{
    Feature, FeatureGroup, FeatureSet, FullFeatures, NormalisedFeatures, ObserveError,
    PrivateFeatures,
};
pub use fundamental::{LIVE_NEWS, News, NewsKind};
pub use history::{
    Differences, HistoricBook, HistoricLevel, History, HistoryCounts, HistoryError, HistoryFile,
    HistoryPrice, Message, MessageKind, MessageReject, NANOS_PER_SECOND, OwnFill, OwnOrder, Replay,
    ReplayAccount, ReplayReject, ReplayRules,
};
pub use ledger::{
    CASH_PER_TICK, ConservationError, DAY_TICKS, FeeSchedule, Ledger, Limits, OPEN_ORDERS,
    OrderReject,
};
pub use market::{DepthLevel, GroupTotals, Market, MemoryVisitor};
pub use rng::{RandomStream, StreamRole};
pub use tape::{HORIZONS, MarketOrder, Tape};
pub use venue::{
    IN_FLIGHT, OpenOrder, OrderId, Placed, SlotFill, SlotReport, SlotRequest, SlotTotals,
};

/// Runs the example of the page in `docs/`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/concepts/market-simulation.md")]
pub struct MarketSimulationPage;
