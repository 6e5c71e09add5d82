"""Signals to the demo become a flag, and an exception where the run looks at it."""

import os
import signal
from pathlib import Path

import pytest
from backcast.demo import __main__ as program
from backcast.demo.interrupts import InterruptedRunError, Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_becomes_a_flag_and_then_an_exception(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        interrupts.check()
        os.kill(os.getpid(), number)
        with pytest.raises(InterruptedRunError, match=number.name) as raised:
            interrupts.check()
        assert raised.value.by == number
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_exit_status_is_128_plus_the_signal(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(_options: object, interrupts: Interrupts) -> int:
        os.kill(os.getpid(), number)
        interrupts.check()
        return 0

    monkeypatch.setattr(program, "_demo", stopped)
    assert program.main(["--out", str(tmp_path)]) == 128 + number
