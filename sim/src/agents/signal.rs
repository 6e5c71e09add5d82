//! Signal traders: one shared indicator at one horizon, followed or faded.

use crate::{
    book::{OrderKind, Side},
    config::SignalConfig,
    rng::RandomStream,
    tape::{HORIZONS, Indicator},
    venue::AgentDesk,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    indicator: Indicator,
    horizon: u8,
    follows: bool,
}

impl Signal {
    pub(super) fn draw(config: &SignalConfig, stream: &mut RandomStream) -> Self {
        let (low, high) = (config.horizon_low.ln(), config.horizon_high.ln());
        let wanted = stream.range(low, high).exp();
        // Chooses the shared horizon that is nearest on a logarithmic scale.
        let distance = |at: &usize| (HORIZONS[*at] / wanted).ln().abs();
        let horizon = (0..HORIZONS.len())
            .min_by(|left, right| distance(left).total_cmp(&distance(right)))
            .unwrap_or(0);
        let indicator = Indicator::ALL[stream.below(Indicator::ALL.len() as u32) as usize];
        Self { indicator, horizon: horizon as u8, follows: stream.chance(config.followers) }
    }

    pub(super) fn act(
        self,
        config: &SignalConfig,
        stream: &mut RandomStream,
        desk: &mut AgentDesk<'_>,
    ) -> f64 {
        let strength = desk.tape().indicator(self.indicator, usize::from(self.horizon));
        let signed = if self.follows { strength } else { -strength };
        let target = if strength.abs() < config.threshold {
            0.0
        } else {
            config.inventory * (0.5 * signed / config.threshold).clamp(-1.0, 1.0)
        };
        let wanted = target - f64::from(desk.position());
        desk.cancel_all();
        if wanted.abs() < 0.5 * config.size {
            return config.wait;
        }
        let side = if wanted > 0.0 { Side::Buy } else { Side::Sell };
        let quantity = super::shares(wanted.abs().min(config.size), desk.limits().order);
        if self.follows {
            desk.cross(side, quantity);
        } else {
            let price = desk.join(side, stream.chance(0.5));
            desk.place(side, OrderKind::Limit, price, quantity);
        }
        config.wait
    }

    pub(super) const fn digest(self) -> u64 {
        (self.indicator as u64) << 16 | (self.horizon as u64) << 8 | self.follows as u64
    }
}
