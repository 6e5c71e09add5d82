//! The daemon in real processes: one per directory, started, asked, attacked, killed and ended.

mod budget;
mod descriptors;
mod hostile;
mod life;
mod memfd;
pub(crate) mod metrics;
mod persist;
mod resize;
mod rings;
pub(crate) mod running;
mod snapshots;
