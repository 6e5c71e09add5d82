"""Rows of rings and panels on a device: their windows are those of the host, bit for bit."""

from __future__ import annotations

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
from backcast.torch import _resident, _resident_tables  # noqa: E402
from torch_helpers import assert_same, fill, filled  # noqa: E402

BOUNDARIES = ("mask", "clamp", "reject")
FORMS: list[dict[str, Any]] = [
    {},
    {"history": 1},
    {"history": 5},
    {"future": 3},
    {"history": 4, "future": 12},
    {"history": 30, "future": 1},
    {"n_step": 1, "gamma": 0.9},
    {"history": 3, "future": 2, "n_step": 4, "gamma": 0.97},
    {"columns": ["reward", "obs/speed"], "history": 3, "n_step": 2, "gamma": 0.5},
    {"columns": ["day"], "history": 2, "future": 1},
]
IDS = [",".join(form) or "plain" for form in FORMS]
DTYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "bool", "bfloat16"]


@pytest.mark.parametrize(
    ("columns", "narrowest"),
    [
        ({"obs": "f8", "flag": "u1", "reward": "f4"}, "flag"),
        ({"obs": "f4", "half": "bfloat16", "more": ("u1", (3,))}, "half"),
        ({"obs": ("u1", (7,)), "one": "f8"}, "obs"),
    ],
)
def test_the_column_that_stands_for_all_is_the_one_of_the_fewest_bytes(
    columns: dict[str, Any], narrowest: str
) -> None:
    buf = bc.ReplayBuffer.create(None, columns, capacity=10)
    assert _resident._narrowest(buf) == narrowest
    buf.close()


def short() -> bc.ReplayBuffer:
    """Return a ring of one lane with rows of every autoreset mode's kind and a dropped episode."""
    columns = {"obs": "i4", "reward": "f8", "discount": "f4", "policy_version": "i8"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=120, lanes=3)
    for mode, first in (("disabled", 0), ("next_step", 1_000), ("same_step", 2_000)):
        with buf.writer(3, autoreset_mode=mode) as writer:
            resets = False
            for t in range(first, first + 25):
                ends = not resets and t % 6 == 5
                step: dict[str, Any] = {
                    "obs": [t] * 3,
                    "reward": [t / 7] * 3,
                    "discount": [0.5] * 3,
                }
                step["policy_version"] = [t // 20] * 3
                if resets and mode == "next_step":
                    step["reward"] = [0.0] * 3
                if ends and mode == "same_step":
                    step["final_obs"] = [t + 500] * 3
                if ends and mode == "disabled":
                    step["next_obs"] = [t + 500] * 3
                writer.append(
                    **step, terminated=[ends, False, False], truncated=[False, ends, False]
                )
                resets = ends and mode == "next_step"
                if ends and mode == "disabled":
                    writer.restart([True, True, False])
    # The oldest episode may only have a row that is no transition.
    assert any(buf.drop_episode(1) for _ in range(2))
    return buf


def of_all_dtypes() -> bc.ReplayBuffer:
    columns: dict[str, Any] = {f"is_{dtype}": (dtype, (3,)) for dtype in DTYPES}
    columns |= {"obs": {dtype: dtype for dtype in DTYPES}}
    buf = bc.ReplayBuffer.create(None, columns, capacity=60)
    draw = np.random.default_rng(5)

    def values(dtype: str, shape: tuple[int, ...]) -> Any:
        if dtype == "bfloat16":
            return draw.integers(0, 1 << 14, shape, dtype=np.uint16)
        if dtype == "bool":
            return draw.integers(0, 2, shape).astype(bool)
        if dtype.startswith("f"):
            return draw.normal(size=shape).astype(dtype)
        return draw.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)

    with buf.writer() as writer:
        for t in range(80):
            row = {f"is_{dtype}": values(dtype, (3,)) for dtype in DTYPES}
            obs = {dtype: values(dtype, ()) for dtype in DTYPES}
            ends = {"terminated": False, "truncated": t % 11 == 10}
            writer.append(obs=obs, **row, **ends, final_obs=obs if t % 11 == 10 else None)
    return buf


RINGS: dict[str, Callable[[], bc.ReplayBuffer]] = {"filled": filled, "short": short}


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_windows_have_the_bits_of_the_hosts(ring: str, boundary: Any, form: dict[str, Any]) -> None:
    buf = RINGS[ring]()
    if ring == "short" and "columns" in form:
        form = form | {"columns": ["reward", "obs"]}
    options = {"boundary": boundary, **form}
    host = ours.Sampler(buf, seed=3, contiguous=True, **options)
    order = buf.transitions()
    index = order.index_at(np.arange(len(order)))
    drawable = host.sampler.gather(index, missing="mask").found
    if not drawable.any():
        with pytest.raises(bc.errors.SampleError, match="whole windows"):
            ours.Resident(buf, **options)
        return
    resident = ours.Resident(buf, **options)
    assert np.array_equal(resident.index.numpy(), index[drawable])
    assert len(resident) == drawable.sum()
    assert_same(resident.gather(resident.index), host.gather(resident.index))
    drawn = host.sample(64)
    assert_same(resident.gather(drawn.index), drawn)
    assert_same(resident.gather(drawn.index.flip(0)[:, None]), host.gather(drawn.index.flip(0)))


@pytest.mark.parametrize("form", [{}, {"history": 3, "future": 2}])
@pytest.mark.parametrize("boundary", ["mask", "clamp"])
def test_columns_of_every_dtype_keep_their_bits(form: dict[str, Any], boundary: Any) -> None:
    buf = of_all_dtypes()
    host = ours.Sampler(buf, contiguous=True, boundary=boundary, **form)
    resident = ours.Resident(buf, boundary=boundary, **form)
    batch = resident.gather(resident.index)
    assert batch["obs"]["bfloat16"].dtype == batch["is_bfloat16"].dtype == torch.bfloat16
    assert_same(batch, host.gather(resident.index))


@pytest.mark.parametrize("gamma", [0.9, "discount"])
def test_returns_take_the_discounts_that_the_host_takes(gamma: Any) -> None:
    buf = short()
    for boundary in ("mask", "clamp"):
        options = {"n_step": 3, "gamma": gamma, "history": 2, "boundary": boundary}
        resident = ours.Resident(buf, **options)
        host = ours.Sampler(buf, contiguous=True, **options)
        assert_same(resident.gather(resident.index), host.gather(resident.index))


def test_observations_become_floats_in_each_batch() -> None:
    buf = filled()
    host = ours.Sampler(buf, contiguous=True, float_obs=True, history=3)
    resident = ours.Resident(buf, float_obs=True, history=3)
    batch = resident.gather(resident.index)
    assert batch["obs"]["image"].dtype == torch.float32
    assert_same(batch, host.gather(resident.index))
    assert resident.nbytes < 700 * 100, "the images stay bytes"


def test_rows_stay_when_the_ring_changes_or_ends() -> None:
    buf = filled()
    select = bc.Priority(alpha=0.6)
    with buf.sampler(seed=3, select=select, columns=["reward"]) as sampler:
        index = sampler.sample(32).index
    resident = ours.Resident(buf, history=4)
    before = resident.gather(index)
    fill(buf, 500, first=900)
    with pytest.raises(bc.LappedError):
        buf.gather(index)
    newer = buf.sampler(seed=3).sample(1).index
    assert_same(resident.gather(index), before)
    buf.clear()
    buf.close()
    assert_same(resident.gather(index), before)
    with pytest.raises(bc.errors.SampleError, match=r"index\[0\].*none of the"):
        resident.gather(newer)


def test_draws_are_uniform_and_repeat_with_a_generator() -> None:
    resident = ours.Resident(filled(), history=2, boundary="reject")
    one, other = (torch.Generator().manual_seed(5) for _ in range(2))
    batch = resident.sample(64, generator=one)
    assert_same(batch, resident.sample(64, generator=other))
    assert_same(batch, resident.gather(batch.index))
    assert batch.mask is not None
    assert batch.mask.all()
    many = resident.sample(200 * len(resident), generator=one).index
    counts = torch.unique(many, return_counts=True)[1].double()
    assert len(counts) == len(resident)
    # Chi-squared over its degrees of freedom is 1, with a deviation of sqrt(2 / n).
    spread = ((counts - 200) ** 2 / 200).sum() / (len(counts) - 1)
    assert abs(spread - 1) < 6 * (2 / len(counts)) ** 0.5


def test_what_is_no_index_of_a_copied_transition_is_refused() -> None:
    buf = filled()
    resident = ours.Resident(buf)
    good = resident.index[:2]
    final = int(good[0]) + 10_000
    bad: list[tuple[Any, str]] = [
        ([], "empty"),
        (good.int(), "int32"),
        (good.double(), "float64"),
        (good.numpy().astype("i4"), "int32"),
        ([0.5], "float64"),
        ([int(good[0]), final], rf"index\[1\] = {final}"),
        ([-1], r"index\[0\] = -1"),
        ([7 << 48], r"lane 7, row 0"),
        ([2**62], r"index\[0\]"),
    ]
    for index, why in bad:
        with pytest.raises(bc.errors.SampleError, match=why):
            resident.gather(index)
    order = buf.transitions()
    rows = {int(each) for each in order.index_at(np.arange(len(order)))}
    no_transition = next(each + 1 for each in sorted(rows) if each + 1 not in rows)
    with pytest.raises(bc.errors.SampleError, match="none of the"):
        resident.gather([no_transition])
    assert resident.gather(good.tolist()).index.tolist() == good.tolist()


def test_wrong_arguments_are_refused_before_anything_is_copied() -> None:
    buf = filled()
    empty = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=9)
    bad: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: ours.Resident(buf.sampler()), bc.errors.ArgumentTypeError, "ReplayBuffer"),
        (lambda: ours.Resident(buf, history={"obs": 2}), bc.errors.ArgumentTypeError, "history"),
        (lambda: ours.Resident(buf, float_obs=1), bc.errors.ArgumentTypeError, "float_obs"),
        (lambda: ours.Resident(buf, histroy=1), bc.errors.ArgumentTypeError, "history"),
        (lambda: ours.Resident(buf, n_step=2), bc.errors.BackcastError, "gamma"),
        (lambda: ours.Resident(buf, history=10**6), bc.errors.SampleError, "history"),
        (lambda: ours.Resident(buf, history=0), bc.errors.BackcastError, "history"),
        (lambda: ours.Resident(buf, columns=["no"]), bc.errors.BackcastError, "no"),
        (lambda: ours.Resident(buf, device="cuda:99"), bc.errors.ArgumentError, "cuda:99"),
        (lambda: ours.Resident(empty), bc.errors.SampleError, "transition"),
        (lambda: ours.Resident(buf).sample(0), bc.errors.ArgumentError, "batch_size"),
    ]
    for call, error, why in bad:
        with pytest.raises(error, match=why):
            call()
    vectors = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=9)
    with pytest.raises(bc.errors.ArgumentError, match="float_obs"):
        ours.Resident(vectors, float_obs=True)


def test_a_ring_that_is_written_while_it_is_copied_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buf = filled()
    steps = _resident._steps

    def write(*arguments: Any) -> Any:
        fill(buf, 1, first=900)
        return steps(*arguments)

    monkeypatch.setattr(_resident, "_steps", write)
    with pytest.raises(bc.errors.SampleError, match="was written while it was copied"):
        ours.Resident(buf)
    monkeypatch.setattr(_resident, "_steps", lambda *given: (buf.clear(), steps(*given))[1])
    with pytest.raises(bc.errors.SampleError):
        ours.Resident(buf)


def test_rows_that_a_device_cannot_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    buf = filled()
    monkeypatch.setattr(_resident_tables, "_free_memory", lambda device: 1_000)
    with pytest.raises(bc.errors.SpaceError, match=r"KiB, and cpu has 1000 B free; .*columns="):
        ours.Resident(buf)
    monkeypatch.undo()
    zeros = torch.zeros

    def full(*shape: Any, **options: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "zeros", full)
    with pytest.raises(bc.errors.SpaceError, match=r"which cpu cannot allocate"):
        ours.Resident(buf)
    monkeypatch.setattr(torch, "zeros", zeros)
    assert len(ours.Resident(buf))


def test_the_room_that_is_asked_for_is_the_one_that_is_taken(
    prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = bc.Panel.from_csv(prices)
    taken = ours.ResidentPanel(panel).nbytes
    monkeypatch.setattr(_resident_tables, "_free_memory", lambda device: taken)
    ours.ResidentPanel(panel)
    monkeypatch.setattr(_resident_tables, "_free_memory", lambda device: taken - 1)
    with pytest.raises(bc.errors.SpaceError):
        ours.ResidentPanel(panel)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        ((1 << 20) - 1, "1024.0 KiB"),
        (3 << 19, "1.5 MiB"),
        ((1 << 30) - 1, "1024.0 MiB"),
        (5 << 29, "2.5 GiB"),
    ],
)
def test_sizes_have_the_largest_unit_that_they_reach(size: int, shown: str) -> None:
    assert _resident_tables._shown(size) == shown


def test_windows_of_a_panel_have_the_bits_of_the_hosts(prices: Path) -> None:
    panel = bc.Panel.from_csv(prices, macro=["IDX"])
    resident = ours.ResidentPanel(panel)
    days, draw = panel.n_days, np.random.default_rng(3)
    for history, future in ((5, 3), (1, 0), (0, 2), (0, 0), (days + 7, days + 9)):
        for tokens in (
            panel.tokens([*panel.tickers, "<CASH>"]),
            draw.integers(0, len(panel.tickers) + 1, (days, 2)),
        ):
            expected = panel.windows(np.arange(days), tokens, history, future)
            found = resident.windows(torch.arange(days), torch.from_numpy(tokens), history, future)
            assert_same(dict(sorted(found.items())), dict(sorted(expected.items())))
    kept = resident.windows([3], [1], 2, 2)
    expected = panel.windows([3], [1], 2, 2)
    panel.close()
    assert_same(dict(sorted(kept.items())), dict(sorted(expected.items())))
    assert_same(resident.windows([3], [[1]], 2, 2), kept)


def test_windows_beyond_a_panel_are_refused(prices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = bc.Panel.from_csv(prices)
    resident, last = ours.ResidentPanel(panel), panel.n_days - 1
    bad: list[tuple[tuple[Any, ...], str]] = [
        (([last + 1], [1], 2, 2), rf"days.*{last}"),
        (([-1], [1], 2, 2), "days"),
        (([0], [99], 2, 2), "tokens"),
        (([0], [-1], 2, 2), "tokens"),
        (([0.5], [1], 2, 2), "days"),
        (([[0, 1]], [1], 2, 2), "days"),
        (([[3]], [[1]], 2, 2), "days"),
        (([0, 1], [[1]], 2, 2), "tokens"),
        (([0], [1], 10**6, 2), "history is 1000000"),
        (([0], [1], 2, -1), "future"),
    ]
    for arguments, why in bad:
        with pytest.raises(bc.errors.PanelError, match=why):
            resident.windows(*arguments)
        with pytest.raises(bc.errors.PanelError):
            panel.windows(*arguments)
    with pytest.raises(bc.errors.ArgumentTypeError, match="Panel"):
        ours.ResidentPanel(filled())
    monkeypatch.setattr(_resident_tables, "_free_memory", lambda device: 1_000)
    with pytest.raises(bc.errors.SpaceError, match="tickers of the panel"):
        ours.ResidentPanel(panel)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_windows_on_a_gpu_have_the_bits_of_the_hosts(form: dict[str, Any]) -> None:
    buf = filled()
    host = ours.Sampler(buf, contiguous=True, **form)
    resident = ours.Resident(buf, device="cuda", **form)
    assert_same(resident.gather(resident.index).to_numpy(), host.gather(resident.index).to_numpy())
