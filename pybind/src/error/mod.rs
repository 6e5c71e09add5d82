//! Failures of calls, and the exceptions that they become.

mod conversions;
pub(crate) mod signals;
mod words;

use std::fmt::Display;
use std::io;

use backcast_core::IoCause;
use backcast_core::plumbing::printable;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError, PyWarning};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

pub(crate) use self::words::in_python;

/// Exception class of `backcast.errors`. The classes are written in Python because most have two
/// bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
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
    Sim,
    RateLimit,
    RateLimitTimeout,
}

/// Names in the order of [`ErrorClass`].
const CLASSES: [&str; 27] = [
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
    "SimError",
    "RateLimitError",
    "RateLimitTimeoutError",
];

impl ErrorClass {
    fn class(self, py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
        static LOADED: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
        let classes = LOADED.get_or_try_init(py, || {
            let module = py.import("backcast.errors")?;
            CLASSES
                .iter()
                .map(|name| Ok(module.getattr(*name)?.cast_into::<PyType>()?.unbind()))
                .collect::<PyResult<Vec<_>>>()
        })?;
        Ok(classes[self as usize].bind(py).clone())
    }
}

/// Failure of a call: an error of this package, or an exception that Python raised.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Error of this package. Needs no interpreter, so that detached code can fail.
    Typed(ErrorClass, String),
    /// Exception that Python raised.
    Python(PyErr),
}

impl Failure {
    /// Makes an error with a message. Replaces control characters, which quoted files may hold.
    pub(crate) fn new(class: ErrorClass, message: impl Display) -> Self {
        Self::Typed(class, printable(&message.to_string()))
    }

    /// Converts an error of the core, and puts its message into Python's words.
    pub(crate) fn of(class: ErrorClass, error: impl Display) -> Self {
        Self::Typed(class, printable(&in_python(&error.to_string())))
    }

    /// Returns the failure that ended the last wait of this thread, or an error with `message` if
    /// it is not known.
    pub(crate) fn interrupted(message: impl Display) -> Self {
        signals::take().unwrap_or_else(|| Self::of(ErrorClass::Base, message))
    }

    /// Tries an alternative after an error of this package. Passes on exceptions of Python.
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
            Failure::Typed(class, message) => Python::attach(|py| match class.class(py) {
                Ok(class) => Self::from_type(class, message),
                Err(error) => error,
            }),
        }
    }
}

/// Returns whether an exception of Python or `NumPy` means that a value is of the wrong kind.
/// Others, such as a `KeyboardInterrupt` or an exception of a signal handler, do not concern the
/// value.
pub(crate) fn refuses_value(py: Python<'_>, raised: &PyErr) -> bool {
    // Torch raises a RuntimeError for a tensor that requires a gradient. Subclasses such as
    // RecursionError do not concern the value.
    if raised.get_type(py).is(py.get_type::<PyRuntimeError>()) {
        return true;
    }
    raised.is_instance_of::<PyTypeError>(py)
        || raised.is_instance_of::<PyValueError>(py)
        || raised.is_instance_of::<PyOverflowError>(py)
        // NumPy's warnings are raised if warnings are errors, as in tests.
        || raised.is_instance_of::<PyWarning>(py)
}

/// Rewords an exception about a value and keeps it as the cause. Passes on all others.
pub(crate) fn reworded(
    py: Python<'_>,
    raised: PyErr,
    tell: impl FnOnce(&PyErr) -> PyResult<Failure>,
) -> Failure {
    if !refuses_value(py, &raised) {
        return raised.into();
    }
    let reworded = match tell(&raised) {
        Ok(failure) => PyErr::from(failure),
        Err(another) => return another.into(),
    };
    reworded.set_cause(py, Some(raised));
    reworded.into()
}

/// Runs the work of a `Drop` if there is an interpreter. An exception that is being raised
/// meanwhile is set aside, because calls into Python would take it for theirs.
pub(crate) fn on_drop(work: impl FnOnce(Python<'_>)) {
    Python::try_attach(|py| {
        let on_its_way = PyErr::take(py);
        work(py);
        if let Some(raised) = on_its_way {
            raised.restore(py);
        }
    });
}

/// Returns the class of a file system error.
pub(crate) fn class_of_io(error: &io::Error) -> ErrorClass {
    match IoCause::of(error) {
        IoCause::Space => ErrorClass::Space,
        _ => ErrorClass::Storage,
    }
}

/// Returns the error of a bad argument.
pub(crate) fn bad_argument(message: impl Display) -> Failure {
    Failure::new(ErrorClass::Argument, message)
}
