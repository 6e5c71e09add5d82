"""Rewards of the trading environment: by name and options, and as Python functions."""

from __future__ import annotations

import copy
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import EpisodeState, RewardInput, TradingEnv, TradingVectorEnv
from envs_worlds import same
from facts import missing

SHORT: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 12}


class Counting:
    """Reward that counts steps and episodes, and checks its input."""

    def __init__(self) -> None:
        self.steps = 0
        self.begun = 0

    def reset(self, start: EpisodeState) -> None:
        assert start.decisions == 0
        assert start.equity == pytest.approx(100_000)
        self.steps, self.begun = 0, self.begun + 1

    def __call__(self, step: RewardInput) -> float:
        self.steps += 1
        assert step.curr.decisions == step.prev.decisions + 1 == self.steps
        assert step.curr.tick == step.prev.tick + 1
        assert len(step.fills) == step.curr.fills - step.prev.fills
        assert sum(fill.shares for fill in step.fills) == step.curr.position - step.prev.position
        assert step.action.dtype == np.float64
        assert step.terminated is False
        assert step.truncated is (self.steps == 12)
        assert step.curr.peak_equity >= step.curr.equity
        assert step.initial_equity == pytest.approx(100_000)
        return self.steps + 100 * self.begun


@pytest.mark.parametrize("threads", [1, 2])
def test_a_reward_of_python_has_a_state_of_its_own_for_each_environment(threads: int) -> None:
    envs = TradingVectorEnv(
        6, reward=Counting, threads=threads, autoreset_mode="same_step", **SHORT
    )
    envs.reset(seed=1)
    envs.action_space.seed(1)
    for step in range(30):
        rewards = envs.step(envs.action_space.sample())[1]
        assert rewards.tolist() == [step % 12 + 1 + 100 * (step // 12 + 1)] * 6


def test_the_same_reward_in_python_gives_the_same_numbers() -> None:
    def pnl() -> Any:  # noqa: ANN401
        return lambda step: (step.curr.equity - step.prev.equity) / step.initial_equity

    ours, theirs = TradingEnv(reward=pnl, **SHORT), TradingEnv(**SHORT)
    assert same(ours.reset(seed=1), theirs.reset(seed=1))
    for action in (2, 0, 0, 1, 2):
        assert same(ours.step(action), theirs.step(action))


def test_scales_are_units_of_the_same_profit() -> None:
    rewards = {}
    for scale in ("initial_equity", "currency", "log_return"):
        env = TradingEnv(reward_options={"scale": scale}, **SHORT)
        env.reset(seed=1)
        rewards[scale], info = env.step(2)[1::3]
    assert rewards["currency"] == pytest.approx(info["pnl"])
    assert rewards["initial_equity"] == pytest.approx(info["pnl"] / 100_000)
    assert rewards["log_return"] == pytest.approx(np.log1p(info["pnl"] / 100_000))


def test_risk_is_charged_and_the_bonus_is_paid_at_the_end() -> None:
    options = {"drawdown_penalty": 2.0, "transaction_cost_per_trade": 0.5, "scale": "currency"}
    plain = TradingEnv(reward_options={"scale": "currency"}, **SHORT)
    risk = TradingEnv(reward="risk_adjusted", reward_options=options, **SHORT)
    bonus = TradingEnv(
        reward="risk_adjusted",
        reward_options={"sharpe_terminal_bonus": 3.0, "scale": "currency"},
        **SHORT,
    )
    for env in (plain, risk, bonus):
        env.reset(seed=1)
    peak = equity = 100_000.0
    for step in range(12):
        action = 2 if step % 3 == 0 else 1
        reward, info = plain.step(action)[1::3]
        before = peak - equity
        equity = info["equity"]
        peak = max(peak, equity)
        charge = 2.0 * max(0.0, peak - equity - before) + 0.5 * info["fills"]
        assert risk.step(action)[1] == pytest.approx(reward - charge, abs=1e-6)
        extra = bonus.step(action)[1] - reward
        assert (abs(extra) > 1e-6) == (step == 11)


def test_what_a_reward_raises_ends_the_call() -> None:
    class Failing:
        def __call__(self, step: RewardInput) -> float:
            if step.curr.decisions == 3:
                raise ZeroDivisionError("three")
            return 0.0

    envs = TradingVectorEnv(4, reward=Failing, threads=2, **SHORT)
    envs.reset(seed=1)
    envs.step(np.ones(4, int))
    envs.step(np.ones(4, int))
    with pytest.raises(ZeroDivisionError, match="three"):
        envs.step(np.ones(4, int))
    # The environments took the failed step, and the next step succeeds.
    assert envs.step(np.ones(4, int))[4]["decisions"].tolist() == [4] * 4


def test_what_a_factory_raises_itself_is_not_explained_away() -> None:
    def failing() -> Any:  # noqa: ANN401
        return len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="'int'") as error:
        TradingEnv(reward=failing, **SHORT)
    assert not isinstance(error.value, bc.BackcastError)
    # A class without constructor arguments, and an object that returns rewards, are factories.
    for reward in (Counting, type("Maker", (), {"__call__": lambda self: lambda step: 1.0})()):
        TradingEnv(reward=reward, **SHORT).close()


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (lambda: lambda step: "much", ["reward", "'much'"]),
        (lambda: lambda step: None, ["reward", "None"]),
    ],
)
def test_a_reward_that_is_no_number_is_refused(reward: Any, words: list[str]) -> None:  # noqa: ANN401
    env = TradingEnv(reward=reward, **SHORT)
    env.reset(seed=1)
    with pytest.raises(bc.errors.ArgumentTypeError) as error:
        env.step(1)
    assert missing(error.value, words) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_reward_that_is_not_finite_is_refused(value: float) -> None:
    env = TradingEnv(reward=lambda: lambda step: value, **SHORT)
    env.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match="finite"):
        env.step(1)


def test_a_copy_has_rewards_of_its_own() -> None:
    env = TradingEnv(reward=Counting, **SHORT)
    env.reset(seed=1)
    env.step(1)
    twin = copy.deepcopy(env)
    assert [env.step(1)[1] for _ in range(3)] == [102, 103, 104]
    assert [twin.step(1)[1] for _ in range(3)] == [102, 103, 104]
