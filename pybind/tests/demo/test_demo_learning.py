"""The demo's small network and its lesson."""

from typing import Any

import numpy as np
import pytest
from backcast.demo.lesson import FEATURES, FUTURE, HISTORY, examples, squared_errors
from backcast.demo.model import Network

TICKERS = 3
COLUMNS = 5


def made_windows(rows: int) -> dict[str, Any]:
    """Windows as Panel.windows gives them, of a random walk; everything listed."""
    draw = np.random.default_rng(1)
    days = HISTORY + 1 + FUTURE
    close = 20.0 * np.exp(np.cumsum(draw.normal(0, 0.02, (rows, TICKERS, days)), axis=-1))
    spread = np.exp(draw.uniform(0.005, 0.02, close.shape))
    prices = np.stack([close, close * spread, close / spread, close, 1e6 * spread], axis=-1)
    prices = prices.astype(np.float32)
    mask = np.ones((rows, TICKERS, days), bool)
    return {
        "history": prices[:, :, :HISTORY],
        "history_mask": mask[:, :, :HISTORY],
        "open": prices[:, :, HISTORY, 0],
        "listed": mask[:, :, HISTORY],
        "future": prices[:, :, HISTORY + 1 :],
        "future_mask": mask[:, :, HISTORY + 1 :],
    }


def test_the_network_learns_a_planted_signal() -> None:
    draw = np.random.default_rng(0)
    features = draw.normal(size=(4096, FEATURES))
    planted = np.tanh(features @ draw.normal(0, 0.3, (FEATURES, 2)))
    network = Network.fresh(FEATURES, 16, 2, 0, learning_rate=3e-3, weight_decay=1e-3)
    for step in range(600):
        chosen = slice(256 * step % 3072, 256 * step % 3072 + 256)
        network.learn(features[chosen], planted[chosen])
    unseen = slice(3328, 4096)
    error = np.mean((network.predict(features[unseen]) - planted[unseen]) ** 2, axis=0)
    assert (error < 0.25 * planted[unseen].var(axis=0)).all()


def test_gradients_match_finite_differences() -> None:
    draw = np.random.default_rng(0)
    network = Network.fresh(4, 3, 2, 0, learning_rate=1e-3, weight_decay=0.0)
    network.parameters[2][:] = draw.normal(size=(3, 2))
    features, targets = draw.normal(size=(10, 4)), draw.normal(size=(10, 2))
    _, gradients = network.gradients(features, targets)
    for parameter, gradient in zip(network.parameters, gradients, strict=True):
        for place in np.ndindex(parameter.shape):
            kept = parameter[place]
            sides = []
            for step in (1e-5, -1e-5):
                parameter[place] = kept + step
                sides.append(network.gradients(features, targets)[0].sum())
            parameter[place] = kept
            assert gradient[place] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-6)


def test_the_target_is_the_log_return_from_the_open_to_the_last_future_close() -> None:
    windows = made_windows(8)
    made = examples(windows)
    assert made.features.shape == (8, TICKERS, FEATURES)
    assert made.complete.all()
    actual = np.log(windows["future"][..., -1, 3] / windows["open"])
    predicted = np.zeros((8 * TICKERS, 2))
    errors = squared_errors(predicted, made.targets.reshape(-1, 2))
    assert errors[0] == pytest.approx(float(np.mean(actual**2)), rel=1e-5)


@pytest.mark.parametrize("part", ["history_mask", "future_mask", "listed"])
def test_a_masked_place_takes_its_pair_out_of_training(part: str) -> None:
    windows = made_windows(8)
    windows[part][2, 1, ...] = False
    made = examples(windows)
    assert not made.complete[2, 1]
    assert made.complete.sum() == 8 * TICKERS - 1
    assert made.known[2, 1] == (part == "future_mask")
    assert np.isfinite(made.features).all()
    assert np.isfinite(made.targets).all()
    features, targets = made.usable(np.ones(8, bool))
    assert len(features) == len(targets) == 8 * TICKERS - 1


def test_features_know_nothing_of_the_future() -> None:
    windows = made_windows(8)
    before = examples(windows).features.copy()
    windows["future"] = windows["future"] * 3.0
    np.testing.assert_array_equal(examples(windows).features, before)


def test_rows_that_are_not_chosen_are_not_trained_on() -> None:
    made = examples(made_windows(8))
    chosen = np.arange(8) < 2
    assert len(made.usable(chosen)[0]) == 2 * TICKERS
