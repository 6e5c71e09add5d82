//! Orders of one portfolio on one day, and the sequence in which they are filled.

use backcast_core::plumbing::{RANK_BLOCK, SimdKernel, ranks, run_simd, trunc_to_i32};

use super::{
    account::PortfolioAccount,
    lines::{LINE, in_sequence},
    quotes::Quotes,
};

/// Largest `hmax` for which a counting sort finds the sequence, with one counter for each quantity.
const MOST_COUNTED: i32 = 256;
/// Largest `hmax` for which the number of a counter fits a byte.
const MOST_IN_BYTES: i32 = 127;
/// Largest number of tickers for which the counters are bytes.
const MOST_TICKERS: usize = 255;
/// Largest number of tickers whose orders are ranked by comparing all pairs. With more tickers a
/// counting sort is faster.
const MOST_RANKED: usize = 64;
/// Number of counters: all values of a byte, so that indexing needs no bounds check.
const COUNTERS: usize = 256;
/// A one in each byte: multiplying by it computes the prefix sums of the bytes of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Orders of one day; the buffers are reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    tickers: usize,
    /// Shares to buy, negative to sell, by ticker, padded to lines.
    quantities: Vec<i32>,
    /// Tickers in the sequence of execution: `sells` sales, then purchases up to `executed`, then
    /// tickers without an order, then unused elements.
    sequence: Vec<u32>,
    sells: usize,
    executed: usize,
    /// Number of the counter of each ticker's quantity.
    places: Vec<u8>,
    many_places: Vec<u32>,
    /// Sort key of each ticker; lower is executed first.
    keys: Vec<i16>,
    ranks: Vec<i16>,
    /// Position of the next order of each quantity.
    words: Vec<u32>,
    sorted: Vec<OrderKey>,
    quotes: Quotes,
}

/// Sort key of an order: sells first, then large quantities, then tickers in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderKey(u64);

impl OrderKey {
    fn new(quantity: i32, ticker: u32) -> Self {
        // Buys come after sells, and empty orders last.
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

    /// Turns actions into orders. A ticker whose `open` is 0 has no row today and is not traded.
    /// All slices but `actions` may be padded to lines.
    pub(crate) fn collect<A: Copy + Into<f64>>(
        &mut self,
        actions: &[A],
        hmax: f64,
        open: &[f64],
        shares: &[i32],
    ) {
        self.tickers = actions.len();
        self.quantities.resize(open.len(), 0);
        run_simd(CollectQuantities, (actions, open, shares), (&mut self.quantities, &mut []), hmax);
        self.arrange(hmax);
    }

    /// Removes the orders of tickers that are not `tradable`.
    pub(crate) fn retain(&mut self, hmax: f64, tradable: impl Fn(usize) -> bool) {
        for (ticker, quantity) in self.quantities[..self.tickers].iter_mut().enumerate() {
            if !tradable(ticker) {
                *quantity = 0;
            }
        }
        self.arrange(hmax);
    }

    /// Finds the sequence of execution. Avoids a comparison sort where possible, since random
    /// quantities make most of its branches mispredict.
    fn arrange(&mut self, hmax: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "hmax <= i32::MAX")]
        let hmax = hmax as i32;
        if hmax > MOST_COUNTED {
            self.sort();
        } else if self.tickers <= MOST_RANKED && hmax <= MOST_IN_BYTES {
            self.rank(hmax);
        } else if self.tickers <= MOST_TICKERS && hmax <= MOST_IN_BYTES {
            self.count(hmax);
        } else {
            self.count_many(hmax);
        }
    }

    fn sort(&mut self) {
        let orders = self.quantities[..self.tickers].iter().zip(0..);
        self.sorted.clear();
        self.sorted.extend(orders.map(|(&quantity, ticker)| OrderKey::new(quantity, ticker)));
        self.sorted.sort_unstable();
        self.sequence.clear();
        self.sequence.extend(self.sorted.iter().map(|order| order.ticker()));
        self.count_sides();
    }

    /// Counts the smaller keys of each order, which is its position: no two keys are equal.
    fn rank(&mut self, hmax: i32) {
        let room = self.quantities.len().next_multiple_of(RANK_BLOCK);
        self.keys.resize(room, 0);
        self.ranks.resize(room, 0);
        run_simd(RankKeys, (&self.quantities, &[], &[]), (&mut self.keys, &mut []), hmax);
        ranks(&self.keys, self.tickers, &mut self.ranks);
        self.count_sides();
        self.sequence.resize(MOST_TICKERS + 1, 0);
        let Some(sequence) = self.sequence.first_chunk_mut::<{ MOST_TICKERS + 1 }>() else {
            return;
        };
        for (ticker, rank) in (0..).zip(&self.ranks[..self.tickers]) {
            let [low, _] = rank.to_le_bytes();
            sequence[usize::from(low)] = ticker;
        }
    }

    fn count_sides(&mut self) {
        self.sells = count_if(&self.quantities, |quantity| quantity < 0);
        self.executed = count_if(&self.quantities, |quantity| quantity != 0);
    }

    /// Sorts by counting. Counters `0..hmax` belong to sells, the largest first, `hmax..2 * hmax`
    /// to buys, the largest first, and the last one to empty orders.
    fn count(&mut self, hmax: i32) {
        self.places.resize(self.quantities.len(), 0);
        run_simd(CounterOf, (&self.quantities, &[], &[]), (&mut self.places, &mut []), hmax);
        self.sequence.resize(MOST_TICKERS + 1, 0);
        let Some(sequence) = self.sequence.first_chunk_mut::<{ MOST_TICKERS + 1 }>() else {
            return;
        };
        let most = hmax.unsigned_abs() as usize;
        let mut counters = [0_u8; COUNTERS];
        let places = &self.places;
        in_sequence!(at of self.tickers, [places] {
            let counter = &mut counters[usize::from(places[at])];
            *counter = counter.wrapping_add(1);
        });
        let mut before = 0_u64;
        let (words, _) = counters[..(2 * most + 1).next_multiple_of(8)].as_chunks_mut::<8>();
        for word in words {
            let of = u64::from_le_bytes(*word);
            // Sums are at most the number of tickers, so that no byte overflows.
            let up_to = of.wrapping_mul(ONES).wrapping_add(before.wrapping_mul(ONES));
            *word = up_to.wrapping_sub(of).to_le_bytes();
            before = up_to >> 56;
        }
        self.sells = usize::from(counters[most]);
        self.executed = usize::from(counters[2 * most]);
        let mut ticker = 0;
        in_sequence!(at of self.tickers, [places] {
            let next = &mut counters[usize::from(places[at])];
            sequence[usize::from(*next)] = ticker;
            *next = next.wrapping_add(1);
            ticker += 1;
        });
    }

    /// Sorts by counting, with counters that are words.
    fn count_many(&mut self, hmax: i32) {
        let most = hmax.unsigned_abs() as usize;
        self.words.clear();
        self.words.resize(2 * most + 1, 0);
        self.many_places.clear();
        self.many_places.extend(
            self.quantities[..self.tickers].iter().map(|&quantity| counter(quantity, hmax)),
        );
        for &place in &self.many_places {
            self.words[place as usize] += 1;
        }
        let mut before = 0;
        for word in &mut self.words {
            before += std::mem::replace(word, before);
        }
        self.sells = self.words[most] as usize;
        self.executed = self.words[2 * most] as usize;
        self.sequence.resize(self.tickers, 0);
        for (&place, ticker) in self.many_places.iter().zip(0..) {
            let next = &mut self.words[place as usize];
            self.sequence[*next as usize] = ticker;
            *next += 1;
        }
    }

    /// Fills all orders. Fills them in bulk if `only_costs` returns fees and only holdings and cash
    /// can limit them, else one by one.
    pub(crate) fn fill(&mut self, account: &mut PortfolioAccount<'_>) {
        let (sells, buys) = self.sequence[..self.executed].split_at(self.sells);
        if let Some(costs) = account.only_costs()
            && self.quotes.collect(&self.quantities, account)
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

/// Returns the counter of a quantity in `-hmax..=hmax`.
#[inline(always)]
fn counter(quantity: i32, hmax: i32) -> u32 {
    let place = if quantity < 0 { hmax + quantity } else { 2 * hmax - quantity };
    #[expect(clippy::cast_sign_loss, reason = "at least 0")]
    let unsigned = place as u32;
    unsigned
}

/// Kernel that finds the number of each quantity's counter, at most 254.
struct CounterOf;

impl SimdKernel<i32, (), (), u8, (), i32, ()> for CounterOf {
    #[inline(always)]
    fn run(quantities: &[i32], _: &[()], _: &[()], places: &mut [u8], _: &mut [()], hmax: i32) {
        for (found, &quantity) in places.iter_mut().zip(quantities) {
            #[expect(clippy::cast_possible_truncation, reason = "at most twice MOST_IN_BYTES")]
            let counter = counter(quantity, hmax) as u8;
            *found = counter;
        }
    }
}

/// Kernel that computes the sort keys of orders: the number of the counter, then the ticker.
struct RankKeys;

impl SimdKernel<i32, (), (), i16, (), i32, ()> for RankKeys {
    #[inline(always)]
    fn run(quantities: &[i32], _: &[()], _: &[()], keys: &mut [i16], _: &mut [()], hmax: i32) {
        for ((key, &quantity), ticker) in keys.iter_mut().zip(quantities).zip(0..) {
            let counter = counter(quantity, hmax).cast_signed();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a byte, and a byte without its half"
            )]
            let found = ((counter - 128) * 256 + ticker) as i16;
            *key = found;
        }
    }
}

/// Counts the quantities that satisfy a condition, in 32 bits so that the loop is vectorised.
#[inline(always)]
fn count_if(quantities: &[i32], condition: impl Fn(i32) -> bool) -> usize {
    let count: u32 = quantities.iter().map(|&quantity| u32::from(condition(quantity))).sum();
    count as usize
}

/// Kernel that turns actions into quantities.
struct CollectQuantities;

impl<A: Copy + Into<f64>> SimdKernel<A, f64, i32, i32, (), f64, ()> for CollectQuantities {
    #[inline(always)]
    fn run(
        actions: &[A],
        open: &[f64],
        shares: &[i32],
        quantities: &mut [i32],
        _: &mut [()],
        hmax: f64,
    ) {
        let (lines, rest) = actions.split_at(actions.len() / LINE * LINE);
        let (in_lines, behind) = quantities.split_at_mut(lines.len());
        quantities_of(lines, open, shares, in_lines, hmax);
        if let &[first, ..] = rest {
            // Padding may hold any action: its open is 0, so it is not traded.
            let mut line = [first; LINE];
            line[..rest.len()].copy_from_slice(rest);
            quantities_of(&line, &open[lines.len()..], &shares[lines.len()..], behind, hmax);
        }
    }
}

#[inline(always)]
fn quantities_of<A: Copy + Into<f64>>(
    actions: &[A],
    open: &[f64],
    shares: &[i32],
    quantities: &mut [i32],
    hmax: f64,
) {
    let inputs = actions.iter().zip(open).zip(shares);
    for (quantity, ((&action, &open), &held)) in quantities.iter_mut().zip(inputs) {
        // Conversion truncates toward zero.
        let wanted = trunc_to_i32(action.into() * hmax);
        // Uses no branch, since random actions would make it mispredict.
        let possible = i32::from(open > 0.0) & (i32::from(wanted > 0) | i32::from(held > 0));
        *quantity = wanted * possible;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sequence of execution by a plain sort: sales, then purchases, both the largest
    /// first, equal ones in ticker order.
    fn expected(quantities: &[i32]) -> Vec<u32> {
        let mut orders: Vec<(bool, i32, u32)> = (0..)
            .zip(quantities)
            .filter(|(_, quantity)| **quantity != 0)
            .map(|(ticker, &quantity)| (quantity > 0, -quantity.abs(), ticker))
            .collect();
        orders.sort_unstable();
        orders.into_iter().map(|(_, _, ticker)| ticker).collect()
    }

    #[test]
    fn ways_to_find_the_sequence_agree() {
        let mut draw = 1_u32;
        let mut below = |bound: i32| {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i32::try_from(draw >> 8).unwrap() % bound
        };
        for tickers in [1, 2, 15, 16, 30, 33, MOST_RANKED, MOST_RANKED + 1, MOST_TICKERS, 300] {
            for hmax in [1, 2, 15, MOST_IN_BYTES, MOST_IN_BYTES + 1, MOST_COUNTED, 1_000] {
                let quantities: Vec<i32> =
                    (0..tickers).map(|_| below(2 * hmax + 1) - hmax).collect();
                let mut orders = Orders { tickers, ..Orders::default() };
                orders.quantities.clone_from(&quantities);
                orders.quantities.resize(tickers.next_multiple_of(LINE), 0);
                let mut ways: Vec<fn(&mut Orders, i32)> = vec![|orders, _| orders.sort()];
                if hmax <= MOST_COUNTED {
                    ways.push(Orders::count_many);
                }
                if hmax <= MOST_IN_BYTES && tickers <= MOST_TICKERS {
                    ways.push(Orders::count);
                }
                if hmax <= MOST_IN_BYTES && tickers <= MOST_RANKED {
                    ways.push(Orders::rank);
                }
                for (number, way) in ways.into_iter().enumerate() {
                    let mut orders = orders.clone();
                    way(&mut orders, hmax);
                    let case = format!("way {number}, {tickers} tickers, hmax {hmax}");
                    let sells = quantities.iter().filter(|&&quantity| quantity < 0).count();
                    assert_eq!(orders.sells, sells, "{case}");
                    assert_eq!(orders.sequence[..orders.executed], expected(&quantities), "{case}");
                }
            }
        }
    }
}
