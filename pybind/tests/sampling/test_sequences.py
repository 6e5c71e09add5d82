"""Sequences from Python: starts, masks, first values, priorities, states, and what is refused.

The Rust tests of the core compare the draws of every selector with a list of the rows.
"""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from backcast import returns
from counted_ring import COLUMNS, filled, write

ENDS = 17
Boundary = Literal["mask", "reject", "clamp"]


def starts_of(steps: int, ends: int, form: bc.Sequence, boundary: Boundary) -> list[int]:
    """Return the steps at which sequences start, in a run of episodes of ``ends`` steps each."""
    found = set()
    length, stride = form.length, form.stride or form.length
    for begin in range(0, steps, ends):
        is_over = begin + ends <= steps
        # The newest step has no successor yet.
        count = ends if is_over else steps - begin - 1
        starts = range(0, count, stride)
        whole = {t for t in starts if t + length <= count}
        late = set(starts) - whole if is_over else set()
        if boundary == "clamp":
            late = {max(count - length, 0)} if late else set()
        found |= {begin + t for t in (whole | late if boundary != "reject" else whole)}
    return sorted(found)


@pytest.mark.parametrize("boundary", ["mask", "reject", "clamp"])
@pytest.mark.parametrize(("length", "stride"), [(1, 1), (5, 3), (8, 8), (20, 4), (13, None)])
@pytest.mark.parametrize("by", ["uniform", "priority"])
def test_sequences_start_every_stride_transitions_and_are_drawn_alike(
    boundary: Boundary, length: int, stride: int | None, by: str
) -> None:
    if by == "priority" and boundary == "clamp":
        pytest.skip("priorities have no moved starts")
    buf = filled(steps=200, ends=ENDS)
    form = bc.Sequence(length, stride)
    select: Any = bc.Priority(alpha=0.6) if by == "priority" else by
    sampler = buf.sampler(seed=3, form=form, boundary=boundary, select=select)
    assert sampler.form == bc.Sequence(length, stride or length, [])
    expected = starts_of(200, ENDS, form, boundary)
    if not expected:
        with pytest.raises(bc.errors.SampleError, match=rf"\b{length}\b"):
            sampler.sample(4)
        return
    batch = sampler.sample(4_000)
    places, counts = np.unique(batch["action"][:, 0], return_counts=True)
    assert places.tolist() == expected
    mean = 4_000 / len(expected)
    # With n degrees of freedom chi-square exceeds n + 4 sqrt(2 n) + 8 at most once in 7,000 seeds.
    chi2 = ((counts - mean) ** 2 / mean).sum()
    assert chi2 < len(expected) + 4 * np.sqrt(2 * len(expected)) + 8
    steps = batch["action"][:, :1] + np.arange(length)
    inside = steps < (batch["action"][:, :1] // ENDS + 1) * ENDS
    np.testing.assert_array_equal(batch.mask, inside)
    np.testing.assert_array_equal(batch["action"], np.where(inside, steps, 0))
    state = pickle.loads(pickle.dumps(sampler.state()))
    again = buf.sampler(state=state)
    assert again.form == sampler.form
    np.testing.assert_array_equal(again.sample(7).index, sampler.sample(7).index)
    np.testing.assert_array_equal(sampler.gather(batch.index)["action"], batch["action"])


@pytest.mark.parametrize("length", [80, 81, 119, 120, 150, 159])
def test_the_sequences_of_r2d2_show_every_step_of_every_episode(length: int) -> None:
    buf = filled(steps=6 * length + 9, ends=length, capacity=2_000)
    for boundary in ("mask", "clamp"):
        form = bc.Sequence(80, stride=40, first=["reward"])
        sampler = buf.sampler(seed=7, form=form, boundary=boundary)
        batch = sampler.sample(2_000)
        assert batch["reward"].shape == (2_000,)
        assert "next_reward" not in batch
        seen = np.unique(batch["action"][batch.mask])
        assert set(range(6 * length)) == set(seen.tolist())
        assert (batch["terminated"] | batch["truncated"]).any()
        # `fifo` draws the same starts, all of them, in order.
        starts = np.unique(batch.index)
        ordered = buf.sampler(form=form, boundary=boundary, select="fifo")
        np.testing.assert_array_equal(ordered.sample(starts.size).index, starts)


def test_columns_learned_values_copies_and_threads_go_with_sequences() -> None:
    buf = filled(steps=200, ends=ENDS)
    form = bc.Sequence(6, stride=3, first=["reward"])
    table = buf.table("values", learned={"value": "f4"})
    named = buf.sampler(seed=1, form=form, columns=["action"], learned=table)
    batch = named.sample(32)
    assert (batch["action"].shape, batch["reward"].shape) == ((32, 6), (32,))
    assert (batch["value"].shape, batch["value_set"].shape) == ((32, 6), (32, 6))
    assert "obs" not in batch
    assert "terminated" not in batch
    plain = buf.sampler(seed=1, form=form)
    apart = buf.sampler(seed=1, form=form, copy=True).sample(32)
    shared = plain.sample(32)
    own, seen = apart["obs"]["x"], shared["obs"]["x"]
    assert own.flags.writeable
    assert not seen.flags.writeable
    np.testing.assert_array_equal(own[apart.mask], seen[shared.mask])
    np.testing.assert_array_equal(apart["next_obs"]["x"], shared["next_obs"]["x"])
    assert apart.mask is not None
    assert not own[~apart.mask].any()
    rewarded = buf.sampler(seed=1, form=bc.Sequence(6, stride=3)).sample(32)
    sums = returns.discounted(rewarded, gamma=1.0)
    np.testing.assert_allclose(sums[:, 0], rewarded["reward"].sum(axis=1), rtol=1e-6)
    alone = [plain.sample(8).index for _ in range(4)]
    fresh = buf.sampler(seed=1, form=form)
    fresh.sample(32)
    with fresh.batches(8, prefetch=2, limit=4) as ahead:
        for batch, index in zip(ahead, alone, strict=True):
            np.testing.assert_array_equal(batch.index, index)


def test_sequences_that_show_only_values_at_the_start_have_a_mask() -> None:
    buf = filled(steps=200, ends=ENDS)
    table = buf.table("values", learned={"value": "f4"})
    shown = bc.Sequence(6, stride=6, first=["reward", "action"])
    named = buf.sampler(seed=1, form=shown, columns=["reward", "action"], learned=table)
    every = buf.sampler(seed=1, form=bc.Sequence(6, stride=6))
    batch = named.sample(32)
    assert (batch["reward"].shape, batch["value"].shape) == ((32,), (32, 6))
    np.testing.assert_array_equal(batch["mask"], every.sample(32)["mask"])


def test_priorities_are_those_of_the_starts() -> None:
    buf = filled(steps=200, ends=ENDS)
    form = bc.Sequence(8, stride=4)
    sampler = buf.sampler(seed=3, form=form, select=bc.Priority(alpha=1.0, eps=0.0))
    batch = sampler.sample(256)
    assert sampler.update_priorities(batch.index, np.full(256, 1e-6)) == 0
    errors = np.abs(np.sin(np.arange(256 * 8))).reshape(256, 8)
    assert sampler.update_priorities(batch.index, errors, mask=batch.mask) == 0
    between = buf.sampler(form=bc.Sequence(1), select="fifo").sample(20).index
    dropped = sampler.update_priorities(between, np.ones(20))
    assert dropped == sum(step % ENDS % 4 != 0 for step in range(20))
    others: list[tuple[dict[str, Any], str]] = [
        ({"form": bc.Sequence(8, stride=2)}, r"\b4\b.*\b2\b"),
        ({}, r"\b4\b"),
    ]
    for other, words in others:
        with pytest.raises(bc.ExistsError, match=words):
            buf.sampler(select=bc.Priority(alpha=1.0, eps=0.0), **other)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"history": 4}, "history"),
        ({"history": {"obs": 4}}, "form"),
        ({"history": {"obs": None}}, "form"),
        ({"history": {"reward": "first"}}, "form"),
        (
            {"history": 4, "columns": ["reward"], "form": bc.Sequence(8, first=["reward"])},
            "history",
        ),
        ({"future": 4}, "future"),
        ({"n_step": 3, "gamma": 0.9}, "n-step"),
        ({"gamma": 0.9}, "form"),
        ({"form": bc.Sequence(0)}, "length"),
        ({"form": bc.Sequence(8, 9)}, "9"),
        ({"form": bc.Sequence(8, 0)}, "stride"),
        ({"form": bc.Sequence(8, first=["none"])}, "none"),
        ({"form": bc.Sequence(5_000)}, "5000"),
        (
            {"select": bc.Priority(), "boundary": "clamp"},
            'boundary="clamp"',
        ),
    ],
)
def test_what_does_not_go_with_sequences_is_refused(settings: dict[str, Any], words: str) -> None:
    buf = filled(steps=60, ends=ENDS)
    with pytest.raises(bc.errors.SampleError) as refused:
        buf.sampler(**{"form": bc.Sequence(8), **settings})
    assert words in str(refused.value)


def test_types_of_fields_are_refused_with_what_they_take() -> None:
    buf = filled(steps=60, ends=ENDS)
    for form, words in (
        (bc.Sequence("8"), "length"),  # type: ignore[arg-type]
        (bc.Sequence(8, first="lstm"), r"\bfirst\b.*'lstm'"),
        (80, "bc.Sequence"),
    ):
        with pytest.raises(bc.errors.ArgumentTypeError, match=words):
            buf.sampler(form=form)  # type: ignore[arg-type]
    with pytest.raises(bc.errors.ArgumentTypeError, match="`length`"):
        bc.Sequence(seq_len=8)  # type: ignore[call-arg]
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"form=bc\.Sequence"):
        buf.sampler(history=8, stride=4)  # type: ignore[call-arg]
    assert dataclasses.replace(bc.Sequence(8), stride=4) == bc.Sequence(8, 4)


def test_states_saved_before_there_were_sequences_draw_their_windows() -> None:
    buf = filled(steps=200, ends=ENDS)
    state = buf.sampler(seed=3, history=5).state() | {"stride": 3, "draws": 2}
    drawn = buf.sampler(state=state).sample(2_000)["action"][:, -1]
    last = ENDS - 1
    expected = [s for s in range(199) if (s % ENDS - 4) % 3 == 0 or s % ENDS == last]
    assert np.unique(drawn).tolist() == expected
    again = buf.sampler(state=buf.sampler(state=state).state())
    np.testing.assert_array_equal(again.sample(2_000)["action"][:, -1], drawn)


def test_a_table_of_starts_is_saved_and_loaded_with_its_stride(tmp_path: Path) -> None:
    form, by = bc.Sequence(8, stride=4), bc.Priority(alpha=1.0, eps=0.0)
    named = bc.ReplayBuffer.create("starts", COLUMNS, capacity=400)
    write(named, 120, ENDS)
    sampler = named.sampler(seed=3, form=form, select=by)
    batch = sampler.sample(512)
    sampler.update_priorities(batch.index, np.full(512, 1e-6))
    named.snapshot("one", store=tmp_path)
    loaded = bc.ReplayBuffer.load("starts@one", "again", store=tmp_path)
    with pytest.raises(bc.ExistsError, match=r"\b4\b"):
        loaded.sampler(select=by)
    # Also in rows written after the load, only multiples of the stride have a priority.
    write(loaded, 60, ENDS)
    between = loaded.sampler(form=bc.Sequence(1), select="fifo").sample(160).index
    first, end = loaded.lane_span(0)
    steps = loaded.rows(0, first, end - first)["t"][between - first]
    dropped = loaded.sampler(form=form, select=by).update_priorities(between, np.ones(160))
    assert dropped == (steps % 4 != 0).sum() > 60
    for buf in (named, loaded):
        buf.close()


def test_sequences_after_clear_a_resize_and_beside_another_sampler() -> None:
    form = bc.Sequence(6, stride=3)
    buf = filled(steps=100, ends=ENDS)
    buf.clear()
    with pytest.raises(bc.errors.SampleError):
        buf.sampler(form=form).sample(1)
    write(buf, 100, ENDS)
    assert (buf.sampler(seed=1, form=form).sample(200).index >= 100).all()
    buf = bc.ReplayBuffer.create("resized", COLUMNS, capacity=400)
    write(buf, 100, ENDS)
    before = np.unique(buf.sampler(seed=1, form=form).sample(2_000).index)
    buf.resize(4_000)
    np.testing.assert_array_equal(
        np.unique(buf.sampler(seed=1, form=form).sample(2_000).index), before
    )
    # Two samplers of one `Consume` table share the starts.
    drawn = [buf.sampler(form=form, select=bc.Consume()) for _ in range(2)]
    half = [
        sampler.sample(1, timeout=0).index[0] for _ in range(before.size // 2) for sampler in drawn
    ]
    assert sorted(half) == before.tolist()[: len(half)]


def test_a_limiter_counts_each_sequence_as_one_item() -> None:
    limiter = bc.RateLimiter(0.5, min_size=10, error_buffer=20)
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=400, limiter=limiter)
    write(buf, 40, ENDS)
    sampler = buf.sampler(seed=1, form=bc.Sequence(6, stride=3))
    assert buf.limiter is not None
    sampler.sample(7, timeout=0)
    assert buf.limiter.samples == 7
    with pytest.raises(bc.RateLimitTimeoutError):
        sampler.sample(100, timeout=0)
