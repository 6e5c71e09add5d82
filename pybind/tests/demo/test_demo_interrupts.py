"""Signals to the demo become a flag, and an exception where the run looks at it."""

import os
import signal

import pytest
from backcast.demo.interrupts import InterruptedRunError, Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_becomes_a_flag_and_then_an_exception(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        interrupts.check()
        os.kill(os.getpid(), number)
        with pytest.raises(InterruptedRunError, match=number.name):
            interrupts.check()
    assert signal.getsignal(number) is before
