//! Rings, samplers and tables as their users see them.
//!
//! One binary, which is linked once, without the daemon and the readers of files.

mod claims;
mod drop_rows;
mod handles;
mod large_batch;
mod learners;
mod model;
mod next_obs;
mod other_schema;
mod restore;
mod sampling;
mod selectors;
