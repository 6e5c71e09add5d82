//! Misuse of an environment's reset and step. Nothing has changed when an error is returned.
#![expect(missing_docs, reason = "the messages show the fields")]

use thiserror::Error;

/// A reset or step that the state of the sub-environments does not allow.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpisodeError {
    /// A slice of the wrong length.
    #[error("`{what}` holds {found} elements, but must hold {expected}")]
    BadLength { what: &'static str, expected: usize, found: usize },
    /// A reset mask that selects no sub-environment.
    #[error("the reset mask selects none of the {num_envs} environments; select at least one")]
    EmptyMask { num_envs: usize },
    /// A first reset of some sub-environments only: the others would have no observation.
    #[error(
        "the reset mask leaves out environment {env}, which was never reset; reset all of them \
         first"
    )]
    LeftOut { env: usize },
    /// A step, or a query of an episode, before the first reset.
    #[error("environment {env} was never reset; call reset first")]
    NotReset { env: usize },
    /// A step after the end of an episode without autoreset.
    #[error(
        "the episode of environment {env} has ended; with autoreset_mode \"disabled\" reset it (a \
         mask selects it) before the next step"
    )]
    Finished { env: usize },
}

impl EpisodeError {
    /// Returns the message for a single environment. It names no environment number.
    #[must_use]
    pub fn for_single(&self) -> String {
        match self {
            Self::Finished { .. } => "the episode has ended; reset the environment".to_owned(),
            Self::NotReset { .. } => "the environment was never reset; call reset first".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Refuses a slice whose length is not `expected`. Accepts a missing slice (`None`).
pub(crate) fn check_length(
    what: &'static str,
    expected: usize,
    found: Option<usize>,
) -> Result<(), EpisodeError> {
    match found {
        Some(found) if found != expected => Err(EpisodeError::BadLength { what, expected, found }),
        _ => Ok(()),
    }
}
