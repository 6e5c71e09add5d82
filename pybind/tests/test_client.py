"""Requests to the daemon from Python, through `Client`."""

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
from waits import read_line

COLUMNS = {"obs": ("f4", (3,)), "reward": "f4"}


def create(name: str | None, **changes: Any) -> bc.ReplayBuffer:  # noqa: ANN401 - anything is tried
    """Make a ring of ten rows, with some arguments changed."""
    arguments: dict[str, Any] = {"capacity": 10} | changes
    return bc.ReplayBuffer.create(name, COLUMNS, **arguments)


def attach(name: str, **arguments: Any) -> bc.ReplayBuffer:  # noqa: ANN401 - anything is tried
    return bc.ReplayBuffer.attach(name, **arguments)


def test_rings_are_made_joined_shown_and_removed(place: Path) -> None:
    with serving(place, "--budget", "64MiB") as ready, bc.Client.connect(place) as client:
        said = client.ping()
        assert said["pid"] == ready["pid"]
        assert (said["budget_bytes"], said["used_bytes"]) == (64 << 20, 0)
        with create("pong", capacity=1_000, lanes=2, daemon=client) as buf:
            with buf.writer() as writer:
                for _ in range(5):
                    writer.append(obs=[1, 2, 3], reward=1, terminated=False, truncated=False)
            assert [entry["name"] for entry in client.list_objects()] == ["pong"]
            assert client.stats("pong")["rows_published"] == 5
            through, beside = {"daemon": client}, {"dir": place}
            with attach("pong", **through) as again, attach("pong", **beside) as third:
                assert len(again) == len(third) == len(buf) == 4
            with pytest.raises(bc.errors.InUseError, match="pong"):
                client.remove_object("pong")
        assert client.list_objects() == []
        create("kept", persistent=True, daemon=client).close()
        assert client.collect_garbage() == []
        assert client.remove_object("kept", "ring")["name"] == "kept"
    with pytest.raises(bc.ClosedError):
        client.ping()


def test_rings_beyond_the_budget_are_refused_with_the_numbers(place: Path) -> None:
    with serving(place, "--budget", "1MiB"):
        client = bc.Client.connect(place)
        with pytest.raises(bc.errors.OverBudgetError, match=r"`big`.*\b1\b.*\bMiB\b.*--budget"):
            create("big", capacity="16MiB", daemon=client)
        assert client.list_objects() == []


def test_rings_go_to_the_daemons_store_and_come_back(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKCAST_STORE", str(tmp_path / "store"))
    flags = ("--interval", "100ms", "--persist-flush", "50ms", "--budget", "64MiB")
    with serving(place, *flags) as _, bc.Client.connect(place) as client:
        saving = client.options(persist="continuous")
        with create("pong", capacity=100, daemon=saving) as buf:
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
        with pytest.raises(bc.errors.ArgumentError, match=r"\bpersist\b.*'always'"):
            client.options(persist="always")  # type: ignore[arg-type]


def test_a_ring_of_a_daemon_has_the_limiter_that_was_asked_for(place: Path) -> None:
    limits = bc.RateLimiter(samples_per_insert=2, min_size=3, error_buffer=9, no_learner="pass")
    with (
        serving(place),
        bc.Client.connect(place) as client,
        create("held", capacity=100, limiter=limits, daemon=client) as buf,
    ):
        assert buf.limiter is not None
        assert buf.limiter.limits == limits
        with attach("held", limiter=bc.RateLimiter(2), daemon=client) as again:
            assert len(again) == 0
        with pytest.raises(bc.ExistsError, match="samples_per_insert"):
            attach("held", limiter=bc.RateLimiter(9), daemon=client)
        with create("ratio", limiter=bc.RateLimiter(2), daemon=client) as ratio:
            assert ratio.limiter is not None
            assert ratio.limiter.limits == bc.RateLimiter(2, min_size=1, error_buffer=1_024)


def test_a_daemon_that_shrinks_gives_what_is_left(place: Path) -> None:
    with (
        serving(place, "--budget", "1MiB", "--when-full", "shrink"),
        create("big", capacity=1_000_000, daemon=bc.Client.connect(place)) as buf,
    ):
        assert 1_000 < buf.capacity < 1_000_000


def test_a_ring_grows_within_the_budget(place: Path) -> None:
    with serving(place, "--budget", "1MiB"), bc.Client.connect(place) as client:
        with create("pong", capacity=2_000, daemon=client) as buf, buf.writer() as writer:
            for _ in range(300):
                writer.append(obs=[1, 2, 3], reward=1, terminated=False, truncated=False)
            grown = client.resize("pong", 6_000, timeout=0)
            assert (grown["capacity_rows"], grown["waiting_lanes"]) == (6_000, [0])
            assert (grown["copied_rows"], grown["shrunk"]) == (300, False)
            for _ in range(40):
                writer.append(obs=[1, 2, 3], reward=1, terminated=False, truncated=False)
            assert (buf.capacity, len(buf)) == (6_000, 339)
            with pytest.raises(bc.errors.OverBudgetError, match=r"--budget"):
                client.resize("pong", "900KiB")
            with pytest.raises(bc.errors.ArgumentError, match="`pong`"):
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
        sealed = client.options(memfd=True)
        made = create("pong", capacity=1_000, persistent=True, daemon=sealed)
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
        assert read_line(child) == "written\n"
        with attach("pong", daemon=client) as buf, bc.Client.connect(place) as again:
            assert buf.rows(0, 0, 5)["reward"].tolist() == [0, 1, 2, 3, 4]
            with pytest.raises(bc.errors.ArgumentError, match=r"client\.resize"):
                buf.resize(3_000)
            again.resize("pong", 3_000, timeout=0)
            child.communicate("end\n", timeout=60)
            assert buf.rows(0, 0, 5)["reward"].tolist() == [0, 1, 2, 3, 4]
        assert client.stats("pong")["memfd"] is True
        with pytest.raises(bc.errors.ArgumentError, match="memfd"):
            client.options(memfd="yes")  # type: ignore[arg-type]


def test_errors_are_those_of_rings(place: Path) -> None:
    with serving(place):
        client = bc.Client.connect(place)
        with create("pong", daemon=client):
            with pytest.raises(bc.ExistsError, match="`pong`"):
                create("pong", daemon=client)
            with pytest.raises(bc.NotFoundError, match="`pong`"):
                attach("pnog", daemon=client)
            with pytest.raises(bc.errors.ArgumentError, match="a/b"):
                create("a/b", daemon=client)


def test_the_options_of_a_daemon_are_a_value(place: Path) -> None:
    with serving(place):
        client, same = bc.Client.connect(place), bc.Client.connect(place)
        options = client.options(memfd=True, persist="block")
        assert (options.client is client, options.memfd, options.persist) == (True, True, "block")
        assert client.options().persist is None
        assert options == same.options(memfd=True, persist="block") != client.options(memfd=True)
        shown = f"memfd=True, persist='block', daemon at {client.socket}"
        assert repr(options) == f"<backcast.types.DaemonOptions: {shown}>"
        with pytest.raises(bc.errors.ArgumentTypeError, match=r"client\.options\("):
            bc.types.DaemonOptions()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda place, client: create("new", dir=place, daemon=client),
            "dir",
        ),
        (
            lambda place, client: attach("pong", dir=place, daemon=client.options()),
            "daemon",
        ),
        (
            lambda place, client: attach("pong", store=place, daemon=client),
            "store",
        ),
        (
            lambda place, client: attach("pong", daemon=client.options(persist="block")),
            "memfd",
        ),
        (
            lambda place, client: create(None, daemon=client),
            "name",
        ),
        (
            lambda place, client: create("new", daemon=str(place)),
            "client.options(...)",
        ),
        (
            lambda place, client: create("new", daemon=client, memfd=True),
            "daemon=client.options(memfd=...)",
        ),
    ],
)
def test_what_does_not_go_with_a_daemon_is_refused(
    place: Path, call: Callable[[Path, Any], object], message: str
) -> None:
    with serving(place):
        client = bc.Client.connect(place)
        with create("pong", daemon=client):
            with pytest.raises(bc.errors.ArgumentError, match=re.escape(message)):
                call(place, client)
            assert [one["name"] for one in client.list_objects()] == ["pong"]


INSTEAD = {
    "attach": "bc.ReplayBuffer.attach(name, daemon=client)",
    "create": "bc.ReplayBuffer.create(..., daemon=client)",
    "gc": "client.collect_garbage()",
    "list": "client.list_objects()",
    "load": "client.load_snapshot(...)",
    "remove": "client.remove_object(...)",
    "save": "client.save_snapshot(...)",
    "snapshots": "client.list_snapshots()",
}


def test_a_client_says_what_to_write_for_names_that_are_elsewhere(place: Path) -> None:
    with serving(place):
        client = bc.Client.connect(place)
        for name, instead in INSTEAD.items():
            with pytest.raises(AttributeError, match=rf"'{name}'.*{re.escape(instead)}$"):
                getattr(client, name)
        with pytest.raises(AttributeError, match=r"'nothing'"):
            _ = client.nothing  # type: ignore[attr-defined]


def test_without_a_daemon_the_error_says_how_to_start_one(place: Path) -> None:
    with pytest.raises(bc.errors.DaemonNotRunningError, match=f"--dir.*{place}"):
        bc.Client.connect(place)
    with pytest.raises(bc.errors.ArgumentError, match=r"\bsocket\b"):
        bc.Client.connect(place, socket=place / "s")
    with pytest.raises(bc.errors.ArgumentError, match=r"\btimeout\b.*\b0\b"):
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
    """Return a socket that listens and sends nothing."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "mute"))
    listener.listen(8)
    listener.settimeout(60)
    return listener


def test_a_silent_daemon_times_out(mute: socket.socket) -> None:
    with mute, pytest.raises(bc.errors.DaemonTimeoutError, match=r"\b0\.05\b"):
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
            asked.settimeout(60)
            asked.recv(1)
            asked.sendall(b"220 mail.example\n")
        _, printed = child.communicate(timeout=60)
    assert "backcast.errors.DaemonError:" in printed
    assert "invalid" in printed, "it did not just end"


def test_ctrl_c_ends_the_wait(
    mute: socket.socket, start: Callable[..., subprocess.Popen[str]]
) -> None:
    code = "import sys, backcast as bc; bc.Client.connect(socket=sys.argv[1], timeout=60)"
    child = start(code, mute.getsockname())
    with mute:
        asked, _ = mute.accept()
        with asked:
            asked.settimeout(60)
            # The client has sent its request, and waits for the answer.
            assert asked.recv(1)
            child.send_signal(signal.SIGINT)
            _, printed = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in printed
