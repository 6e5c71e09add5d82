//! Step of one portfolio in units.

use super::{
    UnitBooks,
    fills::{Balance, DetailRow, UnitAccount},
};
use crate::{
    contract::StepOutcome,
    portfolio::{
        account::{MarketDay, StepTotals},
        choices::{StopLossDay, StopLossPrice},
        portfolios::{Portfolios, SubEnv},
        prices::Prices,
        setup::SetupView,
    },
};

impl Portfolios {
    /// Steps one portfolio by one day, as [`step`](Self::step) does, in units of `books`.
    pub(in crate::portfolio) fn step_units<A: Copy + Into<f64>>(
        &mut self,
        books: &mut UnitBooks,
        setup: &SetupView<'_>,
        sub: &mut SubEnv<'_>,
        actions: &[A],
    ) -> StepOutcome {
        let (env, rules) = (sub.env, setup.rules);
        let start = self.start_step(env);
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default();
        self.totals[env] = StepTotals::default();
        books.details.clear(env);
        books.details.acted[env] = true;
        let stop = rules.stop_loss_tolerance > 0.0;
        let same_day = stop && rules.stop_loss_day != StopLossDay::Next;
        // The low of the day may be older than a purchase at its close.
        let compares = same_day
            && rules.stop_loss_day == StopLossDay::Same
            && rules.stop_loss_price == StopLossPrice::Low;
        let before = if compares { books.units(env).to_vec() } else { Vec::new() };
        let mut sequence = std::mem::take(&mut books.sequence);
        self.trade_units(books, setup, sub, day, |account, open| {
            account.ask(actions, open, &mut sequence);
            account.execute_all(&sequence);
            if same_day {
                account.stop_losses(open, &before);
            }
            if rules.departures.any_on(day) {
                account.settle_departures();
            }
            account.liquidate(open);
            account.charge();
            account.pay_next_day();
        });
        books.sequence = sequence;

        let day = day + 1;
        self.arrive(setup, sub, day);
        if stop && rules.stop_loss_day == StopLossDay::Next {
            self.trade_units(books, setup, sub, day, |account, open| {
                account.stop_losses(open, &[]);
            });
        }
        books.show(env, sub.tickers.len(), &mut self.obs);
        self.show_averages(sub);
        self.value(setup, sub, Some(books));
        let units = &books.units(env)[..sub.tickers.len()];
        let mut outcome = self.finish_step(setup, sub, &start, Some(units));
        // Nothing can be lost beyond the equity.
        if rules.terms.margin.is_some() {
            outcome.terminated |= self.value_at_close[env] <= 0.0;
        }
        outcome
    }

    fn trade_units(
        &mut self,
        books: &mut UnitBooks,
        setup: &SetupView<'_>,
        sub: &mut SubEnv<'_>,
        day: usize,
        deal: impl FnOnce(&mut UnitAccount<'_>, &[f64]),
    ) {
        let (env, tickers) = (sub.env, sub.tickers.len());
        let (mine, lines) = (env * tickers..(env + 1) * tickers, books.lines_of(env));
        let Prices { open, closes, .. } =
            self.own.or_table(setup.table, self.uses_table[env], lines.clone(), day);
        let details = &mut books.details;
        let mut account = UnitAccount {
            env,
            cash: &mut self.obs.cash[env],
            units: &mut books.units[lines.clone()],
            averages: &mut self.averages[lines],
            sums: &mut self.sums[env],
            totals: &mut self.totals[env],
            stream: sub.stream.reborrow(),
            fills: (!self.records.is_empty()).then_some(&mut self.fills),
            details: DetailRow {
                orders: &mut details.orders[mine.clone()],
                fills: &mut details.fills[mine.clone()],
                limits: &mut details.limits[mine],
                fees: &mut details.fees[env],
                slippage: &mut details.slippage[env],
                impact: &mut details.impact[env],
                borrow: &mut details.borrow[env],
                interest: &mut details.interest[env],
                dividends: &mut details.dividends[env],
                liquidated: &mut details.liquidated[env],
            },
            today: MarketDay {
                rows: setup.rows,
                day,
                tickers: sub.tickers,
                closes,
                sound: false,
                rules: setup.rules,
            },
            equity: 0.0,
            now: Balance::default(),
            flow: 0.0,
        };
        account.now = account.balance();
        account.equity = account.now.equity;
        deal(&mut account, &open[..tickers]);
    }
}
