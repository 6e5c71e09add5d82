//! Value traders: a target position that grows with the square of the gap to their valuation.
//!
//! Latent depth that is linear in the distance from the price gives square-root impact. See Tóth et
//! al., *Anomalous price impact and the critical nature of liquidity* (2011); Donier, Bonart,
//! Mastromatteo and Bouchaud (2015). The target position of a trader here is `strength * gap *
//! |gap|`, the integral of such a depth.

use crate::{
    book::{OrderKind, Side},
    config::ValueConfig,
    rng::RandomStream,
    venue::AgentDesk,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct ValueTrader {
    /// Relative error of the trader's own valuation.
    error: f64,
}

impl ValueTrader {
    pub(super) fn draw(config: &ValueConfig, stream: &mut RandomStream) -> Self {
        Self { error: config.error_sd * stream.normal() }
    }

    pub(super) fn act(
        &mut self,
        config: &ValueConfig,
        stream: &mut RandomStream,
        desk: &mut AgentDesk<'_>,
    ) -> f64 {
        if stream.chance(config.wait / config.error_ticks) {
            self.error = config.error_sd * stream.normal();
        }
        let mid = desk.tape().mid();
        let belief = desk.value() * (1.0 + self.error);
        let belief = belief + config.learning * (mid - belief);
        let gap = 100.0 * (belief - mid) / mid;
        let limits = desk.limits();
        let target = (config.strength * gap * gap.abs())
            .clamp(-0.9 * f64::from(limits.short), 0.9 * f64::from(limits.long));
        let wanted = target - f64::from(desk.position());
        desk.cancel_all();
        if wanted.abs() < 0.25 * config.slice {
            return config.wait;
        }
        let side = if wanted > 0.0 { Side::Buy } else { Side::Sell };
        let quantity = super::shares(wanted.abs().min(config.slice), limits.order);
        // Only a trader whose gap is large in the direction of the order pays the spread.
        let towards = f64::from(side.sign()) * gap;
        if towards > config.aggressive {
            desk.cross(side, quantity);
        } else {
            let price = desk.join(side, stream.chance(0.5));
            desk.place(side, OrderKind::Limit, price, quantity);
        }
        config.wait
    }

    pub(super) const fn digest(self) -> u64 {
        self.error.to_bits()
    }
}
