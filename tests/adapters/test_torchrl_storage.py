"""A storage of TorchRL's buffers: what it returns, its samplers, and what it refuses."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
import pytest

pytest.importorskip(
    "torchrl", reason="TorchRL is not installed: pip install -r requirements/adapters.txt"
)

import torch
from backcast.torchrl import Storage
from tensordict import TensorDict, tensorclass
from torchrl.data import (
    LazyTensorStorage,
    PrioritizedSampler,
    RandomSampler,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)
from torchrl.data.replay_buffers.checkpointers import StorageCheckpointerBase
from torchrl.envs.transforms import DoubleToFloat

if TYPE_CHECKING:
    from pathlib import Path

LENGTH = 7  # of an episode


def steps(first: int, count: int, *, images: bool = False) -> TensorDict:
    """Make steps `first` on of one stream: episodes of `LENGTH`, that end in turns both ways."""
    t = torch.arange(first, first + count)
    last = t % LENGTH == LENGTH - 1
    is_limit = (t // LENGTH) % 2 == 1
    # The observation after an end is no observation of the next episode.
    seen = t + 1000 * (t // LENGTH)

    def observed(at: torch.Tensor) -> dict[str, Any]:
        found = {"observation": at[:, None].float().repeat(1, 3), "agent": {"x": at.double()}}
        if images:
            found["pixels"] = (at[:, None, None] % 251).to(torch.uint8).repeat(1, 4, 5)
        return found

    ends = {
        "done": last[:, None],
        "terminated": (last & ~is_limit)[:, None],
        "truncated": (last & is_limit)[:, None],
    }
    never = {name: torch.zeros_like(flags) for name, flags in ends.items()}
    return TensorDict(
        {
            **observed(seen),
            **never,
            "action": torch.stack([t, -t], 1).float(),
            "collector": {"traj_ids": t // LENGTH},
            "episode": t // LENGTH,
            "next": {**observed(seen + 1), **ends, "reward": t[:, None].float()},
        },
        [count],
    )


def assert_equal(left: TensorDict, right: TensorDict) -> None:
    left, right = (td.exclude("index", "priority_weight", "td_error") for td in (left, right))
    assert left.batch_size == right.batch_size
    keys = set(left.keys(True, True))
    assert keys == set(right.keys(True, True))
    for key in keys:
        assert left[key].dtype == right[key].dtype, key
        assert torch.equal(left[key], right[key]), key


def buffer(size: int = 100, **options: Any) -> TensorDictReplayBuffer:
    storage = Storage(size, **options.pop("storage", {}))
    return TensorDictReplayBuffer(storage=storage, **{"batch_size": 32, **options})


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (7,), (5, 20, 3), (100,), (60, 60, 60), (1,) * 30])
def test_a_buffer_has_what_torchrls_own_would_have(sizes: tuple[int, ...], images: bool) -> None:
    ours = buffer()
    theirs = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=32)
    first = 0
    for count in sizes:
        data = steps(first, count, images=images)
        first += count
        assert torch.equal(ours.extend(data.clone()), theirs.extend(data.clone()))
        assert len(ours) == len(theirs)
        assert_equal(ours[:], theirs[:])
    assert ours.storage._is_full == theirs.storage._is_full
    assert ours.storage.shape == theirs.storage.shape
    for index in (0, -1, len(theirs) - 1):
        assert_equal(ours[index], theirs[index])
    for chosen in (slice(0, 3), slice(None, None, 2), torch.tensor([0, 0, len(theirs) - 1])):
        assert_equal(ours[chosen], theirs[chosen])
    assert_equal(ours.storage.get(range(1)), theirs.storage.get(range(1)))
    assert ours.storage.get(slice(0, 0)).batch_size == torch.Size([0])


def test_an_element_is_added_alone() -> None:
    ours, data = buffer(size=4), steps(0, 6)
    for at in range(6):
        assert ours.add(data[at]) == at % 4
        assert_equal(ours[at % 4], data[at])
    assert_equal(ours[:], data[[4, 5, 2, 3]])


def test_more_elements_than_fit_leave_the_last_ones() -> None:
    ours, data = buffer(size=10), steps(0, 34)
    ours.extend(data[:4].clone())
    ours.extend(data[4:].clone())
    # Positions go on from 4, as in TorchRL.
    order = (torch.arange(10) + 4 + 30) % 10
    expected = torch.empty(10, dtype=torch.long)
    expected[order] = torch.arange(24, 34)
    assert_equal(ours[:], data[expected])
    ours.extend(steps(34, 1))
    assert ours[4]["action"][0] == 34


@pytest.mark.parametrize("length", [1, 2, 50])
def test_no_element_is_lost_for_episodes_of_any_length(length: int) -> None:
    ours = buffer(size=40)
    for first in range(0, 400, 13):
        data = steps(first, 13)
        ends = (torch.arange(first, first + 13) % length == 0)[:, None]
        data["next", "done"] = data["next", "terminated"] = ends
        data["next", "truncated"] = torch.zeros_like(ends)
        ours.extend(data)
        assert len(ours[:]) == len(ours)


@pytest.mark.parametrize(
    "data",
    [
        TensorDict({"a": torch.arange(12).reshape(6, 2)}, [6]),
        TensorDict({"a": torch.rand(6), "deep": {"er": {"b": torch.rand(6, 2, 3)}}}, [6]),
        TensorDict({"reward": torch.rand(6, 1), "obs": torch.rand(6), "done": torch.ones(6)}, [6]),
        TensorDict({"next": {"reward": torch.rand(6), "obs": torch.rand(6, 2)}}, [6]),
        TensorDict({"x": torch.rand(6), "next": {"x": torch.rand(6, 2)}}, [6]),
        TensorDict({"x": torch.rand(6).bfloat16(), "f": torch.rand(6).half()}, [6]),
        TensorDict({name: torch.rand(6) for name in ("index2", "mask", "next_x", "t")}, [6]),
        TensorDict(
            {
                "reward": torch.rand(6, 1),
                "next": {"reward": torch.rand(6, 1)},
                "obs": torch.rand(6),
            },
            [6],
        ),
        TensorDict(
            {"x": torch.rand(6), "next": {"x": torch.rand(6), "done": torch.rand(6) < 9}}, 6
        ),
        TensorDict(
            {
                f"i{place}": torch.ones(6, dtype=dtype)
                for place, dtype in enumerate(
                    (torch.int8, torch.int16, torch.int32, torch.uint8, torch.bool, torch.float64)
                )
            },
            [6],
        ),
    ],
    ids=[
        *("one", "nested", "flat", "next-only", "other-shapes", "halves", "reserved", "pair"),
        *("done", "types"),
    ],
)
def test_any_keys_come_back(data: TensorDict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.errors.WriterWarning)
        ours = buffer(size=6)
        ours.extend(data.clone())
        assert_equal(ours[:], data)
        ours.extend(data[:4].clone())
        assert_equal(ours[:4], data[:4])


def test_an_observation_is_stored_once() -> None:
    ours = buffer()
    ours.extend(steps(0, 20))
    columns = ours.storage.ring.schema.columns
    assert columns["observation"] == ("f4", (3,), "obs")
    assert not any(name.startswith("next/obs") for name in columns)
    # Two episodes ended: each has a FINAL row.
    assert ours.storage.ring.stats()["rows_published"] == 20 + 2


def test_a_sample_is_a_copy() -> None:
    ours = buffer(size=8)
    data = steps(0, 8)
    ours.extend(data.clone())
    drawn = ours[:]
    drawn["observation"] += 1
    drawn["next", "observation"] += 1
    assert_equal(ours[:], data)


# Samplers and transforms


def test_random_draws_are_of_all_elements() -> None:
    ours = buffer(sampler=RandomSampler(), batch_size=4000)
    data = steps(0, 100)
    ours.extend(data.clone())
    drawn = ours.sample()
    assert_equal(drawn, data[drawn["index"]])
    assert len(drawn["index"].unique()) == 100


def test_a_pass_without_replacement_draws_each_element_once() -> None:
    ours = buffer(sampler=SamplerWithoutReplacement(), batch_size=10)
    ours.extend(steps(0, 100))
    seen = torch.cat([ours.sample()["action"][:, 0] for _ in range(10)])
    assert torch.equal(seen.sort().values, torch.arange(100.0))


@pytest.mark.parametrize("options", [{"traj_key": "episode"}, {"end_key": ("next", "done")}])
def test_slices_never_cross_episodes_or_the_newest_element(options: dict[str, Any]) -> None:
    ours = buffer(sampler=SliceSampler(slice_len=4, **options), batch_size=400)
    for first in range(0, 250, 50):
        ours.extend(steps(first, 50))
        drawn = ours.sample().reshape(-1, 4)
        at = drawn["action"][..., 0]
        assert (at.diff(dim=1) == 1).all()
        assert (drawn["episode"] == drawn["episode"][:, :1]).all()


def test_priorities_decide_and_go_with_positions() -> None:
    ours = buffer(size=50, sampler=PrioritizedSampler(50, alpha=1.0, beta=1.0), batch_size=2000)
    ours.extend(steps(0, 50))
    drawn = ours.sample()
    drawn["td_error"] = torch.where(drawn["index"] == 7, 1000.0, 0.001)
    ours.update_tensordict_priority(drawn)
    assert (ours.sample()["index"] == 7).float().mean() > 0.8
    # Elements that overwrite others have priorities of their own.
    ours.extend(steps(50, 10))
    index = ours.sample()["index"]
    assert (ours.storage.get(index)["action"][:, 0] >= 50)[index < 10].all()
    assert len(index.unique()) >= 5


def test_transforms_change_what_is_stored_and_drawn() -> None:
    ours = buffer(transform=DoubleToFloat(in_keys=[("agent", "x")]))
    ours.append_transform(lambda td: td.set("action", td["action"] / 2), invert=True)
    ours.append_transform(lambda td: td.set("seen", td["observation"] * 2))
    ours.extend(steps(0, 30))
    drawn = ours.sample()
    assert torch.equal(drawn["seen"], drawn["observation"] * 2)
    assert torch.equal(drawn["action"][:, 0], drawn["next", "reward"][:, 0] / 2)
    assert drawn["agent", "x"].dtype == torch.float32
    assert "seen" not in ours.storage.get(0)


def test_prefetched_draws_are_whole() -> None:
    ours = buffer(prefetch=3)
    data = steps(0, 300)
    for first in range(0, 300, 10):
        ours.extend(data[first : first + 10].clone())
        drawn = ours.sample()
        assert torch.equal(drawn["observation"] + 1, drawn["next", "observation"])


# Saving


@pytest.mark.parametrize("count", [0, 5, 20, 33])
@pytest.mark.parametrize("by", ["disk", "state"])
def test_a_saved_buffer_continues(count: int, by: str, tmp_path: Path) -> None:
    ours, again = buffer(size=20), buffer(size=20)
    if count:
        ours.extend(steps(0, count))
    again.extend(steps(900, 3))
    for _ in range(2):
        if by == "disk":
            ours.dumps(tmp_path / "saved")
            again.loads(tmp_path / "saved")
        else:
            again.load_state_dict(ours.state_dict())
    assert len(again) == len(ours) == min(count, 20)
    if count:
        assert_equal(again[:], ours[:])
    for one in (ours, again):
        one.extend(steps(count, 15))
    assert_equal(again[:], ours[:])


def test_a_loaded_buffer_keeps_no_memory_of_the_state() -> None:
    ours, again = buffer(size=20), buffer(size=20)
    ours.extend(steps(0, 20))
    state = ours.state_dict()
    again.load_state_dict(state)
    state["_storage"]["_storage"]["observation"].zero_()
    assert_equal(again[:], ours[:])


def test_what_another_storage_saved_is_refused(tmp_path: Path) -> None:
    theirs = TensorDictReplayBuffer(storage=LazyTensorStorage(20))
    theirs.extend(steps(0, 20))
    ours = buffer(size=20)
    ours.extend(steps(0, 3))
    with pytest.raises(bc.errors.ArgumentError, match="another kind of storage"):
        ours.load_state_dict(theirs.state_dict())
    theirs.dumps(tmp_path / "theirs")
    with pytest.raises(bc.errors.ArgumentError, match=r"no storage\.json"):
        ours.loads(tmp_path / "theirs")
    big = buffer(size=50)
    big.extend(steps(0, 40))
    with pytest.raises(bc.errors.ArgumentError, match="max_size=50"):
        ours.load_state_dict(big.state_dict())
    assert_equal(ours[:], steps(0, 3))


# Emptied, resized, snapshots, small rings


def test_an_emptied_buffer_begins_at_position_0() -> None:
    ours = buffer(size=20)
    ours.extend(steps(0, 33))
    ours.empty()
    assert len(ours) == 0
    with pytest.raises(bc.errors.SampleError, match="the storage is empty"):
        ours.storage.get(0)
    assert torch.equal(ours.extend(steps(50, 5)), torch.arange(5))
    assert_equal(ours[:], steps(50, 5))


def test_a_cleared_ring_empties_the_storage() -> None:
    ours = buffer(size=20)
    ours.extend(steps(0, 20))
    ours.storage.ring.clear()
    assert len(ours) == 0
    with pytest.raises(bc.errors.SampleError, match="the storage is empty"):
        ours.storage.get(0)


@pytest.mark.parametrize("read", [True, False])
def test_a_buffer_goes_on_at_position_0_after_its_ring_was_cleared(read: bool) -> None:
    ours = buffer(size=20)
    ours.extend(steps(0, 7))
    ours.storage.ring.clear()
    if read:
        assert len(ours) == 0
    else:
        # TorchRL has chosen the positions by then.
        with pytest.raises(bc.errors.ArgumentError, match="cleared meanwhile"):
            ours.extend(steps(50, 5))
    for first, at in ((60, 0), (65, 5)):
        assert torch.equal(ours.extend(steps(first, 5)), torch.arange(at, at + 5))
    assert_equal(ours[:], steps(60, 10))


def test_large_storages_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backcast.torchrl._elements._PIECE", 7)
    ours = buffer(size=40)
    ours.extend(steps(0, 55))
    assert_equal(ours[:], steps(15, 40)[(torch.arange(40) + 25) % 40])


def test_a_resized_ring_keeps_the_elements(place: Path) -> None:
    ours = buffer(size=20, storage={"name": "grows", "dir": place})
    ours.extend(steps(0, 20))
    ours.storage.ring.resize(200, timeout=0)
    ours.extend(steps(20, 7))
    assert_equal(ours[:7], steps(20, 7))
    assert ours.storage.ring.capacity == 200
    ours.storage.close()


def test_a_snapshot_is_a_storage(place: Path, tmp_path: Path) -> None:
    ours = buffer(size=20, storage={"name": "saved", "dir": place})
    ours.extend(steps(0, 28))  # whole episodes
    ours.storage.ring.snapshot("now", store=tmp_path)
    loaded = bc.ReplayBuffer.load("saved@now", "again", store=tmp_path, dir=place)
    again = buffer(size=20, storage={"name": "again", "dir": place})
    assert_equal(again[:], ours[:])
    for one in (ours, again):
        one.extend(steps(28, 5))
    assert_equal(again[:], ours[:])
    for handle in (loaded, again.storage, ours.storage):
        handle.close()


def test_elements_of_a_ring_that_is_too_small_are_an_error_when_drawn() -> None:
    ours = buffer(size=20, storage={"capacity": 21})
    ours.extend(steps(0, 20))
    with pytest.raises(bc.LappedError, match="larger capacity"):
        ours.storage.get(0)
    assert_equal(ours[-1], steps(19, 1)[0])


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_size": 0}, "max_size is 0"),
        ({"max_size": 10, "capacity": 10}, "capacity is 10"),
        ({"max_size": 10, "exist": "later"}, "exist is 'later'"),
        ({"max_size": 10, "shared": True}, "shared= needs a name"),
        ({"max_size": 10, "persistent": True}, "persistent= needs a name"),
        ({"max_size": 10, "device": "cuda"}, "memory of the CPU"),
    ],
)
def test_a_bad_setting_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(bc.errors.ArgumentError, match=words):
        Storage(**options)


@tensorclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (steps(0, 6).exclude("action"), bc.errors.AppendError, 'has no "action"'),
        (steps(0, 6).set("more", torch.ones(6)), bc.errors.AppendError, 'has "more" too'),
        (steps(0, 6).double(), bc.errors.AppendError, "convert it"),
        (steps(0, 6).reshape(2, 3), bc.errors.ArgumentError, "batch size"),
    ],
    ids=["missing", "unknown", "dtype", "batch"],
)
def test_elements_that_do_not_fit_are_refused_and_nothing_is_stored(
    data: TensorDict, error: type[Exception], words: str
) -> None:
    ours = buffer(size=20)
    ours.extend(steps(0, 18))
    with pytest.raises(error, match=words):
        ours.extend(data)
    assert_equal(ours[:], steps(0, 18))
    # TorchRL had moved its cursor.
    assert torch.equal(ours.extend(steps(18, 4)), torch.tensor([18, 19, 0, 1]))
    assert_equal(ours[:2], steps(20, 2))


def test_what_is_no_tensordict_of_numbers_is_refused() -> None:
    storage = Storage(5)
    for data, words in (
        (Pair(torch.ones(2), torch.ones(2), batch_size=[2]), "to_tensordict"),
        (torch.ones(2), "a Tensor"),
        (TensorDict({"a": torch.ones(2), "b": "text"}, [2]), "numbers only"),
        (TensorDict({"a": torch.ones(2, dtype=torch.complex64)}, [2]), "no column can hold"),
    ):
        with pytest.raises(bc.errors.ArgumentTypeError, match=words):
            storage.set([0, 1], data)
    ends = {"done": torch.ones(2, 3, dtype=torch.bool)}
    with pytest.raises(bc.errors.ArgumentError, match="one transition with one bool"):
        storage.set([0, 1], TensorDict({"next": ends}, [2]))
    assert len(storage) == 0


def test_elements_are_not_changed_in_place() -> None:
    ours = buffer(size=20)
    ours.extend(steps(0, 20))
    for change in (
        lambda: ours.__setitem__(slice(3, 4), steps(50, 1)),
        lambda: ours.set_at_("action", torch.zeros(1, 2), torch.tensor([3])),
        lambda: ours.update_({"action": torch.zeros(20, 2)}),
        lambda: ours.__setitem__("action", torch.zeros(20, 2)),
        lambda: ours.__setitem__(("next", "reward"), torch.zeros(20, 1)),
    ):
        with pytest.raises(bc.errors.ArgumentError, match="not changed in place"):
            change()
    assert_equal(ours[:], steps(0, 20))


def test_what_is_no_checkpointer_is_refused_at_its_assignment() -> None:
    storage = Storage(50)
    own = storage.checkpointer
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"^checkpointer is 3; give"):
        storage.checkpointer = 3
    assert storage.checkpointer is own
    other = StorageCheckpointerBase()
    storage.checkpointer = other
    assert storage.checkpointer is other
    storage.checkpointer = None
    assert type(storage.checkpointer) is type(own)


def test_positions_out_of_order_are_refused() -> None:
    ours = buffer(size=20, writer=TensorDictMaxValueWriter(rank_key="value"))
    data = steps(0, 30)
    data["value"] = torch.arange(30.0).flip(0)
    data["value"][25] = 100
    for at in range(25):
        ours.add(data[at])
    with pytest.raises(bc.errors.ArgumentError, match="round robin"):
        ours.add(data[25])


def test_a_closed_storage_without_a_name_is_gone() -> None:
    storage = Storage(5)
    storage.set([0], TensorDict({"a": torch.ones(1)}, [1]))
    storage.close()
    with pytest.raises(bc.ClosedError):
        len(storage)


def test_a_dropped_storage_frees_its_ring(place: Path) -> None:
    ours = buffer(size=20, storage={"name": "short", "dir": place})
    ours.extend(steps(0, 20))
    del ours
    gc.collect()
    assert not bc.list_objects(dir=place)


def test_numbers_of_positions_are_random_over_the_whole_storage() -> None:
    storage = Storage(10)
    storage.set(range(4), steps(0, 4))
    assert storage.contains(3)
    assert not storage.contains(4)
    assert storage.contains(torch.tensor([0, 4])).tolist() == [True, False]
    with pytest.raises(bc.errors.SampleError, match="position 4 has no element"):
        storage.get([0, 4])
    with pytest.raises(bc.errors.ArgumentTypeError, match="whole numbers"):
        storage.get(np.array([0.5]))
    assert_equal(storage.get(np.array([True, False, False, True])), steps(0, 4)[[0, 3]])
