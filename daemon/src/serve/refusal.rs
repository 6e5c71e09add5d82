//! Converts errors to refusals with codes, by which clients tell them apart.

use backcast_core::{Kind, RestoreError, RingError, SchemaError, SegmentError};
use backcast_persist::{LoadError, SaveError, StoreError};

use crate::objects::find::FindError;
use crate::protocol::{Code, NameTaken, Refusal};

impl From<SegmentError> for Refusal {
    fn from(error: SegmentError) -> Self {
        use SegmentError as E;
        let code = match &error {
            E::NotFound { .. } | E::Unlinked { .. } | E::MemoryGone { .. } => Code::NotFound,
            E::AlreadyExists { .. } | E::Different { .. } => Code::Exists,
            E::InUse { .. }
            | E::BeingResized { .. }
            | E::LaneRelocating { .. }
            | E::ResizeUnfinished { .. } => Code::InUse,
            E::NoSpace { .. } => Code::NoSpace,
            E::BadName { .. }
            | E::Limit { .. }
            | E::NotLarger { .. }
            | E::FixedSize { .. }
            | E::NotItsKeeper { .. } => Code::BadArgument,
            E::Corrupt { .. } | E::WrongVersion { .. } | E::OutOfBounds { .. } => Code::Corrupt,
            _ => Code::Storage,
        };
        let name_taken = match &error {
            E::AlreadyExists { kind, name, state } => {
                Some(NameTaken::new(*kind, name, Some(*state), None))
            }
            E::Different { kind, name, what } => {
                Some(NameTaken::new(*kind, name, None, Some(what)))
            }
            _ => None,
        };
        Self { name_taken: name_taken.map(Box::new), ..Self::new(code, error) }
    }
}

impl NameTaken {
    fn new(kind: Kind, name: &str, state: Option<&str>, difference: Option<&str>) -> Self {
        Self {
            kind: kind.as_str().to_owned(),
            name: name.to_owned(),
            state: state.map(str::to_owned),
            difference: difference.map(str::to_owned),
        }
    }
}

impl From<SchemaError> for Refusal {
    fn from(error: SchemaError) -> Self {
        Self::new(Code::Schema, error)
    }
}

impl From<RingError> for Refusal {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Segment(error) => error.into(),
            RingError::Schema(error) => error.into(),
            error => Self::new(Code::BadArgument, error),
        }
    }
}

impl From<FindError> for Refusal {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Segment(error) => error.into(),
            FindError::Ring(error) => error.into(),
            FindError::Ambiguous { .. } => Self::new(Code::BadArgument, error),
            error => Self::new(Code::NotFound, error),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::new(code_of(&error), error)
    }
}

fn code_of(error: &StoreError) -> Code {
    match error {
        StoreError::NotFound { .. } => Code::NotFound,
        StoreError::BadName { .. } | StoreError::NoPlace => Code::BadArgument,
        StoreError::NoSpace { .. } => Code::NoSpace,
        StoreError::Busy { .. } => Code::InUse,
        StoreError::NoManifest { .. } => Code::Corrupt,
        _ => Code::Storage,
    }
}

impl From<SaveError> for Refusal {
    fn from(error: SaveError) -> Self {
        let code = match &error {
            SaveError::Store(error) => code_of(error),
            SaveError::LabelTaken { .. } => Code::Exists,
            SaveError::Unreadable { .. } => Code::Corrupt,
            _ => Code::BadArgument,
        };
        Self::new(code, error)
    }
}

impl From<LoadError> for Refusal {
    fn from(error: LoadError) -> Self {
        let error = match error {
            LoadError::Ring(error) | LoadError::Restore(RestoreError::Ring(error)) => {
                return error.into();
            }
            error => error,
        };
        let code = match &error {
            LoadError::Store(error) => code_of(error),
            LoadError::Restore(RestoreError::Taken { .. }) => Code::Exists,
            LoadError::Damaged { .. } => Code::Corrupt,
            _ => Code::BadArgument,
        };
        Self::new(code, error)
    }
}
