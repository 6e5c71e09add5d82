"""Program: makes public calls with 0, 1, 2, ... free descriptors, each until it succeeds.

Prints a line of JSON per call: the outcome at each number of free descriptors. The last one is the
result of the call. Arguments: a directory for shared memory, and one for files.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import backcast as bc
import numpy as np

MOST = 64
"""Upper limit of free descriptors to try; every call succeeds with fewer."""
COLUMNS: dict[str, Any] = {"obs": ("f4", (4,)), "action": "i4", "reward": "f4"}


class _Closes(Protocol):
    def close(self) -> object: ...


@contextmanager
def few(free: int) -> Iterator[None]:
    """Limit this process to `free` more descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The lowest free descriptor: all below it are in use, and none above it is.
    first = os.open(os.devnull, os.O_RDONLY)
    os.close(first)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def opened() -> int:
    """Count the descriptors of this process, without the one that lists them."""
    return len(os.listdir("/proc/self/fd")) - 1


def tried(call: Callable[[], Any], free: int) -> dict[str, Any]:
    """Call with `free` free descriptors, and return the outcome."""
    before = opened()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with few(free):
                found = {"error": None, "result": call()}
        except Exception as error:
            found = {"error": type(error).__name__, "os": isinstance(error, OSError)}
            found["text"] = str(error)
    found["leaked"] = opened() - before
    found["warned"] = [str(warning.message) for warning in told]
    return found


def closed(handle: _Closes) -> str:
    """Close a handle, and return the name of its type."""
    with closing(handle):
        return type(handle).__name__


def ring(place: Path) -> bc.ReplayBuffer:
    """Make a ring of a few episodes, with priorities."""
    buf = bc.ReplayBuffer.create("walk", COLUMNS, capacity=256, dir=place)
    with buf.writer() as writer:
        for step in range(64):
            obs = np.full(4, step, "f4")
            ends = step % 10 == 9
            writer.append(
                obs=obs, action=step, reward=step, terminated=ends, truncated=False,
                next_obs=obs + 1,
            )  # fmt: skip
    sampler = buf.sampler(select=bc.Priority(alpha=0.6))
    sampler.update_priorities(sampler.sample(8)["index"], np.ones(8))
    return buf


def remnant(place: Path) -> None:
    """Make a directory like one that a killed creator leaves, for `gc` to remove."""
    base = next(place.glob("backcast-*"))
    left = base / ".building-1"
    left.mkdir(0o700, exist_ok=True)
    (left / "ring.ctl").touch(0o600)


def tables(buf: bc.ReplayBuffer) -> list[str]:
    """Close a loaded ring, and return the names of its tables."""
    with closing(buf):
        return sorted(table["name"] for table in buf.stats()["tables"])


def calls(place: Path, files: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each call with its name; calls that remove what others need come last."""
    buf = ring(place)
    weights = {"w": np.ones(8, "f4")}
    params = bc.Params.create("policy", weights, dir=place)
    params.publish(weights, version=1)
    store = files / "store"
    buf.snapshot("one", store=store, params=[params])
    days = "date,tic,open,high,low,close,volume\n" + "".join(
        f"2020-01-{day:02},A,1,2,1,1.5,10\n" for day in range(1, 11)
    )
    (files / "prices.csv").write_text(days)
    panel = bc.Panel.from_csv(files / "prices.csv", name="prices", dir=place)
    buf.export(files / "in.parquet")
    steps: dict[str, Any] = {"observations": np.zeros((8, 4), "f4"), "actions": np.zeros(8, "i4")}
    ends: dict[str, Any] = {"terminals": np.zeros(8, bool), "timeouts": np.ones(8, bool)}
    np.savez(files / "in.npz", rewards=np.zeros(8, "f4"), **steps, **ends)
    new: dict[str, Any] = {"capacity": 64, "dir": place}
    saved: dict[str, Any] = {"store": store, "dir": place}
    yield (
        "list",
        lambda: [(found["kind"], found["name"], found["held"]) for found in bc.list_objects(place)],
    )
    yield "stats", lambda: sorted(table["name"] for table in buf.stats()["tables"])
    yield "attach", lambda: closed(bc.ReplayBuffer.attach("walk", dir=place))
    yield "create", lambda: closed(bc.ReplayBuffer.create("new", COLUMNS, **new))
    yield "replace", lambda: closed(bc.ReplayBuffer.create("new", COLUMNS, exist="replace", **new))
    yield "Params.attach", lambda: closed(bc.Params.attach("policy", dir=place))
    yield "Params.create", lambda: closed(bc.Params.create("new", weights, dir=place))
    yield "Panel.attach", lambda: closed(bc.Panel.attach("prices", dir=place))
    yield (
        "Panel.from_csv",
        lambda: closed(bc.Panel.from_csv(files / "prices.csv", name="new", dir=place)),
    )
    yield "writer", lambda: closed(buf.writer())
    yield "sampler", lambda: len(buf.sampler(seed=1).sample(4)["reward"])
    other = bc.Priority(alpha=0.5, table="other")
    yield "priorities", lambda: len(buf.sampler(select=other).sample(4)["reward"])
    yield "consume", lambda: len(buf.sampler(select=bc.Consume()).sample(4)["reward"])
    yield "lease", lambda: buf.lease(0, 60, 2).close()
    yield "wait", lambda: buf.wait(min_size=1, timeout=1)
    yield "clear", buf.clear
    yield "resize", lambda: buf.resize(512)["capacity"]
    yield "export csv", lambda: buf.export(files / "out.csv", overwrite=True)["rows"]
    yield "export parquet", lambda: buf.export(files / "out.parquet", overwrite=True)["rows"]
    yield "export minari", lambda: buf.export(files / "out-v0", overwrite=True)["rows"]
    yield (
        "from_file parquet",
        lambda: closed(bc.ReplayBuffer.from_file(files / "in.parquet", "in", dir=place)),
    )
    yield (
        "from_file npz",
        lambda: closed(bc.ReplayBuffer.from_file(files / "in.npz", "in", dir=place)),
    )
    yield "snapshots", lambda: [found["snapshot"] for found in bc.list_snapshots(store=store)]
    yield "snapshots of a name", lambda: len(bc.list_snapshots("walk", store=store))
    yield "verify_snapshot", lambda: bc.verify_snapshot("walk@one", store=store)
    yield "load", lambda: tables(bc.ReplayBuffer.load("walk@one", name="in", **saved))
    yield "open_snapshot", lambda: closed(bc.ReplayBuffer.open_snapshot("walk@one", **saved))
    yield "Params.load", lambda: closed(bc.Params.load("walk@one", "policy", name="in", **saved))
    yield "snapshot", lambda: buf.snapshot("two", store=store, replace=True)["snapshot"]
    yield (
        "load what was saved with few",
        lambda: tables(bc.ReplayBuffer.load("walk@two", name="in", **saved)),
    )
    yield "remove_snapshot", lambda: bc.remove_snapshot("walk@one", store=store)["removed"]
    remnant(place)
    yield "gc", lambda: [Path(found["path"]).name for found in bc.collect_garbage(place)]
    yield "remove", lambda: bc.remove_object("walk", force=True, dir=place)["name"]
    handles: list[_Closes] = [panel, params, buf]
    for handle in handles:
        handle.close()


def main() -> None:
    """Make every call, and print its outcomes."""
    place, files = map(Path, sys.argv[1:])
    for name, call in calls(place, files):
        tries = []
        for free in range(MOST):
            tries.append(tried(call, free))
            if tries[-1]["error"] is None:
                break
        print(json.dumps({"call": name, "tries": tries}, default=str), flush=True)


if __name__ == "__main__":
    main()
