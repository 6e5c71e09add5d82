"""Exceptions that end a program, such as Ctrl-C, are raised unchanged while arguments are read."""

from __future__ import annotations

import ctypes
import functools
import signal
from collections.abc import Iterator
from typing import Any

import backcast as bc
import numpy as np
import pytest
from numpy.typing import NDArray


class Interrupted:
    """A value whose conversion raises `KeyboardInterrupt`, as Ctrl-C does."""

    def __int__(self) -> int:
        raise KeyboardInterrupt

    __index__ = __int__

    def __float__(self) -> float:
        raise KeyboardInterrupt

    def __fspath__(self) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "typed",
    [
        "buf.sample(number)",
        "buf.sample(8, history=number)",
        "buf.sampler(seed=number)",
        "buf.wait(0, timeout=number)",
        "buf.export(number)",
    ],
)
def test_interrupts_are_not_reported_as_wrong_types(typed: str) -> None:
    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=10) as buf:
        with pytest.raises(KeyboardInterrupt):
            eval(typed, {"buf": buf, "number": Interrupted()})
        assert len(buf) == 0


class TooSlowError(TimeoutError):
    """Exception of a program's own signal handler."""


class Slow:
    """A value whose conversion raises the exception of a signal handler."""

    def __index__(self) -> int:
        raise TooSlowError

    def __array__(self, *_: object, **__: object) -> object:
        raise TooSlowError

    @property
    def dtype(self) -> object:
        raise TooSlowError


@pytest.mark.parametrize(
    "typed",
    [
        "writer.append(x=slow, terminated=False, truncated=False)",
        "writer.append(x=1, terminated=slow, truncated=False)",
        "writer.extend(x=[slow], terminated=[False], truncated=[False])",
        "buf.sample(slow)",
        "buf.gather(slow)",
        "bc.Schema({'x': slow})",
        "bc.Schema({'x': ('f4', slow)})",
        "bc.Schema({'x': ('f4', (2, slow))})",
    ],
)
def test_exceptions_of_handlers_are_not_reported_as_bad_values(typed: str) -> None:
    columns = {"x": "f4"}
    with bc.ReplayBuffer.create(None, columns, capacity=10) as buf, buf.writer() as writer:
        with pytest.raises(TooSlowError):
            eval(typed, {"bc": bc, "buf": buf, "writer": writer, "slow": Slow()})
        assert writer.rows_written == 0


def test_numpy_errors_are_the_cause_of_refused_appends() -> None:
    columns = {"x": ("f4", (2,))}
    with bc.ReplayBuffer.create(None, columns, capacity=10) as buf, buf.writer() as writer:
        ragged: Any = [[1.0], [1.0, 2.0]]
        with pytest.raises(bc.errors.AppendError, match=r"\bNumPy\b") as raised:
            writer.append(x=ragged, terminated=False, truncated=False)
        assert type(raised.value.__cause__) is ValueError
        with writer.reserve() as row:
            with pytest.raises(bc.errors.AppendError, match=r"`x`.*\(3,\).*\(2,\)") as raised:
                row["x"] = [1, 2, 3]
            assert type(raised.value.__cause__) is ValueError
            row.abort()


class WantsAGradient:
    """A value that NumPy cannot convert, like a PyTorch tensor that requires a gradient."""

    def __array__(self, *_arguments: object, **_keywords: object) -> NDArray[Any]:
        raise RuntimeError("detach it first")


def test_errors_of_array_likes_are_reported_with_the_column() -> None:
    columns = {"x": ("f4", (2,))}
    with bc.ReplayBuffer.create(None, columns, capacity=10) as buf, buf.writer() as writer:
        value: Any = WantsAGradient()
        with pytest.raises(bc.errors.AppendError, match="`x`") as raised:
            writer.append(x=value, terminated=False, truncated=False)
        assert type(raised.value.__cause__) is RuntimeError


class Untold(tuple[int, ...]):
    """A valid shape, whose `repr` must not be called."""

    def __repr__(self) -> str:
        raise AssertionError("shown, though it is right")


class Showing:
    """A value of a wrong type, whose `repr` raises `KeyboardInterrupt`."""

    def __repr__(self) -> str:
        raise KeyboardInterrupt


def test_only_wrong_values_are_shown_and_interrupts_meanwhile_are_raised() -> None:
    assert bc.Schema({"x": ("f4", Untold((2, 3)))}).columns["x"][1] == (2, 3)
    wrong: Any = Showing()
    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=10) as buf:
        for call in (buf.sample, buf.wait, lambda value: bc.Schema({"x": ("f4", value)})):
            with pytest.raises(KeyboardInterrupt):
                call(wrong)


@pytest.fixture
def signalled() -> Iterator[type[str]]:
    """Yield a class of names that send a signal when they are converted to text."""

    class Name(str):
        __slots__ = ()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    # C calls `raise` directly, because Python code in between would run the handler too early. Its
    # result, 0, is the index of the text to return.
    send = ctypes.PyDLL(None)["raise"]
    send.restype = ["x"].__getitem__
    Name.__str__ = staticmethod(functools.partial(send, int(signal.SIGUSR1)))  # type: ignore[method-assign]
    yield Name
    signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_while_the_keys_of_out_are_read_is_no_unknown_key(signalled: type[str]) -> None:
    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=10) as buf:
        with buf.writer() as writer:
            for number in range(5):
                writer.append(x=number, terminated=False, truncated=False)
        with pytest.raises(KeyboardInterrupt):
            buf.sample(4, out={signalled("x"): np.zeros(4, np.float32)})
