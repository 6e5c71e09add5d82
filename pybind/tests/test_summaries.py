"""Moments of columns and returns of episodes, against NumPy on all rows at once."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import summaries
from backcast.summaries import Moments, summarize
from numpy.typing import NDArray

COLUMNS = {
    "obs": {"x": ("f4", (3,)), "image": ("u1", (2, 2))},
    "action": "i8",
    "reward": "f8",
    "flag": "bool",
    "half": "bfloat16",
}


def filled(lanes: int = 1, steps: int = 300, capacity: int = 10_000) -> bc.ReplayBuffer:
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=capacity, lanes=lanes)
    draw = np.random.default_rng(3)
    with buf.writer(lanes, "same_step") as writer:
        for t in range(steps):
            end = draw.random(lanes) < 0.1

            def seen() -> dict[str, Any]:
                return {
                    "x": 1e6 + draw.normal(size=(lanes, 3)),
                    "image": draw.integers(0, 256, (lanes, 2, 2), "u1"),
                }

            writer.append(
                obs=seen(),
                action=draw.integers(-(2**40), 2**40, lanes),
                reward=draw.normal(size=lanes) + 5,
                flag=draw.random(lanes) < 0.3,
                half=np.full(lanes, 0x3F80 + t % 7, "u2"),
                terminated=end & (t % 2 == 0),
                truncated=end & (t % 2 == 1),
                final_obs=seen(),
            )
    return buf


def read(buf: bc.ReplayBuffer, lanes: list[int]) -> dict[str, Any]:
    """Return all rows that are not FINAL, by column, and the returns of whole episodes."""
    found: dict[str, list[Any]] = {}
    returns, lengths = [], []
    for lane in lanes:
        low, head = buf.lane_span(lane)
        rows = buf.rows(lane, low, head - low)
        flat = {"obs/x": rows["obs"]["x"], "obs/image": rows["obs"]["image"]}
        flat |= {name: rows[name] for name in ("action", "reward", "flag", "half")}
        steps = rows["flags"] & 4 == 0
        for name, values in flat.items():
            if name == "half" and values.dtype == np.uint16:
                values = (values.astype("u4") << 16).view("f4")
            found.setdefault(name, []).append(np.asarray(values[steps], "f8"))
        for episode in np.unique(rows["episode"]):
            mine = rows["episode"] == episode
            if rows["t"][mine][0] == 0 and (rows["flags"][mine] & 3).any():
                returns.append(rows["reward"][mine & steps].sum())
                lengths.append((mine & steps).sum())
    return {name: np.concatenate(of) for name, of in found.items()} | {
        "returns": np.array(returns),
        "lengths": np.array(lengths),
    }


def assert_moments(found: Moments, values: NDArray[Any]) -> None:
    assert found.count == len(values)
    assert np.allclose(found.mean, values.mean(axis=0), rtol=1e-12, atol=0)
    assert np.allclose(found.std, values.std(axis=0), rtol=1e-12, atol=0)
    # Returns are sums, which chunks round in another order.
    assert np.allclose(found.min, values.min(axis=0), rtol=1e-14, atol=0)
    assert np.allclose(found.max, values.max(axis=0), rtol=1e-14, atol=0)


@pytest.mark.parametrize("chunk", [1, 1000, 1 << 22])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("capacity", [90, 10_000])
def test_a_summary_is_numpys_of_all_rows(
    chunk: int, lanes: int, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "_CHUNK", chunk)
    buf = filled(lanes, capacity=capacity)
    found = pickle.loads(pickle.dumps(summarize(buf)))
    expected = read(buf, [*range(lanes)])
    for name, of in found.columns.items():
        assert_moments(of, expected[name])
    assert_moments(found.returns, expected["returns"])
    assert_moments(found.lengths, expected["lengths"])
    assert found.rows == len(expected["reward"])
    assert found.rows_lapped == 0


def test_summaries_of_lanes_and_rings_add_up() -> None:
    buf, other = filled(3), filled(1, steps=50)
    parts = [summarize(buf, lanes=[0, 2]), summarize(other), summarize(buf, lanes=[1])]
    found = parts[0] + parts[1] + parts[2]
    expected = [read(buf, [0, 1, 2]), read(other, [0])]
    for name, of in found.columns.items():
        assert_moments(of, np.concatenate([part[name] for part in expected]))
    assert_moments(found.returns, np.concatenate([part["returns"] for part in expected]))


def test_an_empty_ring_and_a_ring_without_rewards_have_summaries() -> None:
    empty = bc.ReplayBuffer.create(None, COLUMNS, capacity=100)
    found = summarize(empty)
    assert found.columns["obs/x"].count == found.returns.count == 0
    assert np.isnan(found.columns["obs/x"].mean).all()
    both = found + summarize(filled())
    assert_moments(both.columns["obs/x"], read(filled(), [0])["obs/x"])
    plain = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    with plain.writer() as writer:
        for t in range(5):
            writer.append(obs=t, terminated=t == 4, truncated=False, final_obs=9)
    found = summarize(plain)
    assert (found.returns.count, found.lengths.count, int(found.lengths.mean)) == (0, 1, 5)


def test_returns_of_bfloat16_rewards_are_no_sums_of_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "bfloat16"}, capacity=100)
    with buf.writer() as writer:
        for t in range(4):
            # The bits of 1.0 in bfloat16.
            reward = np.uint16(0x3F80)
            writer.append(obs=t, reward=reward, terminated=t == 3, truncated=False, final_obs=9)
    # Arrays have the bits where `ml_dtypes` is not installed.
    rows = buf.rows(0, 0, 5)
    bits = {**rows, "reward": rows["reward"].view(np.uint16)}
    monkeypatch.setattr(summaries, "_chunks", lambda *_: iter([(bits, 0)]))
    assert float(summarize(buf).returns.mean) == 4.0


def append(writer: bc.Writer, count: int, *, ends: bool = True, cut: bool = False) -> None:
    """Append the steps of an episode, each with the reward 1. Then end it, cut it, or neither."""
    for t in range(count):
        last = t == count - 1
        after = -1 if cut and last else t + 1
        writer.append(obs=t, reward=1, next_obs=after, terminated=ends and last, truncated=False)


@pytest.mark.parametrize("chunk", [1, 1 << 22])
@pytest.mark.parametrize("end", ["ends", "goes on", "is cut", "is killed"])
def test_parts_of_episodes_are_left_out_and_counted(
    chunk: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "_CHUNK", chunk)
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
    with buf.writer() as writer:
        append(writer, 3)
        append(writer, 5, ends=False, cut=True)  # The next observation is another one.
        append(writer, 7)  # May be the rest of the one that was cut.
        append(writer, 4)
        append(writer, 6, ends=end == "ends", cut=end == "is cut")
        if end == "is killed":
            writer.restart()
            append(writer, 2)  # Begins with a GAP after no end.
        found = summarize(buf)
    whole = [3, 4, 6] if end == "ends" else [3, 4]
    assert found.lengths.count == found.returns.count == len(whole)
    assert (float(found.lengths.min), float(found.lengths.max)) == (min(whole), max(whole))
    assert float(found.returns.mean) == pytest.approx(sum(whole) / len(whole))
    parts = {"ends": 2, "goes on": 3, "is cut": 3, "is killed": 4}
    assert found.episodes_left_out == parts[end]
    assert found.rows == sum([3, 5, 7, 4, 6]) + (2 if end == "is killed" else 0)
    assert (found + found).episodes_left_out == 2 * parts[end]


def test_episodes_that_began_before_the_oldest_row_are_left_out() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=64)
    with buf.writer() as writer:
        for _ in range(30):
            append(writer, 4)
    low, _ = buf.lane_span(0)
    begins_inside = int(buf.rows(0, low, 1)["t"][0]) != 0
    found = summarize(buf)
    assert begins_inside
    assert found.episodes_left_out == 1
    assert (float(found.lengths.min), float(found.lengths.max)) == (4, 4)


def test_an_episode_with_lost_rows_is_left_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
    with buf.writer() as writer:
        append(writer, 6)
        append(writer, 3)
    rows = buf.rows(0, 0, 11)

    def part(start: int, stop: int) -> dict[str, Any]:
        return {name: values[start:stop] for name, values in rows.items()}

    lost = [(part(0, 2), 0), (None, 2), (part(4, 11), 0)]
    monkeypatch.setattr(summaries, "_chunks", lambda *_: iter(lost))
    found = summarize(buf)
    assert (found.episodes_left_out, found.rows_lapped, found.lengths.count) == (1, 2, 1)
    assert float(found.returns.mean) == 3


def test_nan_is_not_hidden() -> None:
    found = Moments.of([1.0, np.nan]) + Moments.of([3.0])
    assert np.isnan([found.mean, found.min, found.max, found.std]).all()


def test_a_cleared_episode_is_no_whole_one() -> None:
    buf = filled()
    buf.drop_episode(0)
    assert_moments(summarize(buf).returns, read(buf, [0])["returns"])


def test_rows_that_a_writer_overwrites_are_counted_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All values of a row are equal, so a torn one would show in the sums."""
    monkeypatch.setattr(summaries, "_CHUNK", 4096)
    columns = {"obs": ("f8", (40,)), "reward": "f8"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=300)
    stop = threading.Event()
    writer = buf.writer()
    row = np.arange(64)
    go_on = np.zeros(64, bool)

    def write() -> None:
        first = 0
        while not stop.is_set():
            values = (first + row) % 1000.0
            writer.extend(
                obs=np.repeat(values[:, None], 40, 1),
                reward=values,
                terminated=go_on,
                truncated=go_on,
            )
            first += 64

    thread = threading.Thread(target=write)
    thread.start()
    try:
        buf.wait(200, timeout=60)
        lapped = 0
        for _ in range(2000):
            found = summarize(buf)
            lapped += found.rows_lapped
            obs, reward = found.columns["obs"], found.columns["reward"]
            assert obs.count == reward.count == found.rows
            assert np.allclose(obs.mean, reward.mean, rtol=1e-12)
            assert (obs.max == reward.max).all()
            assert (obs.min == reward.min).all()
            if lapped:
                break
    finally:
        stop.set()
        thread.join(60)
    assert lapped


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"columns": ["no"]}, bc.errors.ColumnError, "no column `no`"),
        ({"lanes": [1]}, bc.errors.ArgumentError, "a lane is 1"),
        ({"lanes": [0, 0]}, bc.errors.ArgumentError, "twice"),
        ({"lanes": 0}, bc.errors.ArgumentTypeError, "a list of lanes"),
        ({"columns": "reward"}, bc.errors.ArgumentTypeError, "give a list"),
        ({"lane": 0}, bc.errors.ArgumentTypeError, "lanes"),
    ],
)
def test_what_the_ring_does_not_have_is_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        summarize(filled(steps=3), **options)
    with pytest.raises(bc.errors.ArgumentError, match="cannot be merged"):
        Moments.of([1.0]) + Moments.of([[1.0, 2.0]])
    with pytest.raises(bc.errors.ArgumentError, match="the column `action`"):
        summarize(filled(steps=3)) + summarize(filled(steps=3), ["reward"])
