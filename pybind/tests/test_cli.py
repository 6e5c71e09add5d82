"""The command line of the Python package."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import backcast as bc
import pytest
from backcast import cli
from waits import read_line, until


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m backcast` with arguments."""
    command = [sys.executable, "-m", "backcast", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_lists_what_python_made(place: Path) -> None:
    with bc.ReplayBuffer.create("seen", {"x": "f4"}, capacity=100, dir=place):
        done = run("--dir", str(place), "ls", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        [entry] = [json.loads(line) for line in done.stdout.splitlines()]
        assert (entry["name"], entry["kind"]) == ("seen", "ring")


def test_python_attaches_what_it_made(place: Path) -> None:
    made = run("--dir", str(place), "create", "tool", "--capacity", "100", "--column", "x:f4")
    assert made.returncode == 0, made.stderr
    with bc.ReplayBuffer.attach("tool", dir=place) as buf:
        assert buf.schema == bc.Schema({"x": "f4"})
    assert run("--dir", str(place), "rm", "tool").returncode == 0
    assert bc.list_objects(dir=place) == []


def test_exit_statuses_are_those_of_the_tool(place: Path) -> None:
    assert run("--version").stdout.strip() == f"backcast {bc.__version__}"
    wrong = run("lss")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "lss" in wrong.stderr
    missing = run("--dir", str(place), "stat", "nobody")
    assert missing.returncode == 3
    assert "nobody" in missing.stderr


def test_the_bench_starts_its_second_process_with_this_interpreter(place: Path) -> None:
    done = run("--dir", str(place), "--json", "bench", "--seconds", "0.05")
    assert done.returncode == 0, done.stderr
    rates = {row["what"]: row["rate_per_s"] for row in json.loads(done.stdout)["measured"]}
    assert len(rates) == 5
    assert rates["publish beside a learner"] > 0
    assert bc.list_objects(dir=place) == []


def test_a_bench_that_ctrl_c_ends_leaves_nothing(place: Path) -> None:
    command = [sys.executable, "-m", "backcast", "--dir", str(place), "bench", "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        until(
            lambda: any(x["name"].startswith("bench-") for x in bc.list_objects(dir=place)), child
        )
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (cli.INTERRUPTED, b"")
    assert bc.list_objects(dir=place) == []


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
@pytest.mark.parametrize("installed", [False, True], ids=["module", "command"])
def test_a_stopped_daemon_ends_and_leaves_nothing(
    place: Path, installed: bool, kind: signal.Signals
) -> None:
    script = Path(sys.executable).with_name("backcast")
    start = [str(script)] if installed else [sys.executable, "-m", "backcast"]
    if installed and not script.exists():
        pytest.skip("the wheel's command is not installed beside this Python")
    before = {path.relative_to(place) for path in place.rglob("*")}
    with subprocess.Popen(
        [*start, "--dir", str(place), "--json", "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert '"ready":true' in read_line(child)
        child.send_signal(kind)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, "")
    assert "Traceback" not in err
    assert "KeyboardInterrupt" not in err
    assert {path.relative_to(place) for path in place.rglob("*")} == before


def test_a_closed_pipe_is_not_an_error(place: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "backcast", "--help"]
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, text=True) as child:
        os.close(write)
        _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")


def test_the_demo_runs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def main(argv: list[str]) -> int:
        calls.append(argv)
        return 1

    monkeypatch.setattr("backcast.demo.main", main)
    assert cli.main(["demo", "--seconds", "1", "--kill"]) == 1
    assert calls == [["--seconds", "1", "--kill"]]


def test_a_demo_that_is_interrupted_ends_with_130_and_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("backcast.demo.main", main)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr() == ("", "")


def test_the_demos_directory_reaches_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str] = []
    monkeypatch.setenv("BACKCAST_DIR", "elsewhere")
    monkeypatch.setattr("backcast.demo.main", lambda argv: seen.append(os.environ["BACKCAST_DIR"]))
    assert cli.main(["--dir", str(tmp_path), "demo"]) == 0
    assert seen == [str(tmp_path)]


def test_a_wrong_option_of_the_demo_ends_with_its_own_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def main(argv: list[str]) -> int:
        raise SystemExit(2)

    monkeypatch.setattr("backcast.demo.main", main)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["demo", "--nonsense"])
    assert stopped.value.code == 2
