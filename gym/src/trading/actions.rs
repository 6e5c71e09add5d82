//! Actions of the trading environment, and the meaning of their numbers.

use super::{
    commands::{COMMAND_NUMBERS, OrderCommand},
    error::TradingError,
};
use crate::contract::choice;

choice!(
    /// Meaning of an action for one symbol.
    ActionScheme, "actions", {
        /// Sell, hold or buy `order_size` shares at the market: [`DiscreteAction`]. The default.
        #[default]
        Discrete = "discrete",
        /// Sell, hold, buy, offer, bid, cancel: market orders, and post-only orders at the touch.
        DiscreteLimit = "discrete_limit",
        /// Short, flat or long: trades towards the short limit, no position, or the long limit.
        DiscreteTarget = "discrete_target",
        /// Target position in `[-1, 1]`, a fraction of the limits.
        Target = "target",
        /// Signed size of a market order in `[-1, 1]`, a fraction of `order_size`.
        OrderSize = "order_size",
        /// Four numbers in `[0, 1]`: offsets of bid and ask, sizes of bid and ask. All open orders
        /// are cancelled first.
        Quotes = "quotes",
        /// A number of commands, each of which places a limit order at any price, or cancels one by
        /// its id: [`OrderCommand`].
        LimitOrders = "limit_orders",
    }
);

impl ActionScheme {
    /// Returns the number of choices, or `None` for a continuous scheme.
    #[must_use]
    pub const fn choices(self) -> Option<usize> {
        match self {
            Self::Discrete | Self::DiscreteTarget => Some(3),
            Self::DiscreteLimit => Some(6),
            Self::Target | Self::OrderSize | Self::Quotes | Self::LimitOrders => None,
        }
    }

    /// Returns how many values an action has for one symbol, or with [`Self::LimitOrders`] one of
    /// its commands.
    #[must_use]
    pub const fn numbers(self) -> usize {
        match self {
            Self::Quotes => 4,
            Self::LimitOrders => COMMAND_NUMBERS,
            _ => 1,
        }
    }

    /// Returns the lowest and the highest value of an action, or with [`Self::LimitOrders`] of the
    /// first number of a command.
    /// [`ExternalAgentConfig::bounds`](super::ExternalAgentConfig::bounds) has those of all numbers.
    #[must_use]
    pub const fn bounds(self) -> (f64, f64) {
        match self {
            Self::Discrete | Self::DiscreteTarget => (0.0, 2.0),
            Self::DiscreteLimit => (0.0, 5.0),
            Self::Target | Self::OrderSize => (-1.0, 1.0),
            Self::Quotes => (0.0, 1.0),
            Self::LimitOrders => (0.0, 4.0),
        }
    }

    /// Returns whether `order_size` sets the sizes of the orders.
    pub(super) const fn has_order_size(self) -> bool {
        matches!(self, Self::Discrete | Self::DiscreteLimit | Self::OrderSize | Self::Quotes)
    }

    /// Returns whether the values of an action are whole numbers.
    pub(super) const fn is_whole(self) -> bool {
        self.choices().is_some() || matches!(self, Self::LimitOrders)
    }
}

/// Action of [`ActionScheme::Discrete`] for one symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DiscreteAction {
    /// Sells `order_size` shares at the market.
    Sell = 0,
    /// Sends no order.
    Hold = 1,
    /// Buys `order_size` shares at the market.
    Buy = 2,
}

impl DiscreteAction {
    /// All actions, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Sell, Self::Hold, Self::Buy];
}

/// A number in `[-1, 1]`: a target position or an order size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContinuousAction(pub f64);

/// Bid and ask around the touch, each number in `[0, 1]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuoteAction {
    /// Distance of the bid behind the best bid, a fraction of `max_offset`.
    pub bid_offset: f64,
    /// Distance of the ask behind the best ask, a fraction of `max_offset`.
    pub ask_offset: f64,
    /// Size of the bid, a fraction of `order_size`; 0 sends none.
    pub bid_size: f64,
    /// Size of the ask, a fraction of `order_size`; 0 sends none.
    pub ask_size: f64,
}

/// An action for one symbol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TradingAction {
    /// Action of [`ActionScheme::Discrete`].
    Discrete(DiscreteAction),
    /// Number of a choice, for every discrete scheme.
    Choice(u8),
    /// Number of [`ActionScheme::Target`] or [`ActionScheme::OrderSize`].
    Continuous(ContinuousAction),
    /// Quotes of [`ActionScheme::Quotes`].
    Quote(QuoteAction),
    /// The first command of [`ActionScheme::LimitOrders`]; the others do nothing.
    Order(OrderCommand),
}

impl TradingAction {
    /// Returns the values of the action, and how many of the array they fill.
    ///
    /// # Errors
    /// [`TradingError::WrongAction`] if it does not belong to the scheme.
    pub(super) fn numbers(self, scheme: ActionScheme) -> Result<([f64; 4], usize), TradingError> {
        let one = |number: f64| ([number, 0.0, 0.0, 0.0], 1);
        match (self, scheme) {
            (Self::Discrete(action), ActionScheme::Discrete) => Ok(one(action.into())),
            (Self::Choice(choice), scheme) if scheme.choices().is_some() => {
                Ok(one(f64::from(choice)))
            }
            (
                Self::Continuous(ContinuousAction(number)),
                ActionScheme::Target | ActionScheme::OrderSize,
            ) => Ok(one(number)),
            (Self::Quote(quote), ActionScheme::Quotes) => {
                let QuoteAction { bid_offset, ask_offset, bid_size, ask_size } = quote;
                Ok(([bid_offset, ask_offset, bid_size, ask_size], 4))
            }
            (Self::Order(command), ActionScheme::LimitOrders) => {
                Ok((command.numbers(), COMMAND_NUMBERS))
            }
            (action, scheme) => Err(TradingError::WrongAction { action: action.kind(), scheme }),
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Discrete(_) => "a DiscreteAction",
            Self::Choice(_) => "a choice",
            Self::Continuous(_) => "a ContinuousAction",
            Self::Quote(_) => "a QuoteAction",
            Self::Order(_) => "an OrderCommand",
        }
    }
}

impl From<DiscreteAction> for TradingAction {
    fn from(action: DiscreteAction) -> Self {
        Self::Discrete(action)
    }
}

impl From<u8> for TradingAction {
    fn from(choice: u8) -> Self {
        Self::Choice(choice)
    }
}

/// Converts an action to its number, so that `step_into` accepts a slice of `DiscreteAction`s.
impl From<DiscreteAction> for f64 {
    fn from(action: DiscreteAction) -> Self {
        Self::from(action as u8)
    }
}

impl From<ContinuousAction> for f64 {
    fn from(ContinuousAction(number): ContinuousAction) -> Self {
        number
    }
}

impl From<ContinuousAction> for TradingAction {
    fn from(action: ContinuousAction) -> Self {
        Self::Continuous(action)
    }
}

impl From<QuoteAction> for TradingAction {
    fn from(action: QuoteAction) -> Self {
        Self::Quote(action)
    }
}

impl From<OrderCommand> for TradingAction {
    fn from(command: OrderCommand) -> Self {
        Self::Order(command)
    }
}
