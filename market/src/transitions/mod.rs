//! Trading transitions in a shared ring: days, token ids and portfolios, never market data.
//!
//! - [`TransitionRing`]: created once, joined by name; adds, reads and draws transitions;
//! - [`TransitionBatch`]: transitions to be added, or that were read;
//! - [`MarketPlan`]: the windows around the days of a drawn batch, filled from the panel.
//!
//! Each adding process has a lane of its own. Within a lane transitions follow the order in which
//! they were added, and the oldest is overwritten first.

mod batch;
mod check;
mod columns;
mod differs;
mod draw;
mod error;
mod file;
mod identity;
mod lanes;
mod plan;
mod ring;

pub use batch::{TransitionBatch, TransitionOutcome};
pub use columns::TransitionShape;
pub use error::TransitionError;
pub use plan::{
    MarketPlan, TransitionLayout, TransitionSelection, TransitionSide, TransitionWindows,
};
pub use ring::{TransitionOptions, TransitionRing};
