"""A refused call, the objects that it uses, and the checks of every refusal.

The `test_refused_*.py` files have the calls as rows of tables, one file per kind of operation.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import errors
from backcast.envs import Collector, PortfolioVectorEnv
from facts import missing

COLUMNS: dict[str, Any] = {"obs": {"x": ("f4", (3,)), "y": "i4"}, "action": "u1"}

BUILTINS: dict[type[bc.BackcastError], type[Exception]] = {
    errors.ArgumentError: ValueError,
    errors.ArgumentTypeError: TypeError,
    errors.SchemaError: ValueError,
    errors.NotFoundError: FileNotFoundError,
    errors.ExistsError: FileExistsError,
    errors.InUseError: OSError,
    errors.SpaceError: OSError,
    errors.StorageError: OSError,
    errors.CorruptError: ValueError,
    errors.WriterError: RuntimeError,
    errors.AppendError: ValueError,
    errors.SampleError: ValueError,
    errors.LappedError: errors.SampleError,
    errors.LeaseError: ValueError,
    errors.RateLimitError: RuntimeError,
    errors.RateLimitTimeoutError: TimeoutError,
    errors.MissingExtraError: ImportError,
    errors.FleetError: RuntimeError,
    errors.ActorError: errors.FleetError,
    errors.ActorTimeoutError: TimeoutError,
    errors.RestartLimitError: errors.FleetError,
    errors.WaitTimeoutError: TimeoutError,
    errors.PanelError: ValueError,
    errors.EnvError: ValueError,
    errors.SimError: ValueError,
    errors.ClosedError: ValueError,
    errors.ColumnError: KeyError,
    errors.DaemonError: OSError,
    errors.DaemonNotRunningError: ConnectionError,
    errors.DaemonTimeoutError: TimeoutError,
    errors.OverBudgetError: errors.DaemonError,
}
"""Another base of each error: a builtin, or the error of Backcast that it specializes."""


def lasting(path: Path) -> bytes:
    """Read a file, `ring.rdr` without its notifiers: every wait sets their `listening` flag."""
    content = path.read_bytes()
    return content[:128] + content[384:] if path.name == "ring.rdr" else content


@dataclass(frozen=True)
class Row:
    """One refused call, and the facts that its message must state.

    Facts are names, values and limits; ``'`` in them matches quotes of any kind. Golden messages
    and the page of errors check the wording.
    """

    id: str
    do: Callable[[World], object]
    error: type[bc.BackcastError]
    words: tuple[str, ...]
    given: Callable[[World], object] = lambda world: None


def table(rows: list[Row]) -> pytest.MarkDecorator:
    """Run a test once per row, under its id."""
    assert len({row.id for row in rows}) == len(rows), "ids differ"
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in rows])


class World:
    """Rings, writers, a sampler, a panel and an environment in one directory.

    ``pong`` has 4 lanes of 50 rows: lane 0 was lapped and is free; lanes 1 and 2 belong to the
    writer ``same_step``, and lane 3 to ``next_step``, and have no rows. ``empty`` has no rows.
    ``kept`` is persistent and has no holder. ``env`` has two portfolios, just reset by
    ``collector``, which appends to ``steps``.
    """

    def __init__(self, place: Path, files: Path, held: ExitStack) -> None:
        """Make all objects; ``held`` closes them."""
        self.place, self.files = place, files
        self.hold, self.kept = held.enter_context, list[Any]()
        self.pong = held.enter_context(self.create("pong", COLUMNS, capacity=200, lanes=4))
        first = self.pong.writer()
        for step in range(120):
            first.append(
                obs={"x": [step] * 3, "y": step}, action=0, terminated=False, truncated=False
            )
        self.same_step = held.enter_context(self.pong.writer(2, "same_step"))
        self.next_step = held.enter_context(self.pong.writer(1, "next_step"))
        first.close()
        self.empty = held.enter_context(self.create("empty", {"x": "f4"}, capacity=10))
        self.create("kept", {"x": "f4"}, capacity=10, persistent=True).close()
        held.callback(bc.remove_object, "kept", dir=place)
        self.csv = files / "prices.csv"
        self.csv.write_text(prices())
        self.panel = held.enter_context(bc.Panel.from_csv(self.csv, macro=["VIX"]))
        self.env = PortfolioVectorEnv(self.panel, 2, autoreset_mode="disabled")
        spaces = self.env.single_observation_space, self.env.single_action_space
        columns = bc.Schema.from_spaces(*spaces, extra={"value": "f4"})
        self.steps = self.hold(bc.ReplayBuffer.create(None, columns, capacity=20, lanes=2))
        self.collector = Collector(self.env, self.hold(self.steps.writer(2, "disabled")))
        self.collector.reset(seed=3)
        self.sampler = held.enter_context(self.pong.sampler(seed=7))
        # At its first draw a buffer makes its own sampler, which takes a reader slot.
        self.pong.sample(1)
        with pytest.raises(bc.errors.SampleError):
            self.empty.sample(1)

    def keep(self, thing: Any) -> Any:  # noqa: ANN401 - any handle
        """Keep an object that a row needs until the test is over, and return it."""
        self.kept.append(self.hold(thing))
        return thing

    def create(self, name: Any = "new", schema: Any = COLUMNS, **changes: Any) -> bc.ReplayBuffer:  # noqa: ANN401 - anything is tried
        """Make a ring in this directory, with some arguments changed."""
        arguments: dict[str, Any] = {"capacity": 10, "dir": self.place} | changes
        return bc.ReplayBuffer.create(name, schema, **arguments)

    def picture(self) -> dict[str, object]:
        """Return what a refused call must not change: files, counters, state of the environment."""
        found: dict[str, object] = {
            str(path): hashlib.blake2b(lasting(path)).hexdigest()
            for root in [self.place, self.files]
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        found |= {"pong": self.pong.stats(), "empty": self.empty.stats()}
        found |= {"steps": self.steps.stats(), "seen": self.collector.obs}
        # A copy of the environment shows the first portfolio's next episode and the second's state.
        first = {"reset_mask": np.array([True, False])}
        found["next"] = copy.deepcopy(self.env).reset(options=first)
        written = self.same_step.rows_written + self.next_step.rows_written
        return found | {"written": written, "drawn": (self.sampler.sampled, self.sampler.lapped)}


def prices(*more: str) -> str:
    """Return a CSV of ten days of a ticker and an index, with more lines at its end."""
    lines = ["date,tic,open,high,low,close,volume,rsi"]
    for day in range(1, 11):
        for ticker in ["AAA", "VIX"]:
            lines.append(f"2024-01-{day:02},{ticker},{day},40,1,{day}.5,100,50")
    return "\n".join([*lines, *more]) + "\n"


@contextmanager
def world_at(place: Path, files: Path) -> Iterator[World]:
    """Yield a world, and close all its objects."""
    with ExitStack() as held:
        yield World(place, files, held)


def check(world: World, row: Row) -> None:
    """Make a refused call; check class, builtin class, words, remedy, and that nothing changed."""
    row.given(world)
    before = world.picture()
    with pytest.raises(row.error) as raised:
        row.do(world)
    error = raised.value
    assert type(error) is row.error
    assert isinstance(error, BUILTINS[row.error])
    message = str(error).replace('"', "'").replace("`", "'")
    lacks = missing(message, row.words)
    assert not lacks, f"{lacks} not in: {message}"
    assert "; " in message or ", but must " in message, f"no remedy: {message}"
    assert not message.endswith(".")
    assert "\n" not in message
    assert "  " not in message
    np.testing.assert_equal(world.picture(), before)
