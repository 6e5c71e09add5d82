"""Adapters without the libraries that they serve, and batches without any of them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import backcast as bc
import numpy as np
import pytest

WITHOUT = [
    ("torch", "torch", "torch"),
    ("sb3", "stable_baselines3", "sb3"),
    ("sb3", "torch", "sb3"),
    ("cleanrl", "torch", "cleanrl"),
    ("cleanrl", "gymnasium", "cleanrl"),
    ("jax", "jax", "jax"),
    ("rllib", "ray", "rllib"),
    ("torchrl", "torch", "torchrl"),
    ("torchrl", "torchrl", "torchrl"),
]


@pytest.mark.parametrize(("module", "library", "extra"), WITHOUT)
def test_an_adapter_without_its_library_names_what_to_install(
    module: str, library: str, extra: str
) -> None:
    code = f"""
import sys
sys.modules[{library!r}] = None
import backcast as bc
try:
    bc.{module}
except bc.errors.MissingExtraError as error:
    print(error)
"""
    # The error may name another library that is missing too.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    wanted = "pip install jax" if module == "jax" else f"pip install 'backcast[{extra}]'"
    assert wanted in done.stdout


@pytest.mark.parametrize(("module", "library", "extra"), WITHOUT)
def test_help_for_an_adapter_without_its_library_names_what_to_install(
    module: str, library: str, extra: str
) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import pydoc; pydoc.cli()"
    command = [sys.executable, "-c", code, f"backcast.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    wanted = "pip install jax" if module == "jax" else f"pip install 'backcast[{extra}]'"
    assert wanted in done.stdout


def test_shards_without_ray_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "backcast.ray._shards"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(bc.errors.MissingExtraError, match=r"pip install 'backcast\[ray\]'"):
        _ = importlib.import_module("backcast.ray").Shards


def batch(history: int | None = None) -> bc.Batch:
    buf = bc.ReplayBuffer.create(None, {"obs": {"x": "f4"}, "reward": "f4"}, capacity=50)
    with buf.writer() as writer:
        for t in range(9):
            writer.append(obs={"x": t}, reward=t, terminated=False, truncated=False)
    return buf.sample(4, history)


def test_arrays_of_a_batch_of_arrays_are_the_same_ones() -> None:
    drawn = batch()
    again = drawn.to_numpy()
    assert isinstance(again, bc.Batch)
    assert again["obs"]["x"] is drawn["obs"]["x"]
    assert list(again) == list(drawn)


def test_dlpack_takes_separate_arrays_and_refuses_windows_that_overlap() -> None:
    drawn = batch()
    assert np.shares_memory(np.from_dlpack(drawn.to_dlpack()["obs"]["x"]), drawn["obs"]["x"])
    with pytest.raises(bc.errors.SampleError, match=r"`obs/x`.*copy=True"):
        batch(history=3).to_dlpack()


JAX = """
import copy, sys, types
registered = {}
tree_util = types.SimpleNamespace(
    DictKey=str,
    register_pytree_with_keys=lambda kind, named, build, plain: registered.update(
        kind=kind, named=named, build=build, plain=plain
    ),
)
sys.modules["jax"] = types.SimpleNamespace(tree_util=tree_util)
import backcast as bc, backcast.jax, numpy as np

buf = bc.ReplayBuffer.create(None, {"obs": {"x": "f4"}, "reward": "f4"}, capacity=50)
with buf.writer() as writer:
    for t in range(9):
        writer.append(obs={"x": t}, reward=t, terminated=False, truncated=False)
drawn = buf.sample(4)
assert registered["kind"] is bc.Batch
forms = [drawn, copy.copy(drawn), bc.Batch(drawn), drawn.to_numpy()]
for batch in forms:
    named = [leaf for _, leaf in registered["named"](batch)[0]]
    for leaves in (registered["plain"](batch)[0], named):
        given = dict(zip(batch, leaves, strict=True))
        assert list(given) == list(drawn)
        pairs = [(drawn["reward"], given["reward"]), (drawn["obs"]["x"], given["obs"]["x"])]
        for mine, theirs in pairs:
            assert np.array_equal(mine, theirs) and not np.shares_memory(mine, theirs)
again = registered["build"](registered["plain"](drawn)[1], leaves)
assert type(again) is bc.Batch
# A value that is no NumPy array is passed on unchanged.
on_device = bc.Batch(reward=object())
assert registered["plain"](on_device)[0] == [on_device["reward"]]
print("as registered")
"""


def test_jax_gets_copies_of_the_arrays_of_every_batch() -> None:
    # A stand-in for JAX records what this package registers.
    done = subprocess.run(
        [sys.executable, "-c", JAX], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "as registered\n", done.stderr


def test_tensors_of_a_batch_need_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("backcast.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(bc.errors.MissingExtraError, match=r"backcast\.torch"):
        batch().to_torch()
