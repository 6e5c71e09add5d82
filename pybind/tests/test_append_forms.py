"""The form in which a value is passed does not change the row that an append stores.

Arrays and numbers that need no conversion take the fast path of arguments. Lists never do, so the
row of a list is the reference.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import backcast as bc
import numpy as np
import pytest
from numpy.typing import ArrayLike
from other_threads import others_run

DTYPES = ("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
FORMS: dict[str, Callable[[np.generic], object]] = {
    "scalar": lambda value: value,
    "python": lambda value: value.item(),
    "0-d": np.asarray,
    "lane": lambda value: np.asarray([value]),
    "strided": lambda value: np.asarray([value, value])[::2],
    "readonly": lambda value: np.broadcast_to(np.asarray(value), (1,)),
    "subclass": lambda value: np.asarray([value]).view(Labelled),
    "swapped": lambda value: np.asarray([value]).astype(value.dtype.newbyteorder()),
}


class Labelled(np.ndarray):
    """A subclass of `ndarray`."""


def values(dtype: str) -> list[np.generic]:
    """Return the extremes of a dtype and a value between them; for floats also inf and NaN."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return [np.bool_(False), np.bool_(True)]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return [kind.type(number) for number in (limits.min, 1, limits.max)]
    largest = np.finfo(kind).max
    return [kind.type(number) for number in (-largest, 0.1, largest, np.inf, np.nan)]


def stored(schema: Mapping[str, Any], **given: object) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the row that an append stores, and the index that it returns."""
    with bc.ReplayBuffer.create(None, schema, capacity=8) as buf, buf.writer() as writer:
        index = writer.append(**given, terminated=False, truncated=False)
        return buf.rows(0, 0, 1), index


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_form_of_a_number_is_stored_as_a_list_of_it_is(dtype: str, form: str) -> None:
    for value in values(dtype):
        given = FORMS[form](value)
        row, index = stored({"x": dtype}, x=given)
        as_list, _ = stored({"x": dtype}, x=np.asarray([value]).tolist())
        assert row["x"].tobytes() == as_list["x"].tobytes(), (value, given)
        assert row["x"].dtype == np.dtype(dtype)
        assert index.tolist() == [0]
        assert index.dtype == np.int64


@pytest.mark.parametrize(
    ("dtype", "given"),
    [("i4", 1 << 31), ("u1", 256), ("u1", -1), ("i4", 1.5), ("bool", 2), ("f4", "x"), ("f4", None)],
)
def test_a_number_that_does_not_fit_is_refused(dtype: str, given: object) -> None:
    with pytest.raises(bc.errors.AppendError, match="`x`"):
        stored({"x": dtype}, x=given)


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        ("u8", [2**63 + 1, 5]),
        ("u8", (2**63 + 1, np.uint8(5))),
        ("u8", [np.uint64(2**64 - 1), 0]),
        ("i8", [np.uint64(2**63 - 1), -5]),
        ("u4", [np.uint64(7), np.int64(5)]),
    ],
)
def test_whole_numbers_that_numpy_makes_floats_of_are_stored_exactly(
    dtype: str, given: list[Any]
) -> None:
    with bc.ReplayBuffer.create(None, {"x": dtype}, capacity=10) as buf, buf.writer() as writer:
        ends = np.zeros(2, bool)
        writer.extend(x=given, terminated=ends, truncated=ends)
        assert buf.rows(0, 0, 2)["x"].tolist() == [int(number) for number in given]


@pytest.mark.parametrize(
    ("dtype", "given", "words"),
    [
        ("u8", [2**63 + 1, -5], rf"-5\b.*\bu8\b.*\b0\b.*\b{2**64 - 1}\b"),
        ("u8", [5, 2**64], rf"\b{2**64}\b.*\bu8\b.*\b0\b.*\b{2**64 - 1}\b"),
        ("i8", [2**200, 5], rf"\b{2**200}\b.*\bi8\b.*{-(2**63)}.*\b{2**63 - 1}\b"),
        ("i4", [2**63 + 1, 5], rf"\b{2**63 + 1}\b.*\bi4\b"),
        ("u8", [2**63 + 1, 5.5], r"\bfloat64\b"),
        ("u8", [2**64, True], r"\bu8\b"),
    ],
)
def test_whole_numbers_beyond_the_column_are_named(
    dtype: str, given: list[Any], words: str
) -> None:
    with bc.ReplayBuffer.create(None, {"x": dtype}, capacity=10) as buf, buf.writer() as writer:
        ends = np.zeros(2, bool)
        with pytest.raises(bc.errors.AppendError, match=words):
            writer.extend(x=given, terminated=ends, truncated=ends)
        assert writer.rows_written == 0


@pytest.mark.parametrize("flag", [True, np.True_, np.array(True), np.array([True]), [True]])
def test_an_end_is_seen_in_every_form_of_a_boolean(flag: ArrayLike) -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=8) as buf, buf.writer() as writer:
        for terminated, truncated in ((False, flag), (False, False), (flag, False)):
            writer.append(obs=1.0, next_obs=2.0, terminated=terminated, truncated=truncated)
            writer.restart()
        flags = buf.rows(0, 0, 6)["flags"]
        # Truncated, FINAL, no end, FINAL of the restart, GAP and terminated, FINAL.
        assert flags.tolist() == [2, 4, 0, 4, 9, 4]


def test_lines_with_other_keywords_in_another_order_take_turns() -> None:
    schema = {"obs": ("f4", (2,)), "reward": "f4", "action": "i4"}
    obs = np.array([1, 2], np.float32)
    with bc.ReplayBuffer.create(None, schema, capacity=64) as buf, buf.writer() as writer:
        by_dict: dict[str, Any] = {
            "truncated": False,
            "obs": obs,
            "action": 3,
            "reward": 4.0,
            "terminated": False,
        }
        for _ in range(4):
            writer.append(obs=obs, reward=4.0, action=3, terminated=False, truncated=False)
            writer.append(truncated=False, terminated=False, action=3, reward=4.0, obs=obs)
            writer.append(**by_dict)
            writer.append(
                obs=obs, reward=4.0, action=3, terminated=False, truncated=False, final_obs=None
            )
        rows = buf.rows(0, 0, 16)
        assert rows["obs"].tolist() == [[1.0, 2.0]] * 16
        assert rows["reward"].tolist() == [4.0] * 16
        assert rows["action"].tolist() == [3] * 16


def test_the_shortcut_leaves_alone_what_it_does_not_know() -> None:
    many = {f"x{i}": "f4" for i in range(20)}
    row, _ = stored(many, **{name: float(i) for i, name in enumerate(many)})
    assert [float(row[name][0]) for name in many] == [float(i) for i in range(20)]
    nested, _ = stored({"obs/a": "f4", "obs/b": ("f4", (2,))}, obs={"a": 1.0, "b": [2.0, 3.0]})
    assert (nested["obs"]["a"].tolist(), nested["obs"]["b"].tolist()) == ([1.0], [[2.0, 3.0]])


def test_lanes_are_written_each_from_its_own_row() -> None:
    obs = np.arange(15, dtype=np.float32).reshape(5, 3)
    quiet = np.zeros(5, bool)
    with bc.ReplayBuffer.create(None, {"obs": ("f4", (3,))}, capacity=40, lanes=5) as buf:
        writer = buf.writer(lanes=5, autoreset_mode="next_step")
        for t in range(3):
            index = writer.append(obs=obs + t, terminated=quiet, truncated=quiet)
            assert (index & ((1 << 48) - 1)).tolist() == [t] * 5
            assert (index >> 48).tolist() == list(range(5))
        for lane in range(5):
            rows = buf.rows(lane, 0, 3)["obs"]
            assert rows.tolist() == [(obs[lane] + t).tolist() for t in range(3)]
        with pytest.raises(bc.errors.AppendError, match=r"\(4,.*\(5,"):
            writer.append(obs=obs[:4], terminated=quiet, truncated=quiet)
        with pytest.raises(bc.errors.AppendError, match=r"\(4,\).*\(5,\)"):
            writer.append(obs=obs, terminated=quiet[:4], truncated=quiet)


def test_a_large_append_is_copied_with_the_interpreter_released() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (16, 210, 160, 3), dtype=np.uint8)
    quiet = np.zeros(16, bool)
    schema = {"obs": ("u1", (210, 160, 3))}
    with bc.ReplayBuffer.create(None, schema, capacity=64, lanes=16) as buf:
        writer = buf.writer(lanes=16, autoreset_mode="next_step")
        writer.append(obs=frames, terminated=quiet, truncated=quiet)
        for lane in range(16):
            assert (buf.rows(lane, 0, 1)["obs"][0] == frames[lane]).all()
        append = partial(writer.append, obs=frames, terminated=quiet, truncated=quiet)
        assert others_run(append, times=5_000)


def test_kept_indices_do_not_change() -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=64) as buf, buf.writer() as writer:
        kept = [writer.append(obs=1.0, terminated=False, truncated=False) for _ in range(5)]
        views = [
            writer.append(obs=1.0, terminated=False, truncated=False)[:1].view() for _ in range(5)
        ]
        for _ in range(5):
            writer.append(obs=1.0, terminated=False, truncated=False)
        assert [int(index[0]) for index in kept + views] == list(range(10))


def test_indices_that_were_changed_before_they_were_dropped_are_not_used_again() -> None:
    quiet = np.zeros(2, bool)
    obs = np.zeros(2, np.float32)
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=64, lanes=2) as buf:
        writer = buf.writer(lanes=2, autoreset_mode="next_step")
        changes: list[Callable[[Any], object]] = [
            lambda index: setattr(index, "shape", (2, 1)),
            lambda index: setattr(index, "dtype", np.int32),
            lambda index: index.setflags(write=False),
            lambda index: index.resize((1,), refcheck=False),
        ]
        made = ((2,), np.dtype(np.int64), True)
        for t, change in enumerate(changes):
            index = writer.append(obs=obs, terminated=quiet, truncated=quiet)
            assert (index.shape, index.dtype, index.flags.writeable) == made
            assert index.tolist() == [2 * t, 2 * t + (1 << 48)]
            change(index)
            del index
            after = writer.append(obs=obs, terminated=quiet, truncated=quiet)
            assert (after.shape, after.dtype, after.flags.writeable) == made
            assert after.tolist() == [2 * t + 1, 2 * t + 1 + (1 << 48)]
            del after


def test_the_method_keeps_its_signature_and_documentation() -> None:
    signature = inspect.signature(bc.Writer.append)
    names = ["self", "terminated", "truncated", "next_obs", "final_obs", "columns"]
    assert list(signature.parameters) == names
    assert "Append one row to every lane" in (bc.Writer.append.__doc__ or "")
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=8)
    with buf, buf.writer() as writer, pytest.raises(TypeError, match="append"):
        writer.append(1.0, terminated=False, truncated=False)  # type: ignore[misc]


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_interrupts_are_not_reported_as_bad_values(raised: type[BaseException]) -> None:
    class Ends:
        def __array__(self, *_: object, **__: object) -> object:
            raise raised

    with bc.ReplayBuffer.create(None, {"obs": ("f4", (3,))}, capacity=10) as buf:
        with buf.writer() as writer, pytest.raises(raised):
            writer.append(obs=Ends(), terminated=False, truncated=False)
        with buf.writer() as writer, writer.reserve() as row:
            with pytest.raises(raised):
                row["obs"] = Ends()
            row["obs"] = [1, 2, 3]
        assert len(buf.rows(0, 0, 1)["obs"]) == 1


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    columns = {"x": ("i4", (2,))}
    with bc.ReplayBuffer.create(None, columns, capacity=10) as buf, buf.writer() as writer:
        with pytest.raises(bc.errors.AppendError, match=r"\bNumPy\b"):
            writer.append(x=endless, terminated=False, truncated=False)
        assert writer.rows_written == 0
