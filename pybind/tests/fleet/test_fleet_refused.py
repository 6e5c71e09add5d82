"""Refused fleets: each message says which actor, what is wrong, and what to do."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import backcast as bc
import fleet_actors as actors
import pytest


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


LOCK = threading.Lock()
REFUSED: dict[str, tuple[dict[str, Any], type[Exception], list[str]]] = {
    "no actors": ({"n": 0}, ValueError, ["n is 0", "from 1 up"]),
    "too many": ({"n": 5000}, ValueError, ["n is 5000", "1 to 4096"]),
    "no path": ({"actor": "fleet_actors.act"}, ValueError, ["fleet_actors.act", '"walk:act"']),
    "module": ({"actor": "fleet_actor:act"}, ValueError, ["'fleet_actor'", "'fleet_actors'?"]),
    "no module": ({"actor": "zzqx:act"}, ValueError, ["no module 'zzqx'", "sys.path"]),
    "no program": ({"actor": ["./wlak"]}, ValueError, ["`./wlak`", "build it"]),
    "empty": ({"actor": []}, TypeError, ["[]", "a list of at least one str"]),
    "number": ({"actor": 7}, TypeError, ["actor is 7", "a function"]),
    "lambda": ({"actor": lambda context: None}, ValueError, ["<lambda>", "top level of a module"]),
    "argument": ({"args": (LOCK,)}, TypeError, ["1 args", "too many", "args="]),
    "lock": (
        {"actor": actors.raise_at, "args": (LOCK,)},
        ValueError,
        ["args[0] of actor fleet_actors:raise_at is lock", "give names and numbers"],
    ),
    "missing args": ({"actor": actors.raise_at}, TypeError, ["'step'", "args="]),
    "args of a command": ({"actor": ["sh"], "args": (1,)}, ValueError, ["(1,)", "the command"]),
    "args no tuple": ({"args": "pong"}, TypeError, ["args is 'pong'", "('pong', 'policy')"]),
    "restart": ({"restart": "allways"}, ValueError, ["allways", '"always"']),
    "deaths": ({"max_deaths": 0}, ValueError, ["max_deaths is 0", "from 1 up"]),
    "seed": ({"seed": -1}, ValueError, ["seed is -1", "from 0 up"]),
    "buffer": ({"buffer": "pong"}, TypeError, ["buffer is 'pong'", "ReplayBuffer"]),
    "env": ({"env": {"OMP_NUM_THREADS": 2}}, TypeError, ["OMP_NUM_THREADS", "dict of str"]),
    "timeout": ({"start_timeout": 0}, ValueError, ["start_timeout is 0", "above 0"]),
}


@pytest.mark.parametrize(("given", "builtin", "words"), REFUSED.values(), ids=REFUSED)
def test_a_fleet_is_refused_before_a_process_starts(
    given: dict[str, Any], builtin: type[Exception], words: list[str], place: Path
) -> None:
    arguments = {"actor": actors.until_stopped} | given
    with pytest.raises(bc.ArgumentError) as raised:
        bc.Fleet(**arguments)
    assert isinstance(raised.value, builtin)
    message = str(raised.value)
    for word in words:
        assert word in message
    assert "; " in message
    assert "\n" not in message
    assert not bc.list(dir=place)


FAILS: dict[str, tuple[Any, list[str]]] = {
    "typo": (
        "fleet_actors:until_stoped",
        ["actor 0 (fleet_actors:until_stoped)", "did you mean 'until_stopped'?"],
    ),
    "no function": ("fleet_actors:not_a_function", ["actor 0", "is 7; give a function"]),
    "import": (
        "broken_import:act",
        ["actor 0 (broken_import:act) cannot be imported", "no_such_library_anywhere", "install"],
    ),
}


@pytest.mark.parametrize(("actor", "words"), FAILS.values(), ids=FAILS)
def test_a_failing_import_is_raised_when_the_block_is_entered(actor: Any, words: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(bc.ActorError) as raised, bc.Fleet(actor, restart="always"):
        pytest.fail("it started")
    for word in words:
        assert word in str(raised.value)
    assert "; " in str(raised.value)


def test_an_actor_that_never_starts_is_named() -> None:
    with (
        pytest.raises(bc.ActorTimeoutError, match=r"actor 0 \(hanging_import:act\).*0\.2 s.*; "),
        bc.Fleet("hanging_import:act", start_timeout=0.2),
    ):
        pytest.fail("it started")


def test_a_taken_name_is_refused() -> None:
    with (
        bc.Fleet(actors.until_stopped, name="walkers"),
        pytest.raises(bc.ExistsError, match=r"fleet's name 'walkers' is taken.*; "),
        bc.Fleet(actors.until_stopped, name="walkers"),
    ):
        pytest.fail("it started")


def test_a_fleet_is_used_inside_of_its_block() -> None:
    fleet = bc.Fleet(actors.until_stopped)
    with pytest.raises(bc.FleetError, match=r"does not run; .*with bc\.Fleet"):
        fleet.stats()
    with fleet:
        pass
    with pytest.raises(bc.FleetError, match="does not run; "):
        fleet.update()
    with pytest.raises(bc.FleetError, match="started before; make another"), fleet:
        pytest.fail("it started")


PROGRAMS = {
    "session": ("-c", "was defined in a session without a file.*; put it into a module"),
    "guard": ("file", "under `if __name__ == '__main__':`"),
}


@pytest.mark.parametrize(("how", "words"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_that_cannot_be_imported_says_so(tmp_path: Path, how: str, words: str) -> None:
    code = "import backcast as bc\ndef act(context): pass\nwith bc.Fleet(act): pass\n"
    program = tmp_path / "walk.py"
    program.write_text(code)
    given = ["-c", code] if how == "-c" else [str(program)]
    ran = subprocess.run([sys.executable, *given], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert re.search(words, ran.stderr), ran.stderr
