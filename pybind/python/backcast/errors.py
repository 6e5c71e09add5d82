"""Errors and warnings. Each error is a BackcastError and the builtin that fits the mistake."""

from __future__ import annotations

__all__ = [
    "ActorError",
    "ActorTimeoutError",
    "AppendError",
    "ArgumentError",
    "ArgumentTypeError",
    "BackcastError",
    "ClosedError",
    "ColumnError",
    "CorruptError",
    "DaemonError",
    "DaemonNotRunningError",
    "DaemonTimeoutError",
    "EnvError",
    "ExistsError",
    "FleetError",
    "FleetWarning",
    "InUseError",
    "LappedError",
    "LappedWarning",
    "LeaseError",
    "LeaseWarning",
    "MissingExtraError",
    "NotFoundError",
    "OverBudgetError",
    "PanelError",
    "RateLimitError",
    "RateLimitTimeoutError",
    "RestartLimitError",
    "SampleError",
    "SchemaError",
    "ShardWarning",
    "SimError",
    "SpaceError",
    "StorageError",
    "UnlinkedWarning",
    "WaitTimeoutError",
    "WaitWarning",
    "WriterError",
    "WriterWarning",
]


class BackcastError(Exception):
    """Base of every error of Backcast."""


class ArgumentError(BackcastError, ValueError):
    """An invalid name, capacity, number or choice."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An unexpected or missing argument, or one of another type."""


class SchemaError(BackcastError, ValueError):
    """An invalid schema: a bad dtype, shape or name, a reserved or duplicate column."""


class NotFoundError(BackcastError, FileNotFoundError):
    """There is no ring, panel or parameters of that name, or no such snapshot in the store."""


class ExistsError(BackcastError, FileExistsError):
    """The name is taken by an object that is in use or persistent, or by a snapshot."""


class InUseError(BackcastError, OSError):
    """A process holds the object to be removed or replaced, or saves under its name."""


class SpaceError(BackcastError, OSError):
    """A file system, or the memory of a device, is full; nothing was created or saved."""


class StorageError(BackcastError, OSError):
    """The operating system refused a file, or its owner or mode make it unsafe to use."""


class CorruptError(BackcastError, ValueError):
    """The bytes under that name are no ring, panel or snapshot of this version, or are damaged."""


class WriterError(BackcastError, RuntimeError):
    """A writer cannot be made: wrong settings, or too few free lanes."""


class AppendError(BackcastError, ValueError):
    """Rows that do not fit the schema; none of them was written."""


class SampleError(BackcastError, ValueError):
    """A draw or gather is not possible."""


class LappedError(SampleError):
    """The rows were overwritten by newer ones before they were read."""


class WaitTimeoutError(BackcastError, TimeoutError):
    """The wait ended before the awaited rows, transitions or version of parameters were there."""


class RateLimitError(BackcastError, RuntimeError):
    """A rate limiter can never allow the append or the draw, or refuses it."""


class RateLimitTimeoutError(RateLimitError, TimeoutError):
    """A rate limiter held an append or a draw back for too long; says what each side waits for."""


class LeaseError(BackcastError, ValueError):
    """Rows cannot be leased, or a lease blocks an append that must not wait."""


class ColumnError(BackcastError, KeyError):
    """A column that the rows do not have."""

    # A KeyError shows the repr of its message.
    __str__ = Exception.__str__


class LappedWarning(RuntimeWarning):
    """Rows are missing from an export: writers overwrote them before they were read."""


class LeaseWarning(RuntimeWarning):
    """A lease made a writer wait or drop rows; issued once per lease, on both sides."""


class WaitWarning(RuntimeWarning):
    """A call waits for more than 10 s; issued once per wait, with the reason."""


class WriterWarning(RuntimeWarning):
    """Rows contradict the autoreset mode, episodes were cut, or actors outnumber lanes."""


class FleetWarning(RuntimeWarning):
    """A function that writes statistics of a fleet raised; training goes on."""


class ShardWarning(RuntimeWarning):
    """A shard does not answer, or lost its rows; issued once each time. Draws go on without it."""


class UnlinkedWarning(RuntimeWarning):
    """A ring was removed or replaced while this process uses it; issued once per handle."""


class PanelError(BackcastError, ValueError):
    """Market data cannot be read, or does not have the windows."""


class EnvError(BackcastError, ValueError):
    """An environment refuses its settings, an action or the order of calls."""


class SimError(BackcastError, ValueError):
    """A market cannot be built of its settings, or refuses an argument."""


class ClosedError(BackcastError, ValueError):
    """The handle was closed; the object may live on."""


class DaemonError(BackcastError, OSError):
    """The daemon could not be reached, or refused."""


class DaemonNotRunningError(DaemonError, ConnectionError):
    """No daemon runs for the directory."""


class DaemonTimeoutError(DaemonError, TimeoutError):
    """The daemon did not answer in time."""


class OverBudgetError(DaemonError):
    """The ring does not fit the daemon's budget; nothing was created."""


class MissingExtraError(BackcastError, ImportError):
    """An optional library is not installed."""


class FleetError(BackcastError, RuntimeError):
    """A fleet cannot be started, or was used outside of its ``with`` block."""


class ActorError(FleetError):
    """An actor of a fleet raised, failed to import, or ended with an error status."""

    rank: int | None = None
    """Rank of the actor."""
    actor_traceback: str = ""
    """Traceback of the actor's process, as text; also a note of this error."""


class ActorTimeoutError(FleetError, TimeoutError):
    """An actor of a fleet did not start in time, or hangs, or did not finish in time."""

    rank: int | None = None
    """Rank of the actor that hangs."""
    actor_traceback: str = ""
    """Stack of the actor that hangs, as text; also a note of this error."""


class RestartLimitError(FleetError):
    """An actor of a fleet died too often within a minute."""

    rank: int | None = None
    """Rank of the actor."""
    actor_traceback: str = ""
    """Traceback of its last death, as text; also a note of this error."""
