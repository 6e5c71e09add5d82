//! Automatic persistence of rings: its settings and the followers.

mod keeper;
mod options;
mod span;

pub(crate) use keeper::Keeper;
pub use options::PersistOptions;
pub(crate) use options::{GivenPersist, RING_KEYS, STORE_KEY};
pub use span::{BadTimeSpan, TimeSpan};
