//! Classes of rings, samplers, parameters and snapshots. They know nothing of markets.

pub(crate) mod buffer;
pub(crate) mod client;
pub(crate) mod learned;
pub(crate) mod lease;
pub(crate) mod limiter;
pub(crate) mod objects;
pub(crate) mod params;
pub(crate) mod sampler;
pub(crate) mod schema;
pub(crate) mod snapshots;
pub(crate) mod writer;
