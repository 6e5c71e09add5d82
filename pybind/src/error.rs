//! Rust's typed errors as Python's exception tree: one `From` per enum.

use std::fmt::Display;
use std::io;

use backcast_core::{
    AppendError, HoldError, LeaseError, ReadError, ResizeError, RestoreError, RingError,
    SampleError, SchemaError, SegmentError, WaitError, WriterError, printable,
};
use backcast_gym::PortfolioError;
use backcast_market::{PanelError, WindowError};
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError, PyWarning};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// A class of `backcast._errors`. They are written in Python because each has two bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Base,
    Argument,
    ArgumentType,
    Schema,
    NotFound,
    Exists,
    InUse,
    Space,
    Storage,
    Corrupt,
    Writer,
    Append,
    Sample,
    Lapped,
    WaitTimeout,
    Panel,
    Env,
    Closed,
    Lease,
    Column,
    Daemon,
    DaemonNotRunning,
    DaemonTimeout,
    OverBudget,
    OverQuota,
}

/// In the order of [`Kind`].
const CLASSES: [&str; 25] = [
    "BackcastError",
    "ArgumentError",
    "ArgumentTypeError",
    "SchemaError",
    "NotFoundError",
    "ExistsError",
    "InUseError",
    "SpaceError",
    "StorageError",
    "CorruptError",
    "WriterError",
    "AppendError",
    "SampleError",
    "LappedError",
    "WaitTimeoutError",
    "PanelError",
    "EnvError",
    "ClosedError",
    "LeaseError",
    "ColumnError",
    "DaemonError",
    "DaemonNotRunningError",
    "DaemonTimeoutError",
    "OverBudgetError",
    "OverQuotaError",
];

impl Kind {
    fn class(self, py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
        static LOADED: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
        let classes = LOADED.get_or_try_init(py, || {
            let module = py.import("backcast._errors")?;
            CLASSES
                .iter()
                .map(|name| Ok(module.getattr(*name)?.cast_into::<PyType>()?.unbind()))
                .collect::<PyResult<Vec<_>>>()
        })?;
        Ok(classes[self as usize].bind(py).clone())
    }
}

/// Why a call did not do what it was asked: ours with its class, or one that Python raised.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Made without the interpreter, so that detached code can fail.
    Typed(Kind, String),
    /// Raised by Python, or a plain `TypeError` and the like.
    Python(PyErr),
}

impl Failure {
    /// Makes an error of a message, which may quote files that others wrote.
    pub(crate) fn new(kind: Kind, message: impl Display) -> Self {
        Self::Typed(kind, printable(&message.to_string()))
    }

    /// Tries in another way what was refused; what Python raised stays.
    pub(crate) fn or<T>(self, again: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        match self {
            Self::Typed(..) => again(),
            raised @ Self::Python(_) => Err(raised),
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Python(error) => error,
            Failure::Typed(kind, message) => Python::attach(|py| match kind.class(py) {
                Ok(class) => Self::from_type(class, message),
                Err(error) => error,
            }),
        }
    }
}

/// Whether Python, or `NumPy`, raised it of a value that is none of what was asked for. Anything else, such as the
/// `KeyboardInterrupt` of a Ctrl-C or what a program's own signal handler raises, says nothing of the value.
pub(crate) fn is_of_a_value(py: Python<'_>, raised: &PyErr) -> bool {
    // As torch does of a tensor that wants a gradient. Not what is one besides, such as a RecursionError.
    if raised.get_type(py).is(py.get_type::<PyRuntimeError>()) {
        return true;
    }
    raised.is_instance_of::<PyTypeError>(py)
        || raised.is_instance_of::<PyValueError>(py)
        || raised.is_instance_of::<PyOverflowError>(py)
        // Where warnings are errors, as tests have them.
        || raised.is_instance_of::<PyWarning>(py)
}

/// What Python raised of a value, told in other words, and as their cause. Anything else goes on as it is.
pub(crate) fn told(
    py: Python<'_>,
    raised: PyErr,
    tell: impl FnOnce(&PyErr) -> PyResult<Failure>,
) -> Failure {
    if !is_of_a_value(py, &raised) {
        return raised.into();
    }
    let told = match tell(&raised) {
        Ok(failure) => PyErr::from(failure),
        Err(another) => return another.into(),
    };
    told.set_cause(py, Some(raised));
    told.into()
}

/// Does what an object does when it is let go of, if there is an interpreter. That may be while an exception leaves the
/// function that had it: calls into Python would take the exception for theirs, and lose it.
pub(crate) fn let_go(work: impl FnOnce(Python<'_>)) {
    Python::try_attach(|py| {
        let on_its_way = PyErr::take(py);
        work(py);
        if let Some(raised) = on_its_way {
            raised.restore(py);
        }
    });
}

/// The kind of an error of the file system.
pub(crate) fn kind_of_io(error: &io::Error) -> Kind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::Space,
        _ => Kind::Storage,
    }
}

/// Argument errors are made where the argument is read.
pub(crate) fn bad_argument(message: impl Display) -> Failure {
    Failure::new(Kind::Argument, message)
}

impl From<SegmentError> for Failure {
    fn from(error: SegmentError) -> Self {
        use SegmentError as E;
        let kind = match &error {
            E::NotFound { .. } | E::Unlinked { .. } | E::MemoryGone { .. } => Kind::NotFound,
            E::AlreadyExists { .. } | E::Different { .. } => Kind::Exists,
            E::InUse { .. }
            | E::BeingFilled { .. }
            | E::BeingResized { .. }
            | E::ResizeUnfinished { .. } => Kind::InUse,
            E::NoSpace { .. } => Kind::Space,
            E::BadName { .. }
            | E::Limit { .. }
            | E::NotLarger { .. }
            | E::FixedSize { .. }
            | E::NotItsKeeper { .. } => Kind::Argument,
            E::Corrupt { .. } | E::WrongVersion { .. } | E::OutOfBounds { .. } => Kind::Corrupt,
            _ => Kind::Storage,
        };
        Self::new(kind, error)
    }
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        Self::new(Kind::Schema, error)
    }
}

impl From<RingError> for Failure {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Segment(error) => error.into(),
            RingError::Schema(error) => error.into(),
            error @ RingError::TooSmall { .. } => Self::new(Kind::Argument, error),
            error => Self::new(Kind::Base, error),
        }
    }
}

impl From<ResizeError> for Failure {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Ring(error) => error.into(),
            error => Self::new(Kind::Base, error),
        }
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Ring(error) => error.into(),
            error @ RestoreError::Taken { .. } => Self::new(Kind::Exists, error),
            error => Self::new(Kind::Corrupt, error),
        }
    }
}

impl From<WriterError> for Failure {
    fn from(error: WriterError) -> Self {
        match error {
            WriterError::Segment(error) => error.into(),
            error => Self::new(Kind::Writer, error),
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let reason = match &error {
            AppendError::After { source, .. } => source,
            error => error,
        };
        let kind = match reason {
            AppendError::Leased { .. } => Kind::Lease,
            AppendError::Unlinked { .. } => Kind::NotFound,
            _ => Kind::Append,
        };
        Self::new(kind, error)
    }
}

impl From<LeaseError> for Failure {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Segment(error) => error.into(),
            LeaseError::Hold(HoldError::Lapped(_)) => Self::new(Kind::Lapped, error),
            LeaseError::Damaged { .. } => Self::new(Kind::Corrupt, error),
            error => Self::new(Kind::Lease, error),
        }
    }
}

impl From<SampleError> for Failure {
    fn from(error: SampleError) -> Self {
        match error {
            SampleError::Segment(error) => error.into(),
            SampleError::Lapped { .. } => Self::new(Kind::Lapped, error),
            error => Self::new(Kind::Sample, error),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Lapped { .. } => Kind::Lapped,
            _ => Kind::Sample,
        };
        Self::new(kind, error)
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        let kind = match &error {
            WaitError::TimedOut { .. } | WaitError::TooFewRows { .. } => Kind::WaitTimeout,
            WaitError::Never { .. } => Kind::Argument,
            WaitError::Unlinked => Kind::NotFound,
            _ => Kind::Base,
        };
        Self::new(kind, error)
    }
}

impl From<PanelError> for Failure {
    fn from(error: PanelError) -> Self {
        match error {
            PanelError::Segment(error) => error.into(),
            error => Self::new(Kind::Panel, error),
        }
    }
}

impl From<WindowError> for Failure {
    fn from(error: WindowError) -> Self {
        Self::new(Kind::Panel, error)
    }
}

impl From<PortfolioError> for Failure {
    fn from(error: PortfolioError) -> Self {
        Self::new(Kind::Env, error)
    }
}
