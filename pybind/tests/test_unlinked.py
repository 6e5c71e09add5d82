"""Warnings and errors of processes whose ring is removed or replaced while they use it."""

from __future__ import annotations

import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from conftest import Child
from waits import join, read_line

COLUMNS = {"x": "f4"}
END = {"terminated": False, "truncated": False}


def create(place: Path, **settings: Any) -> bc.ReplayBuffer:  # noqa: ANN401 - keywords of any kind
    return bc.ReplayBuffer.create("pong", COLUMNS, capacity=100, dir=place, **settings)


def replace(place: Path) -> None:
    create(place, exist="replace").close()


def remove(place: Path) -> None:
    bc.remove_object("pong", force=True, dir=place)


def unlink(place: Path) -> None:
    with bc.ReplayBuffer.attach("pong", dir=place) as buf:
        buf.unlink()


WAYS = pytest.mark.parametrize("lose", [replace, remove, unlink])


def steps(writer: bc.Writer, count: int) -> None:
    for step in range(count):
        writer.append(x=step, **END)


@WAYS
def test_each_handle_warns_once(place: Path, lose: Callable[[Path], None]) -> None:
    with create(place), bc.ReplayBuffer.attach("pong", dir=place) as buf:
        handles = [bc.ReplayBuffer.attach("pong", dir=place) for _ in range(4)]
        reader, filled, ahead, waiting = handles
        writer, sampler = buf.writer(), reader.sampler(seed=1)
        steps(writer, 20)
        batch = filled.sample(4)
        batches = ahead.sampler(seed=1).batches(4, prefetch=0)
        next(batches)
        assert not buf.stats()["unlinked"]
        lose(place)
        acts: list[Callable[[], Any]] = [
            lambda: writer.append(x=1, **END),
            lambda: sampler.gather([3]),
            lambda: filled.sample(4, out=batch),
            lambda: next(batches),
            lambda: waiting.wait(5, timeout=0),
        ]
        for act in acts:
            with pytest.warns(bc.errors.UnlinkedWarning, match=r"'pong'"):
                act()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for act in acts:
                act()
        assert all(handle.stats()["unlinked"] for handle in [buf, *handles])
        for handle in [buf, *handles]:
            told = [(notice["kind"], notice["count"]) for notice in handle.stats()["notices"]]
            assert told == [("unlinked", 1)]
        assert len(buf) == 21, "holders keep its rows"
        batches.close()
        writer.close()
        sampler.close()
        for handle in handles:
            handle.close()


@WAYS
def test_an_append_in_one_call_and_one_in_place_warn_too(
    place: Path, lose: Callable[[Path], None]
) -> None:
    with create(place, lanes=2):
        first, second = (bc.ReplayBuffer.attach("pong", dir=place) for _ in range(2))
        extending, reserving = first.writer(), second.writer(autoreset_mode="next_step")
        lose(place)
        with pytest.warns(bc.errors.UnlinkedWarning):
            extending.extend(
                x=np.zeros((3, 1)),
                terminated=np.zeros((3, 1), "?"),
                truncated=np.zeros((3, 1), "?"),
            )
        with pytest.warns(bc.errors.UnlinkedWarning), reserving.reserve() as row:
            row["x"] = 1.0
        for handle in (extending, reserving, first, second):
            handle.close()


Waiting = tuple[bc.Writer | bc.Sampler, Callable[[], Any]]


def append_held_back(buf: bc.ReplayBuffer) -> Waiting:
    writer = buf.writer(timeout=60)
    return writer, lambda: steps(writer, 50)


def draw_held_back(buf: bc.ReplayBuffer) -> Waiting:
    sampler = buf.sampler(seed=1)
    return sampler, lambda: sampler.sample(4, timeout=60)


def draw_of_new_rows(buf: bc.ReplayBuffer) -> Waiting:
    sampler = buf.sampler(seed=1, select=bc.Consume())
    return sampler, lambda: sampler.sample(4, timeout=60)


@pytest.mark.parametrize(
    ("wait", "limiter"),
    [
        (append_held_back, bc.RateLimiter.queue(5)),
        (draw_held_back, bc.RateLimiter.queue(5)),
        (draw_of_new_rows, None),
    ],
)
@WAYS
def test_a_wait_warns_while_it_lasts_and_once(
    place: Path,
    lose: Callable[[Path], None],
    wait: Callable[[bc.ReplayBuffer], Waiting],
    limiter: bc.RateLimiter | None,
) -> None:
    with create(place, limiter=limiter), bc.ReplayBuffer.attach("pong", dir=place) as buf:
        handle, call = wait(buf)
        # The name is lost during the wait or, on a slow machine, before it, with the same effect.
        thread = threading.Timer(0.05, lose, [place])
        with warnings.catch_warnings():
            # The warning is raised as an error, which ends the wait long before its timeout.
            warnings.simplefilter("error")
            thread.start()
            with pytest.raises(bc.errors.UnlinkedWarning, match=r"'pong'"):
                call()
            join(thread)
            with pytest.raises(bc.WaitTimeoutError):
                buf.wait(50, timeout=0.01)
        assert [told["kind"] for told in buf.stats()["notices"]] == ["unlinked"]
        handle.close()


@WAYS
def test_errors_come_each_time_where_they_were_asked_for(
    place: Path, lose: Callable[[Path], None]
) -> None:
    with create(place), bc.ReplayBuffer.attach("pong", dir=place, on_unlinked="error") as buf:
        writer, sampler = buf.writer(), buf.sampler(seed=1)
        steps(writer, 20)
        state = sampler.state()
        lose(place)
        for _ in range(2):
            with pytest.raises(bc.NotFoundError, match=r"`pong`"):
                writer.append(x=1, **END)
            with pytest.raises(bc.NotFoundError, match="`pong`"):
                sampler.sample(4)
            with pytest.raises(bc.NotFoundError, match="`pong`"):
                buf.gather([3])
            with pytest.raises(bc.NotFoundError):
                buf.wait(50)
        assert (buf.stats()["rows_published"], sampler.state()) == (20, state)
        for handle in (writer, sampler):
            handle.close()


def test_nothing_is_said_where_that_was_asked_for_or_by_ones_own_hand(place: Path) -> None:
    with (
        create(place) as own,
        bc.ReplayBuffer.attach("pong", dir=place, on_unlinked="ignore") as buf,
    ):
        writer = own.writer()
        steps(writer, 20)
        own.unlink()
        steps(writer, 20)
        assert len(buf.sample(4)["x"]) == 4
        assert buf.stats()["unlinked"]
        writer.close()


def test_a_private_ring_and_a_live_one_are_not_unlinked(place: Path) -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=10) as private, create(place) as buf:
        assert not private.stats()["unlinked"]
        assert not buf.stats()["unlinked"]


def test_the_choice_is_pickled_and_copied(place: Path) -> None:
    with (
        create(place, on_unlinked="error") as buf,
        pickle.loads(pickle.dumps(buf)) as again,
        buf.__copy__() as copied,
    ):
        writer = again.writer()
        steps(writer, 3)
        replace(place)
        with pytest.raises(bc.NotFoundError):
            writer.append(x=1, **END)
        with pytest.raises(bc.NotFoundError):
            copied.sample(1)
        writer.close()


def test_the_choice_is_one_of_three_words(place: Path) -> None:
    with pytest.raises(
        bc.errors.ArgumentError, match=r"\bon_unlinked\b.*'raise'.*\"warn\".*\"error\""
    ):
        create(place, on_unlinked="raise")


ACTOR = """
import sys, warnings
import backcast as bc
warnings.simplefilter("error", bc.errors.UnlinkedWarning)
with bc.ReplayBuffer.attach("pong").writer() as writer:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        for step in range(1000):
            writer.append(x=step, terminated=False, truncated=False)
    except bc.errors.UnlinkedWarning as warning:
        print("told at", step, flush=True)
"""


def test_an_actor_learns_that_its_learner_was_restarted(
    place: Path, start: Callable[..., Child]
) -> None:
    with create(place):
        actor = start(ACTOR)
        assert read_line(actor) == "ready\n"
        with create(place, exist="replace"):
            out, error = actor.communicate("go\n", timeout=60)
    assert out == "told at 0\n", error


@pytest.mark.skipif(sys.platform != "linux", reason="opens a file that has lost its name")
@WAYS
def test_holders_lease_and_view_as_before(place: Path, lose: Callable[[Path], None]) -> None:
    with create(place, reader_slots=1) as buf, buf.writer() as writer:
        steps(writer, 20)
        lose(place)
        with buf.lease(0, 3, 4) as rows:
            assert rows["x"].tolist() == [3, 4, 5, 6]
    with bc.Params.create("policy", {"w": np.ones(3, "f4")}, dir=place) as params:
        params.publish({"w": np.ones(3, "f4")})
        params.unlink()
        with params.view() as view:
            assert view.version == 1


@WAYS
def test_what_a_lost_name_forbids_says_why(place: Path, lose: Callable[[Path], None]) -> None:
    with create(place) as buf:
        with buf.writer() as writer:
            steps(writer, 20)
        lose(place)
        calls: list[Callable[[], Any]] = [
            buf.writer,
            lambda: buf.sampler(select=bc.Priority(alpha=0.6)),
            lambda: buf.sampler(select=bc.Epoch()),
            lambda: buf.table("online", learned={"value": "f4"}),
            lambda: buf.resize(500),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bc.errors.UnlinkedWarning)
            for call in calls:
                with pytest.raises(bc.NotFoundError, match="`pong`"):
                    call()
