"""Policies are played through whole tests; what intervals do not separate is not called skill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import PortfolioEnv
from backcast.errors import ArgumentError, ArgumentTypeError, EnvError
from backcast.evaluate import (
    Baseline,
    BuyAndHold,
    EqualWeight,
    Evaluation,
    Fold,
    Interval,
    Score,
    deflated_sharpe_ratio,
    evaluate,
    sharpe_ratio,
    split,
    walk_forward,
)
from evaluate_markets import closes, panel_of

Obs = dict[str, np.ndarray]
ONLY = [BuyAndHold()]


def buy(obs: Obs) -> np.ndarray:
    return np.ones(obs["open"].shape)


def idle(obs: Obs) -> np.ndarray:
    return np.zeros(obs["open"].shape)


def by_day(obs: Obs) -> np.ndarray:
    """Trade in both directions, depending on the observation alone."""
    return np.asarray(np.sin(obs["open"] * 7 + obs["day"]))


class Model:
    """Recurrent model as Stable-Baselines3 has it: counts the steps of its episodes."""

    def __init__(self) -> None:
        self.begun: list[list[bool]] = []
        self.states: list[Any] = []

    def predict(
        self,
        observation: Obs,
        state: Any = None,  # noqa: ANN401
        episode_start: Any = None,  # noqa: ANN401
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        assert deterministic
        self.begun.append(episode_start.tolist())
        self.states.append(state)
        return by_day(observation), (0 if state is None else state) + 1


def played_alone(
    panel: bc.Panel,
    test: tuple[int, int],
    policy: Callable[[Obs], np.ndarray],
    **settings: Any,  # noqa: ANN401
) -> np.ndarray:
    """Return the returns of one episode of the single environment."""
    settings = {"failure_threshold": 0} | settings
    env = PortfolioEnv(panel, days=test, record=True, **settings)
    obs, _ = env.reset(seed=0, options={"start_day": test[0]})
    ended = False
    while not ended:
        batch = {name: values[None] for name, values in obs.items()}
        obs, _, terminated, truncated, _ = env.step(policy(batch)[0])
        ended = terminated or truncated
    values = env.history()["value"]
    env.close()
    return np.asarray(values[1:] / values[:-1] - 1)


def test_returns_are_those_of_an_episode_over_each_test() -> None:
    panel = panel_of(closes())
    folds = walk_forward(panel, train=30, test=40)
    result = evaluate(by_day, panel, folds, baselines=ONLY, resamples=50)
    returns = np.concatenate([played_alone(panel, fold.test, by_day) for fold in folds])
    score = result.policies["policy"]
    np.testing.assert_allclose(score.returns[0], returns, atol=1e-14)
    assert result.tests == [(30, 70), (70, 110), (110, 150)]
    assert len(result.dates) == len(returns) == 3 * 39
    assert result.dates[0] == panel.dates[31]
    assert result.dates[39] == panel.dates[71]
    assert score.total_return.value == pytest.approx(np.prod(1 + returns) - 1)
    assert score.sharpe.value == pytest.approx(sharpe_ratio(returns, panel.bars_per_year))
    line = np.cumprod(np.concatenate([[1], 1 + returns]))
    assert score.max_drawdown == pytest.approx((1 - line / np.maximum.accumulate(line)).max())
    assert score.deflated is None


def test_models_predict_without_noise_and_keep_their_state_within_a_test() -> None:
    panel, model = panel_of(closes()), Model()
    result = evaluate(model, panel, [(30, 60), (60, 90)], baselines=ONLY, runs=2, resamples=50)
    same = evaluate(by_day, panel, [(30, 60), (60, 90)], baselines=ONLY, resamples=50)
    assert (result.policies["policy"].returns[0] == same.policies["policy"].returns[0]).all()
    assert model.begun == 2 * ([[True, True]] + 28 * [[False, False]])
    assert model.states == 2 * [None, *range(1, 29)]


def test_each_fold_has_its_own_policy_in_any_order() -> None:
    panel = panel_of(closes())
    folds = [(90, 120), (30, 60)]
    result = evaluate([idle, buy], panel, folds, baselines=ONLY, resamples=50)
    returns = result.policies["policy"].returns[0]
    assert result.tests == [(30, 60), (90, 120)]
    assert np.abs(returns[:29]).max() > 0
    assert (returns[29:] == 0).all()


def test_runs_have_seeds_of_their_own() -> None:
    panel = panel_of(closes())
    drawn = evaluate(buy, panel, [(30, 90)], baselines=ONLY, runs=3, seed=5, bidding="uniform")
    returns = drawn.policies["policy"].returns
    assert returns.shape == (3, 59)
    assert drawn.seeds == [5, 6, 7]
    assert (returns[0] != returns[1]).any()
    again = evaluate(buy, panel, [(30, 90)], baselines=ONLY, runs=3, seed=5, bidding="uniform")
    assert str(again) == str(drawn)
    shifted = evaluate(buy, panel, [(30, 90)], baselines=ONLY, runs=1, seed=6, bidding="uniform")
    assert (shifted.policies["policy"].returns[0] == returns[1]).all()


def test_a_portfolio_that_fails_keeps_its_last_value_while_others_go_on() -> None:
    close = closes()
    close[:, 45:] *= 0.2
    panel = panel_of(close)

    def half(obs: Obs) -> np.ndarray:
        action = np.ones(obs["open"].shape)
        action[1] = 0
        return action

    result = evaluate(
        half, panel, [(30, 90)], baselines=ONLY, runs=2, hmax=1000, failure_threshold=20_000
    )
    failed, other = result.policies["policy"].returns
    assert failed[14] < -0.5
    assert (failed[15:] == 0).all()
    assert (other == 0).all()
    # Baselines have no threshold.
    assert (result.baselines["buy_and_hold"].returns[:, 15:] != 0).all()


def test_intervals_that_overlap_are_not_distinguishable() -> None:
    draw = np.random.default_rng(0)
    close = 20 * np.exp(draw.normal([[0.03], [-0.03]], 0.01, (2, 150)).cumsum(axis=1))
    panel = panel_of(close)

    def first(obs: Obs) -> np.ndarray:
        return np.tile([1.0, 0.0], (len(obs["open"]), 1))

    def second(obs: Obs) -> np.ndarray:
        return first(obs)[:, ::-1]

    settings: dict[str, Any] = {"hmax": 2_000, "buy_cost_pct": 0.0}
    tests = [(30, 150)]
    against: list[Baseline] = [EqualWeight(5), BuyAndHold()]

    def hold(obs: Obs) -> np.ndarray:
        return np.asarray((obs["day"] == 30) * 15_000 / obs["open"] / settings["hmax"])

    results = {
        name: evaluate({name: one}, panel, tests, baselines=against, **settings)
        for name, one in {"first": first, "second": second, "hold": hold}.items()
    }
    for name, other, word in (
        ("first", "equal_weight", "better"),
        ("second", "equal_weight", "worse"),
        ("hold", "buy_and_hold", "not distinguishable"),
    ):
        result = results[name]
        assert result.verdict(name, other) == result.verdict(name, other, "total_return") == word
        assert f"{name} against {other}: Sharpe {word}, return {word}" in str(result)
        ours, theirs = result.policies[name].sharpe, result.baselines[other].sharpe
        apart = ours.low > theirs.high or theirs.low > ours.high
        assert apart == (word != "not distinguishable")
    # Many others did as well: it is not skill, whatever the intervals say.
    lucky = evaluate(
        {"first": first}, panel, tests, baselines=against, tried=range(-60, 61, 3), **settings
    )
    assert lucky.policies["first"].sharpe.low > lucky.baselines["equal_weight"].sharpe.high
    assert lucky.verdict("first", "equal_weight") == "not distinguishable"


@pytest.mark.parametrize(
    ("ours", "theirs", "deflated", "verdict"),
    [
        ((2, 1.5, 3), (1, 0.5, 1.4), None, "better"),
        ((2, 1.5, 3), (1, 0.5, 1.5), None, "not distinguishable"),
        ((2, 1.5, 3), (1, 0.5, 1.4), 0.96, "better"),
        ((2, 1.5, 3), (1, 0.5, 1.4), 0.94, "not distinguishable"),
        ((1, 0.5, 1.4), (2, 1.5, 3), 0.94, "worse"),
        ((1, 0.5, 1.5), (2, 1.5, 3), None, "not distinguishable"),
    ],
)
@pytest.mark.parametrize("of", ["sharpe", "total_return"])
def test_a_verdict_needs_intervals_that_are_apart(
    ours: tuple[float, float, float],
    theirs: tuple[float, float, float],
    deflated: float | None,
    verdict: str,
    of: Any,  # noqa: ANN401 - a literal
) -> None:
    apart = {"sharpe": Interval(0, -1, 1), "total_return": Interval(0, -1, 1)}

    def score(interval: tuple[float, float, float], deflated: float | None) -> Score:
        numbers = apart | {of: Interval(*interval)}
        return Score(
            np.zeros((1, 2)), numbers["total_return"], numbers["sharpe"], 0, 0, 0, deflated
        )

    result = Evaluation(
        {"a": score(ours, deflated)}, {"b": score(theirs, None)}, [(0, 3)], ["x", "y"], 252.0, [0],
        10, 2.0, 0, 0.95, 1,
    )  # fmt: skip
    other = "total_return" if of == "sharpe" else "sharpe"
    assert result.verdict("a", "b", of) == verdict
    assert result.verdict("a", "b", other) == "not distinguishable"  # type: ignore[arg-type]


def test_several_policies_deflate_the_ratios_of_each_other() -> None:
    panel = panel_of(closes())
    policies = {"buy": buy, "by_day": by_day, "idle": idle}
    result = evaluate(policies, panel, [(30, 150)], baselines=ONLY, tried=[0.5], resamples=50)
    ratios = [sharpe_ratio(result.policies[name].returns[0]) for name in policies]
    tried = [*ratios, 0.5 / np.sqrt(panel.bars_per_year)]
    for name in ("buy", "by_day"):
        expected = deflated_sharpe_ratio(result.policies[name].returns[0], tried)
        assert result.policies[name].deflated == pytest.approx(expected)
    assert result.policies["idle"].deflated == 0
    assert result.baselines["buy_and_hold"].deflated is None
    assert (result.trials, "deflated" in str(result)) == (4, True)
    assert "4 policies tried" in str(result)
    alone = evaluate(buy, panel, [(30, 150)], baselines=ONLY, resamples=50)
    assert (alone.trials, "deflated" in str(alone)) == (1, False)


def test_the_table_states_seeds_blocks_and_level() -> None:
    panel = panel_of(closes())
    result = evaluate(
        buy, panel, [(30, 150)], baselines=(), resamples=123, mean_block=9, level=0.8, seed=4
    )
    text = str(result)
    for word in ("80%", "123 resamples", "9 bars", "seed 4", "1 test of 119 returns"):
        assert word in text, word
    assert repr(result) == text


def test_the_picture_has_a_line_and_an_interval_for_each(tmp_path: Any) -> None:  # noqa: ANN401
    pytest.importorskip("matplotlib")
    panel = panel_of(closes())
    folds = walk_forward(panel, train=30, test=40)
    result = evaluate(buy, panel, folds, baselines=[BuyAndHold(), EqualWeight()], resamples=50)
    growth, ratios = result.plot()
    _, labels = growth.get_legend_handles_labels()
    assert labels == ["policy", "buy_and_hold", "equal_weight"]
    line = np.asarray(growth.get_lines()[0].get_ydata())
    assert line[-1] == pytest.approx(1 + result.policies["policy"].total_return.value)
    assert len(ratios.containers) == 3
    figure = growth.get_figure(root=True)
    assert figure is not None
    figure.savefig(tmp_path / "evaluation.png")
    assert result.plot([growth, ratios])[0] is growth
    with pytest.raises(ArgumentTypeError, match="axes has 1"):
        result.plot([growth])


@pytest.mark.parametrize("obs", ["flat", "dict"])
def test_settings_are_those_of_the_environment(obs: Any) -> None:  # noqa: ANN401
    panel = panel_of(closes(), macro=["T02"])
    seen: list[Any] = []

    def watch(given: Any) -> np.ndarray:  # noqa: ANN401
        seen.append(given)
        return np.zeros((1, 1))

    evaluate(
        watch, panel, split(panel, 60)[1:], baselines=[EqualWeight(5)], resamples=10,
        obs=obs, tickers=["T01"], macro_tickers=["T02"], history=3,
    )  # fmt: skip
    shape = seen[0].shape if obs == "flat" else seen[0]["history"].shape
    assert shape == ((1, 3 + 1 + 3 + 2 * 3 * 5 + 2 * 3) if obs == "flat" else (1, 2, 3, 5))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"policy": 3}, ArgumentTypeError, ["policy is 3"]),
        ({"policy": {}}, ArgumentError, ["empty"]),
        ({"policy": {1: buy}}, ArgumentTypeError, ["key 1"]),
        ({"policy": [buy, buy]}, ArgumentError, ["2 policies", "1 folds"]),
        ({"folds": (30, 60)}, ArgumentTypeError, ["(30, 60)", "list"]),
        ({"folds": []}, ArgumentTypeError, ["[]"]),
        ({"folds": [30]}, ArgumentTypeError, ["folds is 30"]),
        ({"folds": [(30, 200)]}, ArgumentError, ["200", "150"]),
        ({"folds": [(30, 32)]}, ArgumentError, ["2 bars", "3"]),
        ({"folds": [(30, 60), (59, 90)]}, ArgumentError, ["30 to 60", "59 to 90", "twice"]),
        ({"folds": [Fold(((0, 31),), (30, 60))]}, ArgumentError, ["0 to 31", "30 to 60"]),
        ({"indicator_lag": 0}, ArgumentError, ["indicator_lag is 0", "1"]),
        ({"valuation": "close"}, ArgumentError, ["valuation is 'close'"]),
        ({"stop_loss_day": "next"}, ArgumentError, ["stop_loss_day is 'next'"]),
        ({"days": (0, 10)}, ArgumentError, ["'days'", "folds"]),
        ({"max_episode_steps": 5}, ArgumentError, ["'max_episode_steps'"]),
        ({"record": False}, ArgumentError, ["'record'"]),
        ({"hmaxx": 5}, ArgumentTypeError, ["hmaxx", "hmax"]),
        ({"hmax": 0}, EnvError, ["hmax", "0"]),
        ({"runs": 0}, ArgumentError, ["runs is 0"]),
        ({"resamples": 0}, ArgumentError, ["resamples is 0"]),
        ({"level": 1.0}, ArgumentError, ["level is 1.0"]),
        ({"mean_block": 0.5}, ArgumentError, ["mean_block is 0.5", "29"]),
        ({"mean_block": 30}, ArgumentError, ["30", "29"]),
        ({"seed": -1}, ArgumentError, ["seed is -1"]),
        ({"tried": [float("nan")]}, ArgumentError, ["nan", "finite"]),
        ({"tried": "many"}, ArgumentTypeError, ["'many'"]),
        ({"baselines": "momentum"}, ArgumentTypeError, ["'momentum'"]),
        ({"baselines": [EqualWeight]}, ArgumentTypeError, ["EqualWeight"]),
        ({"baselines": [EqualWeight(), EqualWeight(5)]}, ArgumentError, ["'equal_weight'"]),
        ({"policy": {"buy_and_hold": buy}}, ArgumentError, ["'buy_and_hold'", "twice"]),
        ({"panel": "prices"}, ArgumentTypeError, ["'prices'"]),
    ],
)
def test_bad_evaluations_are_refused(
    changes: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    given: dict[str, Any] = {
        "policy": buy,
        "panel": panel_of(closes()),
        "folds": [(30, 60)],
        "baselines": ONLY,
    }
    given |= changes
    with pytest.raises(error) as caught:
        evaluate(given.pop("policy"), given.pop("panel"), given.pop("folds"), **given)
    for word in words:
        assert word in str(caught.value)
