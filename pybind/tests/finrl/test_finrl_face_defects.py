"""Regression tests of defects of FastFinRL in its Python interface: calls, types and costs.

Each test would fail on the defect. Numbers are those of one list of FastFinRL's defects, which the
other files of defects share.
"""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib import metadata, resources
from pathlib import Path
from types import FrameType
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_defects import ordinary, vec
from finrl_market import COLUMNS, market
from other_threads import others_run

BUY = np.ones


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ordinary(tmp_path)


def test_defect_16_calls_out_of_order_are_errors(path: Path) -> None:
    many, one = vec(path), ff.FastFinRL(path)
    for call in (many.get_state, one.get_state):
        with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
            call()
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        many.reset_indices([0])
    for step in (lambda: many.step(np.zeros((2, 4))), lambda: one.step(np.zeros(4))):
        with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
            step()
    one.reset(["AAA", "BBB"], seed=1)
    for wrong in ([0.0], [0.0, 0.0, 0.0], [[0.0, 0.0]]):
        with pytest.raises(bc.errors.EnvError, match=r"\(2,\)"):
            one.step(wrong)
    while not one.get_state()["terminal"]:
        one.step([0.1, 0.1])
    with pytest.raises(bc.errors.EnvError, match=r"\b39\b.*reset\(\)"):
        one.step([0.1, 0.1])


def test_defect_16_a_batch_is_refused_whole_when_one_of_it_cannot_step(path: Path) -> None:
    env = vec(path, auto_reset=False)
    env.reset(seed=1, options={"start_day": np.array([38, 5])})
    env.step(np.zeros((2, 4)))
    for _ in range(2):
        with pytest.raises(bc.errors.EnvError, match=r"\b0\b.*\b39\b"):
            env.step(np.zeros((2, 4)))
    assert env.get_state()["day"].tolist() == [39, 6]
    assert env.reset_indices([0], [4])["day"][1] == 6
    assert env.step(np.zeros((2, 4)))["day"][1] == 7


def test_defect_20_what_is_documented_is_what_there_is(path: Path) -> None:
    env = vec(path, 2)
    by_name = env.reset(tickers=[["AAA"], ["BBB"]], seed=3)
    assert by_name["tickers"] == [["AAA"], ["BBB"]]
    by_position = env.reset([["AAA"], ["BBB"], ["CCC"]], np.array([1, 2, 3]))
    assert (by_position["n_envs"], env.num_envs(), len(by_position["day"])) == (3, 3, 3)
    random = {tuple(vec(path, 20).reset(seed=-1)["day"].tolist()) for _ in range(4)}
    assert len(random) > 1, "-1 is random"
    with pytest.raises(bc.errors.EnvError, match=r'\bstop_loss_calculation\b.*"open".*"close"'):
        vec(path, stop_loss_calculation="open")
    with pytest.raises(bc.errors.EnvError, match=r'\bbidding\b.*"worst".*"default"'):
        vec(path, bidding="worst")
    with pytest.raises(bc.errors.EnvError, match="return_format"):
        vec(path, return_format="jason")
    with pytest.raises(bc.errors.EnvError, match=r"\bn_envs\b.*\b0\b"):
        vec(path, 0)
    for setting in ("initial_amount", "hmax", "bidding", "indicator_lag", "generator"):
        nothing: dict[str, Any] = {setting: None}
        with pytest.raises(bc.errors.ArgumentTypeError, match=rf"\b{setting}\b.*\bNone\b"):
            vec(path, **nothing)
    ragged: Any = [[1], [1, 2]]
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bseeds\b.*\b3\b"):
        env.reset(seeds=ragged)
    assert env.get_state().keys() == by_position.keys(), "it is implemented"
    assert ff.VecFastFinRL(path, 2).reset()[0].keys() == ff.VecFastFinRL(path, 1).reset()[0].keys()
    json = ff.VecFastFinRL(path, 2).reset(seed=1)
    assert isinstance(json, list), "the documented default form"
    assert json[1].keys() >= {"day", "cash", "shares", "open", "indicators", "tickers", "reward"}


def test_defect_21_it_builds_from_what_is_there_and_brings_its_types() -> None:
    root = Path(__file__).resolve().parents[3]
    lock = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))
    ours = [package["name"] for package in lock["package"] if "source" not in package]
    assert all(name.startswith("backcast") for name in ours), "nothing lies beside the source"
    for package in lock["package"]:
        if "source" in package:
            assert package["source"].startswith("registry+"), "no branch that moves on"
            assert package["checksum"], package["name"]
    for file in (root / "requirements").glob("*.txt"):
        wanted = re.findall(r"^([\w.\[\]-]+)(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert all(pinned.startswith("==") for _, pinned in wanted), file.name
        assert wanted
    distribution = metadata.distribution("backcast")
    assert "-abi3-" in str(distribution.read_text("WHEEL"))
    for name in ("py.typed", "_native.pyi"):
        assert resources.files("backcast").joinpath(name).is_file()
    for made in (ff.VecFastFinRL.step, ff.VecReplayBuffer.sample, ff.VecFinRLWrapper.reset):
        signature = inspect.signature(made)
        assert signature.return_annotation is not inspect.Signature.empty


def test_defect_22_there_are_truncation_final_observations_and_metrics(path: Path) -> None:
    env = vec(path, max_episode_steps=3, hmax=100)
    env.reset(seed=1, options={"start_day": 5})
    for _ in range(3):
        state = env.step(np.full((2, 4), 0.5))
    assert state["truncated"].all()
    assert not state["terminated"].any()
    assert state["final_obs"]["day"].tolist() == [8, 8]
    assert state["metrics"]["length"].tolist() == [3, 3]
    assert (state["metrics"]["costs"] > 0).all()


def test_defect_22_there_are_slippage_fees_by_ticker_and_spaces(path: Path) -> None:
    def spent(**settings: Any) -> float:  # noqa: ANN401
        env = vec(path, 1, **settings)
        env.reset(seed=1, options={"start_day": 5})
        return 30_000 - float(env.step([[1, 0, 0, 0]])["cash"][0])

    plain = spent()
    assert spent(slippage_bps=50) == pytest.approx(plain * 1.005)
    assert spent(fixed_fee=2) == pytest.approx(plain + 2)
    assert spent(ticker_costs={"AAA": (0.02, 0)}) == pytest.approx(plain / 1.01 * 1.02)
    wrapper = ff.VecFinRLWrapper(path, 50, history_length=4)
    obs, _ = wrapper.reset(seed=1)
    assert wrapper.observation_space.contains(obs)
    assert wrapper.action_space.contains(wrapper.sample_actions())
    assert obs["hist"]["market"]["ohlcvs"].dtype == np.float32


@pytest.mark.parametrize("what", ["load", "step", "reset"])
def test_defect_23_other_threads_run_during_long_calls(tmp_path: Path, what: str) -> None:
    path = market(520, ["AAA", "BBB"]).write(tmp_path / "long.csv")
    # Calls the layer below the classes: the classes copy with NumPy, which releases the GIL itself.
    batch = vec(path, 3_000, auto_reset=False)._batch
    batch.reset(options={"start_day": 1})
    actions = np.zeros((3_000, 2))
    calls: dict[str, Callable[[], object]] = {
        "load": lambda: bc.Panel.from_csv(path),
        "step": lambda: batch.step(actions),
        "reset": lambda: batch.reset(seed=2),
    }
    assert others_run(calls[what])


def test_defect_24_python_does_as_much_in_a_step_however_much_it_shows(tmp_path: Path) -> None:
    # tests/tests/step_cost.rs checks that the Rust side looks nothing up by name either.
    def done(n_envs: int, n_tickers: int, columns: Sequence[str]) -> tuple[int, int]:
        """Return the number of bytecodes that a step executes, and of memory blocks it leaves."""
        made = market(30, [f"T{at:02}" for at in range(n_tickers)])
        env = vec(made.write(tmp_path / "market.csv", columns), n_envs)
        env.reset(seed=1, options={"start_day": 1})
        actions = np.zeros((n_envs, n_tickers))
        kept = [env.step(actions) for _ in range(10)]
        executed = 0

        def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
            nonlocal executed
            frame.f_trace_opcodes = True
            executed += event == "opcode"
            return trace

        before, tracer = sys.getallocatedblocks(), sys.gettrace()
        sys.settrace(trace)
        try:
            kept.append(env.step(actions))
        finally:
            sys.settrace(tracer)
        return executed, sys.getallocatedblocks() - before

    few, many = done(2, 2, COLUMNS[:-1]), done(40, 30, COLUMNS)
    assert few[0] == many[0] > 0
    assert many[1] < 100, "one for each array, not for each of 1,200 tickers"


def test_defect_25_names_are_made_once_and_arrays_are_new(path: Path) -> None:
    env = vec(path)
    first = env.reset(seed=1, options={"start_day": 5})
    second = env.step(BUY((2, 4)))
    for one, other in zip(first["tickers"][1], second["tickers"][1], strict=True):
        assert one is other
    for key, values in first.items():
        if isinstance(values, np.ndarray):
            assert not np.shares_memory(values, second[key]), key


@pytest.mark.parametrize("change", ["append", "assign", "join", "sort", "delete"])
def test_lists_of_a_state_are_not_changed_under_those_after_it(path: Path, change: str) -> None:
    def apply(names: Any) -> None:  # noqa: ANN401
        match change:
            case "append":
                names.append("ZZZ")
            case "assign":
                names[0] = "ZZZ"
            case "join":
                names += ["ZZZ"]
            case "sort":
                names.sort(reverse=True)
            case "delete":
                del names[0]

    settings: dict[str, Any] = {"macro_tickers": ["VIX"], "shuffle_tickers": True, "num_tickers": 2}
    env = vec(path, return_format="vec", **settings)
    state = env.reset(seed=1)
    before = copy.deepcopy(state)
    lists = [
        *state["tickers"],
        *(state[k] for k in ("tickers", "indicator_names", "macro_tickers")),
    ]
    for names in lists:
        with pytest.raises(bc.errors.ArgumentTypeError):
            apply(names)
        # Copies are plain lists that the caller may change.
        for mine in (copy.copy(names), list(names), names[:], pickle.loads(pickle.dumps(names))):
            assert type(mine) is list
            apply(mine)
    after = env.step(np.zeros((2, 2)))
    for key in ("tickers", "indicator_names", "macro_tickers"):
        assert isinstance(after[key], list)
        assert state[key] == before[key] == after[key]
        assert type(before[key]) is list
    assert json.loads(json.dumps(state["tickers"])) == before["tickers"]
    row = vec(path, return_format="json").reset(seed=1)[0]
    row["tickers"].append("ZZZ")
