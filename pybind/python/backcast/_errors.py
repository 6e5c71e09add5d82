"""The exception tree: each class is a BackcastError and the builtin that its mistake calls for."""

from __future__ import annotations


class BackcastError(Exception):
    """Base of every error that Backcast raises on purpose."""


class ArgumentError(BackcastError, ValueError):
    """A name, capacity, number or choice that cannot be."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument that a call does not have, one that is missing, or one of another type."""


class SchemaError(BackcastError, ValueError):
    """A schema that cannot be: a bad dtype, shape or name, a reserved or doubled column."""


class NotFoundError(BackcastError, FileNotFoundError):
    """No ring or panel of that name lives under the directory, or no such snapshot in the store."""


class ExistsError(BackcastError, FileExistsError):
    """The name is taken: by an object that somebody holds or that is persistent, or a snapshot."""


class InUseError(BackcastError, OSError):
    """Somebody holds the object that should be removed or replaced, or is saving under its name."""


class SpaceError(BackcastError, OSError):
    """The file system has not the room; nothing was created or saved."""


class StorageError(BackcastError, OSError):
    """The operating system refused a file, or its owner or mode make it unsafe to use."""


class CorruptError(BackcastError, ValueError):
    """The bytes under that name are no ring, panel or snapshot of this version, or are damaged."""


class WriterError(BackcastError, RuntimeError):
    """A writer that cannot be had: wrong settings, or fewer free lanes than asked for."""


class AppendError(BackcastError, ValueError):
    """Rows that do not fit the schema; none of them was written."""


class SampleError(BackcastError, ValueError):
    """A draw or gather that cannot be served as asked."""


class LappedError(SampleError):
    """The rows were overwritten by newer ones before they were read."""


class WaitTimeoutError(BackcastError, TimeoutError):
    """The wait ended before the ring held enough transitions."""


class LeaseError(BackcastError, ValueError):
    """Rows that cannot be leased, or a lease that an append may not wait for."""


class ColumnError(BackcastError, KeyError):
    """A column that the rows do not have."""

    # A KeyError shows the repr of its message.
    __str__ = Exception.__str__


class LappedWarning(RuntimeWarning):
    """Rows are missing from an export: writers overwrote them before they were read."""


class LeaseWarning(RuntimeWarning):
    """A lease made a writer wait or drop rows; raised once per lease, on both sides."""


class WriterWarning(RuntimeWarning):
    """Rows may not mean what they should: a wrong autoreset mode, or episodes that were cut."""


class UnlinkedWarning(RuntimeWarning):
    """A ring was removed or replaced while this process uses it; raised once per handle."""


class PanelError(BackcastError, ValueError):
    """Market data that cannot be read, or windows that it cannot serve."""


class EnvError(BackcastError, ValueError):
    """Settings, actions or a call order that an environment refuses."""


class ClosedError(BackcastError, ValueError):
    """The handle was closed; the object it stood for may live on."""


class DaemonError(BackcastError, OSError):
    """The daemon could not be asked, or did not do it."""


class DaemonNotRunningError(DaemonError, ConnectionError):
    """No daemon looks after the directory."""


class DaemonTimeoutError(DaemonError, TimeoutError):
    """The daemon was silent for longer than it may be."""


class OverBudgetError(DaemonError):
    """The ring does not fit the daemon's budget; nothing was created."""


class OverQuotaError(DaemonError):
    """A process has as much memory as the daemon allows one; nothing was created."""


class MissingExtraError(BackcastError, ImportError):
    """A part that needs an optional library which is not installed."""


# The public home of these names, in tracebacks and pickles, is the package.
for _error in [
    BackcastError,
    *BackcastError.__subclasses__(),
    *DaemonError.__subclasses__(),
    ArgumentTypeError,
    LappedError,
]:
    _error.__module__ = "backcast"
for _warning in [LappedWarning, LeaseWarning, UnlinkedWarning, WriterWarning]:
    _warning.__module__ = "backcast"
del _warning
del _error
