"""Actor functions of fleets over nodes. Each actor's process imports this module."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import backcast as bc
from backcast.fleet import Context


def note(context: Context, name: str, folder: str) -> None:
    """Write down what the actor was given, append a row, and wait."""
    facts = context.rank, context.n, context.life, context.seed, name, os.getpid()
    Path(folder, f"{context.rank}-{context.seed}").write_text(" ".join(map(str, facts)))
    with bc.ReplayBuffer.attach(name) as buf, buf.writer() as writer:
        writer.append(obs=context.rank, terminated=False, truncated=False)
        writer.append(obs=context.rank, terminated=False, truncated=False)
        context.report(return_=float(context.rank), length=10, version=1, speed=context.rank)
        context.wait()


def count(context: Context, name: str, rows: int) -> None:
    with bc.ReplayBuffer.attach(name) as buf, buf.writer() as writer:
        for t in range(rows):
            writer.append(obs=t, terminated=False, truncated=False)
        context.report(return_=float(rows), length=rows)


def raise_on(context: Context, rank: int) -> None:
    if context.rank == rank:
        raise ValueError(f"no bananas for {context.rank}")
    context.wait()


def die_on(context: Context, rank: int) -> None:
    if context.rank == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    context.wait()


def pulled(context: Context, name: str) -> None:
    with bc.Params.attach(name) as params:
        context.report(version=params.version, weight=float(params.latest()["w"][0]))
        context.wait()


def no_context() -> None:
    """Take no context."""
