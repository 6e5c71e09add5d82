//! The orders of one portfolio on one day, and the sequence in which they are filled.

use crate::{account::Account, quotes::Quotes};

/// Largest `hmax` for which orders are put in sequence by counting: a counter for each quantity.
const MOST_COUNTED: i32 = 256;
/// Most tickers for which those counters are bytes.
const MOST_TICKERS: usize = 255;
/// More than are used: their number is a power of two, so that a place needs no check.
const COUNTERS: usize = 1024;
/// A word with a one in each byte: the product with it has in each byte the sum of the bytes up to there.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Orders of one day, kept between days for their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    /// Shares to buy, negative to sell, by ticker.
    quantities: Vec<i32>,
    /// Tickers in the sequence of execution: `sells` of them, then those that are bought up to
    /// `executed`, then the others, then places that mean nothing.
    sequence: Vec<u32>,
    sells: usize,
    executed: usize,
    /// By ticker: which of the counters is its quantity's.
    places: Vec<u32>,
    /// Where the next order of a quantity goes.
    counters: Vec<u8>,
    words: Vec<u32>,
    sorted: Vec<Order>,
    quotes: Quotes,
}

/// Shares and ticker in one sortable word: sells first, then large quantities, then tickers in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u64);

impl Order {
    fn new(quantity: i32, ticker: u32) -> Self {
        // Buys follow sells, and no order follows both.
        let side = if quantity == 0 { 2 } else { u64::from(quantity > 0) };
        // Quantities lie in -i32::MAX..=i32::MAX.
        let small = u64::from(i32::MAX.unsigned_abs() - quantity.unsigned_abs());
        Self((side << 62) | (small << 31) | u64::from(ticker))
    }

    fn ticker(self) -> u32 {
        (self.0 & 0x7FFF_FFFF) as u32
    }
}

impl Orders {
    pub(crate) fn with_capacity(tickers: usize) -> Self {
        Self {
            quantities: Vec::with_capacity(tickers),
            sequence: Vec::with_capacity(tickers),
            ..Self::default()
        }
    }

    /// Turn actions into orders. A ticker whose `open` is 0 has no row today and is not traded.
    pub(crate) fn collect<A: Copy + Into<f64>>(
        &mut self,
        actions: &[A],
        hmax: f64,
        open: &[f64],
        shares: &[i32],
    ) {
        self.quantities.resize(actions.len(), 0);
        want(actions, hmax, open, shares, &mut self.quantities);
        self.arrange(hmax);
    }

    /// Leave out what `tradable` says of a position.
    pub(crate) fn retain(&mut self, hmax: f64, tradable: impl Fn(usize) -> bool) {
        for (ticker, quantity) in self.quantities.iter_mut().enumerate() {
            if !tradable(ticker) {
                *quantity = 0;
            }
        }
        self.arrange(hmax);
    }

    /// Find the sequence of execution. Random quantities would make a sort that branches guess wrong most of
    /// the time.
    fn arrange(&mut self, hmax: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "hmax <= i32::MAX")]
        let hmax = hmax as i32;
        if hmax > MOST_COUNTED {
            self.sort();
        } else if self.quantities.len() <= MOST_TICKERS {
            self.count(hmax);
        } else {
            self.count_many(hmax);
        }
    }

    fn sort(&mut self) {
        let orders = self.quantities.iter().zip(0..);
        self.sorted.clear();
        self.sorted.extend(orders.map(|(&quantity, ticker)| Order::new(quantity, ticker)));
        self.sorted.sort_unstable();
        self.sequence.clear();
        self.sequence.extend(self.sorted.iter().map(|order| order.ticker()));
        self.sells = self.quantities.iter().filter(|&&quantity| quantity < 0).count();
        let buys = self.quantities.iter().filter(|&&quantity| quantity > 0).count();
        self.executed = self.sells + buys;
    }

    /// A counting sort. Counters `0..hmax` are of sells, the largest first; `hmax..2 * hmax` of buys, the
    /// largest first; then comes that of no order.
    fn count(&mut self, hmax: i32) {
        self.places.resize(self.quantities.len(), 0);
        self.counters.resize(COUNTERS, 0);
        self.sequence.resize(MOST_TICKERS + 1, 0);
        let counters = self.counters.first_chunk_mut::<COUNTERS>();
        let sequence = self.sequence.first_chunk_mut::<{ MOST_TICKERS + 1 }>();
        let (Some(counters), Some(sequence)) = (counters, sequence) else { return };
        let most = hmax.unsigned_abs() as usize;
        let (words, _) = counters[..(2 * most + 1).next_multiple_of(8)].as_chunks_mut::<8>();
        words.fill([0; 8]);
        for (place, &quantity) in self.places.iter_mut().zip(&self.quantities) {
            *place = self::place(quantity, hmax);
            counters[*place as usize % COUNTERS] += 1;
        }
        let mut before = 0_u64;
        let (words, _) = counters[..(2 * most + 1).next_multiple_of(8)].as_chunks_mut::<8>();
        for word in words {
            let of = u64::from_le_bytes(*word);
            // No sum is larger than the number of tickers, so that no byte runs over.
            let up_to = of.wrapping_mul(ONES).wrapping_add(before.wrapping_mul(ONES));
            *word = up_to.wrapping_sub(of).to_le_bytes();
            before = up_to >> 56;
        }
        self.sells = usize::from(counters[most]);
        self.executed = usize::from(counters[2 * most]);
        for (&place, ticker) in self.places.iter().zip(0..) {
            let next = &mut counters[place as usize % COUNTERS];
            sequence[usize::from(*next)] = ticker;
            *next = next.wrapping_add(1);
        }
    }

    /// The same with counters that are words.
    fn count_many(&mut self, hmax: i32) {
        let most = hmax.unsigned_abs() as usize;
        self.words.clear();
        self.words.resize(2 * most + 1, 0);
        self.places.clear();
        self.places.extend(self.quantities.iter().map(|&quantity| place(quantity, hmax)));
        for &place in &self.places {
            self.words[place as usize] += 1;
        }
        let mut before = 0;
        for word in &mut self.words {
            before += std::mem::replace(word, before);
        }
        self.sells = self.words[most] as usize;
        self.executed = self.words[2 * most] as usize;
        self.sequence.resize(self.quantities.len(), 0);
        for (&place, ticker) in self.places.iter().zip(0..) {
            let next = &mut self.words[place as usize];
            self.sequence[*next as usize] = ticker;
            *next += 1;
        }
    }

    /// Fill all orders: at once if nothing but the cash can stand in their way, else one by one.
    pub(crate) fn fill(&mut self, account: &mut Account<'_>) {
        let (sells, buys) = self.sequence[..self.executed].split_at(self.sells);
        if let Some(costs) = account.only_costs()
            && self.quotes.ask(&self.quantities, account)
        {
            return self.quotes.settle(sells, buys, costs, account);
        }
        for &ticker in sells {
            let ticker = ticker as usize;
            account.sell(ticker, self.quantities[ticker].unsigned_abs(), false);
        }
        for &ticker in buys {
            let ticker = ticker as usize;
            account.buy(ticker, self.quantities[ticker]);
        }
    }
}

/// The counter of a quantity in `-hmax..=hmax`.
fn place(quantity: i32, hmax: i32) -> u32 {
    let place = if quantity < 0 { hmax + quantity } else { 2 * hmax - quantity };
    #[expect(clippy::cast_sign_loss, reason = "at least 0")]
    let unsigned = place as u32;
    unsigned
}

/// Orders by ticker. The slices are arguments, so that the compiler knows them to be apart and does several at
/// a time.
#[inline(never)]
fn want<A: Copy + Into<f64>>(
    actions: &[A],
    hmax: f64,
    open: &[f64],
    shares: &[i32],
    quantities: &mut [i32],
) {
    let inputs = actions.iter().zip(open).zip(shares);
    for (quantity, ((&action, &open), &held)) in quantities.iter_mut().zip(inputs) {
        // Conversion truncates toward zero.
        #[expect(clippy::cast_possible_truncation, reason = "|action| <= 1 and hmax <= i32::MAX")]
        let wanted = (action.into() * hmax) as i32;
        // In numbers: which of these holds is as random as the actions are.
        let possible = i32::from(open > 0.0) & (i32::from(wanted > 0) | i32::from(held > 0));
        *quantity = wanted * possible;
    }
}
