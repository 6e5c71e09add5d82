"""Actor functions of the fleets of these tests. Each actor's process imports this module."""

from __future__ import annotations

import os
from pathlib import Path

import backcast as bc
from backcast.fleet import Context


def act(context: Context, name: str, place: str, notes: str) -> None:
    """Append rows with the newest parameters until the fleet stops."""
    facts = context.rank, context.n, context.life, context.seed, os.getpid(), name
    Path(notes, f"{context.rank}-{context.seed}").write_text(" ".join(map(str, facts)))
    with (
        bc.ReplayBuffer.attach(name, dir=place) as buf,
        bc.Params.attach(name, dir=place) as params,
        buf.writer() as writer,
    ):
        while not context.stopped:
            params.pull()
            weight = float(params.arrays["w"][0])
            writer.append(
                obs=context.rank, acted=weight, next_obs=0, terminated=False, truncated=False
            )
            context.report(return_=1.0, length=1, version=params.pulled)
            context.wait(0.05)


def raise_on(context: Context, rank: int) -> None:
    """Raise in one actor."""
    if context.rank == rank:
        raise ValueError(f"no bananas for {context.rank}")
    context.wait()
