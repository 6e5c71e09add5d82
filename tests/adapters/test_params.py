"""Parameters as ``state_dict`` of PyTorch: dtypes, strides, refusals, and a second process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import backcast as bc
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)


def network(seed: int) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 2)
    )


def test_a_network_is_pulled_in_place_with_its_buffers(place: Path) -> None:
    mine, theirs = network(0), network(1)
    mine(torch.ones(2, 3, 3, 3))  # one batch is tracked
    with (
        bc.Params.create("net", mine.state_dict(), dir=place) as learner,
        bc.Params.attach("net", like=theirs.state_dict(), dir=place) as actor,
    ):
        assert learner.publish(mine.state_dict()) == 1
        places = [tensor.data_ptr() for tensor in theirs.state_dict().values()]
        assert actor.pull(out=theirs.state_dict()) == 1
        assert places == [tensor.data_ptr() for tensor in theirs.state_dict().values()]
        for name, tensor in mine.state_dict().items():
            assert torch.equal(theirs.state_dict()[name], tensor), name
        assert int(theirs[1].num_batches_tracked) == 1
        latest = actor.latest()
        assert type(latest) is type(theirs.state_dict())
        theirs.load_state_dict(latest)
        # Parameters that require gradients are filled too, and stay leaves.
        with torch.no_grad():
            mine[3].weight.fill_(2.0)
        learner.publish(dict(mine.named_parameters()) | dict(mine.named_buffers()))
        pulled = dict(theirs.named_parameters()) | dict(theirs.named_buffers())
        assert actor.pull(out=pulled) == 2
        assert theirs[3].weight.is_leaf
        assert bool((theirs[3].weight == 2.0).all())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "uint8", "bool"])
def test_every_type_and_stride_of_a_tensor_is_kept(place: Path, dtype: str) -> None:
    kind = getattr(torch, dtype)
    tensor = (torch.arange(24).reshape(4, 6) % 2).to(kind)
    trees = {"plain": tensor, "turned": tensor.t(), "part": tensor[:, ::2], "one": tensor[0, 0]}
    with bc.Params.create("kinds", trees, dir=place) as params:
        params.publish(trees)
        out = {name: torch.full_like(tree, 0) for name, tree in trees.items()}
        out["turned"] = torch.zeros(4, 6, dtype=kind).t()  # not contiguous: copied through a buffer
        assert params.pull(out=out) == 1
        for found in (out, params.latest()):
            for name, tree in trees.items():
                assert found[name].dtype == kind
                assert torch.equal(found[name], tree), name


def test_an_actor_process_fills_its_network(place: Path) -> None:
    mine = network(3)
    script = """
import sys, backcast as bc, torch
net = torch.nn.Linear(4, 2)
params = bc.Params.attach("head", dir=sys.argv[1])
params.wait(1, timeout=60)
params.pull(out=net.state_dict())
print(repr(float(net.weight.detach().double().sum())))
"""
    head = mine[3]
    with bc.Params.create("head", head.state_dict(), dir=place) as params:
        params.publish(head.state_dict())
        sources = [entry for entry in sys.path if entry]
        ran = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:0] = {sources!r}\n{script}", place],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert float(ran.stdout) == float(head.weight.detach().double().sum())


def test_shapes_and_types_of_another_network_are_refused(place: Path) -> None:
    net = torch.nn.Linear(4, 2)
    with bc.Params.create("net", net.state_dict(), dir=place) as params:
        with pytest.raises(bc.errors.SchemaError, match=r"`weight`.*\[3.*4\].*\[2.*4\]"):
            params.publish(torch.nn.Linear(4, 3).state_dict())
        with pytest.raises(bc.errors.SchemaError, match=r"`weight`.*\bfloat64\b.*\bfloat32\b"):
            params.publish(net.double().state_dict())
        assert params.version == 0
