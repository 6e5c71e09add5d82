"""Every kind of loop with every autoreset mode of a writer: right rows, an error, or a warning.

The outcomes are compared with the table of docs/howto/gymnasium.md. No loop stores wrong rows
without an error or a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import Collector
from facts import missing
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

Mode: TypeAlias = Literal["next_step", "same_step", "disabled"]
MODES: list[Mode] = ["disabled", "same_step", "next_step"]
LENGTH, STEPS = 4, 30
PAGE = Path(__file__).parents[3] / "docs" / "howto" / "gymnasium.md"


class Counted(gym.Env[np.ndarray, np.int64]):
    """Environment whose observations are the numbers of episode and step, to detect wrong rows."""

    observation_space = gym.spaces.Box(-1, 1e6, (2,), np.float32)
    action_space = gym.spaces.Discrete(1_000)

    def __init__(self) -> None:
        self.episode, self.t = -1, 0

    def _obs(self) -> np.ndarray:
        return np.array([self.episode, self.t], np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._obs(), 1.0, self.t == LENGTH, False, {}


def act(obs: np.ndarray) -> np.ndarray:
    """Return an action that follows from its observation."""
    return np.asarray(obs[..., 0] * 10 + obs[..., 1] + 1, np.int64)


def vector(mode: AutoresetMode, n: int = 2) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([Counted] * n, autoreset_mode=mode)


def by_hand(writer: bc.Writer, *, next_obs: bool = True) -> None:
    env = Counted()
    obs, _ = env.reset()
    for _ in range(STEPS):
        action = act(obs)
        after, reward, terminated, truncated, _ = env.step(np.int64(action))
        following = {"next_obs": after} if next_obs else {}
        writer.append(
            obs=obs,
            action=action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            **following,
        )
        obs = env.reset()[0] if terminated or truncated else after


def by_hand_without(writer: bc.Writer) -> None:
    by_hand(writer, next_obs=False)


def _vector_loop(
    writer: bc.Writer, envs: VectorEnv[Any, Any, Any], *, final_obs: bool = False, sb3: bool = False
) -> None:
    obs, _ = envs.reset()
    for _ in range(STEPS):
        action = act(obs)
        after, reward, terminated, truncated, infos = envs.step(action)
        following = after.copy()
        if sb3:
            for at in np.flatnonzero(terminated | truncated):
                following[at] = infos["final_obs"][at]
        finals = {"final_obs": infos.get("final_obs")} if final_obs else {}
        writer.append(
            obs=obs,
            action=action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            next_obs=following,
            **finals,
        )
        obs = after


def same_step(writer: bc.Writer) -> None:
    _vector_loop(writer, vector(AutoresetMode.SAME_STEP), final_obs=True)


def same_step_without(writer: bc.Writer) -> None:
    _vector_loop(writer, vector(AutoresetMode.SAME_STEP))


def next_step(writer: bc.Writer) -> None:
    _vector_loop(writer, vector(AutoresetMode.NEXT_STEP))


def next_step_skipping(writer: bc.Writer) -> None:
    envs = vector(AutoresetMode.NEXT_STEP, 1)
    obs, _ = envs.reset()
    resets = False
    for _ in range(STEPS):
        action = act(obs)
        after, reward, terminated, truncated, _ = envs.step(action)
        if not resets:
            writer.append(
                obs=obs,
                action=action,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                next_obs=after,
            )
        resets = bool(terminated[0] or truncated[0])
        obs = after


def sb3(writer: bc.Writer) -> None:
    _vector_loop(writer, vector(AutoresetMode.SAME_STEP), sb3=True)


def one_of_make_vec(writer: bc.Writer) -> None:
    _vector_loop(writer, vector(AutoresetMode.NEXT_STEP, 1))


LOOPS: dict[str, tuple[Callable[[bc.Writer], None], int]] = {
    "one environment, reset by hand": (by_hand, 1),
    "the same without `next_obs=`": (by_hand_without, 1),
    "`SAME_STEP`, with `final_obs=`": (same_step, 2),
    "`SAME_STEP`, without `final_obs=`": (same_step_without, 2),
    "`NEXT_STEP`, every step appended": (next_step, 2),
    "`NEXT_STEP`, the step that resets left out": (next_step_skipping, 1),
    "SB3's: the final observation in `next_obs`": (sb3, 2),
    "`make_vec(..., 1)`": (one_of_make_vec, 1),
}


def ring(lanes: int) -> bc.ReplayBuffer:
    schema = bc.Schema.from_spaces(Counted.observation_space, Counted.action_space)
    return bc.ReplayBuffer.create(None, schema, capacity=10_000, lanes=lanes)


def wrong_rows(buf: bc.ReplayBuffer) -> list[str]:
    """List stored transitions that never happened, and missing ones of finished episodes."""
    wrong, lanes = [], buf.stats()["lanes"]
    for lane in range(lanes):
        low, head = buf.lane_span(lane)
        rows = buf.rows(lane, low, head - low)
        seen = set()
        for at in range(head - low - 1):
            if rows["flags"][at] & 4 or rows["flags"][at + 1] & 8:
                continue
            episode, t = rows["obs"][at]
            end = bool(rows["flags"][at] & 1)
            expected = [episode, t + 1], act(rows["obs"][at]), t + 1 == LENGTH
            found = list(rows["obs"][at + 1]), rows["action"][at], end
            seen.add((episode, t))
            if found != expected:
                wrong.append(f"lane {lane}, row {at}: {found}, not {expected}")
        last = max((episode for episode, _ in seen), default=0.0)
        whole = {(float(e), float(t)) for e in range(int(last)) for t in range(LENGTH)}
        wrong += [f"lane {lane}: {missing} is missing" for missing in sorted(whole - seen)]
    return wrong


def outcome(loop: str, mode: Mode) -> str:
    run, lanes = LOOPS[loop]
    with warnings.catch_warnings(record=True) as told, ring(lanes) as buf:
        warnings.simplefilter("always")
        try:
            with buf.writer(lanes=lanes, autoreset_mode=mode) as writer:
                run(writer)
        except bc.errors.AppendError:
            assert not wrong_rows(buf), "nothing wrong before the error"
            return "error"
        if told:
            assert {warning.category for warning in told} == {bc.errors.WriterWarning}
            assert len(told) == 1, "once"
            assert buf.stats()["suspect_resets"] > 0
            return "warning"
        assert buf.stats()["suspect_resets"] == 0
        assert (wrong_rows(buf), buf.stats()["cuts"]) == ([], 0)
        assert len(buf) > STEPS * lanes // 2
        return "right"


def table() -> dict[str, list[str]]:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if "|" in line]
    cells = [[cell.strip() for cell in row] for row in rows]
    return {
        row[0]: [cell.split(":")[0] for cell in row[1:]] for row in cells if row and row[0] in LOOPS
    }


@pytest.mark.parametrize("loop", LOOPS)
def test_every_loop_stores_in_every_mode_as_documented(loop: str) -> None:
    assert [outcome(loop, mode) for mode in MODES] == table()[loop]


@pytest.mark.parametrize("loop", ["one environment, reset by hand", "`make_vec(..., 1)`"])
def test_the_default_writer_of_one_lane_is_one_of_them(loop: str) -> None:
    run, _ = LOOPS[loop]
    with ring(1) as buf, buf.writer() as writer:
        assert writer.autoreset_mode == "disabled"
        if run is by_hand:
            run(writer)
            assert wrong_rows(buf) == []
        else:
            with pytest.warns(bc.errors.WriterWarning, match="next_step"):
                run(writer)


def test_several_lanes_want_their_mode_said() -> None:
    with ring(2) as buf:
        with pytest.raises(bc.errors.WriterError, match=r"\b2\b") as refused:
            buf.writer(2)
        assert missing(refused.value, [*MODES, "env=env"]) == []
        assert buf.writer(1).autoreset_mode == "disabled"


@pytest.mark.parametrize(
    ("env", "lanes", "mode"),
    [
        (vector(AutoresetMode.NEXT_STEP), 2, "next_step"),
        (vector(AutoresetMode.SAME_STEP), 2, "same_step"),
        (vector(AutoresetMode.DISABLED), 2, "disabled"),
        (vector(AutoresetMode.NEXT_STEP, 1), 1, "next_step"),
        (Counted(), 1, "disabled"),
        (gym.wrappers.TimeLimit(gym.wrappers.Autoreset(Counted()), 9), 1, "next_step"),
    ],
)
def test_a_writer_takes_lanes_and_mode_from_an_environment(env: Any, lanes: int, mode: str) -> None:  # noqa: ANN401
    with ring(2) as buf:
        with buf.writer(env=env) as writer:
            assert (len(writer.lanes), writer.autoreset_mode) == (lanes, mode)
        with buf.writer(lanes, mode, env=env) as writer:  # type: ignore[arg-type]
            assert writer.autoreset_mode == mode
        with pytest.raises(bc.errors.WriterError, match=rf"\blanes\b.*\b{3 - lanes}\b"):
            buf.writer(3 - lanes, env=env)
        other = "same_step" if mode != "same_step" else "disabled"
        with pytest.raises(bc.errors.WriterError, match=rf"\bautoreset_mode\b.*'{other}'"):
            buf.writer(autoreset_mode=other, env=env)  # type: ignore[arg-type]


class Unsaid(SyncVectorEnv):
    """Environment without metadata about its resets."""

    def __init__(self) -> None:
        super().__init__([Counted])
        self.metadata = {}


@pytest.mark.parametrize("env", [Unsaid(), "CartPole-v1", object(), np.zeros(3)])
def test_other_objects_than_environments_are_refused_with_the_choices(env: Any) -> None:  # noqa: ANN401
    with ring(1) as buf, pytest.raises(bc.errors.ArgumentError) as refused:
        buf.writer(env=env)
    assert missing(refused.value, MODES) == []


def test_both_remedies_are_named_where_an_end_lacks_its_observation() -> None:
    row: dict[str, Any] = {"obs": np.zeros(2, "f4"), "action": 1, "reward": 1.0}
    row["truncated"] = False
    for mode, remedies in [
        ("disabled", ["next_obs=", "same_step", "next_step"]),
        ("same_step", ["final_obs=", "disabled"]),
    ]:
        with ring(1) as buf, buf.writer(1, mode) as writer:  # type: ignore[arg-type]
            writer.append(**row, terminated=False)
            for call in (writer.append, writer.extend):
                rows = row if call == writer.append else {k: [v] for k, v in row.items()}
                ends: Any = True if call == writer.append else [True]
                with pytest.raises(bc.errors.AppendError, match=r"\b0\b") as refused:
                    call(**rows, terminated=ends)
                assert missing(refused.value, remedies) == []
            assert writer.rows_written == 1


@pytest.mark.parametrize("mode", MODES)
def test_lanes_of_one_writer_need_not_be_in_step(mode: Mode) -> None:
    class Longer(Counted):
        def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            obs, reward, _, _, info = super().step(action)
            return obs, reward, self.t == LENGTH + 3, False, info

    envs = SyncVectorEnv([Counted, Longer], autoreset_mode=AutoresetMode[mode.upper()])
    with ring(2) as buf, buf.writer(env=envs) as writer:
        collector = Collector(envs, writer)
        collector.run(act, 50)
        collector.finish()
        for lane, length in enumerate([LENGTH, LENGTH + 3]):
            low, head = buf.lane_span(lane)
            rows = buf.rows(lane, low, head - low)
            ends = np.flatnonzero(rows["flags"] & 1)
            assert len(ends) > 3
            assert (rows["obs"][ends, 1] == length - 1).all()
            assert (rows["obs"][ends + 1, 1] == length).all()
            assert (rows["flags"][ends + 1] == 4).all()
