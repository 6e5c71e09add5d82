//! Costs of borrowed shares.
//!
//! A tick adds to what one borrowed share costs. An account is charged when its position changes,
//! and its cash counts as charged up to the last tick at any time.

use super::{ALL_SYMBOLS, CASH_PER_TICK, DAY_TICKS, Ledger};
use crate::clone_in_place::clone_in_place;

/// Parts of a cash unit in which costs accrue: a share at half a tick, for one tick of time, at one
/// part per million a day.
const SCALE: i64 = 1_000_000 * DAY_TICKS as i64;

/// Borrowing costs of every account.
#[derive(Debug)]
pub(super) struct Borrowing {
    /// Cost of a share that was borrowed from the start on, for each symbol, in parts.
    accrued: Vec<i128>,
    costs: Vec<Cost>,
    /// `since` of the holdings in [`Ledger::others`].
    others: Vec<i128>,
}

/// Borrowing costs of one account since its last reset or restart.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Cash units paid.
    paid: i64,
    /// Paid beyond what has accrued, in parts of a cash unit: below [`SCALE`].
    ahead: i64,
    /// Costs of a share up to the last charge.
    since: i128,
}

/// Cash units that an account owes, and the parts that it is ahead once they are paid.
struct Owed {
    charge: i64,
    ahead: i64,
}

clone_in_place! {
    Borrowing { accrued, costs, others }
}

impl Borrowing {
    pub(super) fn new(symbols: usize) -> Self {
        Self { accrued: vec![0; symbols], costs: Vec::new(), others: Vec::new() }
    }

    /// Adds an account, with as many holdings elsewhere as the ledger has.
    pub(super) fn open(&mut self, others: usize) {
        self.costs.push(Cost::default());
        self.others.resize(others, 0);
    }

    pub(super) fn clear(&mut self) {
        self.accrued.fill(0);
        self.costs.fill(Cost::default());
        self.others.fill(0);
    }
}

impl Ledger {
    /// Charges every short position of one symbol for one tick, at the mid-price.
    ///
    /// Costs accrue exactly. Their sum is rounded up to a cash unit, so that borrowing is never
    /// free, and that many small charges cost no more than one large one.
    #[inline]
    pub(crate) fn charge_borrowing(&mut self, symbol: u16) {
        let share = i64::from(self.marks[usize::from(symbol)]) * (CASH_PER_TICK / 2);
        let cost = share * i64::from(self.fees.borrow_ppm_per_day);
        self.borrowing.accrued[usize::from(symbol)] += i128::from(cost);
    }

    /// Returns what has accrued on a short position since the last charge; 0 for a long one.
    fn accrued(&self, account: u16, symbol: u16) -> i128 {
        let borrowed = -i128::from(self.position(account, symbol).min(0));
        let since = match self.elsewhere(account, symbol) {
            None => self.borrowing.costs[usize::from(account)].since,
            Some(at) => self.borrowing.others[at],
        };
        borrowed * (self.borrowing.accrued[usize::from(symbol)] - since)
    }

    /// Returns what an account owes for the ticks since its last charge.
    #[inline]
    fn owed(&self, account: u16) -> Owed {
        let Borrowing { accrued, costs, .. } = &self.borrowing;
        let (entry, cost) = (&self.accounts[usize::from(account)], &costs[usize::from(account)]);
        let new = match entry.home {
            ALL_SYMBOLS => (0..accrued.len() as u16).map(|at| self.accrued(account, at)).sum(),
            home => {
                let borrowed = -i128::from(entry.holding.position.min(0));
                borrowed * (accrued[usize::from(home)] - cost.since)
            }
        };
        let due = new - i128::from(cost.ahead);
        let charge = match i64::try_from(due) {
            Ok(due) if due <= 0 => 0,
            Ok(due) => (due - 1) / SCALE + 1,
            Err(_) => ((due - 1) / i128::from(SCALE) + 1) as i64,
        };
        Owed { charge, ahead: (i128::from(charge) * i128::from(SCALE) - due) as i64 }
    }

    /// Charges an account for the ticks since its last charge.
    pub(super) fn charge(&mut self, account: u16) {
        let Owed { charge, ahead } = self.owed(account);
        let entry = &mut self.accounts[usize::from(account)];
        entry.cash -= charge;
        self.lender += charge;
        let Borrowing { accrued, costs, others } = &mut self.borrowing;
        let since = accrued[if entry.home == ALL_SYMBOLS { 0 } else { usize::from(entry.home) }];
        let cost = &mut costs[usize::from(account)];
        *cost = Cost { paid: cost.paid + charge, ahead, since };
        if entry.home == ALL_SYMBOLS {
            let first = usize::from(account) * (accrued.len() - 1);
            others[first..][..accrued.len() - 1].copy_from_slice(&accrued[1..]);
        }
    }

    /// Returns the cash units that an account owes for the ticks since its last charge.
    #[inline]
    pub(super) fn owed_cash(&self, account: u16) -> i64 {
        let entry = &self.accounts[usize::from(account)];
        // Most accounts are long, in the only symbol that they trade.
        let is_long = entry.home != ALL_SYMBOLS && entry.holding.position >= 0;
        if is_long { 0 } else { self.owed(account).charge }
    }

    /// Returns the borrowing costs that the lender has taken, in cash units.
    #[must_use]
    pub fn borrowing_taken(&self) -> i64 {
        let owed = (0..self.accounts.len() as u16).map(|account| self.owed_cash(account));
        self.lender + owed.sum::<i64>()
    }

    /// Returns what an account has paid for borrowed shares since its last reset or restart, in
    /// cash units.
    #[must_use]
    pub fn borrowing_paid(&self, account: u16) -> i64 {
        self.borrowing.costs[usize::from(account)].paid + self.owed_cash(account)
    }

    /// Forgets what an account has paid.
    pub(crate) fn restart_borrowing(&mut self, account: u16) {
        self.charge(account);
        let cost = &mut self.borrowing.costs[usize::from(account)];
        (cost.paid, cost.ahead) = (0, 0);
    }

    /// Passes what accounts have paid to `word`.
    pub(super) fn digest_borrowing(&self, mut word: impl FnMut(u64)) {
        for account in 0..self.accounts.len() as u16 {
            let paid = self.borrowing_paid(account);
            if paid > 0 {
                word(paid as u64);
                word(self.owed(account).ahead as u64);
            }
        }
    }
}
