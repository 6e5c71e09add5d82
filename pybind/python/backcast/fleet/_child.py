"""Process of a function actor: imports it, calls it, and tells the parent how it ended.

The parent says when to begin and when to stop, and asks where a silent child is. The child says
that it is ready, what failed, or where it is. A parent that dies closes the connection, and the
child ends by itself; the guardian kills it if not.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing import process, spawn
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import backcast as bc
from backcast._native import _closest_name
from backcast.fleet import _context
from backcast.fleet._environment import Identity
from backcast.fleet._process import WHERE

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from types import FrameType

_ORPHAN_S = 1.0
_EXIT_ORPHANED = 70
_LONGEST_TEXT = 4096
_LONGEST_TRACE = 16384
_WAITS = {
    inspect.unwrap(wait).__code__
    for wait in (_context.Context.wait, bc.Params.wait, bc.Fleet._wait_until)
}
"""Calls in which an actor waits for others; that of a fleet without the functions of `log_to`."""


class UnknownFunctionError(Exception):
    """The module of the actor has no such function."""


class MainModuleError(Exception):
    """The main module of the parent raised as it was run here."""


class ParentLink:
    """Child's end of the connection; a thread answers the parent until it requests to stop."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self.stop = threading.Event()
        threading.Thread(target=self._listen, name="fleet", daemon=True).start()

    def handle_termination(self) -> None:
        """Have SIGTERM end the function in order, from now on."""
        signal.signal(signal.SIGTERM, self._terminated)

    def say(self, kind: str, **facts: str) -> None:
        """Send a message; a parent that is gone does not matter."""
        try:
            with self._sending:
                self._connection.send_bytes(json.dumps({"kind": kind, **facts}).encode())
        except OSError:
            self.stop.set()

    def fail(self, kind: str, error: BaseException) -> None:
        """Send an exception with its traceback, without the frames of this module."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        shown = "".join(
            traceback.format_exception(type(error), error, trace or error.__traceback__)
        )
        name = type(error).__name__
        text = f"{name}: {error}" if str(error) else name
        self.say(kind, text=text[:_LONGEST_TEXT], trace=shown[-_LONGEST_TRACE:])

    def _listen(self) -> None:
        try:
            while self._connection.recv_bytes() == WHERE:
                waits, stack = False, ""
                # Without an answer this thread still hears the request to stop.
                with suppress(Exception):
                    waits, stack = _place()
                self.say("waits" if waits else "hangs", trace=stack[-_LONGEST_TRACE:])
            self.stop.set()
        except (EOFError, OSError):
            self.stop.set()
            # The thread ends with the process, if that ends in time.
            threading.Event().wait(_ORPHAN_S)
            os._exit(_EXIT_ORPHANED)

    def _terminated(self, number: int, _frame: FrameType | None) -> NoReturn:
        """End a function that does not check the flag; die of a SIGTERM from elsewhere."""
        if self.stop.is_set():
            raise SystemExit(0)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        raise SystemExit(128 + number)


def _place() -> tuple[bool, str]:
    """Return whether the function waits for the fleet or for parameters, and its stack as text."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    stack = list(traceback.walk_stack(frame))[::-1]
    own = [at for at, (frame, _) in enumerate(stack) if frame.f_code.co_filename == __file__]
    waits = any(frame.f_code in _WAITS for frame, _ in stack)
    shown = traceback.StackSummary.extract(iter(stack[own[-1] + 1 if own else 0 :]))
    return waits, "Stack (most recent call last):\n" + "".join(shown.format())


def main(connection: Connection[Any, Any], payload: int) -> None:
    """Run the function of `payload`, a descriptor, in this process."""
    link = ParentLink(connection)
    try:
        function, args = _load(payload)
    except UnknownFunctionError as error:
        link.say("unknown", text=str(error))
        sys.exit(1)
    except MainModuleError as error:
        if not link.stop.is_set():
            link.fail("main", error.__cause__ or error)
        sys.exit(1)
    except SystemExit as error:
        if not link.stop.is_set():
            link.fail("import", error)
        raise
    except BaseException as error:
        link.fail("import", error)
        sys.exit(1)
    context = _context.Context(Identity.of_process(), link.stop)
    _context.use(context)
    _load_numpy()
    link.handle_termination()
    link.say("ready")
    try:
        function(context, *args)
    except SystemExit as error:
        if error.code not in (None, 0) and not link.stop.is_set():
            link.fail("error", error)
        raise
    except BaseException as error:
        link.fail("error", error)
        sys.exit(1)


def _load_numpy() -> None:
    """Have the native module load NumPy's interface, which an interrupt must not end half-way."""
    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=2) as buf, buf.writer() as writer:
        writer.append(x=np.zeros((), "f4"), terminated=False, truncated=False)


def _load(payload: int) -> tuple[Callable[..., object], tuple[object, ...]]:
    """Make the parent's main module importable, then import the function."""
    size, content = os.fstat(payload).st_size, b""
    while len(content) < size:
        # The offset of the descriptor is shared with other children.
        content += os.pread(payload, size - len(content), len(content))
    os.close(payload)
    current = process.current_process()
    current._inheriting = True  # type: ignore[attr-defined]
    try:
        # The preparation comes first: unpickling may need the main module.
        preparation, target, args = pickle.loads(content)
        try:
            spawn.prepare(preparation)
        except BaseException as error:
            raise MainModuleError from error
        target, args = pickle.loads(target), pickle.loads(args)
        function = _function(target) if isinstance(target, str) else target
    finally:
        del current._inheriting  # type: ignore[attr-defined]
    return function, args


def _function(path: str) -> Callable[..., object]:
    name, _, attribute = path.partition(":")
    module = importlib.import_module(name)
    function = getattr(module, attribute, None)
    if function is None:
        near = _closest_name(attribute, dir(module))
        hint = f"did you mean {near!r}?" if near else "define it there"
        raise UnknownFunctionError(f"module {name!r} has no {attribute!r}; {hint}")
    if not callable(function):
        raise UnknownFunctionError(f"{path!r} is {function!r}; give a function")
    return function  # type: ignore[no-any-return]
