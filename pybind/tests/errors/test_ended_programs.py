"""What ends a program, such as Ctrl-C, while an argument is read goes on as it is."""

from __future__ import annotations

import backcast as bc
import pytest


class Interrupted:
    """A number during whose making Ctrl-C is pressed."""

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
def test_what_ends_a_program_is_no_argument_of_the_wrong_type(typed: str) -> None:
    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=10) as buf:
        with pytest.raises(KeyboardInterrupt):
            eval(typed, {"buf": buf, "number": Interrupted()})
        assert len(buf) == 0
