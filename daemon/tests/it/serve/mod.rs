//! The daemon in real processes: one per directory, started, asked, attacked, killed and ended.

mod budget;
mod descriptors;
mod hostile;
mod life;
mod memfd;
mod metrics;
mod persist;
mod resize;
mod rings;
mod running;
mod snapshots;
