"""Refused draws, gathers, reads and waits, and calls of closed handles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    ClosedError,
    LappedError,
    SampleError,
    WaitTimeoutError,
)
from refusal import Row, World, check, table, world_at


def row(
    case: str, do: Callable[[Any, World], object], error: type[BackcastError], *words: str
) -> Row:
    """Call `pong`, typed as `Any` so that type checkers accept wrong arguments."""
    return Row(case, lambda world: do(world.pong, world), error, words)


SAMPLE = "batch_size, history=None, future=0"


@table(
    [
        row("batch of nothing", lambda b, w: b.sample(0), SampleError, "0", "1"),
        row("negative batch", lambda b, w: b.sample(-1), SampleError, "-1", "1"),
        row("huge batch", lambda b, w: b.sample(2**40), SampleError, str(2**40), "16777216"),
        row("float batch", lambda b, w: b.sample(1.5), ArgumentTypeError, "1.5"),
        row("bool batch", lambda b, w: b.sample(True), ArgumentTypeError, "True"),
        row("text batch", lambda b, w: b.sample("4"), ArgumentTypeError, "'4'"),
        row("no batch", lambda b, w: b.sample(), ArgumentTypeError, "batch_size"),
        row("misspelt", lambda b, w: b.sample(batchsize=1), ArgumentTypeError, "'batch_size'?"),
        row("unknown", lambda b, w: b.sample(4, seed=1), ArgumentTypeError, "'seed'", SAMPLE),
        row("history of nothing", lambda b, w: b.sample(4, 0), SampleError, "history", "0", "1"),
        row("long history", lambda b, w: b.sample(4, 60), SampleError, "60", "61", "50"),
        row("float history", lambda b, w: b.sample(4, 2.5), ArgumentTypeError, "2.5", "history"),
        row("future", lambda b, w: b.sample(4, future=-1), SampleError, "future", "-1", "0"),
        row("copy", lambda b, w: b.sample(4, copy="deep"), ArgumentTypeError, "'deep'", "True"),
        row("an empty ring", lambda b, w: w.empty.sample(1), SampleError, "0"),
        row(
            "both windows",
            lambda b, w: b.sampler(history=30, future=30),
            SampleError,
            "61",
            "50",
        ),
        row("n of nothing", lambda b, w: b.sampler(n_step=0, gamma=1), SampleError, "0", "1"),
        row("no gamma", lambda b, w: b.sampler(n_step=3), SampleError, "n_step=3"),
        row("large gamma", lambda b, w: b.sampler(n_step=3, gamma=2), SampleError, "2", "1"),
        row("text gamma", lambda b, w: b.sampler(gamma="1"), ArgumentTypeError, "'1'"),
        row("lone gamma", lambda b, w: b.sampler(gamma=0.9), SampleError, "0.9", "n_step"),
        row("no boundary", lambda b, w: b.sampler(boundary="cut"), SampleError, "cut", "clamp"),
        row("negative seed", lambda b, w: b.sampler(seed=-1), SampleError, "-1", "0"),
        row("huge seed", lambda b, w: b.sampler(seed=2**64), SampleError, str(2**64 - 1)),
        row("float seed", lambda b, w: b.sampler(seed=0.5), ArgumentTypeError, "0.5", "0"),
        row("bool seed", lambda b, w: b.sampler(seed=True), ArgumentTypeError, "True", "0"),
        row("seed by position", lambda b, w: b.sampler(7), ArgumentTypeError, "1"),
        row("sampler misspelt", lambda b, w: b.sampler(sed=7), ArgumentTypeError, "'seed'?"),
        row("sampler's class", lambda b, w: bc.Sampler(b), ArgumentTypeError, "sampler(seed"),
        row("sampler's batch", lambda b, w: w.sampler.sample(0), SampleError, "0", "1"),
        row("lapped", lambda b, w: b.gather([100, 0]), LappedError, "index[1]", "70"),
        row("newest row", lambda b, w: b.gather([119]), SampleError, "index[0]", "119"),
        row("empty lane", lambda b, w: b.gather([1 << 48]), SampleError, "1"),
        row("no such lane", lambda b, w: b.gather([7 << 48]), SampleError, "7"),
        row("negative index", lambda b, w: b.gather([-1]), SampleError, "-1"),
        row(
            "no such choice",
            lambda b, w: b.gather([100], missing="drop"),
            ArgumentError,
            "missing",
            "'drop'",
            "mask",
        ),
        row("float index", lambda b, w: b.gather([0.5]), SampleError, "float64", "i8"),
        row(
            "bool mask for an index",
            lambda b, w: b.gather([True]),
            SampleError,
            "np.flatnonzero",
        ),
        row(
            "bool among indices",
            lambda b, w: b.gather([100, True]),
            SampleError,
            "True",
        ),
        row(
            "NumPy's bool among indices",
            lambda b, w: w.sampler.gather([np.int64(100), np.False_]),
            SampleError,
            "False",
        ),
        row("no index", lambda b, w: b.gather([]), SampleError, "0", "1", "16777216"),
        row(
            "no index to fill with",
            lambda b, w: b.gather([], out={}),
            SampleError,
            "0",
            "1",
        ),
        row("index left out", lambda b, w: b.gather(), ArgumentTypeError, "index"),
        row(
            "index misspelt",
            lambda b, w: b.gather(idx=[1]),
            ArgumentTypeError,
            "'idx'",
            "missing='error'",
        ),
        row("old rows", lambda b, w: b.rows(0, 60, 20), SampleError, "60..80", "70..120"),
        row("rows to come", lambda b, w: b.rows(0, 110, 11), SampleError, "121", "120"),
        row("rows of no lane", lambda b, w: b.rows(9, 0, 1), SampleError, "9", "0", "3"),
        row("rows from below", lambda b, w: b.rows(0, -1, 1), SampleError, "-1", "0"),
        row("rows of lane -1", lambda b, w: b.rows(-1, 0, 1), SampleError, "-1", "0"),
        row("fewer than no rows", lambda b, w: b.rows(0, 70, -1), SampleError, "-1", "0"),
        row("rows by float", lambda b, w: b.rows(0, 70.0, 1), ArgumentTypeError, "70.0"),
        row("span of no lane", lambda b, w: b.lane_span(9), SampleError, "9", "0", "3"),
        row("span of a name", lambda b, w: b.lane_span("a"), ArgumentTypeError, "'a'"),
        row("wait for -1", lambda b, w: b.wait(-1), ArgumentError, "-1", "0"),
        row("wait by float", lambda b, w: b.wait(1.5), ArgumentTypeError, "1.5"),
        row(
            "wait for a bool",
            lambda b, w: b.wait(1, timeout=np.True_),
            ArgumentTypeError,
            "timeout",
            "np.True_",
        ),
        row(
            "discount in bool",
            lambda b, w: b.sampler(n_step=2, gamma=np.True_),
            ArgumentTypeError,
            "gamma",
            "np.True_",
        ),
        row("wait until -1", lambda b, w: b.wait(1, timeout=-1), ArgumentError, "-1", "None"),
        row("wait until nan", lambda b, w: b.wait(1, float("nan")), ArgumentError, "NaN", "None"),
        row("wait in words", lambda b, w: b.wait(1, "1 s"), ArgumentTypeError, "'1 s'"),
        row("wait in ms", lambda b, w: b.wait(1, timeout_ms=5), ArgumentTypeError, "'timeout'?"),
        row("too short", lambda b, w: b.wait(60, 0.01), WaitTimeoutError, "60", "49"),
        row("wait for ever", lambda b, w: b.wait(10**6), ArgumentError, "1000000", "200"),
    ]
)
def test_questions_that_cannot_be_answered(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


CLOSED: dict[str, Callable[[World], tuple[Any, Callable[[Any], object]]]] = {
    "len": lambda w: (w.pong, len),
    "sample": lambda w: (w.pong, lambda b: b.sample(1)),
    "gather": lambda w: (w.pong, lambda b: b.gather([100])),
    "rows": lambda w: (w.pong, lambda b: b.rows(0, 70, 1)),
    "lane_span": lambda w: (w.pong, lambda b: b.lane_span(0)),
    "writer": lambda w: (w.pong, lambda b: b.writer()),
    "sampler": lambda w: (w.pong, lambda b: b.sampler()),
    "stats": lambda w: (w.pong, lambda b: b.stats()),
    "capacity": lambda w: (w.pong, lambda b: b.capacity),
    "wait": lambda w: (w.pong, lambda b: b.wait(1)),
    "unlink": lambda w: (w.pong, lambda b: b.unlink()),
    "append": lambda w: (
        w.next_step,
        lambda a: a.append(obs={"x": [0] * 3, "y": 0}, action=0, terminated=False, truncated=False),
    ),
    "restart": lambda w: (w.next_step, lambda a: a.restart()),
    "rows_written": lambda w: (w.next_step, lambda a: a.rows_written),
    "draw": lambda w: (w.sampler, lambda s: s.sample(1)),
    "gather of a sampler": lambda w: (w.sampler, lambda s: s.gather([100])),
    "lapped": lambda w: (w.sampler, lambda s: s.lapped),
    "values": lambda w: (w.panel, lambda p: p.values),
    "windows": lambda w: (w.panel, lambda p: p.windows([1], [1], 1, 1)),
    "tickers": lambda w: (w.panel, lambda p: p.tickers),
}


@pytest.mark.parametrize("which", CLOSED)
def test_a_closed_handle_says_so_closes_again_and_shows_itself(
    place: Path, tmp_path: Path, which: str
) -> None:
    with world_at(place, tmp_path) as world:
        handle, use = CLOSED[which](world)
        with handle:
            pass
        handle.close()
        assert repr(handle).endswith("closed>")
        with pytest.raises(ClosedError):
            use(handle)
