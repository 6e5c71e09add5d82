"""Windows by column, and n-step returns whose discounts come from a column."""

import json
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest

COLUMNS = {
    "obs/a": "f4",
    "obs/b": ("f4", (2,)),
    "reward": "f8",
    "discount": "f4",
    "lstm": ("f4", (3,)),
}


@pytest.fixture
def buf() -> bc.ReplayBuffer:
    """Make a ring of episodes of seven steps, whose values are the number of the step."""
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=200)
    with buf.writer() as writer:
        for t in range(100):
            ends = t % 7 == 6
            obs = {"a": t, "b": [t, -t]}
            writer.append(
                obs=obs,
                reward=t,
                discount=0.5 + (t % 2) / 4,
                lstm=[t, t, t],
                terminated=ends,
                truncated=False,
                final_obs=obs if ends else None,
            )
    return buf


def test_windows_by_column_are_parts_of_the_longest_one(buf: bc.ReplayBuffer) -> None:
    windows: dict[str, int | Literal["first"] | None] = {
        "obs/a": 6,
        "obs": 2,
        "lstm": "first",
        "reward": None,
    }
    by_column = buf.sampler(seed=7, history=windows, copy=True)
    whole = buf.sampler(seed=7, history=6, copy=True)
    found, expected = by_column.sample(64), whole.sample(64)
    for _ in range(2):
        assert (found.index == expected.index).all()
        assert found.mask is not None
        assert expected.mask is not None
        assert np.array_equal(found.mask, expected.mask)
        assert (found["obs"]["a"] == expected["obs"]["a"]).all()
        assert (found["obs"]["b"] == expected["obs"]["b"][:, -2:]).all()
        assert (found["next_obs"]["b"] == expected["next_obs"]["b"][:, -2:]).all()
        assert (found["reward"] == expected["reward"][:, -1]).all()
        first = expected.mask.argmax(axis=1)
        assert (found["lstm"] == expected["lstm"][np.arange(64), first]).all()
        assert set(found) == {"obs", "next_obs", "reward", "lstm", "mask", "index", "age"}
        found, expected = by_column.gather(found.index), whole.gather(found.index)
    assert by_column.history == windows
    assert "history by column" in repr(by_column)


def test_columns_are_the_short_form(buf: bc.ReplayBuffer) -> None:
    batch = buf.sample(16, columns=["reward", "terminated"])
    assert set(batch) == {"reward", "terminated", "index", "age"}
    batch = buf.sample(16, 3, columns=["obs"], future=2)
    assert set(batch) == {"obs", "next_obs", "future", "mask", "future_mask", "index", "age"}
    assert batch["obs"]["b"].shape == (16, 3, 2)
    assert set(batch["future"]) == {"obs", "next_obs"}
    index = batch.index
    gathered = buf.gather(index, history={"reward": 4, "*": None})
    assert gathered["reward"].shape == (16, 4)
    assert gathered["lstm"].shape == (16, 3)
    assert buf.gather(index, columns=["lstm"])["lstm"].shape == (16, 3)
    with buf.sampler(seed=1, columns=["obs"]).batches(8, limit=2) as batches:
        assert [set(batch) for batch in batches] == [{"obs", "next_obs", "index", "age"}] * 2


def test_a_state_carries_windows_by_column(buf: bc.ReplayBuffer) -> None:
    sampler = buf.sampler(seed=3, history={"obs": 5, "lstm": "first"}, n_step=2, gamma="discount")
    sampler.sample(8)
    state = json.loads(json.dumps(sampler.state()))
    again = buf.sampler(state=state)
    assert again.history == {"obs": 5, "lstm": "first"}
    assert again.gamma == "discount"
    found, expected = again.sample(8), sampler.sample(8)
    assert (found.index == expected.index).all()
    assert (found["n_reward"] == expected["n_reward"]).all()
    assert set(found) == set(expected)


def test_returns_are_discounted_by_a_column(buf: bc.ReplayBuffer) -> None:
    batch = buf.sample(128, future=2, n_step=3, gamma="discount")
    rewards = np.concatenate([batch["reward"][:, None], batch["future"]["reward"]], axis=1)
    discounts = np.concatenate([batch["discount"][:, None], batch["future"]["discount"]], axis=1)
    there = np.concatenate([np.ones((128, 1), bool), batch.future_mask], axis=1)
    before = np.concatenate([np.ones((128, 1)), np.cumprod(discounts, axis=1)[:, :-1]], axis=1)
    assert np.allclose(batch["n_reward"], (rewards * before * there).sum(axis=1))
    ended = batch["terminated"] | batch["future"]["terminated"].any(axis=1)
    product = np.where(there, discounts, 1).prod(axis=1)
    assert np.allclose(batch["n_discount"], np.where(ended, 0, product))


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ({"history": {"obs": 0}}, bc.errors.SampleError, r"history\[\"obs\"\].*\b0\b"),
        ({"history": {"obs": 2.5}}, TypeError, r"history\[\"obs\"\].*2.5"),
        ({"history": {"obs": "last"}}, TypeError, '"first"'),
        ({"history": {3: 2}}, TypeError, r"\bhistory\b.*\b3\b"),
        ({"history": {"speed": 2}}, bc.errors.SampleError, "`speed`"),
        ({"history": {}}, bc.errors.SampleError, r'"\*"'),
        ({"history": {"obs": 500}}, bc.errors.SampleError, "500"),
        ({"history": "obs"}, TypeError, r"\bhistory\b.*'obs'"),
        ({"columns": "obs"}, TypeError, r"\bcolumns\b"),
        ({"columns": [1]}, TypeError, r"\bcolumns\b"),
        ({"columns": []}, bc.errors.SampleError, r'"\*"'),
        ({"columns": ["next_obs"]}, bc.errors.SampleError, "`next_obs`"),
        ({"columns": ["obs"], "history": {"obs": 2}}, bc.errors.SampleError, r'\bhistory\b.*"\*"'),
        ({"gamma": "discount"}, bc.errors.SampleError, r"\bn_step\b"),
        ({"gamma": "reward", "n_step": 2}, TypeError, '"discount"'),
    ],
)
def test_windows_that_cannot_be_are_refused(
    buf: bc.ReplayBuffer, arguments: dict[str, Any], error: type[Exception], part: str
) -> None:
    for ask in (buf.sampler, lambda **arguments: buf.sample(4, **arguments)):
        with pytest.raises(error, match=part):
            ask(**arguments)


def test_discounts_of_a_ring_without_them_are_refused() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=50)
    with pytest.raises(bc.errors.SampleError, match="`discount`"):
        buf.sampler(n_step=2, gamma="discount")
