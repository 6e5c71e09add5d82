"""Batches as tensors: values, shared memory, devices, transforms, pytrees, pickles, DLPack."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import backcast as bc
import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.torch as ours  # noqa: E402
from torch.utils import _pytree, data  # noqa: E402

FORMS: list[dict[str, Any]] = [
    {},
    {"history": 3},
    {"history": 3, "future": 2, "n_step": 2, "gamma": 0.9},
    {"history": 1, "boundary": "clamp"},
]


def filled() -> bc.ReplayBuffer:
    columns = {
        "obs": {"image": ("u1", (4, 5)), "x": "f4"},
        "day": ("i4", (), "obs"),
        "action": ("f4", (2,)),
        "reward": "f8",
        "half": "f2",
    }
    buf = bc.ReplayBuffer.create(None, columns, capacity=200)
    draw = np.random.default_rng(0)

    def seen() -> dict[str, Any]:
        return {"image": draw.integers(0, 255, (4, 5), "u1"), "x": draw.normal()}

    with buf.writer(1, autoreset_mode="next_step") as writer:
        for t in range(150):
            writer.append(
                obs=seen(),
                day=t,
                action=draw.normal(size=2),
                reward=float(t % 9 != 0),
                half=t,
                terminated=t % 9 == 8,
                truncated=False,
            )
    return buf


def leaves(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    found = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= leaves(value, f"{path}{key}/")
        else:
            found[path + key] = value
    return found


@pytest.mark.parametrize("form", FORMS, ids=[",".join(form) or "plain" for form in FORMS])
@pytest.mark.parametrize("contiguous", [None, True, False])
def test_tensors_hold_what_the_arrays_hold(form: dict[str, Any], contiguous: bool | None) -> None:
    buf = filled()
    arrays = buf.sampler(seed=7, copy=bool(contiguous), **form)
    tensors = ours.Sampler(buf, seed=7, contiguous=contiguous, **form)
    for _ in range(3):
        one, other = arrays.sample(16), tensors.sample(16)
        assert isinstance(other, bc.Batch)
        its = leaves(other)
        for key, array in leaves(one).items():
            assert np.array_equal(its[key].numpy(), array), key
            assert str(its[key].dtype).removeprefix("torch.") == str(array.dtype)
            if contiguous or (contiguous is None and array.dtype.kind == "f"):
                assert its[key].is_contiguous()
    again = tensors.gather(other.index)
    assert all(torch.equal(value, its[key]) for key, value in leaves(again).items() if key != "age")
    state = ours.Sampler(buf, state=tensors.state(), contiguous=contiguous)
    assert torch.equal(state.sample(8).index, tensors.sample(8).index)


@pytest.mark.parametrize("contiguous", [None, True, False])
def test_columns_of_bfloat16_are_tensors_of_it(contiguous: bool | None) -> None:
    columns = {"obs": ("bfloat16", (3,)), "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=50)
    values = torch.arange(90, dtype=torch.float32).reshape(30, 3).to(torch.bfloat16)
    bits = values.view(torch.uint16).numpy()
    with buf.writer(1, autoreset_mode="next_step") as writer:
        for t in range(30):
            writer.append(obs=bits[t], reward=1, terminated=t == 20, truncated=False)
    sampler = ours.Sampler(buf, seed=3, contiguous=contiguous, history=2, future=1)
    batch = sampler.sample(16)
    assert batch["obs"].dtype == batch["next_obs"].dtype == torch.bfloat16
    assert batch["future"]["obs"].dtype == torch.bfloat16
    seen = batch["obs"][:, -1]
    assert torch.equal(seen, values[batch.index & (2**48 - 1)])
    arrays = batch.to_numpy()
    assert arrays["obs"].tobytes() == batch["obs"].contiguous().view(torch.uint16).numpy().tobytes()
    again = buf.sampler(seed=3, history=2).sample(16).to_torch()
    assert torch.equal(again["obs"].view(torch.bfloat16), batch["obs"])


def test_windows_share_one_memory_without_a_warning() -> None:
    batch = ours.Sampler(filled(), seed=1, history=4, contiguous=False).sample(8)
    obs, following = batch["obs"]["image"], batch["next_obs"]["image"]
    assert obs.untyped_storage().data_ptr() == following.untyped_storage().data_ptr()
    assert torch.equal(obs[:, 1:], following[:, :-1])


def test_a_tensor_keeps_its_numbers_when_everything_else_is_gone() -> None:
    buf = filled()
    sampler = ours.Sampler(buf, seed=1, history=4, contiguous=False)
    kept = sampler.sample(64)["obs"]["image"]
    before = kept.clone()
    for _ in range(20):
        sampler.sample(64)
    sampler.close()
    buf.close()
    del buf, sampler
    gc.collect()
    assert torch.equal(kept, before)


@pytest.mark.parametrize("form", FORMS, ids=[",".join(form) or "plain" for form in FORMS])
def test_float_obs_scales_observations_alone(form: dict[str, Any]) -> None:
    buf = filled()
    plain = leaves(ours.Sampler(buf, seed=7, **form).sample(16))
    scaled = leaves(ours.Sampler(buf, seed=7, float_obs=True, **form).sample(16))
    for key, value in plain.items():
        if key.endswith("image"):
            assert value.dtype == torch.uint8
            assert torch.equal(scaled[key], value.float() / 255)
        else:
            assert torch.equal(scaled[key], value), key


def test_a_loader_draws_ahead_what_samples_would_be_and_goes_on() -> None:
    buf = filled()
    one, other = ours.Sampler(buf, seed=3, history=2), ours.Sampler(buf, seed=3, history=2)
    loader = one.batches(8, prefetch=3, limit=5)
    assert len(loader) == 5
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == 5
        for batch in batches:
            assert torch.equal(batch.index, other.sample(8).index)
    for batch in one.batches(8):
        assert torch.equal(batch.index, other.sample(8).index)
        break
    assert torch.equal(one.sample(8).index, other.sample(8).index)
    with pytest.raises(TypeError, match="limit="):
        len(one.batches(8))
    rows = list(data.DataLoader(loader, batch_size=None))
    assert [type(row) for row in rows] == [bc.Batch] * 5


def test_batches_are_pytrees() -> None:
    batch = filled().sampler(seed=1, history=2).sample(4)
    moved = _pytree.tree_map(lambda leaf: leaf * 1, batch)
    assert isinstance(moved, bc.Batch)
    assert list(moved) == list(batch)
    assert np.array_equal(moved.index, batch.index)
    names = [_pytree.keystr(path) for path, _ in _pytree.tree_flatten_with_path(batch)[0]]
    assert "['obs']['image']" in names


def test_batches_go_there_and_back_and_pickle() -> None:
    batch = filled().sampler(seed=1, history=3, future=1).sample(4)
    tensors = batch.to_torch()
    for other in (
        tensors.to_numpy(),
        pickle.loads(pickle.dumps(batch)),
        pickle.loads(pickle.dumps(tensors)).to_numpy(),
        copy.deepcopy(batch),
        batch.to_numpy(),
    ):
        assert isinstance(other, bc.Batch)
        its = leaves(other)
        assert all(np.array_equal(array, its[key]) for key, array in leaves(batch).items())
    assert np.shares_memory(tensors.to_numpy()["reward"], batch["reward"])


def test_dlpack_takes_what_is_contiguous_and_says_what_to_do_about_the_rest() -> None:
    buf = filled()
    for batch in (buf.sample(4), buf.sample(4, history=3, copy=True)):
        for key, array in leaves(batch.to_dlpack()).items():
            assert np.array_equal(torch.from_dlpack(array).numpy(), leaves(batch)[key])
    with pytest.raises(bc.errors.SampleError, match=r"`obs/image`.*copy=True"):
        buf.sample(4, history=3).to_dlpack()


def test_wrong_arguments_of_a_sampler_are_refused() -> None:
    buf = filled()
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"backcast.ReplayBuffer"):
        ours.Sampler(buf.sampler())
    with pytest.raises(bc.errors.ArgumentTypeError, match="contiguous="):
        ours.Sampler(buf, copy=True)
    with pytest.raises(bc.errors.ArgumentTypeError, match="histroy"):
        ours.Sampler(buf, histroy=3)
    with pytest.raises(bc.errors.ArgumentError, match=r"\bbatch_size\b.*\b0\b"):
        ours.Sampler(buf).batches(0)
    for wrong in ({"contiguous": 1}, {"float_obs": None}, {"transform": 3}, {"device": 1.5}):
        (name,) = wrong
        with pytest.raises(bc.errors.ArgumentTypeError, match=rf"\b{name}\b"):
            ours.Sampler(buf, **wrong)
    vectors = bc.ReplayBuffer.create(None, {"obs": "f4", "picture": "u1"}, capacity=9)
    with pytest.raises(bc.errors.ArgumentError, match=r"\bfloat_obs\b.*\buint8\b"):
        ours.Sampler(vectors, float_obs=True)
    with pytest.raises(bc.errors.SampleError, match=r"select=bc\.Priority\("):
        ours.Sampler(buf).update_priorities(torch.tensor([0]), torch.tensor([1.0]))


def test_an_index_of_a_narrow_tensor_is_refused() -> None:
    sampler = ours.Sampler(filled(), seed=1, select=bc.Priority(alpha=0.6))
    index = sampler.sample(8).index
    for narrow in (
        index.int(),
        index.short(),
        index.double(),
        list(index.int()),
        [0, index.int()[1]],
    ):
        with pytest.raises(bc.errors.SampleError, match=r"(int|float)\d+"):
            sampler.gather(narrow)
        with pytest.raises(bc.errors.SampleError, match=r"(int|float)\d+"):
            sampler.update_priorities(narrow, torch.ones(len(narrow)))
    assert torch.equal(sampler.gather(list(index)).index, index)


@pytest.mark.parametrize(
    "kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64]
)
def test_priorities_are_set_from_tensors(kind: torch.dtype) -> None:
    buf = filled()
    sampler = ours.Sampler(buf, seed=1, select=bc.Priority(alpha=1.0))
    order = buf.transitions()
    index = torch.from_numpy(order.index_at(np.arange(len(order))))
    priority = torch.zeros(len(index), dtype=kind)
    priority[5] = 4
    if kind.is_floating_point:
        priority.requires_grad_()
    assert sampler.update_priorities(index, priority) == 0
    drawn = sampler.sample(256)
    assert (drawn.index == index[5]).float().mean() > 0.9
    assert sampler.stats()["sampled"] == 256
    assert sampler.stats() == sampler.sampler.stats()


def test_priorities_of_windows_are_mixed_as_those_of_arrays() -> None:
    buf = filled()
    errors = torch.arange(24.0).reshape(8, 3)
    mask = torch.ones(8, 3, dtype=torch.bool)
    mask[:, 0] = False
    states = []
    for tensors in (True, False):
        sampler = ours.Sampler(
            buf, seed=1, select=bc.Priority(alpha=1.0, table=f"t{int(tensors)}"), history=3
        )
        index = sampler.sample(8).index
        if tensors:
            sampler.update_priorities(index, errors, mask=mask, eta=0.5, timeout=1)
        else:
            arrays = (each.numpy() for each in (index, errors))
            sampler.sampler.update_priorities(*arrays, mask=mask.numpy(), eta=0.5)
        states.append(sampler.sample(64)["weight"])
    assert torch.equal(*states)


class TensorDict(dict[str, Any]):
    """Dict of tensors, as another library has it."""


def test_a_transform_gets_tensors_and_its_result_is_handed_out() -> None:
    buf = filled()
    plain = ours.Sampler(buf, seed=7, history=2, float_obs=True)
    seen: list[Any] = []

    def keep(batch: bc.Batch) -> TensorDict:
        seen.append(batch)
        return TensorDict(reward=batch["reward"] * 2)

    results: list[tuple[Any, Any]] = [
        (
            keep,
            lambda one, got: (
                type(got) is TensorDict and torch.equal(got["reward"], one["reward"] * 2)
            ),
        ),
        (
            lambda batch: (batch["reward"], 3),
            lambda one, got: torch.equal(got[0], one["reward"]) and got[1] == 3,
        ),
        (lambda batch: batch | {"two": 2}, lambda one, got: got["two"] == 2),
        (lambda batch: batch, lambda one, got: type(got) is bc.Batch),
        (lambda batch: batch["reward"].sum(), lambda one, got: got == one["reward"].sum()),
    ]
    for transform, fits in results:
        plain = ours.Sampler(buf, seed=7, history=2, float_obs=True)
        sampler = ours.Sampler(buf, seed=7, history=2, float_obs=True, transform=transform)
        one = plain.sample(8)
        assert fits(one, sampler.sample(8))
        assert fits(one, sampler.gather(one.index))
        for expected, got in zip(
            plain.batches(8, limit=3), sampler.batches(8, limit=3), strict=True
        ):
            assert fits(expected, got)
    for batch in seen:
        assert type(batch) is bc.Batch
        assert all(isinstance(leaf, torch.Tensor) for leaf in leaves(batch).values())
        assert batch["obs"]["image"].dtype == torch.float32


def test_a_batch_whose_transform_fails_is_drawn_again() -> None:
    buf = filled()
    expected = ours.Sampler(buf, seed=7).sample(8).index
    for result, error in [(ValueError("no"), ValueError), (None, bc.errors.SampleError)]:
        fails = [True]

        def transform(batch: bc.Batch, fails: list[bool] = fails, result: Any = result) -> Any:
            if fails.pop() if fails else False:
                if isinstance(result, Exception):
                    raise result
                return result
            return batch

        sampler = ours.Sampler(buf, seed=7, transform=transform)
        with pytest.raises(error):
            sampler.sample(8)
        assert torch.equal(sampler.sample(8).index, expected)


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("cudaa", "'cudaa', which PyTorch does not know"),
        ("cuda:-1", "'cuda:-1', which PyTorch does not know"),
        ("", "'', which PyTorch does not know"),
        ("cuda:99", r"'cuda:99', and PyTorch finds \d CUDA devices here"),
        (99, r"'99', and PyTorch finds \d CUDA devices here"),
        ("meta", "'meta', which holds no values"),
        ("vulkan", "'vulkan', and PyTorch has no such device here"),
    ],
)
def test_a_device_that_is_not_here_is_refused_when_the_sampler_is_made(
    device: Any, why: str
) -> None:
    buf = filled()
    with pytest.raises(bc.errors.ArgumentError, match=rf'\bdevice\b.*{why}.*"cpu"'):
        ours.Sampler(buf, device=device)
    with pytest.raises(bc.errors.ArgumentError, match=rf"\bdevice\b.*{why}"):
        buf.sample(4).to_torch(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_gpu_that_is_not_there_is_counted() -> None:
    for device in ("cuda", torch.device("cuda")):
        with pytest.raises(bc.errors.ArgumentError, match=r"'cuda'.*\bPyTorch\b.*\b0\b.*\bCUDA\b"):
            ours.Sampler(filled(), device=device)


@pytest.mark.parametrize("device", ["cpu", "cpu:0", torch.device("cpu"), None])
def test_the_cpu_shares_memory_under_each_of_its_names(device: Any) -> None:
    buf = filled()
    assert ours.Sampler(buf, device=device).sample(4)["reward"].device.type == "cpu"
    batch = buf.sample(4)
    assert np.shares_memory(batch.to_torch(device)["reward"].numpy(), batch["reward"])


def test_a_draw_waits_no_longer_than_it_may() -> None:
    buf = bc.ReplayBuffer.create(
        None, {"obs": "f4"}, capacity=50, limiter=bc.RateLimiter(8, min_size=20, error_buffer=100)
    )
    sampler = ours.Sampler(buf, seed=1)
    with pytest.raises(bc.RateLimitTimeoutError):
        sampler.sample(4, timeout=0)
    with pytest.raises(bc.RateLimitTimeoutError):
        list(sampler.batches(4, timeout=0))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("form", FORMS, ids=[",".join(form) or "plain" for form in FORMS])
def test_tensors_on_a_gpu_hold_what_the_arrays_hold(form: dict[str, Any]) -> None:
    buf = filled()
    arrays = buf.sampler(seed=7, copy=True, **form)
    tensors = ours.Sampler(buf, seed=7, device="cuda", **form)
    drawn = [(arrays.sample(64), batch) for batch in tensors.batches(64, limit=20)]
    for one, other in drawn:
        its = leaves(other)
        for key, array in leaves(one).items():
            assert its[key].is_cuda
            assert np.array_equal(its[key].cpu().numpy(), array), key
