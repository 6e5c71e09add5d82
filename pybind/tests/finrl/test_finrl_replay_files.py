"""Buffers in files: the saved transitions are loaded, and no others."""

from __future__ import annotations

from pathlib import Path

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import TICKERS, collect, same, vec, with_gaps
from finrl_market import market


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


@pytest.fixture
def env(path: Path) -> ff.VecFastFinRL:
    return vec(path)


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
        with pytest.raises(bc.errors.CorruptError, match=r"buffer|bct"):
            loaded.load(path)
    path.write_bytes(whole)
    wide = ff.VecReplayBuffer(env, 30, action_shape=(2, 2))
    with pytest.raises(bc.errors.SchemaError, match=r"\b2\b"):
        wide.load(path)
    with pytest.raises(bc.errors.StorageError, match="nothing"):
        loaded.load(tmp_path / "nothing")
    assert [loaded.get(i) for i in range(30)] == kept


def test_a_file_of_another_market_is_refused(env: ff.VecFastFinRL, tmp_path: Path) -> None:
    saved = ff.VecReplayBuffer(env, 30)
    collect(env, saved, 3)
    saved.save(tmp_path / "buffer.bct")
    other = vec(market(60, [*TICKERS, "VIX"], seed=9).write(tmp_path / "other.csv"))
    elsewhere = ff.VecReplayBuffer(other, 30)
    with pytest.raises(bc.errors.PanelError, match=r"buffer\.bct"):
        elsewhere.load(tmp_path / "buffer.bct")


@pytest.mark.parametrize(
    ("here", "says"),
    [
        ([], "VIX"),
        (
            ["VIX", "DDD"],
            r"VIX.*DDD, VIX",
        ),
    ],
)
def test_a_file_of_the_market_with_other_macro_tickers_says_which(
    env: ff.VecFastFinRL, path: Path, tmp_path: Path, here: list[str], says: str
) -> None:
    saved = ff.VecReplayBuffer(env, 30)
    collect(env, saved, 3)
    saved.save(tmp_path / "buffer.bct")
    other = ff.VecReplayBuffer(vec(path, macro_tickers=here), 30)
    with pytest.raises(bc.errors.PanelError, match=rf"buffer\.bct.*{says}"):
        other.load(tmp_path / "buffer.bct")


def test_a_buffer_that_holds_nothing_takes_the_objectives_of_a_file(
    env: ff.VecFastFinRL, tmp_path: Path
) -> None:
    state = env.reset(seed=1)
    actions = np.zeros((4, 2))
    after = env.step(actions)
    several = ff.VecReplayBuffer(env, 100)
    rewards = np.arange(12.0).reshape(4, 3)
    several.add(state, actions, rewards, after, after["done"])
    several.save(tmp_path / "three")
    fresh = ff.VecReplayBuffer(env, 100)
    fresh.load(tmp_path / "three")
    assert [fresh.get(at).rewards for at in range(4)] == rewards.tolist()
    fresh.add(state, actions, rewards, after, after["done"])
    # A buffer that holds transitions, or whose `n_objectives` was given, refuses the file.
    one = ff.VecReplayBuffer(env, 100)
    one.add(state, actions, after["reward"], after, after["done"])
    for other in (one, ff.VecReplayBuffer(env, 100, n_objectives=1)):
        held = other.size()
        with pytest.raises(bc.errors.SchemaError, match=r"\bn_objectives\b.*\b3\b.*\b1\b"):
            other.load(tmp_path / "three")
        assert other.size() == held
