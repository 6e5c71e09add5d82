"""Actors: their arguments and environment, their ends, restarts and reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import backcast as bc
import fleet_actors as actors
import pytest
from backcast import fleet as fleet_module
from backcast.fleet import _stats
from backcast.fleet._metrics import Report
from backcast.fleet._stats import ActorStats, Published, Tally
from facts import missing
from waits import WATCHDOG_S, join, until_interrupted


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


def pids(fleet: bc.Fleet) -> list[int]:
    return [pid for actor in fleet.stats()["actors"] if (pid := actor["pid"]) is not None]


def test_actors_get_rank_seed_and_one_thread(tmp_path: Path) -> None:
    with bc.Fleet(actors.write_down, 3, args=(str(tmp_path),), seed=7) as fleet:
        fleet.wait(WATCHDOG_S)
    facts = [(tmp_path / str(rank)).read_text().split() for rank in range(3)]
    assert [fact[:3] for fact in facts] == [[str(rank), "3", "0"] for rank in range(3)]
    assert all(fact[4:] == ["1", "1", "1"] for fact in facts)
    seeds = [int(fact[3]) for fact in facts]
    assert len(set(seeds)) == 3
    with bc.Fleet(actors.write_down, 3, args=(str(tmp_path),), seed=7) as fleet:
        fleet.wait(WATCHDOG_S)
    again = [int((tmp_path / str(rank)).read_text().split()[3]) for rank in range(3)]
    assert again == seeds, "equal seeds, equal runs"


def test_an_environment_of_the_caller_wins(tmp_path: Path) -> None:
    env = {"OMP_NUM_THREADS": "2"}
    with bc.Fleet(actors.write_down, args=(str(tmp_path),), env=env) as fleet:
        fleet.wait(WATCHDOG_S)
    assert (tmp_path / "0").read_text().split()[4:] == ["2", "1", "1"]


def test_an_actor_may_be_a_path_to_a_function(tmp_path: Path) -> None:
    with bc.Fleet("fleet_actors:write_down", 2, args=(str(tmp_path),)) as fleet:
        fleet.wait(WATCHDOG_S)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_a_command_has_its_place_in_the_environment_and_can_report(tmp_path: Path) -> None:
    code = "from backcast import fleet; c = fleet.context(); c.report(return_=c.rank, version=3)"
    with bc.Fleet([sys.executable, "-c", code], 2) as fleet:
        fleet.wait(WATCHDOG_S)
        stats = fleet.stats()
    assert (stats["episodes"], stats["return_mean"]) == (2, 0.5)


def test_reports_become_statistics() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    with bc.Fleet(actors.report_all, 2, args=(150,), buffer=buf) as fleet, buf.writer() as writer:
        fleet.wait(WATCHDOG_S)
        for _ in range(10):
            writer.append(obs=1, terminated=False, truncated=False)
        fleet.update(5, samples=80, version=9)
        stats = fleet.stats()
    assert (stats["episodes"], stats["missed_reports"]) == (300, 0)
    assert [actor["episodes"] for actor in stats["actors"]] == [150, 150]
    assert [actor["state"] for actor in stats["actors"]] == ["finished"] * 2
    assert [actor["version"] for actor in stats["actors"]] == [149, 149]
    # The report read last is the last one of its actor.
    assert stats["return_last"] == 149.0
    assert (stats["rows"], stats["updates"], stats["samples_per_insert"]) == (10, 5, 8.0)
    assert stats["policy_version"] == 9
    assert stats["limiter"] is None


def test_the_waits_of_a_rate_limiter_are_among_the_statistics() -> None:
    limits = bc.RateLimiter(samples_per_insert=2, min_size=5, error_buffer=10)
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100, limiter=limits)
    with bc.Fleet(actors.until_stopped, buffer=buf) as fleet, buf.writer() as writer:
        for _ in range(10):
            writer.append(obs=1, terminated=False, truncated=False)
        buf.sample(9)
        stats = fleet.stats()
    assert stats["samples_per_insert"] == 1.0
    assert stats["limiter"] is not None
    assert set(stats["limiter"]) >= {"writers", "samplers", "waiters"}


def test_top_shows_the_statistics_of_a_fleet() -> None:
    buf = bc.ReplayBuffer.create("walk", {"obs": "f4"}, capacity=100, lanes=2)
    command = [sys.executable, "-m", "backcast", "--json", "top", "--once", "--interval", "0.05"]
    with bc.Fleet(actors.report_all, 2, args=(150,), buffer=buf, name="reports") as fleet:
        fleet.wait(WATCHDOG_S)
        fleet.update(5, samples=80, version=9)
        shown: dict[str, Any] = {}
        while shown.get("updates") != 5:  # the parent writes twice a second
            said = subprocess.run(command, capture_output=True, check=True, timeout=WATCHDOG_S)
            [shown] = json.loads(said.stdout)["fleets"] or [{}]
        stats: dict[str, Any] = {**fleet.stats()}
    assert (shown["name"], shown["buffer"], shown["n"]) == ("reports", "walk", 2)
    for name in ("running", "restarts", "episodes", "return_mean", "policy_version"):
        assert shown[name] == stats[name], name
    assert bc.list_objects() == [one for one in bc.list_objects() if one["name"] == "walk"]
    buf.close()


def test_the_age_of_a_policy_is_counted_from_when_it_was_replaced() -> None:
    published = Published()
    assert published.age(0, 1.0) is None
    for version, time_s in ((0, 10.0), (1, 20.0), (4, 30.0)):
        published.add(version, time_s)
    assert published.newest == 4
    assert published.age(0, 15.0) == (0, 5.0)
    assert published.age(0, 31.0) == (4, 21.0)
    assert published.age(1, 29.0) == (0, 9.0)
    assert published.age(4, 29.9) == (0, 0.0), "read before the learner noted it"
    assert published.age(3, 40.0) == (1, None), "the learner did not tell of it"
    assert published.age(-2, 40.0) == (6, None), "of before the fleet"
    assert published.age(5, 40.0) is None, "above all that were published"
    published.add(1, 50.0)
    assert published.newest == 1
    assert published.age(0, 51.0) == (1, 41.0), "a return to an older policy"
    assert published.age(1, 51.0) == (0, 1.0)
    assert published.age(4, 51.0) is None, "of the run before"


def test_rates_are_those_of_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(_stats, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    with buf, buf.writer() as writer:
        writer.append(obs=1, terminated=False, truncated=False)
        tally = Tally(0, buf)
        seen = []
        for now_s, rows, updates in (
            (100.0, 0, 0),
            (103.0, 8, 2),
            (104.0, 2, 10),
            (108.0, 28, 8),
            (120.0, 6, 0),
        ):
            clock[0] = now_s
            for _ in range(rows):
                writer.append(obs=1, terminated=False, truncated=False)
            tally.update(updates, 0, None)
            stats = tally.stats([], 0)
            seen.append((stats["seconds"], stats["rows_per_s"], stats["updates_per_s"]))
    assert seen == [
        (0.0, 0.0, 0.0),
        (3.0, 8 / 3, 2 / 3),
        (4.0, 10 / 4, 12 / 4),
        # Since 103: the last statistics that are at least 5 s old.
        (8.0, 30 / 5, 18 / 5),
        (20.0, 6 / 12, 0.0),
    ]
    alone = Tally(0, None).stats([], 0)
    assert (alone["rows"], alone["rows_per_s"], alone["updates_per_s"]) == (None, None, 0.0)


def test_the_time_since_a_report_is_that_of_the_actors_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_stats, "time", SimpleNamespace(monotonic=lambda: 50.0))
    tally = Tally(3, None)
    tally.add([Report(rank, None, 1, None, time_s) for rank, time_s in ((0, 30), (0, 48), (2, 51))])
    actors: list[ActorStats] = [
        {
            "rank": rank,
            "pid": None,
            "state": "running",
            "restarts": 0,
            "episodes": 0,
            "version": None,
            "since_report_s": None,
            "last_error": None,
        }
        for rank in range(3)
    ]
    shown = [actor["since_report_s"] for actor in tally.stats(actors, 0)["actors"]]
    assert shown == [2.0, None, 0.0]


def test_a_killed_actor_is_restarted_with_its_rank_and_another_seed() -> None:
    with bc.Fleet(actors.until_stopped, 2) as fleet:
        first = pids(fleet)
        os.kill(first[1], signal.SIGKILL)
        while fleet.stats()["actors"][1]["restarts"] < 1 or fleet.stats()["running"] < 2:
            threading.Event().wait(0.01)
        second = pids(fleet)
        stats = fleet.stats()
    assert second[0] == first[0]
    assert second[1] != first[1]
    assert [actor["restarts"] for actor in stats["actors"]] == [0, 1]
    assert stats["restarts"] == 1


@pytest.mark.parametrize("restart", ["signal", "always"])
def test_deaths_by_a_signal_are_followed_by_restarts(restart: Any) -> None:
    with bc.Fleet(actors.die_in_first_lives, args=(3,), restart=restart) as fleet:
        fleet.wait(WATCHDOG_S)
        assert fleet.stats()["restarts"] == 3


def test_exceptions_are_followed_by_restarts_if_that_is_wanted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with bc.Fleet(actors.raise_in_first_lives, args=(2,), restart="always") as fleet:
        fleet.wait(WATCHDOG_S)
        stats = fleet.stats()
    assert stats["restarts"] == 2
    said = "actor 0 (fleet_actors:raise_in_first_lives) raised ValueError: not yet; restarting"
    assert capfd.readouterr().err.splitlines() == [f"backcast: {said}"] * 2
    last = stats["actors"][0]["last_error"]
    assert last is not None
    assert last.startswith("raised ValueError: not yet\nTraceback ")
    assert last.endswith('raise ValueError("not yet")\nValueError: not yet')


def test_deaths_without_an_exception_are_described_too(capfd: pytest.CaptureFixture[str]) -> None:
    for deaths, last, said in [(1, "was killed by SIGKILL", 1), (0, None, 0)]:
        with bc.Fleet(actors.die_in_first_lives, args=(deaths,)) as fleet:
            fleet.wait(WATCHDOG_S)
            assert fleet.stats()["actors"][0]["last_error"] == last
        assert capfd.readouterr().err.count("SIGKILL") == said


@pytest.mark.parametrize("closed", [True, False])
def test_a_restart_that_cannot_be_told_happens(
    closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    with bc.Fleet(actors.die_in_first_lives, args=(1,), progress=False) as fleet:
        fleet.wait(WATCHDOG_S)
        assert fleet.stats()["restarts"] == 1


def test_without_restarts_a_death_ends_the_fleet() -> None:
    with (
        pytest.raises(bc.errors.ActorError, match=r"\b0\b.*\bSIGKILL\b.*restart="),
        bc.Fleet(actors.die_in_first_lives, args=(1,), restart="never") as fleet,
    ):
        fleet.wait(WATCHDOG_S)


@pytest.fixture
def killed_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the file that says how many imports of `killed_import` are killed."""
    counter = tmp_path / "killed imports"
    monkeypatch.setenv("KILLED_IMPORTS", str(counter))
    return counter


@pytest.mark.parametrize("restart", ["signal", "always"])
def test_an_actor_that_is_killed_before_it_is_ready_is_started_again(
    killed_imports: Path,
    restart: Any,
) -> None:
    killed_imports.write_text("2")
    with bc.Fleet("killed_import:act", restart=restart) as fleet:
        stats = fleet.stats()
    assert (stats["running"], stats["restarts"]) == (1, 2)
    assert stats["actors"][0]["last_error"] == "was killed by SIGKILL"
    assert killed_imports.read_text() == "0"


@pytest.mark.parametrize(
    ("restart", "kills", "error"),
    [
        ("never", 1, bc.errors.ActorError),
        ("signal", 9, bc.errors.RestartLimitError),
    ],
)
def test_deaths_before_an_actor_is_ready_end_the_entry_of_the_block(
    killed_imports: Path,
    restart: Any,
    kills: int,
    error: type[bc.errors.ActorError],
) -> None:
    killed_imports.write_text(str(kills))
    with (
        pytest.raises(error, match=r"\b0\b.*\bSIGKILL\b") as raised,
        bc.Fleet("killed_import:act", restart=restart, max_deaths=3),
    ):
        pytest.fail("it started")
    assert ("before it was ready" in str(raised.value)) == (restart == "never")
    # No process is left: only the ones that died have counted.
    assert int(killed_imports.read_text()) == max(0, kills - 3)


def test_five_deaths_within_a_minute_end_the_fleet() -> None:
    words = r"\b0\b.*\b5\b.*\b60\b.*\bSIGKILL\b.*max_deaths="
    with (
        pytest.raises(bc.errors.RestartLimitError, match=words),
        bc.Fleet(actors.die_in_first_lives, args=(9,)) as fleet,
    ):
        fleet.wait(WATCHDOG_S)


def test_the_error_of_too_many_deaths_has_the_traceback_of_the_last() -> None:
    # The second death may come before the block is entered.
    fleet = bc.Fleet(actors.raise_in_first_lives, args=(9,), restart="always", max_deaths=2)
    with (
        pytest.raises(bc.errors.RestartLimitError, match="ValueError: not yet") as raised,
        fleet,
    ):
        fleet.wait(WATCHDOG_S)
    error = raised.value
    assert error.rank == 0
    assert error.actor_traceback.endswith('raise ValueError("not yet")\nValueError: not yet\n')
    assert error.actor_traceback.rstrip() in error.__notes__[0]
    last = fleet.stats()["actors"][0]["last_error"]
    assert last is not None
    assert last.endswith(error.actor_traceback.rstrip())


def test_an_exception_interrupts_the_learner_and_has_the_traceback() -> None:
    with (
        pytest.raises(bc.errors.ActorError) as raised,
        bc.Fleet(actors.raise_at, 2, args=(10_000,)),
    ):
        # Waits without end, like a draw that waits for rows of the actors.
        until_interrupted()
    error = raised.value
    facts = ["1", "fleet_actors:raise_at", "ValueError: no bananas in step 10000"]
    assert missing(error, facts) == []
    assert "; " in str(error)
    assert error.rank == 1
    assert 'raise ValueError(f"no bananas in step {number}")' in error.actor_traceback
    assert "_child.py" not in error.actor_traceback
    assert error.actor_traceback.strip() in error.__notes__[0]


def test_a_failure_that_was_swallowed_is_raised_at_the_end() -> None:
    with (
        pytest.raises(bc.errors.ActorError, match="no bananas"),
        bc.Fleet(actors.raise_at, 2, args=(3,)),
        suppress(bc.errors.FleetError),
    ):
        until_interrupted()


def test_a_fleet_works_in_another_thread_too() -> None:
    caught: list[BaseException] = []

    def learn() -> None:
        try:
            with bc.Fleet(actors.raise_at, 2, args=(3,)) as fleet:
                fleet.wait(WATCHDOG_S)
        except bc.BackcastError as error:
            caught.append(error)

    thread = threading.Thread(target=learn)
    thread.start()
    join(thread)
    assert [type(error) for error in caught] == [bc.errors.ActorError]


@pytest.mark.parametrize(
    ("actor", "status"),
    [(actors.leave_with, 3), (actors.vanish_with, 4)],
    ids=["leaves", "vanishes"],
)
def test_an_exit_status_is_like_an_exception(actor: Any, status: int) -> None:
    with (
        pytest.raises(bc.errors.ActorError, match=rf"\b0\b.*\b{status}\b"),
        bc.Fleet(actor, args=(status,)) as fleet,
    ):
        fleet.wait(WATCHDOG_S)


def test_the_error_of_a_command_has_its_last_output(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["/bin/sh", "-c", "echo out of bananas >&2; exit 3"]
    with (
        pytest.raises(bc.errors.ActorError, match=r"\b0\b.*\b3\b") as raised,
        bc.Fleet(command) as fleet,
    ):
        fleet.wait(WATCHDOG_S)
    assert "out of bananas" in raised.value.actor_traceback


def test_an_actor_that_ignores_the_flag_is_interrupted(tmp_path: Path) -> None:
    with bc.Fleet(actors.never_look_at_the_flag, args=(str(tmp_path),)) as fleet:
        while fleet.stats()["actors"][0]["since_report_s"] is None:
            threading.Event().wait(0.01)
    assert (tmp_path / "interrupted").exists()


def test_an_actor_that_refuses_to_stop_is_killed() -> None:
    with bc.Fleet(actors.refuse_to_stop, stop_timeout=0.2) as fleet:
        [pid] = pids(fleet)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_signal_handlers_return() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with bc.Fleet(actors.until_stopped):
        pass
    assert [signal.getsignal(number) for number in numbers] == before


def test_report_outside_of_a_fleet_is_refused() -> None:
    with pytest.raises(bc.errors.FleetError, match=r"\bBACKCAST_FLEET_RANK\b"):
        fleet_module.report(return_=1.0)
