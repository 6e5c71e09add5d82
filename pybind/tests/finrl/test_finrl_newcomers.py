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
from finrl_buffers import filled, vec, with_gaps


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Any]:
    """Give one of everything, played a little."""
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


TYPED = {
    "ff.FastFinRL(path, num_tickers='2', shuffle_tickers=True)": "num_tickers is '2', a str; give",
    "ff.FastFinRL(path, num_tickers=None, shuffle_tickers=True)": "num_tickers is None; give",
    "ff.VecFastFinRL(path, -1)": "n_envs is -1; give a whole number from 1 up",
    "ff.VecFastFinRL(path, 2, num_tickers=1, initial_shares={'BBB': 3}).reset()": (
        'initial_shares has shares of "BBB", which no portfolio trades; trade it'
    ),
    "ff.VecFastFinRL(path, 2, initial_amount=1e300)": "initial_amount` is 1e300, but must be",
    "ff.VecFastFinRL(path, n_env=2)": "no argument `n_env`; did you mean `n_envs`?",
    "ff.VecFinRLWrapper(3, 10)": "path is 3; give the path of a CSV or Parquet file",
    "ff.VecFinRLWrapper(path, n_envs=2, days=(0, 9))": "buffer_capacity is missing; Vec",
    "ff.VecFinRLWrapper(path, 10, histroy_length=5)": "did you mean `history_length`? It takes",
    "env.reset([])": "tickers_list is empty; give a list for each portfolio",
    "env.reset(tickers=[])": "tickers is empty; give a list for each portfolio",
    "env.reset(seeds=[1, 2, 3, '4'])": "seeds[3] is '4'; give a whole number",
    "env.reset(seeds=[1, 2, 3, True])": "seeds[3] is True; give a whole number",
    "env.reset(seeds=[[1, 2], [3]])": "seeds is [[1, 2], [3]]; give an array of 4 whole numbers",
    "env.reset_indices([4])": "indices holds 4; give numbers from 0 to 3",
    "env.reset_indices([1.0])": "one of indices is 1.0; give whole numbers",
    "env.reset_indices([True])": "one of indices is True; give whole numbers",
    "env.step(np.full((4, 2), np.nan))": 'environment 0 for "AAA" is NaN, but must lie in [-1, 1]',
    "env.step(np.zeros((4, 3)))": "actions: got shape (4, 3); give (4, 2)",
    "env.step([])": "actions: got shape (0,); give (4, 2)",
    "env.get_raw_value(5, 5, 'open')": "ticker is 5; give its name, a str",
    "env.history(0)": "keeps no history; make it with record=True",
    "copy.copy(buffer)": "a buffer without a name is private to its process and is not copied; cr",
    "copy.deepcopy(buffer)": "a buffer without a name is private to its process and is not copied",
    "pickle.dumps(panel)": "a panel without a name is private to its process and cannot be pickled",
    "tokenizer.encode('')": "tic is ''; give the name of a ticker",
    "env.get_market_window_numpy(['AAA'], 5, -1)": "h is -1; give a whole number from 0 up",
    "env.get_market_window_numpy(['AAA'], 5, True)": "h is True; give a whole number from 0 up",
    "env.get_market_window_numpy(['AAA'], 5, 10**30)": "give a whole number from 0 to 4294967295",
    "env.get_market_window_numpy([5], 5, 1)": "day is 5; give a list of tickers for each of 1 days",
    "env.get_market_window_numpy([5], None, 1)": "day is None; give a list of tickers",
    "env.get_market_window_numpy([[5], [5, 6]], [['AAA']], 1)": "[[5], [5, 6]]; give",
    "one.reset(['AAA'], shifted_start=10**30)": "give a whole number from 0 to 4294967295",
    "one.step([np.nan, 0])": 'the action for "AAA" is NaN, but must lie in [-1, 1]',
    "ff.VecReplayBuffer(env.panel, 9)": "env is a Panel, which does not say how many tickers",
    "ff.VecReplayBuffer(env, 9, persistent=True)": "persistent is True, but a buffer without a",
    "buffer.sample(True)": "batch_size is True, a bool; give a whole number from 1 up",
    "buffer.sample(4, 2.0)": "history_length is 2.0, a float; give a whole number from 0 up",
    "buffer.get(1.0)": "index is 1.0, a float; give a whole number",
    "buffer.get_market_data(0, True, 0)": "h is True; give a whole number from 0 up",
    "buffer.save(folder / 'no' / 'b')": "No such file or directory (os error 2); check the path",
    "buffer.load(folder / 'cut')": "is no saved buffer: it is cut or changed",
    "tokenizer.save(folder / 'no' / 't')": "No such file or directory (os error 2); check the path",
    "tokenizer.load(folder / 'cut tickers')": "is no tokenizer: ",
    "wrapper.reset(options={'reset_mask': [True]})": "reset_mask is [True], a list; give a NumPy",
    "wrapper.step(np.full((2, 2, 2), np.nan))": "action of environment 0: the second number",
    "wrapper.sample_buffer(True)": "batch_size is True, a bool; give a whole number from 1 up",
}


@pytest.mark.parametrize("typed", TYPED)
def test_impossible_arguments_are_refused_by_name(names: dict[str, Any], typed: str) -> None:
    if typed.startswith("wrapper.sample"):
        names["wrapper"].step(np.zeros((2, 2, 2)))
    with pytest.raises(bc.BackcastError) as raised:
        eval(typed, names)
    said = str(raised.value)
    assert TYPED[typed] in said
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
