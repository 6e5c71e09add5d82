"""The whole demo in processes of its own: its output, its ends, and the absence of leftovers."""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import backcast
import pytest
from backcast.demo import __main__ as program
from waits import WATCHDOG_S, exit_code_of, killing

ENOUGH_BATCHES = 3_000
"""Batches after which the learner has to show what it has learned."""
SMALL = ("--actors", "2", "--envs", "4", "--capacity", "16384")
NUMBERS = {
    "seed",
    "actors",
    "envs_per_actor",
    "capacity_rows",
    "seconds",
    "rows_written",
    "rows_written_per_s",
    "batch_rows",
    "learner_batches",
    "learner_batches_per_s",
    "rows_checked",
    "torn_rows",
    "killed_actors",
    "adopted_lanes",
    "rows_compared",
    "lost_rows",
    "test_episodes",
    "test_return_before",
    "test_return_learned",
    "test_return_holding",
    "margin_over_holding",
    "margin_standard_error",
    "episodes_better_than_holding",
}
MODULE = ("-m", "backcast.demo")
WORDS = {"backcast_version", "python_version", "machine"}


@pytest.fixture
def base() -> Iterator[Path]:
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="backcast-test-", dir=shared) as folder:
        yield Path(folder)


ENDLESS_TEST = """
import sys
from backcast.demo import __main__, report

once = report.test

def test(*given):
    while True:
        once(*given)

report.test = test
sys.exit(__main__.main())
"""


def demo(
    base: Path, *arguments: str, nohup: bool = False, program: tuple[str, str] = MODULE
) -> "subprocess.Popen[str]":
    def prepare() -> None:
        # Replaces the action that the tests themselves were started with.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, *program, *SMALL, *arguments],
        env={**os.environ, "BACKCAST_DIR": str(base)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=prepare,
    )


def left_behind(base: Path) -> list[str]:
    # `os.walk` skips a directory that is removed meanwhile.
    return [
        str(Path(top, name))
        for top, inner, files in os.walk(base)
        if Path(top).parent == base
        for name in inner + files
    ]


def end(run: "subprocess.Popen[str]") -> tuple[str, str]:
    """Wait for the end of all processes of the demo, each of which holds its pipes."""
    try:
        return run.communicate(timeout=WATCHDOG_S)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        raise


def wait_until(run: "subprocess.Popen[str]", said: str) -> None:
    assert run.stderr is not None
    with killing(lambda: os.killpg(run.pid, signal.SIGKILL)):
        for line in run.stderr:
            if line.startswith(said):
                return
    pytest.fail(f"the demo ended early with status {run.wait(WATCHDOG_S)}")


def test_a_run_learns_and_a_kill_loses_no_row(base: Path, tmp_path: Path) -> None:
    # In a large ring the killed actor's rows are compared before its successor overwrites them.
    roomy = ("--kill", "--capacity", "262144", "--out", str(tmp_path))
    for seconds in ("8", "20", "60"):
        run = demo(base, "--seconds", seconds, *roomy)
        out, err = end(run)
        assert run.returncode == 0, err
        assert left_behind(base) == []
        result = json.loads((tmp_path / "demo.json").read_text())
        # How much is learned depends on the machine: a slow one gets more time.
        if "the policy beats holding" in out or result["learner_batches"] > ENOUGH_BATCHES:
            break
    assert set(result) == NUMBERS | WORDS
    assert all(isinstance(result[key], (int, float)) for key in NUMBERS)
    assert result["rows_checked"] == 256 * result["learner_batches"] > 0
    assert result["torn_rows"] == result["lost_rows"] == 0
    assert (result["killed_actors"], result["adopted_lanes"]) == (1, 4)
    assert result["rows_compared"] > 0
    assert result["rows_written"] > 0
    assert result["test_return_learned"] > result["test_return_before"]
    assert result["margin_over_holding"] > 2 * result["margin_standard_error"], out
    assert "the policy beats holding" in out
    assert "0 are lost or changed" in out
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_every_process_and_removes_ring_and_weights(
    base: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = demo(base, "--seconds", "600", "--out", str(tmp_path))
    wait_until(run, "running:")
    assert left_behind(base) != []
    # A terminal signals the whole group; a service manager sends SIGTERM to one process.
    if number != signal.SIGTERM:
        os.killpg(run.pid, number)
    else:
        run.send_signal(number)
    _, err = end(run)
    assert run.returncode == 128 + number
    assert "Traceback" not in err
    assert number.name in err
    assert left_behind(base) == []


def test_a_signal_during_the_test_of_the_policies_ends_it_too(base: Path, tmp_path: Path) -> None:
    # The test of the policies never ends, so the signal arrives before its end.
    run = demo(base, "--seconds", "1", "--out", str(tmp_path), program=("-c", ENDLESS_TEST))
    wait_until(run, "testing:")
    run.terminate()
    _, err = end(run)
    assert run.returncode == 128 + signal.SIGTERM
    assert "interrupted by SIGTERM" in err
    assert "Traceback" not in err
    assert left_behind(base) == []
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_that_closes_ends_every_process_and_removes_ring_and_weights(
    base: Path, tmp_path: Path
) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.environ["BACKCAST_DIR"] = str(base)
        arguments = [*SMALL, "--seconds", "600", "--out", str(tmp_path)]
        os.execv(sys.executable, [sys.executable, "-m", "backcast.demo", *arguments])
    seen = b""
    with killing(lambda: os.kill(pid, signal.SIGKILL)):
        while b"running:" not in seen:
            seen += os.read(terminal, 65536)
    assert left_behind(base) != []
    os.close(terminal)
    assert exit_code_of(pid) == 128 + signal.SIGHUP
    assert left_behind(base) == []


def test_nohup_keeps_the_demo_going_when_its_terminal_closes(base: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "demo.json"
    earlier.write_text("of an earlier run")
    run = demo(base, "--seconds", "1", "--seed", "5", "--out", str(tmp_path), nohup=True)
    wait_until(run, "running:")
    os.killpg(run.pid, signal.SIGHUP)
    _, err = end(run)
    assert run.returncode == 0, err
    assert json.loads(earlier.read_text())["seed"] == 5
    assert left_behind(base) == []


def test_nothing_stays_when_the_demo_itself_is_killed(base: Path, tmp_path: Path) -> None:
    run = demo(base, "--seconds", "600", "--out", str(tmp_path))
    wait_until(run, "running:")
    run.kill()
    end(run)
    # The fleet's guardian removes the leftovers after `end`: it has no pipe of the demo.
    deadline = time.monotonic() + WATCHDOG_S
    while left_behind(base) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert left_behind(base) == []


def test_a_build_without_markets_says_that_it_needs_them(tmp_path: Path) -> None:
    package = tmp_path / "backcast"
    package.mkdir()
    for entry in Path(backcast.__file__).parent.iterdir():
        if entry.name != "envs":
            (package / entry.name).symlink_to(entry)
    run = subprocess.run(
        [sys.executable, "-m", "backcast.demo", "--out", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("backcast demo: ")
    assert run.stderr.count("\n") == 1
    assert "markets" in run.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_library_names_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "matplotlib" else name
    )
    assert program.main([]) == 1
    shown = capsys.readouterr().err
    assert "matplotlib" in shown
    assert "-m pip install 'backcast[demo]'" in shown
