"""The whole demo in processes: its output, and the absence of leftovers."""

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

import pytest
from backcast.demo.data import DataMissingError, package_file

WATCHDOG_SECONDS = 180
SMALL = ("--actors", "2", "--envs", "2", "--capacity", "8192")
NUMBERS = {
    "actors",
    "envs_per_actor",
    "seconds",
    "capacity_rows",
    "rows_written",
    "rows_written_per_s",
    "rows_checked",
    "torn_rows",
    "lapped_reads",
    "fill",
    "batch_rows",
    "learner_batches",
    "learner_batches_per_s",
    "sample_cpu_ms_median",
    "sampled_age_rows_median",
    "killed_actors",
    "adopted_lanes",
    "lost_transitions",
    "unfinished_rows",
    "heldout_examples",
    "heldout_mse_model",
    "heldout_mse_trivial",
    "heldout_log_range_mse_model",
    "heldout_log_range_mse_trivial",
    "equity_cost_fraction",
    "seed",
}
WORDS = {"backcast_version", "python_version", "machine", "panel", "first_test_date"}


@pytest.fixture
def base() -> Iterator[Path]:
    try:
        package_file("bokeh_sampledata", "_data", "stocks.csv.gz")
        package_file("arch", "data", "sp500", "sp500.csv.gz")
    except DataMissingError as missing:
        pytest.skip(str(missing))
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="backcast-test-", dir=shared) as folder:
        yield Path(folder)


def demo(base: Path, *arguments: str, nohup: bool = False) -> "subprocess.Popen[str]":
    def prepare() -> None:
        # Whatever the tests themselves run under.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-m", "backcast.demo", *SMALL, *arguments],
        env={**os.environ, "BACKCAST_DIR": str(base)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=prepare,
    )


def left_behind(base: Path) -> list[str]:
    # A directory may be removed meanwhile, which `os.walk` leaves out.
    return [
        str(Path(top, name))
        for top, inner, files in os.walk(base)
        if Path(top).parent == base
        for name in inner + files
    ]


def end(run: "subprocess.Popen[str]") -> tuple[str, str]:
    """Wait for the end of all its processes: each of them holds the pipes."""
    try:
        return run.communicate(timeout=WATCHDOG_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        raise


def wait_until_running(run: "subprocess.Popen[str]") -> None:
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("running:"):
            return
    pytest.fail(f"the demo ended early with status {run.wait(WATCHDOG_SECONDS)}")


def test_a_run_with_a_kill_loses_nothing_it_should_not(base: Path, tmp_path: Path) -> None:
    run = demo(base, "--seconds", "3", "--kill", "--out", str(tmp_path))
    out, err = end(run)
    assert run.returncode == 0, err
    assert left_behind(base) == []
    result = json.loads((tmp_path / "demo.json").read_text())
    assert set(result) == NUMBERS | WORDS | {"tickers", "equity_return"}
    assert all(isinstance(result[key], (int, float)) for key in NUMBERS)
    assert result["torn_rows"] == 0
    assert result["actors"] == 2
    assert result["rows_written"] > 0
    assert result["learner_batches"] > 0
    assert (result["killed_actors"], result["adopted_lanes"]) == (1, 2)
    assert result["lost_transitions"] <= 2
    assert result["tickers"] == ["AAPL", "GOOG", "IBM", "MSFT"]
    assert set(result["equity_return"]) == {"learned", "buy and hold", "random"}
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "held-out return" in out
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_every_process_and_removes_ring_and_panel(
    base: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = demo(base, "--seconds", "600", "--out", str(tmp_path))
    wait_until_running(run)
    assert left_behind(base) != []
    # To the whole group, as a terminal does it; a service manager's SIGTERM meets one process.
    if number != signal.SIGTERM:
        os.killpg(run.pid, number)
    else:
        run.send_signal(number)
    _, err = end(run)
    assert run.returncode == 128 + number
    assert "Traceback" not in err
    assert number.name in err
    assert left_behind(base) == []


def test_a_terminal_that_closes_ends_every_process_and_removes_ring_and_panel(
    base: Path, tmp_path: Path
) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.environ["BACKCAST_DIR"] = str(base)
        arguments = [*SMALL, "--seconds", "600", "--out", str(tmp_path)]
        os.execv(sys.executable, [sys.executable, "-m", "backcast.demo", *arguments])
    seen = b""
    while b"running:" not in seen:
        seen += os.read(terminal, 65536)
    assert left_behind(base) != []
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert left_behind(base) == []


def test_nohup_keeps_the_demo_going_when_its_terminal_closes(base: Path, tmp_path: Path) -> None:
    run = demo(base, "--seconds", "1", "--out", str(tmp_path), nohup=True)
    wait_until_running(run)
    os.killpg(run.pid, signal.SIGHUP)
    _, err = end(run)
    assert run.returncode == 0, err
    assert left_behind(base) == []


def test_nothing_stays_when_the_demo_itself_is_killed(base: Path, tmp_path: Path) -> None:
    run = demo(base, "--seconds", "600", "--out", str(tmp_path))
    wait_until_running(run)
    run.kill()
    end(run)
    # The fleet's guardian removes what nobody holds, and has no pipe of the demo.
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while left_behind(base) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert left_behind(base) == []


def test_an_unusable_panel_is_refused_with_a_reason(base: Path, tmp_path: Path) -> None:
    panel = tmp_path / "short.csv"
    rows = [f"2020-01-{day:02d},A,1,1,1,1,1" for day in range(1, 20)]
    panel.write_text("\n".join(["date,tic,open,high,low,close,volume", *rows]) + "\n")
    run = demo(base, "--panel", str(panel), "--out", str(tmp_path))
    _, err = end(run)
    assert run.returncode == 1
    assert "the panel has 19 days" in err
    assert "Traceback" not in err
    assert left_behind(base) == []
