//! Executors: Pareto-distributed parent orders, worked in slices.
//!
//! Long parent orders split into many orders of one sign give the long memory of order signs. See
//! Lillo, Mike and Farmer, *Theory for long memory in supply and demand* (2005).

use crate::{
    book::{OrderKind, Side},
    config::ExecutorConfig,
    rng::RandomStream,
    venue::AgentDesk,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Executor {
    /// Position at which the parent order is done.
    target: i32,
}

impl Executor {
    pub(super) const fn draw(start: i32) -> Self {
        Self { target: start }
    }

    pub(super) fn act(
        &mut self,
        config: &ExecutorConfig,
        stream: &mut RandomStream,
        desk: &mut AgentDesk<'_>,
    ) -> f64 {
        let position = desk.position();
        let limits = desk.limits();
        if self.target == position {
            let size = stream.pareto(config.parent_minimum, config.parent_exponent);
            let size = super::shares(size.min(config.parent_maximum), i32::MAX / 4);
            // The further the position is from flat, the likelier the next parent order reduces it.
            let bias = 0.5 - 0.25 * f64::from(position) / config.parent_maximum;
            let size = if stream.chance(bias.clamp(0.05, 0.95)) { size } else { -size };
            self.target = position.saturating_add(size).clamp(-limits.short, limits.long);
        }
        let left = self.target.saturating_sub(position);
        desk.cancel_all();
        let side = if left > 0 { Side::Buy } else { Side::Sell };
        let slice = stream.log_normal(config.slice, 0.5);
        let quantity = super::shares(slice.min(f64::from(left.unsigned_abs())), limits.order);
        if stream.chance(config.aggressive) {
            desk.cross(side, quantity);
        } else {
            let price = desk.join(side, false);
            desk.place(side, OrderKind::Limit, price, quantity);
        }
        if self.target == desk.position() { config.idle } else { config.wait }
    }

    pub(super) const fn digest(self) -> u64 {
        self.target as u64
    }
}
