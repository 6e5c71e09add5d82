//! Errors of creating, attaching to and resizing a ring.

use backcast_layout::SegmentError;
use thiserror::Error;

use super::limiter::LimiterError;
use super::schema::SchemaError;

/// Error of creating a ring or attaching to one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RingError {
    /// Error of the ring's files.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Error of the ring's schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Error of the ring's rate limiter.
    #[error(transparent)]
    Limiter(#[from] LimiterError),
    /// Lanes too short to hold a transition, which takes two rows.
    #[error(
        "a capacity of {asked} over {lanes} lane(s) leaves lanes of {rows} row(s), and a \
         transition takes 2, its own and its successor's; give at least {least}"
    )]
    TooSmall { asked: String, lanes: u32, rows: u64, least: String },
}

/// Error of resizing a ring.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// Error of the ring itself.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The caller stopped it before any lane was relocated.
    #[error("the resize was stopped before any change; the ring is as before")]
    Cancelled,
}

impl From<SegmentError> for ResizeError {
    fn from(error: SegmentError) -> Self {
        Self::Ring(error.into())
    }
}
