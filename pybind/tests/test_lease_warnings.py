"""The holder of a lease that blocked a writer gets one warning, however the lease ends."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, Literal

import backcast as bc
import pytest
from waits import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Child

Action = Literal["always", "error"]

HELD = r"\b0\.\.10\b.*'told'"


@pytest.fixture
def ring(place: Path) -> Iterator[bc.ReplayBuffer]:
    columns = {"obs": "f4"}
    with bc.ReplayBuffer.create(
        "told", columns, capacity=100, dir=place, lane_policy="drop_new"
    ) as made:
        fill(made, 20)
        yield made


def fill(ring: bc.ReplayBuffer, rows: int) -> int:
    """Append rows without the writer's lease warnings; return how many rows a lease dropped."""
    with warnings.catch_warnings(), ring.writer() as writer:
        warnings.filterwarnings("ignore", "lane 0 waited", bc.errors.LeaseWarning)
        for _ in range(rows):
            writer.append(obs=1, terminated=False, truncated=False)
        return writer.rows_dropped


def around(ring: bc.ReplayBuffer) -> int:
    """Append so many rows that a lease of old ones blocks the writer; return how many dropped."""
    dropped = fill(ring, 3 * ring.stats()["slots"])
    assert dropped > 0
    return dropped


def test_arrays_that_outlive_their_lease_tell_when_the_last_is_gone(ring: bc.ReplayBuffer) -> None:
    lease = ring.lease(0, 0, 10)
    one, other = lease["obs"], lease.windows(2)["obs"][1:]
    lease.close()
    del lease
    dropped = around(ring)
    del one
    gc.collect()
    with pytest.warns(bc.errors.LeaseWarning, match=rf"{HELD}.*\b{dropped}\b") as warned:
        del other
    assert len(warned) == 1
    assert fill(ring, 1) == 0


def test_a_lease_reported_at_its_close_is_not_reported_again(
    ring: bc.ReplayBuffer,
) -> None:
    lease = ring.lease(0, 0, 10)
    kept = lease["obs"]
    around(ring)
    with pytest.warns(bc.errors.LeaseWarning, match=HELD) as warned:
        lease.close()
    assert len(warned) == 1
    around(ring)
    stalls = ring.stats()["readers"][0]["stalls"]
    assert stalls > int(str(warned[0].message).split(" times")[0].split()[-1])
    lease.close()
    del lease, kept
    gc.collect()


@pytest.mark.parametrize("closed", [True, False])
def test_a_lease_that_blocked_no_writer_does_not_warn(ring: bc.ReplayBuffer, closed: bool) -> None:
    lease = ring.lease(0, 0, 10)
    kept = lease["obs"]
    if closed:
        lease.close()
    del lease, kept
    gc.collect()
    assert fill(ring, 500) == 0


def test_a_lease_that_is_collected_tells(ring: bc.ReplayBuffer) -> None:
    lease: Any = ring.lease(0, 0, 10)
    around(ring)
    cycle = [lease]
    cycle.append(cycle)
    del lease, cycle
    with pytest.warns(bc.errors.LeaseWarning, match=HELD) as warned:
        gc.collect()
    assert len(warned) == 1


def test_the_writer_goes_on_before_the_warning_is_handled(
    ring: bc.ReplayBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease: Any = ring.lease(0, 0, 10)
    around(ring)
    seen = []

    def handle(message: Warning | str, *_: object) -> None:
        if isinstance(message, bc.errors.LeaseWarning):
            seen.append((ring.stats()["pins"], fill(ring, 1)))

    with warnings.catch_warnings():
        warnings.simplefilter("always", bc.errors.LeaseWarning)
        monkeypatch.setattr(warnings, "showwarning", handle)
        del lease
    assert seen == [([], 0)]


def test_a_warning_that_is_an_error_is_shown_where_it_cannot_be_raised(
    ring: bc.ReplayBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: shown.append(what.exc_value))
    kept: Any = ring.lease(0, 0, 10)["obs"]
    around(ring)
    with warnings.catch_warnings():
        warnings.simplefilter("error", bc.errors.LeaseWarning)
        del kept
        gc.collect()
    assert [type(one) for one in shown] == [bc.errors.LeaseWarning]
    lease = ring.lease(0, ring.lane_span(0)[0], 10)
    around(ring)
    with warnings.catch_warnings():
        warnings.simplefilter("error", bc.errors.LeaseWarning)
        with pytest.raises(bc.errors.LeaseWarning, match=r"\d+\.\.\d+.*'told'"):
            lease.close()
    assert lease.closed
    assert len(shown) == 1


def fails(what: BaseException) -> int:
    raise what


@pytest.mark.parametrize("what", [ValueError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("action", ["always", "error"])
def test_an_exception_that_drops_a_lease_is_unchanged(
    ring: bc.ReplayBuffer, monkeypatch: pytest.MonkeyPatch, what: BaseException, action: Action
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    def leased() -> bc.types.Lease:
        lease = ring.lease(0, 0, 10)
        around(ring)
        return lease

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter(action, bc.errors.LeaseWarning)
        with pytest.raises(type(what)) as caught:
            _ = (leased(), fails(what))
    assert caught.value is what
    assert len(warned) == (action == "always")


def test_a_holder_that_closes_while_a_writer_waits_is_warned(place: Path) -> None:
    with bc.ReplayBuffer.create(
        "told", {"obs": "f4"}, capacity=100, dir=place, lease_timeout=3_600
    ) as ring:
        fill(ring, 20)
        lease = ring.lease(0, 0, 10)

        def write() -> None:
            # Warning filters belong to the process, so this thread changes none.
            with ring.writer() as writer:
                for _ in range(2 * ring.stats()["slots"]):
                    writer.append(obs=1, terminated=False, truncated=False)

        writing = threading.Thread(target=write)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            writing.start()
            while ring.stats()["lane_stats"][0]["stalls"] == 0:
                os.sched_yield()
            lease.close()
            join(writing)
        assert [f"{one.message}" for one in warned if "1 times" in f"{one.message}"] != []


END = """
import os, sys, warnings
import backcast as bc
ring = bc.ReplayBuffer.create("told", {"obs": "f4"}, capacity=100, lane_policy="drop_new")
warnings.filterwarnings("ignore", "lane 0 waited", bc.errors.LeaseWarning)
w = ring.writer()
for _ in range(20):
    w.append(obs=1, terminated=False, truncated=False)
lease = ring.lease(0, 0, 10)
view = lease["obs"]
for _ in range(3 * ring.stats()["slots"]):
    w.append(obs=1, terminated=False, truncated=False)
"""


@pytest.mark.parametrize(
    ("code", "told", "status"),
    [
        ("", 1, 0),
        ("sys.exit(3)", 1, 3),
        ("del lease", 1, 0),
        ("lease.close()", 1, 0),
        ("del lease, view", 1, 0),
        ("warnings.simplefilter('error', bc.errors.LeaseWarning)", 1, 0),
        ("warnings.simplefilter('ignore', bc.errors.LeaseWarning)", 0, 0),
        ("os._exit(4)", 0, 4),
    ],
)
def test_an_unclosed_lease_warns_at_the_end_of_the_interpreter(
    place: Path, start: Callable[..., Child], code: str, told: int, status: int
) -> None:
    child = start(END + code)
    _, err = child.communicate(timeout=60)
    assert (err.count("LeaseWarning: "), child.returncode) == (told, status)
    # `os._exit` skips all cleanup.
    assert len(bc.collect_garbage(dir=place)) == (status == 4)


FORK = """
warnings.simplefilter("ignore", DeprecationWarning)
for how in ("end", "drop", "close"):
    pid = os.fork()
    if pid == 0:
        sys.stderr.write(f"{how}:")
        if how == "drop":
            del lease, view
        if how == "close":
            lease.close()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
sys.stderr.write("parent:")
"""


def test_a_forked_child_does_not_report_its_parents_leases(start: Callable[..., Child]) -> None:
    child = start(END + FORK)
    _, err = child.communicate(timeout=60)
    assert err.startswith("end:drop:close:parent:"), err
    assert err.count("LeaseWarning: ") == 1
    assert child.returncode == 0
