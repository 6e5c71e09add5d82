//! Slots: accounts whose orders come from outside the simulation, after a latency.

use std::collections::VecDeque;

use super::{
    NumberedOrders,
    pit::{OrderId, Placed},
};
use crate::{
    book::{OrderKind, Side},
    config::SlotConfig,
    ledger::{CASH_PER_TICK, OrderReject},
};

/// Maximum number of requests of one slot that are on their way.
pub const IN_FLIGHT: usize = 64;
/// Fills of one slot in one tick for which there is memory from the start.
const FILLS: usize = 256;

/// Request of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRequest {
    /// A new order.
    Submit {
        /// Side.
        side: Side,
        /// Behaviour of the part that does not trade on arrival.
        kind: OrderKind,
        /// Worst acceptable price in ticks. A marketable order may name `i32::MAX` or 1.
        price: i32,
        /// Shares.
        quantity: i32,
    },
    /// Cancels one open order.
    Cancel(OrderId),
    /// Cancels the open order, in whichever symbol, of the request with this number.
    CancelNumber(u64),
    /// Cancels all open orders of the slot in the symbol.
    CancelAll,
}

impl SlotRequest {
    /// Returns a market order: marketable at any price.
    #[must_use]
    pub const fn market(side: Side, quantity: i32) -> Self {
        let price = match side {
            Side::Buy => i32::MAX,
            Side::Sell => 1,
        };
        Self::Submit { side, kind: OrderKind::Marketable, price, quantity }
    }

    /// Returns a limit order. The part that does not trade on arrival rests.
    #[must_use]
    pub const fn limit(side: Side, price: i32, quantity: i32) -> Self {
        Self::Submit { side, kind: OrderKind::Limit, price, quantity }
    }

    /// Passes all that it asks for to `word`.
    fn digest(self, mut word: impl FnMut(u64)) {
        match self {
            Self::Submit { side, kind, price, quantity } => {
                word((side as u64) << 8 | kind as u64);
                word((price as u64) << 32 | quantity as u64);
            }
            Self::Cancel(OrderId { symbol, slot, id, waits }) => {
                word(1 << 16 | u64::from(waits));
                word(u64::from(symbol) << 48 | u64::from(slot) << 32 | u64::from(id));
            }
            Self::CancelNumber(number) => {
                word(2 << 16);
                word(number);
            }
            Self::CancelAll => word(3 << 16),
        }
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) due: u64,
    pub(crate) number: u64,
    pub(crate) symbol: u16,
    pub(crate) request: SlotRequest,
}

/// Result of a request on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotReport {
    /// Number that [`Market::send`](crate::Market::send) returned.
    pub number: u64,
    /// Symbol.
    pub symbol: u16,
    /// Result. A cancel reports no shares; one that names an order which is not open is refused.
    pub result: Result<Placed, OrderReject>,
}

/// One fill of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotFill {
    /// Tick of the trade.
    pub tick: u64,
    /// Symbol.
    pub symbol: u16,
    /// Side of the slot's order.
    pub side: Side,
    /// Price in ticks.
    pub price: i32,
    /// Shares.
    pub quantity: i32,
    /// Fee in cash units; negative is a rebate.
    pub fee: i64,
    /// Number that [`Market::send`](crate::Market::send) returned for the slot's order.
    pub order: u64,
    /// True if the slot's order was resting, and for all fills of a call auction.
    pub maker: bool,
}

/// Average-cost bookkeeping in one symbol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Basis {
    /// Cost of the open position without fees, in cash units; positive for long and short.
    cost: i64,
    /// Profit of closed positions without fees, in cash units.
    realised: i64,
}

/// Totals of one slot since its last reset or restart, in exact integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotTotals {
    /// Shares bought.
    pub bought: i64,
    /// Shares sold.
    pub sold: i64,
    /// Fees paid less rebates, in cash units.
    pub fees: i64,
    /// Number of fills.
    pub fills: u64,
    /// Number of requests refused on arrival.
    pub refused: u64,
}

/// State of one slot.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) config: SlotConfig,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) fills: Vec<SlotFill>,
    pub(crate) reports: Vec<SlotReport>,
    pub(crate) orders: NumberedOrders,
    pub(crate) bases: Vec<Basis>,
    pub(crate) totals: SlotTotals,
    pub(crate) last_fill: Option<SlotFill>,
    pub(crate) sent: u64,
    /// Number of the request that arrives now, or arrived last.
    pub(crate) arriving: u64,
}

impl Clone for Slot {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.config, self.bases.len());
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        let Self {
            config,
            pending,
            fills,
            reports,
            orders,
            bases,
            totals,
            last_fill,
            sent,
            arriving,
        } = source;
        self.config = *config;
        self.pending.clone_from(pending);
        self.fills.clone_from(fills);
        self.reports.clone_from(reports);
        self.orders.clone_from(orders);
        self.bases.clone_from(bases);
        self.totals = *totals;
        self.last_fill = *last_fill;
        self.sent = *sent;
        self.arriving = *arriving;
    }
}

impl Slot {
    pub(crate) fn new(config: SlotConfig, symbols: usize) -> Self {
        Self {
            config,
            pending: VecDeque::with_capacity(IN_FLIGHT),
            fills: Vec::with_capacity(FILLS),
            reports: Vec::with_capacity(IN_FLIGHT),
            orders: NumberedOrders::new(symbols),
            bases: vec![Basis::default(); symbols],
            totals: SlotTotals::default(),
            last_fill: None,
            sent: 0,
            arriving: 0,
        }
    }

    pub(crate) fn reset(&mut self, price: i32) {
        self.restart(std::iter::repeat(price));
    }

    /// Clears requests and records. The shares of the endowment count as bought at `prices`, one
    /// for each symbol.
    pub(crate) fn restart(&mut self, prices: impl Iterator<Item = i32>) {
        self.pending.clear();
        self.fills.clear();
        self.reports.clear();
        self.orders.clear();
        let shares = i64::from(self.config.account.shares.unsigned_abs());
        for (basis, price) in self.bases.iter_mut().zip(prices) {
            *basis = Basis { cost: shares * i64::from(price) * CASH_PER_TICK, realised: 0 };
        }
        self.totals = SlotTotals::default();
        self.last_fill = None;
        self.sent = 0;
        self.arriving = 0;
    }

    /// Records a fill. `position` is the position before it.
    pub(crate) fn filled(&mut self, fill: SlotFill, position: i32) {
        let basis = &mut self.bases[usize::from(fill.symbol)];
        let notional = |shares: i64| i64::from(fill.price) * shares * CASH_PER_TICK;
        let (held, shares) = (i64::from(position), i64::from(fill.quantity));
        let signed = shares * i64::from(fill.side.sign());
        if held == 0 || held.signum() == signed.signum() {
            basis.cost += notional(shares);
        } else {
            let closed = shares.min(held.abs());
            let released = i128::from(basis.cost) * i128::from(closed) / i128::from(held.abs());
            let released = released as i64;
            basis.cost -= released;
            basis.realised += held.signum() * (notional(closed) - released);
            basis.cost += notional(shares - closed);
        }
        match fill.side {
            Side::Buy => self.totals.bought += shares,
            Side::Sell => self.totals.sold += shares,
        }
        self.totals.fees += fill.fee;
        self.totals.fills += 1;
        self.last_fill = Some(fill);
        self.fills.push(fill);
    }

    pub(crate) fn report(&mut self, report: SlotReport) {
        self.totals.refused += u64::from(report.result.is_err());
        if self.reports.len() < IN_FLIGHT {
            self.reports.push(report);
        }
    }

    /// Returns the profit of closed positions in all symbols without fees, in cash units.
    pub(crate) fn realised(&self) -> i64 {
        self.bases.iter().map(|basis| basis.realised).sum()
    }

    /// Returns the cost of the open position in one symbol, in cash units; positive for long and
    /// short.
    pub(crate) fn cost(&self, symbol: u16) -> i64 {
        self.bases[usize::from(symbol)].cost
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        for pending in &self.pending {
            word(pending.due);
            word(pending.number << 16 | u64::from(pending.symbol));
            pending.request.digest(&mut word);
        }
        for basis in &self.bases {
            word(basis.cost as u64);
            word(basis.realised as u64);
        }
        word(self.totals.bought as u64);
        word(self.totals.sold as u64);
        word(self.totals.fees as u64);
        word(self.sent);
    }
}
