//! Last steps of every agent, kept for pictures.

use std::collections::VecDeque;

use backcast_gym::EpisodeState;
use backcast_sim::{DepthLevel, Market, Side};

use crate::markets::picture::{Point, PriceLevel, Scene};

/// Steps of an episode that a picture shows.
const STEPS: usize = 240;
/// Levels of one side of the book that a picture shows.
const LEVELS: usize = 12;

/// Last steps of one agent.
#[derive(Clone, Debug, Default)]
struct Trail {
    points: VecDeque<Point>,
    /// Decisions and position at the last point.
    decisions: u64,
    position: i32,
    initial_equity: f64,
}

/// Last steps of every agent: one in each environment, or several in one market.
#[derive(Clone, Debug)]
pub(super) struct Trails(Vec<Trail>);

impl Trails {
    pub(super) fn new(agents: usize) -> Self {
        Self(vec![Trail::default(); agents])
    }

    /// Records the state of one agent after a reset or step. A new episode begins a new trail.
    pub(super) fn look(&mut self, agent: usize, state: &EpisodeState, began: bool) {
        let trail = &mut self.0[agent];
        if began || trail.points.is_empty() {
            *trail = Trail { initial_equity: state.equity, ..Trail::default() };
            trail.position = state.position;
        } else if state.decisions == trail.decisions {
            return;
        }
        if trail.points.len() == STEPS {
            trail.points.pop_front();
        }
        let traded = state.position - trail.position;
        let (price, equity) = (state.mid_price, state.equity);
        trail.points.push_back(Point { price, equity, traded });
        (trail.decisions, trail.position) = (state.decisions, state.position);
    }

    /// Returns the contents of a picture of one agent and its market.
    pub(super) fn scene(&self, agent: usize, market: &Market) -> Scene {
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
        let trail = &self.0[agent];
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
