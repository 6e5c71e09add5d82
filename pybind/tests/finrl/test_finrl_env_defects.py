"""Regression tests of defects of FastFinRL's environments, whose interface these classes have.

Each test would fail on the defect. Numbers are those of one list of FastFinRL's defects; those of
market files, of the Python interface and of buffers are tested in the files beside this one.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_defects import crash, ordinary, vec
from finrl_market import constant, market

BUY = np.ones


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ordinary(tmp_path)


def test_defect_01_auto_reset_keeps_the_last_reward_flag_and_observation(tmp_path: Path) -> None:
    path = crash(tmp_path)
    settings: dict[str, Any] = {"hmax": 200, "stop_loss_tolerance": 0.0}
    resets, plays = vec(path, **settings), vec(path, auto_reset=False, **settings)
    start = {"start_day": np.array([4, 1])}
    for env in (resets, plays):
        env.reset(seed=1, options=start)
        env.step(BUY((2, 2)))
    here, there = resets.step(BUY((2, 2))), plays.step(BUY((2, 2)))
    assert here["done"].tolist() == here["terminated"].tolist() == [True, False]
    np.testing.assert_array_equal(here["reward"], there["reward"])
    assert here["reward"][0] < -0.5, "the crash is felt"
    assert (here["cash"][0], here["shares"][0].tolist()) == (30_000.0, [0, 0]), "begun anew"
    for key, values in here["final_obs"].items():
        np.testing.assert_array_equal(values, there[key], err_msg=key)
    assert here["final_obs"]["day"].tolist() == [6, 3]
    # An episode that ends with the data is not terminated, so that learners bootstrap.
    resets.reset(options={"start_day": [18, 1]})
    last = resets.step(np.zeros((2, 2)))
    assert (last["terminal"].tolist(), last["terminated"].tolist()) == (
        [True, False],
        [False, False],
    )


def test_defect_02_the_failure_threshold_is_the_one_asked_for(path: Path) -> None:
    env = vec(path, initial_amount=20_000, failure_threshold=5_000)
    env.reset(seed=1, options={"start_day": 1})
    assert not env.step(np.zeros((2, 4)))["done"].any()
    strict = vec(path, failure_threshold=29_999, hmax=100)
    strict.reset(seed=1, options={"start_day": 1})
    assert strict.step(BUY((2, 4)))["done"].all(), "the fees alone are too much"


@pytest.mark.filterwarnings("ignore:one share")
def test_defect_02_a_threshold_above_the_start_is_said_and_played(path: Path) -> None:
    says = r"\bfailure_threshold\b.*\b25000\b.*\binitial_amount\b.*\b20000\b"
    with pytest.warns(UserWarning, match=says) as said:
        resets = ff.VecFastFinRL(path, 2, return_format="vec", initial_amount=20_000)
    assert [warning.filename for warning in said] == [__file__]
    with pytest.warns(UserWarning, match=says):
        plays = vec(path, initial_amount=20_000, auto_reset=False)
    with pytest.warns(UserWarning, match=says) as said:
        single = ff.FastFinRL(path, initial_amount=20_000)
    assert [warning.filename for warning in said] == [__file__]
    start = {"start_day": 3}
    for env in (resets, plays):
        env.reset(seed=1, options=start)
        for _ in range(3):
            state = env.step(BUY((2, 4)))
            assert state["done"].all()
            assert state["terminated"].all()
            assert not state["terminal"].any()
    assert (resets.get_state()["cash"] == 20_000).all(), "begun anew after each step"
    assert plays.get_state()["day"].tolist() == [6, 6], "or played on"
    assert (plays.get_state()["shares"] == 45).all()
    single.reset(seed=1, options=start)
    steps = [single.step(BUY(4)) for _ in range(3)]
    assert [(state["day"], state["done"]) for state in steps] == [(4, True), (5, True), (6, True)]
    # The value of initial shares is unknown before the start and may reach the threshold.
    held = vec(path, initial_amount=20_000, initial_shares={"AAA": 500}, auto_reset=False)
    held.reset(seed=1, options=start)
    assert not held.step(np.zeros((2, 4)))["done"].any()
    with pytest.warns(
        UserWarning, match=r"\binitial_amount\b.*\b100\b.*\binitial_shares\b.*[\d.]+"
    ):
        vec(path, initial_amount=100, initial_shares={"AAA": 1})
    for none in (0, -1):
        poor = vec(path, initial_amount=10, failure_threshold=none, auto_reset=False)
        poor.reset(seed=1, options=start)
        assert not poor.step(BUY((2, 4)))["done"].any()
    with pytest.raises(bc.errors.EnvError, match=r"`failure_threshold`.*\bNaN\b"):
        vec(path, failure_threshold=np.nan)


def test_defect_03_auto_reset_can_be_switched_off_in_the_constructor(path: Path) -> None:
    env = vec(path, auto_reset=False, max_episode_steps=1)
    assert env.auto_reset() is False
    env.reset(seed=1, options={"start_day": 3})
    assert env.step(BUY((2, 4)))["day"].tolist() == [4, 4]
    state = env.step(BUY((2, 4)))
    assert (state["day"].tolist(), state["done"].all()) == ([5, 5], True)
    env.set_auto_reset(True)
    env.reset(options={"start_day": 3})
    state = env.step(BUY((2, 4)))
    assert state["done"].all()
    assert (state["cash"] == 30_000).all()


def test_defect_04_missing_rows_are_masked_and_never_another_row(tmp_path: Path) -> None:
    gaps = [("BBB", 10), ("BBB", 11)]
    path = market(gaps=gaps).write(tmp_path / "gaps.csv")
    env = vec(path, num_tickers=2, hmax=50, auto_reset=False)
    env.reset(seed=1, options={"start_day": 9})
    bought = env.step(BUY((2, 2)))
    shares, value = bought["shares"].copy(), bought["avg_buy_price"].copy()
    assert (shares > 0).all()
    assert bought["open"][:, 1].tolist() == [0, 0]
    held = env.step(-BUY((2, 2)))
    assert held["shares"].tolist() == [[0, 50], [0, 50]], "nobody trades what is not listed"
    assert held["avg_buy_price"][:, 1].tolist() == value[:, 1].tolist()
    assert (held["total_asset"] > held["cash"]).all(), "it is worth its last close"
    assert env.step(-BUY((2, 2)))["shares"].tolist() == [[0, 50], [0, 50]]
    assert env.step(-BUY((2, 2)))["shares"].tolist() == [[0, 0], [0, 0]]
    window = env.get_market_window_numpy(["AAA", "BBB"], 12, 3, 1)["BBB"]
    assert window["past_mask"].tolist() == [1, 0, 0]
    assert window["past_days"].tolist() == [9, -1, -1]
    assert not window["past_ohlcv"][1:].any()
    with pytest.raises(bc.errors.EnvError, match=r"\b10\b"):
        env.get_raw_value("BBB", 10, "close")


def test_defect_05_tickers_listed_late_can_be_traded(tmp_path: Path) -> None:
    path = market(late={"CCC": 12}).write(tmp_path / "late.csv")
    env = vec(path, 50)
    days = env.reset(seed=1)["day"]
    assert (days.min(), days.max()) == (13, 31), "listed, with the indicators of the day before"
    early = vec(path, 50)
    assert early.reset([["AAA", "BBB"]] * 50, seed=1)["day"].min() < 12
    state = env.reset(options={"start_day": 5})
    at = env.get_tickers()[0].index("CCC")
    assert (state["open"][:, at] == 0).all(), "masked until it is listed"


def test_defect_05_episodes_start_after_days_of_history_where_there_are_such(
    tmp_path: Path,
) -> None:
    path = market(60, late={"CCC": 4}, gaps=[("AAA", 20)]).write(tmp_path / "late.csv")
    env = vec(path, 400, history_length=10)
    days = set(env.reset(seed=1)["day"].tolist())
    assert days == {*range(14, 20), *range(31, 48)}
    long = vec(path, 50, history_length=59)
    assert long.reset(seed=1)["day"].min() >= 5, "what cannot be had is not waited for"


def test_defect_05_tickers_that_never_meet_are_traded_where_they_are_listed(
    tmp_path: Path,
) -> None:
    gaps = [("AAA", day) for day in range(15, 60)]
    path = market(60, late={"BBB": 50}, gaps=gaps).write(tmp_path / "apart.csv")
    many, one = vec(path), ff.FastFinRL(path)
    assert (many.reset(seed=1)["open"] > 0).any(axis=1).all()
    assert one.reset(seed=1)["market"]["BBB"]["open"] == 0
    for refused in (lambda: many.reset([["BBB"]]), lambda: one.reset(["BBB"])):
        with pytest.raises(bc.errors.EnvError, match=r'"BBB".*\b50\b'):
            refused()
    assert set(many.reset([["AAA", "CCC"]] * 2, seed=1)["day"].tolist()) < set(range(1, 15))
    assert 1 <= one.reset(["CCC"], seed=1)["day"] < 48
    late = {"start_day": 55}
    assert one.reset(["BBB", "CCC"], options=late)["day"] == 55
    assert many.reset([["CCC", "BBB"]] * 2, options=late)["day"].tolist() == [55, 55]


def test_defect_06_names_and_values_of_indicators_are_in_one_order(path: Path) -> None:
    for asked, names in [([], ["zeta", "alpha"]), (["alpha", "zeta"], ["alpha", "zeta"])]:
        env = vec(path, 1, tech_indicator_list=asked)
        state = env.reset(seed=1, options={"start_day": 5})
        assert env.get_indicator_names() == state["indicator_names"] == names
        window = env.get_market_window_numpy(["AAA"], 7, 3)
        assert window["indicator_names"] == names
        for at, name in enumerate(names):
            yesterday = env.get_raw_value("AAA", 4, name)
            assert state["indicators"][0, 0, at] == yesterday
            assert window["AAA"]["past_indicators"][0, at] == yesterday
    with pytest.raises(bc.errors.EnvError, match='"alpha"'):
        vec(path, tech_indicator_list=["alpha", "alpha"])


def test_defect_07_seeds_give_every_environment_a_stream_of_its_own(path: Path) -> None:
    def days(seed: int, n_envs: int = 40, **settings: Any) -> list[int]:  # noqa: ANN401
        found: list[int] = vec(path, n_envs, **settings).reset(seed=seed)["day"].tolist()
        return found

    assert len(set(days(0))) > 10, "seed 0 is a seed like any other"
    assert days(42)[1] != days(84)[0] or days(42)[3] != days(84)[1]
    assert days(42)[:39] != days(43)[1:]
    assert days(7, 5) == days(7)[:5], "whatever the number of environments"
    assert days(2**63) != days(0), "large seeds do not wrap around"
    assert vec(path, 40, initial_seed=7).reset()["day"].tolist() == days(7)
    env = vec(path, 40, initial_seed=7)
    first, second = env.reset()["day"].tolist(), env.reset()["day"].tolist()
    assert second not in (first, days(8))


def test_defect_08_tickers_are_drawn_for_every_environment_and_episode(path: Path) -> None:
    settings = {"num_tickers": 2, "shuffle_tickers": True, "macro_tickers": ["VIX"]}
    env = vec(path, 30, max_episode_steps=1, **settings)
    assert env.n_tickers() == 2
    state = env.reset(seed=5)
    first = [list(names) for names in state["tickers"]]
    assert {tuple(names) for names in first} == {("AAA", "BBB"), ("AAA", "CCC"), ("BBB", "CCC")}
    after = env.step(np.zeros((30, 2)))
    assert after["final_obs"]["tickers"] == first
    assert after["tickers"] != first, "the next episode has others"
    assert env.get_tickers() == after["tickers"]
    for names, opens, day in zip(after["tickers"], after["open"], after["day"], strict=True):
        assert [env.get_raw_value(name, int(day), "open") for name in names] == opens.tolist()
    assert env.reset(seed=5)["tickers"] == first, "the seed decides"
    assert env.reset(seed=6)["tickers"] != first


def test_defect_09_macro_tickers_are_never_traded(path: Path) -> None:
    env = vec(path, macro_tickers=["VIX"])
    assert env.n_tickers() == 3
    assert env.get_tickers() == [["AAA", "BBB", "CCC"]] * 2
    state = env.reset(seed=1)
    assert state["macro_open"].shape == (2, 1)
    assert (state["macro_tickers"], state["n_macro"]) == (["VIX"], 1)
    assert vec(path, num_tickers=3, macro_tickers=["AAA"]).get_tickers()[0] == [
        *["BBB", "CCC", "VIX"]
    ]
    with pytest.raises(bc.errors.EnvError, match=r"AAA|VIX"):
        env.reset([["AAA", "VIX"]] * 2)
    with pytest.raises(bc.errors.EnvError, match=r"\b3\b"):
        vec(path, num_tickers=4, macro_tickers=["VIX"])


@pytest.mark.parametrize("day", ["same", "next", "same_always"])
@pytest.mark.parametrize("price", ["close", "low"])
@pytest.mark.parametrize("bidding", ["default", "adv_uniform"])
def test_defect_10_both_classes_stop_losses_on_the_same_day(
    path: Path, day: str, price: str, bidding: str
) -> None:
    settings: dict[str, Any] = {
        "stop_loss_day": day,
        "stop_loss_calculation": price,
        "stop_loss_tolerance": 0.995,
        "bidding": bidding,
        "return_format": "vec",
    }
    many, one = (
        ff.VecFastFinRL(path, 2, auto_reset=False, **settings),
        ff.FastFinRL(path, **settings),
    )
    draw = np.random.default_rng(2)
    here, there = many.reset(seed=3), one.reset(["AAA", "BBB", "CCC", "VIX"], seed=3)
    while not here["terminal"][0]:
        actions = draw.uniform(-1, 1, (2, 4))
        try:
            here = many.step(actions)
        except bc.errors.EnvError:
            break  # Environment 1 has reached the last day.
        there = one.step(actions[0])
        for key in ("day", "cash", "total_asset", "reward", "done", "shares", "avg_buy_price"):
            np.testing.assert_array_equal(here[key][0], there[key], err_msg=key)
    assert here["num_stop_loss"][0] > 0
    defaults = [
        inspect.signature(made).parameters["stop_loss_day"].default
        for made in (ff.VecFastFinRL, ff.FastFinRL)
    ]
    assert defaults == ["same", "same"]


@pytest.mark.parametrize(("day", "traded", "left"), [("same", 1, 67), ("same_always", -66, 0)])
def test_a_recorded_stop_loss_on_the_day_of_a_purchase_is_reproduced_on_request(
    tmp_path: Path, day: str, traded: int, left: int
) -> None:
    # The low falls below the stop-loss price on the day on which one share is added to 66.
    lines = ["date,tic,open,high,low,close,volume,rsi"]
    for at in range(30):
        low = 70 if at >= 6 else 99
        lines += [f"2024-01-{at + 1:02},{tic},100,101,{low},100,1000,50" for tic in ("AAA", "BBB")]
    path = tmp_path / "falls.csv"
    path.write_text("\n".join(lines))
    settings: dict[str, Any] = {
        "hmax": 100,
        "stop_loss_tolerance": 0.8,
        "stop_loss_calculation": "low",
        "stop_loss_day": day,
    }
    one = ff.FastFinRL(path, **settings)
    one.reset(["AAA", "BBB"], options={"start_day": 5})
    many = ff.VecFastFinRL(path, 2, return_format="vec", auto_reset=False, **settings)
    many.reset([["AAA", "BBB"]] * 2, options={"start_day": [5, 5]})
    one.step([0.66, 0.0])
    many.step(np.array([[0.66, 0.0]] * 2))
    state, states = one.step([0.01, 0.0]), many.step(np.array([[0.01, 0.0]] * 2))
    assert state["debug"]["AAA"]["quantity"] == traded
    assert state["info"]["n_trades"] == 1 + (67 - left)
    assert state["portfolio"]["holdings"]["AAA"]["shares"] == left
    assert states["shares"].tolist() == [[left, 0]] * 2
    np.testing.assert_array_equal(states["cash"], state["portfolio"]["cash"])


def test_defect_11_states_and_actions_are_in_the_order_of_the_caller(path: Path) -> None:
    tickers = ["CCC", "AAA", "BBB"]
    for form in ("vec", "json"):
        env = ff.FastFinRL(path, return_format=form, hmax=10)
        state = env.reset(tickers, seed=1)
        for _ in range(2):
            state = env.step([1.0, 0.5, 0.0])
        if form == "vec":
            assert (state["tickers"], state["shares"].tolist()) == (tickers, [20, 10, 0])
            opens = dict(zip(tickers, state["open"], strict=True))
        else:
            shares = {name: held["shares"] for name, held in state["portfolio"]["holdings"].items()}
            assert list(shares.items()) == [("CCC", 20), ("AAA", 10), ("BBB", 0)]
            opens = {name: of["open"] for name, of in state["market"].items()}
        for name in tickers:
            assert opens[name] == env.get_raw_value(name, state["day"], "open")
        assert env.reset(seed=2)["day"] >= 0, "without a list the tickers stay"
        assert env.get_tickers() == tickers


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.0001, -7.0])
def test_defect_12_actions_that_are_no_fractions_are_refused_with_the_environment(
    path: Path, value: float
) -> None:
    env = vec(path, 3)
    env.reset(seed=1)
    before = env.step(np.full((3, 4), 0.5))
    actions = np.zeros((3, 4))
    actions[2, 1] = value
    with pytest.raises(bc.errors.EnvError, match=r'\b2\b.*"BBB".*\[-1.*1\]'):
        env.step(actions)
    after = env.get_state()
    assert all(np.array_equal(before[key], after[key]) for key in ("day", "cash", "shares"))
    single = ff.FastFinRL(path)
    single.reset(["AAA"], seed=1)
    with pytest.raises(bc.errors.EnvError, match=r'"AAA".*\[-1.*1\]'):
        single.step([value])


def test_defect_12_equal_orders_are_in_ticker_order_however_many(tmp_path: Path) -> None:
    names = [f"T{at:02}" for at in range(40)]
    path = constant({name: [10.0] * 12 for name in names}).write(tmp_path / "many.csv")
    env = vec(path, 1, initial_amount=10_100, failure_threshold=0, hmax=50)
    env.reset(seed=1)
    assert env.step(BUY((1, 40)))["shares"][0].tolist() == [50] * 20 + [0] * 20


def test_defect_13_a_state_holds_nothing_that_tells_the_price_of_the_next_fill(
    tmp_path: Path,
) -> None:
    original = market()
    changed = market()
    day = 15
    for rows in changed.rows.values():
        rows[day, 1] *= 1.5
        rows[day, 3] *= 1.4
        rows[day, 5:] += 9
    states = []
    for name, of in [("one.csv", original), ("two.csv", changed)]:
        env = vec(of.write(tmp_path / name), auto_reset=False)
        env.reset(seed=1, options={"start_day": day - 4})
        for _ in range(4):
            state = env.step(np.full((2, 3), 0.7))
        states.append(state)
        states.append(env.step(np.full((2, 3), 0.7)))
    assert states[0]["day"].tolist() == [day, day]
    for key in ("cash", "shares", "avg_buy_price", "total_asset", "open", "indicators"):
        np.testing.assert_array_equal(states[0][key], states[2][key], err_msg=key)
    assert (states[1]["indicators"] != states[3]["indicators"]).any()
    assert (states[1]["cash"] != states[3]["cash"]).all()


def test_shares_held_from_the_start_are_worth_the_last_close_where_the_day_has_no_row(
    tmp_path: Path,
) -> None:
    # Two tickers that trade on every other day in turns, at prices that never move.
    lines = ["date,tic,open,high,low,close,volume"]
    for day in range(20):
        for ticker, price, odd in (("AAA", 100.0, 0), ("BBB", 50.0, 1)):
            if day < 2 or day % 2 == odd:
                cells = ",".join([str(price)] * 4)
                lines.append(f"2024-01-{day + 1:02},{ticker},{cells},1")
    path = tmp_path / "turns.csv"
    path.write_text("\n".join(lines) + "\n")
    held = {"AAA": 100, "BBB": 200}
    env = ff.VecFastFinRL(
        path, 1, return_format="vec", num_tickers=1, shuffle_tickers=True, initial_shares=held
    )
    price_of, seen = {"AAA": 100.0, "BBB": 50.0}, set()
    for seed in range(12):
        for day in (6, 7):
            state = env.reset(seed=seed, options={"start_day": day})
            (ticker,) = state["tickers"][0]
            seen.add((ticker, state["open"][0, 0] > 0))
            assert state["total_asset"][0] == 40_000.0
            assert state["avg_buy_price"][0, 0] == price_of[ticker]
            assert env.step([[0.0]])["reward"][0] == 0.0
    assert len(seen) == 4, "each ticker with and without a row"
