"""Asking the daemon from Python."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import pytest
from conftest import Child
from daemons import serving

COLUMNS = {"obs": ("f4", (3,)), "reward": "f4"}


def test_rings_are_made_joined_shown_and_removed(place: Path) -> None:
    with serving(place, "--budget", "64MiB") as ready, bc.Client.connect(place) as client:
        said = client.ping()
        assert said["pid"] == ready["pid"]
        assert (said["budget_bytes"], said["used_bytes"]) == (64 << 20, 0)
        with client.create("pong", COLUMNS, capacity=1_000, lanes=2) as buf:
            with buf.writer() as writer:
                for _ in range(5):
                    writer.append(obs=[1, 2, 3], reward=1, terminated=False, truncated=False)
            assert [entry["name"] for entry in client.list_objects()] == ["pong"]
            assert client.stats("pong")["rows_published"] == 5
            with client.attach("pong") as again, bc.ReplayBuffer.attach("pong", dir=place) as third:
                assert len(again) == len(third) == len(buf) == 4
            with pytest.raises(bc.errors.InUseError, match="pong"):
                client.remove_object("pong")
        assert client.list_objects() == []
        client.create("kept", COLUMNS, capacity=10, persistent=True).close()
        assert client.collect_garbage() == []
        assert client.remove_object("kept", "ring")["name"] == "kept"
    with pytest.raises(bc.ClosedError, match="connect again"):
        client.ping()


def test_rings_beyond_the_budget_are_refused_with_the_numbers(place: Path) -> None:
    with serving(place, "--budget", "1MiB"):
        client = bc.Client.connect(place)
        with pytest.raises(
            bc.errors.OverBudgetError, match=r"`big` needs .* budget of 1 MiB .*--budget"
        ):
            client.create("big", COLUMNS, capacity="16MiB")
        assert client.list_objects() == []


def test_rings_go_to_the_daemons_store_and_come_back(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKCAST_STORE", str(tmp_path / "store"))
    flags = ("--interval", "100ms", "--persist-flush", "50ms", "--budget", "64MiB")
    with serving(place, *flags) as _, bc.Client.connect(place) as client:
        with client.create("pong", COLUMNS, capacity=100, persist="continuous") as buf:
            with buf.writer() as writer:
                for t in range(30):
                    writer.append(obs=[t, t, t], reward=t, terminated=False, truncated=False)
            saved = client.save_snapshot("pong", "mine")
            assert (saved["name"], saved["rows"]) == ("pong@mine", 30)
            with pytest.raises(bc.ExistsError, match="pong@mine"):
                client.save_snapshot("pong", "mine")
            assert client.save_snapshot("pong", "mine", replace=True)["written_rows"] == 0
            with client.load_snapshot("pong@mine", "again") as again:
                assert again.rows(0, 0, 30)["reward"].tolist() == list(range(30))
            while client.stats("pong")["persist"]["persisted_rows"] < 30:
                pass
        names = [snapshot["name"] for snapshot in client.list_snapshots("pong")]
        assert sorted(names) == ["pong@live", "pong@mine"]
        assert client.list_snapshots("nobody") == []
        with client.load_snapshot("pong@live", exist="replace") as again:
            assert again.rows(0, 0, 30)["obs"][29].tolist() == [29, 29, 29]
        with pytest.raises(bc.NotFoundError, match="pong@x"):
            client.load_snapshot("pong@x")
        with pytest.raises(bc.errors.ArgumentError, match="persist is 'always'"):
            client.create("new", COLUMNS, capacity=10, persist="always")  # type: ignore[arg-type]


def test_a_ring_of_a_daemon_has_the_limiter_that_was_asked_for(place: Path) -> None:
    limits = bc.RateLimiter(samples_per_insert=2, min_size=3, error_buffer=9, no_learner="pass")
    with (
        serving(place),
        bc.Client.connect(place) as client,
        client.create("held", COLUMNS, capacity=100, limiter=limits) as buf,
    ):
        assert buf.limiter is not None
        assert buf.limiter.limits == limits
        how: dict[str, Any] = {"capacity": 100}
        with client.create("ratio", COLUMNS, limiter=bc.RateLimiter(2), **how) as ratio:
            assert ratio.limiter is not None
            assert ratio.limiter.limits == bc.RateLimiter(2, min_size=1, error_buffer=1_024)
        for name in ("samples_per_insert", "min_size", "error_buffer"):
            with pytest.raises(
                bc.errors.ArgumentTypeError, match=rf"`{name}`; write limiter=bc\.RateLim"
            ):
                client.create("other", COLUMNS, **(how | {name: 8}))


def test_a_daemon_that_shrinks_gives_what_is_left(place: Path) -> None:
    with (
        serving(place, "--budget", "1MiB", "--when-full", "shrink"),
        bc.Client.connect(place).create("big", COLUMNS, capacity=1_000_000) as buf,
    ):
        assert 1_000 < buf.capacity < 1_000_000


def test_a_ring_grows_within_the_budget(place: Path) -> None:
    with serving(place, "--budget", "1MiB"), bc.Client.connect(place) as client:
        with client.create("pong", COLUMNS, capacity=2_000) as buf, buf.writer() as writer:
            for _ in range(300):
                writer.append(obs=[1, 2, 3], reward=1, terminated=False, truncated=False)
            grown = client.resize("pong", 6_000, timeout=0)
            assert (grown["capacity_rows"], grown["waiting_lanes"]) == (6_000, [0])
            assert (grown["copied_rows"], grown["shrunk"]) == (300, False)
            for _ in range(40):
                writer.append(obs=[1, 2, 3], reward=1, terminated=False, truncated=False)
            assert (buf.capacity, len(buf)) == (6_000, 339)
            with pytest.raises(bc.errors.OverBudgetError, match=r"beside the old one.* --budget"):
                client.resize("pong", "900KiB")
            with pytest.raises(bc.errors.ArgumentError, match="can only grow"):
                client.resize("pong", 10)
            assert buf.capacity == 6_000
        with pytest.raises(bc.NotFoundError, match="pong"):
            client.resize("pong", 9_000)


@pytest.mark.skipif(sys.platform != "linux", reason="no memfds elsewhere")
def test_a_ring_in_sealed_memory_outlives_its_holders_and_cannot_be_cut(
    place: Path, start: Callable[..., Child]
) -> None:
    other = """
import sys
import backcast as bc

buf = bc.ReplayBuffer.attach("pong", dir=sys.argv[1])
with buf.writer() as writer:
    for t in range(5):
        writer.append(obs=[t, t, t], reward=t, terminated=False, truncated=False)
print("written", flush=True)
sys.stdin.readline()
"""
    with serving(place, "--budget", "64MiB") as ready, bc.Client.connect(place) as client:
        made = client.create("pong", COLUMNS, capacity=1_000, memfd=True, persistent=True)
        lane = Path(made.path or "") / "lane-0000.dat"
        _, _, pid, descriptor = lane.readlink().name.split(":")
        assert int(pid) == ready["pid"]
        with (
            Path(f"/proc/{pid}/fd/{descriptor}").open("r+b") as memory,
            pytest.raises(PermissionError),
        ):
            memory.truncate(0)
        made.close()
        child = start(other, str(place))
        assert child.stdout is not None
        assert child.stdout.readline() == "written\n"
        with client.attach("pong") as buf, bc.Client.connect(place) as again:
            assert buf.rows(0, 0, 5)["reward"].tolist() == [0, 1, 2, 3, 4]
            with pytest.raises(
                bc.errors.ArgumentError, match=r"daemon that keeps them.*client\.resize"
            ):
                buf.resize(3_000)
            again.resize("pong", 3_000, timeout=0)
            child.communicate("end\n", timeout=60)
            assert buf.rows(0, 0, 5)["reward"].tolist() == [0, 1, 2, 3, 4]
        assert client.stats("pong")["memfd"] is True
        with pytest.raises(bc.errors.ArgumentError, match="memfd"):
            client.create("more", COLUMNS, capacity=10, memfd="yes")  # type: ignore[arg-type]


def test_errors_are_those_of_rings(place: Path) -> None:
    with serving(place):
        client = bc.Client.connect(place)
        with client.create("pong", COLUMNS, capacity=10):
            with pytest.raises(bc.ExistsError, match="already exists"):
                client.create("pong", COLUMNS, capacity=10)
            with pytest.raises(bc.NotFoundError, match="did you mean `pong`"):
                client.attach("pnog")
            with pytest.raises(bc.errors.ArgumentError, match="a/b"):
                client.create("a/b", COLUMNS, capacity=10)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("gc", "client.collect_garbage()"),
        ("list", "client.list_objects()"),
        ("load", "client.load_snapshot(...)"),
        ("remove", "client.remove_object(...)"),
        ("save", "client.save_snapshot(...)"),
        ("snapshots", "client.list_snapshots()"),
    ],
)
def test_a_client_says_what_to_write_instead(place: Path, name: str, instead: str) -> None:
    with serving(place):
        client = bc.Client.connect(place)
        answer = re.escape(f"'Client' object has no attribute '{name}'; write {instead}")
        with pytest.raises(AttributeError, match=f"{answer}$"):
            getattr(client, name)
        with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
            _ = client.nothing  # type: ignore[attr-defined]


def test_without_a_daemon_the_error_says_how_to_start_one(place: Path) -> None:
    with pytest.raises(bc.errors.DaemonNotRunningError, match=f"backcast serve --dir {place}"):
        bc.Client.connect(place)
    with pytest.raises(bc.errors.ArgumentError, match="either dir or socket"):
        bc.Client.connect(place, socket=place / "s")
    with pytest.raises(bc.errors.ArgumentError, match="timeout is 0"):
        bc.Client.connect(place, timeout=0)


def test_a_daemon_that_was_restarted_is_asked_again(place: Path) -> None:
    with serving(place) as first:
        client = bc.Client.connect(place)
        assert client.ping()["pid"] == first["pid"]
    with pytest.raises(bc.errors.DaemonNotRunningError):
        client.ping()
    with serving(place) as second:
        assert client.ping()["pid"] == second["pid"]


@pytest.fixture
def mute(tmp_path: Path) -> socket.socket:
    """Listen, and send nothing."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "mute"))
    listener.listen(8)
    return listener


def test_a_silent_daemon_times_out(mute: socket.socket) -> None:
    with mute, pytest.raises(bc.errors.DaemonTimeoutError, match=r"silent for 0\.05 s"):
        bc.Client.connect(socket=mute.getsockname(), timeout=0.05)


def test_an_answer_that_is_none_is_an_error(mute: socket.socket) -> None:
    code = f"import backcast as bc; bc.Client.connect(socket={mute.getsockname()!r}, timeout=60)"
    with mute:
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stderr=subprocess.PIPE,
            text=True,
        )
        asked, _ = mute.accept()
        with asked:
            asked.recv(1)
            asked.sendall(b"220 mail.example\n")
        _, printed = child.communicate(timeout=60)
    assert "backcast.errors.DaemonError" in printed
    assert "sent an invalid answer" in printed


def test_ctrl_c_ends_the_wait(
    mute: socket.socket, start: Callable[..., subprocess.Popen[str]]
) -> None:
    code = "import sys, backcast as bc; bc.Client.connect(socket=sys.argv[1], timeout=600)"
    child = start(code, mute.getsockname())
    with mute:
        asked, _ = mute.accept()
        with asked:
            # The request is out: what follows is the wait for its answer.
            assert asked.recv(1)
            child.send_signal(signal.SIGINT)
            _, printed = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in printed
