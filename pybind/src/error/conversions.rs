//! Exception classes of the typed errors of Rust: one `From` per enum.

use backcast_core::{
    AppendError, LearnedError, LeaseError, LimitError, LimiterError, LockError, ParamsError,
    PriorityError, ReadError, ReaderPinsError, ResizeError, RestoreError, RingError, SampleError,
    SchemaError, SegmentError, TableError, WaitError, WriterError,
};

use super::{ErrorClass, Failure};

impl From<SegmentError> for Failure {
    fn from(error: SegmentError) -> Self {
        use SegmentError as E;
        let class = match &error {
            E::NotFound { .. }
            | E::Unlinked { .. }
            | E::MemoryGone { .. }
            | E::TableRemoved { .. }
            | E::NoTable { .. } => ErrorClass::NotFound,
            E::AlreadyExists { .. } | E::Different { .. } | E::TableDiffers { .. } => {
                ErrorClass::Exists
            }
            E::InUse { .. }
            | E::BeingResized { .. }
            | E::LaneRelocating { .. }
            | E::ResizeUnfinished { .. } => ErrorClass::InUse,
            E::NoSpace { .. } => ErrorClass::Space,
            E::BadName { .. }
            | E::Limit { .. }
            | E::NotLarger { .. }
            | E::FixedSize { .. }
            | E::NotItsKeeper { .. } => ErrorClass::Argument,
            E::Corrupt { .. } | E::WrongVersion { .. } | E::OutOfBounds { .. } => {
                ErrorClass::Corrupt
            }
            _ => ErrorClass::Storage,
        };
        Self::of(class, error)
    }
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        Self::of(ErrorClass::Schema, error)
    }
}

impl From<RingError> for Failure {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Segment(error) => error.into(),
            RingError::Schema(error) => error.into(),
            RingError::Limiter(error) => error.into(),
            error @ RingError::TooSmall { .. } => Self::of(ErrorClass::Argument, error),
            error => Self::of(ErrorClass::Base, error),
        }
    }
}

impl From<ResizeError> for Failure {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Ring(error) => error.into(),
            error => Self::of(ErrorClass::Base, error),
        }
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Ring(error) => error.into(),
            error @ RestoreError::Taken { .. } => Self::of(ErrorClass::Exists, error),
            error => Self::of(ErrorClass::Corrupt, error),
        }
    }
}

impl From<WriterError> for Failure {
    fn from(error: WriterError) -> Self {
        match error {
            WriterError::Segment(error) => error.into(),
            error => Self::of(ErrorClass::Writer, error),
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let reason = match &error {
            AppendError::After { source, .. } => source,
            error => error,
        };
        let class = match reason {
            AppendError::Leased { .. } => ErrorClass::Lease,
            AppendError::Unlinked { .. } => ErrorClass::NotFound,
            AppendError::Interrupted { .. }
            | AppendError::Limited(LimitError::Interrupted { .. }) => {
                return Self::interrupted(error);
            }
            AppendError::Limited(error) => class_of_limit(error),
            _ => ErrorClass::Append,
        };
        Self::of(class, error)
    }
}

impl From<LimiterError> for Failure {
    fn from(error: LimiterError) -> Self {
        match error {
            LimiterError::Segment(error) => error.into(),
            error @ LimiterError::Damaged => Self::of(ErrorClass::Corrupt, error),
            error @ (LimiterError::OtherLimit { .. } | LimiterError::NoRatio { .. }) => {
                Self::of(ErrorClass::Exists, error)
            }
            error @ LimiterError::MinSizeBeforeResize { .. } => Self::of(ErrorClass::InUse, error),
            error => Self::of(ErrorClass::Argument, error),
        }
    }
}

/// Returns the class of the error that ended a wait for the rate limiter.
fn class_of_limit(error: &LimitError) -> ErrorClass {
    match error {
        LimitError::TimedOut(_) => ErrorClass::RateLimitTimeout,
        LimitError::Damaged => ErrorClass::Corrupt,
        LimitError::Unlinked => ErrorClass::NotFound,
        _ => ErrorClass::RateLimit,
    }
}

impl From<LeaseError> for Failure {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Segment(error) => error.into(),
            LeaseError::Pins(ReaderPinsError::Lapped(_)) => Self::of(ErrorClass::Lapped, error),
            LeaseError::Damaged { .. } => Self::of(ErrorClass::Corrupt, error),
            error => Self::of(ErrorClass::Lease, error),
        }
    }
}

impl From<SampleError> for Failure {
    fn from(error: SampleError) -> Self {
        match error {
            SampleError::Segment(error) => error.into(),
            SampleError::Table(error) => error.into(),
            SampleError::Priority(error) => error.into(),
            SampleError::Learned(error) => error.into(),
            SampleError::Read(error) => error.into(),
            SampleError::TimedOut { .. } => Self::of(ErrorClass::WaitTimeout, error),
            SampleError::NoWriter { .. } => Self::of(ErrorClass::RateLimit, error),
            SampleError::NoSlot { .. } => Self::of(ErrorClass::InUse, error),
            SampleError::Lapped { .. } | SampleError::Dropped { .. } => {
                Self::of(ErrorClass::Lapped, error)
            }
            SampleError::Limited(error @ LimitError::Interrupted { .. }) => {
                Self::interrupted(error)
            }
            SampleError::Limited(error) => Self::of(class_of_limit(&error), error),
            error => Self::of(ErrorClass::Sample, error),
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Interrupted { .. } => Self::interrupted(error),
            error => Self::of(ErrorClass::InUse, error),
        }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Segment(error) => error.into(),
            TableError::Lock(error) => error.into(),
            error => Self::of(ErrorClass::Sample, error),
        }
    }
}

impl From<LearnedError> for Failure {
    fn from(error: LearnedError) -> Self {
        match error {
            LearnedError::Segment(error) => error.into(),
            LearnedError::Lock(error) => error.into(),
            LearnedError::NoTable { ref table, .. } => {
                let call = format!("buf.table(\"{table}\", learned={{\"value\": \"f4\"}})");
                let text = error.to_string().replace("its columns, such as `value` of f4", &call);
                Self::new(ErrorClass::NotFound, text)
            }
            error => Self::of(ErrorClass::Sample, error),
        }
    }
}

impl From<PriorityError> for Failure {
    fn from(error: PriorityError) -> Self {
        match error {
            PriorityError::Segment(error) => error.into(),
            PriorityError::Lock(error) => error.into(),
            error => Self::of(ErrorClass::Sample, error),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let class = match &error {
            ReadError::Lapped { .. } => ErrorClass::Lapped,
            _ => ErrorClass::Sample,
        };
        Self::of(class, error)
    }
}

impl From<ParamsError> for Failure {
    fn from(error: ParamsError) -> Self {
        use ParamsError as E;
        let class = match error {
            E::Segment(error) => return error.into(),
            E::Shape(_)
            | E::ArrayCount { .. }
            | E::ArrayBytes { .. }
            | E::OtherArrays { .. }
            | E::NoArray { .. } => ErrorClass::Schema,
            E::Damaged(_) => ErrorClass::Corrupt,
            E::OtherPublisher { .. } => ErrorClass::InUse,
            E::OldVersion { .. } => ErrorClass::Argument,
            E::AllPinned { .. } | E::NoReaderSlot { .. } => ErrorClass::Lease,
            E::Overtaken { .. } => ErrorClass::Lapped,
            E::NoVersion { .. } | E::Nothing { .. } | E::Unlinked => ErrorClass::NotFound,
            E::TimedOut { .. } => ErrorClass::WaitTimeout,
            E::Interrupted => return Self::interrupted(error),
            _ => ErrorClass::Base,
        };
        Self::of(class, error)
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        if error == WaitError::Interrupted {
            return Self::interrupted(error);
        }
        let class = match &error {
            WaitError::TimedOut { .. } | WaitError::TooFewRows { .. } => ErrorClass::WaitTimeout,
            WaitError::Never { .. } => ErrorClass::Argument,
            WaitError::Unlinked => ErrorClass::NotFound,
            _ => ErrorClass::Base,
        };
        Self::of(class, error)
    }
}
