//! Priorities of rows, and draws by priority.
//!
//! A table of a ring ([`PriorityTable`](backcast_layout::PriorityTable)) has a leaf for each of the
//! newest rows of every lane. Only learners write it. A leaf holds `(priority + eps) ^ exponent` in
//! fixed point, at least one unit, or 0 if no transition with a priority starts at its row. Rows
//! are drawn in proportion to their leaves, or by the rank of these (Schaul, Quan, Antonoglou,
//! Silver: "Prioritized experience replay", ICLR 2016, section 3.3).

mod alpha;
mod distribution;
mod enter;
mod exponent;
mod importance_weights;
mod options;
mod q;
mod ranks;
mod sequence;
mod state;
mod updates;

pub use self::alpha::Alpha;
pub use self::distribution::{PriorityBin, PriorityDistribution};
pub(crate) use self::enter::{initial_leaf, own_initial_leaf};
pub(crate) use self::importance_weights::weights;
pub(crate) use self::options::check_beta;
pub use self::options::{
    BadInitialPriority, BadPriorityOrder, BadWeightNorm, Beta, InitialPriority, PriorityOptions,
    PriorityOrder, WeightNorm,
};
pub(crate) use self::q::q_of_leaf;
pub(crate) use self::ranks::RankMasses;
pub use self::sequence::sequence_priorities;
pub use self::state::{LaneLeaves, TableState};
pub use self::updates::Priorities;
