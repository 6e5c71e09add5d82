"""The pages: all objects, one ring, and a simulated market."""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from nicegui import ui
from PIL import Image

from backcast.ui import _charts, _tables, _window, _words
from backcast.ui._feed import Feed, command, message

_CSS = """
body { background: #f6f7f9; --edge: #d9dde2 }
body.body--dark { background: #14171a; --edge: #3a4046 }
.q-card, .q-table__card { border: 1px solid var(--edge); box-shadow: none; border-radius: 10px }
.body--dark .q-card, .body--dark .q-table__card { background: #1d2125 }
.nicegui-content { max-width: 84rem; margin: 0 auto } .nicegui-echart { width: 100%; height: 15rem }
.nicegui-echart text { fill: currentColor; stroke: none }
.h1, .figure { font-weight: 600; font-size: 1.5rem; line-height: 1.3 } .h2 { font-weight: 600 }
td, .figure { font-variant-numeric: tabular-nums } a { color: inherit; text-underline-offset: 3px }
.dim { opacity: .8 } .said { border-left: 4px solid #e06c1f; overflow-wrap: anywhere }
.fill { display: inline-flex; align-items: center; gap: .5rem } .fill > div { width: 4rem }
.tiles, .charts { display: grid; gap: 1rem; width: 100%;
  grid-template-columns: repeat(auto-fit, minmax(min(var(--least), 100%), 1fr)) }
.tiles { --least: 9rem } .charts { --least: 20rem }
@media (max-width: 600px) { .wide-only { display: none } .fill > div { width: 2.2rem }
  .nicegui-content { padding: .6rem } }
"""
_MARKETS = ("calm", "normal", "stressed", "flash", "teaching")
_LANES_A_PAGE = 16
_FRAME_S = 0.2
"""Seconds between two frames of a simulated market."""


def build(feed: Feed) -> None:
    """Register the pages."""
    ui.page("/")(lambda: overview(feed))
    ui.page("/ring/{name}", title="Ring · Backcast")(lambda name: ring_page(feed, name))
    ui.page("/market", title="Market · Backcast")(
        lambda preset="normal", seed="1": market_page(feed, preset, seed)
    )


@contextmanager
def _page(feed: Feed, title: str) -> Iterator[None]:
    """Make what all pages have, around the rest."""
    ui.add_css(_CSS)
    ui.colors(primary="#1f6fb2", dark="#1d2125", dark_page="#14171a")
    with ui.header().classes("items-center q-px-md q-py-xs bg-blue-grey-10"):
        for name, path in (("Backcast", "/"), ("Market", "/market")):
            ui.link(name, path).classes("text-white text-weight-medium q-my-sm")
        ui.space()
        ui.label(feed.settings.dir or "").classes("wide-only ellipsis self-center")
    with ui.column().classes("full-width"):
        _heading(title, 1)
        yield


def _heading(text: str, level: int = 2) -> None:
    ui.label(text).props(f"role=heading aria-level={level}").classes(f"h{level}")


class _Charts:
    """A grid of charts, each on a card that is made with its first data."""

    def __init__(self) -> None:
        self._place = ui.element("div").classes("charts")
        self._made: dict[str, ui.echart] = {}

    def put(self, title: str, options: _charts.Options) -> None:
        """Show other data, if they changed."""
        if title not in self._made:
            with self._place, ui.card():
                _heading(title)
                self._made[title] = _echart(options, title)
        elif (made := self._made[title]).options != options:
            made.options.clear()
            made.options.update(options)
            made.update()


def _echart(options: _charts.Options, label: str) -> ui.echart:
    return ui.echart(options, renderer="svg").props(f'role=img aria-label="{label}"')


class _SteadyTable(ui.table, component="_table.js"):  # type: ignore[call-arg, unused-ignore]
    """A table of NiceGUI whose cells are not replaced when their values change."""


class _Table:
    """A table that is sent again where its rows changed, and not shown without rows."""

    def __init__(self, title: str, rows_a_page: int | None = None) -> None:
        self._title, columns = title, _tables.TABLES[title]
        shown = [column.options(place) for place, column in enumerate(columns)]
        self._made = _SteadyTable(columns=shown, rows=[], row_key="row", pagination=rows_a_page)
        # A table that is wider than the screen scrolls, also by the keyboard.
        self._made.props(f'flat dense aria-label="{title}" tabindex=0 role=region')
        self._made.props(f':rows-per-page-options="[{rows_a_page}]"').classes("full-width")
        self.put([])

    def put(self, objects: Iterable[_words.Row]) -> None:
        """Show objects."""
        found = _tables.rows(self._title, objects)
        self._made.set_visibility(bool(found))
        if self._made.rows != found:
            self._made.rows = found


def _follow(feed: Feed, show: Callable[[_words.Frame], Iterable[str]]) -> None:
    """Show each frame while the page is open, and here the sentences that `show` returns."""
    shown: _words.Frame | None = None
    told, said = [""], ["reading"]

    def write(sentences: list[str]) -> None:
        for sentence in sentences:
            ui.label(sentence).classes("q-card said full-width q-px-md q-py-sm")

    def update() -> None:
        nonlocal shown, told, said
        frame = feed.ask()
        if frame is not None and frame is not shown:
            shown, said = frame, list(show(frame))
        # Written anew only where they changed, since a screen reader reads them then.
        if (now := [*feed.problems(), *said]) != told:
            told = now
            notices.refresh(now)

    notices = ui.refreshable(write)
    with ui.column().classes("full-width").props("role=status"):
        notices([])
    ui.timer(min(feed.settings.interval_s, 1), update)


def overview(feed: Feed) -> None:
    """Show all objects."""

    def show(frame: _words.Frame) -> Iterable[str]:
        for title, words in _words.totals(frame).items():
            if title not in figures:
                with tiles, ui.card().classes("q-py-sm"):
                    ui.label(title).classes("dim")
                    figures[title] = ui.label().classes("figure")
            figures[title].set_text(words)
        rings.put(frame["rings"])
        fleets.put(frame["fleets"])
        params.put(frame["params"])
        shards.put(shard for found in feed.shards.values() for shard in found)
        return [*_words.all_troubles(frame), *feed.events]

    figures: dict[str, ui.label] = {}
    with _page(feed, "Overview"):
        tiles = ui.element("div").classes("tiles")
        _follow(feed, show)
        rings, fleets, params = _Table("Rings"), _Table("Fleets"), _Table("Parameters")
        shards = _Table("Shards on Ray")


def ring_page(feed: Feed, name: str) -> None:
    """Show one ring."""

    def show(frame: _words.Frame) -> Iterable[str]:
        ring = next((ring for ring in frame["rings"] if ring["name"] == name), None)
        if ring is None:
            return [f"there is no ring `{name}` in memory", *feed.events]
        facts.set_text(_words.facts(ring))
        charts.put("Rates", _charts.rates(feed.rates[name]))
        for title, options in _charts.of_ring(ring):
            charts.put(title, options)
        lanes.put(ring["lanes"])
        return list(_words.troubles("ring", ring))

    async def draw() -> None:
        found = await asyncio.to_thread(_window.draw, name, feed.settings.dir)
        drawn.clear()
        with drawn:
            ui.label(found.title).classes("dim")
            _show_window(found)
        if found.places:
            first.deactivate()

    with _page(feed, name):
        facts = ui.label()
        _follow(feed, show)
        charts = _Charts()
        with ui.card().classes("full-width"):
            _heading("A sampled window")
            ui.button("Draw another", on_click=draw).props("no-caps unelevated")
            drawn = ui.column().classes("full-width")
        lanes = _Table("Lanes", _LANES_A_PAGE)
    # A page that is opened before the first rows shows a window once there are some.
    first = ui.timer(feed.settings.interval_s, draw)


def _show_window(found: _window.Drawn) -> None:
    if found.named:
        _echart(_charts.window(found), f"a window of {found.title}")
    for column, frames in found.frames.items():
        ui.label(f"{column}, the last {len(frames)} frames")
        with ui.row():
            for place, frame in enumerate(frames):
                said = f"{column}, frame {place + 1} of {len(frames)}"
                picture = ui.image(Image.fromarray(frame)).props(f'no-transition alt="{said}"')
                picture.style("width: 84px; image-rendering: pixelated")


def market_page(feed: Feed, preset: str, seed: str) -> None:
    """Show a market that is simulated while the page is open, apart from all environments."""

    async def run() -> None:
        mids: deque[tuple[int, float]] = deque(maxlen=600)
        async with command("sim", "watch", f"--preset={preset}", f"--seed={seed}") as market:
            assert market.stdout is not None
            # The command goes on as its lines are read.
            async for line in market.stdout:
                frame = json.loads(line)
                quotes.set_text(_words.quotes(frame))
                mids.append((frame["tick"], frame["mid_price"]))
                ticks, prices = zip(*mids, strict=True)
                charts.put("Mid-price", _charts.chart("line", {"mid": prices}, ticks, scale=True))
                charts.put("Order book", _charts.book(frame))
                await asyncio.sleep(_FRAME_S)
            quotes.set_text(f"the market ended: {await message(market)}")

    with _page(feed, "Simulated market"):
        with ui.row():
            for kind in _MARKETS:
                ui.link(kind, f"/market?preset={kind}")
            ui.link("another seed", f"/market?preset={preset}&seed={random.randrange(1_000)}")
        quotes, charts = ui.label().classes("h2"), _Charts()
    # The timer ends the market with the page.
    ui.timer(0, run, once=True)
