"""A stopped process that holds a lock: each wait for it has a limit or ends at a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import backcast as bc
import pytest
from daemons import serving
from waits import WATCHDOG_S, await_state, read_line

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""
STORE_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
Start = Callable[..., Any]


def lock_byte(table: str) -> int:
    """Return the byte of `ring.lck` that the holder of a table locks."""
    return 2**33 + zlib.crc32(table.encode())


def stopped(child: subprocess.Popen[str]) -> int:
    """Stop a child that holds a lock; return its process id once the kernel has stopped it."""
    assert read_line(child) == "held\n"
    child.send_signal(signal.SIGSTOP)
    await_state(child.pid, os.WSTOPPED)
    return child.pid


@pytest.fixture
def hold(start: Start) -> Callable[..., int]:
    """Return a function that starts a process, which locks a table and is stopped then."""

    def hold(buf: bc.ReplayBuffer, table: str = "priority") -> int:
        assert buf.path is not None
        return stopped(start(HOLDER, str(Path(buf.path) / "ring.lck"), str(lock_byte(table))))

    return hold


@contextmanager
def ring(place: Path, *, persistent: bool = False) -> Iterator[bc.ReplayBuffer]:
    """Make a ring with rows, priorities and learned values."""
    made = bc.ReplayBuffer.create(
        "held", {"obs": "f4", "reward": "f4"}, capacity=1_000, persistent=persistent, dir=place
    )
    with made as buf:
        with buf.writer() as w:
            for t in range(100):
                w.append(obs=t, reward=1, next_obs=t + 1, terminated=False, truncated=False)
        with buf.sampler(seed=1, select=bc.Priority(alpha=1.0)) as sampler:
            sampler.sample(8)
        buf.table("online", learned={"value": "f4"}).update_values([0, 1], value=[1.0, 2.0])
        yield buf


def command(place: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "backcast", "--dir", str(place), *arguments]


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(place, *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=WATCHDOG_S,
    )


def test_rows_are_saved_without_a_table_that_stays_locked(
    place: Path, tmp_path: Path, hold: Callable[..., int]
) -> None:
    with ring(place) as buf:
        pid = hold(buf)
        with pytest.warns(UserWarning, match=rf"`priority`.*{pid}\b"):
            report = buf.snapshot("a", store=tmp_path, timeout=0.1)
        assert list(report["left_out"]) == ["priority"]
        assert report["rows"] == 101
        with bc.ReplayBuffer.open_snapshot("held@a", store=tmp_path, dir=place) as saved:
            assert len(saved) == 100
            values = saved.table("online").values([0, 1])
            assert (list(values["value"]), list(values["value_set"])) == ([1, 2], [True, True])
            # The table that the snapshot lacks begins anew.
            anew = saved.sampler(seed=1, select=bc.Priority(alpha=0.5))
            assert anew.sample(8).index.shape == (8,)


def test_the_command_line_says_which_table_a_snapshot_lacks(
    place: Path, tmp_path: Path, hold: Callable[..., int]
) -> None:
    with ring(place) as buf:
        pid = hold(buf)
        save = ("save", "held", "--store", str(tmp_path), "--wait", "0")
        done = run(place, "--json", *save)
        assert done.returncode == 0, done.stderr
        [left_out] = json.loads(done.stdout)["left_out"]
        assert left_out["table"] == "priority"
        assert f"process {pid} " in left_out["reason"]
        assert "`priority`" in done.stderr

        shown = run(place, "stat", "held").stdout
        assert f"table priority, by process {pid} (" in shown
        assert "stopped)" in shown
        stat = json.loads(run(place, "--json", "stat", "held").stdout)
        assert stat["locked_tables"] == [{"table": "priority", "pids": [pid]}]
        once = ("top", "--once", "--interval", "0.05")
        [seen] = json.loads(run(place, "--json", *once).stdout)["rings"]
        assert seen["locked_tables"] == stat["locked_tables"]
        [said] = seen["waits"]
        assert said.startswith(f"the table `priority` is locked by process {pid} (")
        assert "stopped), and changes of it wait; let that process continue" in said
        assert f"held: {said}" in run(place, *once).stdout


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_a_signal_ends_a_save_that_waits(
    place: Path, tmp_path: Path, start: Start, kind: signal.Signals
) -> None:
    with ring(place) as buf:
        buf.snapshot("a", store=tmp_path)
        stopped(start(STORE_HOLDER, str(tmp_path / "held" / "store.lck")))
        save = command(place, "save", "held", "--store", str(tmp_path), "--wait", "100000")
        child = subprocess.Popen(save, stderr=subprocess.PIPE, text=True)
        try:
            # The command opens the ring and installs its handlers before it waits for the store.
            for _ in range(1_000_000):
                if opened(child.pid, "ring.lck") and catches(child.pid, signal.SIGTERM):
                    break
                assert child.poll() is None
            else:
                pytest.fail("it has not opened the ring")
            child.send_signal(kind)
            _, err = child.communicate(timeout=60)
        finally:
            child.kill()
            child.communicate(timeout=60)
        # The command's own handlers end it; a signal's default action would be `-kind`.
        assert child.returncode == 128 + kind, err


def catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler of a signal."""
    status = Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0]
    return bool(int(status, 16) >> (number - 1) & 1)


def opened(pid: int, name: str) -> bool:
    """Return whether a process has a file open whose path ends with `name`."""
    try:
        links = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.endswith(name) for link in links)


def test_a_locked_store_is_an_error_that_names_the_holder(
    place: Path, tmp_path: Path, start: Start
) -> None:
    with ring(place) as buf:
        buf.snapshot("a", store=tmp_path)
        pid = stopped(start(STORE_HOLDER, str(tmp_path / "held" / "store.lck")))
        with pytest.raises(bc.errors.InUseError, match=rf"\b{pid}\b"):
            buf.snapshot("b", store=tmp_path, timeout=0.05)
        assert [s["label"] for s in bc.list_snapshots("held", store=tmp_path)] == ["a"]


def test_priorities_are_set_within_the_timeout_or_the_holder_is_named(
    place: Path, hold: Callable[..., int]
) -> None:
    with ring(place) as buf, buf.sampler(seed=2, select=bc.Priority(alpha=1.0)) as sampler:
        pid = hold(buf)
        with pytest.raises(bc.errors.InUseError, match=rf"\b{pid}\b.*kill -CONT"):
            sampler.update_priorities([1, 2], [5.0, 5.0], timeout=0.05)
        # Draws do not wait for the lock.
        assert sampler.sample(8).index.shape == (8,)
        os.kill(pid, signal.SIGKILL)
        await_state(pid, os.WEXITED)
        assert sampler.update_priorities([1, 2], [5.0, 5.0], timeout=60) == 0


WAITS = """
import signal, sys
import backcast as bc
signal.signal(signal.SIGINT, signal.default_int_handler)
buf = bc.ReplayBuffer.attach("held")
work = {
    "update": lambda: sampler.update_priorities([1], [2.0], timeout=100_000),
    "draw": lambda: sampler.sample(4),
    "pass": lambda: sampler.sample(4),
    "open": lambda: buf.sampler(select=bc.Priority(alpha=0.3, table="fresh")),
    "snapshot": lambda: buf.snapshot("x", store=sys.argv[2], timeout=100_000),
    "remove": lambda: buf.remove_table("priority", timeout=100_000),
}[sys.argv[1]]
select = {"pass": bc.Epoch(table="fresh"), "draw": bc.Priority(alpha=0.7, table="fresh")}
sampler = buf.sampler(select=select.get(sys.argv[1], bc.Priority(alpha=1.0)))
print("ready", flush=True)
sys.stdin.readline()
try:
    print("calls", flush=True)
    work()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("call", ["update", "draw", "pass", "open", "snapshot", "remove"])
def test_ctrl_c_ends_every_wait_for_a_stopped_process(
    place: Path, tmp_path: Path, start: Start, hold: Callable[..., int], call: str
) -> None:
    with ring(place) as buf:
        child = start(WAITS, call, str(tmp_path))
        assert read_line(child) == "ready\n", child.communicate(timeout=60)[1]
        hold(buf, "priority" if call in {"update", "snapshot", "remove"} else "fresh")
        child.stdin.write("\n")
        child.stdin.flush()
        assert read_line(child) == "calls\n"
        # The wait polls: only it sleeps this often.
        before = sleeps(child.pid)
        for _ in range(1_000_000):
            if sleeps(child.pid) >= before + 50:
                break
            assert child.poll() is None
        else:
            pytest.fail("it does not wait")
        child.send_signal(signal.SIGINT)
        # Without an interrupt the waits last 60 s or longer. That of a snapshot lasts 5 s, and the
        # snapshot is saved then.
        out, err = child.communicate(timeout=30)
        assert out == "interrupted\n", err
        assert not bc.list_snapshots("held", store=tmp_path)


def sleeps(pid: int) -> int:
    """Return how often the main thread of a process has slept."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def test_a_daemon_saves_without_a_locked_table_says_so_and_ends(
    place: Path, tmp_path: Path, hold: Callable[..., int]
) -> None:
    with ring(place, persistent=True) as buf:
        pid = hold(buf)
        flags = ["--persist-mode", "periodic", "--persist-every", "10ms"]
        flags += ["--persist-store", str(tmp_path), "--metrics", "127.0.0.1:0"]
        with serving(place, *flags) as daemon:
            metrics = urllib.request.urlopen(daemon["metrics"], timeout=60).read().decode()
            assert '\nbackcast_locked_tables{ring="held"} 1.0\n' in metrics
            report: dict[str, Any] = {}
            for _ in range(1_000):
                report = json.loads(run(place, "--json", "stat", "held").stdout)
                if report["persist"]["left_out"]:
                    break
            assert report["persist"]["error"] is None
            [text] = report["persist"]["left_out"]
            assert "`priority`" in text
            assert f"process {pid} " in text
        [saved] = bc.list_snapshots("held", store=tmp_path)[-1:]
        assert saved["rows"] == 101
        buf.unlink()


def damage(buf: bc.ReplayBuffer, table: str) -> None:
    """Flip a byte of the header of a table."""
    assert buf.path is not None
    with (Path(buf.path) / f"table-{table}.dat").open("r+b") as file:
        file.seek(0x30)
        byte = file.read(1)[0]
        file.seek(0x30)
        file.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize("table", ["priority", "online", "queue"])
def test_rows_are_saved_without_a_damaged_table(place: Path, tmp_path: Path, table: str) -> None:
    with ring(place) as buf:
        buf.sampler(select=bc.Consume(table="queue")).close()
        damage(buf, table)
        with pytest.warns(UserWarning, match=rf"`{table}`.*--table"):
            report = buf.snapshot("a", store=tmp_path)
        assert (list(report["left_out"]), report["rows"]) == ([table], 101)
        stat = run(place, "stat", "held").stdout
        assert f"table {table}: " in stat
        once = ("--json", "top", "--once", "--interval", "0.05")
        [seen] = json.loads(run(place, *once).stdout)["rings"]
        [unreadable] = seen["unreadable_tables"]
        assert (unreadable["table"], unreadable["state"]) == (table, "damaged")

        # A call that opens the damaged table says how to remove it alone.
        opens: dict[str, Callable[[], Any]] = {
            "priority": lambda: buf.sampler(select=bc.Priority(alpha=1.0)),
            "online": lambda: buf.table("online", learned={"value": "f4"}),
            "queue": lambda: buf.sampler(select=bc.Consume(table="queue")),
        }
        with pytest.raises(bc.errors.CorruptError, match=r"\bNAME\b.*--table.*\bTABLE\b"):
            opens[table]()
        removed = run(place, "--json", "rm", "held", "--table", table)
        assert json.loads(removed.stdout)["name"] == f"held/{table}"
        opens[table]().close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert buf.snapshot("b", store=tmp_path)["left_out"] == {}


def test_a_table_of_another_ring_is_left_out(place: Path, tmp_path: Path) -> None:
    with ring(place) as buf:
        assert buf.path is not None
        other = bc.ReplayBuffer.create("other", {"obs": "f4"}, capacity=100, dir=place)
        other.sampler(select=bc.Priority(alpha=1.0)).close()
        assert other.path is not None
        foreign = (Path(other.path) / "table-priority.dat").read_bytes()
        other.close()
        (Path(buf.path) / "table-priority.dat").write_bytes(foreign)
        with pytest.warns(UserWarning, match="`priority`"):
            assert list(buf.snapshot("a", store=tmp_path)["left_out"]) == ["priority"]


def test_a_removed_table_is_made_anew_and_its_samplers_say_so(place: Path) -> None:
    with ring(place) as buf, buf.sampler(seed=3, select=bc.Priority(alpha=1.0)) as old:
        values = buf.table("online")
        buf.remove_table("priority")
        buf.remove_table("online")
        with pytest.raises(bc.NotFoundError, match="`priority`"):
            old.update_priorities([1], [2.0])
        with pytest.raises(bc.NotFoundError, match="`online`"):
            values.update_values([0], value=[1.0])
        with buf.sampler(seed=3, select=bc.Priority(alpha=0.4)) as fresh:
            assert fresh.update_priorities(fresh.sample(4).index, [1.0] * 4) == 0
        with pytest.raises(bc.NotFoundError, match=r"`nothing`.*`priority`"):
            buf.remove_table("nothing")


def test_a_locked_table_is_removed_by_force_alone(place: Path, hold: Callable[..., int]) -> None:
    with ring(place) as buf:
        pid = hold(buf)
        with pytest.raises(bc.errors.InUseError, match=rf"\b{pid}\b"):
            buf.remove_table("priority", timeout=0)
        refused = run(place, "rm", "held", "--table", "online2")
        assert refused.returncode == 3, refused.stderr
        buf.remove_table("priority", timeout=0, force=True)
        # The stopped process still has the lock of this name, so the new table has another name.
        buf.sampler(seed=1, select=bc.Priority(alpha=0.2, table="other")).close()
