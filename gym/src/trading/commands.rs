//! Commands of an agent that places limit orders at prices of its choice and cancels them by id.

use backcast_sim::{IN_FLIGHT, Market, OpenOrder, OrderReject, Side, SlotReport, SlotRequest};

/// Numbers of one command: what to do, price, shares, id.
pub(super) const COMMAND_NUMBERS: usize = 4;
/// Maximum number of commands for one symbol in one step.
pub(super) const MOST_COMMANDS: u32 = 16;
/// Highest id of an order in a command. Every whole number up to it is exact in `f64`.
const MOST_ID: u64 = (1 << 53) - 1;

/// One command of [`ActionScheme::LimitOrders`](super::ActionScheme::LimitOrders).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderCommand {
    /// Does nothing.
    #[default]
    Nothing,
    /// Buys up to a price. What does not trade on arrival rests.
    Buy {
        /// Highest price in price ticks, at least 1.
        price: i32,
        /// Shares, at least 1.
        shares: i32,
    },
    /// Sells down to a price. What does not trade on arrival rests.
    Sell {
        /// Lowest price in price ticks, at least 1.
        price: i32,
        /// Shares, at least 1.
        shares: i32,
    },
    /// Cancels the open order with this id, in whichever symbol.
    Cancel(u64),
    /// Cancels all open orders in the symbol.
    CancelAll,
}

impl OrderCommand {
    /// Returns the four numbers of the command in an action: 0 nothing, 1 buy, 2 sell, 3 cancel or
    /// 4 cancel all; price; shares; id.
    #[must_use]
    pub fn numbers(self) -> [f64; COMMAND_NUMBERS] {
        match self {
            Self::Nothing => [0.0; COMMAND_NUMBERS],
            Self::Buy { price, shares } => [1.0, price.into(), shares.into(), 0.0],
            Self::Sell { price, shares } => [2.0, price.into(), shares.into(), 0.0],
            Self::Cancel(id) => [3.0, 0.0, 0.0, id as f64],
            Self::CancelAll => [4.0, 0.0, 0.0, 0.0],
        }
    }

    /// Reads a command of checked numbers.
    pub(super) fn of(numbers: &[f64]) -> Self {
        let (price, shares) = (numbers[1] as i32, numbers[2] as i32);
        match numbers[0] as u8 {
            1 => Self::Buy { price, shares },
            2 => Self::Sell { price, shares },
            3 => Self::Cancel(numbers[3] as u64),
            4 => Self::CancelAll,
            _ => Self::Nothing,
        }
    }

    /// Sends the request of the command from `slot`. Returns its number, and an error for an order
    /// without a price or without shares.
    ///
    /// An order is not clipped. The market accepts or refuses it as a whole on arrival, after the
    /// cancels that were sent before it.
    pub(super) fn send(
        self,
        market: &mut Market,
        slot: usize,
        symbol: u16,
    ) -> Result<Option<u64>, OrderReject> {
        let request = match self {
            Self::Nothing => return Ok(None),
            Self::Buy { price, shares } => SlotRequest::limit(Side::Buy, price, shares),
            Self::Sell { price, shares } => SlotRequest::limit(Side::Sell, price, shares),
            Self::Cancel(id) => SlotRequest::CancelNumber(id),
            Self::CancelAll => SlotRequest::CancelAll,
        };
        market.send(slot, symbol, request).map(Some)
    }
}

/// Returns the name, the lowest and the highest value of number `at` of an action, which consists
/// of commands for orders of at most `order_limit` shares.
pub(super) const fn command_bounds(at: usize, order_limit: i32) -> (&'static str, f64, f64) {
    match at % COMMAND_NUMBERS {
        0 => ("command", 0.0, 4.0),
        1 => ("price", 0.0, i32::MAX as f64),
        2 => ("shares", 0.0, order_limit as f64),
        _ => ("id", 0.0, MOST_ID as f64),
    }
}

/// Orders of an agent whose actions are commands; empty for other schemes.
#[derive(Debug, Default)]
pub struct StepOrders {
    /// Id of the order that each command of the last step placed, symbol by symbol; `None` for
    /// other commands, and for orders that were not sent.
    pub ids: Vec<Option<u64>>,
    /// Ids of the orders that were refused on arrival in the last step, and of those whose cancel
    /// was refused, each in the row of its command. `None` in other rows. After a latency of a step
    /// or more, the rows are those of an earlier step.
    pub refused: Vec<Option<u64>>,
    /// Orders that are open after the step, in the sequence of their ids.
    pub open: Vec<OpenOrder>,
    /// Commands on their way, each at its number modulo [`IN_FLIGHT`]. Their numbers are
    /// consecutive, so that no two share a place.
    on_their_way: Vec<SentCommand>,
}

/// A command that was sent.
#[derive(Clone, Copy, Debug, Default)]
struct SentCommand {
    /// Number of its request.
    number: u64,
    row: usize,
    /// Id of the order that it places or cancels; `None` if it cancels all.
    id: Option<u64>,
}

impl Clone for StepOrders {
    fn clone(&self) -> Self {
        let mut open = Vec::with_capacity(self.open.capacity());
        open.clone_from(&self.open);
        let (ids, refused) = (self.ids.clone(), self.refused.clone());
        Self { ids, refused, open, on_their_way: self.on_their_way.clone() }
    }
}

impl StepOrders {
    /// Allocates memory for `commands` commands and `open` open orders.
    pub(super) fn new(commands: usize, open: usize) -> Self {
        Self {
            ids: vec![None; commands],
            refused: vec![None; commands],
            open: Vec::with_capacity(open),
            on_their_way: vec![SentCommand::default(); IN_FLIGHT],
        }
    }

    pub(super) fn clear(&mut self) {
        self.ids.fill(None);
        self.refused.fill(None);
        self.open.clear();
        self.on_their_way.fill(SentCommand::default());
    }

    /// Begins a step.
    pub(super) fn begin(&mut self) {
        self.ids.fill(None);
        self.refused.fill(None);
    }

    /// Notes the request `number` that the command in `row` sent.
    pub(super) fn note(&mut self, row: usize, command: OrderCommand, number: u64) {
        let id = match command {
            OrderCommand::Buy { .. } | OrderCommand::Sell { .. } => {
                self.ids[row] = Some(number);
                Some(number)
            }
            OrderCommand::Cancel(id) => Some(id),
            OrderCommand::Nothing | OrderCommand::CancelAll => None,
        };
        self.on_their_way[number as usize % IN_FLIGHT] = SentCommand { number, row, id };
    }

    /// Notes the refused ones of the requests that arrived.
    pub(super) fn arrived(&mut self, reports: &[SlotReport]) {
        for report in reports.iter().filter(|report| report.result.is_err()) {
            let place = report.number as usize % IN_FLIGHT;
            if let Some(sent) = self.on_their_way.get(place)
                && sent.number == report.number
            {
                self.refused[sent.row] = sent.id;
            }
        }
    }

    /// Reads the orders that are open now.
    pub(super) fn read(&mut self, market: &Market, slot: usize) {
        self.open.clear();
        self.open.extend(market.open_orders(slot).into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_command_are_read_as_that_command() {
        for command in [
            OrderCommand::Nothing,
            OrderCommand::Buy { price: 10_001, shares: 5 },
            OrderCommand::Sell { price: i32::MAX, shares: 1 },
            OrderCommand::Cancel(MOST_ID),
            OrderCommand::CancelAll,
        ] {
            let numbers = command.numbers();
            assert_eq!(OrderCommand::of(&numbers), command);
            for (at, number) in numbers.into_iter().enumerate() {
                let (_, low, high) = command_bounds(at, 1_000);
                assert!((low..=high).contains(&number), "{command:?} {at}");
            }
        }
    }
}
