"""Refused fleets and reports: each message says what is wrong and what to do."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import backcast as bc
import fleet_actors as actors
import numpy as np
import pytest
from backcast.fleet._actor import ActorSpec
from backcast.fleet._environment import Identity
from backcast.fleet._metrics import ReportRing
from backcast.fleet._restarts import RestartPolicy
from backcast.fleet._supervisor import ActorState, Supervisor, SupervisorSettings
from facts import missing
from waits import WATCHDOG_S, until_interrupted


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


LOCK = threading.Lock()
REFUSED: dict[str, tuple[dict[str, Any], type[Exception], list[str]]] = {
    "no actors": ({"n": 0}, ValueError, ["n", "0", "1"]),
    "too many": ({"n": 5000}, ValueError, ["n", "5000", "1", "4096"]),
    "no path": ({"actor": "fleet_actors.act"}, ValueError, ["fleet_actors.act", '"walk:act"']),
    "module": ({"actor": "fleet_actor:act"}, ValueError, ["'fleet_actor'", "'fleet_actors'?"]),
    "no module": ({"actor": "zzqx:act"}, ValueError, ["'zzqx'", "sys.path"]),
    "no program": ({"actor": ["./wlak"]}, ValueError, ["`./wlak`"]),
    "empty": ({"actor": []}, TypeError, ["[]"]),
    "number": ({"actor": 7}, TypeError, ["actor", "7"]),
    "closure": ({"actor": lambda context: LOCK}, ValueError, ["<lambda>", "lock"]),
    "argument": ({"args": (LOCK,)}, TypeError, ["1", "args="]),
    "lock": (
        {"actor": actors.raise_at, "args": (LOCK,)},
        ValueError,
        ["args[0]", "fleet_actors:raise_at"],
    ),
    "missing args": ({"actor": actors.raise_at}, TypeError, ["'step'", "args="]),
    "args of a command": ({"actor": ["sh"], "args": (1,)}, ValueError, ["(1,)"]),
    "args no tuple": ({"args": "pong"}, TypeError, ["args", "'pong'", "('pong', 'policy')"]),
    "restart": ({"restart": "allways"}, ValueError, ["allways", '"always"']),
    "deaths": ({"max_deaths": 0}, ValueError, ["max_deaths", "0", "1"]),
    "seed": ({"seed": -1}, ValueError, ["seed", "-1", "0"]),
    "buffer": ({"buffer": "pong"}, TypeError, ["buffer", "'pong'", "ReplayBuffer"]),
    "env": ({"env": {"OMP_NUM_THREADS": 2}}, TypeError, ["OMP_NUM_THREADS"]),
    "timeout": ({"start_timeout": 0}, ValueError, ["start_timeout", "0"]),
    "endless timeout": (
        {"start_timeout": math.inf},
        ValueError,
        ["start_timeout is inf; give seconds above 0 and below 1e9"],
    ),
    "no time": ({"report_timeout": 0}, ValueError, ["report_timeout", "0"]),
    "words": ({"report_timeout": "long"}, TypeError, ["report_timeout", "'long'"]),
}


@pytest.mark.parametrize(("given", "builtin", "words"), REFUSED.values(), ids=REFUSED)
def test_a_fleet_is_refused_before_a_process_starts(
    given: dict[str, Any],
    builtin: type[Exception],
    words: list[str],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process started"))
    arguments = {"actor": actors.until_stopped} | given
    with pytest.raises(bc.errors.ArgumentError) as raised:
        bc.Fleet(**arguments)
    assert isinstance(raised.value, builtin)
    message = str(raised.value)
    assert missing(message, words) == []
    assert "; " in message
    assert "\n" not in message
    assert not bc.list_objects(dir=place)


FAILS: dict[str, tuple[Any, list[str]]] = {
    "typo": (
        "fleet_actors:until_stoped",
        ["0", "(fleet_actors:until_stoped)", "'until_stopped'"],
    ),
    "no function": ("fleet_actors:not_a_function", ["0", "7"]),
    "import": (
        "broken_import:act",
        ["0", "(broken_import:act)", "no_such_library_anywhere"],
    ),
}


@pytest.mark.parametrize(("actor", "words"), FAILS.values(), ids=FAILS)
def test_a_failing_import_is_raised_when_the_block_is_entered(actor: Any, words: list[str]) -> None:
    with pytest.raises(bc.errors.ActorError) as raised, bc.Fleet(actor, restart="always"):
        pytest.fail("it started")
    assert missing(raised.value, words) == []
    assert "; " in str(raised.value)


def test_an_actor_that_never_starts_is_named() -> None:
    with (
        pytest.raises(
            bc.errors.ActorTimeoutError, match=r"\b0\b.*\(hanging_import:act\).*\b0\.2\b"
        ),
        bc.Fleet("hanging_import:act", start_timeout=0.2),
    ):
        pytest.fail("it started")


def test_actors_that_start_for_too_long_are_named_and_no_others() -> None:
    failures: list[Exception] = []
    settings = SupervisorSettings(
        spec=ActorSpec("walk:act", None, b""),
        n=0,
        seed=0,
        restarts=RestartPolicy("signal", 5),
        start_timeout_s=2.0,
        stop_timeout_s=1.0,
        environment={},
        ring="",
        folders=[],
    )
    supervisor = Supervisor(settings, failures.append, lambda: None, lambda: None)
    process: Any = object()
    states = ["starting", "running", "finished", "dead", "waiting", "stopped"]
    others = [ActorState(rank, state, process) for rank, state in enumerate(states) if rank]
    # The process of the first has not been started, and the second has 2 s.
    others += [ActorState(6, "starting", None), ActorState(7, "starting", process, started_s=8.0)]
    supervisor._actors = others
    supervisor._check_late(10.0)
    assert failures == []
    late = [ActorState(rank, "starting", process, started_s=7.9) for rank in (0, 8)]
    supervisor._actors = [late[0], *others, late[1]]
    supervisor._check_late(10.0)
    assert supervisor.failure is failures[0]
    assert isinstance(failures[0], bc.errors.ActorTimeoutError)
    assert "0, 8 (walk:act)" in str(failures[0])
    assert " 2 s" in str(failures[0])
    supervisor._actors = []
    supervisor.stop()


def test_a_taken_name_is_refused() -> None:
    with (
        bc.Fleet(actors.until_stopped, name="walkers"),
        pytest.raises(bc.ExistsError, match=r"'walkers'"),
        bc.Fleet(actors.until_stopped, name="walkers"),
    ):
        pytest.fail("it started")


def test_a_fleet_is_used_inside_of_its_block() -> None:
    fleet = bc.Fleet(actors.until_stopped)
    with pytest.raises(bc.errors.FleetError, match=r"bc\.Fleet"):
        fleet.stats()
    with fleet:
        pass
    with pytest.raises(bc.errors.FleetError, match=r"bc\.Fleet"):
        fleet.update()
    with pytest.raises(bc.errors.FleetError), fleet:
        pytest.fail("it started")


def test_statistics_outlive_the_block() -> None:
    with bc.Fleet(actors.report_all, 2, args=(10,)) as fleet:
        fleet.wait(120)
        fleet.update(5)
    stats = fleet.stats()
    assert (stats["episodes"], stats["updates"], stats["running"]) == (20, 5, 0)
    assert [actor["state"] for actor in stats["actors"]] == ["finished"] * 2
    stats["actors"].clear()
    assert len(fleet.stats()["actors"]) == 2


def test_statistics_outlive_a_failure(tmp_path: Path) -> None:
    fleet = bc.Fleet(actors.raise_when_told, 2, args=(str(tmp_path),))

    def fail() -> None:
        with fleet:
            (tmp_path / "go").touch()
            until_interrupted()

    with pytest.raises(bc.errors.ActorError):
        fail()
    assert [actor["state"] for actor in fleet.stats()["actors"]] == ["stopped"] * 2


def test_a_ring_that_is_closed_in_the_block_costs_its_statistics_alone(place: Path) -> None:
    buf = bc.ReplayBuffer.create("walk", {"obs": "f4"}, capacity=100)
    with bc.Fleet(actors.report_all, args=(10,), buffer=buf) as fleet:
        with buf.writer() as writer:
            writer.append(obs=1, terminated=False, truncated=False)
        assert fleet.stats()["rows"] == 1
        buf.close()
        fleet.wait(120)
        stats = fleet.stats()
    assert (stats["rows"], stats["episodes"]) == (1, 10)


def test_actors_without_a_lane_are_told_of_at_entry() -> None:
    with bc.ReplayBuffer.create("walk", {"obs": "f4"}, capacity=100) as buf:
        fleet = bc.Fleet(actors.until_stopped, 4, buffer=buf)
        words = r"\b1\b.*\b4\b.*lanes=4"
        with pytest.warns(bc.errors.WriterWarning, match=words) as told, fleet:
            pass
        assert told[0].filename == __file__
        with bc.Fleet(actors.until_stopped, 1, buffer=buf):
            pass


WORDS = {"num_actors": "n", "n_workers": "n", "num_processes": "n", "target": "actor", "nn": None}


@pytest.mark.parametrize(("given", "ours"), WORDS.items())
def test_words_of_other_libraries_get_ours_back(given: str, ours: str | None) -> None:
    arguments: dict[str, Any] = {"actor": actors.until_stopped, given: 2}
    with pytest.raises(bc.errors.ArgumentTypeError, match=f"`{given}`") as raised:
        bc.Fleet(**arguments)
    assert ours is None or f"`{ours}`" in str(raised.value)


class Tensor:
    """Stands for a tensor of several elements, as PyTorch refuses to convert it."""

    def __float__(self) -> float:
        raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")


REPORTS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "nan": ({"return_": float("nan")}, ValueError, r"\breturn_\b.*\bnan\b"),
    "inf": ({"return_": float("inf")}, ValueError, r"\breturn_\b.* inf\b"),
    "numpy": ({"return_": np.float32("-inf")}, ValueError, r"\breturn_\b.*-inf\b"),
    "nothing": ({}, TypeError, r"\breturn_=.*by name\b"),
    "named nan": ({"loss": float("nan")}, ValueError, r"\bloss\b.*\bnan\b"),
    "named inf": ({"lr": 1, "loss": -np.inf}, ValueError, r"\bloss\b.*-inf\b"),
    "text": ({"loss": "0.5"}, TypeError, r"\bloss\b.*'0\.5'"),
    "nobody": ({"loss": None}, TypeError, r"\bloss\b.*\bNone\b"),
    "array": ({"loss": np.zeros(2)}, TypeError, r"\bloss\b"),
    "tensor": ({"loss": Tensor()}, TypeError, r"\bloss\b.*\bTensor\b"),
    "truth": ({"won": np.True_}, TypeError, r"\bwon\b"),
    "huge": ({"loss": -(10**400)}, ValueError, r"\bloss\b.*-inf\b"),
    "long name": ({33 * "n": 1.0}, ValueError, r"n{33}.*\b32\b"),
    "no name": ({"": 1.0}, ValueError, r"''.*\b32\b"),
    "misspelt": ({"lenght": 5}, TypeError, r"`lenght`.*`length`"),
    "plural": ({"returns": 5.0}, TypeError, r"`returns`.*`return_`"),
    "control": ({"a\nb": 1.0}, ValueError, r"'a\\nb'"),
}


@pytest.mark.parametrize(("given", "builtin", "words"), REPORTS.values(), ids=REPORTS)
def test_reports_that_no_mean_could_have_are_refused(
    given: dict[str, Any], builtin: type[Exception], words: str
) -> None:
    with pytest.raises(bc.errors.ArgumentError, match=words) as raised:
        bc.fleet.report(**given)
    assert isinstance(raised.value, builtin)
    assert "\n" not in str(raised.value)


def test_statistics_are_not_given_to_a_function_of_others() -> None:
    fleet = bc.Fleet("fleet_actors:report_all", args=(1,))
    for write in (lambda: None, lambda numbers: None, lambda a, b, c: None):
        with pytest.raises(bc.errors.ArgumentTypeError, match="called with numbers and step"):
            fleet.log_to(write)  # type: ignore[arg-type]
    for good in (lambda numbers, step=None: None, lambda *given: None):
        fleet.log_to(good)
    fleet.log_to(dict)  # type: ignore[arg-type]


def test_a_wait_takes_any_time_but_nan() -> None:
    event = threading.Event()
    event.set()
    context = bc.fleet.Context(Identity("reports", 0, 1, 7, 0), event)
    assert context.wait(float("inf"))
    assert context.wait(1e300)
    with pytest.raises(bc.errors.ArgumentError, match=r"\btimeout\b.*\bnan\b"):
        context.wait(float("nan"))


def test_reports_of_any_process_show_no_number_that_json_lacks(place: Path) -> None:
    ring = ReportRing("reports", 1, str(place))
    with bc.ReplayBuffer.attach("reports") as buf, buf.writer() as writer:
        for return_ in (1.0, float("inf"), float("nan")):
            row: dict[str, Any] = {"rank": 0, "life": 0, "return": return_}
            row |= {"steps": -1, "version": -1}
            row |= {"name": np.frombuffer(b"loss".ljust(32, b"\0"), "u1"), "value": return_}
            writer.append(**row, time_s=1.0, terminated=False, truncated=False)
        row |= {"name": np.full(32, 0xFF, "u1"), "value": 2.0}
        writer.append(**row, time_s=1.0, terminated=False, truncated=False)
    read = [(report.return_, report.name, report.value) for report in ring.read()]
    assert read == [(1.0, "loss", 1.0), *[(None, None, None)] * 3]
    ring.close()


PROGRAMS = {
    "standard input": ("-", r"backcast\.errors\.ArgumentError: .*\bact\b.*backcast\[notebook\]"),
    "session": ("-c", r"backcast\.errors\.ArgumentError: .*\bact\b.*backcast\[notebook\]"),
    "guard": ("file", "`if __name__ == '__main__':`"),
    "ring": ("ring", "ExistsError.*`if __name__ == '__main__':`"),
}


@pytest.mark.parametrize(("how", "words"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_that_cannot_be_imported_says_so(tmp_path: Path, how: str, words: str) -> None:
    without = "import sys; sys.modules['cloudpickle'] = None\n"  # so that its import fails
    # An actor that makes the ring of its program finds it there.
    ring = "bc.ReplayBuffer.create('walk', {'obs': 'f4'}, capacity=9)\n" if how == "ring" else ""
    code = (
        f"{without}import backcast as bc\nring = {ring or None}\ndef act(context): pass\n"
        "with bc.Fleet(act): pass\n"
    )
    program = tmp_path / "walk.py"
    program.write_text(code)
    given = {"-c": ["-c", code], "-": []}.get(how, [str(program)])
    ran = subprocess.run(
        [sys.executable, *given],
        input=code,
        capture_output=True,
        text=True,
        check=False,
        timeout=WATCHDOG_S,
    )
    assert ran.returncode == 1
    assert re.search(words, ran.stderr), ran.stderr


@pytest.mark.parametrize("name", ["'fleet_actors:report_all'", "fleet_actors.report_all"])
def test_a_program_on_standard_input_runs_actors_of_a_module(name: str) -> None:
    code = (
        "import sys; sys.modules['cloudpickle'] = None\n"
        "import backcast as bc, fleet_actors\n"
        f"with bc.Fleet({name}, args=(3,)) as fleet: fleet.wait(120)\n"
        "print(fleet.stats()['episodes'])\n"
    )
    folder = Path(__file__).parent
    ran = subprocess.run(
        [sys.executable],
        input=code,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WATCHDOG_S,
    )
    assert ran.stdout == "3\n", ran.stderr
