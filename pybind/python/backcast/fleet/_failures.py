"""Errors that end a fleet: which actor, what happened, what to do."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from backcast.errors import ActorError, ActorTimeoutError, FleetError, RestartLimitError
from backcast.fleet._restarts import WINDOW_S

if TYPE_CHECKING:
    from backcast.fleet._process import Message

OfActor = TypeVar("OfActor", ActorError, ActorTimeoutError, RestartLimitError)


def ending(status: int) -> str:
    """Describe an exit status as ``subprocess`` gives it."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def raised(rank: int, label: str, message: Message) -> ActorError:
    """Make the error of an actor that sent an exception."""
    text = str(message.get("text", "?")).replace("\n", " ")
    if message["kind"] == "unknown":
        return _of_actor(rank, "", ActorError(f"actor {rank} ({label}) does not exist: {text}"))
    trace = str(message.get("trace", ""))
    if message["kind"] == "main":
        what = (
            f"actor {rank} ({label}) cannot import the main module, which raised {text}; it runs "
            "in every actor too: put what only the program itself is to do under `if __name__ == "
            "'__main__':`"
        )
    elif message["kind"] == "import":
        what = f"actor {rank} ({label}) cannot be imported: {text}; correct it, or install it"
    else:
        remedy = 'correct it, or restart actors that raise with restart="always"'
        what = f"actor {rank} ({label}) raised {text}; {remedy}"
    return _of_actor(rank, trace, ActorError(what))


def ended(rank: int, label: str, status: int, *, ready: bool, tail: bytes) -> ActorError:
    """Make the error of an actor that ended without an exception, by status or signal."""
    when = "" if ready else " before it was ready"
    remedy = (
        'read its log, or give restart="signal" to start it again'
        if status < 0
        else 'correct it, or give restart="always" to start it again'
    )
    what = f"actor {rank} ({label}) {ending(status)}{when}; {remedy}"
    said = tail.decode(errors="replace").strip()
    return _of_actor(rank, said and f"its last output on stderr:\n{said}", ActorError(what))


def _of_actor(rank: int, trace: str, error: OfActor) -> OfActor:
    """Attach to an error the rank of its actor and the traceback."""
    error.rank, error.actor_traceback = rank, trace
    if trace:
        error.add_note(f"\nActor {rank}:\n{trace.rstrip()}")
    return error


def too_many(rank: int, label: str, deaths: int, last: str, trace: str) -> RestartLimitError:
    """Make the error of an actor that died too often; `trace` is that of its last death."""
    error = RestartLimitError(
        f"actor {rank} ({label}) died {deaths} times within {WINDOW_S:.0f} s, the last time it "
        f"{last}; correct it, or allow more with max_deaths="
    )
    return _of_actor(rank, trace, error)


def say_restart(rank: int, label: str, last: str) -> None:
    """Write to stderr that an actor died and is restarted; a stderr that is closed is no matter.

    The supervisor's thread cannot raise or warn where the program would notice.
    """
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(
                f"backcast: actor {rank} ({label}) {last}; restarting", file=sys.stderr, flush=True
            )


def hanging(rank: int, label: str, last: str, stack: str) -> ActorTimeoutError:
    """Make the error of an actor that gives no sign of life, with the stack of its function."""
    error = ActorTimeoutError(
        f"actor {rank} ({label}) {last}; correct it, give a larger report_timeout=, or restart "
        'actors that hang with restart="signal"'
    )
    return _of_actor(rank, stack, error)


def late(ranks: list[int], label: str, seconds: float) -> ActorTimeoutError:
    """Make the error of actors that did not get as far as calling their function."""
    who = ", ".join(map(str, ranks))
    return ActorTimeoutError(
        f"actor {who} ({label}) was not ready within {seconds:g} s, so its import hangs or is "
        "slow; look at what its module does on import, or give a larger start_timeout="
    )


def not_ended(pids: dict[int, int], label: str, seconds: float) -> FleetError:
    """Make the error of processes that SIGKILL does not end."""
    who = ", ".join(f"{rank} (process {pid})" for rank, pid in pids.items())
    return FleetError(
        f"actor {who} of {label} still runs {seconds:g} s after SIGKILL, so the kernel waits for a "
        "disk or a network file system; make that answer, and the process ends"
    )


def not_started(rank: int, label: str, error: OSError) -> FleetError:
    """Make the error of a process that the system refused."""
    return FleetError(
        f"actor {rank} ({label}) cannot be started ({error}); free memory, processes or files"
    )


def not_supervised(error: Exception) -> FleetError:
    """Make the error of a supervisor that cannot go on."""
    if isinstance(error, OSError):
        message = (
            f"the system refused the supervisor of the fleet a call ({error}); free memory, "
            "processes or files"
        )
    else:
        message = f"the supervisor of the fleet failed ({error!r}); report this bug"
    failure = FleetError(message)
    failure.__cause__ = error
    return failure
