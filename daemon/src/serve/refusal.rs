//! Errors of rings and commands as refusals that a client can tell apart.

use backcast_core::{Kind, RingError, SchemaError, SegmentError};

use backcast_persist::{LoadError, SaveError, StoreError};

use crate::error::CliError;
use crate::wire::{Code, NameTaken, Refusal};

impl From<SegmentError> for Refusal {
    fn from(error: SegmentError) -> Self {
        use SegmentError as E;
        let code = match &error {
            E::NotFound { .. } | E::Unlinked { .. } | E::MemoryGone { .. } => Code::NotFound,
            E::AlreadyExists { .. } | E::Different { .. } => Code::Exists,
            E::InUse { .. }
            | E::BeingFilled { .. }
            | E::BeingResized { .. }
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

impl From<CliError> for Refusal {
    fn from(error: CliError) -> Self {
        let code = match error {
            CliError::Segment(error) => return error.into(),
            CliError::Ring(error) => return error.into(),
            CliError::Schema(error) => return error.into(),
            CliError::NotFound { .. }
            | CliError::Orphaned { .. }
            | CliError::Evicted { .. }
            | CliError::MemoryGone { .. } => Code::NotFound,
            CliError::NoSpace { .. } => Code::NoSpace,
            CliError::Unsafe { .. } | CliError::Denied { .. } | CliError::NoAccess { .. } => {
                Code::Storage
            }
            CliError::Taken { .. }
            | CliError::NameTaken { .. }
            | CliError::Different { .. }
            | CliError::Save(SaveError::LabelTaken { .. }) => Code::Exists,
            CliError::Held { .. } => Code::InUse,
            CliError::Damaged { .. }
            | CliError::Unopened { .. }
            | CliError::Save(SaveError::Unreadable { .. })
            | CliError::Load(LoadError::Damaged { .. }) => Code::Corrupt,
            CliError::Column(_) => Code::Schema,
            CliError::Store(ref error)
            | CliError::Save(SaveError::Store(ref error))
            | CliError::Load(LoadError::Store(ref error)) => match error {
                StoreError::NotFound { .. } => Code::NotFound,
                StoreError::BadName { .. } | StoreError::NoPlace => Code::BadArgument,
                StoreError::NoSpace { .. } => Code::NoSpace,
                StoreError::Busy { .. } => Code::InUse,
                StoreError::NoManifest { .. } => Code::Corrupt,
                _ => Code::Storage,
            },
            _ => Code::BadArgument,
        };
        Self::new(code, error)
    }
}
