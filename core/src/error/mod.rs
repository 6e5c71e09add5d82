//! Errors: one enum per operation, the operations of one thing in one file.
#![expect(missing_docs, reason = "the messages show the fields")]

mod append;
mod batch;
mod claim;
mod drop;
mod form;
mod hindsight;
mod index;
mod learned;
mod limiter;
mod lock;
mod params;
mod priority;
mod read;
mod restore;
mod returns;
mod ring;
mod sample;
mod schema;
mod table;
mod wait;

pub use self::append::AppendError;
pub use self::batch::BatchError;
pub use self::claim::{HeldLane, WriterError};
pub use self::drop::DropError;
pub use self::form::FormError;
pub use self::hindsight::HindsightError;
pub use self::index::BadRowIndex;
pub use self::learned::LearnedError;
pub use self::limiter::{LimitError, LimitedCall, LimiterError, LimiterWait};
pub use self::lock::LockError;
pub use self::params::ParamsError;
pub use self::priority::PriorityError;
pub use self::read::{LeaseError, ReadError};
pub use self::restore::RestoreError;
pub use self::returns::ReturnsError;
pub use self::ring::{ResizeError, RingError};
pub use self::sample::{BadSelector, ClaimUnit, SampleError};
pub(crate) use self::sample::{ROLLOUTS, max_ages};
pub use self::schema::SchemaError;
pub use self::table::TableError;
pub use self::wait::WaitError;
