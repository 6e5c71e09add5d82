"""Resets without a seed continue the random stream: equal programs draw equal episodes."""

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
    """Reset repeatedly, with a step after each reset; return days, and the cash after orders."""
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
    # Resets as many portfolios as before, then fewer, then more.
    named = [{"tickers_list": LISTS[:n]} for n in (2, 2, 1, 3, 3)]
    resets: list[dict[str, Any]] = [{"seed": 7}, *named, {}]
    settings: dict[str, Any] = {"bidding": "uniform", "generator": generator}
    one, again = (played(vec(path, 2, **settings), resets) for _ in range(2))
    assert one == again
    # Resets that name the same tickers draw the same as resets that name none.
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
    with pytest.raises(bc.errors.EnvError, match="start_day"):
        env.reset(LISTS[:2], options={"start_day": 10_000})
    assert env.reset(LISTS[:2])["day"].tolist() == other.reset(LISTS[:2])["day"].tolist()


def test_a_shifted_start_holds_for_tickers_that_are_drawn(tmp_path: Path) -> None:
    # Episodes start on day 39 of 50 at the latest, those of CCC on day 31 at the earliest.
    path = market(50, LISTED, late={"CCC": 30}).write(tmp_path / "late.csv")
    env = ff.FastFinRL(path, num_tickers=2, shuffle_tickers=True)
    with pytest.raises(bc.errors.EnvError, match=r"`shifted_start`.*\b39\b.*\b1\b.*\b39\b"):
        env.reset(seed=1, shifted_start=39)
    for shift in (5, 20, 38):
        drawn = set()
        for seed in range(30):
            state = env.reset(seed=seed, shifted_start=shift)
            drawn |= set(env.get_tickers())
            late = "CCC" in env.get_tickers()
            assert shift + (31 if late else 1) <= state["day"] <= 39
        # Tickers that cannot start so late are not drawn.
        assert drawn == {"AAA", "BBB", "DDD", *(["CCC"] if shift == 5 else [])}
    twin = copy.deepcopy(env)
    for shift in (39, 5_000):
        for seed in (None, *range(8)):
            with pytest.raises(bc.errors.EnvError, match=rf"\b{shift}\b.*\b1\b.*\b39\b"):
                env.reset(seed=seed, shifted_start=shift)
    assert (env.get_state(), env.get_tickers()) == (twin.get_state(), twin.get_tickers())
    assert env.reset() == twin.reset(), "nothing has changed"


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("lists", [None, LISTS, [[], *LISTS, []]])
def test_a_first_reset_without_a_seed_uses_the_initial_seed(
    path: Path, generator: str, lists: list[list[str]] | None
) -> None:
    def played_from(seeds: Any, seed: int = 5) -> list[Any]:  # noqa: ANN401
        settings: dict[str, Any] = {"bidding": "uniform", "generator": generator}
        env = vec(path, count, initial_seed=seed, shuffle_tickers=True, **settings)
        resets: list[dict[str, Any]] = [{"seeds": seeds, "tickers_list": lists}, {}, {}]
        return list(np.array(played(env, resets)).T.tolist())

    count = 4 if lists is None else len(lists)
    initial, others = played_from(None), played_from(None, 6)
    assert initial != others
    assert played_from([None] * count) == initial
    mixed = played_from([7, *[None] * (count - 1)])
    assert mixed[1:] == initial[1:]
    assert mixed[0] == played_from(7 + np.arange(count))[0] != initial[0]
    assert played_from([7, *[None] * (count - 1)]) == mixed, "and so on, in the resets after it"


def test_the_wrappers_streams_begin_there_too(path: Path) -> None:
    def days(*seeds: Any) -> list[Any]:  # noqa: ANN401
        settings: dict[str, Any] = {"n_envs": 4, "num_tickers": 2, "initial_seed": 5}
        wrapper = ff.VecFinRLWrapper(path, 10, 0, **settings)
        shown = []
        for seed in seeds:
            wrapper.reset(seed=seed)
            shown.append(wrapper.env.get_state()["day"].tolist())
        wrapper.close()
        return list(np.transpose(shown).tolist())

    initial = days(None, None)
    assert days([None] * 4, None) == initial
    assert days([7, None, None, None], None)[1:] == initial[1:]
    assert days([7, None, None, None], None) == days([7, None, None, None], None)


@pytest.mark.parametrize(
    ("seed", "like"),
    [([3, 4], 3), ([None, 4], 4), (np.array([3, 4]), 3), (np.array(3), 3), ((3, None), 3)],
    ids=str,
)
def test_actions_are_drawn_from_the_first_seed_there_is(path: Path, seed: Any, like: int) -> None:  # noqa: ANN401
    def drawn(*seeds: Any) -> list[Any]:  # noqa: ANN401
        wrapper = ff.VecFinRLWrapper(path, 10, n_envs=2, num_tickers=2)
        actions = []
        for each in seeds:
            wrapper.reset(seed=each)
            actions.append(wrapper.sample_actions().tolist())
        wrapper.close()
        return actions

    assert drawn(like, None, [None, None]) == drawn(seed, None, [None, None])
    assert drawn(like) != drawn(like + 1)
