"""Regression tests of defects of FastFinRL's buffers, whose interface these classes have.

Each test would fail on the defect. Numbers are those of one list of FastFinRL's defects, which the
other files of defects share.
"""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_defects import crash, ordinary, vec
from finrl_market import market
from numpy.typing import NDArray
from other_threads import others_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ordinary(tmp_path)


def filled(env: ff.VecFastFinRL, steps: int = 20, **settings: Any) -> ff.VecReplayBuffer:  # noqa: ANN401
    """Return a buffer of steps without orders."""
    buffer = ff.VecReplayBuffer(env, **({"capacity": 500} | settings))
    state = env.reset(seed=1)
    for _ in range(steps):
        actions = np.zeros((env.num_envs(), env.n_tickers()))
        after = env.step(actions)
        buffer.add(state, actions, after["reward"], after, after["done"])
        state = after
    return buffer


def with_gaps(tmp_path: Path) -> tuple[ff.VecReplayBuffer, set[tuple[str, int]]]:
    """Make a buffer of 20 days of a market with holes, and return the holes."""
    made = market(40, ["AAA", "BBB"], late={"AAA": 3}, gaps=[("BBB", 12), ("BBB", 15)])
    env = vec(made.write(tmp_path / "gaps.csv"), 1)
    buffer = ff.VecReplayBuffer(env, capacity=50)
    state = env.reset(seed=1, options={"start_day": 4})
    for _ in range(20):
        after = env.step(np.zeros((1, 2)))
        buffer.add(state, np.zeros((1, 2)), after["reward"], after, after["done"])
        state = after
    return buffer, made.missing


def listed(missing: set[tuple[str, int]], ticker: str, days: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which days have a row."""
    return np.array([day >= 0 and (ticker, day) not in missing for day in days.flat]).reshape(
        days.shape
    )


def test_defect_01_the_last_transition_of_an_episode_is_stored_as_it_was(tmp_path: Path) -> None:
    path = crash(tmp_path)
    env = vec(path, hmax=200, stop_loss_tolerance=0.0)
    buffer = ff.VecReplayBuffer(env, capacity=100)
    state = env.reset(seed=1, options={"start_day": np.array([4, 1])})
    for _ in range(2):
        after = env.step(np.ones((2, 2)))
        buffer.add(state, np.ones((2, 2)), after["reward"], after, after["done"])
        state = after
    last, other = buffer.get(2), buffer.get(3)
    assert (last.done, last.terminal, other.done) == (True, False, False)
    assert last.rewards[0] < -0.5, "the crash is felt"
    assert (last.state_day, last.next_state_day) == (5, 6), "not the first day of the next episode"
    assert last.next_state_cash < 30_000
    assert sum(last.next_state_shares) > 0
    # An end of the data is `terminal`, so that learners can tell it apart and bootstrap.
    state = env.reset(options={"start_day": [18, 1]})
    after = env.step(np.zeros((2, 2)))
    buffer.add(state, np.zeros((2, 2)), after["reward"], after, after["done"])
    assert (buffer.get(4).done, buffer.get(4).terminal) == (True, True)


@pytest.mark.parametrize("copy", [False, True])
def test_defect_04_missing_rows_are_masked_and_never_another_row(
    tmp_path: Path, copy: bool
) -> None:
    buffer, made = with_gaps(tmp_path)
    asked: dict[str, Any] = {"history_length": 4, "future_length": 2, "indices": np.arange(20)}
    by_ticker = buffer.sample(copy=copy, **asked)
    batched = buffer.sample(copy=copy, layout="batched", **asked)
    for state, masks in ((0, 5), (3, 6)):
        days = by_ticker[state]["day"][:, None]
        past, future = days + np.arange(-4, 0), days + np.arange(1, 3)
        for at, ticker in enumerate(("AAA", "BBB")):
            is_past, is_future = (listed(made, ticker, span) for span in (past, future))
            together, apart = batched[state], by_ticker[state][ticker]
            np.testing.assert_array_equal(by_ticker[masks][ticker], is_past)
            np.testing.assert_array_equal(batched[masks]["market"][:, at], is_past)
            np.testing.assert_array_equal(apart["future_mask"], is_future)
            np.testing.assert_array_equal(together["future_mask"][:, at], is_future)
            np.testing.assert_array_equal(apart["open"] > 0, listed(made, ticker, days[:, 0]))
            for key in ("ohlcv", "indicators", "future_ohlcv", "future_indicators"):
                there = is_future if key.startswith("future") else is_past
                for numbers in (apart[key], together[key][:, at]):
                    assert not numbers[~there].any(), key
                    assert numbers[there].all(), key


def test_defect_04_single_transitions_have_no_other_row_around_them_either(tmp_path: Path) -> None:
    buffer, made = with_gaps(tmp_path)
    for index in range(20):
        data = buffer.get_market_data(index, 4, 2)
        day = buffer.get(index).state_day
        spans = {"past": np.arange(day - 4, day), "future": np.arange(day + 1, day + 3)}
        for ticker in ("AAA", "BBB"):
            of = data[ticker]
            assert (of["current_open"] > 0) == of["current_mask"] == ((ticker, day) not in made)
            for name, days in spans.items():
                there = listed(made, ticker, days)
                np.testing.assert_array_equal(of[f"{name}_mask"], there)
                np.testing.assert_array_equal(of[f"{name}_days"], np.where(there, days, -1))
                for numbers in (of[f"{name}_ohlcv"], of[f"{name}_indicators"]):
                    assert not numbers[~there].any()
                    assert numbers[there].all()


@pytest.mark.parametrize("chosen", [[], ["alpha"], ["alpha", "zeta"]])
def test_defect_06_labels_name_the_indicators_below_them(path: Path, chosen: list[str]) -> None:
    env = vec(path, tech_indicator_list=chosen, indicator_lag=0)
    names = chosen or ["zeta", "alpha"]
    s = filled(env).sample(history_length=3, indices=np.arange(40))[0]
    assert s["indicator_names"] == env.get_indicator_names() == names
    panel = bc.Panel.from_csv(path)
    columns = [panel.columns.index(name) for name in names]
    for sample in range(40):
        day = s["day"][sample]
        if day < 3:
            continue
        rows = panel.values[panel.tickers.index("AAA"), day - 3 : day][:, columns]
        np.testing.assert_array_equal(s["AAA"]["indicators"][sample], rows.astype(np.float32))
    assert filled(env).get_market_data(0, 2, 0)["indicator_names"] == names


def test_defect_16_actions_of_every_rank_are_stored_whole_or_refused(path: Path) -> None:
    env = vec(path)
    state = env.reset(seed=1)
    after = env.step(np.zeros((2, 4)))
    given: dict[str, Any] = {"states": state, "rewards": [0, 0], "next_states": after}
    given["dones"] = [False, False]
    buffer = ff.VecReplayBuffer(env, 10, action_shape=(env.n_tickers(), 2))
    actions = np.arange(16.0).reshape(2, 4, 2)
    buffer.add(actions=actions, **given)
    assert buffer.get(1).action == list(range(8, 16)), "the second half too"
    strided = np.arange(64.0).reshape(2, 4, 8)[..., ::4]
    buffer.add(actions=strided, **given)
    np.testing.assert_array_equal(buffer.sample(indices=[2, 3])[1], strided)
    for wrong in (actions[0], actions[..., 0], actions.ravel(), actions[:, :3], actions[:1], 1.0):
        with pytest.raises(bc.errors.AppendError, match=r"\b2\b.*\b4\b.*\b2\b"):
            buffer.add(actions=wrong, **given)
    assert buffer.size() == 4
    with pytest.raises(bc.errors.ArgumentError, match=r"\bcapacity\b.*\b0\b"):
        ff.VecReplayBuffer(env, 0)


def test_defect_16_a_buffer_made_before_the_first_reset_stores_actions(path: Path) -> None:
    env = vec(path, num_tickers=2)
    buffer = ff.VecReplayBuffer(env, 10)
    assert buffer.action_shape == (2,)
    # The first reset may choose another number of tickers.
    state = env.reset([["AAA", "BBB", "CCC"]] * 2, seed=1)
    after = env.step(np.zeros((2, 3)))
    buffer.add(state, np.full((2, 3), 0.5), after["reward"], after, after["done"])
    assert buffer.get(0).action == [0.5, 0.5, 0.5]


def test_defect_17_a_future_is_there_whatever_else_is_asked_for(path: Path) -> None:
    env = vec(path, macro_tickers=["VIX"])
    buffer = filled(env, batch_size=9)
    s = buffer.sample(history_length=2, future_length=3)[0]
    assert s["AAA"]["future_ohlcv"].shape == (9, 3, 5)
    for sample in range(9):
        day = int(s["day"][sample])
        window = env.get_market_window_numpy(["AAA"], day, 2, 3)["AAA"]
        np.testing.assert_array_equal(
            s["AAA"]["future_ohlcv"][sample], window["future_ohlcv"].astype(np.float32)
        )
    only = buffer.sample(5, history_length=0, future_length=2)[0]
    assert only["macro"]["VIX"]["future_ohlcv"].shape == (5, 2, 5)
    assert buffer.sample(5, 0, 2, layout="batched")[0]["macro"]["future_mask"].all()


def test_defect_18_what_was_gotten_outlives_clearing_and_overwriting(path: Path) -> None:
    env = vec(path)
    buffer = filled(env, 3, capacity=6)
    kept = buffer.get(0)
    kept.state_cash = -1.0
    assert buffer.get(0).state_cash > 0, "a copy, the caller's own"
    before = repr(kept)
    state, actions = env.reset(seed=2), np.ones((2, env.n_tickers()))
    after = env.step(actions)
    for _ in range(3):
        buffer.add(state, actions, after["reward"], after, after["done"])
    assert buffer.get(0).action == [1, 1, 1, 1]
    assert repr(kept) == before
    buffer.clear()
    assert repr(kept) == before
    with pytest.raises(bc.errors.SampleError, match=r"\b0\b"):
        buffer.get(0)


def test_defect_18_portfolios_of_another_width_are_refused(path: Path) -> None:
    env = vec(path)
    buffer = filled(env, 3)
    state = env.reset([["AAA", "BBB"]] * 2, seed=1)
    after = env.step(np.zeros((2, 2)))
    with pytest.raises(bc.errors.AppendError, match=r"\b2\b.*\b2\b.*\b2\b.*\b4\b"):
        buffer.add(state, np.zeros((2, 2)), after["reward"], after, after["done"])
    assert buffer.size() == 6


def test_defect_19_files_are_not_trusted(path: Path, tmp_path: Path) -> None:
    buffer = filled(vec(path), 5)
    saved = tmp_path / "buffer.bct"
    buffer.save(saved)
    whole = saved.read_bytes()
    kept = [buffer.get(at) for at in range(10)]
    for at in range(0, len(whole), 13):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]):
            saved.write_bytes(damaged)
            with pytest.raises(bc.errors.CorruptError):
                buffer.load(saved)
    for foreign in (b"date,tic\n", b"\xff" * 4_096, whole + whole):
        saved.write_bytes(foreign)
        with pytest.raises(bc.errors.CorruptError):
            buffer.load(saved)
    assert [buffer.get(at) for at in range(10)] == kept


def test_defect_20_the_buffer_is_what_its_page_says(path: Path, tmp_path: Path) -> None:
    env = vec(path, macro_tickers=["VIX"])
    buffer = filled(env)
    parts = buffer.sample(8, history_length=4, future_length=2)
    assert len(parts) == 7, "with both masks"
    s, _, reward, _, done, mask, _ = parts
    assert s["unique_tickers"] == ["AAA", "BBB", "CCC"]
    assert s["AAA"]["ohlcv"].shape == (8, 4, 5), "by ticker"
    assert mask["AAA"].shape == (8, 4)
    assert (reward.shape, done.shape) == ((8, 1), (8,))
    draws = [ff.VecReplayBuffer(env, 50, seed=-1) for _ in range(2)]
    state = env.reset(seed=1)
    after = env.step(np.zeros((2, 3)))
    for made in draws:
        for _ in range(20):
            made.add(state, np.zeros((2, 3)), after["reward"], after, after["done"])
    assert draws[0].sample_indices(40) != draws[1].sample_indices(40), "-1 is a random seed"


def test_defect_22_draws_resume_where_they_were_saved(path: Path, tmp_path: Path) -> None:
    buffer = filled(vec(path))
    buffer.sample(4)
    buffer.save(tmp_path / "buffer.bct")
    ahead = [buffer.sample_indices(30) for _ in range(3)]
    resumed = ff.VecReplayBuffer(vec(path), 500, seed=99)
    resumed.load(tmp_path / "buffer.bct")
    assert [resumed.sample_indices(30) for _ in range(3)] == ahead


@pytest.mark.parametrize("into", ["new", "out"])
def test_defect_23_other_threads_run_while_a_batch_is_drawn(path: Path, into: str) -> None:
    buffer = filled(vec(path, 64), 20, capacity=2_000)
    asked: dict[str, Any] = {"history_length": 60, "future_length": 20, "layout": "batched"}
    asked["out"] = buffer.sample(1_280, **asked) if into == "out" else None
    assert others_run(lambda: buffer.sample(1_280, **asked))


def test_defect_26_a_batch_is_views_of_one_copy(path: Path) -> None:
    buffer = filled(vec(path, 4), 8)
    follows = np.arange(8)
    asked: dict[str, Any] = {"history_length": 30, "future_length": 10, "indices": follows}
    s, _, _, s_next, _, mask, mask_next = buffer.sample(layout="batched", **asked)
    views = [side[key] for side in (s, s_next) for key in ("ohlcv", "indicators", "future_ohlcv")]
    arena = s["ohlcv"].base
    assert arena.nbytes < 1.3 * (s["ohlcv"].nbytes + s["indicators"].nbytes) * 42 / 30
    for view in views:
        assert np.shares_memory(view, arena)
    assert np.shares_memory(mask["market"], mask_next["market"])
    assert np.shares_memory(s["ohlcv"], s_next["ohlcv"]), "a day later, the same bytes"
    out = buffer.sample(layout="batched", **asked)
    tracemalloc.start()
    for _ in range(20):
        buffer.sample(layout="batched", out=out, **asked)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000, "nothing is built anew"


def test_defect_27_a_transition_of_ten_tickers_takes_less_than_300_bytes(tmp_path: Path) -> None:
    names = [f"T{n}" for n in range(10)]
    env = vec(market(30, names).write(tmp_path / "ten.csv"))
    buffer = ff.VecReplayBuffer(env, 50_000)
    assert buffer.transition_bytes <= 300
    shared = ff.VecReplayBuffer(env, 50_000, name="ten", dir=tmp_path)
    [ring] = bc.list_objects(tmp_path)
    assert ring["bytes"] / 50_000 <= 300
    saved = filled(env, 50)
    saved.save(tmp_path / "saved")
    assert (tmp_path / "saved").stat().st_size / saved.size() <= 300
    shared.close()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux says what is resident")
def test_defect_27_nothing_of_a_transition_lies_beside_the_buffer(tmp_path: Path) -> None:
    def resident_bytes() -> int:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    env = vec(market(30, [f"T{n}" for n in range(10)]).write(tmp_path / "ten.csv"), 1_000)
    filled(env, 2)
    state, actions = env.reset(seed=1), np.zeros((1_000, 10))
    after = env.step(actions)
    before = resident_bytes()
    buffer = ff.VecReplayBuffer(env, 300_000)
    for _ in range(300):
        buffer.add(state, actions, after["reward"], after, after["done"])
    assert buffer.size() == 300_000
    assert (resident_bytes() - before) / 300_000 <= 300
