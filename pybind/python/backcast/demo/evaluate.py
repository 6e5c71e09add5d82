"""Evaluation on days that no actor and no gradient has seen: loss and equity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.lesson import FUTURE, HISTORY, TARGETS, examples, squared_errors
from backcast.demo.split import UnusablePanelError
from backcast.envs import PortfolioVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from backcast.demo.lesson import Examples
    from backcast.demo.model import Network

    Array = NDArray[np.float64]

POLICIES = ("learned", "buy and hold", "random")
INITIAL_AMOUNT = 100_000.0
COST = 0.001
# Shares that an action of 1 trades: enough to move the whole account in one step.
_HMAX = 100_000
_DAYS_AT_ONCE = 256


@dataclass(frozen=True)
class Heldout:
    """Mean squared errors on the test days, the model's against the train-set mean's."""

    examples: int
    model: dict[str, float]
    trivial: dict[str, float]


def day_blocks(
    panel: bc.Panel, tokens: NDArray[np.int32], first: int, last: int
) -> Iterator[Examples]:
    """Yield the examples of days ``first .. last - 1``, a block of days at a time."""
    for low in range(first, last, _DAYS_AT_ONCE):
        days = np.arange(low, min(low + _DAYS_AT_ONCE, last), dtype=np.int64)
        tics = np.tile(tokens, (len(days), 1))
        yield examples(panel.windows(days, tics, HISTORY, FUTURE))


def heldout_errors(
    panel: bc.Panel, tokens: NDArray[np.int32], first_test_day: int, network: Network
) -> Heldout:
    """Compare the network with the mean of the training targets on every test day."""
    train = [
        block.targets[block.complete]
        for block in day_blocks(panel, tokens, 0, first_test_day - FUTURE)
    ]
    learned = np.concatenate(train)
    features, targets = [], []
    for block in day_blocks(panel, tokens, first_test_day, panel.n_days):
        features.append(block.features[block.complete])
        targets.append(block.targets[block.complete])
    seen, actual = np.concatenate(features), np.concatenate(targets)
    if not (len(learned) and len(actual)):
        raise UnusablePanelError(
            f"no day has {HISTORY} days of every price before it and {FUTURE} after it: fill the "
            "panel's gaps"
        )
    mean = learned.mean(axis=0)
    model = squared_errors(network.predict(seen), actual)
    trivial = squared_errors(mean, actual)
    return Heldout(
        len(actual),
        dict(zip(TARGETS, model.tolist(), strict=True)),
        dict(zip(TARGETS, trivial.tolist(), strict=True)),
    )


def predicted_returns(
    panel: bc.Panel, tokens: NDArray[np.int32], first_test_day: int, network: Network
) -> Array:
    """Predict every test day's five-day returns ``[days, T]``; -inf where history is missing."""
    blocks = []
    for block in day_blocks(panel, tokens, first_test_day, panel.n_days):
        returns = network.predict(block.features.reshape(-1, block.features.shape[-1]))[:, 0]
        returns = returns.reshape(block.known.shape)
        blocks.append(np.where(block.known, returns, -np.inf))
    return np.concatenate(blocks)


def _best_half(scores: Array) -> Array:
    """Return equal weights for the better half of the tickers, and zeros for the rest."""
    weights = np.zeros_like(scores)
    chosen = np.argsort(-scores, kind="stable")[: max(1, len(scores) // 2)]
    weights[chosen] = np.isfinite(scores[chosen])
    return np.asarray(weights / max(1.0, weights.sum()))


def equity_curves(
    panel: bc.Panel,
    tickers: tuple[str, ...],
    first_test_day: int,
    scores: Array,
    seed: int,
    check: Callable[[], None],
) -> dict[str, list[float]]:
    """Let three policies trade the test days, and return their account values by day.

    *learned* and *random* hold half of the tickers at equal weights. Every five days they choose
    again, by predicted return and at random. *buy and hold* buys all tickers once.
    """
    draw = np.random.default_rng(seed)
    env = PortfolioVectorEnv(
        panel,
        len(POLICIES),
        tickers=list(tickers),
        days=(first_test_day, panel.n_days),
        initial_amount=INITIAL_AMOUNT,
        failure_threshold=0.0,
        hmax=_HMAX,
        buy_cost_pct=COST,
        sell_cost_pct=COST,
    )
    start = np.full(len(POLICIES), first_test_day)
    obs, _ = env.reset(seed=seed, options={"start_day": start})
    values = [np.array(obs["total_asset"])[:, 0]]
    ended = np.zeros(len(POLICIES), bool)
    while not ended.any():
        check()
        elapsed = len(values) - 1
        actions = np.zeros((len(POLICIES), len(tickers)))
        if elapsed % FUTURE == 0:
            listed = np.asarray(obs["open"])[1] > 0
            weights = [
                _best_half(scores[elapsed]),
                listed / max(1, listed.sum()),
                _best_half(np.where(listed, draw.random(len(tickers)), -np.inf)),
            ]
            actions = _orders(obs, np.array(weights))
            if elapsed > 0:
                actions[1] = 0.0
        obs, _, terminated, truncated, _ = env.step(actions)
        values.append(np.array(obs["total_asset"])[:, 0])
        ended = terminated | truncated
    env.close()
    curves = np.stack(values, axis=1)
    return {name: curve.tolist() for name, curve in zip(POLICIES, curves, strict=True)}


def _orders(obs: dict[str, Any], weights: Array) -> Array:
    """Return the actions that bring every account to `weights` of its value."""
    prices = np.asarray(obs["open"], np.float64)
    budget = np.asarray(obs["total_asset"]) * weights / (1.0 + 2.0 * COST)
    wanted = np.floor(np.divide(budget, prices, out=np.zeros_like(budget), where=prices > 0))
    shares = wanted - np.asarray(obs["shares"])
    # The environment rounds toward zero, so half a share is added to keep the whole ones.
    return np.asarray(np.clip((shares + 0.5 * np.sign(shares)) / _HMAX, -1.0, 1.0))
