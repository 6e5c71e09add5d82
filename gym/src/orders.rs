//! The orders of one portfolio on one day, and the sequence in which they are filled.

use backcast_core::{RANKED_AT_ONCE, Wide, ranks, whole_part, wide};

use crate::{
    account::Account,
    lines::{LINE, in_sequence},
    quotes::Quotes,
};

/// Largest `hmax` for which orders are put in sequence by counting: a counter for each quantity.
const MOST_COUNTED: i32 = 256;
/// Largest one for which the number of a counter is a byte.
const MOST_IN_BYTES: i32 = 127;
/// Most tickers for which those counters are bytes.
const MOST_TICKERS: usize = 255;
/// Most tickers whose orders are compared each with each, which is sooner done than counting.
const MOST_RANKED: usize = 64;
/// As many as bytes can name, so that a place needs no check.
const COUNTERS: usize = 256;
/// A word with a one in each byte: the product with it has in each byte the sum of the bytes up to there.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Orders of one day, kept between days for their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    tickers: usize,
    /// Shares to buy, negative to sell, by ticker, in lines.
    quantities: Vec<i32>,
    /// Tickers in the sequence of execution: `sells` of them, then those that are bought up to
    /// `executed`, then the others, then places that mean nothing.
    sequence: Vec<u32>,
    sells: usize,
    executed: usize,
    /// By ticker: which of the counters is its quantity's.
    places: Vec<u8>,
    many_places: Vec<u32>,
    /// By ticker: what comes sooner is less.
    keys: Vec<i16>,
    ranks: Vec<i16>,
    /// Where the next order of a quantity goes.
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

    /// Turn actions into orders. A ticker whose `open` is 0 has no row today and is not traded. All but actions
    /// may be in lines.
    pub(crate) fn collect<A: Copy + Into<f64>>(
        &mut self,
        actions: &[A],
        hmax: f64,
        open: &[f64],
        shares: &[i32],
    ) {
        self.tickers = actions.len();
        self.quantities.resize(open.len(), 0);
        wide(Want, (actions, open, shares), (&mut self.quantities, &mut []), hmax);
        self.arrange(hmax);
    }

    /// Leave out what `tradable` says of a position.
    pub(crate) fn retain(&mut self, hmax: f64, tradable: impl Fn(usize) -> bool) {
        for (ticker, quantity) in self.quantities[..self.tickers].iter_mut().enumerate() {
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
        self.sorted.extend(orders.map(|(&quantity, ticker)| Order::new(quantity, ticker)));
        self.sorted.sort_unstable();
        self.sequence.clear();
        self.sequence.extend(self.sorted.iter().map(|order| order.ticker()));
        self.count_sides();
    }

    /// How many orders come before an order is where it goes. No two keys are equal.
    fn rank(&mut self, hmax: i32) {
        let room = self.quantities.len().next_multiple_of(RANKED_AT_ONCE);
        self.keys.resize(room, 0);
        self.ranks.resize(room, 0);
        wide(Key, (&self.quantities, &[], &[]), (&mut self.keys, &mut []), hmax);
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
        self.sells = how_many(&self.quantities, |quantity| quantity < 0);
        self.executed = how_many(&self.quantities, |quantity| quantity != 0);
    }

    /// A counting sort. Counters `0..hmax` are of sells, the largest first; `hmax..2 * hmax` of buys, the
    /// largest first; then comes that of no order.
    fn count(&mut self, hmax: i32) {
        self.places.resize(self.quantities.len(), 0);
        wide(Place, (&self.quantities, &[], &[]), (&mut self.places, &mut []), hmax);
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
            // No sum is larger than the number of tickers, so that no byte runs over.
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

    /// The same with counters that are words.
    fn count_many(&mut self, hmax: i32) {
        let most = hmax.unsigned_abs() as usize;
        self.words.clear();
        self.words.resize(2 * most + 1, 0);
        self.many_places.clear();
        self.many_places
            .extend(self.quantities[..self.tickers].iter().map(|&quantity| place(quantity, hmax)));
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
#[inline(always)]
fn place(quantity: i32, hmax: i32) -> u32 {
    let place = if quantity < 0 { hmax + quantity } else { 2 * hmax - quantity };
    #[expect(clippy::cast_sign_loss, reason = "at least 0")]
    let unsigned = place as u32;
    unsigned
}

/// Finds the counters of quantities, at most 255 of them.
struct Place;

impl Wide<i32, (), (), u8, (), i32, ()> for Place {
    #[inline(always)]
    fn run(quantities: &[i32], _: &[()], _: &[()], places: &mut [u8], _: &mut [()], hmax: i32) {
        for (found, &quantity) in places.iter_mut().zip(quantities) {
            #[expect(clippy::cast_possible_truncation, reason = "at most twice MOST_IN_BYTES")]
            let place = place(quantity, hmax) as u8;
            *found = place;
        }
    }
}

/// Finds the keys of orders: the counter, then the ticker.
struct Key;

impl Wide<i32, (), (), i16, (), i32, ()> for Key {
    #[inline(always)]
    fn run(quantities: &[i32], _: &[()], _: &[()], keys: &mut [i16], _: &mut [()], hmax: i32) {
        for ((key, &quantity), ticker) in keys.iter_mut().zip(quantities).zip(0..) {
            let place = place(quantity, hmax).cast_signed();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a byte, and a byte without its half"
            )]
            let found = ((place - 128) * 256 + ticker) as i16;
            *key = found;
        }
    }
}

/// How many quantities are such? In numbers that fit vectors.
#[inline(always)]
fn how_many(quantities: &[i32], such: impl Fn(i32) -> bool) -> usize {
    let many: u32 = quantities.iter().map(|&quantity| u32::from(such(quantity))).sum();
    many as usize
}

/// Makes orders of actions.
struct Want;

impl<A: Copy + Into<f64>> Wide<A, f64, i32, i32, (), f64, ()> for Want {
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
        want_each(lines, open, shares, in_lines, hmax);
        if let &[first, ..] = rest {
            // Behind the last ticker any action will do: nothing is traded there.
            let mut line = [first; LINE];
            line[..rest.len()].copy_from_slice(rest);
            want_each(&line, &open[lines.len()..], &shares[lines.len()..], behind, hmax);
        }
    }
}

#[inline(always)]
fn want_each<A: Copy + Into<f64>>(
    actions: &[A],
    open: &[f64],
    shares: &[i32],
    quantities: &mut [i32],
    hmax: f64,
) {
    let inputs = actions.iter().zip(open).zip(shares);
    for (quantity, ((&action, &open), &held)) in quantities.iter_mut().zip(inputs) {
        // Conversion truncates toward zero.
        let wanted = whole_part(action.into() * hmax);
        // In numbers: which of these holds is as random as the actions are.
        let possible = i32::from(open > 0.0) & (i32::from(wanted > 0) | i32::from(held > 0));
        *quantity = wanted * possible;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequence of execution in words: sales, the largest first, then purchases likewise; of equal ones the
    /// earlier ticker.
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
