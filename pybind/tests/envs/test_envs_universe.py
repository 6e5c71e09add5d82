"""Universes whose tickers are listed late or delisted, in the environments and in the wrapper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from envs_worlds import row_of, same

DAYS, LAST, FIRST = 100, 29, 70


@pytest.fixture
def universe(tmp_path: Path) -> Path:
    """Write AAA throughout, GONE up to day 29 and LATE from day 70 on: no day has all three."""
    lines = ["date,tic,open,high,low,close,volume"]
    for day, date in enumerate(np.arange("2024-01-01", DAYS, dtype="datetime64[D]")):
        price = 10 + day / 100
        for ticker, first, last in [("AAA", 0, DAYS), ("GONE", 0, LAST), ("LATE", FIRST, DAYS)]:
            if first <= day <= last:
                lines.append(f"{date},{ticker},{price},{price},{price},{price},100")
    path = tmp_path / "universe.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("delisting", ["settle", "hold"])
def test_an_episode_through_a_delisting_and_a_listing(universe: Path, delisting: Any) -> None:  # noqa: ANN401
    env = PortfolioEnv(universe, delisting=delisting, buy_cost_pct=0.0, record=True)
    obs, _ = env.reset(options={"start_day": 20})
    assert obs["open"].tolist() == [10.2, 10.2, 0.0]
    obs = env.step([0.0, 1.0, 1.0])[0]
    assert obs["shares"].tolist() == [0, 15, 0]
    while obs["day"][0] < LAST:
        obs = env.step([0.0, 0.0, 0.0])[0]
    assert obs["shares"].tolist() == [0, 15, 0]
    last_close, cash = 10.29, 30_000 - 15 * 10.2
    obs, reward, *_ = env.step([0.0, 0.0, 0.0])
    assert reward == pytest.approx(0, abs=1e-15), "the value at the close stays"
    settled = delisting == "settle"
    assert obs["shares"].tolist() == [0, 0 if settled else 15, 0]
    assert obs["cash"][0] == pytest.approx(cash + 15 * last_close if settled else cash)
    assert obs["total_asset"][0] == pytest.approx(cash + 15 * last_close)
    while obs["day"][0] < FIRST:
        obs = env.step([0.0, -1.0, 1.0])[0]
        assert obs["shares"].tolist() == [0, 0 if settled else 15, 0]
    over = False
    while not over:
        obs, _, _, over, _ = env.step([0.0, 0.0, 0.1])
    assert obs["shares"][2] == DAYS - 1 - FIRST
    history = env.history()
    assert history["settled"].sum() == (15 if settled else 0)
    assert history["sold"].sum() == 0


def test_the_vector_environment_is_equal_bit_for_bit_and_draws_days_with_a_listed_ticker(
    universe: Path,
) -> None:
    batch = PortfolioVectorEnv(universe, 12, hmax=300, autoreset_mode="disabled")
    singles = [PortfolioEnv(universe, hmax=300) for _ in range(12)]
    here = batch.reset(seed=5)[0]
    for at, env in enumerate(singles):
        assert same(row_of(here, at), env.reset(seed=5 + at)[0])
    assert (here["open"] > 0).any(axis=1).all()
    draw = np.random.default_rng(3)
    for _ in range(15):
        actions = draw.uniform(-1, 1, (12, 3))
        here, rewards, *_ = batch.step(actions)
        for at, env in enumerate(singles):
            row, reward, *_ = env.step(actions[at])
            assert same(row_of(here, at), row)
            assert rewards[at] == reward


def test_the_wrapper_masks_what_is_not_listed(universe: Path) -> None:
    envs = ff.VecFinRLWrapper(
        universe, 1_000, history_length=3, n_envs=2, shuffle_tickers=False, bidding="default"
    )
    obs, _ = envs.reset(seed=1, options={"start_day": [LAST, FIRST + 1]})
    assert obs["market"]["open"][:, 1:].astype(bool).tolist() == [[True, False], [False, True]]
    masks = obs["hist"]["market"]["masks"]
    assert masks[0].tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    assert masks[1].tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 1]]
    actions = np.ones((2, 3, 2))
    obs, *_ = envs.step(actions)
    # GONE is bought and settled on its last day. Listed tickers are held.
    assert obs["portfolio"]["shares"].tolist() == [[15, 0, 0], [15, 0, 15]]
    batch = envs.sample_buffer(2)
    assert set(batch[0]["tics"].reshape(-1).tolist()) == {1, 2, 3}


def test_universes_of_seeds_and_of_plain_classes_are_taken(universe: Path) -> None:
    single = ff.FastFinRL(universe)
    state = single.reset(seed=3)
    assert state["market"]["GONE"]["open"] == 0 or state["market"]["LATE"]["open"] == 0
    many = ff.VecFastFinRL(universe, 8, return_format="vec")
    assert (many.reset(seed=1)["open"] > 0).any(axis=1).all()
    drawn = ff.VecFastFinRL(universe, 8, num_tickers=1, shuffle_tickers=True)
    names = {tic for seed in range(9) for [tic] in (drawn.reset(seed=seed), drawn.get_tickers())[1]}
    assert names == {"AAA", "GONE", "LATE"}


def test_a_start_needs_one_listed_ticker_and_a_price_for_shares_given(universe: Path) -> None:
    env = PortfolioEnv(universe, tickers=["GONE", "LATE"])
    for day in (LAST, FIRST):
        env.reset(options={"start_day": day})
    with pytest.raises(bc.errors.EnvError, match=r"\b2\b"):
        env.reset(options={"start_day": 50})
    given = PortfolioEnv(universe, initial_shares={"LATE": 5})
    assert all(given.reset(seed=seed)[0]["day"] >= FIRST for seed in range(20))
    with pytest.raises(bc.errors.EnvError, match=r'"LATE".*\b70\b'):
        given.reset(options={"start_day": 5})


def test_a_start_before_the_lag_says_which_argument_allows_it(universe: Path) -> None:
    with pytest.raises(bc.errors.EnvError, match="indicator_lag=0"):
        PortfolioEnv(universe).reset(options={"start_day": 0})
    PortfolioEnv(universe, indicator_lag=0).reset(options={"start_day": 0})
