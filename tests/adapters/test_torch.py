"""Batches as tensors: the numbers of the arrays, their memory, pytrees, pickles, DLPack."""

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
    with pytest.raises(TypeError, match="give limit="):
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


def test_batches_are_pytrees_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
    import backcast.jax

    assert backcast.jax.__all__ == []
    batch = filled().sample(4)
    moved = jax.tree.map(jax.numpy.asarray, batch)
    assert isinstance(moved, bc.Batch)
    assert np.array_equal(moved.to_numpy()["reward"], batch["reward"].astype("f4"))


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
    with pytest.raises(bc.SampleError, match=r"`obs/image` is a window .* copy=True"):
        buf.sample(4, history=3).to_dlpack()


def test_wrong_arguments_of_a_sampler_are_refused() -> None:
    buf = filled()
    with pytest.raises(bc.ArgumentTypeError, match=r"give a backcast.ReplayBuffer"):
        ours.Sampler(buf.sampler())
    with pytest.raises(bc.ArgumentTypeError, match="contiguous="):
        ours.Sampler(buf, copy=True)
    with pytest.raises(bc.ArgumentTypeError, match="histroy"):
        ours.Sampler(buf, histroy=3)
    with pytest.raises(bc.ArgumentError, match="batch_size is 0"):
        ours.Sampler(buf).batches(0)


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
