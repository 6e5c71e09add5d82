//! Reasons why an existing object cannot be shown.

use backcast_core::{Kind, ObjectInfo};
use thiserror::Error;

use crate::cli::outcome::{Exit, Fails};
use crate::objects::catalogue::Obstacle;

/// Error of opening an object.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    #[error("`{name}` was replaced while it was being opened; try again")]
    Replaced { name: String },
    /// It is damaged, or of another version: `why` says so.
    #[error("cannot open {kind} `{name}`: {why}")]
    Unusable { kind: Kind, name: String, why: String },
    #[error("this user may not open {kind} `{name}`: {why}")]
    Denied { kind: Kind, name: String, why: String },
    #[error("cannot open {kind} `{name}`, which may be whole: {why}")]
    Unknown { kind: Kind, name: String, why: String },
}

impl OpenError {
    /// Returns the error of an object with that obstacle, for which `why` is the error.
    pub(crate) fn of(obstacle: Obstacle, info: ObjectInfo, why: String) -> Self {
        let ObjectInfo { kind, name, .. } = info;
        match obstacle {
            Obstacle::Damaged | Obstacle::OtherVersion => Self::Unusable { kind, name, why },
            Obstacle::Denied => Self::Denied { kind, name, why },
            Obstacle::Unknown => Self::Unknown { kind, name, why },
        }
    }
}

impl Fails for OpenError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}
