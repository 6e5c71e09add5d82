"""Actors of sessions without a file, lambdas and closures: they are sent by value."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import backcast as bc
import fleet_actors as actors
import pytest
from backcast.fleet._actor import spec_of
from waits import WATCHDOG_S, read_line

SESSION = """
import os, signal, sys
from dataclasses import dataclass
import backcast as bc

BASE = 40

@dataclass
class Config:
    step: int

def total(config):
    return BASE + config.step

def act(context, config, scale, again=False):
    if again and context.life == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    context.report(total=scale(total(config)), kept=isinstance(config, Config) + 0)
    if again:
        context.wait()
"""
RUN = """
with bc.Fleet(act, 2, args=(Config(2), lambda x: 10 * x)) as fleet:
    BASE = 0  # too late for the actors
    fleet.wait(60)
print({name: (n["last"], n["count"]) for name, n in fleet.stats()["numbers"].items()})
"""
AGAIN = """
with bc.Fleet(act, 2, args=(Config(2), lambda x: 10 * x, True)) as one:
    with bc.Fleet(lambda context: act(context, Config(3), float), 1) as two:
        two.wait(60)
    while one.stats()["numbers"].get("total", {}).get("count") != 2:
        pass
print(one.stats()["restarts"], one.stats()["numbers"]["total"]["last"])
print(two.stats()["numbers"]["total"]["last"])
"""
PARENT = """
with bc.Fleet(act, 2, args=(Config(2), float, True), max_deaths=9) as fleet:
    while fleet.stats()["running"] < 2 or fleet.stats()["restarts"] < 2:
        pass
    print(*(actor["pid"] for actor in fleet.stats()["actors"]), flush=True)
    fleet.wait()
"""


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


def run_session(code: str, how: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has no file."""
    return subprocess.run(
        [sys.executable, "-W", "error", *options, *(["-c", code] if how == "-c" else ["-"])],
        input=code,
        capture_output=True,
        text=True,
        check=False,
        timeout=WATCHDOG_S,
    )


@pytest.mark.parametrize("how", ["-c", "-"])
def test_a_session_sends_its_functions_with_what_they_use(how: str) -> None:
    ran = run_session(SESSION + RUN, how)
    assert ran.stdout == "{'total': (420.0, 2), 'kept': (1.0, 2)}\n", ran.stderr


def test_actors_of_a_session_restart_and_fleets_of_it_nest() -> None:
    ran = run_session(SESSION + AGAIN, "-")
    assert ran.stdout == "2 420.0\n43.0\n", ran.stderr


def test_a_console_defines_actors_line_by_line() -> None:
    code = "import backcast as bc\ndef act(context): context.report(x=3)\n\nfleet = bc.Fleet(act)\n"
    code += "with fleet: fleet.wait(60)\n\nfleet.stats()['numbers']['x']['last']\n"
    # With -i, Python reads statements as a console does.
    ran = run_session(code, "-", "-i", "-q")
    assert "3.0" in ran.stdout, ran.stderr


def test_ctrl_c_ends_the_actors_of_a_session() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", SESSION + PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        pids = [int(pid) for pid in read_line(program).split()]
        assert len(pids) == 2
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=WATCHDOG_S)
        assert "KeyboardInterrupt" in errors
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
    finally:
        program.kill()
        program.wait(60)


def test_closures_and_lambdas_of_a_module_are_sent_too() -> None:
    number = 7.0

    def act(context: bc.fleet.Context) -> None:
        context.report(number=number)

    with bc.Fleet(act) as fleet:
        fleet.wait(WATCHDOG_S)
    assert fleet.stats()["numbers"]["number"]["last"] == 7.0
    with bc.Fleet(lambda context, f: context.report(n=f(2)), args=(lambda x: x + 1,)) as fleet:
        fleet.wait(WATCHDOG_S)
    assert fleet.stats()["numbers"]["n"]["last"] == 3.0


def test_functions_of_modules_are_sent_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    spec = spec_of(actors.write_down, (actors.raise_at,), None)
    _, function, args = pickle.loads(spec.payload)
    assert len(function) < 100
    assert pickle.loads(args) == (actors.raise_at,)


def test_without_cloudpickle_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(bc.errors.ArgumentError, match=r"<lambda>.*backcast\[notebook\]"):
        bc.Fleet(lambda context: None)
    with pytest.raises(bc.errors.ArgumentError, match=r"args\[0\].*backcast\[notebook\]"):
        bc.Fleet(actors.write_down, args=(lambda: None,))


def test_a_session_without_cloudpickle_is_refused_for_its_classes_too() -> None:
    code = "import sys; sys.modules['cloudpickle'] = None\n" + SESSION
    code += "import backcast.fleet\nbc.Fleet(print, args=(Config(2),))\n"
    ran = run_session(code, "-c")
    assert ran.returncode == 1
    assert "ArgumentError: args[0]" in ran.stderr
    assert "Config" in ran.stderr
