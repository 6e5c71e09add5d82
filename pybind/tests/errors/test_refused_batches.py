"""Refused arrays to fill with a batch, and refused iterators of batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from backcast.errors import ArgumentTypeError, BackcastError, SampleError
from numpy.typing import NDArray
from refusal import Row, check, table, world_at


def row(case: str, do: Callable[[Any], object], error: type[BackcastError], *words: str) -> Row:
    """Call the sampler, typed as `Any` so that type checkers accept wrong arguments."""
    return Row(case, lambda world: do(world.sampler), error, words)


def of_ring(case: str, do: Callable[[Any], object], *words: str) -> Row:
    """Call the ring, typed as `Any`."""
    return Row(case, lambda world: do(world.pong), ArgumentTypeError, words)


def nameless(of: Callable[..., Any]) -> Row:
    """Draw by a table whose name is empty."""
    words = ("name a table", "empty")
    case = f"a table without a name, {of.__name__}"
    return Row(case, lambda w: w.pong.sampler(select=of(table="")), bc.errors.ArgumentError, words)


def into(case: str, out: Any, *words: str) -> Row:  # noqa: ANN401 - anything is tried
    """Draw two transitions into `out`."""
    return row(case, lambda s: s.sample(2, out=out), SampleError, *words)


def other(**settings: Any) -> bc.Batch:  # noqa: ANN401
    """Draw a batch of two from a new ring."""
    buf = bc.ReplayBuffer.create(None, {"obs": {"x": ("f4", (3,))}}, capacity=50)
    with buf.writer() as writer:
        for t in range(9):
            writer.append(obs={"x": [t] * 3}, terminated=False, truncated=False)
    return buf.sampler(seed=1, **settings).sample(2)


def read_only() -> NDArray[np.uint8]:
    """Make a read-only array."""
    array = np.zeros(2, "u1")
    array.flags.writeable = False
    return array


SHARED = np.zeros(6, "i8")


@table(
    [
        into("another schema", other(), "'obs/y'", "i4 [2]"),
        into("windows", other(history=3), "'obs/x'", "f4 [2, 3, 3]", "f4 [2, 3]"),
        into("another dtype", {"action": np.zeros(2)}, "out['action']", "float64", "uint8"),
        into("another shape", {"action": np.zeros((2, 1), "u1")}, "(2, 1)", "(2,)"),
        into("a list", {"action": [0, 0]}, "out['action']", "NumPy"),
        into("every other", {"action": np.zeros(4, "u1")[::2]}, "out['action']"),
        into("read-only", {"action": read_only()}, "out['action']"),
        into("twice", {"index": SHARED[:2], "age": SHARED[1:3]}, "out['age']"),
        into("a slip", {"acton": np.zeros(2, "u1")}, "'acton'", "action"),
        into("a slip below", {"obs": {"z": np.zeros(2)}}, "'obs/z'", "obs/x"),
        into("no dict below", {"obs": np.zeros((2, 3), "f4")}, "out['obs']"),
        row("no dict", lambda s: s.sample(2, out=[]), ArgumentTypeError, "out"),
        row("too many ahead", lambda s: s.batches(2, 1025), SampleError, "1025", "0", "1024"),
        row("less than none", lambda s: s.batches(2, prefetch=-1), SampleError, "-1", "0"),
        row("a third", lambda s: s.batches(2, 2, 9), ArgumentTypeError, "limit"),
        row("half", lambda s: s.batches(2, 0.5), ArgumentTypeError, "0.5", "prefetch"),
        row("nothing ahead", lambda s: s.batches(0), SampleError, "batch_size", "0", "1"),
        row("no size", lambda s: s.batches(), ArgumentTypeError, "batch_size"),
        row("all ahead", lambda s: s.batches(None), ArgumentTypeError, "sample(None)", "Consume"),
        of_ring("all of a ring", lambda r: r.sample(None), "batch_size", "sample(None)", "Consume"),
        of_ring("some of a ring", lambda r: r.sample(2, at_most=1), "'at_most'", "Consume"),
        *(nameless(of) for of in (bc.Priority, bc.Largest, bc.Epoch, bc.Consume)),
        row("limit", lambda s: s.batches(2, limit=-1), SampleError, "limit", "-1", "0"),
        row("reuse", lambda s: s.batches(2, reuse=3), ArgumentTypeError, "True", "reuse"),
        row("called", lambda s: bc.types.Batches(s), ArgumentTypeError, "buf.sampler("),
        Row(
            "gather of fewer",
            lambda w: w.sampler.gather([100], out=w.kept[-1]),
            SampleError,
            ("'obs/x'", "f4 [2, 3]", "f4 [1, 3]"),
            lambda w: w.kept.append(w.sampler.sample(2)),
        ),
        Row(
            "a cut window",
            lambda w: w.kept[-1].gather([70]),
            SampleError,
            ("index[0]", "70", "boundary='reject'"),
            lambda w: w.keep(w.pong.sampler(seed=1, history=3, boundary="reject")),
        ),
    ]
)
def test_batches_that_cannot_be_drawn(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)
