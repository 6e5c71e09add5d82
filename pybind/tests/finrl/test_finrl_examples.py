"""Programs from FastFinRL's pages about environments; only the import is changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from finrl_market import market


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change into a folder with the CSV file that the programs read."""
    market(120, ["AAPL", "GOOGL", "MSFT", "QQQ", "SPY", "VIX"]).write(tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_vectorised_environment_of_the_page_of_the_buffer() -> None:
    import backcast.finrl as ff

    env = ff.VecFastFinRL("data.csv", n_envs=4, return_format="vec", macro_tickers=["SPY", "QQQ"])
    assert env.n_tickers() == 4, "known before the first reset"
    state = env.reset(seed=42)
    ends = 0
    for _ in range(1000):
        actions = np.random.uniform(-1, 1, (4, env.n_tickers(), 2))  # noqa: NPY002
        next_state = env.step(actions[..., 0])  # env uses first dim
        assert next_state["reward"].shape == next_state["done"].shape == (4,)
        ends += next_state["done"].sum()
        state = next_state
    assert ends > 10
    assert state["tickers"] == [["AAPL", "GOOGL", "MSFT", "VIX"]] * 4


@pytest.mark.usefixtures("folder")
def test_the_quick_start_of_the_single_environment() -> None:
    from backcast.finrl import FastFinRL

    env = FastFinRL("data.csv")
    state = env.reset(["AAPL", "MSFT", "GOOGL"], seed=42)
    steps = 0
    while not state["done"] and not state["terminal"]:
        state = env.step([0.5, -0.3, 0.0])
        steps += 1
        assert isinstance(state["reward"], float)
        assert state["portfolio"]["total_asset"] > 0
    assert steps > 5
    assert state["market"]["AAPL"]["indicators"].keys() == {"zeta", "alpha"}


@pytest.mark.usefixtures("folder")
def test_the_program_of_the_page_of_the_buffer(capsys: pytest.CaptureFixture[str]) -> None:
    import backcast.finrl as ff

    # Create environment with macro tickers
    env = ff.VecFastFinRL("data.csv", n_envs=4, return_format="vec", macro_tickers=["SPY", "QQQ"])

    # Create buffer with custom action shape
    buffer = ff.VecReplayBuffer(
        env,
        capacity=100000,
        batch_size=256,
        action_shape=(env.n_tickers(), 2),  # [n_tickers, 2] per action
    )

    # Collect experience
    state = env.reset(seed=42)
    for _ in range(1000):
        actions = np.random.uniform(-1, 1, (4, env.n_tickers(), 2))  # noqa: NPY002
        next_state = env.step(actions[..., 0])  # env uses first dim
        buffer.add(state, actions, next_state["reward"], next_state, next_state["done"])
        state = next_state

    # Sample with history and future
    s, action, reward, _s_next, done, mask, _mask_next = buffer.sample(
        batch_size=128, history_length=20, future_length=5
    )

    # Access market data
    print(s["AAPL"]["ohlcv"].shape)  # (128, 20, 5)
    print(s["AAPL"]["future_ohlcv"].shape)  # (128, 5, 5)

    # Access macro data
    print(s["macro"]["SPY"]["ohlcv"].shape)  # (128, 20, 5)
    print(s["macro"]["SPY"]["future_ohlcv"].shape)  # (128, 5, 5)

    # Action is reshaped by action_shape
    print(action.shape)  # (128, n_tickers, 2)

    shapes = ["(128, 20, 5)", "(128, 5, 5)"] * 2 + ["(128, 4, 2)"]
    assert capsys.readouterr().out.split("\n") == [*shapes, ""]
    assert buffer.size() == 4_000
    assert (reward.shape, done.shape) == ((128, 1), (128,))
    assert mask["macro"]["QQQ"].shape == (128, 20)
