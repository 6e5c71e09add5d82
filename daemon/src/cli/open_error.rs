//! Reasons why an existing object cannot be shown.

use backcast_core::Kind;
use thiserror::Error;

use super::outcome::{Exit, Fails};

/// Error of opening an object.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    #[error("`{name}` was replaced while it was being opened; try again")]
    Replaced { name: String },
    #[error("cannot open {kind} `{name}`: {why}")]
    Damaged { kind: Kind, name: String, why: String },
    #[error("this user may not open {kind} `{name}`: {why}")]
    Denied { kind: Kind, name: String, why: String },
}

impl Fails for OpenError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}
