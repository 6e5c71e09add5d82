"""Batches as pytrees of JAX: copies of memory that may be refilled, and 64-bit indices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import backcast as bc
import numpy as np
import pytest

jax = pytest.importorskip(
    "jax", reason="JAX is not installed: pip install -r requirements/adapters.txt"
)

import backcast.jax  # noqa: E402


def filled() -> bc.ReplayBuffer:
    columns = {"obs": {"x": ("f4", (64,)), "y": "f4"}, "action": "i4", "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=1_000, lanes=2)
    with buf.writer(2, autoreset_mode="next_step") as writer:
        for t in range(400):
            obs = {"x": np.full((2, 64), t), "y": [t, t]}
            ends = {"terminated": [False] * 2, "truncated": [False] * 2}
            writer.append(obs=obs, action=[t, t], reward=[0, 1], **ends)
    return buf


def copied(batch: bc.Batch) -> dict[str, Any]:
    return {"x": batch["obs"]["x"].copy(), "reward": batch["reward"].copy()}


def same(there: Any, then: dict[str, Any]) -> bool:
    arrays = {"x": there["obs"]["x"], "reward": there["reward"]}
    return all(np.array_equal(np.asarray(arrays[key]), then[key]) for key in then)


CALLS: dict[str, Callable[[bc.Batch], Any]] = {
    "device_put": jax.device_put,
    "jit": jax.jit(lambda batch: batch),
    "tree.map": lambda batch: jax.tree.map(jax.device_put, batch),
    "tree.map of asarray": lambda batch: jax.tree.map(jax.numpy.asarray, batch),
    "tree.map with paths": lambda batch: jax.tree_util.tree_map_with_path(
        lambda path, leaf: jax.device_put(leaf), batch
    ),
    "tree inside another": lambda batch: jax.device_put({"of": [batch]})["of"][0],
}


@pytest.mark.parametrize("form", [{}, {"history": 3}], ids=["plain", "windows"])
@pytest.mark.parametrize("call", CALLS)
def test_what_jax_has_of_a_batch_stays_when_it_is_filled_again(
    call: str, form: dict[str, Any]
) -> None:
    buf = filled()
    kept = [
        (CALLS[call](batch), copied(batch))
        for batch in buf.sampler(seed=1, **form).batches(64, limit=12, reuse=True)
    ]
    sampler = buf.sampler(seed=2, **form)
    batch = sampler.sample(64)
    for _ in range(12):
        kept.append((CALLS[call](batch), copied(batch)))
        sampler.sample(64, out=batch)
    for there, then in kept:
        assert isinstance(there, bc.Batch)
        assert same(there, then)


SHARING: dict[str, Callable[[bc.Batch], bc.Batch]] = {
    "copy.copy": copy.copy,
    "Batch": bc.Batch,
    "to_numpy": bc.Batch.to_numpy,
}


@pytest.mark.parametrize("share", SHARING.values(), ids=SHARING)
def test_a_batch_that_shares_the_arrays_of_another_is_copied_too(
    share: Callable[[bc.Batch], bc.Batch],
) -> None:
    sampler = filled().sampler(seed=2)
    for draw in (sampler.sample(64), share(sampler.sample(64))):
        kept = []
        for _ in range(12):
            kept.append((jax.device_put(share(draw)), copied(draw)))
            sampler.sample(64, out=draw)
        for there, then in kept:
            assert same(there, then)


def test_a_batch_on_the_device_is_a_pytree_without_copies() -> None:
    batch = jax.device_put(filled().sample(8))
    leaves = jax.tree.leaves(batch)
    assert all(one is other for one, other in zip(leaves, jax.tree.leaves(batch), strict=True))
    names = [
        jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(batch)[0]
    ]
    assert "['obs']['x']" in names
    assert list(jax.tree.map(lambda leaf: leaf, batch)) == list(batch)


def test_donation_leaves_the_batch_of_the_sampler_alone() -> None:
    batch = filled().sample(64)
    before = copied(batch)
    double = jax.jit(lambda batch: jax.tree.map(lambda leaf: leaf * 2, batch), donate_argnums=0)
    for given in (batch, jax.device_put(batch)):
        doubled = jax.block_until_ready(double(given))
        assert same(batch, before)
        assert np.array_equal(doubled["reward"], 2 * before["reward"])


def test_an_index_that_jax_cut_is_refused_and_one_of_64_bits_is_taken() -> None:
    buf = filled()
    sampler = buf.sampler(seed=1, select=bc.Priority(alpha=0.6))
    batch = sampler.sample(16)
    ones = jax.numpy.ones(16)
    cut = jax.device_put(batch).index
    assert cut.dtype == "int32"
    for narrow in (cut, list(cut), [int(batch.index[0]), cut[1]]):
        for call in (
            buf.gather,
            sampler.gather,
            lambda index: sampler.update_priorities(index, ones),
        ):
            with pytest.raises(bc.errors.SampleError, match=r"\bint32\b.*\bjax_enable_x64\b"):
                call(narrow)
    assert sampler.update_priorities(batch.index, ones) == 0
    with jax.enable_x64(True):
        whole = jax.device_put(batch).index
        assert whole.dtype == "int64"
        assert np.array_equal(buf.gather(whole).index, batch.index)


@pytest.mark.parametrize("batches", [False, True])
def test_an_array_that_jax_shares_is_not_filled_again_by_its_sampler(batches: bool) -> None:
    """A sampler reuses the memory of dropped batches, which JAX may still show."""
    sampler = filled().sampler(seed=3)
    drawn = sampler.batches(64, limit=12) if batches else (sampler.sample(64) for _ in range(12))
    kept = []
    for batch in drawn:
        # Without a copy by `backcast.jax`, since these are arrays outside of a batch.
        there = {"obs": {"x": jax.device_put(batch["obs"]["x"])}}
        there["reward"] = jax.jit(lambda array: array)(batch["reward"])
        kept.append((there, copied(batch)))
        del batch
    for there, then in kept:
        assert same(there, then)
