"""Reads `backcast --json top` while a page is open."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from backcast.errors import BackcastError
from backcast.ui import _words
from backcast.ui._settings import Settings

POINTS = 120
"""Frames whose rates are kept for the charts."""
_AGAIN_S = 5.0
"""Seconds until a command that ended is started again, and between two readings of shards."""
_IDLE_S = 5.0
"""Seconds without a page until the reading ends."""


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[Process]:
    """Run `backcast --json` in a child process, and end it with the block."""
    program = sys.executable, "-m", "backcast", "--json", *arguments
    process = await asyncio.create_subprocess_exec(
        *program, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, limit=1 << 24
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        # The pipe may be full, and a child that writes does not end before it is read.
        process._transport.close()  # type: ignore[attr-defined]
        await process.wait()


async def message(process: Process) -> str:
    """Return what a command that ended said on stderr."""
    assert process.stderr is not None
    said = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
    try:
        return str(json.loads(said[-1])["message"])
    except (IndexError, KeyError, ValueError):
        return said[-1] if said else f"exit status {await process.wait()}"


class Feed:
    """The newest frame. Without a page that asks for it, no process runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.events: deque[str] = deque(maxlen=5)
        """Sentences on what vanished or came, newest first, with the time of day."""
        self.rates: dict[str, deque[tuple[int, float, float]]] = {}
        """Time in ms, rows published and drawn per second, by ring."""
        self.shards: dict[str, list[_words.Row]] = {}
        self._frame: _words.Frame | None = None
        self._failed: dict[str, str] = {}
        self._attached: dict[str, Any] = {}
        self._reading: asyncio.Task[None] | None = None
        self._asked_s = self._taken_s = 0.0

    def ask(self) -> _words.Frame | None:
        """Return the newest frame, if there is one, and keep the reading alive for some seconds."""
        self._asked_s = time.monotonic()
        if self._reading is None:
            self._taken_s = self._asked_s
            self._reading = asyncio.create_task(self._read_while_asked())
        return self._frame

    def problems(self) -> list[str]:
        """Return why figures are missing or old."""
        late_s = time.monotonic() - self._taken_s
        is_late = late_s > 3 * self.settings.interval_s + 2
        return [*self._failed.values(), *([f"no figures for {late_s:.0f} s"] if is_late else [])]

    async def _read_while_asked(self) -> None:
        reads = {"figures": self._read_figures, "shards": self._read_shards}
        tasks = [asyncio.create_task(self._repeat(key, read)) for key, read in reads.items()]
        while time.monotonic() - self._asked_s < _IDLE_S:
            await asyncio.sleep(_IDLE_S / 5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._failed.clear()
        self.rates.clear()
        self._frame = self._reading = None

    async def _repeat(self, key: str, read: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await read()
                self._failed.pop(key, None)
            # Whatever it is, the page says it, and does not show old figures as live ones.
            except Exception as error:
                reason = str(error) or type(error).__name__
                self._failed[key] = f"{key} cannot be read, and are tried again: {reason}"
            await asyncio.sleep(_AGAIN_S)

    async def _read_figures(self) -> None:
        place = [] if self.settings.dir is None else ["--dir", self.settings.dir]
        async with command(*place, "top", "--interval", str(self.settings.interval_s)) as top:
            assert top.stdout is not None
            async for line in top.stdout:
                self._take(json.loads(line))
            raise BackcastError(f"`backcast top` ended: {await message(top)}")

    def _take(self, frame: _words.Frame) -> None:
        now = time.strftime("%H:%M:%S")
        self.events.extendleft(f"{now} {said}" for said in _words.changes(self._frame, frame))
        self._frame, self._taken_s = frame, time.monotonic()
        self._failed.pop("figures", None)
        kept, self.rates = self.rates, {}
        for ring in frame["rings"]:
            points = kept.get(ring["name"], deque(maxlen=POINTS))
            rates = ring["publish_rate_per_s"] or 0.0, ring["sample_rate_per_s"] or 0.0
            points.append((frame["at_unix_ns"] // 1_000_000, *rates))
            self.rates[ring["name"]] = points

    async def _read_shards(self) -> None:
        for name in self.settings.shards:
            self.shards[name] = await asyncio.to_thread(self._shards, name)

    def _shards(self, name: str) -> list[_words.Row]:
        """Return the statistics of shards on Ray."""
        import ray

        from backcast.ray import Shards

        if not ray.is_initialized():
            # Without an address Ray would start a cluster of its own.
            ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        # The handle is kept: its rates are those since its last statistics.
        handle = self._attached.pop(name, None) or Shards.attach(name)
        found: list[_words.Row] = handle.stats()["shards"]
        self._attached[name] = handle
        return found
