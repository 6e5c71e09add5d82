"""The pages: all objects, one ring, and a simulated market."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable

from nicegui import ui
from PIL import Image

from backcast.ui import _charts, _model, _tables, _window
from backcast.ui._feed import Feed, command, message, while_connected

_CSS = """
body { background: #f6f7f9; --edge: #d9dde2 }
body.body--dark { background: #14171a; --edge: #3a4046 }
.q-card, .q-table__card { border: 1px solid var(--edge); box-shadow: none; border-radius: 10px }
.body--dark .q-card, .body--dark .q-table__card { background: #1d2125 }
.nicegui-echart { width: 100%; height: 15rem }
.nicegui-echart text { fill: currentColor; stroke: none }
.nicegui-content { max-width: 84rem; margin: 0 auto }
.h1, .figure { font-weight: 600; font-size: 1.5rem; line-height: 1.3 } .h2 { font-weight: 600 }
td, .figure { font-variant-numeric: tabular-nums } a { color: inherit; text-underline-offset: 3px }
.dim { opacity: .8 } .wide { width: 100% }
.said { border-left: 4px solid #e06c1f; overflow-wrap: anywhere }
.fill { display: inline-flex; align-items: center; gap: .5rem } .fill > div { width: 4rem }
.tiles, .charts { display: grid; gap: 1rem; width: 100%;
  grid-template-columns: repeat(auto-fit, minmax(min(var(--least), 100%), 1fr)) }
.tiles { --least: 9rem } .charts { --least: 20rem }
@media (max-width: 600px) { .wide-only { display: none } .fill > div { width: 2.2rem }
  .nicegui-content { padding: .6rem } }
"""
_LANES_A_PAGE = 16
_FRAME_S = 0.2
"""Seconds between two frames of a simulated market."""


def build(feed: Feed) -> None:
    """Register the pages."""
    ui.page("/")(lambda: overview(feed))
    ui.page("/ring/{name}", title="Ring · Backcast")(lambda name: ring_page(feed, name))
    ui.page("/market", title="Market · Backcast")(lambda: market_page(feed))


def _watch(feed: Feed, show: Callable[[], object], notices: _Notices) -> None:
    """Call a function now, and at each frame while the browser is connected."""
    client = ui.context.client
    while_connected(
        client,
        lambda: feed.watch(client.id, show, notices.put),
        lambda: feed.leave(client.id),
    )
    show()


def _shell(feed: Feed, title: str) -> ui.column:
    """Make what all pages have, and return the place of the rest."""
    ui.add_css(_CSS)
    ui.colors(primary="#1f6fb2", dark="#1d2125", dark_page="#14171a")
    with ui.header().classes("items-center q-px-md q-py-xs bg-blue-grey-10"):
        for name, path in (("Backcast", "/"), ("Market", "/market")):
            ui.link(name, path).classes("text-white text-weight-medium q-my-sm")
        ui.space()
        ui.label(feed.settings.dir or "").classes("wide-only ellipsis self-center")
    with ui.column().classes("wide") as place:
        _heading(title, 1)
    return place


def _heading(text: str, level: int = 2) -> None:
    ui.label(text).props(f"role=heading aria-level={level}").classes(f"h{level}")


class _Notices:
    """Sentences above the figures, written anew only where they changed."""

    def __init__(self) -> None:
        self._box = ui.column().classes("wide").props("role=status")
        self._said: list[str] = []

    def put(self, said: Iterable[str]) -> None:
        """Show sentences."""
        if (now := list(said)) == self._said:
            return
        self._said = now
        self._box.set_visibility(bool(now))
        self._box.clear()
        with self._box:
            for sentence in now:
                with ui.card().classes("said wide q-py-sm"):
                    ui.label(sentence)


class _Chart:
    """A chart on a card of its own, sent again where it changed."""

    def __init__(self, title: str) -> None:
        with ui.card() as self.card:
            _heading(title)
            self._made = ui.echart({}, renderer="svg").props(f'role=img aria-label="{title}"')

    def put(self, options: _charts.Options) -> None:
        """Show other data."""
        if self._made.options != options:
            self._made.options.clear()
            self._made.options.update(options)
            self._made.update()


class _Table:
    """A table that is sent again where its rows changed, and not shown without rows."""

    def __init__(
        self, columns: tuple[_tables.Column, ...], label: str, row_key: str | None = None
    ) -> None:
        shown = [column.options(place) for place, column in enumerate(columns)]
        self._columns = columns
        row_key = row_key or columns[0].key
        self._made = ui.table(columns=shown, rows=[], row_key=row_key).classes("wide")
        # A table that is wider than the screen scrolls, also by the keyboard.
        self._made.props(f'flat dense aria-label="{label}" tabindex=0 role=region')
        for column in columns:
            if slot := _tables.SLOTS.get(column.kind):
                self._made.add_slot(f"body-cell-{column.key}", slot)
        self.put([])

    def put(self, objects: Iterable[_model.Row]) -> None:
        """Show objects."""
        found = _tables.rows(self._columns, objects)
        self._made.set_visibility(bool(found))
        if self._made.rows != found:
            self._made.rows = found


def overview(feed: Feed) -> None:
    """Show all objects."""
    figures: dict[str, ui.label] = {}

    def show() -> None:
        frame = feed.frame
        if frame is None:
            notices.put(feed.problems.values() or ["reading"])
            return
        found = list(feed.shards.values())
        names = sorted(feed.waits.keys() | feed.locks.keys())
        waits = [f"`{name}`: {said}" for name in names for said in feed.sentences(name)]
        nothing = [] if frame["rings"] or frame["params"] else ["there are no rings yet"]
        failed = [one for one in found if isinstance(one, str)]
        said = [*feed.problems.values(), *_model.problems(frame), *failed, *waits, *feed.events]
        notices.put(said + nothing)
        for title, words in _figures(frame).items():
            figures[title].set_text(words)
        rings.put(frame["rings"])
        fleets.put(frame["fleets"])
        params.put(frame["params"])
        shards.put(shard for one in found if not isinstance(one, str) for shard in one["shards"])
        limits.set_text(" · ".join(map(_model.limit_in_words, frame["limits"])))

    with _shell(feed, "Overview"):
        with ui.element("div").classes("tiles"):
            for title in ("Rings", "Rows/s", "Drawn/s", "Memory", "Daemon"):
                with ui.card().classes("q-py-sm"):
                    ui.label(title).classes("dim")
                    figures[title] = ui.label("-").classes("figure")
        notices = _Notices()
        rings, fleets = _Table(_tables.RINGS, "Rings"), _Table(_tables.FLEETS, "Fleets")
        params = _Table(_tables.PARAMS, "Parameters")
        shards = _Table(_tables.SHARDS, "Shards on Ray")
        limits = ui.label().classes("dim")
    _watch(feed, show, notices)


def _figures(frame: _model.Frame) -> dict[str, str]:
    def total(key: str) -> float:
        return sum(ring[key] or 0 for ring in frame["rings"])

    return {
        "Rings": str(len(frame["rings"])),
        "Rows/s": _model.scaled(total("publish_rate_per_s")),
        "Drawn/s": _model.scaled(total("sample_rate_per_s")),
        "Memory": _model.size(total("allocated_bytes")),
        "Daemon": "runs" if _model.has_daemon(frame) else "none",
    }


def ring_page(feed: Feed, name: str) -> None:
    """Show one ring."""
    histograms: dict[str, _Chart] = {}

    def show() -> None:
        ring = feed.ring(name)
        if ring is None:
            gone = [] if feed.frame is None else [f"there is no ring `{name}` in memory"]
            notices.put([*feed.problems.values(), *gone, *feed.events] or ["reading"])
            return
        errors = filter(None, (ring["error"], ring["persist_error"]))
        notices.put([*feed.problems.values(), *errors, *feed.sentences(name)])
        facts.set_text(_facts(ring))
        rates.put(_charts.rates(feed.rates[name]))
        lanes = ring["lanes"]
        held = [lane["publish_rate_per_s"] or 0.0 for lane in lanes]
        by_lane.put(_charts.bars([str(lane["lane"]) for lane in lanes], held, "rows/s"))
        pages.set_visibility(len(lanes) > _LANES_A_PAGE)
        pages.max = max(-(-len(lanes) // _LANES_A_PAGE), 1)
        first = ((pages.value or 1) - 1) * _LANES_A_PAGE
        lane_table.put(lanes[first : first + _LANES_A_PAGE])
        bins = _model.age_bins(ring)
        ages.card.set_visibility(bool(bins))
        ages.put(_charts.bars([f"{k:,}" for k, _ in bins], [rows for _, rows in bins], "rows"))
        for table in ring["tables"]:
            for title, labels, rows in _histograms(table):
                if title not in histograms:
                    with charts:
                        histograms[title] = _Chart(title)
                histograms[title].put(_charts.bars(labels, rows, "rows"))

    async def draw() -> None:
        found = await asyncio.to_thread(_window.draw, name, feed.settings.dir)
        drawn.clear()
        with drawn:
            ui.label(found if isinstance(found, str) else found.title).classes("dim")
            if not isinstance(found, str):
                _show_window(found)

    feed.opened = name
    with _shell(feed, name):
        facts, notices = ui.label(), _Notices()
        with ui.element("div").classes("charts") as charts:
            rates, by_lane = _Chart("Rates"), _Chart("Rows/s of each lane")
            ages = _Chart("Ages of drawn rows, in newer rows of their lane")
        with ui.card().classes("wide"):
            _heading("A sampled window")
            ui.button("Draw another", on_click=draw).props("no-caps unelevated")
            drawn = ui.column().classes("wide")
        lane_table = _Table(_tables.LANES, "Lanes")
        pages = ui.pagination(1, 1, direction_links=True, on_change=show)
    ui.timer(0, draw, once=True)
    _watch(feed, show, notices)


def _facts(ring: _model.Row) -> str:
    facts = [
        ring["state"],
        f"{ring['fill']:.0%} full: {ring['rows']:,} of {ring['capacity_rows']:,} rows",
        f"{ring['transitions']:,} transitions",
        f"writers {_model.lanes_in_words(ring)}",
        f"readers {ring['readers']}",
        f"leases {ring['pins']}",
        f"oldest row {_model.age(ring['oldest_row_age_s'])}",
        f"unsaved {_model.lag_in_words(ring)}",
        _model.size(ring["allocated_bytes"]),
    ]
    return " · ".join(facts)


def _histograms(table: _model.Row) -> Iterable[tuple[str, list[str], list[int]]]:
    """Yield the title, labels and counts of what is known of a table."""
    if bins := (table["priorities"] or {}).get("histogram"):
        labels = [f"{one['from']:.3g}" for one in bins]
        yield f"Priorities of `{table['name']}`", labels, [one["rows"] for one in bins]
    if bins := table["times_sampled"]:
        labels = [str(one["times"]) for one in bins]
        yield f"Times sampled, `{table['name']}`", labels, [one["rows"] for one in bins]


def _show_window(found: _window.Drawn) -> None:
    if found.window is not None:
        label = f"{'candles' if found.window.prices else 'lines'} of {found.title}"
        made = ui.echart(_charts.window(found.window), renderer="svg")
        made.props(f'role=img aria-label="{label}"')
    for column, frames in found.frames.items():
        ui.label(f"{column}, the last {len(frames)} frames")
        with ui.row():
            for place, frame in enumerate(frames):
                picture = ui.image(Image.fromarray(frame)).props("no-transition")
                picture.props(f'alt="{column}, frame {place + 1} of {len(frames)}"')
                picture.style("width: 84px; image-rendering: pixelated")


def market_page(feed: Feed) -> None:
    """Show a market that is simulated while the page is open, apart from all environments."""
    running: list[asyncio.Task[None]] = []

    async def run() -> None:
        mids: deque[tuple[int, float]] = deque(maxlen=600)
        try:
            asked = ("--preset", str(preset.value), "--seed", f"{seed.value or 0:.0f}")
            async with command("sim", "watch", *asked) as market:
                assert market.stdout is not None
                # The command goes on as its lines are read.
                async for line in market.stdout:
                    frame = json.loads(line)
                    mids.append((frame["tick"], frame["mid_price"]))
                    figures.set_text(_quotes(frame))
                    price.put(_charts.lines({"mid-price": list(mids)}, scale=True))
                    depth.put(_charts.book(frame))
                    trades.put(frame["trades"][:8])
                    await asyncio.sleep(_FRAME_S)
                said = await message(market)
        except Exception as error:
            said = str(error) or type(error).__name__
        figures.set_text(f"the market ended: {said}")

    def stop() -> None:
        while running:
            running.pop().cancel()

    def start() -> None:
        stop()
        running.append(asyncio.create_task(run()))

    with _shell(feed, "Simulated market"):
        with ui.row().classes("items-center"):
            kinds = ["calm", "normal", "stressed", "flash", "teaching"]
            preset = ui.select(kinds, value="normal", label="Market", on_change=start)
            seed = ui.number("Seed", value=1, min=0, precision=0)
            ui.button("Start again", on_click=start).props("no-caps unelevated")
        figures = ui.label().classes("h2")
        with ui.element("div").classes("charts"):
            price, depth = _Chart("Mid-price"), _Chart("Order book")
        trades = _Table(_tables.TRADES, "Trades", row_key="row")
    # A browser that connects again finds the market as it was.
    while_connected(ui.context.client, lambda: None if running else start(), stop)


def _quotes(frame: _model.Row) -> str:
    bid, ask = (frame[f"best_{side}"] or float("nan") for side in ("bid", "ask"))
    tick, last = frame["tick"], frame["last_price"]
    return f"tick {tick:,} · bid {bid:,.2f} · ask {ask:,.2f} · last {last:,.2f}"
