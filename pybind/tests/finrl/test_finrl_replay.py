"""Buffers of transitions: formats, batches, memory, sharing between processes, files, refusals."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_market import market

TICKERS = ["AAA", "BBB", "CCC", "DDD"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a market of 60 days whose CCC is listed on day 7."""
    made = market(60, [*TICKERS, "VIX"], late={"CCC": 7}, gaps=[("AAA", 30)])
    return made.write(tmp_path / "market.csv")


def vec(path: Any, n_envs: int = 4, **settings: Any) -> ff.VecFastFinRL:  # noqa: ANN401
    """Make environments with two tickers each, whose states are arrays."""
    given: dict[str, Any] = {"return_format": "vec", "macro_tickers": ["VIX"], "num_tickers": 2}
    return ff.VecFastFinRL(path, n_envs, **(given | settings))


def collect(env: Any, buffer: Any, steps: int, seed: int = 1) -> list[tuple[Any, ...]]:  # noqa: ANN401
    """Play at random; return what was added."""
    draw = np.random.default_rng(seed)
    state = env.reset(seed=seed)
    added = []
    for _ in range(steps):
        actions = draw.uniform(-1, 1, (env.num_envs(), env.n_tickers()))
        after = env.step(actions)
        buffer.add(state, actions, after["reward"], after, after["done"])
        added.append((state, actions, after))
        state = after
    return added


@pytest.fixture
def env(path: Path) -> ff.VecFastFinRL:
    return vec(path)


@pytest.fixture
def buffer(env: ff.VecFastFinRL) -> Iterator[ff.VecReplayBuffer]:
    with ff.VecReplayBuffer(env, capacity=200) as made:
        collect(env, made, 20)
        yield made


def test_the_seven_parts_have_the_shapes_of_the_page(buffer: ff.VecReplayBuffer) -> None:
    b, h, f, k = 50, 6, 3, 2
    s, action, reward, s_next, done, mask, mask_next = buffer.sample(b, h, f)
    for state, masks in ((s, mask), (s_next, mask_next)):
        for ticker in state["unique_tickers"]:
            assert state[ticker]["ohlcv"].shape == (b, h, 5)
            assert state[ticker]["indicators"].shape == (b, h, k)
            assert state[ticker]["future_ohlcv"].shape == (b, f, 5)
            assert state[ticker]["future_indicators"].shape == (b, f, k)
            assert state[ticker]["future_mask"].shape == (b, f)
            assert masks[ticker].shape == (b, h)
            assert masks[ticker].dtype == state[ticker]["future_mask"].dtype == np.int32
            assert state[ticker]["ohlcv"].dtype == np.float32
        assert state["macro"]["VIX"]["ohlcv"].shape == (b, h, 5)
        assert masks["macro"]["VIX"].shape == (b, h)
        assert state["portfolio"]["cash"].shape == (b,)
        assert state["portfolio"]["shares"].shape == (b, 2)
        assert state["portfolio"]["shares"].dtype == np.int32
        assert state["portfolio"]["avg_buy_price"].shape == (b, 2)
        assert np.shape(state["tickers"]) == (b, 2)
        assert state["env_ids"].shape == (b,)
        assert state["macro_tickers"] == ["VIX"]
        assert state["indicator_names"] == ["zeta", "alpha"]
        assert state["action_shape"] == (2,)
    assert (action.shape, reward.shape, done.shape) == ((b, 2), (b, 1), (b,))
    assert done.dtype == bool
    assert len(buffer.sample(b)[0]["env_ids"]) == b
    assert len(buffer.sample()[0]["env_ids"]) == 80, "never more than are stored"


def test_numbers_are_the_states_and_the_markets(path: Path) -> None:
    env = vec(path)
    buffer = ff.VecReplayBuffer(env, capacity=1_000)
    added = collect(env, buffer, 15)
    index = np.arange(60)
    s, action, reward, s_next, done, mask, _ = buffer.sample(
        history_length=4, future_length=2, layout="batched", indices=index
    )
    for at in index:
        state, actions, after = (part for part in added[at // 4])
        i, arrived = at % 4, after.get("final_obs", after)
        assert s["day"][at] == state["day"][i]
        assert s_next["day"][at] == arrived["day"][i] == state["day"][i] + 1
        for side, of in ((s, state), (s_next, arrived)):
            for key in ("cash", "shares", "avg_buy_price"):
                kept = np.asarray(of[key][i], side["portfolio"][key].dtype)
                np.testing.assert_array_equal(side["portfolio"][key][at], kept)
        np.testing.assert_array_equal(action[at], actions[i].astype(np.float32))
        assert reward[at, 0] == np.float32(after["reward"][i])
        assert done[at] == after["done"][i]
        window = env.get_market_window_numpy(state["tickers"][i], int(state["day"][i]), 4, 2)
        for t, ticker in enumerate(state["tickers"][i]):
            past = window[ticker]["past_ohlcv"].astype(np.float32)
            np.testing.assert_array_equal(s["ohlcv"][at, t], past)
            np.testing.assert_array_equal(mask["market"][at, t], window[ticker]["past_mask"])
            assert s["open"][at, t] == np.float32(window[ticker]["current_open"])
    found = buffer.get_market_data(17, 4, 2)
    day, names = int(added[4][0]["day"][1]), added[4][0]["tickers"][1]
    np.testing.assert_equal(found, env.get_market_window_numpy(names, day, 4, 2))


def test_lists_of_states_are_as_good_as_arrays(path: Path) -> None:
    env = vec(path)
    arrays, dicts, objects = (ff.VecReplayBuffer(env, capacity=100) for _ in range(3))
    for state, actions, after in collect(env, arrays, 20):
        rewards, dones = after["reward"].tolist(), after["done"].tolist()

        def rows(of: dict[str, Any]) -> list[dict[str, Any]]:
            keys = ("day", "cash", "shares", "avg_buy_price", "tickers", "terminal")
            made = [{key: of[key][i] for key in keys if key in of} for i in range(4)]
            if "final_obs" in of:
                for row, last in zip(made, rows(of["final_obs"]), strict=True):
                    row["final_obs"] = last
            return made

        dicts.add(rows(state), actions, rewards, rows(after), dones)
        as_objects = [[SimpleNamespace(**row) for row in rows(of)] for of in (state, after)]
        objects.add(as_objects[0], actions.tolist(), rewards, as_objects[1], dones)
    kept = [[buffer.get(i) for i in range(80)] for buffer in (arrays, dicts, objects)]
    assert kept[0] == kept[1] == kept[2]


def test_the_json_states_of_an_environment_are_added_as_they_are(path: Path) -> None:
    env = vec(path, return_format="json")
    buffer = ff.VecReplayBuffer(env, capacity=500)
    state, days = env.reset(seed=4), []
    for _ in range(70):
        after = env.step(np.zeros((4, 2)))
        buffer.add(state, np.zeros((4, 2)), [0.0] * 4, after, [row["done"] for row in after])
        days += [(row["day"], row["done"]) for row in state]
        state = after
    found = [buffer.get(i) for i in range(280)]
    assert [row.state_day for row in found] == [day for day, _ in days]
    assert all(row.next_state_day == row.state_day + 1 for row in found), "also where one ended"
    assert sum(row.done for row in found) > 4


def test_what_is_empty_endless_or_of_arrays_is_taken_or_refused(
    env: ff.VecFastFinRL, buffer: ff.VecReplayBuffer
) -> None:
    nothing = buffer.sample(indices=[], history_length=3)
    assert (nothing[1].shape[0], nothing[0]["unique_tickers"]) == (0, [])
    batched = buffer.sample(indices=[], history_length=3, layout="batched")
    assert batched[0]["ohlcv"].shape[0] == 0
    for days in (10**5, 2**31, 2**63, 2**70):
        for h, future in ((days, 0), (0, days)):
            with pytest.raises(bc.SampleError, match="; give"):
                buffer.get_market_data(0, h, future)
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    state["tickers"] = [np.array(names) for names in state["tickers"]]
    before = buffer.size()
    for _ in range(2):
        buffer.add(state, np.zeros((4, 2)), after["reward"], after, after["done"])
    assert buffer.size() == before + 8
    with pytest.raises(bc.AppendError, match=r"next_states\['final_obs'\] is 5; give the dict"):
        buffer.add(state, np.zeros((4, 2)), [0] * 4, after | {"final_obs": 5}, [False] * 4)


def test_lists_of_states_are_looked_at_one_by_one(path: Path) -> None:
    env = ff.VecFastFinRL(path, 2)
    buffer = ff.VecReplayBuffer(env, capacity=50)
    states = env.reset([["AAA", "BBB"]] * 2, seed=1)
    after = env.step(np.zeros((2, 2)))
    for odd, says in [
        ({"shares": [1]}, r"states\[1\]\['shares'\]: got shape \(1,\); give \(2,\)"),
        ({"cash": [1, 2]}, r"states\[1\]\['cash'\]: got shape \(2,\); give \(\)"),
        ({"cash": "much"}, r"states\['cash'\]: "),
        ({"portfolio": {"holdings": [1]}}, r"states\[1\]\['portfolio'\]\['holdings'\] is \[1\]"),
    ]:
        with pytest.raises(bc.AppendError, match=says):
            buffer.add([states[0], states[1] | odd], np.zeros((2, 2)), [0, 0], after, [False] * 2)
    assert buffer.size() == 0


def test_rewards_of_several_objectives_and_actions_of_any_shape(env: ff.VecFastFinRL) -> None:
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    actions, rewards = np.arange(16.0).reshape(4, 2, 2), np.arange(12.0).reshape(4, 3)
    buffer = ff.VecReplayBuffer(env, 100, action_shape=(env.n_tickers(), 2))
    buffer.add(state, actions, rewards, after, after["done"])
    assert (buffer.n_objectives, buffer.action_shape) == (3, (2, 2))
    _, action, reward, *_ = buffer.sample(indices=[0, 1, 2, 3])
    np.testing.assert_array_equal(action, actions)
    np.testing.assert_array_equal(reward, rewards)
    assert buffer.get(2).action == [8.0, 9.0, 10.0, 11.0]
    assert buffer.get(2).rewards == [6.0, 7.0, 8.0]
    with pytest.raises(bc.AppendError, match=r"rewards: got shape \(4,\); give \(4, 3\)"):
        buffer.add(state, actions, rewards[:, 0], after, after["done"])
    with pytest.raises(bc.AppendError, match=r"rewards: got shape \(4, 1\); give \(4, 3\)"):
        buffer.add(state, actions, rewards[:, :1].tolist(), after, after["done"])
    assert buffer.size() == 4


def test_an_earlier_batch_is_filled_again(buffer: ff.VecReplayBuffer) -> None:
    layouts: list[Any] = ["ticker", "batched"]
    for layout in layouts:
        twin = buffer.sample(30, 5, 2, layout=layout, indices=np.arange(30))
        out = copy.copy(twin)
        out = buffer.sample(30, 5, 2, layout=layout, indices=np.arange(30, 60))
        places = [part.ctypes.data for part in out if isinstance(part, np.ndarray)]
        again = buffer.sample(
            30,
            5,
            2,
            layout=layout,
            indices=np.arange(30),
            out=out,
        )
        if again is out:
            assert places == [part.ctypes.data for part in out if isinstance(part, np.ndarray)]
        same(again, twin)


def same(one: Any, other: Any) -> None:  # noqa: ANN401
    """Compare nested batches, tuples and lists alike."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            same(value, other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            same(mine, theirs)
    else:
        np.testing.assert_array_equal(one, other)


def test_reused_batches_of_both_kinds_are_right_whatever_was_drawn_before(path: Path) -> None:
    env = vec(path)
    buffer, twin = (ff.VecReplayBuffer(env, capacity=300, seed=5) for _ in range(2))
    state = env.reset(seed=2)
    for step in range(60):
        after = env.step(np.zeros((4, 2)))
        kept = {key: value for key, value in after.items() if key != "final_obs" or step % 2}
        for into in (buffer, twin):
            into.add(state, np.zeros((4, 2)), after["reward"], kept, after["done"])
        state = after
    kinds, reused = set(), 0
    out: Any = None
    for _ in range(60):
        before = out
        out = buffer.sample(12, 4, 2, out=out)
        reused += out is before
        same(out, twin.sample(12, 4, 2))
        kinds.add(out[0]["AAA"]["ohlcv"].flags.writeable)
    assert kinds == {True, False}, "some states are followed by the day after, some are not"
    assert reused > 10


def test_views_that_overlap_are_read_only_unless_copies_are_asked_for(
    buffer: ff.VecReplayBuffer,
) -> None:
    index = [i for i in range(80) if buffer.get(i).next_state_day == buffer.get(i).state_day + 1]
    s, *_, mask, _ = buffer.sample(history_length=5, future_length=2, indices=index)
    s_next = buffer.sample(history_length=5, indices=index)[3]
    ticker = s["unique_tickers"][0]
    for array in (s[ticker]["ohlcv"], s_next[ticker]["indicators"], mask[ticker]):
        with pytest.raises(ValueError, match="read-only"):
            array += 1
    s["portfolio"]["cash"] += 1
    shared = buffer.sample(history_length=5, future_length=2, indices=index)
    apart = buffer.sample(history_length=5, future_length=2, indices=index, copy=True)
    same(apart, shared)
    kept = apart[3][ticker]["ohlcv"].copy()
    apart[0][ticker]["ohlcv"][...] = -1
    np.testing.assert_array_equal(apart[3][ticker]["ohlcv"], kept)


def test_a_batch_outlives_its_buffer_and_pickles_as_plain_parts(env: ff.VecFastFinRL) -> None:
    buffer = ff.VecReplayBuffer(env, capacity=100)
    collect(env, buffer, 10)
    batch = buffer.sample(20, 3, 1)
    before: tuple[Any, ...] = copy.deepcopy(tuple(batch))
    buffer.close()
    del buffer
    gc.collect()
    same(batch, before)
    again = pickle.loads(pickle.dumps(batch))
    assert type(again) is tuple
    same(again, before)


def test_draws_repeat_with_the_seed_and_indices_are_in_range(env: ff.VecFastFinRL) -> None:
    one, other, third = (ff.VecReplayBuffer(env, 100, seed=seed) for seed in (7, 7, 8))
    for into in (one, other, third):
        collect(env, into, 12)
    same(one.sample(30, 2), other.sample(30, 2))
    indices = one.sample_indices(40)
    assert indices == other.sample_indices(40)
    assert indices != third.sample_indices(40)
    assert isinstance(indices, list)
    assert set(indices) <= set(range(48))
    assert len(set(indices)) < 40, "with replacement"
    assert len(one.sample_indices(400)) == 48
    free = ff.VecReplayBuffer(env, 100, seed=-1), ff.VecReplayBuffer(env, 100, seed=-1)
    for into in free:
        collect(env, into, 12)
    assert free[0].sample_indices(40) != free[1].sample_indices(40)


def test_saved_transitions_and_draws_come_back(env: ff.VecFastFinRL, tmp_path: Path) -> None:
    saved, loaded = ff.VecReplayBuffer(env, 30), ff.VecReplayBuffer(env, 30, seed=9)
    collect(env, saved, 10)
    collect(env, loaded, 3, seed=2)
    saved.sample(5)
    path = tmp_path / "buffer.bct"
    saved.save(path)
    loaded.load(path)
    assert [loaded.get(i) for i in range(30)] == [saved.get(i) for i in range(30)]
    same(loaded.sample(20, 3), saved.sample(20, 3))
    whole = path.read_bytes()
    kept = [loaded.get(i) for i in range(30)]
    for damaged in (whole[:-1], whole[:200], b"", whole[:99] + b"\0" + whole[100:], b"\0" * 999):
        path.write_bytes(damaged)
        with pytest.raises(bc.CorruptError, match="is no saved buffer: "):
            loaded.load(path)
    path.write_bytes(whole)
    wide = ff.VecReplayBuffer(env, 30, action_shape=(2, 2))
    with pytest.raises(bc.SchemaError, match="make one like it"):
        wide.load(path)
    with pytest.raises(bc.StorageError, match="cannot read"):
        loaded.load(tmp_path / "nothing")
    assert [loaded.get(i) for i in range(30)] == kept


def test_a_file_of_another_market_is_refused(env: ff.VecFastFinRL, tmp_path: Path) -> None:
    saved = ff.VecReplayBuffer(env, 30)
    collect(env, saved, 3)
    saved.save(tmp_path / "buffer.bct")
    other = vec(market(60, [*TICKERS, "VIX"], seed=9).write(tmp_path / "other.csv"))
    elsewhere = ff.VecReplayBuffer(other, 30)
    with pytest.raises(bc.PanelError, match="belongs to the panel"):
        elsewhere.load(tmp_path / "buffer.bct")


CHILD = """
import sys, numpy as np, backcast.finrl as ff
buffer = ff.VecReplayBuffer.attach("moves", dir=sys.argv[1])
env = ff.VecFastFinRL(buffer.panel, 2, return_format="vec", macro_tickers=["VIX"], num_tickers=2)
state = env.reset(seed=1)
for _ in range(5):
    after = env.step(np.zeros((2, 2)))
    buffer.add(state, np.full((2, 2), 0.75), after["reward"], after, after["done"])
    state = after
print(buffer.size(), flush=True)
sys.stdin.readline()
"""


def test_other_processes_attach_to_buffer_and_market_by_name(path: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with bc.Panel.from_csv(path, macro=["VIX"], name="prices", dir=home) as panel:
        env = vec(panel)
        buffer = ff.VecReplayBuffer(env, 100, name="moves", n_adders=2, dir=home)
        collect(env, buffer, 6)
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdin is not None
            assert child.stdout.readline() == "34\n"
            assert buffer.size() == 34
            assert [buffer.get(i).action for i in range(24, 34)] == [[0.75, 0.75]] * 10
            assert buffer.sample(34, 3)[0]["AAA"]["ohlcv"].any()
            with pytest.raises(bc.InUseError, match=rf"belong to other .*{child.pid}"):
                buffer.clear()
            third = ff.VecReplayBuffer.attach("moves", env, dir=home)
            with pytest.raises(bc.WriterError, match=f"{child.pid}"):
                collect(env, third, 1)
            assert third.size() == 34
            child.stdin.write("\n")
        buffer.clear()
        assert buffer.size() == third.size() == 0
        collect(env, third, 2)
        assert buffer.size() == 8
        for made in (third, buffer):
            made.close()
        assert [found["name"] for found in bc.list(home)] == ["prices"]


def test_a_killed_adder_leaves_its_transitions_and_its_place(path: Path, tmp_path: Path) -> None:
    with bc.Panel.from_csv(path, macro=["VIX"], name="prices", dir=tmp_path) as panel:
        buffer = ff.VecReplayBuffer(vec(panel), 100, name="moves", dir=tmp_path)
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "10\n"
            child.kill()
        assert buffer.size() == 10
        env = vec(panel)
        collect(env, buffer, 2)
        assert buffer.size() == 18
        assert buffer.get(9).action == [0.75, 0.75]
        buffer.close()


def test_threads_may_add_and_draw_at_once(env: ff.VecFastFinRL) -> None:
    buffer = ff.VecReplayBuffer(env, capacity=50, threads=2)
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    buffer.add(state, np.zeros((4, 2)), np.zeros(4), after, after["done"])
    stop, failed = threading.Event(), []

    def draw() -> None:
        out = None
        try:
            while not stop.is_set():
                out = buffer.sample(40, 10, 3, out=out)
                _, action, reward, *_ = out
                np.testing.assert_array_equal(action[:, 0], reward[:, 0])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(3_000):
        rewards = np.full(4, float(number))
        buffer.add(state, np.repeat(rewards[:, None], 2, 1), rewards, after, after["done"])
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed, failed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": np.zeros((4, 3))}, r"actions: got shape \(4, 3\); give \(4, 2\)"),
        ({"actions": np.zeros(8)}, r"actions: got shape \(8,\); give \(4, 2\)"),
        ({"actions": np.zeros((3, 2))}, r"actions: got shape \(3, 2\)"),
        ({"actions": np.full((4, 2), np.nan)}, r"action of environment 0 is NaN; give finite"),
        ({"rewards": [1, 2, np.inf, 4]}, "reward of environment 2 is inf"),
        ({"rewards": np.zeros(3)}, r"rewards: got shape \(3,\)"),
        ({"rewards": ["a"] * 4}, "rewards: got <U1 values"),
        ({"dones": np.zeros(5, bool)}, r"dones: got shape \(5,\); give \(4,\)"),
        ({"dones": [0.5] * 4}, "dones: got float64 values"),
        ({"states": {}}, r"states has no 'day'"),
        ({"states": []}, "states is empty; give one state"),
        ({"states": 7}, "states is a int; give the dict"),
        ({"states": [{"day": 1}] * 4}, r"states\[0\] has no cash; give"),
        ({"next_states": {"day": np.zeros(4, int)}}, "next_states has no 'cash'"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_added(
    env: ff.VecFastFinRL,
    buffer: ff.VecReplayBuffer,
    change: dict[str, Any],
    message: str,
) -> None:
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    given = {
        "states": state,
        "actions": np.zeros((4, 2)),
        "rewards": np.zeros(4),
        "next_states": after,
        "dones": np.zeros(4, bool),
    }
    with pytest.raises(bc.AppendError, match=message):
        buffer.add(**(given | change))
    assert buffer.size() == 80


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("day", np.array([0, 60, 0, 0]), "state 1 is on day 60, but the panel has days 0 to 59"),
        ("day", np.array([0, -1, 0, 0]), "state 1 is on day -1"),
        ("day", np.array([0, 2**40, 0, 0]), "states.'day'.: got 1099511627776; give whole"),
        ("day", np.array([0.5, 0, 0, 0]), "states.'day'.: got 0.5; give whole"),
        ("cash", np.array([0, 0, np.nan, 0]), "cash of environment 2 is NaN"),
        ("shares", np.zeros((4, 3), int), r"states\['shares'\]: got shape \(4, 3\); give \(4, 2\)"),
        ("tickers", [["AAA", "BBB"]] * 3, r"states\['tickers'\] has 3 lists; give 4"),
        ("tickers", [["AAA"]] * 4, r"states\['tickers'\] has a list of 1 names; give 2"),
        ("tickers", [["AAA", "AAB"]] * 4, r"names 'AAB', which the panel lacks \(it has 'AAA'\)"),
        ("tickers", [["AAA", "AAA"]] * 4, 'state 0 holds "AAA" twice'),
        ("tickers", "AAA", "states.'tickers'. is 'AAA'"),
        (
            "tokens",
            np.array([[1, 9]] * 4),
            "state 0 holds token 9, but the panel has tickers 1 to 5",
        ),
    ],
)
def test_states_that_are_not_the_markets_are_refused(
    env: ff.VecFastFinRL,
    buffer: ff.VecReplayBuffer,
    key: str,
    value: Any,  # noqa: ANN401
    message: str,
) -> None:
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    with pytest.raises(bc.AppendError, match=message):
        buffer.add(state | {key: value}, np.zeros((4, 2)), np.zeros(4), after, np.zeros(4, bool))
    assert buffer.size() == 80


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: b.sample(0), bc.SampleError, "batch_size is 0; give"),
        (lambda b: b.sample(-3), bc.SampleError, "batch_size is -3; give"),
        (lambda b: b.sample("4"), bc.ArgumentError, "batch_size is '4'"),
        (lambda b: b.sample(4, -1), bc.SampleError, "history_length is -1; give"),
        (lambda b: b.sample(4, 0, 2.5), bc.ArgumentError, "future_length is 2.5"),
        (
            lambda b: b.sample(4, 2**31),
            bc.SampleError,
            r"there is no memory for an array \(3, 4, 21",
        ),
        (lambda b: b.sample(4, layout="flat"), bc.ArgumentError, "layout is 'flat'; give"),
        (lambda b: b.sample(4, copy=1), bc.ArgumentError, "copy is 1; give"),
        (lambda b: b.sample(indices=[80]), bc.SampleError, "index 80 is outside the 80"),
        (lambda b: b.sample(indices=[-1]), bc.SampleError, "index -1 is outside"),
        (lambda b: b.sample(indices=[0.5]), bc.SampleError, "indices: got float64"),
        (lambda b: b.sample(out={}), bc.ArgumentError, "out is {}, a dict; give what sample"),
        (lambda b: b.sample_indices(0), bc.SampleError, "batch_size is 0"),
        (lambda b: b.get(80), bc.SampleError, "index 80 is outside the 80 transitions stored"),
        (lambda b: b.get("x"), bc.ArgumentError, "index is 'x'"),
        (lambda b: b.get_market_data(0, -1, 0), bc.SampleError, "h is -1; give"),
        (lambda b: b.get_market_data(0, 1, 0, 1), bc.ArgumentError, "next_state is 1; give"),
        (lambda b: b.get(indx=1), bc.ArgumentError, r"did you mean `index`\?"),
    ],
)
def test_bad_requests_name_value_and_remedy(
    buffer: ff.VecReplayBuffer,
    call: Any,  # noqa: ANN401
    error: Any,  # noqa: ANN401
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        call(buffer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": 0}, "capacity is 0; give"),
        ({"capacity": "many"}, "capacity is 'many'"),
        ({"batch_size": 0}, "batch_size is 0; give"),
        ({"seed": -2}, "seed is -2; give"),
        ({"action_shape": (2, 0)}, r"action_shape is \(2, 0\), a tuple; give"),
        ({"action_shape": "x"}, "action_shape is 'x'"),
        ({"n_objectives": 0}, "n_objectives is 0; give"),
        ({"threads": 0}, "threads is 0; give"),
        ({"n_adders": 3, "capacity": 2}, "capacity is 2 for 3 adding processes"),
        ({"capacty": 5}, r"did you mean `capacity`\?"),
    ],
)
def test_buffers_that_cannot_be_are_refused(
    env: ff.VecFastFinRL, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(bc.BackcastError, match=message):
        ff.VecReplayBuffer(env, **settings)
    with pytest.raises(bc.ArgumentError, match="env is a dict and has no panel; give a FastFinRL"):
        ff.VecReplayBuffer({})


def test_a_ticker_called_as_a_part_of_the_batch_needs_the_other_layout(tmp_path: Path) -> None:
    env = vec(market(20, ["AAA", "macro"]).write(tmp_path / "odd.csv"), macro_tickers=[])
    buffer = ff.VecReplayBuffer(env, 20)
    collect(env, buffer, 3)
    with pytest.raises(bc.SampleError, match=r"called 'macro'.*; give layout='batched'"):
        buffer.sample(2)
    assert buffer.sample(2, 1, layout="batched")[0]["ohlcv"].shape == (2, 2, 1, 5)


def test_a_closed_buffer_says_so_and_shows_what_it_was(buffer: ff.VecReplayBuffer) -> None:
    assert repr(buffer) == (
        "<backcast.finrl.VecReplayBuffer: a private buffer, 80/200 transitions>"
    )
    buffer.close()
    buffer.close()
    calls: list[Any] = [buffer.sample, buffer.size, buffer.clear, lambda: buffer.get(0)]
    for call in calls:
        with pytest.raises(bc.ClosedError, match="a private buffer is closed; attach or make it"):
            call()
    assert repr(buffer) == "<backcast.finrl.VecReplayBuffer: a private buffer, closed>"
