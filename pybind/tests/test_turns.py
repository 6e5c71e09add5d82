"""Calls of other threads on a writer while one thread waits for a lease in it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import backcast as bc
import pytest
from waits import read_line, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Child

WAITING = """
import faulthandler, os, signal, sys, threading, warnings
import backcast as bc
# A shell starts background jobs with Ctrl-C ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Ends the program if it hangs.
faulthandler.dump_traceback_later(50, exit=True)
warnings.simplefilter("ignore", bc.errors.LeaseWarning)
buf = bc.ReplayBuffer.create("turns", {"obs": "f4"}, capacity=100, lease_timeout=3_600)
w = buf.writer()
step = {"obs": 1.0, "terminated": False, "truncated": False}
for _ in range(20):
    w.append(**step)
lease = buf.lease(0, 0, 10)
for _ in range(buf.stats()["slots"] - 20):
    w.append(**step)
slots = w.rows_written
waiter = threading.Thread(target=lambda: w.append(**step))
waiter.start()
while not repr(w).endswith("busy>"):
    os.sched_yield()
"""

CALLS = {
    "append": "w.append(**step)",
    "extend": "w.extend(obs=[1.0] * 3, terminated=[False] * 3, truncated=[False] * 3)",
    "reserve": "w.reserve()",
    "restart": "w.restart()",
}


def asleep(child: Child) -> bool:
    """Return whether the main thread of the child sleeps."""
    stat = Path(f"/proc/{child.pid}/task/{child.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_the_wait_for_a_writer_that_waits_for_a_lease(
    start: Callable[..., Child], name: str
) -> None:
    child = start(
        WAITING + "try:\n"
        "    print('ready', flush=True)\n"
        f"    {CALLS[name]}\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', w.rows_written - slots, waiter.is_alive(), flush=True)\n"
        "lease.close()\n"
        "waiter.join()\n"
        "print('went on', w.rows_written - slots, w.append(**step)[0] - slots)\n"
    )
    assert read_line(child) == "ready\n", child.communicate(timeout=60)[1]
    until(lambda: asleep(child), child)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60) == ("interrupted 0 True\nwent on 1 1\n", "")


def test_a_writers_counters_and_its_repr_do_not_wait(start: Callable[..., Child]) -> None:
    child = start(
        WAITING + "seen = w.rows_written - slots, w.rows_dropped, w.lanes[0], repr(w)[-5:]\n"
        "print(*seen, waiter.is_alive())\n"
        "lease.close()\n"
        "waiter.join()\n"
        "print(w.rows_written - slots, w.rows_dropped)\n"
    )
    assert child.communicate(timeout=60) == ("0 0 0 busy> True\n1 0\n", "")


def test_threads_that_wait_for_their_turn_get_it(start: Callable[..., Child]) -> None:
    child = start(
        WAITING + "def more():\n"
        "    for _ in range(50):\n"
        "        w.append(**step)\n"
        "others = [threading.Thread(target=more) for _ in range(4)]\n"
        "for other in others:\n"
        "    other.start()\n"
        "lease.close()\n"
        "for other in [waiter, *others]:\n"
        "    other.join()\n"
        "print(w.rows_written - slots, buf.rows(0, slots + 101, 100)['seq'][-1] - slots)\n"
    )
    assert child.communicate(timeout=60) == ("201 200\n", "")


def test_a_closed_writer_says_so_when_asked_for_its_counters() -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100) as buf:
        writer = buf.writer()
        writer.append(obs=1, terminated=False, truncated=False)
        assert (writer.rows_written, writer.rows_dropped) == (1, 0)
        writer.close()
        for name in ("rows_written", "rows_dropped"):
            with pytest.raises(bc.ClosedError, match="`writer`"):
                getattr(writer, name)


@pytest.mark.parametrize("call", ["w.close()", "w.__exit__(None, None, None)"])
def test_a_close_ends_the_wait_of_another_thread(start: Callable[..., Child], call: str) -> None:
    child = start(WAITING + f"{call}\nwaiter.join()\nprint('closed')\n")
    out, err = child.communicate(timeout=60)
    assert (out, child.returncode) == ("closed\n", 0), err
    assert "ClosedError" in err
