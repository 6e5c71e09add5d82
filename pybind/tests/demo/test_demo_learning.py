"""The demo's learner, its test episodes and its report."""

from typing import Any

import numpy as np
import pytest
from backcast.demo.agent import Learner
from backcast.demo.market import ACTIONS, EPISODE_STEPS, TEST_EPISODES, Exam, examine, hold
from backcast.demo.report import summary

FEATURES = 6


def made_batch(draw: np.random.Generator, rows: int = 256) -> Any:  # noqa: ANN401 - a Batch
    """Make transitions that pay 0.001 if the action is the index of the largest feature."""
    obs = draw.normal(size=(rows, FEATURES)).astype("f4")
    action = draw.integers(ACTIONS, size=rows)
    paid = obs[:, :ACTIONS].argmax(axis=1) == action
    return {
        "obs": obs,
        "action": action,
        "n_reward": 1e-3 * paid.astype("f4"),
        "n_next_obs": obs,
        "n_discount": np.zeros(rows, "f4"),
    }


def test_the_learner_finds_the_action_that_pays() -> None:
    draw = np.random.default_rng(0)
    learner = Learner(FEATURES, 0)
    for _ in range(1_500):
        learner.learn(made_batch(draw))
    unseen = draw.normal(size=(2_000, FEATURES)).astype("f4")
    found = learner.network.best(unseen) == unseen[:, :ACTIONS].argmax(axis=1)
    assert found.mean() > 0.9


def test_a_value_is_the_reward_and_the_discounted_value_after_it() -> None:
    draw = np.random.default_rng(0)
    learner = Learner(FEATURES, 0)
    for _ in range(2_000):
        batch = made_batch(draw)
        # An endless run of rewards of a thousandth is worth 1 / (1 - 0.5), in thousandths.
        batch |= {"n_reward": np.full(256, 1e-3, "f4"), "n_discount": np.full(256, 0.5, "f4")}
        learner.learn(batch)
    unseen = draw.normal(size=(2_000, FEATURES)).astype("f4")
    assert learner.network(unseen).mean() == pytest.approx(2.0, abs=0.1)


def test_every_policy_plays_the_same_unseen_episodes() -> None:
    holding = examine(hold, 3)
    assert holding.returns.shape == (TEST_EPISODES,)
    assert holding.gains.shape == (EPISODE_STEPS + 1, TEST_EPISODES)
    np.testing.assert_allclose(holding.gains[-1], holding.returns, atol=1e-9)
    assert np.array_equal(examine(hold, 3).gains, holding.gains)
    flat = examine(lambda obs: np.ones(len(obs), np.int64), 3)
    assert np.array_equal(flat.returns, np.zeros(TEST_EPISODES))
    assert flat.above(holding)[0] == pytest.approx(-holding.above()[0])


def test_a_margin_has_the_error_of_the_differences() -> None:
    apart = np.array([0.0, 0.02, 0.04, 0.06])
    base = np.array([5.0, -3.0, 8.0, 1.0])
    curves = np.zeros((2, 4))
    mean, error = Exam(base + apart, curves).above(Exam(base, curves))
    assert mean == pytest.approx(0.03)
    assert error == pytest.approx(apart.std(ddof=1) / 2)


def test_the_summary_says_whether_holding_is_beaten() -> None:
    result: dict[str, Any] = {
        "actors": 2, "envs_per_actor": 4, "rows_written": 1_000, "rows_written_per_s": 10.0,
        "learner_batches": 3, "learner_batches_per_s": 1.0, "batch_rows": 256,
        "rows_checked": 768, "torn_rows": 0, "test_episodes": 64,
        "test_return_before": -0.03, "test_return_learned": 0.05, "test_return_holding": 0.01,
        "margin_over_holding": 0.04, "margin_standard_error": 0.01,
        "episodes_better_than_holding": 60, "killed_actors": 0,
    }  # fmt: skip
    text = summary(result)
    assert "before training -3.00%, learned +5.00%, holding +1.00%" in text
    assert "+4.00% +- 1.00% over holding, better in 60 of 64 episodes" in text
    assert text.endswith("the policy beats holding")
    weak = summary(result | {"margin_standard_error": 0.03})
    assert weak.endswith("does not clearly beat holding")
    death = {"killed_actors": 1, "adopted_lanes": 8, "rows_compared": 512, "lost_rows": 0}
    assert "continued 8 lanes; of 512 rows from before, 0 are lost" in summary(result | death)
