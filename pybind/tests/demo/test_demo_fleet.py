"""The demo's processes: started, read, and ended in every case."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import demo_children
import pytest
from backcast.demo import fleet as fleet_module
from backcast.demo.fleet import ChildFailedError, Fleet, InterruptedRunError, Interrupts

WATCHDOG_SECONDS = 120


def wait_for_news(fleet: Fleet) -> list[tuple[str, str]]:
    while not (news := fleet.listen(1.0)):
        pass
    return [(child.name, message["kind"]) for child, message in news]


def listen_for_ever(fleet: Fleet) -> NoReturn:
    while True:
        fleet.listen(1.0)


def test_children_say_that_they_are_ready_and_stop_when_asked() -> None:
    with Fleet() as fleet:
        fleet.start("one", demo_children.run_until_stopped, "hello")
        assert wait_for_news(fleet) == [("one", "ready")]
        words = [(child.name, message["greeting"]) for child, message in fleet.stop()]
        assert words == [("one", "hello")]
        assert not fleet.children


def test_a_crashing_child_is_reported_with_its_error() -> None:
    with Fleet() as fleet:
        fleet.start("sad", demo_children.crash, "no bananas")
        with pytest.raises(ChildFailedError, match=r"sad failed: ValueError: no bananas"):
            listen_for_ever(fleet)


def test_a_child_killed_from_outside_is_reported_with_the_signal() -> None:
    with Fleet() as fleet:
        child = fleet.start("victim", demo_children.run_until_stopped, "hello")
        wait_for_news(fleet)
        child.process.kill()
        with pytest.raises(ChildFailedError, match="victim was killed by SIGKILL"):
            listen_for_ever(fleet)


def test_a_child_killed_by_the_fleet_is_no_failure() -> None:
    with Fleet() as fleet:
        child = fleet.start("victim", demo_children.run_until_stopped, "hello")
        wait_for_news(fleet)
        fleet.kill(child)
        assert fleet.children == []
        assert fleet.stop() == []


def test_a_child_that_refuses_to_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "_STOP_SECONDS", 0.05)
    monkeypatch.setattr(fleet_module, "_TERMINATE_SECONDS", 0.05)
    fleet = Fleet()
    child = fleet.start("stubborn", demo_children.refuse_to_stop, "")
    wait_for_news(fleet)
    pid = child.process.pid
    assert pid is not None
    [(_, word)] = fleet.stop()
    assert word["text"] == "was killed by SIGKILL"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_children_end_when_their_parent_is_killed() -> None:
    code = "from demo_children import start_a_child_and_wait as go; go()"
    paths = [str(Path(__file__).parent), *sys.path]
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}; {code}"],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
        # The child has the pipe too: it reaches its end only when the child is gone.
        rest, _ = parent.communicate(timeout=WATCHDOG_SECONDS)
    assert rest == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_becomes_a_flag_and_then_an_exception(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        interrupts.check()
        os.kill(os.getpid(), number)
        with pytest.raises(InterruptedRunError, match=number.name):
            interrupts.check()
    assert signal.getsignal(number) is before
