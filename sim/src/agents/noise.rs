//! Noise traders: market orders, limit orders at power-law distances, and cancels.

use crate::{
    book::{OrderKind, Side},
    config::NoiseConfig,
    rng::RandomStream,
    venue::AgentDesk,
};

/// Maximum drawn distance of a limit order, in price ticks. One tick is added, so that the order
/// does not reach the opposite touch.
const FARTHEST: f64 = 400.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct NoiseTrader {
    /// Lower bound of the ticks at which its open orders arrived. Avoids a check of each order.
    oldest: u32,
}

impl NoiseTrader {
    pub(super) const fn new(now: u64) -> Self {
        Self { oldest: now as u32 }
    }

    pub(super) fn act(
        &mut self,
        config: &NoiseConfig,
        stream: &mut RandomStream,
        desk: &mut AgentDesk<'_>,
    ) -> f64 {
        if desk.now().wrapping_sub(self.oldest) > config.life {
            let age = desk.cancel_older_than(config.life);
            self.oldest = desk.now().wrapping_sub(age);
        }
        let action = stream.unit();
        if action < config.cancel {
            desk.cancel_one(stream.bits());
            return config.wait;
        }
        let bias = 0.5 * (1.0 + desk.sentiment_tilt());
        let side = if stream.chance(bias) { Side::Buy } else { Side::Sell };
        let quantity = stream.log_normal(config.size, config.size_sigma);
        let quantity = super::shares(quantity, desk.limits().order);
        if action < config.cancel + config.market {
            desk.cross(side, quantity);
        } else {
            let scale = 1.0 + desk.tape().variance.sqrt();
            let away = (stream.pareto(1.0, config.depth_exponent) - 1.0) * scale;
            let away = away.min(FARTHEST) as i32 + 1;
            let price = desk.opposite(side) - side.sign() * away;
            if desk.open_count() == 0 {
                self.oldest = desk.now();
            }
            desk.place(side, OrderKind::Limit, price, quantity);
        }
        config.wait
    }
}
