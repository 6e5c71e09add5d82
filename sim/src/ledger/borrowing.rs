//! Costs of borrowed shares: which accounts are short, and what they have paid.

use super::{ALL_SYMBOLS, CASH_PER_TICK, DAY_TICKS, Ledger};
use crate::clone_in_place::clone_in_place;

/// Parts of a cash unit in which costs accrue: a share at half a tick, for one tick of time, at one
/// part per million a day.
const SCALE: i128 = 1_000_000 * DAY_TICKS as i128;

/// Borrowing costs of every account.
#[derive(Debug)]
pub(super) struct Borrowing {
    /// Bits of the accounts that are short, for each symbol `words` words.
    short: Vec<u64>,
    symbols: usize,
    words: usize,
    costs: Vec<Cost>,
}

/// Borrowing costs of one account since its last reset or restart.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Cash units paid.
    paid: i64,
    /// Paid beyond what has accrued, in parts of a cash unit: below [`SCALE`].
    ahead: i64,
}

clone_in_place! {
    Borrowing { short, symbols, words, costs }
}

impl Borrowing {
    pub(super) const fn new(symbols: usize) -> Self {
        Self { short: Vec::new(), symbols, words: 0, costs: Vec::new() }
    }

    /// Adds an account. All accounts are opened before the first trades.
    pub(super) fn open(&mut self) {
        self.costs.push(Cost::default());
        self.words = self.costs.len().div_ceil(64);
        self.short.resize(self.words * self.symbols, 0);
    }

    pub(super) fn clear(&mut self) {
        self.short.fill(0);
        self.costs.fill(Cost::default());
    }

    /// Notes that an account has become short in a symbol, or is short no longer.
    #[inline]
    pub(super) fn turn(&mut self, account: u16, symbol: u16) {
        let (word, bit) = (usize::from(account) / 64, account % 64);
        self.short[usize::from(symbol) * self.words + word] ^= 1 << bit;
    }

    /// Passes what accounts have paid to `word`.
    pub(super) fn digest(&self, mut word: impl FnMut(u64)) {
        for cost in self.costs.iter().filter(|cost| cost.paid > 0) {
            word(cost.paid as u64);
            word(cost.ahead as u64);
        }
    }
}

impl Ledger {
    /// Charges every short position of one symbol for one tick, at the mid-price.
    ///
    /// Costs accrue exactly. Their sum is rounded up to a cash unit, so that borrowing is never
    /// free, and that many small charges cost no more than one large one.
    #[inline]
    pub(crate) fn charge_borrowing(&mut self, symbol: u16) {
        let rate = i128::from(self.fees.borrow_ppm_per_day);
        if rate == 0 {
            return;
        }
        let share = i128::from(self.marks[usize::from(symbol)]) * i128::from(CASH_PER_TICK / 2);
        let words = self.borrowing.words;
        for word in 0..words {
            let mut bits = self.borrowing.short[usize::from(symbol) * words + word];
            while bits != 0 {
                let account = (word * 64) as u16 + bits.trailing_zeros() as u16;
                bits &= bits - 1;
                let accrued = -i128::from(self.position(account, symbol)) * share * rate;
                let cost = &mut self.borrowing.costs[usize::from(account)];
                let due = accrued - i128::from(cost.ahead);
                if due <= 0 {
                    // Most ticks: the last charge was rounded up beyond this one.
                    cost.ahead = -due as i64;
                    continue;
                }
                let charge = (due + SCALE - 1) / SCALE;
                cost.ahead = (charge * SCALE - due) as i64;
                cost.paid += charge as i64;
                self.accounts[usize::from(account)].cash -= charge as i64;
                self.lender += charge as i64;
            }
        }
    }

    /// Returns what an account has paid for borrowed shares since its last reset or restart, in
    /// cash units.
    #[must_use]
    pub fn borrowing_paid(&self, account: u16) -> i64 {
        self.borrowing.costs[usize::from(account)].paid
    }

    /// Forgets what an account has paid.
    pub(crate) fn restart_borrowing(&mut self, account: u16) {
        self.borrowing.costs[usize::from(account)] = Cost::default();
    }

    /// Returns whether the bits of the accounts that are short are right. O(accounts * symbols).
    pub(super) fn knows_the_short(&self) -> bool {
        (0..self.lendable.len() as u16).all(|symbol| {
            (0..self.accounts.len() as u16).all(|account| {
                let home = self.accounts[usize::from(account)].home;
                let here = home == symbol || home == ALL_SYMBOLS;
                let short = here && self.position(account, symbol) < 0;
                let at = usize::from(symbol) * self.borrowing.words + usize::from(account) / 64;
                (self.borrowing.short[at] >> (account % 64) & 1 == 1) == short
            })
        })
    }
}
