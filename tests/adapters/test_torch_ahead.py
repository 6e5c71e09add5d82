"""Batches that are copied to a device ahead, with a stand-in whose copies end as late as they may.

No GPU is needed: the code of the copies is that of GPUs, but for the stream and the events.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.torch as ours  # noqa: E402
from backcast.torch import _pool, _sampler, _transfer  # noqa: E402
from torch.utils import data  # noqa: E402
from torch_helpers import DelayedCopies, assert_same, fill, filled  # noqa: E402

FORMS: list[dict[str, Any]] = [
    {},
    {"history": 4},
    {"history": 3, "future": 2, "boundary": "clamp"},
    {"n_step": 3, "gamma": 0.9},
    {"form": bc.Sequence(4)},
    {"select": bc.Priority(alpha=0.6)},
]
IDS = [",".join(form) or "plain" for form in FORMS]


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Callable[..., DelayedCopies]:
    """Make samplers of the CPU copy by a stand-in."""

    def use(**options: Any) -> DelayedCopies:
        stand_in = DelayedCopies(**options)
        monkeypatch.setattr(_sampler, "transfer_to", lambda device: stand_in)
        return stand_in

    return use


def plain(buf: bc.ReplayBuffer, seed: int | None = 7, **form: Any) -> ours.Sampler:
    """Return a sampler of separate tensors, which nothing copies ahead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sampler, "transfer_to", lambda device: None)
        return ours.Sampler(buf, seed=seed, contiguous=True, **form)


def await_drawn(sampler: ours.Sampler, items: int) -> None:
    """Wait until the thread has drawn at least so many items."""
    for _ in range(3_000):
        if sampler.sampler.sampled >= items:
            return
        time.sleep(0.01)
    raise AssertionError(f"{sampler.sampler.sampled} items were drawn in 30 s, not {items}")


@pytest.mark.parametrize("form", FORMS, ids=IDS)
@pytest.mark.parametrize(("prefetch", "polls"), [(0, 0), (1, 0), (3, 0), (1, 1_000), (3, 2)])
def test_batches_ahead_are_those_of_samples(
    copies: Callable[..., DelayedCopies], form: dict[str, Any], prefetch: int, polls: int
) -> None:
    stand_in = copies(polls=polls)
    buf = filled()
    sampler, expected = ours.Sampler(buf, seed=7, **form), plain(buf, **form)
    kept = []
    for batch in sampler.batches(8, prefetch, limit=12):
        kept.append(batch)
        assert len(stand_in.pending) <= prefetch + 1
        if prefetch and polls == 0:
            await_drawn(sampler, 8 * min(12, len(kept) + 1))
    assert not stand_in.pending
    assert stand_in.allocated == stand_in.released == 1
    assert len(kept) == 12
    for batch in kept:
        assert type(batch) is bc.Batch
        assert_same(batch, expected.sample(8))
    assert_same(plain(buf, None, state=sampler.state()).sample(8), expected.sample(8))


def test_a_batch_that_is_filled_again_too_early_would_be_noticed(
    copies: Callable[..., DelayedCopies], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies(polls=1_000)
    buf = filled()
    for broken in ("take_done", "wait"):
        with monkeypatch.context() as patch:
            if broken == "take_done":
                patch.setattr(_pool.Pool, "take_done", lambda pool, places: list(places))
            else:
                patch.setattr(_pool.Pool, "take_done", lambda pool, places: list(places))
                patch.setattr(_pool.Pool, "wait", lambda pool, place: None)
            sampler, expected = ours.Sampler(buf, seed=7), plain(buf)
            kept = list(sampler.batches(8, 1, limit=12))
            same = [torch.equal(one.index, expected.sample(8).index) for one in kept]
            assert not all(same), broken
            sampler = ours.Sampler(buf, seed=7)
            patch.setattr(_pool.Pool, "wait", lambda pool, place: None)
            kept, expected = [sampler.sample(8) for _ in range(6)], plain(buf)
            sampler.close()
            same = [torch.equal(one.index, expected.sample(8).index) for one in kept]
            assert not all(same), broken


@pytest.mark.parametrize("form", FORMS, ids=IDS)
@pytest.mark.parametrize("polls", [0, 1_000])
def test_samples_take_two_batches_of_memory_in_turn(
    copies: Callable[..., DelayedCopies], form: dict[str, Any], polls: int
) -> None:
    stand_in = copies(polls=polls)
    buf = filled()
    sampler, expected = ours.Sampler(buf, seed=7, **form), plain(buf, **form)
    kept, wanted = [], []
    for size in (8, 8, np.int64(8), 8, 5, np.int32(5), 5, 8):
        kept.append(sampler.sample(size))  # type: ignore[arg-type]
        wanted.append(expected.sample(int(size)))
        # Two of each size.
        assert len(stand_in.pending) <= (2 if len(kept) <= 4 else 4)
    again = sampler.gather(wanted[0].index)
    assert stand_in.begun == 8, "a gather is copied at once"
    assert_same(again, expected.gather(wanted[0].index))
    assert (stand_in.allocated, stand_in.released) == (2, 0)
    sampler.close()
    assert stand_in.released == 2
    for one, other in zip(kept, wanted, strict=True):
        assert_same(one, other)


def test_memory_is_kept_for_the_last_four_batch_sizes(
    copies: Callable[..., DelayedCopies],
) -> None:
    stand_in = copies(polls=1_000)
    buf = filled()
    sampler, expected = ours.Sampler(buf, seed=7), plain(buf)

    kept, wanted = [], []

    def draw(*sizes: int) -> tuple[int, int]:
        for size in sizes:
            kept.append(sampler.sample(size))
            wanted.append(expected.sample(size))
        return stand_in.allocated, stand_in.released

    assert draw(3, 4, 5, 6, 3, 4, 5, 6, 3) == (4, 0)
    # The one that was used longest ago goes: that of 4.
    assert draw(7, 3, 5, 6, 7) == (5, 1)
    assert draw(4, 7, 6, 5, 4) == (6, 2)
    sampler.close()
    assert stand_in.released == 6
    for one, other in zip(kept, wanted, strict=True):
        assert_same(one, other)


def test_tensors_are_changed_after_they_were_handed_over(
    copies: Callable[..., DelayedCopies],
) -> None:
    copies(reads_when_handed_over=True)
    buf = filled()

    def twice(batch: bc.Batch) -> tuple[Any, Any]:
        return batch["obs"]["image"] * 2, batch.index

    options = {"history": 3, "float_obs": True, "transform": twice}
    sampler, expected = ours.Sampler(buf, seed=7, **options), plain(buf, **options)
    rows = plain(buf).sample(5).index
    drawn = [sampler.sample(8), *sampler.batches(8, limit=6), sampler.gather(rows)]
    wanted = [*(expected.sample(8) for _ in range(7)), expected.gather(rows)]
    for one, other in zip(drawn, wanted, strict=True):
        assert one[0].dtype == torch.float32
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


SELECTORS = [
    "uniform",
    bc.Priority(alpha=0.6),
    bc.Recency(40),
    bc.Epoch(seed=5),
    bc.Consume(shuffle=True),
]


@pytest.mark.parametrize("select", SELECTORS, ids=[str(s).partition("(")[0] for s in SELECTORS])
@pytest.mark.parametrize("limit", [None, 6])
def test_a_loop_that_is_left_loses_and_repeats_no_batch(
    copies: Callable[..., DelayedCopies], select: Any, limit: int | None
) -> None:
    stand_in = copies(polls=0)
    limiter = bc.RateLimiter(min_size=1)
    buf, twin = filled(limiter=limiter), filled()
    sampler = ours.Sampler(buf, seed=7, select=select)
    reference = plain(twin, select=select)
    seen = []
    for left_after in (2, 3, 1):
        before = stand_in.handed_over
        for batch in sampler.batches(8, 3, limit=limit):
            seen.append(batch)
            if stand_in.handed_over - before == left_after:
                break
            await_drawn(sampler, 8 * (len(seen) + 3))
            assert sampler.state()["batches"] == len(seen)
        assert not stand_in.pending
        assert sampler.state()["batches"] == len(seen)
        assert buf.limiter.samples == 8 * len(seen)
    assert stand_in.begun > stand_in.handed_over, "no batch was ahead when the loop was left"
    seen.append(sampler.sample(8))
    sampler.close()
    drawn = [reference.sample(8) for _ in seen]
    reference.close()
    for one, other in zip(seen, drawn, strict=True):
        assert torch.equal(one.index, other.index)


def test_a_closed_sampler_gives_back_claims_of_batches_ahead(
    copies: Callable[..., DelayedCopies],
) -> None:
    stand_in = copies(polls=0)
    buf = filled()
    expected = filled().sampler(select=bc.Consume()).sample(24).index
    sampler = ours.Sampler(buf, select=bc.Consume())
    batches = iter(sampler.batches(8, 4))
    first = next(batches)
    await_drawn(sampler, 24)
    second = next(batches)
    assert stand_in.begun > 2
    sampler.close()
    with pytest.raises(bc.ClosedError):
        next(batches)
    batches.close()
    assert stand_in.released == 1
    third = buf.sampler(select=bc.Consume()).sample(8).index
    rows = np.concatenate([first.index.numpy(), second.index.numpy(), third])
    assert np.array_equal(rows, expected)


class StopError(Exception):
    """Error of a function of the caller."""


@pytest.mark.parametrize("error", [StopError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
@pytest.mark.parametrize("where", ["copy", "transform", "loop"])
def test_an_error_leaves_no_copy_under_way_and_loses_no_batch(
    copies: Callable[..., DelayedCopies], error: BaseException, where: str
) -> None:
    stand_in = copies(polls=1_000, reads_when_handed_over=where == "transform")
    stand_in.error = error
    fails = [False]

    def transform(batch: bc.Batch) -> Any:
        if where == "transform" and fails.pop():
            raise error
        fails.append(where == "transform" and len(seen) == 2)
        return batch.index

    buf = filled()
    sampler = ours.Sampler(buf, seed=7, transform=transform)
    seen: list[Any] = []

    def loop() -> None:
        for batch in sampler.batches(8, 2, limit=6):
            seen.append(batch)
            if where == "copy":
                stand_in.fails_after = stand_in.begun
            elif where == "loop":
                raise error

    with pytest.raises(type(error)) as raised:
        loop()
    del raised
    gc.collect()
    assert not stand_in.pending
    assert stand_in.released == stand_in.allocated
    stand_in.fails_after = None
    fails[:] = [False]
    where = "nowhere"
    assert sampler.state()["batches"] == len(seen)
    seen.extend(sampler.batches(8, 2, limit=3))
    expected = plain(buf)
    drawn = [expected.sample(8).index for _ in seen]
    sampler.close()
    assert all(torch.equal(*pair) for pair in zip(seen, drawn, strict=True))


def test_a_transform_that_returns_none_is_refused(copies: Callable[..., DelayedCopies]) -> None:
    copies(reads_when_handed_over=True)
    sampler = ours.Sampler(filled(), seed=7, transform=lambda batch: None)
    for draw in (lambda: sampler.sample(4), lambda: list(sampler.batches(4, limit=2))):
        with pytest.raises(bc.errors.SampleError, match=r"transform returned None"):
            draw()
    assert sampler.state()["batches"] == 0


def test_what_fails_ahead_is_raised_in_its_place(copies: Callable[..., DelayedCopies]) -> None:
    stand_in = copies(polls=0)
    buf = filled(rows=30)
    sampler, seen = ours.Sampler(buf, select=bc.Consume()), []
    whole = len(buf) // 8

    def loop() -> None:
        for batch in sampler.batches(8, 16, timeout=0.05):
            seen.append(batch)
            await_drawn(sampler, 8 * whole)

    with pytest.raises(bc.WaitTimeoutError):
        loop()
    assert len(seen) == whole
    assert not stand_in.pending
    assert sampler.state()["batches"] == whole
    twin = filled(rows=30)
    other = plain(twin, select=bc.Consume())
    expected = [other.sample(8).index for _ in range(whole)]
    with pytest.raises(bc.WaitTimeoutError):
        other.sample(8, timeout=0)
    fill(buf, 10, first=30)
    fill(twin, 10, first=30)
    seen.extend(sampler.batches(8, 2, limit=1))
    expected.append(other.sample(8).index)
    sampler.close()
    for batch, index in zip(seen, expected, strict=True):
        assert torch.equal(batch.index, index)


@pytest.mark.parametrize("change", ["clear", "resize", "append", "priorities"])
def test_the_ring_may_change_while_batches_are_ahead(
    copies: Callable[..., DelayedCopies], change: str, place: Path
) -> None:
    copies(polls=0)
    buf = filled(name="ahead", dir=place)
    sampler = ours.Sampler(buf, seed=7, select=bc.Priority(alpha=0.6))
    seen = []
    for batch in sampler.batches(8, 3, limit=8):
        seen.append(batch)
        if len(seen) != 2:
            continue
        await_drawn(sampler, 40)
        if change == "clear":
            buf.clear()
            fill(buf, 50, first=1_000)
        elif change == "resize":
            buf.resize(4_000)
        elif change == "append":
            fill(buf, 600, first=1_000)
        elif change == "priorities":
            # Those ahead were drawn before, as with `prefetch` on the CPU.
            sampler.update_priorities(batch.index.clone(), torch.full((8,), 9.0))
    assert len(seen) == 8
    for batch in seen:
        # Each transition is whole: both columns tell its step.
        day = batch["day"].abs() % 251 + (batch.index >> 48)
        assert torch.equal(batch["obs"]["image"][:, 0, 0].long(), day)
    sampler.close()
    buf.unlink()


def test_samplers_of_one_ring_have_memory_of_their_own(
    copies: Callable[..., DelayedCopies],
) -> None:
    copies(polls=1)
    buf = filled()
    one, other = ours.Sampler(buf, seed=1), ours.Sampler(buf, seed=2)
    pairs = list(zip(one.batches(8, 2, limit=6), other.batches(8, 2, limit=6), strict=True))
    for drawn, seed in zip(zip(*pairs, strict=True), (1, 2), strict=True):
        expected = plain(buf, seed=seed)
        assert all(torch.equal(batch.index, expected.sample(8).index) for batch in drawn)
    loader = one.batches(8, 2, limit=3)
    assert len(list(data.DataLoader(loader, batch_size=None))) == 3
    batches = iter(loader)
    next(batches)
    for draw in (lambda: next(iter(one.batches(8))), lambda: one.sample(8)):
        with pytest.raises(bc.errors.SampleError, match="draws ahead"):
            draw()
    batches.close()


def test_batches_of_no_fixed_size_are_copied_when_they_are_drawn(
    copies: Callable[..., DelayedCopies],
) -> None:
    stand_in = copies()
    buf = filled()
    for options, size in (
        ({"form": bc.WholeEpisodes(layout="ragged")}, 3),
        ({"select": bc.Consume()}, None),
    ):
        sampler = ours.Sampler(buf, seed=7, **options)
        expected = plain(filled(), **options)
        assert_same(sampler.sample(size), expected.sample(size))
    assert stand_in.begun == 0
    with pytest.raises(bc.errors.SampleError):
        next(iter(ours.Sampler(buf, form=bc.WholeEpisodes(layout="ragged")).batches(3)))


def test_too_many_batches_ahead_are_refused_before_memory_is_taken(
    copies: Callable[..., DelayedCopies],
) -> None:
    stand_in = copies()
    sampler = ours.Sampler(filled(), seed=7)
    with pytest.raises(bc.errors.SampleError, match=r"5000.*1024"):
        next(iter(sampler.batches(8, 5_000)))
    assert stand_in.allocated == 0
    scheduled = ours.Sampler(filled(), select=bc.Priority(beta=lambda batch: 0.5))
    with pytest.raises(bc.errors.SampleError, match="beta"):
        next(iter(scheduled.batches(8)))
    assert stand_in.allocated == stand_in.released


def test_rewards_of_hindsight_are_of_the_goals_in_the_batch(
    copies: Callable[..., DelayedCopies],
) -> None:
    copies(polls=2)
    columns = {
        "obs": {"observation": "f4", "achieved_goal": ("f4", (1,)), "desired_goal": ("f4", (1,))},
        "action": "i4",
        "reward": "f4",
    }
    buf = bc.ReplayBuffer.create(None, columns, capacity=300)
    with buf.writer(1, autoreset_mode="same_step") as writer:
        for t in range(200):
            obs = {"observation": t, "achieved_goal": [t % 10], "desired_goal": [3]}
            is_last = t % 10 == 9
            ends = {
                "terminated": False,
                "truncated": is_last,
                "final_obs": obs if is_last else None,
            }
            writer.append(obs=obs, action=0, reward=-1, **ends)

    def reward(achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.abs(achieved - desired).sum(axis=-1) > 0.5).astype("f4")

    form = {"hindsight": bc.Hindsight(reward, ratio=0.8)}
    sampler, expected = ours.Sampler(buf, seed=7, **form), plain(buf, **form)
    kept = list(sampler.batches(16, 2, limit=8))
    for batch in kept:
        assert_same(batch, expected.sample(16))
    assert any((batch["reward"] == 0).any() for batch in kept)


def in_child(work: Callable[[], bool]) -> bool:
    """Run `work` in a forked child; return whether it returned True."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    for _ in range(6_000):
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(code) == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the child has not ended in 60 s")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*multithreaded.*:RuntimeWarning")
def test_a_forked_child_neither_draws_nor_unlocks_what_is_the_parents(
    copies: Callable[..., DelayedCopies],
) -> None:
    stand_in = copies(polls=1)
    buf = filled()
    sampler = ours.Sampler(buf, seed=7)
    kept = []
    batches = iter(sampler.batches(8, 2, limit=6))
    kept.append(next(batches))

    def child() -> bool:
        try:
            next(batches)
        except bc.BackcastError:
            batches.close()
            return stand_in.released == 0
        return False

    assert in_child(child)
    kept.extend(batches)
    expected = plain(buf)
    assert all(torch.equal(batch.index, expected.sample(8).index) for batch in kept)


def test_memory_that_a_fork_would_move_is_not_given_to_a_child() -> None:
    memory = _transfer.private_memory(10_000)
    memory[:] = 7
    assert in_child(lambda: not memory.any())
    assert (memory == 7).all()
    assert memory.ctypes.data % 4_096 == 0
    with pytest.raises(ValueError, match="0 bytes"):
        _transfer.private_memory(0)


class Runtime:
    """Stand-in for the CUDA runtime that PyTorch has."""

    def __init__(self, status: int) -> None:
        self.status, self.calls = status, []

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802
        self.calls.append(("register", address, size, flags))
        return self.status

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802
        self.calls.append(("unregister", address))
        return 0

    def cudaGetErrorString(self, status: int) -> str:  # noqa: N802
        return f"error {status} of the driver"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    class Device:
        def __init__(self, device: Any) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *error: object) -> None: ...

    def of(status: int) -> tuple[Runtime, Any]:
        fake = Runtime(status)
        monkeypatch.setattr(torch.cuda, "cudart", lambda: fake)
        monkeypatch.setattr(torch.cuda, "device", Device)
        transfer = _transfer.CudaTransfer.__new__(_transfer.CudaTransfer)
        transfer._device = torch.device("cpu")
        return fake, transfer

    return of


def test_the_page_lock_is_of_the_pool_and_ends_before_its_memory(
    runtime: Callable[[int], Any],
) -> None:
    fake, transfer = runtime(0)
    blank = filled().sampler(seed=1)._blank(8)
    pool = _pool.Pool(blank, 3, transfer)
    ((name, address, size, flags),) = fake.calls
    assert (name, flags) == ("register", 0)
    places = [leaf.ctypes.data for batch in pool.batches for leaf in leaves_of(batch)]
    assert address == min(places)
    ends = [leaf.ctypes.data + leaf.nbytes for batch in pool.batches for leaf in leaves_of(batch)]
    assert max(ends) <= address + size
    kept = pool.batches[0]["reward"]
    del pool
    gc.collect()
    assert fake.calls[1:] == [("unregister", address)]
    kept[:] = 1


def test_a_copy_that_did_not_begin_is_waited_for_with_all_others(
    runtime: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, transfer = runtime(0)
    pool = _pool.Pool(filled().sampler(seed=1)._blank(8), 2, transfer)
    drained: list[int] = []

    def begin(batch: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(transfer, "begin", begin)
    monkeypatch.setattr(transfer, "drain", lambda: drained.append(1))
    with pytest.raises(KeyboardInterrupt):
        pool.begin(pool.batches[1])
    assert (pool.busy, pool.take_done(iter([0, 1]))) == ([1], [0])
    pool.wait(0)
    assert drained == []
    pool.wait(1)
    assert (pool.busy, drained) == ([], [1])
    pool.close()


def leaves_of(values: dict[str, Any]) -> list[Any]:
    found = []
    for value in values.values():
        found.extend(leaves_of(value) if isinstance(value, dict) else [value])
    return found


@pytest.mark.parametrize("has_pinned", [True, False])
def test_memory_that_cannot_be_locked_says_why(
    runtime: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch, has_pinned: bool
) -> None:
    fake, transfer = runtime(304)
    empty, zeros = torch.empty, torch.zeros
    probed = []

    def pinned(*shape: Any, pin_memory: bool = False, **options: Any) -> Any:
        if pin_memory and not has_pinned:
            raise RuntimeError("no memory to pin")
        return empty(*shape, **options)

    def probe(*shape: Any, **options: Any) -> Any:
        probed.append(shape)
        return zeros(*shape, **options)

    monkeypatch.setattr(torch, "empty", pinned)
    monkeypatch.setattr(torch, "zeros", probe)
    blank = filled().sampler(seed=1)._blank(8)
    why = "PyTorch's pinned memory" if has_pinned else "not asynchronous"
    with pytest.warns(RuntimeWarning, match=f"error 304 of the driver.*{why}"):
        pool = _pool.Pool(blank, 2, transfer)
    # CUDA shows the error at the next kernel, unless it is taken before.
    assert len(probed) == (1 if has_pinned else 2)
    pool.close()
    assert [call[0] for call in fake.calls] == ["register"]
