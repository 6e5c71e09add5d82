"""Arguments of methods that take none, missing arguments of appends, and limits of a wait."""

from __future__ import annotations

from typing import Any

import backcast as bc
import pytest
from backcast.errors import AppendError, ArgumentError, ArgumentTypeError

METHODS = {
    "buffer": ("close", "stats", "unlink"),
    "writer": ("close", "reserve"),
    "sampler": ("close", "state"),
    "batches": ("close",),
    "lease": ("close",),
    "row": ("commit", "abort"),
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in METHODS for name in METHODS[k]])
def test_a_method_without_arguments_says_so(kind: str, name: str, named: bool) -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100) as buf, buf.writer() as writer:
        for _ in range(9):
            writer.append(obs=1, terminated=False, truncated=False)
        with buf.sampler(seed=1) as sampler, buf.sampler().batches(2) as batches:
            lease = buf.lease(0, 0, 2)
            handles: dict[str, Any] = {
                "buffer": buf,
                "writer": writer,
                "sampler": sampler,
                "batches": batches,
                "lease": lease,
            }
            handle = writer.reserve() if kind == "row" else handles[kind]
            arguments: tuple[int, ...] = () if named else (3,)
            names = {"x": 3} if named else {}
            with pytest.raises(ArgumentTypeError, match=rf"^{name}\(\) "):
                getattr(handle, name)(*arguments, **names)
            assert "closed" not in repr(handle)
            lease.close()


def test_all_missing_arguments_of_an_append_are_named_at_once() -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100) as buf, buf.writer() as writer:
        call: Any = writer
        for name in ("append", "extend"):
            with pytest.raises(AppendError, match=r"\bobs, terminated, truncated\b"):
                getattr(call, name)()
            with pytest.raises(AppendError, match=r": obs, truncated\b"):
                getattr(call, name)(terminated=[False])
            with pytest.raises(AppendError, match="whatever_it_is"):
                getattr(call, name)(whatever_it_is=1)


def test_a_wait_says_its_upper_limits() -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100) as buf:
        with pytest.raises(ArgumentError, match=r"\b2\*\*64\b"):
            buf.wait(1, timeout=1e300)
        with pytest.raises(ArgumentError, match=r"\b2\*\*64 - 1\b"):
            buf.wait(rows_published=2**64, timeout=60)
