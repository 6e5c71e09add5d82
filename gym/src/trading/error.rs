//! Errors of the trading environment. Nothing has changed when one is returned, but after
//! [`TradingError::Interrupted`].
#![expect(missing_docs, reason = "the messages show the fields")]

use backcast_core::plumbing::ShownNumber;
use backcast_sim::{ConfigError, ObserveError};
use thiserror::Error;

use super::actions::ActionScheme;
use crate::contract::EpisodeError;

/// Error of building, resetting or stepping a trading environment.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum TradingError {
    /// A market that cannot be built.
    #[error(transparent)]
    Market(#[from] ConfigError),
    /// A reset or step that the state of the sub-environments does not allow.
    #[error(transparent)]
    Episode(#[from] EpisodeError),
    /// A warm-up that the interrupt of the simulation has ended. All sub-environments have to be
    /// reset.
    #[error(
        "the warm-up was interrupted {left} ticks before its end; reset all environments before \
         the next step"
    )]
    Interrupted { left: u64 },
    /// An observation that cannot be written.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A setting outside its range.
    #[error("`{option}` is {}, but must be {rule}", ShownNumber(*value))]
    BadOption {
        option: &'static str,
        /// Value given.
        value: f64,
        rule: &'static str,
    },
    /// No sub-environment, or more than the maximum.
    #[error("`num_envs` is {num_envs}, but must be 1 to {limit}; step more in other processes")]
    BadNumEnvs { num_envs: usize, limit: usize },
    /// More sub-environments than fit in memory.
    #[error(
        "`num_envs` is {num_envs}, but memory is left for {limit}: each takes about {kib_each} \
         KiB{}; make fewer, or give their markets fewer symbols, agents and `book_orders`",
        with_snapshots(*snapshots)
    )]
    NoRoom {
        num_envs: usize,
        limit: u64,
        kib_each: u64,
        /// Number of warm snapshots, which take as much each.
        snapshots: u32,
    },
    /// No agent, or more than a market takes.
    #[error("there are {agents} agents, but a market takes 1 to {limit}; change their number")]
    BadAgentCount { agents: usize, limit: usize },
    /// A full-size order that exceeds the limit for one order.
    #[error(
        "`order_size` is {order_size} shares, above the order limit of {limit}; lower it, or raise \
         `account.limits.order`"
    )]
    OrderAboveLimit { order_size: i32, limit: i32 },
    /// An endowment that a margin call would end in the first step.
    #[error(
        "the endowment with {shares} shares of each symbol has an equity of {} currency units at \
         the initial price, below the maintenance margin of {}; raise its cash, change its \
         shares, or lower `maintenance_margin`",
        ShownNumber(*equity),
        ShownNumber(*margin)
    )]
    EndowmentBelowMargin {
        shares: i32,
        /// Cash and shares in currency units.
        equity: f64,
        /// Equity that the shares need.
        margin: f64,
    },
    /// More requests in flight than a slot holds.
    #[error(
        "with {} and a latency of {latency_ticks} ticks, {requests} requests could be on their way \
         at once, {each} for each action, but a slot holds {limit}; {}",
        counted(*symbols),
        fewer_requests(*each > *limit, *commands)
    )]
    TooManyInFlight {
        requests: u64,
        limit: u64,
        latency_ticks: u32,
        symbols: u16,
        /// Requests of one action, over all symbols.
        each: u64,
        /// Whether `commands` sets the requests of an action.
        commands: bool,
    },
    /// A number outside the range of the action scheme.
    #[error(
        "the {what} of environment {env} is {}, but must be {} from {low} to {high} for \
         \"{scheme}\"",
        ShownNumber(*value),
        kind(*scheme)
    )]
    BadAction {
        env: usize,
        /// Name of the number: the action, or a part of a command.
        what: &'static str,
        /// Number given.
        value: f64,
        low: f64,
        high: f64,
        scheme: ActionScheme,
    },
    /// A setting or an action of one of several agents in a market.
    #[error("agent {agent}: {}", error.for_single())]
    Agent {
        agent: usize,
        /// Error, as a single environment with this agent returns it.
        error: Box<TradingError>,
    },
    /// An action of another scheme.
    #[error("the environment takes actions of the scheme \"{scheme}\", but got {action}")]
    WrongAction { action: &'static str, scheme: ActionScheme },
}

impl TradingError {
    /// Returns the message for a single environment, without numbers of sub-environments.
    #[must_use]
    pub fn for_single(&self) -> String {
        match self {
            Self::Episode(error) => error.for_single(),
            Self::BadAction { what, value, low, high, scheme, .. } => {
                let kind = kind(*scheme);
                format!(
                    "the {what} is {value}, but must be {kind} from {low} to {high} for \
                     \"{scheme}\""
                )
            }
            Self::NoRoom { kib_each, snapshots, .. } => {
                let them = with_snapshots(*snapshots);
                format!(
                    "there is no memory for the market, which takes about {kib_each} KiB{them}; \
                     give it fewer symbols, agents and `book_orders`"
                )
            }
            other => other.to_string(),
        }
    }

    /// Turns the error of a single environment into one about an agent of several.
    pub(super) fn of_agent(self, agent: usize) -> Self {
        Self::Agent { agent, error: Box::new(self) }
    }
}

/// Returns the part of a message about warm snapshots, which is empty without them.
fn with_snapshots(snapshots: u32) -> String {
    match snapshots {
        0 => String::new(),
        many => format!(", and so does each of the {many} `warm_snapshots`"),
    }
}

fn counted(symbols: u16) -> String {
    format!("{symbols} symbol{}", if symbols == 1 { "" } else { "s" })
}

/// Returns what lowers the number of requests in flight. `too_many`: whether one action alone has
/// too many.
const fn fewer_requests(too_many: bool, commands: bool) -> &'static str {
    match (too_many, commands) {
        (true, true) => "lower `commands`, or give the market fewer symbols",
        (true, false) => "give the market fewer symbols",
        (false, true) => "lower `commands` or `latency_ticks`, or raise `frame_skip`",
        (false, false) => "lower `latency_ticks` or raise `frame_skip`",
    }
}

const fn kind(scheme: ActionScheme) -> &'static str {
    if scheme.is_whole() { "a whole number" } else { "a number" }
}
