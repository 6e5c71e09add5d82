//! Names of the Python exceptions that stand for the errors of Rust in the model.

use std::fmt::Debug;

use backcast_core::{
    AppendError, DropError, LearnedError, LeaseError, LimitError, LimiterError, PriorityError,
    ReadError, ReaderPinsError, ResizeError, RingError, SampleError, SegmentError, TableError,
    WaitError, WriterError,
};
use backcast_persist::{LoadError, SaveError, StoreError};

/// An error of a call: its class, and its fields.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) class: &'static str,
    pub(super) message: String,
}

impl Failure {
    fn of(class: &'static str, error: impl Debug) -> Self {
        Self { class, message: format!("{error:?}") }
    }
}

/// Implements `From` by the class that a match gives an error.
macro_rules! classes {
    ($($error:ty { $($pattern:pat => $class:expr),+ $(,)? })+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let class = match &error { $($pattern => $class),+ };
                Self::of(class, error)
            }
        })+
    };
}

classes! {
    AppendError { error => of_append(error) }
    DropError { _ => "ArgumentError" }
    LearnedError { error => of_learned(error) }
    LeaseError {
        LeaseError::Segment(error) => of_segment(error),
        LeaseError::Pins(ReaderPinsError::Lapped(_)) => "LappedError",
        _ => "LeaseError",
    }
    LimiterError { LimiterError::Segment(error) => of_segment(error), _ => "ArgumentError" }
    LoadError {
        LoadError::Store(StoreError::NotFound { .. }) => "NotFoundError",
        _ => "CorruptError",
    }
    PriorityError { PriorityError::Segment(error) => of_segment(error), _ => "SampleError" }
    ReadError { ReadError::Lapped { .. } => "LappedError", _ => "SampleError" }
    ResizeError { ResizeError::Ring(error) => of_ring(error), _ => "BackcastError" }
    RingError { error => of_ring(error) }
    SampleError {
        SampleError::Segment(error)
        | SampleError::Table(TableError::Segment(error))
        | SampleError::Priority(PriorityError::Segment(error)) => of_segment(error),
        SampleError::Learned(error) => of_learned(error),
        SampleError::TimedOut { .. } => "WaitTimeoutError",
        SampleError::Lapped { .. } | SampleError::Dropped { .. } => "LappedError",
        SampleError::Limited(error) => of_limit(error),
        _ => "SampleError",
    }
    SaveError {
        SaveError::LabelTaken { .. } => "ExistsError",
        SaveError::NoName => "ArgumentError",
        _ => "StorageError",
    }
    TableError { TableError::Segment(error) => of_segment(error), _ => "SampleError" }
    WaitError { WaitError::Never { .. } => "ArgumentError", _ => "WaitTimeoutError" }
    WriterError { WriterError::Segment(error) => of_segment(error), _ => "WriterError" }
}

fn of_append(error: &AppendError) -> &'static str {
    match error {
        AppendError::After { source, .. } => of_append(source),
        AppendError::Leased { .. } => "LeaseError",
        AppendError::Limited(error) => of_limit(error),
        _ => "AppendError",
    }
}

fn of_learned(error: &LearnedError) -> &'static str {
    match error {
        LearnedError::Segment(error) => of_segment(error),
        LearnedError::NoTable { .. } => "NotFoundError",
        _ => "SampleError",
    }
}

fn of_ring(error: &RingError) -> &'static str {
    match error {
        RingError::Segment(error) => of_segment(error),
        _ => "ArgumentError",
    }
}

fn of_segment(error: &SegmentError) -> &'static str {
    use SegmentError as E;
    match error {
        E::NotFound { .. } | E::NoTable { .. } => "NotFoundError",
        E::AlreadyExists { .. } | E::Different { .. } | E::TableDiffers { .. } => "ExistsError",
        E::InUse { .. } | E::BeingResized { .. } | E::ResizeUnfinished { .. } => "InUseError",
        E::Limit { .. } | E::NotLarger { .. } | E::FixedSize { .. } => "ArgumentError",
        _ => "StorageError",
    }
}

fn of_limit(error: &LimitError) -> &'static str {
    match error {
        LimitError::TimedOut(_) => "RateLimitTimeoutError",
        _ => "RateLimitError",
    }
}
