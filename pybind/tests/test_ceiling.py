"""Insert ceilings: where writers stop, and what becomes of a ceiling."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backcast as bc
import pytest
from backcast.cli import main
from backcast.errors import ArgumentError, ArgumentTypeError, RateLimitTimeoutError
from facts import missing
from waits import WATCHDOG_S, join, read_line, until

if TYPE_CHECKING:
    from conftest import Child

COLUMNS: dict[str, Any] = {"obs": "f4"}
STEP: dict[str, Any] = {"obs": 1.0, "terminated": False, "truncated": False}
LIMITS = bc.RateLimiter(min_size=1)


def fill(buf: bc.ReplayBuffer) -> int:
    """Append until the limiter holds the writer, at most 40 rows; return the count of inserts."""
    assert buf.limiter is not None
    with buf.writer(timeout=0) as writer:
        for _ in range(40):
            try:
                writer.append(**STEP)
            except RateLimitTimeoutError:
                break
    return buf.limiter.inserts


def limiter(buf: bc.ReplayBuffer) -> bc.types.Limiter:
    """Return the limiter of a ring that has one."""
    found = buf.limiter
    assert found is not None
    return found


def test_a_ceiling_is_read_back_and_other_values_are_refused() -> None:
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=200, limiter=LIMITS)
    of = limiter(buf)
    assert (of.ceiling, buf.stats()["limiter"]["ceiling"]) == (None, None)
    for ceiling in (0, 7, 1 << 40, None):
        of.set_ceiling(ceiling)
        assert (of.ceiling, buf.stats()["limiter"]["ceiling"]) == (ceiling, ceiling)
    for bad, error in [(-1, ArgumentError), (1 << 64, ArgumentError), ("7", ArgumentTypeError)]:
        with pytest.raises(error) as raised:
            of.set_ceiling(bad)  # type: ignore[arg-type]
        assert missing(raised.value, ["inserts"]) == []
    assert of.ceiling is None


def test_an_append_at_the_ceiling_says_what_holds_it_and_goes_on_when_it_is_raised() -> None:
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=200, limiter=LIMITS)
    of = limiter(buf)
    of.set_ceiling(3)
    with buf.writer(timeout=WATCHDOG_S) as writer:
        for _ in range(4):
            writer.append(**STEP)
        thread = threading.Thread(target=lambda: writer.append(**STEP), daemon=True)
        thread.start()
        until(lambda: buf.stats()["limiter"]["writers"]["waiting"] == 1)
        assert of.inserts == 3
        of.set_ceiling(4)
        join(thread)
        assert of.inserts == 4
    with buf.writer(timeout=0) as writer:
        # It begins an episode, whose first row is no transition yet.
        writer.append(**STEP)
        with pytest.raises(RateLimitTimeoutError) as raised:
            writer.append(**STEP)
    assert missing(raised.value, ["ceiling 4", "set_ceiling"]) == []


SETTER = """
import sys
import backcast as bc
bc.ReplayBuffer.attach("shard").limiter.set_ceiling(5)
print("set", flush=True)
sys.stdin.read()
"""


def test_a_ceiling_outlives_the_process_that_set_it(
    place: Path, start: Callable[..., Child]
) -> None:
    with bc.ReplayBuffer.create("shard", COLUMNS, capacity=200, limiter=LIMITS, dir=place) as buf:
        child = start(SETTER)
        assert read_line(child) == "set\n"
        child.kill()
        child.wait(timeout=WATCHDOG_S)
        assert limiter(buf).ceiling == 5
        assert fill(buf) == 5
        assert main(["--dir", str(place), "limiter", "shard", "--ceiling", "9"]) == 0
        assert (fill(buf), limiter(buf).ceiling) == (9, 9)
        assert main(["--dir", str(place), "limiter", "shard", "--ceiling", "none"]) == 0
        assert limiter(buf).ceiling is None
        assert fill(buf) > 40
        buf.unlink()


def test_a_ceiling_stays_through_clear_and_resize_and_is_not_loaded(
    place: Path, tmp_path: Path
) -> None:
    with bc.ReplayBuffer.create("shard", COLUMNS, capacity=200, limiter=LIMITS, dir=place) as buf:
        limiter(buf).set_ceiling(5)
        assert fill(buf) == 5
        buf.clear()
        buf.resize(2_000)
        assert (fill(buf), limiter(buf).ceiling) == (5, 5)
        buf.snapshot("a", store=tmp_path)
        buf.unlink()
    with bc.ReplayBuffer.load("shard@a", "again", store=tmp_path, dir=place) as loaded:
        assert (limiter(loaded).inserts, limiter(loaded).ceiling) == (5, None)
        assert fill(loaded) > 30
        loaded.unlink()
