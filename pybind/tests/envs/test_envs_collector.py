"""A collector: every kind of environment and mode leaves the same transitions in the ring."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import Collector, PortfolioEnv, PortfolioVectorEnv
from envs_worlds import (
    MODES,
    WORDS,
    FlatWalk,
    Transition,
    TupleWalk,
    Walk,
    at_walk,
    plain_loop,
    row_of,
    same,
)
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

LANES = 3
FINAL = 4


def ring(env: Any, lanes: int = LANES, **extra: Any) -> bc.ReplayBuffer:  # noqa: ANN401
    """Make a private ring for the transitions of an environment."""
    single = env if isinstance(env, gym.Env) else None
    schema = bc.Schema.from_spaces(
        single.observation_space if single else env.single_observation_space,
        single.action_space if single else env.single_action_space,
        reward="f8",
        extra=extra,
    )
    return bc.ReplayBuffer.create(None, schema, capacity=30_000, lanes=lanes)


def as_tuple(part: Any) -> Any:  # noqa: ANN401
    """Turn dicts with the keys 0, 1, ..., which batches have for tuples, into tuples again."""
    if isinstance(part, dict):
        parts = {key: as_tuple(value) for key, value in part.items()}
        numbered = list(parts) == [str(at) for at in range(len(parts))]
        return tuple(parts.values()) if numbered else parts
    return part


def stored(buf: bc.ReplayBuffer, lane: int = 0) -> list[Transition]:
    """Read the transitions of a lane out of the ring, oldest first."""
    first, last = buf.lane_span(lane)
    flags = buf.rows(lane, first, last - first)["flags"]
    gap = 8
    starts = [
        seq
        for seq in range(first, last - 1)
        if not flags[seq - first] & FINAL and not flags[seq - first + 1] & gap
    ]
    batch = buf.gather([lane << 48 | seq for seq in starts])
    obs, after = as_tuple(batch["obs"]), as_tuple(batch["next_obs"])
    return [
        (
            row_of(obs, at),
            batch["action"][at],
            float(batch["reward"][at]),
            bool(batch["terminated"][at]),
            bool(batch["truncated"][at]),
            row_of(after, at),
        )
        for at in range(len(starts))
    ]


def assert_transitions(found: list[Transition], expected: list[Transition]) -> None:
    """Compare element by element, dtypes and bits; numbers may be scalars or arrays of shape ()."""

    def plain(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        return tuple(map(plain, value)) if isinstance(value, tuple) else np.asarray(value)

    assert len(found) > 0
    for at, (one, other) in enumerate(zip(found, expected, strict=False)):
        for name, here, there in zip(
            ["obs", "action", "reward", "terminated", "truncated", "next_obs"],
            one,
            other,
            strict=True,
        ):
            assert same(plain(here), plain(there)), f"transition {at}: {name}: {here} != {there}"


Kind = Callable[..., Any]
WALKS: dict[str, Kind] = {
    "sync": lambda mode, env: SyncVectorEnv([env] * LANES, autoreset_mode=mode),
    "async": lambda mode, env: AsyncVectorEnv([env] * LANES, autoreset_mode=mode),
    "no copies": lambda mode, env: SyncVectorEnv([env] * LANES, copy=False, autoreset_mode=mode),
}


@pytest.mark.parametrize("kind", WALKS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("walk", [Walk, FlatWalk, TupleWalk])
def test_every_mode_leaves_the_transitions_of_a_plain_loop(
    mode: AutoresetMode, kind: str, walk: Callable[[], gym.Env[Any, Any]]
) -> None:
    env = WALKS[kind](mode, walk)
    with ring(env) as buf, buf.writer(LANES, WORDS[mode]) as writer:
        collector = Collector(env, writer)
        collector.reset(seed=50)
        count = collector.run(at_walk, 60)
        collector.finish()
        assert len(buf) == collector.transitions == count
        steps_that_only_reset = 60 * LANES - count
        assert (steps_that_only_reset > 0) == (mode is AutoresetMode.NEXT_STEP)
        for lane in range(LANES):
            found = stored(buf, lane)
            assert len(found) > 40
            assert_transitions(found, plain_loop(walk, at_walk, 50 + lane, len(found)))
    env.close()


@pytest.mark.parametrize("form", ["dict", "flat"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fresh", [True, False])
def test_the_portfolio_in_every_mode_leaves_the_transitions_of_single_ones(
    panel: bc.Panel,
    mode: AutoresetMode,
    form: Any,  # noqa: ANN401
    fresh: bool,
) -> None:
    settings: dict[str, Any] = {"obs": form, "max_episode_steps": 6, "hmax": 200}

    def policy(obs: Any) -> Any:  # noqa: ANN401
        opening = obs["open"] if form == "dict" else obs[..., -5:-3]
        return np.sin(opening * 1e3).astype(np.float32)

    env = PortfolioVectorEnv(panel, LANES, autoreset_mode=mode, copy=fresh, **settings)
    with ring(env) as buf, buf.writer(LANES, WORDS[mode]) as writer:
        collector = Collector(env, writer)
        collector.reset(seed=7)
        collector.run(policy, 80)
        for lane in range(LANES):
            found = stored(buf, lane)
            assert len(found) > 60
            single = plain_loop(lambda: PortfolioEnv(panel, **settings), policy, 7 + lane, 80)
            assert_transitions(found, single)


@pytest.mark.parametrize("autoreset", [False, True])
def test_a_single_environment_writes_one_lane(autoreset: bool) -> None:
    env: Any = gym.wrappers.TimeLimit(Walk(), 3)
    env = gym.wrappers.Autoreset(env) if autoreset else env
    mode = WORDS[AutoresetMode.NEXT_STEP if autoreset else AutoresetMode.DISABLED]
    with ring(env, 1) as buf, buf.writer(1, mode) as writer:
        collector = Collector(env, writer)
        obs, info = collector.reset(seed=4)
        assert (obs["clock"], list(info)) == (-5, ["length"])
        for _ in range(50):
            obs, reward, terminated, truncated, info = collector.step(at_walk(collector.obs))
            assert (type(reward), type(terminated)) == (float, bool)
            over = terminated or truncated
            if not autoreset:
                assert ("final_obs" in info) == over
                assert (obs["clock"] == -5) == over
        assert collector.index is not None
        assert collector.index.tolist() == [writer.rows_written - 1 - (over and not autoreset)]
        found = stored(buf)
        assert len(found) > 30
        plain = plain_loop(lambda: gym.wrappers.TimeLimit(Walk(), 3), at_walk, 4, 60)
        assert_transitions(found, plain)


class Reusing(gym.Env[Any, Any]):
    """Counts from 100, 200, ... in each episode, and writes to arrays that it has returned."""

    observation_space = gym.spaces.Dict({"at": gym.spaces.Box(0, 1e9, (2,), np.float32)})
    action_space = gym.spaces.Discrete(2)

    def __init__(self, reuses: str, lengths: list[int]) -> None:
        self.reuses = reuses
        self.lengths = iter(lengths)
        self.count = 0
        self.state = {"at": np.zeros(2, np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401
        super().reset(seed=seed)
        self.left = next(self.lengths, 5)
        self.count += 100 - self.count % 100
        if self.reuses == "one array an episode":
            self.state = {"at": np.zeros(2, np.float32)}
        return self.shown("steps"), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401
        self.count += 1
        self.left -= 1
        return self.shown("resets"), 1.0, self.left == 0, False, {}

    def shown(self, copied_where: str) -> Any:  # noqa: ANN401
        if self.reuses == "the dict":
            self.state["at"] = np.full(2, self.count, np.float32)
        else:
            self.state["at"][:] = self.count
        return copy.deepcopy(self.state) if self.reuses == copied_where else self.state


@pytest.mark.parametrize("reuses", ["all", "steps", "resets", "one array an episode", "the dict"])
@pytest.mark.parametrize("lengths", [[5, 5, 5], [1, 1, 5, 5], [1, 1, 1, 2, 1, 3, 5]])
@pytest.mark.parametrize("autoreset", [False, True])
def test_arrays_that_an_environment_writes_to_again_are_copied(
    reuses: str, lengths: list[int], autoreset: bool
) -> None:
    env: Any = Reusing(reuses, lengths)
    env = gym.wrappers.Autoreset(env) if autoreset else env
    mode = WORDS[AutoresetMode.NEXT_STEP if autoreset else AutoresetMode.DISABLED]
    finals = []
    with ring(env, 1) as buf, buf.writer(1, mode) as writer:
        collector = Collector(env, writer)
        collector.reset()
        for _ in range(sum(lengths) + len(lengths) * autoreset):
            infos = collector.step(0)[4]
            if "final_obs" in infos:
                finals.append(infos["final_obs"]["at"])
        seen = [
            100 * (number + 1) + at
            for number, length in enumerate(lengths)
            for at in range(length + 1)
        ]
        rows = buf.rows(0, 0, len(seen))
        assert rows["obs"]["at"][:, 0].tolist() == seen
    if not autoreset:
        ends = [100 * (number + 1) + length for number, length in enumerate(lengths)]
        assert [final[0] for final in finals] == ends


def test_an_environment_that_makes_new_arrays_is_trusted_in_the_middle_of_episodes() -> None:
    env = SyncVectorEnv([FlatWalk] * LANES)
    with ring(env) as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        collector.reset(seed=1)
        kept = [collector.step([0] * LANES)[0] is collector.obs for _ in range(20)]
        # The first step follows a reset, which is not compared; two comparisons suffice.
        assert kept == [False] * 2 + [True] * 18
        assert len(buf) > 0


def test_disabled_environments_are_reset_and_their_final_observations_shown() -> None:
    env = SyncVectorEnv([Walk] * LANES, autoreset_mode=AutoresetMode.DISABLED)
    with ring(env) as buf, buf.writer(LANES, "disabled") as writer:
        collector = Collector(env, writer)
        obs, _ = collector.reset(seed=1)
        ends = 0
        for _ in range(30):
            before = copy.deepcopy(obs)
            obs, _, terminated, truncated, infos = collector.step(at_walk(obs))
            assert same(obs, collector.obs)
            assert obs in env.observation_space
            ended = terminated | truncated
            assert ("final_obs" in infos) == ended.any()
            for at in np.flatnonzero(ended):
                ends += 1
                final = infos["final_obs"][at]
                assert final["clock"] == before["clock"][at] + 1
                assert obs["clock"][at] == -5
                assert infos["reset_infos"]["_length"][at]
            if ended.any():
                assert infos["_final_obs"].tolist() == ended.tolist()
                assert [row is None for row in infos["final_obs"]] == (~ended).tolist()
        assert ends > 10


@pytest.mark.parametrize("mode", MODES)
def test_wrappers_stay_in_between(panel: bc.Panel, mode: AutoresetMode) -> None:
    wrappers = gym.wrappers.vector
    env: Any = PortfolioVectorEnv(panel, LANES, autoreset_mode=mode, max_episode_steps=5)
    env = wrappers.RecordEpisodeStatistics(wrappers.TransformReward(env, lambda reward: reward * 2))
    if mode is not AutoresetMode.SAME_STEP:
        env = wrappers.FlattenObservation(env)
    env = wrappers.DictInfoToList(env)
    doubled: list[float] = []
    with ring(env) as buf, buf.writer(LANES, WORDS[mode]) as writer:
        collector = Collector(env, writer)
        collector.reset(seed=1)
        episodes = 0
        for _ in range(40):
            infos = collector.step(np.full((LANES, 2), 0.5, np.float32))[4]
            episodes += sum("episode" in info for info in infos)
        assert episodes > 15
        doubled = [row[2] for row in stored(buf)]
    single = PortfolioEnv(panel, max_episode_steps=5)
    plain = plain_loop(lambda: single, lambda _: np.full(2, 0.5, np.float32), 1, 40)
    assert doubled == [2 * row[2] for row in plain[: len(doubled)]]


def test_further_columns_are_given_with_the_step() -> None:
    env = SyncVectorEnv([Walk] * LANES)
    with ring(env, log_prob="f4") as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        collector.reset(seed=1)
        for step in range(5):
            collector.step([0] * LANES, log_prob=np.full(LANES, step, np.float32))
        assert buf.rows(1, 0, 5)["log_prob"].tolist() == [0, 1, 2, 3, 4]


def test_a_wrong_column_is_refused_before_the_step() -> None:
    env = SyncVectorEnv([Walk] * LANES)
    with ring(env, log_prob="f4") as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        seen, _ = collector.reset(seed=1)
        given: list[dict[str, Any]] = [
            {},
            {"logprob": [0.0] * LANES},
            {"obs": 1, "log_prob": [0.0] * LANES},
        ]
        for columns in given:
            with pytest.raises((bc.errors.AppendError, bc.errors.ArgumentError)):
                collector.step([0] * LANES, **columns)
        assert same(collector.obs, seen)
        assert writer.rows_written == 0
        collector.step([0] * LANES, log_prob=[0.5] * LANES)
        assert collector.transitions == LANES


def test_other_actions_and_rewards_may_be_stored_than_were_stepped_with() -> None:
    env = SyncVectorEnv([Walk] * LANES)
    with ring(env) as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        collector.reset(seed=1)
        collector.step([0] * LANES, action=[1] * LANES, reward=[0.5] * LANES)
        first = buf.rows(0, 0, 1)
        assert (first["action"].tolist(), first["reward"].tolist()) == ([1], [0.5])


def test_a_ring_without_rewards_goes_without() -> None:
    env = FlatWalk()
    schema = bc.Schema.from_spaces(env.observation_space, env.action_space, reward=None)
    with (
        bc.ReplayBuffer.create(None, schema, capacity=100) as buf,
        buf.writer(1, "disabled") as writer,
    ):
        collector = Collector(env, writer)
        assert collector.writer.schema == schema
        collector.run(at_walk, 12)
        collector.finish()
        assert len(buf) == collector.transitions == 12


class Odd(FlatWalk):
    """Walk whose observations are arrays, but whose space fits no column."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Text(3)


def test_observations_of_an_unknown_space_are_judged_when_they_come() -> None:
    rings: list[tuple[dict[str, Any], bool]] = [
        ({"obs": ("f4", (2,)), "action": "i8"}, True),
        ({"obs": "f4", "action": "i8"}, False),
    ]
    for columns, fits in rings:
        with (
            bc.ReplayBuffer.create(None, columns, capacity=100) as buf,
            buf.writer(1, "disabled") as writer,
        ):
            collector = Collector(Odd(), writer)
            if fits:
                collector.run(at_walk, 5)
                assert collector.transitions == 5
            else:
                with pytest.raises(bc.errors.AppendError, match="obs"):
                    collector.run(at_walk, 5)


@pytest.fixture
def walking() -> Iterator[tuple[Collector, bc.ReplayBuffer]]:
    """Give a collector of three walks of 4, 1 and 4 steps in next-step mode, just reset."""
    env = SyncVectorEnv([Walk] * LANES)
    with ring(env) as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        collector.reset(seed=10)
        yield collector, buf


# After one step the second walk waits for its FINAL row, after two it has begun anew.
@pytest.mark.parametrize("steps", [1, 2])
def test_a_reset_in_mid_episode_cuts_it_off_and_loses_nothing(
    walking: tuple[Collector, bc.ReplayBuffer], steps: int
) -> None:
    collector, buf = walking
    collector.run(at_walk, steps)
    before = copy.deepcopy(collector.obs)
    collector.reset(seed=30)
    assert len(buf) == collector.transitions == 2 * steps + 1, "all have their successor"
    assert same(stored(buf)[-1][-1]["where"], row_of(before, 0)["where"])
    collector.run(at_walk, 20)
    for lane, old in enumerate([steps, 1, steps]):
        found = stored(buf, lane)
        assert_transitions(found[:old], plain_loop(Walk, at_walk, 10 + lane, old))
        assert_transitions(found[old:], plain_loop(Walk, at_walk, 30 + lane, 30))


def test_a_masked_reset_in_mid_episode_cuts_off_the_chosen_alone(
    walking: tuple[Collector, bc.ReplayBuffer],
) -> None:
    collector, buf = walking
    collector.run(at_walk, 2)
    mask = np.array([True, False, False])
    options = {"reset_mask": mask}
    obs, _ = collector.reset(seed=[70, None, None], options=options)
    assert list(options) == ["reset_mask"]
    assert obs["clock"].tolist()[0] == -5
    collector.run(at_walk, 15)
    found = stored(buf)
    assert_transitions(found[:2], plain_loop(Walk, at_walk, 10, 2))
    assert_transitions(found[2:], plain_loop(Walk, at_walk, 70, 20))
    for lane in (1, 2):
        assert_transitions(stored(buf, lane), plain_loop(Walk, at_walk, 10 + lane, 20))


def test_after_a_masked_reset_of_all_there_is_nothing_to_finish(
    walking: tuple[Collector, bc.ReplayBuffer],
) -> None:
    collector, buf = walking
    collector.run(at_walk, 3)
    collector.reset(options={"reset_mask": np.ones(LANES, bool)})
    rows = collector.writer.rows_written
    collector.finish()
    assert collector.writer.rows_written == rows
    assert len(buf) == collector.transitions


def test_finish_gives_the_newest_transitions_their_successor_once(
    walking: tuple[Collector, bc.ReplayBuffer],
) -> None:
    collector, buf = walking
    collector.run(at_walk, 2)
    assert len(buf) < collector.transitions
    collector.finish()
    rows = collector.writer.rows_written
    collector.finish()
    assert (len(buf), collector.writer.rows_written) == (collector.transitions, rows)
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        collector.step([0] * LANES)
    # The next run begins new episodes: no transition leads into them.
    collector.run(at_walk, 2)
    collector.finish()
    assert len(buf) == collector.transitions


def test_a_writer_with_rows_of_its_own_is_not_continued() -> None:
    env = FlatWalk()
    with ring(env, 1) as buf, buf.writer(1, "disabled") as writer:
        obs = np.zeros(2, np.float32)
        writer.append(obs=obs, action=0, reward=0, terminated=False, truncated=False)
        collector = Collector(env, writer)
        collector.reset(seed=1)
        collector.run(at_walk, 4)
        assert_transitions(stored(buf), plain_loop(FlatWalk, at_walk, 1, 9))


class Faulty(gym.vector.VectorWrapper):
    """Wrapper whose step fails after the wrapped environment has stepped."""

    fault = False

    def step(self, actions: Any) -> Any:  # noqa: ANN401
        result = self.env.step(actions)
        if self.fault:
            raise RuntimeError("lost")
        return result


def test_after_a_failed_step_only_a_reset_goes_on() -> None:
    env = Faulty(SyncVectorEnv([Walk] * LANES))
    with ring(env) as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        collector.reset(seed=2)  # episodes of five, five and four steps
        collector.run(at_walk, 3)
        env.fault = True
        with pytest.raises(RuntimeError, match="lost"):
            collector.run(at_walk, 1)
        env.fault = False
        with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
            collector.step([0] * LANES)
        collector.reset(seed=60)
        collector.run(at_walk, 15)
        # The row of the failed step is missing.
        found = stored(buf, 2)
        assert_transitions(found[:3], plain_loop(Walk, at_walk, 4, 3))
        assert_transitions(found[3:], plain_loop(Walk, at_walk, 62, 20))


def test_a_refused_action_changes_nothing(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, LANES)
    with ring(env) as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        collector.reset(seed=2)
        collector.step(np.zeros((LANES, 2)))
        with pytest.raises(bc.errors.EnvError, match="NaN"):
            collector.step(np.full((LANES, 2), np.nan))
        assert writer.rows_written == LANES
        collector.step(np.zeros((LANES, 2)))
        assert len(buf) == LANES


@pytest.mark.parametrize(
    ("given", "error", "name"),
    [
        ({"seed": -1}, bc.errors.EnvError, "seed"),
        ({"seed": 1.5}, bc.errors.ArgumentTypeError, "seed"),
        ({"options": {"reset_mask": [True] * 2}}, bc.errors.ArgumentTypeError, "reset_mask"),
    ],
)
def test_a_refused_reset_changes_nothing(
    panel: bc.Panel, given: dict[str, Any], error: type[bc.BackcastError], name: str
) -> None:
    env = PortfolioVectorEnv(panel, LANES)
    with ring(env) as buf, buf.writer(LANES, "next_step") as writer:
        collector = Collector(env, writer)
        collector.reset(seed=2)
        with pytest.raises(error, match=rf"\b{name}\b"):
            collector.reset(**given)
        collector.step(np.zeros((LANES, 2)))
        collector.step(np.zeros((LANES, 2)))
        assert len(buf) == LANES


def test_mismatched_rings_and_environments_are_refused(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 2, autoreset_mode="same_step")
    with ring(env, 4) as buf:
        with (
            buf.writer(2, "next_step") as writer,
            pytest.raises(bc.errors.ArgumentError, match=r'"next_step".*"same_step".*lanes=2'),
        ):
            Collector(env, writer)
        with (
            buf.writer(3, "same_step") as writer,
            pytest.raises(bc.errors.ArgumentError, match=r"\b3\b.*\b2\b.*lanes=2"),
        ):
            Collector(env, writer)
        with buf.writer(1, "next_step") as writer:
            with pytest.raises(bc.errors.ArgumentError, match='"disabled"'):
                Collector(PortfolioEnv(panel), writer)
            with pytest.raises(bc.errors.ArgumentError, match=r"\benv\b.*\b3\b"):
                Collector(3, writer)  # type: ignore[arg-type]
        with buf.writer(2, "same_step") as writer:
            env.metadata = {}
            with pytest.raises(bc.errors.ArgumentError, match="autoreset_mode"):
                Collector(env, writer)
            collector = Collector(PortfolioVectorEnv(panel, 2, autoreset_mode="same_step"), writer)
            with pytest.raises(bc.errors.EnvError, match=r"\breset_mask\b"):
                collector.reset(options={"reset_mask": np.array([True, False])})


def test_two_processes_share_what_a_collector_appends(panel: bc.Panel, place: Path) -> None:
    env = PortfolioVectorEnv(panel, 2, obs="flat")
    schema = bc.Schema.from_spaces(env.single_observation_space, env.single_action_space)
    with (
        bc.ReplayBuffer.create("c", schema, capacity=1000, lanes=2, dir=place) as buf,
        buf.writer(2, "next_step") as writer,
    ):
        Collector(env, writer).run(lambda _: np.zeros((2, 2), np.float32), 10)
        with bc.ReplayBuffer.attach("c", dir=place) as other:
            batch = other.sample(32)
            assert batch["next_obs"].shape == (32, 13)
            assert (batch["next_obs"][:, 3] == batch["obs"][:, 3] + 1).all(), "day after day"
