"""Array pool of steps: arrays without references are filled again, others do not change."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from envs_worlds import same

Make = Callable[[bc.Panel], Any]

MAKES: dict[str, Make] = {
    "single": lambda panel: PortfolioEnv(panel, history=2, initial_amount=1e6),
    "three": lambda panel: PortfolioVectorEnv(panel, 3, history=2, initial_amount=1e6),
    "laid-out": lambda panel: PortfolioVectorEnv(panel, 9, history=2, initial_amount=1e6),
    "flat": lambda panel: PortfolioVectorEnv(panel, 9, obs="flat", initial_amount=1e6),
}

KEEPS: dict[str, Callable[[Any], Any]] = {
    "all": lambda result: result,
    "observation": lambda result: result[0],
    "rewards": lambda result: result[1],
    "array": lambda result: result[0]["open"],
    "slice": lambda result: result[0]["open"][..., 1:],
    "slice of a slice": lambda result: result[0]["history"][..., 1:, :][..., :1],
    "buffer": lambda result: memoryview(result[0]["total_asset"]),
    "other dtype": lambda result: result[0]["avg_buy_price"].view(np.int64),
}


def steps(env: Any, count: int) -> Any:  # noqa: ANN401
    """Yield the results of steps, whose actions are the same for every environment."""
    draw = np.random.default_rng(3)
    for _ in range(count):
        actions = draw.uniform(-1, 1, env.action_space.shape)
        result = env.step(actions)
        if np.any(result[2]) or np.any(result[3]):
            env.reset(seed=1)
        yield result


@pytest.mark.parametrize(
    ("make", "keep"),
    [
        pytest.param(make, keep, id=f"{name}, {kept}")
        for name, make in MAKES.items()
        for kept, keep in KEEPS.items()
        if name != "flat" or kept in ("all", "observation", "rewards")
    ],
)
def test_arrays_that_a_caller_keeps_do_not_change(
    panel: bc.Panel, make: Make, keep: Callable[[Any], Any]
) -> None:
    env, twin = make(panel), make(panel)
    env.reset(seed=1), twin.reset(seed=1)
    pairs: list[tuple[Any, Any]] = []
    for at, (result, expected) in enumerate(zip(steps(env, 14), steps(twin, 14), strict=True)):
        # Keep two results of three, so that later steps fill the arrays of the third again.
        if at % 3 != 2:
            pairs.append((keep(result), copy.deepcopy(expected)))
        assert same(result, expected)
        del result
    for kept, expected in pairs:
        assert same(
            np.asarray(kept) if isinstance(kept, memoryview) else kept, asked(keep, expected)
        )


def asked(keep: Callable[[Any], Any], result: Any) -> Any:  # noqa: ANN401
    """Return the part of a result that `keep` selects, buffers as arrays."""
    part = keep(result)
    return np.asarray(part) if isinstance(part, memoryview) else part


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_arrays_that_no_caller_keeps_are_filled_again(panel: bc.Panel, make: Make) -> None:
    env = make(panel)
    env.reset(seed=1)
    places, obs = set(), None
    for obs, *_ in steps(env, 12):
        array = obs["open"] if isinstance(obs, dict) else obs
        places.add(array.__array_interface__["data"][0])
        del array
    assert obs is not None
    assert len(places) <= 3


def lock(array: Any) -> None:  # noqa: ANN401
    """Make an array read-only."""
    array.flags.writeable = False


def shrink(array: Any) -> None:  # noqa: ANN401
    """Resize an array to one element."""
    array.resize((1,) * array.ndim, refcheck=False)


@pytest.mark.parametrize("alter", [lock, shrink])
@pytest.mark.parametrize("name", ["single", "laid-out"])
def test_altered_arrays_are_not_filled_again(
    panel: bc.Panel, name: str, alter: Callable[[Any], None]
) -> None:
    env, twin = MAKES[name](panel), MAKES[name](panel)
    env.reset(seed=1), twin.reset(seed=1)
    for result, expected in zip(steps(env, 8), steps(twin, 8), strict=True):
        assert same(result, expected)
        for key, array in result[0].items():
            if array.flags.owndata:
                assert array.flags.writeable, key
                alter(array)
        del result, array


def test_an_array_that_is_only_watched_is_not_changed(panel: bc.Panel) -> None:
    env = MAKES["single"](panel)
    env.reset(seed=1)
    watched = []
    for obs, *_ in steps(env, 8):
        watched.append((weakref.ref(obs["open"]), obs["open"].copy()))
        del obs
    for watch, before in watched:
        array = watch()
        assert array is None or np.array_equal(array, before)


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_a_closed_environment_holds_no_array(panel: bc.Panel, make: Make) -> None:
    env = make(panel)
    env.reset(seed=1)
    obs, *_ = env.step(np.zeros(env.action_space.shape))
    array = obs["open"] if isinstance(obs, dict) else obs
    watch = weakref.ref(array)
    del obs, array
    env.close()
    assert watch() is None
