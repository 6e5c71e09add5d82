//! Following: a ring goes to disk by itself, beside its writers.
//!
//! [`Following`] is the work, step by step; [`Follower`] is a thread that does it.

mod commit;
mod following;
mod mode;
mod thread;

pub use following::{Following, Look};
pub use mode::{BadMode, FollowOptions, Mode};
pub use thread::{FollowState, Follower};
