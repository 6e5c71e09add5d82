"""Values of another dtype in a row: overflows are refused, and fractions for integers."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import pytest

GO_ON: dict[str, Any] = {"terminated": False, "truncated": False}


def kept(dtype: str, value: Any) -> Any:  # noqa: ANN401
    with (
        bc.ReplayBuffer.create(None, {"x": (dtype, np.shape(value))}, capacity=10) as buf,
        buf.writer() as writer,
    ):
        writer.append(x=value, **GO_ON)
        return buf.rows(0, 0, 1)["x"][0]


@pytest.mark.parametrize(
    ("dtype", "value", "limit"),
    [
        ("f4", 1e300, "3.4028235e38"),
        ("f4", np.float64(-1e39), "3.4028235e38"),
        ("f4", np.array([0.0, 1e300]), "3.4028235e38"),
        ("f4", [0.0, 1e300], "3.4028235e38"),
        ("f2", 70000.0, "65504"),
        ("f2", 70000, "65504"),
        ("f2", np.array([70000]), "65504"),
        ("f2", np.array([7e4, 0], "f4"), "65504"),
        ("u1", 300, "255"),
        ("u1", np.array([300.0]), "255"),
        ("i4", 3e9, "2147483647"),
        ("i8", np.array([1e300]), "9223372036854775807"),
    ],
)
def test_overflows_are_refused_with_the_limits(dtype: str, value: Any, limit: str) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.AppendError, match=dtype) as refused:
        kept(dtype, value)
    assert limit in str(refused.value)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f4", np.inf),
        ("f4", -np.inf),
        ("f4", np.array([np.nan, np.inf])),
        ("f4", 3.4028235e38),
        ("f2", 65504.0),
        ("f2", np.array([65519.0])),
    ],
)
def test_infinities_and_values_in_range_are_stored(dtype: str, value: Any) -> None:  # noqa: ANN401
    np.testing.assert_array_equal(kept(dtype, value), np.asarray(value).astype(dtype))


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1"])
@pytest.mark.parametrize(
    "value", [3.0, np.float32(3), np.array([3.0, 0.0]), [3.0, 1], np.array([2], "f2")]
)
def test_whole_floats_are_taken_for_integers(dtype: str, value: Any) -> None:  # noqa: ANN401
    np.testing.assert_array_equal(kept(dtype, value), np.asarray(value))


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, np.array([1.0, 1.5]), [2, 2.5]])
def test_other_floats_are_not(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.AppendError, match=r"\bi4\b"):
        kept("i4", value)


FLAGS = [0, 1, 0.0, 1.0, np.int64(1), np.uint8(0), np.float32(1), [0], [1.0]]


@pytest.mark.parametrize("flag", [*FLAGS, np.array([1]), np.array([0.0]), np.bool_(1)])
@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_exact_zeros_and_ones_are_flags(name: str, flag: Any) -> None:  # noqa: ANN401
    end = bool(np.asarray(flag).reshape(-1)[0])
    with (
        bc.ReplayBuffer.create(None, {"obs": "f4", "seen": "bool"}, capacity=10) as buf,
        buf.writer() as writer,
    ):
        writer.append(obs=1, next_obs=2, seen=flag, **GO_ON | {name: flag})
        writer.extend(obs=[3], next_obs=[4], seen=[end], **{k: [0.0] for k in GO_ON})
        rows = buf.rows(0, 0, 1)
        assert rows["flags"][0] == (0 if not end else 1 if name == "terminated" else 2)
        assert rows["seen"][0] == end


@pytest.mark.parametrize("flag", [2, -1, 0.5, np.nan, "yes", np.array([2])])
def test_other_values_are_no_flags(flag: Any) -> None:  # noqa: ANN401
    with (
        bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=10) as buf,
        buf.writer() as writer,
    ):
        with pytest.raises(bc.errors.AppendError, match="terminated"):
            writer.append(obs=1, next_obs=2, terminated=flag, truncated=False)
        assert writer.rows_written == 0


@pytest.mark.parametrize(("rows", "lanes", "least"), [(1, 1, 2), (10, 16, 17), (16, 16, 17)])
def test_a_ring_that_never_holds_a_transition_is_refused(rows: int, lanes: int, least: int) -> None:
    create = bc.ReplayBuffer.create
    with pytest.raises(bc.errors.ArgumentError, match=rf"\b{least}\b"):
        create(None, {"obs": "f4"}, capacity=rows, lanes=lanes)
    with create(None, {"obs": "f4"}, capacity=least, lanes=lanes) as buf:
        with buf.writer() as writer:
            writer.append(obs=1, next_obs=2, **GO_ON)
        assert len(buf) == 1
