"""A storage of TorchRL's buffers in several processes: readers, writers, kills, forks."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import backcast as bc
import pytest

pytest.importorskip(
    "torchrl", reason="TorchRL is not installed: pip install -r requirements/adapters.txt"
)

import torch
from backcast.torchrl import Sampler, Storage
from tensordict import TensorDict
from torch import multiprocessing
from torchrl.data import RandomSampler, TensorDictReplayBuffer

if TYPE_CHECKING:
    from pathlib import Path


def steps(first: int, count: int, writer: int = 0) -> TensorDict:
    """Make steps of one stream that never ends; all values of a step are equal or follow."""
    t = torch.arange(first, first + count)
    return TensorDict(
        {
            "observation": t[:, None].repeat(1, 50),
            "writer": torch.full((count,), writer),
            "next": {
                "observation": t[:, None].repeat(1, 50) + 1,
                "reward": t[:, None].float(),
                "done": torch.zeros(count, 1, dtype=torch.bool),
            },
        },
        [count],
    )


def assert_whole(drawn: TensorDict) -> None:
    at = drawn["observation"]
    assert (at == at[:, :1]).all()
    assert (drawn["next", "observation"] == at + 1).all()
    assert (drawn["next", "reward"][:, 0] == at[:, 0]).all()


WRITER = """
import sys
sys.path.insert(0, {folder!r})
from test_torchrl_processes import Storage, TensorDictReplayBuffer, steps

rb = TensorDictReplayBuffer(storage=Storage(500, name="shared", dir={place!r}))
first = {first}
while True:
    rb.extend(steps(first, 50))
    first += 50
    print(first, flush=True)
"""


def start(place: Path, first: int) -> subprocess.Popen[str]:
    """Start a writer, and wait until it has stored more than fits."""
    source = WRITER.format(folder=os.path.dirname(__file__), place=str(place), first=first)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", source]
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(12):
        assert select.select([child.stdout], [], [], 120)[0], "the writer prints nothing"
        assert child.stdout.readline().strip(), "the writer ended"
    return child


def test_a_learner_draws_whole_elements_while_writers_are_killed(place: Path) -> None:
    first, storage = 0, None
    for _ in range(3):
        child = start(place, first)
        try:
            if storage is None:
                storage = Storage(500, name="shared", dir=place)
                reader = TensorDictReplayBuffer(
                    storage=storage, sampler=RandomSampler(), batch_size=64
                )
                sampler = Sampler(storage.ring, n_step=3, gamma=0.9)
            for _ in range(100):
                try:
                    assert_whole(reader.sample())
                except bc.LappedError:
                    # Between the choice of positions and the gather a fast writer may go around.
                    continue
                drawn = sampler.sample(64)
                summed = drawn["observation"] + drawn["steps_to_next_obs"]
                assert (drawn["next", "observation"] == summed).all()
        finally:
            child.send_signal(signal.SIGKILL)
            assert child.wait(60) == -signal.SIGKILL
            assert child.stdout is not None
            child.stdout.close()
        assert len(storage) == 500
        everything = reader[:]
        assert_whole(everything)
        first = int(everything["observation"].max()) + 1
    # The position after the newest element is next, in any process.
    last = storage._last_cursor_index
    assert last is not None
    assert reader.extend(steps(first, 1)) == (last + 1) % 500
    storage.close()
    sampler.close()


def add_steps(buffer: TensorDictReplayBuffer, writer: int) -> None:
    for first in range(0, 200, 10):
        buffer.extend(steps(1000 * writer + first, 10, writer))


@pytest.mark.parametrize("count", [1, 3])
def test_processes_write_one_shared_buffer(place: Path, count: int) -> None:
    storage = Storage(200 * count + 10, name="many", dir=place, shared=True)
    buffer = TensorDictReplayBuffer(storage=storage, batch_size=32, shared=True)
    buffer.extend(steps(5000, 10))
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=add_steps, args=(buffer, writer)) for writer in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    everything = buffer[:]
    assert_whole(everything)
    assert len(everything) == 200 * count + 10
    for writer in range(count):
        mine = everything[everything["writer"] == writer][-200:]
        expected = torch.arange(200) + 1000 * writer
        assert torch.equal(mine["observation"][:, 0], expected)
    storage.close()


def test_a_second_writer_is_refused_where_the_storage_is_not_shared(place: Path) -> None:
    one, two = (Storage(50, name="one", dir=place) for _ in range(2))
    one.set(range(5), steps(0, 5))
    with pytest.raises(bc.errors.WriterError):
        two.set(range(4, 6), steps(4, 2))
    # The newest element has no successor that the other handle could read.
    assert (len(one), len(two)) == (5, 4)
    one.close()
    assert len(two) == 5
    two.set([5], steps(5, 1))
    assert_whole(two.get(range(6)))
    two.close()


def read_in_child(storage: Storage, private: Storage) -> None:
    assert len(storage) == 29
    assert_whole(storage.get(range(29)))
    with pytest.raises(bc.errors.ArgumentError, match="no name"):
        len(private)


def test_a_forked_child_attaches_and_the_parent_goes_on(place: Path) -> None:
    storage = Storage(50, name="forks", dir=place)
    storage.set(range(30), steps(0, 30))
    private = Storage(50)
    private.set(range(3), steps(0, 3))
    child = multiprocessing.get_context("fork").Process(
        target=read_in_child, args=(storage, private)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    storage.set(range(30, 40), steps(30, 10))
    assert_whole(storage.get(range(40)))
    assert_whole(private.get(range(3)))
    storage.close()


def test_a_pickled_storage_is_the_same_ring(place: Path) -> None:
    storage = Storage(50, name="pickled", dir=place)
    storage.set(range(30), steps(0, 30))
    again = pickle.loads(pickle.dumps(storage))
    assert_whole(again.get(range(29)))
    private = Storage(50)
    private.set([0], steps(0, 1))
    with pytest.raises(bc.errors.ArgumentError, match="without a name"):
        pickle.dumps(private)
    again.close()
    storage.close()


def test_a_cleared_ring_is_empty_for_every_process(place: Path) -> None:
    one, two = (Storage(50, name="cleared", dir=place) for _ in range(2))
    buffer = TensorDictReplayBuffer(storage=one, batch_size=8)
    buffer.extend(steps(0, 80))
    # The newest element has no successor that the other handle could read.
    assert (len(one), len(two)) == (50, 49)
    buffer.empty()
    assert len(two) == 0
    assert torch.equal(buffer.extend(steps(100, 20)), torch.arange(20))
    assert_whole(two.get(range(19)))
    one.close()
    two.close()


def test_one_draw_agrees_on_the_elements_while_others_are_stored(place: Path) -> None:
    one, two = (Storage(20, name="moves", dir=place) for _ in range(2))
    one.set(range(20), steps(0, 20))
    one.set([0], steps(20, 1))
    everything, every = two[:], torch.arange(20)
    # A slice sampler reads these in turn, after it has chosen the ends of episodes.
    one.set(range(1, 16), steps(21, 15))
    assert len(two) == 20
    assert (two._is_full, two._last_cursor_index) == (True, 19)
    assert torch.equal(two[every]["observation"], everything["observation"])
    # The next draw sees the new elements.
    assert len(two) == 20
    assert two._last_cursor_index == 14
    assert_whole(two[every])
    assert two[every]["observation"][:, 0].max() == 34
    one.close()
    two.close()


def test_what_is_no_storage_or_of_another_size_is_refused(place: Path) -> None:
    ring = bc.ReplayBuffer.create("plain", {"obs": "f4"}, capacity=10, dir=place)
    with pytest.raises(bc.errors.ArgumentError, match=r"Sampler\(buf\)"):
        Storage(10, name="plain", dir=place)
    ring.close()
    storage = Storage(10, name="ten", dir=place)
    storage.set([0], steps(0, 1))
    with pytest.raises(bc.errors.ArgumentError, match="max_size=10"):
        Storage(20, name="ten", dir=place)
    with pytest.raises(bc.ExistsError):
        Storage(10, name="ten", dir=place, exist="error")
    replaced = Storage(20, name="ten", dir=place, exist="replace")
    assert len(replaced) == 0
    storage.close()
    replaced.set(range(15), steps(0, 15))
    assert len(replaced) == 15
    replaced.close()
