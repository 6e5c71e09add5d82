"""A program that ends normally leaves nothing in shared memory, whatever its threads hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import backcast as bc
import pytest
from conftest import Child
from waits import WATCHDOG_S

START = """\
import os, sys, threading, time
import backcast as bc, numpy as np

columns = {"obs": "f4", "reward": "f4"}
buf = bc.ReplayBuffer.create("r", columns, capacity=1_000, lanes=2)
params = bc.Params.create("p", {"w": np.zeros(3, "f4")})
started = threading.Event()

def fill(writer, rows=20):
    for row in range(rows):
        writer.append(obs=row, reward=1, terminated=False, truncated=False)

def keep(*handles):
    started.set()
    threading.Event().wait()

def run(target, *args):
    threading.Thread(target=target, args=args, daemon=True).start()
    started.wait()
"""
THREADS = {
    "a buffer": "run(keep, buf)",
    "a writer": "run(keep, buf.writer())",
    "a pending transition": (
        "writer = buf.writer()\n"
        "writer.append(obs=1, reward=1, next_obs=2, terminated=False, truncated=False)\n"
        "run(keep, writer)"
    ),
    "a sampler": "fill(buf.writer()); run(keep, buf.sampler(seed=1))",
    "priorities": (
        "fill(buf.writer())\n"
        "sampler = buf.sampler(seed=1, select=bc.Priority())\n"
        "sampler.sample(4); run(keep, sampler)"
    ),
    "a lease": "fill(buf.writer()); run(keep, buf.lease(0, 0, 4))",
    "a limiter": (
        "limits = bc.RateLimiter(min_size=5)\n"
        "other = bc.ReplayBuffer.create('limited', columns, capacity=100, limiter=limits)\n"
        "run(keep, other, other.limiter)"
    ),
    "an iterator that draws ahead": (
        "fill(buf.writer())\n"
        "batches = buf.sampler(seed=1).batches(8, prefetch=2)\n"
        "next(batches); run(keep, batches)"
    ),
    "parameters": "run(keep, params)",
    "a view of parameters": "params.publish({'w': np.ones(3, 'f4')}); run(keep, params.view())",
    "a loop that appends": (
        # Arrays of the columns' dtypes need no cast, in which CPython 3.11 may abort at exit.
        "row = {'obs': np.zeros((), 'f4'), 'reward': np.ones((), 'f4')}\n"
        "def act(writer):\n"
        "    started.set()\n"
        "    while True: writer.append(**row, terminated=False, truncated=False)\n"
        "run(act, buf.writer())"
    ),
    "a loop that draws": (
        "fill(buf.writer())\n"
        "def learn(buf):\n"
        "    started.set()\n"
        "    while True: buf.sample(256)\n"
        "run(learn, buf)"
    ),
}


@pytest.fixture
def program(start: Callable[..., Child]) -> Callable[[str], str]:
    """Return a function that runs a program to its end and returns its output."""

    def run(code: str) -> str:
        child = start(START + code + "\nprint('done')")
        out, err = child.communicate(timeout=WATCHDOG_S)
        assert (child.returncode, err) == (0, ""), err
        assert out.endswith("done\n")
        return out

    return run


@pytest.mark.parametrize("code", THREADS.values(), ids=THREADS)
def test_what_a_daemon_thread_has_is_gone(
    program: Callable[[str], str], place: Path, code: str
) -> None:
    program(code)
    assert not list(place.rglob("*.ring"))
    assert not list(place.rglob("*.params"))


def test_a_panel_of_a_daemon_thread_is_gone(
    program: Callable[[str], str], place: Path, panel_file: Path
) -> None:
    program(f"run(keep, bc.Panel.from_csv({str(panel_file)!r}, macro=['IDX'], name='m'))")
    assert bc.list_objects(dir=place) == []


def test_what_other_processes_hold_stays(program: Callable[[str], str], place: Path) -> None:
    with bc.ReplayBuffer.create("r2", {"obs": "f4"}, capacity=100, dir=place) as buf:
        program("run(keep, bc.ReplayBuffer.attach('r2'))")
        assert [one["name"] for one in bc.list_objects(dir=place)] == ["r2"]
        assert len(bc.ReplayBuffer.attach("r2", dir=place)) == len(buf) == 0


def test_a_waiting_observation_of_a_daemon_thread_is_stored(
    program: Callable[[str], str], place: Path
) -> None:
    program(
        "kept = bc.ReplayBuffer.create('kept', columns, capacity=100, persistent=True)\n"
        "writer = kept.writer()\n"
        "for row in range(3):\n"
        "    step = {'obs': row, 'reward': 1, 'next_obs': row + 1}\n"
        "    writer.append(**step, terminated=False, truncated=False)\n"
        "assert len(kept) == 2\n"
        "run(keep, writer)"
    )
    with bc.ReplayBuffer.attach("kept", dir=place) as buf:
        assert len(buf) == 3
        assert buf.gather([2])["next_obs"].tolist() == [3]
    bc.remove_object("kept", dir=place)


def test_what_is_persistent_stays(program: Callable[[str], str], place: Path) -> None:
    program("run(keep, bc.ReplayBuffer.create('kept', columns, capacity=100, persistent=True))")
    assert [(one["name"], one["held"]) for one in bc.list_objects(dir=place)] == [("kept", False)]
    bc.remove_object("kept", dir=place)


def test_a_forked_child_leaves_its_parent_alone(program: Callable[[str], str]) -> None:
    out = program(
        "run(keep, buf)\n"
        "with buf.writer() as writer: fill(writer)\n"
        "pid = os.fork()\n"
        "if pid == 0: sys.exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "print(len(bc.ReplayBuffer.attach('r')), bc.list_objects()[0]['held'])"
    )
    assert out.startswith("19 True\n")


def test_a_thread_that_is_no_daemon_finishes_its_appends(
    program: Callable[[str], str], place: Path
) -> None:
    program(
        "kept = bc.ReplayBuffer.create('kept', columns, capacity=50_000, persistent=True)\n"
        "def act(writer):\n"
        "    started.set()\n"
        "    fill(writer, 20_000)\n"
        "threading.Thread(target=act, args=(kept.writer(),)).start()\n"
        "started.wait()"
    )
    with bc.ReplayBuffer.attach("kept", dir=place) as buf:
        assert len(buf) == 19_999
    bc.remove_object("kept", dir=place)
