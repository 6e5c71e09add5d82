"""Mistakes of newcomers: each gets an error with name, value, limit and remedy."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from facts import missing
from finrl_buffers import filled, vec, with_gaps


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Any]:
    """Return the names in the expressions of `TYPED`: one object of each class, and files."""
    path = with_gaps(tmp_path)
    env, one = vec(path), ff.FastFinRL(path)
    one.reset(["AAA", "BBB"], seed=1)
    buffer = filled(env)
    wrapper = ff.VecFinRLWrapper(path, 50, 5, n_envs=2, num_tickers=2)
    wrapper.reset(seed=1)
    saved = tmp_path / "saved"
    buffer.save(saved)
    (tmp_path / "cut").write_bytes(saved.read_bytes()[:300])
    tokenizer = ff.TickerTokenizer(["AAA"])
    tokenizer.save(tmp_path / "tickers")
    (tmp_path / "cut tickers").write_text((tmp_path / "tickers").read_text()[:20])
    given = {"ff": ff, "np": np, "path": path, "env": env, "one": one, "buffer": buffer}
    given |= {"wrapper": wrapper, "tokenizer": tokenizer, "folder": tmp_path}
    return given | {"copy": copy, "pickle": pickle, "panel": env.panel}


TYPED: dict[str, list[str]] = {
    "ff.FastFinRL(path, num_tickers='2', shuffle_tickers=True)": ["num_tickers", "'2'"],
    "ff.FastFinRL(path, num_tickers=None, shuffle_tickers=True)": ["num_tickers", "None"],
    "ff.VecFastFinRL(path, -1)": ["n_envs", "-1", "1"],
    "ff.VecFastFinRL(path, 2, num_tickers=1, initial_shares={'BBB': 3}).reset()": [
        "initial_shares",
        '"BBB"',
    ],
    "ff.VecFastFinRL(path, 2, initial_amount=1e300)": ["`initial_amount`", "1e300"],
    "ff.VecFastFinRL(path, n_env=2)": ["`n_env`", "`n_envs`"],
    "ff.VecFinRLWrapper(3, 10)": ["path", "3", "CSV"],
    "ff.VecFinRLWrapper(path, n_envs=2, days=(0, 9))": ["buffer_capacity"],
    "ff.VecFinRLWrapper(path, 10, histroy_length=5)": ["`history_length`"],
    "env.reset([])": ["tickers_list"],
    "env.reset(tickers=[])": ["tickers"],
    "env.reset(seeds=[1, 2, 3, '4'])": ["seeds[3]", "'4'"],
    "env.reset(seeds=[1, 2, 3, True])": ["seeds[3]", "True"],
    "env.reset(seeds=[[1, 2], [3]])": ["seeds", "[[1, 2], [3]]", "4"],
    "env.reset_indices([4])": ["indices", "4", "0", "3"],
    "env.reset_indices([1.0])": ["indices", "1.0"],
    "env.reset_indices([True])": ["indices", "True"],
    "env.step(np.full((4, 2), np.nan))": ["0", '"AAA"', "NaN", "[-1, 1]"],
    "env.step(np.zeros((4, 3)))": ["actions", "(4, 3)", "(4, 2)"],
    "env.step([])": ["actions", "(0,)", "(4, 2)"],
    "env.get_raw_value(5, 5, 'open')": ["ticker", "5"],
    "env.history(0)": ["record=True"],
    "copy.copy(buffer)": ["buffer"],
    "copy.deepcopy(buffer)": ["buffer"],
    "pickle.dumps(panel)": ["panel"],
    "tokenizer.encode('')": ["tic"],
    "env.get_market_window_numpy(['AAA'], 5, -1)": ["h", "-1", "0"],
    "env.get_market_window_numpy(['AAA'], 5, True)": ["h", "True", "0"],
    "env.get_market_window_numpy(['AAA'], 5, 10**30)": ["0", "4294967295"],
    "env.get_market_window_numpy([5], 5, 1)": ["day", "5", "1"],
    "env.get_market_window_numpy([5], None, 1)": ["day", "None"],
    "env.get_market_window_numpy([[5], [5, 6]], [['AAA']], 1)": ["[[5], [5, 6]]"],
    "one.reset(['AAA'], shifted_start=10**30)": ["0", "4294967295"],
    "one.step([np.nan, 0])": ['"AAA"', "NaN", "[-1, 1]"],
    "ff.VecReplayBuffer(env.panel, 9)": ["env", "Panel"],
    "ff.VecReplayBuffer(env, 9, persistent=True)": ["persistent", "True"],
    "buffer.sample(True)": ["batch_size", "True", "1"],
    "buffer.sample(4, 2.0)": ["history_length", "2.0", "0"],
    "buffer.get(1.0)": ["index", "1.0"],
    "buffer.get_market_data(0, True, 0)": ["h", "True", "0"],
    "buffer.save(folder / 'no' / 'b')": ["no/b"],
    "buffer.load(folder / 'cut')": ["cut"],
    "tokenizer.save(folder / 'no' / 't')": ["no/t"],
    "tokenizer.load(folder / 'cut tickers')": ["cut tickers"],
    "wrapper.reset(options={'reset_mask': [True]})": ["reset_mask", "[True]"],
    "wrapper.step(np.full((2, 2, 2), np.nan))": ["0"],
    "wrapper.sample_buffer(True)": ["batch_size", "True", "1"],
}


@pytest.mark.parametrize("typed", TYPED)
def test_impossible_arguments_are_refused_by_name(names: dict[str, Any], typed: str) -> None:
    if typed.startswith("wrapper.sample"):
        names["wrapper"].step(np.zeros((2, 2, 2)))
    with pytest.raises(bc.BackcastError) as raised:
        eval(typed, names)
    said = str(raised.value)
    assert missing(said, TYPED[typed]) == []
    assert "; " in said or ", but must " in said, "a remedy"


def test_no_indices_reset_nothing(names: dict[str, Any]) -> None:
    env = names["env"]
    before = env.step(np.zeros((4, 2)))
    after = env.reset_indices(np.flatnonzero(np.zeros(4)))
    for key in ("day", "cash", "reward", "done"):
        np.testing.assert_array_equal(after[key], before[key])


def test_two_wrappers_on_one_panel_are_nothing_to_each_other(tmp_path: Path) -> None:
    panel = bc.Panel.from_csv(with_gaps(tmp_path), macro=["VIX"])
    one, other = (
        ff.VecFinRLWrapper(panel, 50, 5, n_envs=2, num_tickers=2, macro_tickers=["VIX"])
        for _ in range(2)
    )
    for envs in (one, other):
        envs.reset(seed=3)
    for _ in range(5):
        actions = one.sample_actions()
        cash = [envs.step(actions)[0]["portfolio"]["cash"] for envs in (one, other)]
        np.testing.assert_array_equal(*cash)
    one.close()
    assert repr(one).endswith(", closed>")
    for call in (one.reset, one.sample_buffer, lambda: one.step(actions)):
        with pytest.raises(bc.ClosedError, match="; "):
            call()
    other.step(actions)
    assert other.buffer.size() == 12
