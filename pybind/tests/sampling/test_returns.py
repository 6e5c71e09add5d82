"""Returns over windows and whole episodes, compared with their definitions in plain Python."""

from __future__ import annotations

from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from backcast import returns as returns_of
from numpy.typing import NDArray

ENDS = 11


def ring(steps: int = 150, dtype: str = "f4") -> bc.ReplayBuffer:
    """Return a ring of episodes of 11 steps, which end terminated and truncated in turn."""
    columns = {"obs": "f8", "reward": dtype, "discount": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=1_000)
    rng = np.random.default_rng(5)
    with buf.writer() as writer:
        for step in range(steps):
            over = step % ENDS == ENDS - 1
            terminated = over and step // ENDS % 2 == 0
            writer.append(
                obs=step,
                reward=rng.normal(),
                discount=rng.random(),
                terminated=terminated,
                truncated=over and not terminated,
                final_obs=step + 0.5 if over else None,
            )
    return buf


def value(obs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sin(obs)


def reference(
    rewards: NDArray[Any],
    values: NDArray[Any],
    next_values: NDArray[Any],
    terminated: NDArray[Any],
    cut: NDArray[Any],
    discounts: NDArray[Any],
    lam: float,
) -> tuple[list[float], list[float]]:
    """Return advantages and lambda-returns of one trace as sums over all later transitions."""
    advantages, mixed = [], []
    for t in range(len(rewards)):
        last = next(k for k in range(t, len(rewards)) if cut[k])
        n_step, advantage, factor, weight = [], 0.0, 1.0, 1.0
        total = 0.0
        for k in range(t, last + 1):
            goes = 0.0 if terminated[k] else discounts[k]
            total += weight * rewards[k]
            n_step.append(total + weight * goes * next_values[k])
            advantage += factor * (rewards[k] + goes * next_values[k] - values[k])
            weight, factor = weight * goes, factor * goes * lam
        n = len(n_step)
        shorter = sum((1 - lam) * lam ** (i) * n_step[i] for i in range(n - 1))
        mixed.append(shorter + lam ** (n - 1) * n_step[-1])
        advantages.append(advantage)
    return advantages, mixed


@pytest.mark.parametrize("windows", [(8, 0), (1, 6), (5, 4), (None, 7)])
@pytest.mark.parametrize("gamma", [0.9, "discount"])
@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_returns_over_drawn_windows_are_those_of_their_definitions(
    windows: tuple[int | None, int], gamma: float | Literal["discount"], lam: float
) -> None:
    history, future = windows
    batch = ring().sampler(seed=3, history=history, future=future, copy=True).sample(200)
    items = len(batch.index)

    def joined(key: str) -> NDArray[Any]:
        now = batch[key].reshape(items, -1)
        return np.concatenate([now, batch["future"][key]], axis=1) if future else now

    values, next_values = value(joined("obs")), value(joined("next_obs"))
    masks: list[Any] = [batch.mask] if history else [np.ones((items, 1), bool)]
    mask = np.concatenate([*masks, batch.future_mask] if future else masks, axis=1)
    terminated, truncated = joined("terminated"), joined("truncated")
    advantages, returns = returns_of.gae(batch, values, next_values, gamma=gamma, lam=lam)
    mixed = returns_of.lambda_returns(batch, next_values, gamma=gamma, lam=lam)
    assert advantages.dtype == returns.dtype == mixed.dtype == np.float64
    discounts = joined("discount") if gamma == "discount" else np.full(mask.shape, gamma)
    whole = 0
    for item in range(items):
        at = np.flatnonzero(mask[item])
        assert np.array_equal(at, np.arange(at[0], at[-1] + 1))
        cut = terminated[item, at] | truncated[item, at]
        cut[-1] = True
        rows: list[Any] = [
            array[item, at] for array in (joined("reward"), values, next_values, terminated)
        ]
        # The reference sums in float64, whatever the dtype of the columns.
        exact = [row if row.dtype == bool else row.astype("f8") for row in rows]
        rewards, before, after, terminal = exact
        weights = discounts[item, at].astype("f8")
        expected = reference(rewards, before, after, terminal, cut, weights, lam)
        np.testing.assert_allclose(advantages[item, at], expected[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(mixed[item, at], expected[1], rtol=1e-9, atol=1e-9)
        whole += len(at) == mask.shape[1]
    np.testing.assert_allclose(returns[mask], (advantages + values)[mask])
    assert not advantages[~mask].any()
    assert 0 < whole < items
    assert (truncated & mask).any()
    assert (terminated & mask).any()


def test_discounted_returns_are_sums_of_rewards_and_keep_their_type() -> None:
    batch = ring().sampler(seed=1, future=4).sample(64)
    found = returns_of.discounted(batch, gamma=0.5)
    assert found.dtype == np.float32
    assert found.shape == (64, 5)
    present = np.concatenate([np.ones((64, 1), bool), batch.future_mask], axis=1)
    rewards = np.concatenate([batch["reward"][:, None], batch["future"]["reward"]], axis=1)
    sums = (np.where(present, rewards, 0).astype("f8") * 0.5 ** np.arange(5)).sum(axis=1)
    np.testing.assert_allclose(found[:, 0], sums, rtol=1e-6)
    values = np.zeros((64, 5), "f4")
    assert returns_of.gae(batch, values, values, gamma=0.5, lam=0.9).returns.dtype == np.float32


@pytest.mark.parametrize("dtype", ["i1", "i4", "?"])
def test_returns_of_whole_rewards_are_floats(dtype: str) -> None:
    rewards = np.array([[1, 0, 1, 1]], dtype)
    no = np.zeros((1, 4), bool)
    batch = {"reward": rewards, "terminated": no, "truncated": no}
    found = returns_of.discounted(batch, gamma=0.5)
    np.testing.assert_array_equal(found, [[1.375, 0.75, 1.5, 1.0]])
    halves = np.full((1, 4), 0.5, "f2")
    mixed = returns_of.lambda_returns(batch, halves, gamma=0.5, lam=0.0)
    np.testing.assert_array_equal(mixed, [[1.25, 0.25, 1.25, 1.25]])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"gamma": 1.5}, r"\bgamma\b.*1.5.*\b0\b.*\b1\b"),
        ({"lam": -0.1}, r"-0.1.*\b0\b.*\b1\b"),
        ({"gamma": "reward"}, r'\bgamma\b.*\b0\b.*\b1\b.*"discount"'),
        ({"values": np.zeros((8, 3))}, r"\bvalues\b.*\b8\b.*\b3\b.*\b8\b.*\b4\b"),
        ({"next_values": np.zeros(8)}, r"\bnext_values\b.*\(8,\)"),
        ({"values": np.zeros((8, 4), bool)}, r"\bvalues\b"),
    ],
)
def test_bad_arguments_of_returns_are_refused(change: dict[str, Any], match: str) -> None:
    batch = ring().sampler(seed=1, history=4).sample(8)
    good = {"values": np.zeros((8, 4)), "next_values": np.zeros((8, 4)), "gamma": 0.9, "lam": 0.5}
    arguments: dict[str, Any] = good | change
    with pytest.raises(bc.errors.SampleError, match=match):
        returns_of.gae(batch, **arguments)


@pytest.mark.parametrize("missing", ["reward", "terminated", "truncated", "discount"])
@pytest.mark.parametrize("form", [None, "ragged", "future"])
def test_a_column_that_a_batch_lacks_is_named(form: str | None, missing: str) -> None:
    sizes: dict[str, Any] = {"history": 4, "future": 2 if form == "future" else 0}
    if form == "ragged":
        sizes = {"form": bc.WholeEpisodes("ragged")}
    batch: dict[str, Any] = dict(ring().sampler(seed=1, **sizes).sample(8))
    if form == "future":
        batch["future"] = {name: of for name, of in batch["future"].items() if name != missing}
    else:
        batch.pop(missing, None)
    gamma: Any = "discount"
    with pytest.raises(bc.errors.SampleError, match=rf"`{missing}`.*\bcolumns\b"):
        returns_of.discounted(batch, gamma=gamma)


def test_rewards_with_another_window_than_the_mask_are_refused() -> None:
    batch = ring().sampler(seed=1, history={"obs": 6, "*": None}).sample(8)
    with pytest.raises(bc.errors.SampleError, match="`reward`"):
        returns_of.discounted(batch, gamma=0.9)


def uneven_ring() -> bc.ReplayBuffer:
    """Return a ring of episodes of 1 to 7 steps, which end terminated and truncated in turn."""
    buf = bc.ReplayBuffer.create(
        None, {"obs": "f8", "reward": "f4", "discount": "f4"}, capacity=500
    )
    rng = np.random.default_rng(3)
    with buf.writer() as writer:
        for episode in range(40):
            length = int(rng.integers(1, 8))
            for step in range(length):
                over = step == length - 1
                writer.append(
                    obs=rng.normal(),
                    reward=rng.normal(),
                    discount=rng.random(),
                    terminated=over and episode % 2 == 0,
                    truncated=over and episode % 2 == 1,
                    final_obs=rng.normal() if over else None,
                )
    return buf


@pytest.mark.parametrize("gamma", [0.9, "discount"])
def test_returns_of_ragged_episodes_are_those_of_padded_ones(
    gamma: float | Literal["discount"],
) -> None:
    buf = uneven_ring()
    padded = buf.sampler(seed=7, form=bc.WholeEpisodes("padded")).sample(64)
    ragged = buf.sampler(seed=7, form=bc.WholeEpisodes("ragged")).sample(64)
    mask = padded.mask
    assert mask is not None
    assert len(set(padded["length"])) > 3
    np.testing.assert_array_equal(ragged["reward"], padded["reward"][mask])
    before = [value(batch["obs"]) for batch in (padded, ragged)]
    after = [value(batch["next_obs"]) for batch in (padded, ragged)]
    expected: Any = returns_of.gae(padded, before[0], after[0], gamma=gamma, lam=0.7)
    found: Any = returns_of.gae(ragged, before[1], after[1], gamma=gamma, lam=0.7)
    for there, here in zip(expected, found, strict=True):
        assert here.shape == ragged["reward"].shape
        np.testing.assert_array_equal(here, there[mask])
    mixed = returns_of.lambda_returns(padded, after[0], gamma=gamma, lam=0.7)
    np.testing.assert_array_equal(
        returns_of.lambda_returns(ragged, after[1], gamma=gamma, lam=0.7), mixed[mask]
    )
    sums = returns_of.discounted(padded, gamma=gamma)[mask]
    np.testing.assert_array_equal(returns_of.discounted(ragged, gamma=gamma), sums)
    assert not np.array_equal(sums, ragged["reward"])
    for dtype in ("i4", "u8", "f8"):
        narrow = dict(ragged) | {"offsets": ragged["offsets"].astype(dtype)}
        np.testing.assert_array_equal(returns_of.discounted(narrow, gamma=gamma), sums)
    # A ragged episode ends at its last transition, whatever the flags of the batch say.
    ragged["truncated"][:] = False
    np.testing.assert_array_equal(returns_of.discounted(ragged, gamma=gamma), sums)
    with pytest.raises(bc.errors.SampleError, match=r"\bnext_values\b.*\b64\b.*\b7\b"):
        returns_of.discounted(ragged, np.zeros((64, 7)), gamma=gamma)


def test_a_column_named_offsets_does_not_make_a_batch_ragged() -> None:
    buf = bc.ReplayBuffer.create(None, {"step": "i8", "reward": "f4"}, capacity=100)
    with buf.writer() as writer:
        for step in range(50):
            writer.append(step=step, reward=1, terminated=False, truncated=False)
    for settings in ({}, {"history": 4}, {"future": 3}):
        batch = buf.sampler(seed=1, **settings).sample(8)  # type: ignore[arg-type]
        # Rings of earlier versions may have a column named `offsets`.
        batch["offsets"] = batch.pop("step")
        steps = settings.get("history", 1) + settings.get("future", 0)
        assert returns_of.discounted(batch, gamma=0.9).shape == (8, steps)
