"""Buffers shared by processes and threads: attaching, killed adders, concurrent adds and draws."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import collect, vec, with_gaps
from waits import join, read_line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


@pytest.fixture
def env(path: Path) -> ff.VecFastFinRL:
    return vec(path)


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
            assert child.stdin is not None
            assert read_line(child) == "34\n"
            assert buffer.size() == 34
            assert [buffer.get(i).action for i in range(24, 34)] == [[0.75, 0.75]] * 10
            assert buffer.sample(34, 3)[0]["AAA"]["ohlcv"].any()
            with pytest.raises(bc.errors.InUseError, match=rf"\b{child.pid}\b"):
                buffer.clear()
            third = ff.VecReplayBuffer.attach("moves", env, dir=home)
            with pytest.raises(bc.errors.WriterError, match=f"{child.pid}"):
                collect(env, third, 1)
            assert third.size() == 34
            child.stdin.write("\n")
        buffer.clear()
        assert buffer.size() == third.size() == 0
        collect(env, third, 2)
        assert buffer.size() == 8
        for made in (third, buffer):
            made.close()
        assert [found["name"] for found in bc.list_objects(home)] == ["prices"]


def test_a_killed_adder_leaves_its_transitions_and_its_place(path: Path, tmp_path: Path) -> None:
    with bc.Panel.from_csv(path, macro=["VIX"], name="prices", dir=tmp_path) as panel:
        buffer = ff.VecReplayBuffer(vec(panel), 100, name="moves", dir=tmp_path)
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert read_line(child) == "10\n"
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
    join(*threads)
    assert not failed, failed


def test_a_batch_is_of_one_buffer_though_another_thread_makes_it_one_of_other_sizes(
    path: Path,
) -> None:
    env = vec(path)
    buffer = ff.VecReplayBuffer(env, capacity=64)
    given = []
    for tickers, rewards in ((["AAA", "BBB"], 1), (["AAA", "BBB", "CCC", "DDD"], 3)):
        state = env.reset([tickers] * 4, seed=1, options={"start_day": 20})
        action = np.zeros((4, len(tickers)))
        after = env.step(action)
        given.append((state, action, np.zeros((4, rewards)), after, after["done"]))
    stop, failed = threading.Event(), []

    def draw(kept: bool, layout: Any) -> None:  # noqa: ANN401
        out = None
        while not stop.is_set():
            try:
                batch = buffer.sample(16, 20, 5, layout=layout, out=out)
                out = batch if kept else None
                s, action, reward, *_ = batch
                assert action.shape[1:] == s["action_shape"] == s["tokens"].shape[1:]
                assert reward.shape[1] == {2: 1, 4: 3}[action.shape[1]]
            except bc.errors.SampleError:
                # Between `clear` and `add` the buffer is empty.
                pass
            except BaseException as error:
                failed.append(error)
                return

    def look() -> None:
        while not stop.is_set():
            assert buffer.action_shape in {(2,), (4,)}

    draws = [(False, "ticker"), (False, "batched"), (True, "ticker"), (True, "batched")]
    threads = [threading.Thread(target=draw, args=each) for each in draws]
    threads.append(threading.Thread(target=look))
    for thread in threads:
        thread.start()
    for number in range(4_000):
        buffer.clear()
        buffer.add(*given[number % 2])
    stop.set()
    join(*threads)
    assert not failed, failed


def test_joined_buffers_keep_the_indicator_lag(path: Path, tmp_path: Path) -> None:
    with bc.Panel.from_csv(path, macro=["VIX"], name="prices", dir=tmp_path) as panel:
        env = vec(panel, indicator_lag=3)
        buffer = ff.VecReplayBuffer(env, 20, name="moves", dir=tmp_path)
        state = env.reset(seed=1)
        after = env.step(np.zeros((4, 2)))
        buffer.add(state, np.zeros((4, 2)), np.zeros(4), after, after["done"])

        def shown(joined: ff.VecReplayBuffer) -> Any:  # noqa: ANN401
            s = joined.sample(layout="batched", indices=np.arange(4))[0]
            return s["current_indicators"]

        def join(*given: Any, **settings: Any) -> ff.VecReplayBuffer:  # noqa: ANN401
            return ff.VecReplayBuffer.attach("moves", *given, dir=tmp_path, **settings)

        as_seen = shown(buffer)
        np.testing.assert_array_equal(as_seen, state["indicators"].astype("f4"))
        attached = join()
        for same in (attached, join(panel), join(env), pickle.loads(pickle.dumps(attached))):
            np.testing.assert_array_equal(shown(same), as_seen)
        np.testing.assert_array_equal(shown(join(vec(panel), indicator_lag=3)), as_seen)
        other = shown(join(indicator_lag=1))
        assert not np.array_equal(other, as_seen)
        for same in (
            join(env, indicator_lag=1),
            join(vec(panel)),
            pickle.loads(pickle.dumps(join(env, indicator_lag=1))),
        ):
            np.testing.assert_array_equal(shown(same), other)
        buffer.close()


SPAWNED = """
import pickle, sys
buffer = pickle.load(sys.stdin.buffer)
print(type(buffer).__name__, buffer.size(), buffer.batch_size, sorted(buffer.sample(4)[0]))
"""


@pytest.mark.parametrize("joined", [False, True])
def test_a_buffer_with_names_pickles_as_them(path: Path, tmp_path: Path, joined: bool) -> None:
    with bc.Panel.from_csv(path, macro=["VIX"], name="prices", dir=tmp_path) as panel:
        env = vec(panel)
        buffer = ff.VecReplayBuffer(env, 100, 7, name="moves", dir=tmp_path)
        collect(env, buffer, 3)
        if joined:
            buffer, first = ff.VecReplayBuffer.attach("moves", batch_size=7, dir=tmp_path), buffer
            first.close()
        done = subprocess.run(
            [sys.executable, "-c", SPAWNED],
            input=pickle.dumps(buffer),
            capture_output=True,
            check=True,
            timeout=60,
        )
        shown = str(sorted(buffer.sample(4)[0]))
        assert done.stdout.decode().split(maxsplit=3) == [
            "VecReplayBuffer",
            "12",
            "7",
            shown + "\n",
        ]
        buffer.close()


def test_a_buffer_without_a_name_or_on_such_a_market_does_not_pickle(
    env: ff.VecFastFinRL, path: Path, tmp_path: Path
) -> None:
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bname\b"):
        pickle.dumps(ff.VecReplayBuffer(env, 100))
    named = ff.VecReplayBuffer(env, 100, name="moves", dir=tmp_path)
    with (
        named,
        pytest.raises(bc.errors.ArgumentTypeError, match="panel"),
    ):
        pickle.dumps(named)


@pytest.mark.parametrize("first", ["clear", "load"])
def test_clearing_or_loading_claims_no_lane(path: Path, tmp_path: Path, first: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with bc.Panel.from_csv(path, macro=["VIX"], name="prices", dir=home) as panel:
        env = vec(panel)
        saved = ff.VecReplayBuffer(env, 100)
        collect(env, saved, 2)
        saved.save(tmp_path / "saved")
        learner = ff.VecReplayBuffer(env, 100, name="moves", n_adders=1, dir=home)
        kept = 0
        if first == "clear":
            learner.clear()
        else:
            learner.load(tmp_path / "saved")
            kept = 8
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdin is not None
            assert read_line(child) == f"{kept + 10}\n"
            # The child still holds the only lane, so both calls are refused and change nothing.
            says = rf"\b1\b.*\b{child.pid}\b"
            for refused in (learner.clear, lambda: learner.load(tmp_path / "saved")):
                with pytest.raises(bc.errors.InUseError, match=says):
                    refused()
            assert learner.size() == kept + 10
            child.stdin.write("\n")
            child.stdin.close()
            assert child.wait(60) == 0
        learner.clear()
        assert learner.size() == 0
        # A buffer that has added transitions keeps its lane when it clears.
        collect(env, learner, 1)
        learner.clear()
        with pytest.raises(bc.errors.WriterError, match=r"\b1\b.*\bn_adders\b"):
            collect(vec(panel), ff.VecReplayBuffer.attach("moves", dir=home), 1)
