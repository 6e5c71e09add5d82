"""Limits that a process requires when it attaches, and the limits that `create` sets."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backcast as bc
import pytest
from facts import missing

if TYPE_CHECKING:
    from conftest import Child

COLUMNS: dict[str, Any] = {"obs": "f4"}
LIMITS = bc.RateLimiter(samples_per_insert=4, min_size=10, error_buffer=20)


def limiter(buf: bc.ReplayBuffer) -> bc.types.Limiter:
    """Return the limiter of a ring that has one."""
    found = buf.limiter
    assert found is not None
    return found


def ring_at(place: Path, name: str, **more: Any) -> bc.ReplayBuffer:  # noqa: ANN401 - of create
    """Make a named ring."""
    return bc.ReplayBuffer.create(name, COLUMNS, capacity=200, dir=place, **more)


def test_the_other_process_asks_for_the_same_ratio(
    place: Path, start: Callable[..., Child]
) -> None:
    limits = bc.RateLimiter(4, min_size=10, error_buffer=64)
    with bc.ReplayBuffer.create("ratio", COLUMNS, capacity=5_000, limiter=limits, dir=place) as buf:
        assert limiter(buf).limits == limits
        actor = start(RATIO_ACTOR, "1001")
        sampler = buf.sampler(seed=1)
        for _ in range(30):
            sampler.sample(32, timeout=60)
            counts = limiter(buf)
            assert -24 <= counts.inserts * 4 - counts.samples <= 104, "the error band"
        assert actor.poll() is None, "the actor is held back until there are more draws"
        for _ in range(93):
            sampler.sample(32, timeout=60)
        out, error = actor.communicate(timeout=60)
        assert (out, error, actor.returncode) == ("1000\n", "", 0)
        assert limiter(buf).inserts == 1_000


RATIO_ACTOR = """
import sys
import backcast as bc
limits = bc.RateLimiter(4)
with bc.ReplayBuffer.attach("ratio", limiter=limits) as buf, buf.writer() as writer:
    for _ in range(int(sys.argv[1])):
        writer.append(obs=1, terminated=False, truncated=False)
    print(buf.limiter.inserts)
"""


def test_without_an_error_buffer_there_is_room_for_some_batches() -> None:
    for ratio, error in ((1.0, 1024.0), (32.0, 2048.0)):
        limits = bc.RateLimiter(ratio)
        with bc.ReplayBuffer.create(None, COLUMNS, capacity=200, limiter=limits) as buf:
            assert limiter(buf).limits == bc.RateLimiter(ratio, 1, error)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"limiter": bc.RateLimiter(8, min_size=300)}, ["min_size", "300", "199"]),
        ({"limiter": 8}, ["limiter", "8", "backcast.RateLimiter"]),
        ({"samples_per_insert": 4}, ["`samples_per_insert`", "limiter=bc.RateLimiter("]),
        ({"samples_per_insert": 4, "limiter": LIMITS}, ["limiter=bc.RateLimiter("]),
        ({"min_size": 8}, ["`min_size`", "limiter=bc.RateLimiter(min_size=...)"]),
        ({"error_buffer": 8, "limiter": LIMITS}, ["`error_buffer`", "error_buffer=...)"]),
    ],
)
def test_a_ratio_that_cannot_be_kept_is_refused_before_there_is_a_ring(
    place: Path, arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(bc.errors.ArgumentError) as raised:
        bc.ReplayBuffer.create("ratio", COLUMNS, capacity=200, dir=place, **arguments)
    assert missing(raised.value, words) == []
    assert bc.list_objects(dir=place) == []


def test_an_attach_that_relies_on_another_ratio_is_refused(place: Path) -> None:
    attach = bc.ReplayBuffer.attach
    with ring_at(place, "four", limiter=LIMITS) as buf:
        with pytest.raises(bc.ExistsError, match=r"\b8\b.*\b4\b"):
            attach("four", limiter=bc.RateLimiter(8), dir=place)
        limiter(buf).set(bc.RateLimiter(8, min_size=10, error_buffer=20))
        attach("four", limiter=bc.RateLimiter(8), dir=place).close()
    with (
        ring_at(place, "first", limiter=bc.RateLimiter(min_size=5)),
        pytest.raises(bc.ExistsError, match=r"\b1\b"),
    ):
        attach("first", limiter=bc.RateLimiter(1), dir=place)
    with (
        ring_at(place, "without"),
        pytest.raises(bc.errors.ArgumentError, match="limiter="),
    ):
        attach("without", limiter=bc.RateLimiter(4), dir=place)
    with pytest.raises(bc.errors.ArgumentError, match="four@label"):
        attach("four@label", limiter=bc.RateLimiter(4), dir=place)


def test_an_attach_compares_the_limits_that_were_given(place: Path) -> None:
    limits = bc.RateLimiter(8, min_size=50, error_buffer=80)
    with ring_at(place, "held", limiter=limits) as buf:

        def attach(required: bc.RateLimiter) -> None:
            bc.ReplayBuffer.attach("held", limiter=required, dir=place).close()

        for same in (
            bc.RateLimiter(8),
            bc.RateLimiter(8, min_size=50),
            bc.RateLimiter(8, error_buffer=80),
            bc.RateLimiter(8, error_buffer=(320, 480), min_size=50),
            bc.RateLimiter(min_size=50),
            bc.RateLimiter(8, no_learner="wait", no_writer="wait", enabled=True),
            bc.RateLimiter(),
            limits,
            limiter(buf).limits,
        ):
            attach(same)
            attach(pickle.loads(pickle.dumps(same)))
        for other, message in (
            (bc.RateLimiter(4), r"\bsamples_per_insert\b.*\b4\b.*\b8\b"),
            (bc.RateLimiter(8, min_size=1), r"\bmin_size\b.*\b1\b.*\b50\b"),
            (bc.RateLimiter(min_size=51), r"\bmin_size\b.*\b51\b.*\b50\b"),
            (bc.RateLimiter(8, error_buffer=81), r"\berror_buffer\b.*\b81\b.*\b80\b"),
            (bc.RateLimiter(8, 50, (320, 481)), r"\berror_buffer\b.*\b320\b.*\b481\b.*\b320\b"),
            (bc.RateLimiter(8, no_learner="pass"), r"\bno_learner\b"),
            (bc.RateLimiter(8, no_writer="error"), r"\bno_writer\b"),
            (bc.RateLimiter(8, enabled=False), r"\benabled\b"),
        ):
            for required in (other, pickle.loads(pickle.dumps(other))):
                with pytest.raises(bc.ExistsError, match=message):
                    attach(required)
        limiter(buf).disable()
        attach(bc.RateLimiter(8))
        with pytest.raises(bc.ExistsError, match=r"\benabled\b"):
            attach(bc.RateLimiter(8, enabled=True))
        with pytest.raises(
            bc.errors.ArgumentTypeError, match=r"\blimiter\b.*\b8\b.*backcast\.RateLimiter"
        ):
            attach(8)  # type: ignore[arg-type]
        assert limiter(buf).limits != limits, "an attach changes nothing"
        limiter(buf).enable()
        assert limiter(buf).limits == limits
