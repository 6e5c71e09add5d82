//! Last steps of every environment, kept for pictures.

use std::collections::VecDeque;

use backcast_gym::TradingVectorEnv as CoreEnv;
use backcast_sim::{DepthLevel, Side};

use crate::picture::{Point, PriceLevel, Scene};

/// Steps of an episode that a picture shows.
const STEPS: usize = 240;
/// Levels of one side of the book that a picture shows.
const LEVELS: usize = 12;

/// Last steps of one environment.
#[derive(Clone, Debug, Default)]
struct Trail {
    points: VecDeque<Point>,
    /// Decisions and position at the last point.
    decisions: u64,
    position: i32,
    initial_equity: f64,
}

/// Last steps of every environment.
#[derive(Clone, Debug)]
pub(super) struct Trails(Vec<Trail>);

impl Trails {
    pub(super) fn new(num_envs: usize) -> Self {
        Self(vec![Trail::default(); num_envs])
    }

    /// Enters the state after a reset or step. A new episode begins a new trail.
    pub(super) fn look(&mut self, env: &CoreEnv) {
        for (at, trail) in self.0.iter_mut().enumerate() {
            let state = env.state(at);
            if env.began()[at] || trail.points.is_empty() {
                *trail = Trail { initial_equity: state.equity, ..Trail::default() };
                trail.position = state.position;
            } else if state.decisions == trail.decisions {
                continue;
            }
            if trail.points.len() == STEPS {
                trail.points.pop_front();
            }
            let traded = state.position - trail.position;
            let (price, equity) = (state.mid_price, state.equity);
            trail.points.push_back(Point { price, equity, traded });
            (trail.decisions, trail.position) = (state.decisions, state.position);
        }
    }

    /// Returns the contents of a picture of one environment.
    pub(super) fn scene(&self, env: &CoreEnv, at: usize) -> Scene {
        let market = env.market(at);
        let tick_size = market.config().tick_size;
        let side = |side| {
            let mut levels = [DepthLevel::default(); LEVELS];
            let count = market.depth(0, side, &mut levels).min(LEVELS);
            let level = |level: &DepthLevel| PriceLevel {
                price: f64::from(level.price) * tick_size,
                shares: level.quantity,
            };
            levels[..count].iter().map(level).collect()
        };
        let trail = &self.0[at];
        Scene {
            points: trail.points.iter().copied().collect(),
            bids: side(Side::Buy),
            asks: side(Side::Sell),
            decisions: trail.decisions,
            position: trail.position,
            initial_equity: trail.initial_equity,
            decimals: (-tick_size.log10()).ceil().clamp(0.0, 6.0) as usize,
        }
    }
}
