//! Reasons why an existing object cannot be shown.

use backcast_core::{ObjectInfo, ObjectKind};
use thiserror::Error;

use crate::cli::exit_status::{Exit, Fails};
use crate::objects::catalogue::Obstacle;

/// Error of opening an object.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    #[error("`{name}` was replaced while it was being opened; try again")]
    Replaced { name: String },
    #[error("{}: {why}", refusal(*obstacle, *kind, name))]
    Unopenable { obstacle: Obstacle, kind: ObjectKind, name: String, why: String },
}

fn refusal(obstacle: Obstacle, kind: ObjectKind, name: &str) -> String {
    match obstacle {
        Obstacle::Damaged | Obstacle::OtherVersion => format!("cannot open {kind} `{name}`"),
        Obstacle::Denied => format!("this user may not open {kind} `{name}`"),
        Obstacle::Unknown => format!("cannot open {kind} `{name}`, which may be whole"),
    }
}

impl OpenError {
    /// Returns the error of an object that cannot be opened because of `obstacle`. `why` is the
    /// message of the error that opening returned.
    pub(crate) fn of(obstacle: Obstacle, info: ObjectInfo, why: String) -> Self {
        let ObjectInfo { kind, name, .. } = info;
        Self::Unopenable { obstacle, kind, name, why }
    }
}

impl Fails for OpenError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}
