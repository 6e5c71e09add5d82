"""Actor functions of the fleet's tests. Each actor process imports this module."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import backcast as bc
from backcast import fleet
from backcast.fleet import Context


def until_stopped(context: Context) -> None:
    context.report(return_=1.0)
    context.wait()


def write_down(context: Context, folder: str) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    facts = [context.rank, context.n, context.life, context.seed, *(os.environ[x] for x in names)]
    Path(folder, f"{context.rank}").write_text(" ".join(map(str, facts)))


def report_all(context: Context, reports: int) -> None:
    for number in range(reports):
        fleet.report(return_=float(number), length=10 * context.rank, version=number)


def report_numbers(context: Context, reports: int) -> None:
    """Report `loss/critic` in every actor, and `größe` in actor 0 with an episode."""
    for number in range(reports):
        named = {"loss/critic": (context.rank + 1) * number}
        if context.rank:
            context.report(**named)
        else:
            context.report(return_=1.0, length=7, **named, größe=number)


def report_numbers_without_end(context: Context) -> None:
    while not context.stopped:
        context.report(one=1.0, two=2.0)


def append_slowly(context: Context, ring: str) -> None:
    """Append a row every 20 ms, without a look at the fleet."""
    with bc.ReplayBuffer.attach(ring) as buf, buf.writer() as writer:
        while True:
            writer.append(obs=1, terminated=False, truncated=False)
            time.sleep(0.02)


def append_fast(context: Context, ring: str) -> None:
    """Append as fast as the rate limiter of the ring allows, without a look at the fleet."""
    with bc.ReplayBuffer.attach(ring) as buf, buf.writer() as writer:
        while True:
            writer.append(obs=1, terminated=False, truncated=False)


def await_version(context: Context, params: str, version: int) -> None:
    bc.Params.attach(params).wait(version)


def look_at_the_flag(context: Context) -> None:
    while not context.stopped:
        time.sleep(0.01)


def hang_in_first_life(context: Context, how: str = "lock") -> None:
    """Hang in actor 1: in Python's code, in a lock, stopped, or outside of the interpreter."""
    if context.rank == 1 and context.life == 0:
        if how == "lock":
            threading.Event().wait()
        while how == "loop":
            pass
        if how == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "native":
            re.match("(a*)*b", 100 * "a")
    context.wait()


def raise_at(context: Context, step: int) -> None:
    for number in range(step + 1):
        if context.rank == 1 and number == step:
            raise ValueError(f"no bananas in step {number}")
    context.wait()


def raise_when_told(context: Context, folder: str) -> None:
    """Raise in actor 1 once the file `go` exists, which the test makes in the fleet's block."""
    if context.rank == 1:
        while not Path(folder, "go").exists() and not context.wait(0.01):
            pass
        raise ValueError("no bananas")
    context.wait()


def raise_in_first_lives(context: Context, lives: int) -> None:
    context.report(length=context.life)
    if context.life < lives:
        raise ValueError("not yet")


def die_in_first_lives(context: Context, lives: int) -> None:
    context.report(length=context.life)
    if context.life < lives:
        os.kill(os.getpid(), signal.SIGKILL)


def leave_with(context: Context, status: int) -> None:
    sys.exit(status)


def vanish_with(context: Context, status: int) -> None:
    os._exit(status)


def never_look_at_the_flag(context: Context, folder: str) -> None:
    context.report(length=0)
    try:
        threading.Event().wait()
    finally:
        Path(folder, "interrupted").touch()


def refuse_to_stop(context: Context, folder: str | None = None) -> None:
    """Ignore SIGTERM; make a file in the folder, and another when the fleet stops."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    context.report(length=0)
    if folder is not None:
        Path(folder, f"refuses-{context.rank}").touch()
        context.wait()
        Path(folder, f"asked-{context.rank}").touch()
    threading.Event().wait()


def interrupt_the_parent_when_stopped(
    context: Context, how: str = "SIGINT", folder: str | None = None
) -> None:
    """Send a signal to the parent when the fleet stops.

    The process ignores SIGTERM before its first report, so the fleet cannot end it before it sends
    the signal.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    context.report(length=0)
    if folder is not None:
        raise_when_told(context, folder)
    context.wait()
    os.kill(os.getppid(), signal.Signals[how])


def with_a_grandchild(context: Context, folder: str) -> None:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(folder, f"grandchild-{os.getpid()}").touch()
        threading.Event().wait()
    context.wait()


not_a_function = 7
