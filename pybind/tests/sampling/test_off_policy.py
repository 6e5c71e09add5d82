"""V-trace and Retrace over windows, against the sums of the papers."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import returns as returns_of
from numpy.typing import NDArray

STEPS = 12


def rollouts(count: int, seed: int) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return random windows of transitions with ends and cuts, and the numbers of networks."""
    dice = np.random.default_rng(seed)
    shape = (count, STEPS)
    first = dice.integers(0, STEPS, count)
    last = dice.integers(first, STEPS)
    places = np.arange(STEPS)
    batch: dict[str, Any] = {
        "reward": dice.normal(size=shape),
        "discount": dice.random(shape),
        "terminated": dice.random(shape) < 0.1,
        "truncated": dice.random(shape) < 0.1,
        "mask": (places >= first[:, None]) & (places <= last[:, None]),
    }
    names = ["values", "next_values"]
    numbers = {name: dice.normal(size=shape) for name in names}
    numbers["ratios"] = dice.gamma(1.0, size=shape)
    # Not read: no observation follows, or no transition is there.
    numbers["next_values"][batch["terminated"] | ~batch["mask"]] = np.nan
    numbers["ratios"][~batch["mask"]] = np.nan
    return batch, numbers


def reference(
    batch: dict[str, Any],
    numbers: dict[str, NDArray[np.float64]],
    weight: NDArray[np.float64],
    passed_on: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the sums of weighed errors from each place to the end of its trace.

    The error of a later transition is multiplied by all ``passed_on`` between them.
    """
    goes = np.where(batch["terminated"], 0.0, batch["discount"])
    after = np.where(batch["terminated"], 0.0, numbers["next_values"])
    errors = weight * (batch["reward"] + goes * after - numbers["values"])
    ends = batch["terminated"] | batch["truncated"]
    sums = np.zeros(batch["reward"].shape)
    for start in range(STEPS):
        factor = np.ones(len(sums))
        alive = batch["mask"][:, start].copy()
        for place in range(start, STEPS):
            alive &= batch["mask"][:, place]
            sums[alive, start] += (factor * errors[:, place])[alive]
            factor *= goes[:, place] * passed_on[:, place]
            alive &= ~ends[:, place]
    return sums


def test_vtrace_is_the_sum_of_the_paper() -> None:
    batch, numbers = rollouts(10_000, seed=1)
    lam, rho_clip, c_clip = 0.9, 1.3, 0.8
    options: dict[str, Any] = {"lam": lam, "rho_clip": rho_clip, "c_clip": c_clip, **numbers}
    targets, advantages = returns_of.vtrace(batch, gamma="discount", **options)
    rho = np.minimum(rho_clip, numbers["ratios"])
    c = lam * np.minimum(c_clip, numbers["ratios"])
    there = batch["mask"]
    expected = numbers["values"] + reference(batch, numbers, rho, c)
    np.testing.assert_allclose(targets[there], expected[there], rtol=0, atol=1e-12)
    # The target of the observation after a transition: that of the next place, or its value.
    goes_on = there & ~batch["terminated"] & ~batch["truncated"]
    goes_on &= np.concatenate([there[:, 1:], np.zeros((len(there), 1), bool)], axis=1)
    following = np.where(goes_on, np.roll(expected, -1, axis=1), numbers["next_values"])
    bootstrap = np.where(batch["terminated"], 0.0, batch["discount"] * following)
    wanted = rho * (batch["reward"] + bootstrap - numbers["values"])
    np.testing.assert_allclose(advantages[there], wanted[there], rtol=0, atol=1e-12)
    assert not targets[~there].any()
    assert not advantages[~there].any()
    assert goes_on.any()


def test_retrace_is_the_sum_of_the_paper() -> None:
    batch, numbers = rollouts(10_000, seed=2)
    found = returns_of.retrace(
        batch,
        numbers["values"],
        numbers["next_values"],
        numbers["ratios"],
        gamma="discount",
        lam=0.7,
    )
    # The weight of a later error is the product of the ratios of the places after the first one.
    later = np.roll(0.7 * np.minimum(1.0, numbers["ratios"]), -1, axis=1)
    ones = np.ones_like(numbers["values"])
    expected = numbers["values"] + reference(batch, numbers, ones, later)
    there = batch["mask"]
    np.testing.assert_allclose(found[there], expected[there], rtol=0, atol=1e-12)
    assert not found[~there].any()


def test_drawn_windows_and_ragged_episodes_have_equal_targets() -> None:
    columns = {"obs": "f4", "reward": "f4", "logp": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=500)
    dice = np.random.default_rng(4)
    with buf.writer() as writer:
        for step in range(200):
            writer.append(
                obs=step,
                reward=dice.normal(),
                logp=dice.normal(),
                terminated=step % 9 == 8,
                truncated=False,
                final_obs=step + 0.5,
            )
    fifo: Any = {"select": "fifo"}
    padded = buf.sampler(form=bc.WholeEpisodes("padded"), **fifo).sample(5)
    ragged = buf.sampler(form=bc.WholeEpisodes("ragged"), **fifo).sample(5)
    found = []
    for batch in (padded, ragged):
        # The results have the dtype of the values, whatever that of the ratios.
        ratios = np.exp(-batch["logp"].astype("f8"))
        values, following = np.sin(batch["obs"]), np.sin(batch["next_obs"])
        targets, advantages = returns_of.vtrace(batch, values, following, ratios, gamma=0.9)
        assert targets.dtype == advantages.dtype == np.float32
        found.append((targets, advantages))
    mask = padded["mask"]
    np.testing.assert_array_equal(found[0][0][mask], found[1][0])
    np.testing.assert_array_equal(found[0][1][mask], found[1][1])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"ratios": np.full((4, STEPS), -0.5)}, r"ratios\[.*-0.5"),
        ({"ratios": np.ones((4, 3))}, r"ratios is \(4, 3\).*\(4, 12\)"),
        ({"ratios": np.ones((4, STEPS), bool)}, r"ratios .*\bbool\b"),
        ({"rho_clip": 0}, r"rho_clip is 0\b"),
        ({"c_clip": float("nan")}, r"c_clip is NaN"),
        ({"lam": 2}, r"\b2\b.*\b0 to 1\b"),
    ],
)
def test_bad_ratios_and_limits_are_refused(change: dict[str, Any], match: str) -> None:
    batch, numbers = rollouts(4, seed=3)
    batch["mask"][:] = True
    numbers["ratios"][:] = 1
    given: dict[str, Any] = {**numbers, "gamma": 0.9, **change}
    with pytest.raises(bc.errors.SampleError, match=match):
        returns_of.vtrace(batch, **given)


ARRAYS = {
    "gae": ["values", "next_values"],
    "lambda_returns": ["next_values"],
    "vtrace": ["values", "next_values", "ratios"],
    "retrace": ["action_values", "next_values", "ratios"],
}


@pytest.mark.parametrize(
    ("call", "missing"), [(call, name) for call, names in ARRAYS.items() for name in names]
)
def test_none_in_place_of_an_array_is_refused(call: str, missing: str) -> None:
    batch, numbers = rollouts(4, seed=3)
    given: dict[str, Any] = {name: numbers.get(name, numbers["values"]) for name in ARRAYS[call]}
    given |= {"gamma": 0.9, "lam": 0.5, missing: None}
    with pytest.raises(bc.errors.ArgumentTypeError, match=rf"^{missing} is None; give \w"):
        getattr(returns_of, call)(batch, **given)


def test_every_function_of_returns_refuses_a_batch_that_is_none() -> None:
    functions = [name for name in returns_of.__all__ if name.islower()]
    assert sorted(functions) == sorted([*ARRAYS, "discounted"])
    for name in functions:
        given: dict[str, Any] = {key: [0.0] for key in ARRAYS.get(name, [])}
        if name != "discounted":
            given["lam"] = 0.5
        with pytest.raises(bc.errors.ArgumentTypeError, match=r"^batch is None; give"):
            getattr(returns_of, name)(None, gamma=0.9, **given)
