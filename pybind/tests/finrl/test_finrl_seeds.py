"""Random numbers go on wherever no seed is given: the same program plays the same episodes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import TICKERS as LISTED
from finrl_buffers import vec, with_gaps
from finrl_market import market

GENERATORS = ["splitmix64", "mt19937"]
LISTS = [["AAA", "BBB"], ["BBB", "DDD"], ["DDD", "AAA"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


def played(env: Any, resets: list[dict[str, Any]]) -> list[Any]:  # noqa: ANN401
    """Reset again and again with a step in between; days, and prices of orders."""
    seen = []
    for arguments in resets:
        state = env.reset(**arguments)
        after = env.step(np.ones(np.shape(state["shares"])))
        seen += [state["day"], after["cash"]]
    return [np.array(part).tolist() for part in seen]


@pytest.mark.parametrize("generator", GENERATORS)
def test_resets_that_name_tickers_go_on_in_the_streams_of_the_seed(
    path: Path, generator: str
) -> None:
    # Fewer portfolios, as many, and more than before.
    named = [{"tickers_list": LISTS[:n]} for n in (2, 2, 1, 3, 3)]
    resets: list[dict[str, Any]] = [{"seed": 7}, *named, {}]
    settings: dict[str, Any] = {"bidding": "uniform", "generator": generator}
    one, again = (played(vec(path, 2, **settings), resets) for _ in range(2))
    assert one == again
    # Of the same tickers they are those of resets that name none.
    first = LISTS[:1]
    with_names: list[dict[str, Any]] = [{"tickers_list": first, "seed": 3}, *[{}] * 3]
    without = with_names[:1] + [{"tickers_list": first}] * 3
    assert played(vec(path, 1, **settings), with_names) == played(vec(path, 1, **settings), without)


@pytest.mark.parametrize("generator", GENERATORS)
def test_resets_of_one_portfolio_go_on_too(path: Path, generator: str) -> None:
    resets: list[dict[str, Any]] = [
        {"ticker_list": tickers, "seed": seed}
        for tickers, seed in [(LISTS[0], 7), (LISTS[1], None), (LISTS[2], None), (None, None)]
    ]

    def make() -> ff.FastFinRL:
        return ff.FastFinRL(path, bidding="uniform", generator=generator, return_format="vec")

    assert played(make(), resets) == played(make(), resets)


def test_a_refused_reset_leaves_the_streams_where_they_were(path: Path) -> None:
    env, other = vec(path, 2), vec(path, 2)
    for each in (env, other):
        each.reset(LISTS[:2], seed=7)
    with pytest.raises(bc.EnvError, match="start_day"):
        env.reset(LISTS[:2], options={"start_day": 10_000})
    assert env.reset(LISTS[:2])["day"].tolist() == other.reset(LISTS[:2])["day"].tolist()


def test_a_shifted_start_holds_for_tickers_that_are_drawn(tmp_path: Path) -> None:
    # Starts are drawn up to day 39 of 50; CCC could from day 31 on.
    path = market(50, LISTED, late={"CCC": 30}).write(tmp_path / "late.csv")
    env = ff.FastFinRL(path, num_tickers=2, shuffle_tickers=True)
    with pytest.raises(
        bc.EnvError, match=r"`shifted_start` is 39, but .* on days 1 to 39 .* less$"
    ):
        env.reset(seed=1, shifted_start=39)
    for shift in (5, 20, 38):
        drawn = set()
        for seed in range(30):
            state = env.reset(seed=seed, shifted_start=shift)
            drawn |= set(env.get_tickers())
            late = "CCC" in env.get_tickers()
            assert shift + (31 if late else 1) <= state["day"] <= 39
        # Who could not start so late is not drawn.
        assert drawn == {"AAA", "BBB", "DDD", *(["CCC"] if shift == 5 else [])}
    twin = copy.deepcopy(env)
    for shift in (39, 5_000):
        for seed in (None, *range(8)):
            with pytest.raises(bc.EnvError, match=f"is {shift}, .* 1 to 39 .* shift by less"):
                env.reset(seed=seed, shifted_start=shift)
    assert (env.get_state(), env.get_tickers()) == (twin.get_state(), twin.get_tickers())
    assert env.reset() == twin.reset(), "nothing has changed"
