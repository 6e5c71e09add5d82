//! Adapts a simulated market to the battery.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::battery::{self, BatteryOptions, FactsReport};
use super::subject::{
    Holding, KINDS, OUTSIDE_ACCOUNTS, OutsideKind, OutsideOrder, Subject, TickView,
};
use crate::book::Side;
use crate::config::{AccountConfig, Archetype, ConfigError, MarketConfig, Preset, SlotConfig};
use crate::features::{FeatureSet, NormalisedFeatures};
use crate::ledger::{CASH_PER_TICK, Limits};
use crate::market::Market;
use crate::venue::SlotRequest;

/// Ticks of warm-up: an hour, in which positions and volatility reach their usual spread.
pub const WARM_UP_TICKS: u64 = 3_600;
/// Endowment of an outside account, enough for every order of the battery.
const DEEP_POCKETS: AccountConfig = AccountConfig {
    cash: 1_000_000_000_000_000,
    shares: 0,
    limits: Limits { long: 100_000_000, short: 100_000_000, order: 100_000_000 },
};

/// The first symbol of a [`Market`], with two outside accounts.
#[derive(Clone, Debug)]
pub struct Simulated {
    market: Market,
}

impl Simulated {
    /// Builds a market of `config` and warms it up. The market has two slots, for the battery, in
    /// place of those of `config`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], before anything is built.
    pub fn new(config: &MarketConfig, seed: u64) -> Result<Self, ConfigError> {
        let slots =
            vec![SlotConfig { account: DEEP_POCKETS, ..SlotConfig::default() }; OUTSIDE_ACCOUNTS];
        let config = Arc::new(MarketConfig { slots, ..config.clone() });
        let mut market = Market::with_agents(config, seed, Vec::new())?;
        market.run(WARM_UP_TICKS);
        Ok(Self { market })
    }

    /// Returns the market.
    #[must_use]
    pub const fn market(&self) -> &Market {
        &self.market
    }
}

/// Runs the battery on a preset; see [`run`](super::run). A preset that reveals its fundamental is
/// made to be predictable, so the trading rules are reported and not judged.
///
/// # Errors
///
/// [`ConfigError`], before anything runs.
pub fn run_preset(
    preset: Preset,
    options: &BatteryOptions,
    progress: impl Fn(usize, usize) -> ControlFlow<()> + Sync,
) -> Result<Option<FactsReport>, ConfigError> {
    let config = preset.config();
    config.check(0)?;
    let learnable = config.features.reveal_fundamental.is_some();
    let options = BatteryOptions { learnable, ..options.clone() };
    let build = |seed| {
        Simulated::new(&config, seed).unwrap_or_else(|error| unreachable!("checked above: {error}"))
    };
    Ok(battery::run(preset.name(), build, &options, progress))
}

impl Subject for Simulated {
    fn reset(&mut self, seed: u64) {
        self.market.reset(seed);
        self.market.run(WARM_UP_TICKS);
    }

    fn step(&mut self, order: i32) {
        let side = if order > 0 { Side::Buy } else { Side::Sell };
        if order != 0 {
            let (shares, kind) = (order.saturating_abs(), OutsideKind::Market);
            self.send(OutsideOrder { account: 0, side, shares, kind });
        }
        self.market.tick();
    }

    fn send(&mut self, order: OutsideOrder) {
        let OutsideOrder { account, side, shares, kind } = order;
        let request = match kind {
            OutsideKind::Market => SlotRequest::market(side, shares),
            OutsideKind::Limit { behind } => {
                let best = match side {
                    Side::Buy => self.market.best_bid(0),
                    Side::Sell => self.market.best_ask(0),
                };
                let Some(best) = best else { return };
                SlotRequest::limit(side, (best - side.sign() * behind).max(1), shares)
            }
        };
        let sent = self.market.send(account, 0, request);
        debug_assert!(sent.is_ok(), "{sent:?}");
    }

    fn withdraw(&mut self) {
        for slot in 0..OUTSIDE_ACCOUNTS {
            let sent = self.market.send(slot, 0, SlotRequest::CancelAll);
            debug_assert!(sent.is_ok(), "{sent:?}");
        }
    }

    fn outside(&self) -> Holding {
        let slots = (0..OUTSIDE_ACCOUNTS).map(|slot| {
            let cash = self.market.cash(slot).unwrap_or_default() - DEEP_POCKETS.cash;
            (cash, self.market.position(slot, 0).unwrap_or_default())
        });
        slots.fold(Holding::default(), |sum, (cash, shares)| Holding {
            cash: sum.cash + cash as f64 / CASH_PER_TICK as f64,
            shares: sum.shares + f64::from(shares),
        })
    }

    fn holdings(&self) -> [Holding; KINDS] {
        Archetype::ALL.map(|kind| {
            let totals = self.market.group_totals(0, kind);
            let shares = (totals.long - totals.short) as f64;
            // The profit counts shares at the mid-price.
            let profit = totals.profit as f64 / CASH_PER_TICK as f64;
            Holding { cash: profit - shares * self.market.mid(0), shares }
        })
    }

    fn observe(&self, features: &mut Vec<f64>) {
        let mut observed = [0.0; 40];
        let written = NormalisedFeatures.observe(&self.market, 0, &mut observed);
        debug_assert!(written.is_ok(), "{written:?}");
        features.extend(observed.map(f64::from));
    }

    fn view(&self) -> TickView {
        TickView {
            bid: self.market.best_bid(0),
            ask: self.market.best_ask(0),
            volume: self.market.volume(0).unsigned_abs(),
            fundamental: self.market.fundamental(0),
        }
    }

    fn append_signs(&self, signs: &mut Vec<i8>) {
        let orders = self.market.market_orders(0).iter();
        signs.extend(orders.map(|order| if order.side == Side::Buy { 1 } else { -1 }));
    }

    fn depth(&self, distance: i32) -> [u64; 2] {
        let book = self.market.book(0);
        let at = |side: Side, best: Option<i32>| {
            best.map_or(0, |best| {
                let price = best - side.sign() * distance;
                u64::from(book.quantity_at(side, price).unsigned_abs())
            })
        };
        [at(Side::Buy, book.best_bid()), at(Side::Sell, book.best_ask())]
    }

    fn taker_fee(&self) -> f64 {
        f64::from(self.market.config().fees.taker_ppm) * 1e-6
    }

    fn state_hash(&self) -> u64 {
        self.market.state_hash()
    }

    fn is_conserved(&self) -> bool {
        self.market.check().is_ok()
    }
}
