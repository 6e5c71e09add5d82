"""Handling of signals by the demo, in one process without a ring or actors."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from backcast.demo.signals import run_interruptibly

USUAL: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Install the handlers of a program in a terminal; assert that the test restores them."""
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    left = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert left == USUAL


@pytest.mark.parametrize("status", [0, 1])
def test_a_run_without_a_signal_ends_with_its_own_status(
    status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_interruptibly(lambda: status) == status
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", USUAL)
def test_a_signal_gives_its_exit_status_and_is_named(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        try:
            signal.raise_signal(number)
        finally:
            if number != signal.SIGINT:
                # Further signals change nothing.
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGHUP)
        return 0

    assert run_interruptibly(run) == 128 + number
    said = f"interrupted by {number.name}: every process ended, ring and weights removed"
    assert capsys.readouterr().err == f"backcast demo: {said}\n"
