//! The contract that all environments keep: autoreset modes, seeds, random streams, episode
//! metrics.
//!
//! An environment is a vector of `N` sub-environments; a single one is a vector of one. What a step
//! does with a sub-environment whose episode has ended depends on the
//! [`AutoresetMode`](backcast_core::AutoresetMode):
//!
//! - `NextStep`: the next step ignores the action, resets, and has reward 0 and no flags.
//! - `SameStep`: the observation is already the next episode's first. The last observation of the
//!   ended episode is kept separately; reward and flags are the ended episode's.
//! - `Disabled`: a step is an error until the sub-environment is reset. A portfolio environment
//!   with [`play_on`](crate::PortfolioOptions::play_on) can be stepped up to its last day.

mod choice;
mod episodes;
mod error;
mod metrics;
mod seed;
mod stream;
mod twister;

pub use choice::ParseChoiceError;
pub(crate) use choice::choice;
pub use episodes::StepOutcome;
pub(crate) use episodes::{Episodes, StepKind};
pub use error::EpisodeError;
pub(crate) use error::check_length;
pub use metrics::EpisodeMetrics;
pub(crate) use metrics::EpisodeSums;
pub use seed::ResetSeed;
pub(crate) use seed::spread;
pub use stream::Generator;
pub(crate) use stream::{EnvStream, EnvStreams, SplitMix};

/// Returns a zeroed buffer, or `None` where memory does not suffice.
pub(crate) fn zeros<V: Clone + Default>(len: usize) -> Option<Vec<V>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).ok()?;
    buffer.resize(len, V::default());
    Some(buffer)
}
