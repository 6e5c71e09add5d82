//! Automatic persistence of a ring beside its writers.
//!
//! [`Following`] does the work step by step; [`Follower`] is a thread that runs it.

mod commit;
mod following;
mod merge;
mod mode;
mod on_disk;
mod thread;

pub use following::{Following, Inspection};
pub use mode::{BadPersistMode, FollowOptions, PersistMode};
pub use thread::{FollowState, Follower};
