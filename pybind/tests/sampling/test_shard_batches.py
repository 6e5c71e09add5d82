"""Batches of a sampler over shards hold what the rings themselves would gather."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ArgumentError, ArgumentTypeError, ClosedError, SampleError
from backcast.ray import _link
from backcast.ray._packing import pack
from backcast.ray._shard import Shard
from counted_ring import flat
from local_shards import sampler_of, spec_of, started

COLUMNS: dict[str, Any] = {
    "obs": {"image": ("u1", (20, 20)), "state": ("f4", (3,))},
    "action": "i8",
    "reward": "f4",
}
SEQ = (1 << 48) - 1


@pytest.fixture
def shards() -> Iterator[list[Shard]]:
    with started(spec_of(2, COLUMNS, 1_000)) as made:
        for shard, steps in zip(made, (80, 300), strict=True):
            with shard.ring.writer() as writer:
                for step in range(steps):
                    obs = {"image": np.full((20, 20), step % 251), "state": [step, shard.number, 7]}
                    end = step % 11 == 10
                    more = {"final_obs": obs} if end else {}
                    writer.append(
                        obs=obs, action=step, reward=step, terminated=end, truncated=False, **more
                    )
        yield made


FORMS: dict[str, dict[str, Any]] = {
    "transitions": {},
    "windows": {"history": 4, "future": 2},
    "windows, copied": {"history": 4, "copy": True},
    "windows by column": {"history": {"obs/state": 5, "action": "first", "*": None}},
    "rejected": {"history": 3, "boundary": "reject"},
    "clamped": {"form": bc.Sequence(4, stride=2), "boundary": "clamp"},
    "sequences": {"form": bc.Sequence(6, stride=3, first=["action"])},
    "columns": {"columns": ["obs/state", "reward"]},
    "n_step": {"n_step": 3, "gamma": 0.9},
    "priority": {"select": bc.Priority(alpha=0.5), "history": 2},
}


@pytest.mark.parametrize("part_bytes", [90_000, 5_000])
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_batches_hold_the_rows_that_their_index_and_shard_name(
    options: dict[str, Any],
    part_bytes: int,
    shards: list[Shard],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_link, "PART_BYTES", part_bytes)
    sampler = sampler_of(shards, **options)
    for _ in range(4):
        batch = sampler.sample(64)
    whole = dict(flat(batch))
    assert set(batch["shard"].tolist()) == {0, 1}
    again = dict(flat(sampler.gather(batch.index, batch["shard"])))
    for shard in shards:
        mine = batch["shard"] == shard.number
        with shard.ring.sampler(seed=1, **options) as own:
            rows = dict(flat(own.gather(batch.index[mine])))
        # The weight of a row depends on all shards at the time of a draw.
        assert "weight" not in again
        rows.pop("weight", None)
        for name, array in rows.items():
            np.testing.assert_array_equal(whole[name][mine], array, err_msg=name)
            np.testing.assert_array_equal(again[name][mine], array, err_msg=name)
        assert set(whole) - set(rows) <= {"shard", "cut_age", "weight"}
    assert (batch["cut_age"] >= 0).all()
    # The arrays are the caller's.
    for array in whole.values():
        array[...] = 0


def test_windows_that_overlap_are_sent_once(shards: list[Shard]) -> None:
    with shards[1].ring.sampler(seed=3, history=10, columns=["obs/image"]) as own:
        batch = own.block(50).batch
    packed = pack(batch)
    image = batch["obs"]["image"]
    # Eleven rows of each item, not ten and ten.
    assert 1.1 * image.nbytes <= packed.nbytes <= 1.12 * image.nbytes
    for parts in (1, 7):
        first, others = pickle.loads(pickle.dumps(packed.split(parts), protocol=5))
        assert len(others) == parts - 1
        assert max(part.nbytes for part in (first, *others)) <= packed.nbytes / parts + 64
        again = first.with_parts(others)
        whole = dict(flat(again.batch()))
        for name, array in flat(batch):
            np.testing.assert_array_equal(whole[name], array)
            assert whole[name].flags.aligned
        assert again.nbytes <= packed.nbytes + 64


def test_weights_follow_their_schedule_and_the_hook_gets_whole_batches(
    shards: list[Shard],
) -> None:
    seen: list[int] = []

    def hook(batch: bc.Batch) -> bc.Batch:
        seen.append(len(batch.index))
        return batch

    select = bc.Priority(alpha=1.0, eps=0.0, beta=lambda number: number / 10, normalize="table")
    sampler = sampler_of(shards, select=select, transform=hook)
    first = sampler.sample(64)
    assert (first["weight"] == 1).all()
    sampler.update_priorities(first.index, first["shard"], np.full(64, 4.0))
    for number in range(1, 8):
        batch = sampler.sample(64)
        q = np.where(batch["weight"] < 0.999, 4.0, 1.0)
        np.testing.assert_allclose(batch["weight"], q ** (-number / 10), rtol=1e-5)
    assert (q == 4).any()
    assert seen == [64] * 8


def test_wrong_arguments_change_nothing(shards: list[Shard]) -> None:
    sampler = sampler_of(shards, select=bc.Priority())
    batch = sampler.sample(8)
    index, shard = batch.index, batch["shard"]
    bad: list[tuple[Any, ...]] = [
        (index.astype(np.int32), shard, np.ones(8)),
        (index, shard[:4], np.ones(8)),
        (index, shard, np.ones(7)),
        (index, shard, -np.ones(8)),
        (index, shard, np.full(8, np.nan)),
        (index, shard - 9, np.ones(8)),
        (index, shard + 2, np.ones(8)),
        (index, index + 3, np.ones(8)),
    ]
    for given in bad:
        with pytest.raises(SampleError):
            sampler.update_priorities(*given)
    for windows in ({"eta": 0.5}, {"mask": np.ones(8, np.bool_)}):
        with pytest.raises(SampleError, match="for windows"):
            sampler.update_priorities(index, shard, np.ones(8), **windows)
    with pytest.raises(SampleError, match="eta is 7"):
        sampler.update_priorities(index, shard, np.ones((8, 2)), eta=7)
    with pytest.raises(SampleError, match="shard is 7"):
        sampler.gather(index, np.full(8, 7))
    assert all(of.ring.stats()["tables"][0]["updated"] == 0 for of in shards)
    sizes: list[tuple[Any, type[Exception]]]
    sizes = [(0, SampleError), (True, ArgumentError), (1.5, ArgumentError)]
    for size, error in sizes:
        with pytest.raises(error):
            sampler.sample(size)
    with pytest.raises(ArgumentError):
        sampler.sample(8, timeout=-1)
    with pytest.raises(ArgumentError):
        sampler_of(shards, prefetch=-1)
    with pytest.raises(SampleError, match="state"):
        sampler_of(shards, state={"version": 0})
    wrong: dict[str, Any]
    for wrong in ({"seed": None}, {"rings": []}, {"rng": None}, {"samples": -1}):
        with pytest.raises(SampleError, match=f"the state has {next(iter(wrong))}="):
            sampler_of(shards, select=bc.Priority(), state={**sampler.state(), **wrong})
    with pytest.raises(ArgumentTypeError, match="state is 3"):
        sampler_of(shards, state=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="transform is 3"):
        sampler_of(shards, transform=3)
    for seed in (-1, "x"):
        with pytest.raises(ArgumentError, match="seed"):
            sampler_of(shards, seed=seed)  # type: ignore[arg-type]
    # Version 1 has no identities of rings.
    earlier = {key: value for key, value in sampler.state().items() if key != "rings"}
    with pytest.raises(SampleError, match="version 1 and 2 shards; give one of version 3 and 2"):
        sampler_of(shards, state={**earlier, "version": 1})
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(sampler)
    uniform = sampler_of(shards)
    with pytest.raises(SampleError, match="without priorities"):
        uniform.update_priorities(index, shard, np.ones(8))
    uniform.close()
    with pytest.raises(ClosedError):
        uniform.sample(8)


def test_equal_seeds_on_equal_data_give_equal_draws(shards: list[Shard]) -> None:
    one, other = sampler_of(shards, seed=5), sampler_of(shards, seed=5)
    for _ in range(5):
        mine, theirs = one.sample(32), other.sample(32)
        assert (mine.index == theirs.index).all()
        assert (mine["shard"] == theirs["shard"]).all()
    state = one.state()
    later = sampler_of(shards, seed=None, state=state)
    assert later.stats()["batches"] == 5
    assert later.seed == 5


def test_a_state_is_not_continued_with_other_options(shards: list[Shard]) -> None:
    options: dict[str, Any] = {
        "n_step": 3, "gamma": 0.9, "select": bc.Priority(beta=lambda number: 0.4)
    }  # fmt: skip
    with sampler_of(shards, **options) as sampler:
        state = json.loads(json.dumps(sampler.state()))
    options["select"] = bc.Priority(beta=lambda number: 0.5)
    with sampler_of(shards, state=state, **options) as later:
        assert "n_reward" in later.sample(4)
    for changed in ({"n_step": 2}, {"select": None}, {"history": 2}):
        with pytest.raises(SampleError, match=f"a sampler with {next(iter(changed))}="):
            sampler_of(shards, state=state, **(options | changed))


def test_a_refused_update_says_that_it_was_an_earlier_one(shards: list[Shard]) -> None:
    with sampler_of(shards, select=bc.Priority(alpha=1.0)) as sampler:
        batch = sampler.sample(8)
        sampler.update_priorities(batch.index, batch["shard"], np.full(8, 1e38))
        with pytest.raises(SampleError, match=r"an earlier update_priorities, of shard .*limit"):
            sampler.sample(8)


def test_shards_without_rows_are_an_error_until_they_have_some() -> None:
    with started(spec_of(2, COLUMNS, 100)) as shards:
        sampler = sampler_of(shards)
        with pytest.raises(SampleError, match="none of the 2 shards"):
            sampler.sample(4)
        obs = {"image": np.zeros((20, 20)), "state": [0, 0, 0]}
        with shards[1].ring.writer() as writer:
            for _ in range(3):
                writer.append(obs=obs, action=0, reward=0, terminated=False, truncated=False)
        assert set(sampler.sample(4)["shard"].tolist()) == {1}


def test_new_rows_enter_every_shard_at_the_largest_priority(shards: list[Shard]) -> None:
    select = bc.Priority(alpha=1.0, eps=0.0)
    sampler = sampler_of(shards, select=select)
    batch = sampler.sample(64)
    mine = batch["shard"] == 1
    sampler.update_priorities(
        batch.index[mine], batch["shard"][mine], np.full(int(mine.sum()), 9.0)
    )
    for _ in range(4):
        sampler.sample(256)
    with shards[0].ring.sampler(seed=1, select=select) as own:
        assert own.block(1).q_new == 9.0
