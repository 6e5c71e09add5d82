"""Reasons of waits, in the error after the timeout and in the warning after 10 seconds."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from waits import read_line

Start = Callable[..., Any]
COLUMNS = {"obs": "f4", "reward": "f4"}


def append(writer: bc.Writer, steps: int) -> None:
    lanes = len(writer.lanes)
    for t in range(steps):
        obs, ends = np.full(lanes, t), np.zeros(lanes, bool)
        writer.append(obs=obs, reward=obs, next_obs=obs + 1, terminated=ends, truncated=ends)


def test_a_draw_that_consumes_says_which_rows_wait_and_who_writes(place: Path) -> None:
    with bc.ReplayBuffer.create("queue", COLUMNS, capacity=1_000, lanes=4, dir=place) as buf:
        sampler = buf.sampler(select=bc.Consume())
        with buf.writer(4, "disabled") as writer:
            append(writer, 64)
            with pytest.raises(bc.WaitTimeoutError) as late:
                sampler.sample(256, timeout=0.01)
            said = str(late.value)
            assert "252" in said
            assert "4" in said
            assert f"({os.getpid()})" in said
        # Closing the writer stores the last observations, which completes the last transitions.
        with pytest.raises(bc.WaitTimeoutError, match=r"\b256\b"):
            sampler.sample(257, timeout=0.01)
        assert sampler.sample(256, timeout=0).index.shape == (256,)


def test_a_writer_of_another_process_is_named(place: Path, start: Start) -> None:
    with bc.ReplayBuffer.create("away", COLUMNS, capacity=1_000, dir=place) as buf:
        child = start(
            "import sys, backcast as bc\n"
            "writer = bc.ReplayBuffer.attach('away').writer()\n"
            "print('claimed', flush=True)\n"
            "sys.stdin.read()\n"
        )
        assert read_line(child) == "claimed\n"
        waits: list[Callable[[], object]] = [
            lambda: buf.wait(1, timeout=0),
            lambda: buf.wait(rows_published=1, timeout=0.01),
            lambda: buf.sampler(select=bc.Consume()).sample(1, timeout=0),
        ]
        for wait in waits:
            with pytest.raises(bc.WaitTimeoutError, match=rf"\b{child.pid}\b"):
                wait()
        child.communicate(timeout=60)


def test_a_wait_for_parameters_says_who_publishes(place: Path, start: Start) -> None:
    with bc.Params.create("policy", {"w": np.zeros(3)}, dir=place) as mine:
        with pytest.raises(bc.WaitTimeoutError, match=r"\b0\b"):
            mine.wait(1, timeout=0)
        with bc.Params.attach("policy", dir=place) as publisher:
            publisher.publish({"w": np.ones(3)})
            with pytest.raises(bc.WaitTimeoutError, match=r"\b1\b.*\b2\b"):
                mine.wait(2, timeout=0.01)
        child = start(
            "import sys, numpy as np, backcast as bc\n"
            "params = bc.Params.attach('policy')\n"
            "params.publish({'w': np.ones(3)})\n"
            "print('published', flush=True)\n"
            "sys.stdin.read()\n"
        )
        assert read_line(child) == "published\n", child.communicate(timeout=60)[1]
        with pytest.raises(bc.WaitTimeoutError, match=rf"\b{child.pid}\b"):
            mine.wait(9, timeout=0)
        child.communicate(timeout=60)


# Closing the handles ends the waits, once all of them have warned.
IN_THREADS = """
def run(wait):
    try:
        wait()
    except bc.ClosedError:
        pass
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    threads = [threading.Thread(target=run, args=[wait]) for wait in waits]
    for thread in threads: thread.start()
    def told():
        return [one for one in list(seen) if one.category is bc.errors.WaitWarning]
    while len(told()) < len(waits) and all(thread.is_alive() for thread in threads):
        threading.Event().wait(0.01)
    # A wait that warns again does so at its next check, or after 10 seconds more.
    threads[0].join(11)
    for handle in handles: handle.close()
    for thread in threads: thread.join()
"""

LONG = (
    """
import threading, warnings
import numpy as np, backcast as bc
buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
params = bc.Params.create(None, {"w": np.zeros(3)})
sampler = buf.sampler(select=bc.Consume())
waits = [
    lambda: buf.wait(rows_published=5, timeout=60),
    lambda: buf.wait(5, timeout=60),
    lambda: sampler.sample(4, timeout=60),
    lambda: params.wait(3, timeout=60),
]
handles = [sampler, buf, params]
"""
    + IN_THREADS
    + """\
assert {one.category for one in seen} == {bc.errors.WaitWarning}, seen
print(sorted(str(one.message).split(":")[0] for one in seen))
"""
)


def test_every_wait_warns_once_after_ten_seconds(start: Start) -> None:
    out, err = start(LONG).communicate(timeout=60)
    told = ast.literal_eval(out)
    assert len(told) == 4, out + err
    assert sum("consume" in one for one in told) == 1, out + err


HELD = (
    """
import threading, warnings
import backcast as bc
step = {"obs": 1.0, "terminated": False, "truncated": False}
queue = {"capacity": 100, "limiter": bc.RateLimiter.queue(1)}
full, empty = [bc.ReplayBuffer.create(None, {"obs": "f4"}, **queue) for _ in range(2)]
writer = full.writer(timeout=60)
for _ in range(2):
    writer.append(**step)
ring = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100, lease_timeout=60)
stalled = ring.writer()
for _ in range(20):
    stalled.append(**step)
lease = ring.lease(0, 0, 10)
for _ in range(ring.stats()["slots"] - 20):
    stalled.append(**step)
sampler = empty.sampler()
batches = [empty.sampler().batches(1, prefetch=depth, timeout=60) for depth in (0, 2)]
waits = [
    lambda: writer.append(**step),
    lambda: sampler.sample(1, timeout=60),
    lambda: next(batches[0]),
    lambda: next(batches[1]),
    lambda: stalled.append(**step),
]
handles = [writer, sampler, *batches, stalled]
"""
    + IN_THREADS
    + """\
print(sorted(str(one.message) for one in seen if one.category is bc.errors.WaitWarning))
"""
)


def test_what_a_limiter_or_a_lease_holds_back_warns_once_after_ten_seconds(start: Start) -> None:
    child = start(HELD)
    out, err = child.communicate(timeout=60)
    told = ast.literal_eval(out)
    assert len(told) == 5, out + err
    # The writer that the limiter holds back, and the one that the lease does.
    assert sum("lane 0" in one for one in told) == 2, out + err
    assert sum(f" {child.pid} (" in one for one in told) == 1, out + err
