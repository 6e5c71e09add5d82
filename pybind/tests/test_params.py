"""Parameters: nested arrays of a policy, published by one process and pulled by others."""

from __future__ import annotations

import collections
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import _trees
from conftest import Child


def weights(value: float) -> dict[str, Any]:
    return {
        "body": {"weight": np.full((64, 4), value, "f4"), "bias": np.full(4, value, "f8")},
        "heads": [np.full(3, value, "f2"), np.full((2, 2), int(value), "i8")],
        "step": np.int64(value),
    }


def test_a_nested_dict_is_pulled_once_in_place(place: Path) -> None:
    with (
        bc.Params.create("policy", weights(0), dir=place) as learner,
        bc.Params.attach("policy", dir=place) as actor,
    ):
        mine = weights(0)
        mine["step"] = np.zeros((), "i8")
        assert (actor.version, actor.pull(mine)) == (0, None)
        assert [learner.publish(weights(n)) for n in (1, 2, 3)] == [1, 2, 3]
        assert actor.pull(out=mine) == 3
        np.testing.assert_array_equal(mine["body"]["weight"], np.full((64, 4), 3, "f4"))
        assert (int(mine["step"]), mine["heads"][1].tolist()) == (3, [[3, 3], [3, 3]])
        assert (actor.pull(mine), actor.pulled, actor.versions) == (None, 3, [1, 2, 3])
        # Without `out`, `pull` fills the handle's own arrays, which stay the same objects.
        assert learner.publish(weights(4), version=40) == 40
        bias = actor.arrays["body"]["bias"]
        assert actor.pull() == 40
        assert bias.tolist() == [4.0] * 4
        assert actor.stats()["pulls"] == 2


def test_latest_returns_new_arrays_in_the_structure_of_like(place: Path) -> None:
    Heads = collections.namedtuple("Heads", "policy value")
    like = collections.OrderedDict(b=Heads(np.zeros(2, "f4"), (np.zeros(3, "i4"),)), a=np.zeros(()))
    with bc.Params.create("tree", like, dir=place) as params:
        with pytest.raises(bc.NotFoundError, match="`tree`"):
            params.latest()
        params.publish(like)
        found = params.latest()
        assert type(found) is collections.OrderedDict
        assert list(found) == ["b", "a"]
        assert type(found["b"]).__name__ == "Heads"
        assert isinstance(found["b"].value, tuple)
        found["a"][...] = 7.0
        assert float(params.latest()["a"]) == 0.0
        other = bc.Params.attach("tree", dir=place)
        assert list(other.latest()["b"]["1"]) == ["0"]
        other.close()


def test_a_view_is_read_only_and_keeps_its_version_while_an_array_of_it_lives(
    place: Path,
) -> None:
    params = bc.Params.create("seen", weights(0), dir=place)
    params.publish(weights(1))
    with params.view() as view:
        array = view["body"]["weight"][3:9]
        assert (view.version, array.flags.writeable) == (1, False)
    assert view.closed
    for n in range(2, 20):
        params.publish(weights(n))
    assert array.tolist() == [[1.0] * 4] * 6
    second = params.view()
    params.publish(weights(20))
    with pytest.raises(bc.errors.LeaseError, match=r"\b21\b"):
        params.publish(weights(21))
    assert params.stats()["refused"] == 1
    del array, view
    gc.collect()
    assert params.publish(weights(21)) == 21
    second.close()
    params.close()


def test_one_handle_publishes_and_the_right_passes_on(place: Path) -> None:
    first = bc.Params.create("p", {"w": np.zeros(2)}, dir=place)
    second = bc.Params.attach("p", dir=place)
    first.publish({"w": np.ones(2)})
    with pytest.raises(bc.errors.InUseError, match=r"`p`.*\d+"):
        second.publish({"w": np.ones(2)})
    first.close()
    assert second.claim() == 1
    assert second.publish({"w": np.ones(2)}) == 2
    with pytest.raises(bc.ClosedError):
        first.pull()
    second.close()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"w": np.zeros(2, "f4"), "b": np.zeros(1)}, r"`w`.*\bfloat32\b.*\bfloat64\b"),
        ({"w": np.zeros(3), "b": np.zeros(1)}, r"`w`.*\[3\].*\[2\]"),
        ({"w": np.zeros(2)}, "`b`"),
        ({"w": np.zeros(2), "b": np.zeros(1), "c": np.zeros(1)}, "`c`"),
        ({"w": np.zeros(2), "b": object()}, r"`b`.*\bwhich\b"),
    ],
)
def test_arrays_that_differ_are_refused_and_change_nothing(
    place: Path, arrays: dict[str, Any], said: str
) -> None:
    with bc.Params.create("p", {"w": np.zeros(2), "b": np.zeros(1)}, dir=place) as params:
        for call in (params.publish, params.pull):
            if call == params.pull:
                params.publish({"w": np.zeros(2), "b": np.zeros(1)})
            with pytest.raises(bc.errors.SchemaError, match=said):
                call(arrays)
        assert (params.version, params.pulled) == (1, 0)


def test_refused_versions_names_and_outs(place: Path) -> None:
    like = {"w": np.zeros(2)}
    params = bc.Params.create("p", like, dir=place)
    params.publish(like, version=7)
    for version in (0, 7, 2**60):
        with pytest.raises(bc.errors.ArgumentError, match=rf"\b{version}\b.*\b7\b"):
            params.publish(like, version=version)
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    with pytest.raises(bc.errors.SchemaError, match="`w`"):
        params.pull({"w": frozen})
    with pytest.raises(bc.NotFoundError, match=r"\b3\b.*\[7\]"):
        params.latest(3)
    with pytest.raises(bc.ExistsError, match="`p`"):
        bc.Params.create("p", like, dir=place)
    with pytest.raises(bc.ExistsError, match=r"`w`.*\(f8\[2\]\)"):
        bc.Params.create("p", {"w": np.zeros(3)}, exist="attach", dir=place)
    with pytest.raises(bc.NotFoundError, match="`q`"):
        bc.Params.attach("q", dir=place)
    with pytest.raises(bc.errors.SchemaError, match=r"\b0\b"):
        bc.Params.create("q", {}, dir=place)
    with pytest.raises(bc.errors.SchemaError, match=r"`a`.*`a/b`"):
        bc.Params.create("q", {"a": np.zeros(1), "a/b": np.zeros(1)}, dir=place)
    with pytest.raises(bc.WaitTimeoutError, match=r"\b7\b"):
        params.wait(8, timeout=0.01)
    params.unlink()
    with pytest.raises(bc.NotFoundError):
        params.wait(8)
    params.close()


def test_a_killed_publisher_leaves_the_last_version_and_a_successor_continues(
    place: Path, start: Callable[..., Child]
) -> None:
    params = bc.Params.create("p", {"w": np.zeros(100_000)}, dir=place)
    child = start("""
import backcast as bc, numpy as np
params = bc.Params.attach("p")
for n in range(1, 10**9):
    params.publish({"w": np.full(100_000, float(n))})
    if n == 20:
        print("twenty", flush=True)
""")
    assert params.wait(20, timeout=60) >= 20
    child.kill()
    child.wait(60)
    last = params.version
    found = params.latest()["w"]
    assert (found == last).all()
    assert params.publish({"w": np.zeros(100_000)}) == last + 1
    params.close()


def test_parameters_pickle_by_name_and_are_listed(place: Path) -> None:
    params = bc.Params.create("p", weights(0), persistent=True, dir=place)
    params.publish(weights(5))
    again = pickle.loads(pickle.dumps(params))
    assert again.pull() == 1
    assert int(again.arrays["heads"][1][0, 0]) == 5
    (listed,) = bc.list_objects(dir=place)
    assert (listed["name"], listed["kind"], listed["persistent"]) == ("p", "params", True)
    params.close()
    again.close()
    assert bc.remove_object("p", kind="params", dir=place)["kind"] == "params"
    with pytest.raises(bc.errors.ArgumentTypeError):
        pickle.dumps(bc.Params.create(None, {"w": np.zeros(1)}))


def test_tensors_are_filled_in_place(place: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    with bc.Params.create("net", net.state_dict(), dir=place) as params:
        params.publish(net.state_dict())
        other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        assert params.pull(out=other.state_dict()) == 1
        for mine, theirs in zip(other.parameters(), net.parameters(), strict=True):
            assert torch.equal(mine, theirs)
        assert isinstance(params.latest()["0.weight"], torch.Tensor)


def test_pytrees_are_rebuilt(place: Path) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    tree = {"dense": {"kernel": jax.numpy.ones((2, 3)), "bias": jax.numpy.zeros(3)}}
    with bc.Params.create("flax", tree, dir=place) as params:
        params.publish(tree)
        found = params.latest()
        assert isinstance(found["dense"]["kernel"], jax.Array)
        assert jax.numpy.array_equal(found["dense"]["kernel"], tree["dense"]["kernel"])
        # The version that `latest` returns counts as pulled.
        assert (params.pulled, params.pull()) == (1, None)
        assert params.publish(tree) == 2
        with pytest.raises(bc.errors.SchemaError, match=r"`\w+(/\w+)*`"):
            params.pull(out=tree)


def test_arrays_of_jax_do_not_change_with_the_next_pull() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    memory = np.zeros(1 << 16, "u1")
    # JAX shares memory only if it is aligned like its own.
    begin = -memory.ctypes.data % 64
    array = memory[begin : begin + 4096].view("f4")
    found = _trees.from_array(array, "jax")
    array[:] = 1
    assert float(found.sum()) == 0.0
    assert isinstance(found, jax.Array)


def test_trees_of_jax_keep_their_structure() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    State = collections.namedtuple("State", "net opt step")
    net = {"w": jax.numpy.ones((3, 2)), "b": jax.numpy.zeros(2, jax.numpy.bfloat16)}
    tree = State(net, [jax.numpy.arange(3), None, ()], jax.numpy.int32(4))
    with bc.Params.create(None, tree) as params:
        params.publish(tree)
        found = params.latest()
    assert jax.tree.structure(found) == jax.tree.structure(tree)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(tree), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert bool((one == other).all())


def test_bfloat16_is_kept_to_the_bit(place: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    array = np.arange(8).astype(ml_dtypes.bfloat16)
    with bc.Params.create("half", {"w": array}, dir=place) as params:
        params.publish({"w": array})
        assert params.latest()["w"].astype("f4").tolist() == list(range(8))
