//! Why a command gave up, and the exit status that says so.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use backcast_core::{
    AppendError, Kind, LanePolicy, OTHER_VERSION, ResizeError, RestoreError, RingError,
    SampleError, SchemaError, SegmentError, WriterError,
};
use backcast_exchange::{ExportError, ImportError};
use backcast_market::{LoadError as PanelLoadError, PanelError};
use backcast_persist::{LoadError, SaveError, StoreError};
use backcast_sim::ConfigError;
use thiserror::Error;

use crate::bench::PairError;
use crate::client::ClientError;
use crate::columns::{ColumnError, SchemaFileError};
use crate::serve::{EVICTED, ServeError};
use crate::units;
use crate::wire::{Code, NameTaken};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    FoundProblems,
    WrongUsage,
    NoSuchObject,
    /// What was written has not all that it should have. The same status as of an object that is not there.
    RowsMissing,
    /// By Ctrl-C: 128 and the signal's number, as shells report it.
    Interrupted = 130,
}

impl Exit {
    /// The process's exit status.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::RowsMissing => Self::NoSuchObject as u8,
            exit => exit as u8,
        }
    }
}

/// Everything that stops a command.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error("--lease-timeout is {seconds}; give seconds from 0 to {}", LanePolicy::MAX_TIMEOUT.as_secs())]
    BadLeaseTimeout { seconds: f64 },
    #[error(
        "--lease-timeout is {seconds}, but --lane-policy {policy} never waits; leave one of them out"
    )]
    NeverWaits { seconds: f64, policy: LanePolicy },
    // Two of the core's errors, with the remedies that can be typed here.
    #[error(
        "a {kind} named `{name}` already exists ({state}); give --exist attach to join it, \
         --exist replace to start over, or run `backcast rm {name}` first"
    )]
    Taken { kind: Kind, name: String, state: Cow<'static, str> },
    #[error(
        "a {kind} named `{name}` already exists ({state}); choose another name, give --exist replace to \
         start over, or run `backcast rm {name}` first"
    )]
    NameTaken { kind: Kind, name: String, state: Cow<'static, str> },
    #[error(
        "the {kind} named `{name}` differs from what was asked: {what}; ask for the same, choose \
         another name, or give --exist replace"
    )]
    Different { kind: Kind, name: String, what: String },
    #[error("{what} `{name}` does not exist in {}{}", dir.display(), hint(suggestion.as_deref()))]
    NotFound { what: &'static str, name: String, dir: PathBuf, suggestion: Option<String> },
    #[error("`{name}` names a ring and a panel; say which with --kind ring or --kind panel")]
    Ambiguous { name: String },
    #[error(
        "{kind} `{name}` is held by {holders}; end what holds it, or remove it under its users \
         with --force (they keep their memory, nobody else can attach)"
    )]
    Held { kind: Kind, name: String, holders: String },
    #[error(
        "{kind} `{name}` cannot be opened, so nobody can tell whether it is held: {why}; `backcast rm \
         {name} --force` removes it all the same"
    )]
    Unopened { kind: Kind, name: String, why: String },
    #[error(
        "{kind} `{name}` is orphaned: it is not persistent and nobody holds it any more; \
         `backcast gc` removes it, and one that is made persistent stays"
    )]
    Orphaned { kind: Kind, name: String },
    #[error(
        "no directory {}; create it, or pass another one with --dir or BACKCAST_DIR",
        path.display()
    )]
    NoDirectory { path: PathBuf },
    #[error(
        "this user may not look into {}: {source}; have its owner let you in, or pass another directory \
         with {option}",
        path.display()
    )]
    NoAccess { path: PathBuf, source: std::io::Error, option: &'static str },
    #[error(
        "ring `{name}` is not in memory: a daemon evicted it to make room, and its rows are in {}; \
         whoever attaches through the daemon gets it back (`backcast.connect().attach(\"{name}\")`), and \
         without one `backcast load {name}@{EVICTED}{option}` makes it anew; `backcast stat \
         {name}@{EVICTED}{option}` shows what was saved",
        store.display()
    )]
    Evicted {
        name: String,
        store: PathBuf,
        /// ` --store DIR`, where commands look elsewhere by themselves.
        option: String,
    },
    #[error(
        "the memory of {kind} `{name}` is gone: it was sealed memory, and the daemon and the processes that \
         had it have ended; `backcast gc` removes what is left, then make it anew (what has to stay is \
         brought to disk, with --persist)"
    )]
    MemoryGone { kind: Kind, name: String },
    #[error("`{name}` was replaced while it was being opened; try again")]
    Replaced { name: String },
    #[error("cannot open {kind} `{name}`: {why}")]
    Damaged { kind: Kind, name: String, why: String },
    #[error("this user may not open {kind} `{name}`: {why}")]
    Denied { kind: Kind, name: String, why: String },
    #[error(transparent)]
    Column(#[from] ColumnError),
    #[error(transparent)]
    SchemaFile(#[from] SchemaFileError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Ring(RingError),
    #[error(transparent)]
    Segment(SegmentError),
    #[error(
        "not enough space in {}: {}; give a smaller --capacity, free space (`backcast gc`, `backcast \
         rm NAME`), or choose another directory with --dir or BACKCAST_DIR",
        dir.display(),
        shortage(*asked_bytes, *available_bytes, limit)
    )]
    NoSpace { dir: PathBuf, limit: &'static str, asked_bytes: u64, available_bytes: u64 },
    #[error(
        "{} is not safe to use: {reason}; have its owner remove it, or choose another directory with --dir \
         or BACKCAST_DIR",
        path.display()
    )]
    Unsafe { path: PathBuf, reason: String },
    #[error(transparent)]
    Panel(#[from] PanelError),
    #[error(
        "--columns, --macro and --nan say how to read a file, and `{name}` is a shared panel; leave \
         them out, or give the file's path"
    )]
    FileOptions { name: String },
    #[error(
        "`backcast demo` shows a table and writes its numbers to out/demo.json; leave --json out"
    )]
    DemoJson,
    #[error("`backcast {command}` prints {prints}; leave --json out")]
    NoJson { command: &'static str, prints: &'static str },
    #[error("no directory {} for the pages; create it, or pass another one with --into", path.display())]
    NoPlaceForPages { path: PathBuf },
    #[error("cannot write {}: {source}; pass another directory with --into", path.display())]
    WritePage { path: PathBuf, source: std::io::Error },
    #[error(
        "cannot use the terminal: {source}; `backcast top --once` prints a table, `--json` lines"
    )]
    Terminal { source: std::io::Error },
    #[error(transparent)]
    Pair(#[from] PairError),
    #[error(transparent)]
    Writer(#[from] WriterError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Sample(#[from] SampleError),
    #[error(transparent)]
    Market(#[from] ConfigError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Client(ClientError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Save(SaveError),
    #[error(transparent)]
    Load(LoadError),
    #[error(transparent)]
    Export(ExportError),
    #[error(transparent)]
    Import(ImportError),
    #[error("the extension of {} says no format; give --format {formats}", path.display())]
    UnknownFormat { path: PathBuf, formats: &'static str },
    #[error("interrupted; nothing of it is left")]
    Interrupted,
    #[error("cannot write to stdout or stderr: {0}")]
    Output(#[from] std::io::Error),
}

impl CliError {
    /// The refusal of a name that something has: to join it is a way out only if it can be joined.
    fn taken(kind: Kind, name: String, state: Cow<'static, str>) -> Self {
        if state == OTHER_VERSION {
            Self::NameTaken { kind, name, state }
        } else {
            Self::Taken { kind, name, state }
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::NotFound { .. } | Self::Evicted { .. } | Self::MemoryGone { .. } => {
                Exit::NoSuchObject
            }
            Self::Ambiguous { .. }
            | Self::BadLeaseTimeout { .. }
            | Self::NeverWaits { .. }
            | Self::NoDirectory { .. }
            | Self::NoAccess { .. }
            | Self::Column(_)
            | Self::SchemaFile(_)
            | Self::Schema(_)
            | Self::FileOptions { .. }
            | Self::NoJson { .. }
            | Self::NoPlaceForPages { .. }
            | Self::UnknownFormat { .. }
            | Self::Market(_)
            | Self::DemoJson => Exit::WrongUsage,
            Self::Ring(error) => of_ring(error),
            Self::Segment(error) => of_segment(error),
            Self::Panel(error) => of_panel(error),
            Self::Serve(error) if error.is_usage() => Exit::WrongUsage,
            Self::Client(error) => of_client(error),
            Self::Store(error) => of_store(error),
            Self::Save(error) => of_save(error),
            Self::Load(error) => of_load(error),
            Self::Export(error) => of_export(error),
            Self::Import(error) => of_import(error),
            Self::Interrupted => Exit::Interrupted,
            Self::Serve(_)
            | Self::Pair(_)
            | Self::Writer(_)
            | Self::Append(_)
            | Self::Sample(_)
            | Self::Taken { .. }
            | Self::NameTaken { .. }
            | Self::Different { .. }
            | Self::Held { .. }
            | Self::Unopened { .. }
            | Self::Orphaned { .. }
            | Self::Replaced { .. }
            | Self::Damaged { .. }
            | Self::Denied { .. }
            | Self::WritePage { .. }
            | Self::Terminal { .. }
            | Self::NoSpace { .. }
            | Self::Unsafe { .. }
            | Self::Output(_) => Exit::FoundProblems,
        }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        // The daemon answers programs, in their words: here are those that can be typed.
        let ClientError::NameTaken { message, taken } = error else { return Self::Client(error) };
        let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == taken.kind);
        match (kind, taken) {
            (Some(kind), NameTaken { name, state: Some(state), difference: None, .. }) => {
                Self::taken(kind, name, state.into())
            }
            (Some(kind), NameTaken { name, difference: Some(what), .. }) => {
                Self::Different { kind, name, what }
            }
            // Of a newer daemon.
            (_, taken) => Self::Client(ClientError::NameTaken { message, taken }),
        }
    }
}

impl From<SaveError> for CliError {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Cancelled => Self::Interrupted,
            error => Self::Save(error),
        }
    }
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Cancelled => Self::Interrupted,
            LoadError::Ring(error) | LoadError::Restore(RestoreError::Ring(error)) => error.into(),
            LoadError::Restore(RestoreError::Taken { kind, name, state }) => {
                Self::NameTaken { kind, name, state: state.into() }
            }
            error => Self::Load(error),
        }
    }
}

impl From<ExportError> for CliError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Interrupted { partial: None } => Self::Interrupted,
            error => Self::Export(error),
        }
    }
}

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Interrupted { partial: None } => Self::Interrupted,
            ImportError::Restore(RestoreError::Ring(error)) => error.into(),
            ImportError::Restore(RestoreError::Taken { kind, name, state }) => {
                Self::NameTaken { kind, name, state: state.into() }
            }
            error => Self::Import(error),
        }
    }
}

impl From<ResizeError> for CliError {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Ring(error) => error.into(),
            // Nothing moved: the ring is as it was.
            _ => Self::Interrupted,
        }
    }
}

impl From<RingError> for CliError {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Segment(error) => error.into(),
            error => Self::Ring(error),
        }
    }
}

impl From<SegmentError> for CliError {
    /// Of errors whose remedy is an argument, in the words that can be typed.
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::AlreadyExists { kind, name, state } => {
                Self::taken(kind, name, state.into())
            }
            SegmentError::Different { kind, name, what } => Self::Different { kind, name, what },
            SegmentError::NotFound { kind, name, base, near } => {
                Self::NotFound { what: kind.as_str(), name, dir: base, suggestion: near }
            }
            SegmentError::NoSpace { path, asked, available, limit } => {
                let dir = path.parent().map_or_else(|| path.clone(), Path::to_path_buf);
                Self::NoSpace { dir, limit, asked_bytes: asked, available_bytes: available }
            }
            SegmentError::Permission { path, reason } => Self::Unsafe { path, reason },
            error => Self::Segment(error),
        }
    }
}

/// What is short, and by how much where bytes are.
fn shortage(asked: u64, available: u64, limit: &str) -> String {
    if asked == 0 {
        return limit.to_owned();
    }
    format!("{} asked for, {} available ({limit})", units::bytes(asked), units::bytes(available))
}

fn of_export(error: &ExportError) -> Exit {
    match error {
        ExportError::OnlyRead { .. } | ExportError::NamesFolder { .. } => Exit::WrongUsage,
        ExportError::Interrupted { .. } => Exit::Interrupted,
        _ => Exit::FoundProblems,
    }
}

fn of_import(error: &ImportError) -> Exit {
    match error {
        ImportError::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
            Exit::NoSuchObject
        }
        ImportError::OnlyWritten { .. }
        | ImportError::Capacity { .. }
        | ImportError::NotThere { .. }
        | ImportError::ComesWhole { .. } => Exit::WrongUsage,
        ImportError::Interrupted { .. } => Exit::Interrupted,
        _ => Exit::FoundProblems,
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::NotFound { .. } => Exit::NoSuchObject,
        StoreError::BadName { .. } | StoreError::NoPlace => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

fn of_save(error: &SaveError) -> Exit {
    match error {
        SaveError::Store(error) => of_store(error),
        SaveError::LabelReserved { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

fn of_load(error: &LoadError) -> Exit {
    match error {
        LoadError::Store(error) => of_store(error),
        _ => Exit::FoundProblems,
    }
}

fn of_ring(error: &RingError) -> Exit {
    match error {
        RingError::Segment(error) => of_segment(error),
        RingError::Schema(_) | RingError::TooSmall { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

fn of_client(error: &ClientError) -> Exit {
    match error {
        ClientError::Ring(error) => of_ring(error),
        ClientError::Refused { code: Code::NotFound, .. } => Exit::NoSuchObject,
        ClientError::Refused { code: Code::BadArgument | Code::Schema, .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

fn of_panel(error: &PanelError) -> Exit {
    match error {
        PanelError::Segment(error) => of_segment(error),
        PanelError::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
            Exit::NoSuchObject
        }
        PanelError::Load { problem, .. } => match **problem {
            PanelLoadError::UnknownRename { .. } | PanelLoadError::UnknownMacroTicker { .. } => {
                Exit::WrongUsage
            }
            _ => Exit::FoundProblems,
        },
        _ => Exit::FoundProblems,
    }
}

fn of_segment(error: &SegmentError) -> Exit {
    match error {
        SegmentError::NotFound { .. } | SegmentError::MemoryGone { .. } => Exit::NoSuchObject,
        SegmentError::BadName { .. }
        | SegmentError::Limit { .. }
        | SegmentError::NotLarger { .. }
        | SegmentError::FixedSize { .. }
        | SegmentError::NotItsKeeper { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || "; `backcast ls` lists what there is".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    )
}
