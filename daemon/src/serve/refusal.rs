//! Converts errors to refusals with codes, by which clients tell them apart.

use backcast_core::{
    LearnedError, LeaseError, LimiterError, ObjectKind, ParamsError, PriorityError, RestoreError,
    RingError, SchemaError, SegmentError,
};
use backcast_persist::{LoadError, SaveError, StoreError};

use crate::objects::find::FindError;
use crate::protocol::{Code, NameTaken, Refusal};

impl From<SegmentError> for Refusal {
    fn from(error: SegmentError) -> Self {
        use SegmentError as E;
        let code = match &error {
            E::NotFound { .. }
            | E::Unlinked { .. }
            | E::MemoryGone { .. }
            | E::TableRemoved { .. }
            | E::NoTable { .. } => Code::NotFound,
            E::AlreadyExists { .. } | E::Different { .. } | E::TableDiffers { .. } => Code::Exists,
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
    fn new(kind: ObjectKind, name: &str, state: Option<&str>, difference: Option<&str>) -> Self {
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
            RingError::Segment(error) | RingError::Limiter(LimiterError::Segment(error)) => {
                error.into()
            }
            RingError::Schema(error) => error.into(),
            error => Self::new(Code::BadArgument, error),
        }
    }
}

impl From<FindError> for Refusal {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Segment(error) | FindError::Params(ParamsError::Segment(error)) => {
                error.into()
            }
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
        let error = match error {
            // Errors of these files get the codes that errors of the ring's files get.
            SaveError::Table(PriorityError::Segment(error))
            | SaveError::Learned(LearnedError::Segment(error))
            | SaveError::Limiter(LimiterError::Segment(error))
            | SaveError::Params(ParamsError::Segment(error))
            | SaveError::Guard(LeaseError::Segment(error)) => return error.into(),
            error => error,
        };
        let code = match &error {
            SaveError::Store(error) => code_of(error),
            SaveError::LabelTaken { .. } => Code::Exists,
            SaveError::Table(PriorityError::Lock(_))
            | SaveError::Learned(LearnedError::Lock(_)) => Code::InUse,
            SaveError::Unreadable { .. } | SaveError::Limiter(LimiterError::Damaged) => {
                Code::Corrupt
            }
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
            LoadError::Params(ParamsError::Segment(error)) => return error.into(),
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

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_lack_of_descriptors_has_the_same_code_and_advice_for_every_part_of_a_ring() {
        for (errno, advice) in [(Errno::MFILE, "ulimit -n"), (Errno::NFILE, "fs.file-max")] {
            let short = || SegmentError::Io {
                operation: "open",
                path: "table-p.dat".into(),
                source: io::Error::from(errno),
            };
            let ring = Refusal::from(RingError::from(short()));
            assert_eq!(ring.code, Code::Storage);
            assert!(ring.message.contains(advice), "{}", ring.message);
            for refused in [
                Refusal::from(RingError::from(LimiterError::from(short()))),
                Refusal::from(FindError::from(ParamsError::from(short()))),
                Refusal::from(SaveError::from(PriorityError::from(short()))),
                Refusal::from(SaveError::from(LearnedError::from(short()))),
                Refusal::from(SaveError::from(LimiterError::from(short()))),
                Refusal::from(SaveError::from(ParamsError::from(short()))),
                Refusal::from(SaveError::from(LeaseError::from(short()))),
                Refusal::from(LoadError::from(RingError::from(short()))),
                Refusal::from(LoadError::from(ParamsError::from(short()))),
            ] {
                assert_eq!((refused.code, &refused.message), (ring.code, &ring.message));
            }
        }
    }
}
