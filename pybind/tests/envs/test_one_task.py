"""The episodes of an id are equal in whichever way its environment is made."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv, TradingEnv, TradingVectorEnv
from envs_worlds import row_of
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

N, STEPS, SEED = 2, 40, 5
PORTFOLIO, TRADING = "backcast/Portfolio-v0", "backcast/Trading-v0"

Trace = list[list[tuple[Any, ...]]]


class Task(NamedTuple):
    """Id of an environment with settings that end episodes, and a step limit."""

    id: str
    settings: dict[str, Any]
    limit: int


@pytest.fixture(params=["portfolio", "flat-portfolio", "trading", "trading-by-ticks"])
def task(request: pytest.FixtureRequest, panel_file: Path) -> Task:
    """Give a task of each kind; the trading ones pay a bonus at the end."""
    portfolio = {"panel": str(panel_file), "hmax": 300, "failure_threshold": 29_900.0}
    bonus = {"reward": "risk_adjusted", "reward_options": {"sharpe_terminal_bonus": 10.0}}
    trading = {"preset": "teaching", "warmup_ticks": 20, "max_ticks": 25, **bonus}
    trading["bankruptcy_equity"] = 99_980.0
    return {
        "portfolio": Task(PORTFOLIO, portfolio, 6),
        "flat-portfolio": Task(PORTFOLIO, portfolio | {"obs": "flat", "history": 3}, 6),
        "trading": Task(TRADING, trading, 7),
        "trading-by-ticks": Task(TRADING, trading | {"frame_skip": 3, "max_ticks": 50}, 9),
    }[request.param]


def action_of(space: gym.Space[Any], env: int, step: int) -> Any:  # noqa: ANN401
    """Choose the action of a transition, the same however the environment is stepped."""
    draw = np.random.default_rng([SEED, env, step])
    if isinstance(space, gym.spaces.Discrete):
        return draw.integers(space.n)
    assert isinstance(space, gym.spaces.Box)
    return draw.uniform(-1, 1, space.shape).astype(np.float32)


def plain(value: Any) -> Any:  # noqa: ANN401
    """Turn a result into Python numbers and bytes, which are compared bit by bit."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray) and value.ndim:
        return value.dtype.str, value.shape, value.tobytes()
    number = value.item() if hasattr(value, "item") else value
    return number.hex() if isinstance(number, float) else number


def info_of(infos: dict[str, Any], env: int) -> dict[str, Any]:
    """Return one environment's infos out of those of many, by their masks."""
    shown = {}
    for key, value in infos.items():
        if not key.startswith("_") and infos.get(f"_{key}", np.ones(N, bool))[env]:
            shown[key] = info_of(value, env) if isinstance(value, dict) else value[env]
    return shown


def single_trace(make: Callable[[], gym.Env[Any, Any]]) -> Trace:
    """Play the episodes of `N` single environments."""
    traces: Trace = []
    for env in range(N):
        one = make()
        traces.append([plain(one.reset(seed=SEED + env)[0])])
        for step in range(STEPS):
            result = one.step(action_of(one.action_space, env, step))
            traces[env].append(tuple(map(plain, result)))
            if result[2] or result[3]:
                traces[env].append(tuple(map(plain, one.reset())))
        one.close()
    return traces


def vector_trace(many: Any) -> Trace:  # noqa: ANN401
    """Play the same episodes in a vector environment, in its autoreset mode."""
    mode = many.metadata["autoreset_mode"]
    obs, _ = many.reset(seed=SEED)
    traces: Trace = [[plain(row_of(obs, env))] for env in range(N)]
    steps, resets = [0] * N, np.zeros(N, bool)
    while min(steps) < STEPS:
        space = many.single_action_space
        actions = np.stack([action_of(space, env, steps[env]) for env in range(N)])
        obs, rewards, terminated, truncated, infos = many.step(actions)
        ended = terminated | truncated
        for env in range(N):
            seen, info = row_of(obs, env), info_of(infos, env)
            if resets[env]:
                traces[env].append((plain(seen), plain(info)))
                continue
            steps[env] += 1
            flags = rewards[env], terminated[env], truncated[env]
            if ended[env] and mode is AutoresetMode.SAME_STEP:
                last, last_info = infos["final_obs"][env], info_of(infos["final_info"], env)
                traces[env].append(tuple(map(plain, (last, *flags, last_info))))
                left_out = ("final_obs", "final_info", "metrics")
                begun = {key: value for key, value in info.items() if key not in left_out}
                traces[env].append((plain(seen), plain(begun)))
            else:
                traces[env].append(tuple(map(plain, (seen, *flags, info))))
        resets = ended if mode is AutoresetMode.NEXT_STEP else np.zeros(N, bool)
        if mode is AutoresetMode.DISABLED and ended.any():
            obs, infos = many.reset(options={"reset_mask": ended})
            for env in np.flatnonzero(ended).tolist():
                traces[env].append((plain(row_of(obs, env)), plain(info_of(infos, env))))
    many.close()
    return traces


def assert_same_episodes(found: Trace, expected: Trace) -> None:
    for env, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        common = min(len(ours), len(theirs))
        assert common > STEPS
        for at, (one, other) in enumerate(zip(ours[:common], theirs[:common], strict=True)):
            assert one == other, (env, at)


def constructed(task: Task, **limit: Any) -> Trace:  # noqa: ANN401
    """Return the trace of constructed environments, and assert that it has ends with metrics."""
    single: Any = PortfolioEnv if task.id == PORTFOLIO else TradingEnv
    trace = single_trace(lambda: single(**(task.settings | limit)))
    ends = [step for one in trace for step in one if len(step) == 5 and (step[2] or step[3])]
    assert ends
    assert all("metrics" in end[4] for end in ends)
    return trace


def changed_spec(task: Task, **changes: Any) -> EnvSpec:  # noqa: ANN401
    spec = copy.deepcopy(gym.spec(task.id))
    for name, value in changes.items():
        setattr(spec, name, value)
    return spec


# Ways to give a step limit: to `gym.make` and `gym.make_vec`, in the spec, and in its `kwargs`.
GIVEN: dict[str, Callable[[Task], tuple[Any, dict[str, Any], int | None]]] = {
    "no limit": lambda task: (task.id, {}, None),
    "none": lambda task: (task.id, {"max_episode_steps": None}, None),
    "switched off": lambda task: (task.id, {"max_episode_steps": -1}, None),
    "keyword": lambda task: (task.id, {"max_episode_steps": task.limit}, task.limit),
    "one step": lambda task: (task.id, {"max_episode_steps": 1}, 1),
    "longer than the data": lambda task: (task.id, {"max_episode_steps": 1_000}, 1_000),
    "spec": lambda task: (
        changed_spec(task, max_episode_steps=task.limit),
        {},
        task.limit,
    ),
    "spec and keyword": lambda task: (
        changed_spec(task, max_episode_steps=task.limit + 3),
        {"max_episode_steps": task.limit},
        task.limit,
    ),
    "settings of the id": lambda task: (
        changed_spec(task, kwargs={"max_episode_steps": task.limit}),
        {},
        task.limit,
    ),
    "settings of the id and longer keyword": lambda task: (
        changed_spec(task, kwargs={"max_episode_steps": task.limit - 2}),
        {"max_episode_steps": task.limit},
        task.limit,
    ),
    "settings of the id and shorter keyword": lambda task: (
        changed_spec(task, kwargs={"max_episode_steps": task.limit + 2}),
        {"max_episode_steps": task.limit},
        task.limit,
    ),
    "settings of the id and switched off": lambda task: (
        changed_spec(task, kwargs={"max_episode_steps": task.limit}),
        {"max_episode_steps": -1},
        None,
    ),
    "settings of the id and longer spec": lambda task: (
        changed_spec(
            task, kwargs={"max_episode_steps": task.limit}, max_episode_steps=task.limit + 3
        ),
        {},
        task.limit,
    ),
    "spec and none": lambda task: (
        changed_spec(task, max_episode_steps=task.limit),
        {"max_episode_steps": None},
        task.limit,
    ),
}


@pytest.mark.parametrize("given", GIVEN)
def test_a_limit_is_the_same_in_whichever_way_it_is_given(task: Task, given: str) -> None:
    made_of, limit, steps = GIVEN[given](task)
    expected = constructed(task, max_episode_steps=steps)
    assert_same_episodes(
        single_trace(lambda: gym.make(made_of, **task.settings, **limit)), expected
    )
    for mode in ("vector_entry_point", "sync"):
        many = gym.make_vec(made_of, N, vectorization_mode=mode, **task.settings, **limit)
        assert_same_episodes(vector_trace(many), expected)


@pytest.mark.parametrize("autoreset", list(AutoresetMode))
@pytest.mark.parametrize("mode", ["vector_entry_point", "sync", "async"])
def test_every_vectorization_and_autoreset_mode_plays_the_same_episodes(
    task: Task, mode: str, autoreset: AutoresetMode
) -> None:
    settings = task.settings | {"max_episode_steps": task.limit}
    how: dict[str, Any] = {"autoreset_mode": autoreset}
    how = how if mode == "vector_entry_point" else {"vector_kwargs": how}
    many = gym.make_vec(task.id, N, vectorization_mode=mode, **settings, **how)
    expected = constructed(task, max_episode_steps=task.limit)
    # The spec makes the environment again: it contains `vector_kwargs` and the modes.
    assert many.spec is not None
    again = gym.make_vec(many.spec)
    assert_same_episodes(vector_trace(many), expected)
    assert_same_episodes(vector_trace(again), expected)


COPIES: dict[str, Callable[[Any], Any]] = {
    "deep copy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "spec": lambda env: gym.make(env.spec),
    "spec as JSON": lambda env: gym.make(EnvSpec.from_json(env.spec.to_json())),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_and_a_respawn_play_the_same_episodes(task: Task, way: str) -> None:
    env = gym.make(task.id, max_episode_steps=task.limit, **task.settings)
    expected = constructed(task, max_episode_steps=task.limit)
    assert_same_episodes(single_trace(lambda: COPIES[way](env)), expected)
    if way in ("deep copy", "pickle"):
        many: Any = PortfolioVectorEnv if task.id == PORTFOLIO else TradingVectorEnv
        made = many(num_envs=N, max_episode_steps=task.limit, **task.settings)
        assert_same_episodes(vector_trace(COPIES[way](made)), expected)


def test_a_deep_copy_in_mid_episode_ends_where_the_original_does(task: Task) -> None:
    env: Any = gym.make(task.id, max_episode_steps=task.limit, **task.settings)
    env.reset(seed=SEED)
    space = env.action_space
    hold = np.int64(1) if task.id == TRADING else np.zeros(space.shape, np.float32)
    for _ in range(task.limit - 2):
        env.step(hold)
    twin = copy.deepcopy(env)
    for step in range(2):
        one, other = env.step(hold), twin.step(hold)
        assert plain(dict(enumerate(one))) == plain(dict(enumerate(other)))
        assert one[3] is (step == 1)
    assert one[4]["metrics"]["length"] == task.limit


def test_an_id_of_your_own_with_a_limit_is_the_task_with_that_limit(task: Task) -> None:
    name = "backcast-test/Mine-v0"
    single = "PortfolioEnv" if task.id == PORTFOLIO else "TradingEnv"
    vector = single.replace("Env", "VectorEnv")
    gym.register(
        id=name,
        entry_point=f"backcast.envs:{single}",
        vector_entry_point=f"backcast.envs:{vector}",
        max_episode_steps=task.limit,
        kwargs=task.settings,
    )
    try:
        expected = constructed(task, max_episode_steps=task.limit)
        assert_same_episodes(single_trace(lambda: gym.make(name)), expected)
        assert_same_episodes(vector_trace(gym.make_vec(name, N)), expected)
    finally:
        del gym.registry[name]


class MyPortfolioEnv(PortfolioEnv):
    """Subclass with a constructor of its own, which passes its arguments on."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)


class MyPortfolioVectorEnv(PortfolioVectorEnv):
    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)


class MyTradingEnv(TradingEnv):
    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        self.made_by = "me"
        super().__init__(**settings)


class MyShortTradingEnv(MyTradingEnv):
    """Subclass of a subclass, which calls the constructor of its base from another method."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        self.build(settings)

    def build(mine, settings: dict[str, Any]) -> None:  # noqa: N805
        MyTradingEnv.__init__(mine, **settings)


class MyTradingVectorEnv(TradingVectorEnv):
    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)


@pytest.mark.parametrize("given", ["keyword", "spec"])
def test_a_subclass_with_its_own_constructor_is_the_same_task(task: Task, given: str) -> None:
    kinds: dict[str, tuple[list[Any], Any]] = {
        PORTFOLIO: ([MyPortfolioEnv], MyPortfolioVectorEnv),
        TRADING: ([MyTradingEnv, MyShortTradingEnv], MyTradingVectorEnv),
    }
    singles, vector = kinds[task.id]
    expected = constructed(task, max_episode_steps=task.limit)
    steps = task.limit if given == "spec" else None
    keyword: dict[str, Any] = {} if given == "spec" else {"max_episode_steps": task.limit}
    for single in singles:
        spec = EnvSpec(
            "backcast-test/Sub-v0",
            entry_point=single,
            vector_entry_point=vector,
            max_episode_steps=steps,
            kwargs=task.settings,
        )
        assert_same_episodes(single_trace(partial(gym.make, spec, **keyword)), expected)
        for mode in ("vector_entry_point", "sync"):
            many = gym.make_vec(spec, N, vectorization_mode=mode, **keyword)
            assert_same_episodes(vector_trace(many), expected)


def test_an_environment_that_another_one_holds_keeps_its_own_limit() -> None:
    class Holder(gym.Env[Any, Any]):
        """Environment that holds another one, which `gym.make` does not see."""

        def __init__(self) -> None:
            self.inner = TradingEnv(preset="teaching", warmup_ticks=0, max_ticks=9)
            self.action_space = self.inner.action_space
            self.observation_space = self.inner.observation_space

        def reset(self, **how: Any) -> Any:  # noqa: ANN401
            return self.inner.reset(**how)

        def step(self, action: Any) -> Any:  # noqa: ANN401
            return self.inner.step(action)

    made_by: Any = Holder
    spec = EnvSpec("backcast-test/Holder-v0", entry_point=made_by, disable_env_checker=True)
    env = gym.make(spec, max_episode_steps=5)
    env.reset(seed=1)
    flags = [env.unwrapped.step(1)[3] for _ in range(9)]
    assert flags == [False] * 8 + [True]


@pytest.mark.parametrize("limit", [0, -2, "5", 2.5])
def test_a_limit_that_is_none_is_refused_alike(task: Task, limit: Any) -> None:  # noqa: ANN401
    messages = []
    for make in (gym.make, gym.make_vec):
        with pytest.raises(
            (bc.errors.EnvError, bc.errors.ArgumentTypeError), match="max_episode_steps"
        ) as error:
            make(task.id, max_episode_steps=limit, **task.settings)
        messages.append(str(error.value).partition(" was raised from")[0])
    assert messages[0] == messages[1]
