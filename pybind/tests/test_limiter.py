"""Rate limiters: what is refused, who waits for whom, and what ends a wait."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backcast as bc
import pytest
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    ClosedError,
    ExistsError,
    InUseError,
    RateLimitError,
    RateLimitTimeoutError,
    SampleError,
)
from facts import missing
from waits import WATCHDOG_S, join, read_line, until

if TYPE_CHECKING:
    from conftest import Child

COLUMNS: dict[str, Any] = {"obs": "f4"}
STEP: dict[str, Any] = {"obs": 1.0, "terminated": False, "truncated": False}
STEPS: dict[str, Any] = {name: [value] for name, value in STEP.items()}
LIMITS = bc.RateLimiter(samples_per_insert=4, min_size=10, error_buffer=20)


def ring(limits: bc.RateLimiter, **more: Any) -> bc.ReplayBuffer:  # noqa: ANN401 - of create
    """Make a private ring."""
    return bc.ReplayBuffer.create(None, COLUMNS, capacity=200, limiter=limits, **more)


def limiter(buf: bc.ReplayBuffer) -> bc.types.Limiter:
    """Return the limiter of a ring that has one."""
    found = buf.limiter
    assert found is not None
    return found


def fill(writer: bc.Writer, transitions: int) -> None:
    """Append one row more than `transitions`, because the last row has no successor yet."""
    for _ in range(transitions + 1):
        writer.append(**STEP)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"samples_per_insert": 0, "error_buffer": 5}, ["samples_per_insert", "0", "0"]),
        ({"samples_per_insert": -1, "error_buffer": 5}, ["samples_per_insert", "-1", "0"]),
        ({"samples_per_insert": float("nan"), "error_buffer": 5}, ["samples_per_insert", "NaN"]),
        ({"samples_per_insert": 0}, ["samples_per_insert", "0", "0"]),
        ({"error_buffer": 8}, ["samples_per_insert"]),
        ({"min_size": 0}, ["min_size", "0", "1"]),
        ({"min_size": -3}, ["min_size", "-3", "1"]),
        ({"samples_per_insert": 8, "error_buffer": 3}, ["6", "4"]),
        ({"samples_per_insert": 8, "error_buffer": -3}, ["11", "5", "0"]),
        ({"samples_per_insert": 1, "error_buffer": (5, 9)}, ["5", "1"]),
        ({"min_size": 1, "no_learner": "perhaps"}, ["perhaps", '"wait"', '"pass"', '"error"']),
        ({"min_size": 1, "no_writer": "go"}, ["no_writer", "`go`", '"wait"', '"pass"', '"error"']),
    ],
)
def test_limits_that_can_never_be_satisfied_are_refused(
    arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ArgumentError) as raised:
        bc.RateLimiter(**arguments)
    assert missing(raised.value, words) == []


def test_a_minimum_beyond_the_ring_is_refused_before_there_is_a_ring(place: Path) -> None:
    limits = bc.RateLimiter(min_size=100)
    with pytest.raises(ArgumentError, match=r"\bmin_size\b.*\b100\b.*\b98\b"):
        bc.ReplayBuffer.create("held", COLUMNS, capacity=100, lanes=2, limiter=limits, dir=place)
    assert bc.list_objects(dir=place) == []
    with ring(bc.RateLimiter(min_size=10)) as buf:
        with pytest.raises(ArgumentError, match=r"\bmin_size\b.*\b300\b.*\b199\b"):
            limiter(buf).set(bc.RateLimiter(min_size=300))
        assert limiter(buf).limits == bc.RateLimiter(min_size=10)


@pytest.mark.parametrize("call", ["append", "extend", "reserve"])
def test_rows_that_a_resize_brings_back_count_before_the_next_row(call: str, place: Path) -> None:
    limits = bc.RateLimiter(1, min_size=2, error_buffer=(2, 5))
    with (
        bc.ReplayBuffer.create(
            "grows", COLUMNS, capacity=4, lanes=2, limiter=limits, dir=place
        ) as buf,
        buf.writer(timeout=0) as writer,
    ):
        # The lane forgets rows as they come, so one transition can be drawn: below `min_size`.
        fill(writer, 5)
        assert len(buf) == 1
        assert buf.resize(20, timeout=0)["lanes_waiting"] == [0]
        arguments = {"append": STEP, "extend": STEPS}.get(call, {})
        with pytest.raises(RateLimitTimeoutError):
            getattr(writer, call)(**arguments)
        assert len(buf) == 5


def test_a_minimum_beyond_a_resize_that_waits_names_its_lanes(place: Path) -> None:
    limits = bc.RateLimiter(min_size=1)
    with bc.ReplayBuffer.create("held", COLUMNS, capacity=100, limiter=limits, dir=place) as buf:
        with buf.writer() as writer:
            fill(writer, 5)
            assert buf.resize(400, timeout=0)["lanes_waiting"] == [0]
            with pytest.raises(InUseError, match=r"\b99\b.*\[0\]"):
                limiter(buf).set(bc.RateLimiter(min_size=300))
            writer.append(**STEP)
        limiter(buf).set(bc.RateLimiter(min_size=300))


def test_limits_show_compare_and_pickle() -> None:
    assert (LIMITS.samples_per_insert, LIMITS.min_size) == (4, 10)
    assert (LIMITS.error_band, LIMITS.no_learner, LIMITS.enabled) == ((20, 60), "wait", True)
    for limits in [
        LIMITS,
        bc.RateLimiter(min_size=3, no_learner="pass"),
        bc.RateLimiter.queue(5),
        bc.RateLimiter.queue(5, no_learner="error", no_writer="pass"),
    ]:
        assert pickle.loads(pickle.dumps(limits)) == limits == copy.copy(limits)
        assert eval(repr(limits), {"RateLimiter": bc.RateLimiter}) == limits
        assert hash(limits) == hash(copy.copy(limits))
    assert bc.RateLimiter(min_size=3) != bc.RateLimiter(min_size=3, enabled=False)
    assert LIMITS.can_sample(20, inserts=10)
    assert not LIMITS.can_sample(21, inserts=10)
    assert not LIMITS.can_sample(1, inserts=9)
    assert LIMITS.can_insert(1, inserts=14)
    assert not LIMITS.can_insert(1, inserts=15)
    assert LIMITS.can_insert(1, inserts=15, samples=4)
    assert LIMITS.can_insert(600, inserts=14), "an append is admitted whole"


def test_a_ring_without_a_limiter_has_none_and_ignores_time_outs() -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=100) as buf:
        assert buf.limiter is None
        assert buf.stats()["limiter"] is None
        with buf.writer(timeout=0) as writer:
            fill(writer, 5)
        assert buf.sample(4, timeout=0)["obs"].shape == (4,)


def test_a_ring_that_is_attached_has_the_limiter_it_was_created_with(place: Path) -> None:
    def create(limits: bc.RateLimiter | None) -> bc.ReplayBuffer:
        return bc.ReplayBuffer.create(
            "held", COLUMNS, capacity=100, limiter=limits, exist="attach", dir=place
        )

    with create(LIMITS) as buf:
        limiter(buf).set(bc.RateLimiter(min_size=5))
        with create(LIMITS) as again, bc.ReplayBuffer.attach("held", dir=place) as third:
            assert limiter(again).limits == limiter(third).limits == bc.RateLimiter(min_size=5)
        with create(None) as follower:
            assert limiter(follower).limits == bc.RateLimiter(min_size=5)
        with pytest.raises(ExistsError, match="`held`"):
            create(bc.RateLimiter(min_size=5))


def test_both_sides_time_out_with_who_waits_for_what() -> None:
    with ring(LIMITS) as buf, buf.writer(timeout=0.01) as writer, buf.sampler(seed=1) as sampler:
        with pytest.raises(RateLimitTimeoutError) as raised:
            sampler.sample(8, timeout=0.01)
        assert missing(raised.value, ["8", "10", "0", str(os.getpid())]) == []
        fill(writer, 15)
        with pytest.raises(TimeoutError) as held:
            writer.append(**STEP)
        assert missing(held.value, ["0", "4", "0", "disable()"]) == []
        assert (limiter(buf).inserts, limiter(buf).samples, len(buf)) == (15, 0, 15)
        sampler.sample(4)
        writer.append(**STEP)
        with pytest.raises(RateLimitTimeoutError):
            writer.extend(obs=[1] * 9, terminated=[False] * 9, truncated=[False] * 9)
        with pytest.raises(RateLimitTimeoutError):
            writer.reserve()
        seen = buf.stats()["limiter"]
        assert (seen["inserts"], seen["samples"], seen["may_insert"]) == (16, 4, 0)
        assert (seen["writers"]["waiting"], seen["writers"]["waits"]) == (0, 3)
        assert seen["writers"]["waited_s"] > 0
        assert seen["has_sampler"]


@pytest.mark.parametrize(
    ("limits", "lanes", "batch", "ends"),
    [
        (bc.RateLimiter(8, min_size=100, error_buffer=64), 64, 256, 0),
        (bc.RateLimiter(16, min_size=100, error_buffer=64), 32, 256, 7),
        (bc.RateLimiter(3, min_size=100, error_buffer=16), 1, 200, 0),
        (bc.RateLimiter.queue(16), 4, 64, 5),
        (bc.RateLimiter.queue(5), 8, 6, 0),
        (bc.RateLimiter(0.5, min_size=10, error_buffer=1), 4, 32, 3),
    ],
    ids=repr,
)
def test_appends_and_batches_beyond_the_band_never_hold_back_both_sides(
    limits: bc.RateLimiter, lanes: int, batch: int, ends: int
) -> None:
    with bc.ReplayBuffer.create(
        None, COLUMNS, capacity=200 * lanes, lanes=lanes, limiter=limits
    ) as buf:
        done = threading.Event()
        failed: list[BaseException] = []

        def act() -> None:
            t = 0
            try:
                with buf.writer(lanes, "same_step", timeout=60) as writer:
                    while not done.is_set():
                        t += 1
                        end = [bool(ends) and t % ends == 0] * lanes
                        obs = [float(t)] * lanes
                        writer.append(
                            obs=obs, terminated=end, truncated=[False] * lanes, final_obs=obs
                        )
            except BackcastError as error:
                failed.append(error)

        thread = threading.Thread(target=act)
        thread.start()
        try:
            with buf.sampler(seed=1) as sampler:
                for _ in range(20):
                    assert len(sampler.sample(batch, timeout=60)["obs"]) == batch
        finally:
            limiter(buf).disable()
            done.set()
            join(thread)
        assert failed == []


def test_a_wait_shows_what_it_has_and_gives_it_back() -> None:
    with ring(LIMITS) as buf, buf.writer() as writer, buf.sampler(seed=1) as sampler:
        fill(writer, 10)
        with pytest.raises(RateLimitTimeoutError, match=r"\b60\b.*\b20\b"):
            sampler.sample(60, timeout=0.01)
        assert limiter(buf).samples == 0


def test_a_batch_that_waits_for_rows_holds_no_writer_back() -> None:
    # `Consume` draws each row once, so the 8 samples per insert are never reached.
    limits = bc.RateLimiter(8, min_size=1, error_buffer=16)
    with ring(limits) as buf:
        done = threading.Event()
        failed: list[BaseException] = []

        def act() -> None:
            try:
                with buf.writer(timeout=60) as writer:
                    while not done.is_set():
                        writer.append(**STEP)
            except BackcastError as error:
                failed.append(error)

        thread = threading.Thread(target=act)
        thread.start()
        try:
            with buf.sampler(seed=1, select=bc.Consume()) as sampler:
                for _ in range(10):
                    sampler.sample(20, timeout=60)
                with pytest.raises(SampleError, match=r"\b200\b.*\b199\b"):
                    sampler.sample(200, timeout=60)
        finally:
            limiter(buf).disable()
            done.set()
            join(thread)
        assert failed == []


def test_clear_of_a_ring_that_has_lapped_begins_anew() -> None:
    limits = bc.RateLimiter(1, min_size=50, error_buffer=60)
    with ring(limits) as buf, buf.writer(timeout=0) as writer, buf.sampler(seed=1) as sampler:
        for t in range(1_000):
            writer.append(**STEP)
            if t >= 60:
                sampler.sample(1)
        buf.clear()
        with pytest.raises(RateLimitTimeoutError, match=r"\b999\b"):
            sampler.sample(4, timeout=0)
        for _ in range(50):
            writer.append(**STEP)
            with pytest.raises(RateLimitTimeoutError):
                sampler.sample(4, timeout=0)
        writer.append(**STEP)
        assert len(buf) == 50
        sampler.sample(4, timeout=0)


def test_a_ring_that_was_cleared_owes_no_draws_of_what_is_gone() -> None:
    limits = bc.RateLimiter(2, min_size=10, error_buffer=40)
    with ring(limits) as buf, buf.writer(timeout=0) as writer:
        for inserts in (30, 60, 90):
            with pytest.raises(RateLimitTimeoutError):
                fill(writer, 200)
            assert limiter(buf).inserts == inserts
            buf.clear()
        assert len(buf) == 0


def test_min_size_is_what_the_ring_has_until_it_was_filled() -> None:
    # An episode of one step takes two rows, so 200 rows hold 100 transitions.
    limits = bc.RateLimiter(1, min_size=150, error_buffer=300)
    end: dict[str, Any] = {"obs": 1.0, "terminated": True, "truncated": False, "final_obs": 2.0}
    with ring(limits) as buf, buf.writer(timeout=0) as writer, buf.sampler(seed=1) as sampler:
        for _ in range(198):
            writer.append(**end)
            with pytest.raises(RateLimitTimeoutError):
                sampler.sample(1, timeout=0)
        writer.append(**end)
        assert (len(buf), limiter(buf).inserts) == (100, 199)
        sampler.sample(1, timeout=0)


def test_without_a_writer_draws_do_what_the_limiter_says() -> None:
    def limits(choice: Any) -> bc.RateLimiter:  # noqa: ANN401 - one of three words
        return bc.RateLimiter.queue(20, no_writer=choice)

    with ring(limits("wait")) as buf:
        with buf.writer() as writer:
            fill(writer, 8)
            limiter(buf).set(limits("error"))
            with pytest.raises(RateLimitTimeoutError):
                buf.sample(9, timeout=0.01)
        with pytest.raises(RateLimitError, match="no_writer") as no:
            buf.sample(9, timeout=60)
        assert not isinstance(no.value, TimeoutError)
        assert (limiter(buf).samples, buf.stats()["limiter"]["has_writer"]) == (0, False)
        limiter(buf).set(limits("pass"))
        assert len(buf.sample(9, timeout=60)["obs"]) == 9
        assert limiter(buf).samples == 9
        limiter(buf).set(limits("wait"))
        with pytest.raises(RateLimitTimeoutError):
            buf.sample(9, timeout=0.2)
        assert buf.stats()["limiter"]["no_writer"] == "wait"


def test_a_handle_that_only_gathers_is_no_sampler() -> None:
    limits = bc.RateLimiter.queue(5, no_learner="error")
    with ring(limits) as buf, buf.writer(timeout=0) as writer:
        fill(writer, 5)
        assert len(buf.gather([0, 3])["obs"]) == 2
        with pytest.raises(RateLimitError, match="no_learner"):
            writer.append(**STEP)
        buf.sample(1, timeout=0)
        writer.append(**STEP)
        with pytest.raises(RateLimitTimeoutError):
            writer.append(**STEP)
        # Gathers with other windows do not push out what makes the handle a sampler.
        for history in range(1, 9):
            buf.gather([4], history=history)
        with pytest.raises(RateLimitTimeoutError):
            writer.append(**STEP)


def test_counts_are_reset_so_that_loaded_rows_call_for_no_draws() -> None:
    limits = bc.RateLimiter(8, min_size=10, error_buffer=80)
    with ring(limits) as buf, buf.writer(timeout=0) as writer, buf.sampler(seed=1) as sampler:
        limiter(buf).disable()
        fill(writer, 150)
        limiter(buf).enable()
        with pytest.raises(RateLimitTimeoutError):
            writer.append(**STEP)
        limiter(buf).reset_counts()
        assert (limiter(buf).inserts, limiter(buf).samples, limiter(buf).limits) == (10, 0, limits)
        for _ in range(10):
            writer.append(**STEP)
        with pytest.raises(RateLimitTimeoutError):
            writer.append(**STEP)
        sampler.sample(160, timeout=0)
        with pytest.raises(RateLimitTimeoutError):
            sampler.sample(1, timeout=0)


def test_a_limiter_without_a_limit_says_so() -> None:
    with ring(LIMITS) as buf:
        limiter(buf).disable()
        seen = buf.stats()["limiter"]
        assert (seen["may_insert"], seen["may_sample"]) == (None, None)
    with ring(bc.RateLimiter(min_size=3)) as buf:
        seen = buf.stats()["limiter"]
        assert (seen["may_insert"], seen["may_sample"]) == (None, 0)


@pytest.mark.parametrize("removed", ["ring.lim", "ring.low", "ring.rdr", "lane-0000.dat"])
def test_a_ring_that_lost_a_file_is_refused(place: Path, removed: str) -> None:
    with bc.ReplayBuffer.create("held", COLUMNS, capacity=200, limiter=LIMITS, dir=place) as buf:
        path = buf.path
        assert path is not None
        (Path(path) / removed).unlink()
        with pytest.raises(BackcastError, match=removed):
            bc.ReplayBuffer.attach("held", dir=place)


def test_without_a_sampler_writers_do_what_the_limiter_says() -> None:
    with ring(bc.RateLimiter.queue(2, no_learner="pass")) as buf, buf.writer() as writer:
        fill(writer, 8)
        limiter(buf).set(bc.RateLimiter.queue(2, no_learner="error"))
        with pytest.raises(RateLimitError, match="no_learner"):
            writer.append(**STEP)
        assert len(buf) == 8


def test_a_switched_off_limiter_holds_nobody_back() -> None:
    with ring(LIMITS) as buf, buf.writer(timeout=0) as writer:
        limiter(buf).disable()
        fill(writer, 50)
        assert buf.sample(100, timeout=0)["obs"].shape == (100,)
        limiter(buf).enable()
        assert (limiter(buf).inserts, limiter(buf).samples) == (50, 100)
        with pytest.raises(RateLimitTimeoutError):
            writer.append(**STEP)


def test_an_actor_and_a_learner_in_two_threads_keep_to_the_limits() -> None:
    with ring(LIMITS) as buf:
        seen = []

        def act() -> None:
            with buf.writer(timeout=60) as writer:
                fill(writer, 150)

        thread = threading.Thread(target=act)
        thread.start()
        with buf.sampler(seed=1) as sampler:
            for batch in sampler.batches(8, prefetch=2, limit=60, timeout=60):
                seen.append(len(batch["obs"]))
        limiter(buf).disable()
        join(thread)
        assert seen == [8] * 60
        assert (limiter(buf).inserts, limiter(buf).samples) == (150, 480)


@pytest.mark.parametrize("side", ["append", "sample"])
def test_closing_ends_the_wait_of_another_thread(side: str) -> None:
    raised: list[BaseException] = []
    with ring(bc.RateLimiter.queue(1)) as buf:
        writer, sampler = buf.writer(), buf.sampler(seed=1)
        fill(writer, 1)
        if side == "sample":
            sampler.sample(1)

        def wait() -> None:
            try:
                if side == "append":
                    writer.append(**STEP)
                else:
                    sampler.sample(1)
            except ClosedError as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: buf.stats()["limiter"]["waiters"])
        (writer if side == "append" else sampler).close()
        thread.join(WATCHDOG_S)
        assert type(raised[0]) is ClosedError
        writer.close()
        sampler.close()


CHILD = """
import sys
import backcast as bc
buf = bc.ReplayBuffer.attach("held")
writer, sampler = buf.writer(), buf.sampler(seed=1)
step = {"obs": 1.0, "terminated": False, "truncated": False}
print("ready", flush=True)
try:
    if sys.argv[1] == "append":
        while True:
            writer.append(**step)
    elif sys.argv[1] == "batches":
        next(sampler.batches(1, prefetch=int(sys.argv[2])))
    else:
        sampler.sample(1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "how", [("append",), ("sample",), ("batches", "0"), ("batches", "2")], ids=" ".join
)
def test_ctrl_c_ends_every_wait(
    place: Path, start: Callable[..., Child], how: tuple[str, ...]
) -> None:
    limits = bc.RateLimiter.queue(1)
    with bc.ReplayBuffer.create("held", COLUMNS, capacity=50, limiter=limits, dir=place) as buf:
        child = start(CHILD, *how)
        assert read_line(child) == "ready\n"
        until(lambda: buf.stats()["limiter"]["waiters"], child)
        child.send_signal(signal.SIGINT)
        assert read_line(child) == "interrupted\n"
        child.wait(60)


def test_a_limiter_is_of_its_process_and_its_ring() -> None:
    with ring(LIMITS) as buf:
        found = limiter(buf)
        assert repr(found) == (
            "<backcast.types.Limiter: the limiter of a private ring, min_size 10, "
            "samples_per_insert 4, error band 20 to 60; 0 inserts, 0 samples>"
        )
        ways: list[Callable[[object], object]] = [pickle.dumps, copy.copy, copy.deepcopy]
        for how in ways:
            with pytest.raises(ArgumentTypeError, match=r"\bpickle the ReplayBuffer\b"):
                how(found)
    with pytest.raises(ClosedError):
        buf.limiter  # noqa: B018 - what is tested


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: bc.RateLimiter.queue(0), r"\bsize\b.*\b0\b.*\b1\b"),
        (lambda: bc.RateLimiter(-1), r"\bsamples_per_insert\b.*-1\b"),
        (lambda: bc.RateLimiter(float("nan")), r"\bsamples_per_insert\b.*\bNaN\b"),
    ],
)
def test_a_bad_limit_names_the_argument_that_was_given(made: Any, match: str) -> None:  # noqa: ANN401
    with pytest.raises(ArgumentError, match=match) as raised:
        made()
    assert "error_buffer" not in str(raised.value)
