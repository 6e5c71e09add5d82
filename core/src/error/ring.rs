//! What can go wrong while a ring is made, joined or resized.

use backcast_layout::SegmentError;
use thiserror::Error;

use super::schema::SchemaError;

/// Why a ring cannot be made or joined.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RingError {
    /// Its files.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Its schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// Why a ring could not be resized.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The ring itself.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The caller stopped it before lanes began to move.
    #[error("the resize was stopped before anything moved; the ring is as it was")]
    Cancelled,
}

impl From<SegmentError> for ResizeError {
    fn from(error: SegmentError) -> Self {
        Self::Ring(error.into())
    }
}
