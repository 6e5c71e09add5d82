"""Parent process of the demo: starts children, reads their messages and ends them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from backcast.demo.child import run_child

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from types import FrameType

    from backcast.demo.child import Link

    Message = dict[str, Any]

_STOP_SECONDS = 5.0
_TERMINATE_SECONDS = 2.0


class ChildFailedError(Exception):
    """A child process ended before it was asked to."""


# Signals of Ctrl-C, of a service manager that stops the run, and of a terminal that closes.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Signals that a terminal sends to all processes in it.
_OF_TERMINALS = frozenset({signal.SIGINT, signal.SIGHUP})


class InterruptedRunError(Exception):
    """Ctrl-C, SIGTERM or SIGHUP interrupted the run."""


class Interrupts:
    """Turns SIGINT, SIGTERM and SIGHUP into a flag, so that cleanup is not interrupted."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        """Install the signal handlers."""
        for number in _ENDING:
            # `nohup` ignores SIGHUP, so that a closing terminal does not end the run.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number)

    def check(self) -> None:
        """Raise if a signal came in."""
        if self.received is not None:
            raise InterruptedRunError(self.received.name)


@dataclass
class Child:
    """One child process and the parent's end of its pipe."""

    name: str
    process: SpawnProcess
    pipe: Connection[Any, Any]
    expected_to_end: bool = False

    def messages(self) -> list[Message]:
        """Receive the pending messages of the child."""
        said: list[Message] = []
        with suppress(EOFError, OSError):
            while self.pipe.poll():
                said.append(self.pipe.recv())
        return said


@dataclass
class Fleet:
    """All children. Leaving the context ends them, however it is left."""

    children: list[Child] = field(default_factory=list)

    def __enter__(self) -> Fleet:
        """Create an empty fleet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all children that still run."""
        self.stop()

    def start(self, name: str, work: Callable[[Any, Link], None], settings: object) -> Child:
        """Spawn a child that runs ``work(settings, link)``."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=True)
        process = context.Process(
            target=run_child, args=(work, settings, theirs), name=f"backcast-demo-{name}"
        )
        # Starting it unblocks SIGINT, so it must not happen inside `process.start()`.
        resource_tracker.ensure_running()
        # A terminal sends them to every process; children inherit the mask and leave them to us.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
        try:
            process.start()
            child = Child(name, process, ours)
            self.children.append(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        return child

    def listen(self, timeout_seconds: float) -> list[tuple[Child, Message]]:
        """Wait for messages, up to a timeout; raise if a child failed."""
        watched: list[Any] = [child.pipe for child in self.children]
        watched += [child.process.sentinel for child in self.children]
        multiprocessing.connection.wait(watched, timeout_seconds)
        news: list[tuple[Child, Message]] = []
        ended = []
        for child in self.children:
            # Read the status first, so that no last message of a child is missed.
            if child.process.exitcode is not None:
                ended.append(child)
            news += [(child, message) for message in child.messages()]
        for child, message in news:
            if message["kind"] == "error":
                raise ChildFailedError(_failure(child, message))
        for child in ended:
            if not child.expected_to_end:
                raise ChildFailedError(f"{child.name} {_ending(child.process.exitcode)}")
            self._forget(child)
        return news

    def kill(self, child: Child) -> None:
        """SIGKILL a child, as the kernel would when memory runs out."""
        child.process.kill()
        child.process.join()
        self._forget(child)

    def stop(self) -> list[tuple[Child, Message]]:
        """Ask all children to finish, wait, then kill them; return their last messages."""
        for child in self.children:
            child.expected_to_end = True
            with suppress(OSError):
                child.pipe.send("stop")
        last_words: list[tuple[Child, Message]] = []
        deadline = time.monotonic() + _STOP_SECONDS
        while self.children and time.monotonic() < deadline:
            pipes = [child.pipe for child in self.children]
            sentinels = [child.process.sentinel for child in self.children]
            multiprocessing.connection.wait([*pipes, *sentinels], 0.1)
            for child in list(self.children):
                ended = child.process.exitcode is not None
                last_words += [(child, message) for message in child.messages()]
                if ended:
                    last_words += _complaint(child)
                    self._forget(child)
        for child in list(self.children):
            child.process.terminate()
            child.process.join(_TERMINATE_SECONDS)
            if child.process.exitcode is None:
                child.process.kill()
                child.process.join()
            last_words += _complaint(child)
            self._forget(child)
        return last_words

    def _forget(self, child: Child) -> None:
        self.children.remove(child)
        child.pipe.close()
        child.process.join()
        child.process.close()


def _failure(child: Child, message: Message) -> str:
    return f"{child.name} failed: {message['text']}\n{message.get('trace', '')}".rstrip()


def _complaint(child: Child) -> list[tuple[Child, Message]]:
    if child.process.exitcode == 0:
        return []
    return [(child, {"kind": "error", "text": _ending(child.process.exitcode)})]


def _ending(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended early with status {exit_code}"
