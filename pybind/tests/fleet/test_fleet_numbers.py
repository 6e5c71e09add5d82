"""Numbers that actors report by name, and functions that write the statistics elsewhere."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import backcast as bc
import fleet_actors as actors
import pytest
from backcast.fleet._environment import Identity
from backcast.fleet._log import numbers_of
from backcast.fleet._metrics import Report, ReportRing
from backcast.fleet._stats import Tally
from waits import WATCHDOG_S, until_interrupted


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


def test_numbers_by_name_become_statistics() -> None:
    with bc.Fleet(actors.report_numbers, 2, args=(150,)) as fleet:
        fleet.wait(WATCHDOG_S)
        stats = fleet.stats()
    # Actor `rank` reports 0 to 149, each times `rank + 1`. The mean is of the last hundred read.
    assert {name: number["count"] for name, number in stats["numbers"].items()} == {
        "loss/critic": 300,
        "größe": 150,
    }
    assert stats["numbers"]["größe"] == {"last": 149.0, "mean": 99.5, "count": 150}
    assert stats["numbers"]["loss/critic"]["last"] in (149.0, 298.0)
    assert (stats["episodes"], stats["length_mean"], stats["missed_reports"]) == (150, 7.0, 0)
    assert fleet.stats()["numbers"] == stats["numbers"]


def test_a_killed_actor_leaves_whole_numbers() -> None:
    with bc.Fleet(actors.report_numbers_without_end, 2, max_deaths=100) as fleet:
        for life in range(3):
            while fleet.stats()["running"] < 2 or fleet.stats()["restarts"] < 2 * life:
                threading.Event().wait(0.01)
            for actor in fleet.stats()["actors"]:
                if actor["pid"] is not None:
                    os.kill(actor["pid"], signal.SIGKILL)
        while fleet.stats()["restarts"] < 6:
            threading.Event().wait(0.01)
    numbers = fleet.stats()["numbers"]
    assert {name: (number["last"], number["mean"]) for name, number in numbers.items()} == {
        "one": (1.0, 1.0),
        "two": (2.0, 2.0),
    }


def test_a_process_has_so_many_names_and_no_more(place: Path) -> None:
    ring = ReportRing("reports", 1, str(place))
    context = bc.fleet.Context(Identity("reports", 0, 1, 7, 0))
    context.report(**{f"n{number}": number for number in range(64)})
    with pytest.raises(bc.errors.ArgumentError, match=r"'another'.*\b64\b"):
        context.report(n0=5.0, another=1.0)
    # A name that only begins like an argument is one of its own.
    longer = bc.fleet.Context(Identity("reports", 0, 1, 7, 0))
    longer._writer = context._writer
    longer.report(return_raw=1.0, length_mean=2.0, version_lag=3.0)
    assert len(ring.read()) == 67
    context.report(return_=1.0, n0=6.0)
    read = [(report.name, report.value) for report in ring.read()]
    assert read == [("n0", 6.0)]
    ring.close()


def test_names_of_other_processes_take_no_more_memory_than_those_of_actors() -> None:
    tally = Tally(2, None)
    tally.add([Report(0, None, None, None, 1.0, f"n{at}", float(at)) for at in range(1_000)])
    tally.add([Report(0, None, None, None, 1.0, "n0", 2.0)])
    numbers = tally.stats([], 0)["numbers"]
    assert len(numbers) == 128
    assert numbers["n0"] == {"last": 2.0, "mean": 1.0, "count": 2}


def test_statistics_of_a_tally_are_those_of_its_reports_and_of_its_ring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    actor: Any = {"rank": 1, "pid": None, "state": "running", "restarts": 2}
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100) as buf, buf.writer() as writer:

        def append(rows: int) -> None:
            for _ in range(rows):
                writer.append(obs=0, terminated=False, truncated=False)

        # Rows from before the fleet are not counted.
        append(7)
        tally = Tally(2, buf)
        for after_s, rows, version in ((1.0, 10, 3), (2.0, 20, 4)):
            append(10)
            now[0] = 100.0 + after_s
            tally.update(2, 16, version)
            tally.add([Report(1, 1.0, 5, version - 1, now[0] - 0.25)])
            stats = tally.stats([actor.copy()], 0)
            assert (stats["rows"], stats["updates"]) == (rows, 2 * after_s)
            # Both are of the time since the fleet began, which is less than the last seconds.
            assert (stats["rows_per_s"], stats["updates_per_s"]) == (10.0, 2.0)
            assert stats["policy_version"] == version
            assert (stats["running"], stats["restarts"]) == (1, 2)
            [shown] = stats["actors"]
            assert (shown["episodes"], shown["version"]) == (after_s, version - 1)
            assert shown["since_report_s"] == 0.25
        # Rates are of the last seconds alone.
        for after_s in range(3, 60):
            now[0] = 100.0 + after_s
            stats = tally.stats([actor.copy()], 0)
        assert (stats["rows"], stats["rows_per_s"], stats["updates_per_s"]) == (20, 0.0, 0.0)
        # Version 3 was the newest at both reports. The fleet was never told of 2.
        assert (stats["policy_age_versions"], stats["policy_age_s"]) == (0.5, 0.75)
    assert Tally(2, None).stats([], 0)["rows_per_s"] is None


def test_statistics_are_written_while_the_learner_updates_and_once_at_the_end() -> None:
    written: list[tuple[dict[str, float], int]] = []
    with bc.Fleet(actors.report_numbers, 2, args=(10,)) as fleet:
        fleet.log_to(lambda numbers, step: written.append((numbers, step)), every=0.001)
        fleet.log_to(lambda numbers, step: pytest.fail("too early"), every=1e6)
        fleet.wait(WATCHDOG_S)
        for update in range(50):
            threading.Event().wait(0.002)
            fleet.update()
            assert written[-1][1] == update + 1
        # The other one would be written at the end too.
        fleet._logs.pop()
        count = len(written)
    assert len(written) == count + 1
    numbers, step = written[-1]
    assert step == numbers["fleet/updates"] == 50
    assert (numbers["größe"], numbers["fleet/length_mean"]) == (4.5, 7.0)
    assert all(type(value) in (int, float) for value in numbers.values())
    assert numbers == numbers_of(fleet.stats())


def test_a_named_number_replaces_no_statistic() -> None:
    stats = Tally(2, None).stats([], 0)
    stats["numbers"] = {"fleet/updates": {"last": 7.0, "mean": 7.0, "count": 1}}
    assert numbers_of(stats)["fleet/updates"] == 0


def test_a_wait_writes_statistics_too() -> None:
    steps: list[int] = []
    with bc.Fleet(actors.until_stopped) as fleet:
        fleet.log_to(lambda _, step: steps.append(step), every=0.01)
        with pytest.raises(bc.errors.ActorTimeoutError):
            fleet.wait(0.2)
        assert steps
        # Whole seconds, since the learner counts no updates.
        assert steps == sorted(steps)


def test_a_writer_that_outlasts_a_wait_hides_no_end_of_the_actors() -> None:
    with (
        bc.Params.create("weights", {"w": 0.0}) as params,
        bc.Fleet(actors.await_version, args=("weights", 1)) as fleet,
    ):

        def write(numbers: dict[str, float], step: int) -> None:
            params.publish({"w": 1.0})
            while fleet.stats()["actors"][0]["state"] != "finished":
                threading.Event().wait(0.01)
            # Longer than the time of the wait.
            threading.Event().wait(0.2)

        fleet.log_to(write, every=1e-9)
        fleet.wait(0.1)
        assert fleet.stats()["actors"][0]["state"] == "finished"
        fleet.wait(1e-9)


def test_a_writer_that_misuses_a_fleet_is_warned_of_and_training_goes_on() -> None:
    def write(_numbers: dict[str, float], _step: int) -> None:
        bc.fleet.report(loss=1.0)

    def run() -> bc.Fleet:
        with bc.Fleet(actors.report_numbers, 1, args=(3,)) as fleet:
            fleet.log_to(write, every=1e-9)
            fleet.update()
            fleet.wait(WATCHDOG_S)
        return fleet

    with pytest.warns(bc.errors.FleetWarning, match=r"FleetError"):
        fleet = run()
    assert fleet.stats()["updates"] == 1


def test_a_writer_that_raises_is_a_warning_and_is_called_again() -> None:
    calls: Counter[str] = Counter()

    def write(numbers: dict[str, float], step: int) -> None:
        calls["all"] += 1
        if step < 3:
            raise OSError("the server is away")

    with bc.Fleet(actors.until_stopped) as fleet:
        fleet.log_to(write, every=1e-9)
        for _ in range(2):
            with pytest.warns(bc.errors.FleetWarning, match=r"write\b.*OSError.*away") as told:
                fleet.update()
            assert [one.filename for one in told] == [__file__]
        fleet.update()
    assert calls["all"] == 4


def test_a_writer_that_raises_at_the_end_hides_no_failure(tmp_path: Path) -> None:
    def write(numbers: dict[str, float], step: int) -> None:
        raise OSError("the server is away")

    def run() -> None:
        with bc.Fleet(actors.raise_when_told, 2, args=(str(tmp_path),)) as fleet:
            fleet.log_to(write)
            (tmp_path / "go").touch()
            until_interrupted()

    with (
        pytest.warns(bc.errors.FleetWarning),
        pytest.raises(bc.errors.ActorError, match="no bananas"),
    ):
        run()


def test_a_failure_of_the_fleet_interrupts_a_writer(tmp_path: Path) -> None:
    calls: Counter[str] = Counter()

    def write(numbers: dict[str, float], step: int) -> None:
        calls["all"] += 1
        if calls["all"] == 1:
            (tmp_path / "go").touch()
            until_interrupted()

    def run() -> None:
        with bc.Fleet(actors.raise_when_told, 2, args=(str(tmp_path),)) as fleet:
            fleet.log_to(write, every=1e-9)
            fleet.update()

    with pytest.raises(bc.errors.ActorError, match="no bananas") as raised:
        run()
    assert not isinstance(raised.value.__context__, Warning), "it is no error of the writer"
    assert calls["all"] == 2, "the last figures are written"


LOGS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no function": ({"write": "wandb"}, TypeError, r"\bwrite\b.*'wandb'"),
    "no time": ({"write": print, "every": 0}, ValueError, r"\bevery\b.*\b0\b"),
    "no number": ({"write": print, "every": "10"}, TypeError, r"\bevery\b.*'10'"),
}


@pytest.mark.parametrize(("given", "builtin", "words"), LOGS.values(), ids=LOGS)
def test_what_cannot_be_written_to_is_refused(
    given: dict[str, Any], builtin: type[Exception], words: str
) -> None:
    fleet = bc.Fleet(actors.until_stopped)
    with pytest.raises(bc.errors.ArgumentError, match=words) as raised:
        fleet.log_to(**given)
    assert isinstance(raised.value, builtin)
    assert not fleet._logs
