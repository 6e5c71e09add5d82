//! Errors of rings and panels, with the remedies that can be typed and their exit statuses.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use backcast_core::{
    OTHER_VERSION, ObjectKind, ParamsError, ResizeError, RestoreError, RingError, SchemaError,
    SegmentError,
};
use thiserror::Error;

use crate::cli::exit_status::{CommandError, Exit, Fails, Interrupted};
use crate::client::ClientError;
use crate::objects::find::FindError;
use crate::protocol::{Code, NameTaken};
use crate::text::units;

/// Option that replaces an object.
pub(super) const EXIST_REPLACE: &str = "--exist replace";
/// Remedy of a command that takes the name as an argument.
pub(crate) const OTHER_NAME: &str = "choose another name, ";

/// Errors whose remedies are options and commands that can be typed.
#[derive(Debug, Error)]
enum TypedRemedy {
    #[error(
        "a {kind} named `{name}` already exists ({state}); give --exist attach to join it, \
         --exist replace to start over, or run `backcast rm {name}` first"
    )]
    Taken { kind: ObjectKind, name: String, state: Cow<'static, str> },
    /// The name is taken, and attaching is not a remedy.
    #[error(
        "a {kind} named `{name}` already exists ({state}); {rename}give {replace} to start over, \
         or run `backcast rm {name}` first"
    )]
    NotAttachable {
        kind: ObjectKind,
        name: String,
        state: Cow<'static, str>,
        /// How to give another name, with a comma. Empty if the command has no way to.
        rename: &'static str,
        /// Option that replaces the object.
        replace: &'static str,
    },
    #[error(
        "the {kind} named `{name}` differs from the requested one: {what}; ask for the same, \
         choose another name, or give --exist replace"
    )]
    Different { kind: ObjectKind, name: String, what: String },
    #[error(
        "not enough space in {}: {}; {}free space (`backcast gc`, `backcast rm NAME`), or choose \
         another directory with --dir or BACKCAST_DIR",
        dir.display(),
        shortage(*asked_bytes, *available_bytes, limit),
        less.map(|less| format!("{less}, ")).unwrap_or_default()
    )]
    NoSpace {
        dir: PathBuf,
        limit: &'static str,
        asked_bytes: u64,
        available_bytes: u64,
        /// Advice to ask for less, if the command has options for it.
        less: Option<&'static str>,
    },
    #[error(
        "{} is not safe to use: {reason}; have its owner remove it, or choose another directory \
         with --dir or BACKCAST_DIR",
        path.display()
    )]
    Unsafe { path: PathBuf, reason: String },
}

impl TypedRemedy {
    /// Returns the error of a taken name for a command that can attach. Its remedies do not include
    /// attaching to an object of another version.
    fn taken(kind: ObjectKind, name: String, state: Cow<'static, str>) -> Self {
        if state == OTHER_VERSION {
            let (rename, replace) = (OTHER_NAME, EXIST_REPLACE);
            return Self::NotAttachable { kind, name, state, rename, replace };
        }
        Self::Taken { kind, name, state }
    }
}

impl Fails for TypedRemedy {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}

/// Describes the shortage, with the numbers if it is one of bytes.
fn shortage(asked: u64, available: u64, limit: &str) -> String {
    if asked == 0 {
        return limit.to_owned();
    }
    format!("{} asked for, {} available ({limit})", units::bytes(asked), units::bytes(available))
}

/// Returns the exit status of an error of a segment.
pub(crate) fn exit_of(error: &SegmentError) -> Exit {
    match error {
        SegmentError::NotFound { .. }
        | SegmentError::MemoryGone { .. }
        | SegmentError::NoTable { .. } => Exit::NoSuchObject,
        SegmentError::BadName { .. }
        | SegmentError::Limit { .. }
        | SegmentError::NotLarger { .. }
        | SegmentError::FixedSize { .. }
        | SegmentError::NotItsKeeper { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

impl From<SegmentError> for CommandError {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::AlreadyExists { kind, name, state } => {
                TypedRemedy::taken(kind, name, state.into()).into()
            }
            SegmentError::Different { kind, name, what } => {
                TypedRemedy::Different { kind, name, what }.into()
            }
            SegmentError::NotFound { kind, name, base, other, near } => {
                let what = kind.as_str();
                FindError::NotFound { what, name, dir: base, other, suggestion: near }.into()
            }
            error @ SegmentError::NoSpace { .. } => {
                of_space(error, Some("give a smaller --capacity"))
            }
            SegmentError::Permission { path, reason } => {
                TypedRemedy::Unsafe { path, reason }.into()
            }
            error => CommandError::plain(error, exit_of),
        }
    }
}

/// Converts an error of a command. For lack of space, `less` is the advice to ask for less. Every
/// other error is converted by [`From`].
fn of_space(error: SegmentError, less: Option<&'static str>) -> CommandError {
    match error {
        SegmentError::NoSpace { path, asked, available, limit } => {
            let dir = path.parent().map_or_else(|| path.clone(), Path::to_path_buf);
            let (asked_bytes, available_bytes) = (asked, available);
            TypedRemedy::NoSpace { dir, limit, asked_bytes, available_bytes, less }.into()
        }
        error => error.into(),
    }
}

/// Returns the exit status of an error of a ring.
fn exit_of_ring(error: &RingError) -> Exit {
    match error {
        RingError::Segment(error) => exit_of(error),
        RingError::Limiter(error) => error.exit(),
        RingError::Schema(_) | RingError::TooSmall { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

impl From<RingError> for CommandError {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Segment(error) => error.into(),
            error => CommandError::plain(error, exit_of_ring),
        }
    }
}

/// Options of a command that fills a new ring, for the remedies of its errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MakingOptions {
    /// Advice to ask for less space, if the command has options for it.
    pub(crate) less: Option<&'static str>,
    /// How to give another name, with a comma. Empty if the command has no way to.
    pub(crate) rename: &'static str,
    /// Option that replaces the ring of that name.
    pub(crate) replace: &'static str,
}

/// Converts the error of filling a new ring. Returns an error unchanged if the command line has no
/// remedy of its own for it.
pub(crate) fn of_restore(
    error: RestoreError,
    MakingOptions { less, rename, replace }: MakingOptions,
) -> Result<CommandError, RestoreError> {
    match error {
        RestoreError::Ring(RingError::Segment(error)) => Ok(of_space(error, less)),
        RestoreError::Ring(error) => Ok(error.into()),
        RestoreError::Taken { kind, name, state } => {
            let state = state.into();
            Ok(TypedRemedy::NotAttachable { kind, name, state, rename, replace }.into())
        }
        error => Err(error),
    }
}

impl From<ResizeError> for CommandError {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Ring(error) => error.into(),
            // Interrupted before any lane was relocated: the ring is unchanged.
            _ => Interrupted.into(),
        }
    }
}

impl Fails for SchemaError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

/// Returns the exit status of an error of a look-up by name.
fn exit_of_find(error: &FindError) -> Exit {
    match error {
        FindError::NotFound { .. } | FindError::Evicted { .. } | FindError::MemoryGone { .. } => {
            Exit::NoSuchObject
        }
        FindError::Ambiguous { .. } => Exit::WrongUsage,
        FindError::Orphaned { .. }
        | FindError::Segment(_)
        | FindError::Ring(_)
        | FindError::Params(_) => Exit::FoundProblems,
    }
}

impl From<FindError> for CommandError {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Segment(error) | FindError::Params(ParamsError::Segment(error)) => {
                error.into()
            }
            FindError::Ring(error) => error.into(),
            error => CommandError::plain(error, exit_of_find),
        }
    }
}

/// Returns the exit status of an error of a request to the daemon.
fn exit_of_client(error: &ClientError) -> Exit {
    match error {
        ClientError::Refused { code: Code::NotFound, .. } => Exit::NoSuchObject,
        ClientError::Refused { code: Code::BadArgument | Code::Schema, .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Ring(error) => error.into(),
            // The daemon's messages are for programs. These errors get remedies that a user can
            // type.
            ClientError::NameTaken { message, taken } => {
                let kind = ObjectKind::ALL.into_iter().find(|kind| kind.as_str() == taken.kind);
                match (kind, taken) {
                    (Some(kind), NameTaken { name, state: Some(state), difference: None, .. }) => {
                        TypedRemedy::taken(kind, name, state.into()).into()
                    }
                    (Some(kind), NameTaken { name, difference: Some(what), .. }) => {
                        TypedRemedy::Different { kind, name, what }.into()
                    }
                    // A newer daemon sent a kind or fields that this version does not know.
                    (_, taken) => CommandError::plain(
                        ClientError::NameTaken { message, taken },
                        exit_of_client,
                    ),
                }
            }
            error => CommandError::plain(error, exit_of_client),
        }
    }
}
