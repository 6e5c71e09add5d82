"""Reads `backcast --json top` while a page is open, and hands each frame to the open pages."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from backcast import ReplayBuffer
from backcast.errors import BackcastError
from backcast.ui import _model, _waits

if TYPE_CHECKING:
    from backcast.ui._arguments import Settings

POINTS = 120
"""Frames whose rates are kept for the charts."""
_AGAIN_S = 5.0
"""Seconds until a command that ended is started again."""
_SLOW_S = 10.0
"""Seconds between two looks at the locks of tables and at shards."""
_MOST_EXPLAINED = 8
"""Rings whose waits are put in sentences at each frame."""


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `backcast --json` in a child process, and end it with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "backcast", "--json", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        # The pipe may be full, and a child that writes does not end before it is read.
        process._transport.close()  # type: ignore[attr-defined]
        await process.wait()


async def message(process: asyncio.subprocess.Process) -> str:
    """Return what a command that ended said on stderr."""
    assert process.stderr is not None
    said = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
    try:
        return str(json.loads(said[-1])["message"])
    except (IndexError, KeyError, ValueError):
        return said[-1] if said else f"exit status {await process.wait()}"


def while_connected(client: Any, begin: Callable[[], object], end: Callable[[], object]) -> None:  # noqa: ANN401
    """Call a function when a browser connects, and another when its last socket has gone."""
    client.on_connect(lambda: begin())
    # NiceGUI reports the end of each socket, also of one that a newer one has replaced.
    client.on_disconnect(lambda: None if client.has_socket_connection else end())


class Feed:
    """Frames for the open pages. Without a page, no process and no task runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.frame: _model.Frame | None = None
        self.problems: dict[str, str] = {}
        """Why figures are missing or old, by what failed."""
        self.events: deque[str] = deque(maxlen=5)
        """Sentences on what vanished or came, newest first, with the time of day."""
        self.waits: dict[str, list[str]] = {}
        """Sentences on who waits for whom, by ring."""
        self.locks: dict[str, list[str]] = {}
        """Sentences on locked and damaged tables, by ring."""
        self.rates: dict[str, deque[tuple[int, float, float]]] = {}
        """Time in ms, rows published and drawn per second, by ring."""
        self.shards: dict[str, _model.Row | str] = {}
        self.opened: str | None = None
        """Ring whose page was opened last."""
        self._views: dict[str, tuple[Callable[[], object], Callable[[list[str]], object]]] = {}
        self._attached: dict[str, Any] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._taken_s, self._turn = 0.0, 0

    def watch(
        self, key: str, show: Callable[[], object], say: Callable[[list[str]], object]
    ) -> None:
        """Call `show` at each frame until `leave`, and `say` with sentences where it fails.

        The first view begins the reading.
        """
        self._views[key] = show, say
        if not self._tasks:
            self.frame, self._taken_s = None, time.monotonic()
            for kept in (self.problems, self.waits, self.locks, self.rates):
                kept.clear()
            looks = (
                ("figures", self._read, _AGAIN_S),
                ("tables and shards", self._look, _SLOW_S),
                ("age", self._check_age, self.settings.interval_s),
            )
            self._tasks = [asyncio.create_task(self._repeat(*look)) for look in looks]

    def leave(self, key: str) -> None:
        """Forget a view; the last one ends the reading."""
        self._views.pop(key, None)
        if not self._views:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            self._attached.clear()

    def sentences(self, name: str) -> list[str]:
        """Return the sentences on waits and tables of a ring."""
        return self.waits.get(name, []) + self.locks.get(name, [])

    def ring(self, name: str) -> _model.Row | None:
        """Return a ring of the last frame."""
        rings = self.frame["rings"] if self.frame else []
        return next((ring for ring in rings if ring["name"] == name), None)

    def place(self) -> list[str]:
        """Return the option of commands that names the directory."""
        return [] if self.settings.dir is None else ["--dir", self.settings.dir]

    async def _repeat(self, key: str, look: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            try:
                await look()
            # Whatever it is, the page says it, and does not show old figures as live ones.
            except Exception as error:
                self.problems[key] = (
                    f"{key} cannot be read, and are tried again: {error or type(error).__name__}"
                )
                self.show()
            await asyncio.sleep(pause_s)

    async def _read(self) -> None:
        interval = str(self.settings.interval_s)
        async with command(*self.place(), "top", "--interval", interval) as top:
            assert top.stdout is not None
            async for line in top.stdout:
                self._take(json.loads(line))
            raise BackcastError(f"`backcast top` ended: {await message(top)}")

    async def _check_age(self) -> None:
        late_s = time.monotonic() - self._taken_s
        if late_s > 3 * self.settings.interval_s + 2:
            self.problems["age"] = f"no figures for {late_s:.0f} s"
            self.show()

    def _take(self, frame: _model.Frame) -> None:
        now = time.strftime("%H:%M:%S")
        self.events.extendleft(f"{now} {said}" for said in _model.changes(self.frame, frame))
        self.frame, self._taken_s = frame, time.monotonic()
        for key in ("figures", "age"):
            self.problems.pop(key, None)
        names = {ring["name"] for ring in frame["rings"]}
        for by_ring in (self.rates, self.locks):
            for name in by_ring.keys() - names:
                by_ring.pop(name, None)
        for ring in frame["rings"]:
            rates = ring["publish_rate_per_s"] or 0.0, ring["sample_rate_per_s"] or 0.0
            kept = self.rates.setdefault(ring["name"], deque(maxlen=POINTS))
            kept.append((frame["at_unix_ns"] // 1_000_000, *rates))
        awaited = [ring for ring in frame["rings"] if _model.waits_in_words(ring) != "-"]
        self.waits = dict(self._explained(awaited[:_MOST_EXPLAINED]))
        self.show()

    def _explained(self, rings: list[_model.Row]) -> Iterable[tuple[str, list[str]]]:
        for ring in rings:
            # A ring may vanish between two looks.
            with (
                suppress(BackcastError),
                ReplayBuffer.attach(ring["name"], dir=self.settings.dir) as buf,
            ):
                yield ring["name"], _waits.sentences(buf.stats(), ring)

    async def _look(self) -> None:
        """Look at shards, and at the locks of a few rings' tables; each look starts a process.

        Rings that have a sentence are first, so that it goes soon after its lock.
        """
        while self.frame is None:
            await asyncio.sleep(self.settings.interval_s)
        rings = [ring["name"] for ring in self.frame["rings"] if ring["tables"]]
        if rings:
            self._turn += 1
            wanted = dict.fromkeys((*self.locks, self.opened, rings[self._turn % len(rings)]))
            for name in filter(set(rings).__contains__, wanted):
                await self._look_at_locks(name)
        for name in self.settings.shards:
            self.shards[name] = await asyncio.to_thread(_shards, name, self._attached)
        self.problems.pop("tables and shards", None)

    async def _look_at_locks(self, name: str) -> None:
        async with command(*self.place(), "stat", name, "--kind", "ring") as stat:
            assert stat.stdout is not None
            line = await stat.stdout.readline()
        self.locks.pop(name, None)
        if line and (said := _waits.locks(json.loads(line))):
            self.locks[name] = said

    def show(self) -> None:
        """Show the last frame, and what failed, on each page."""
        for show, say in list(self._views.values()):
            try:
                show()
            # One page that fails, for example of a tab that is just closed, ends no other.
            except Exception as error:
                with suppress(Exception):
                    say([f"this page cannot show the figures: {error!r}"])


def _shards(name: str, attached: dict[str, Any]) -> dict[str, Any] | str:
    """Return the statistics of shards on Ray, or why there are none.

    The handle is kept: its rates are those since its last statistics.
    """
    try:
        import ray

        from backcast.ray import Shards

        if not ray.is_initialized():
            # Without an address Ray would start a cluster of its own.
            ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        if name not in attached:
            attached[name] = Shards.attach(name)
        found: dict[str, Any] = attached[name].stats()
    # Ray raises errors of its own, of which any is reported and none may end the page.
    except Exception as error:
        attached.pop(name, None)
        return f"shards `{name}`: {error}"
    return found
