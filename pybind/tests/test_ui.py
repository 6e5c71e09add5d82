"""The page of `backcast ui`, without a browser and without NiceGUI: arguments, words, windows."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import cli, ui
from backcast.ui import _charts, _feed, _tables, _window, _words
from backcast.ui._guard import Guard
from backcast.ui._settings import Settings


def lane(number: int, *, rate: float | None = 0.0, held: bool = True) -> dict[str, Any]:
    counts = dict.fromkeys(("head_seq", "rows", "episodes", "stalls", "dropped_rows"), 0)
    named = {"lane": number, "publish_rate_per_s": rate, "held": held, "writer_pid": 70 + number}
    return counts | named


def ring(name: str, **changed: object) -> dict[str, Any]:
    """Return a ring as `backcast --json top` prints it."""
    nothing: tuple[str, ...] = ("error", "oldest_row_age_s", "limited_writers", "limited_samplers")
    nothing += ("persist_behind_rows", "persist_behind_s", "persist_error")
    zeros: tuple[str, ...] = (
        "rows",
        "transitions",
        "batch_rate_per_s",
        "sample_rate_per_s",
        "readers",
        "pins",
    )
    zeros += ("stalls", "dropped_rows", "publish_rate_per_s", "fill")
    flags = {"rows_awaited": False, "release_awaited": False}
    lists: dict[str, Any] = {"tables": [], "reader_ages": [], "lanes": [lane(0)], "waits": []}
    lists |= {"locked_tables": [], "unreadable_tables": []}
    sizes = {"allocated_bytes": 1 << 20, "capacity_rows": 1_000}
    made = {"name": name, "state": "held"} | dict.fromkeys(nothing) | dict.fromkeys(zeros, 0)
    return made | flags | lists | sizes | changed


def frame(*rings: dict[str, Any], daemon: bool = False, **changed: object) -> dict[str, Any]:
    """Return one line of `backcast --json top`."""
    names = ["/dev/shm", "budget"] if daemon else ["/dev/shm"]
    limits = [{"name": name, "used_bytes": 1, "limit_bytes": 2} for name in names]
    empty: dict[str, Any] = {"params": [], "fleets": []}
    times = {"at_unix_ns": 90_000_000_000, "interval_s": 1.0}
    return times | {"limits": limits, "rings": list(rings)} | empty | changed


def test_the_made_up_frame_has_the_keys_of_a_real_one(place: Path) -> None:
    with bc.ReplayBuffer.create("real", {"x": "f4"}, capacity=100, dir=place):
        real = top(place)
    made = frame(ring("real"))
    assert made.keys() == real.keys()
    assert made["rings"][0].keys() == real["rings"][0].keys()
    assert made["rings"][0]["lanes"][0].keys() == real["rings"][0]["lanes"][0].keys()
    [row] = _tables.rows("Rings", real["rings"])
    assert (row["name"], row["waits"], row["lanes"]) == ("real", 0, "0 of 1")


def test_a_row_has_what_an_operator_looks_for() -> None:
    shown = ring(
        "walk",
        fill=0.25,
        publish_rate_per_s=1234.56,
        lanes=[lane(0, rate=600.0), lane(1, rate=634.56), lane(2, held=False)],
        waits=["a", "b"],
        persist_behind_rows=12_000,
        persist_behind_s=90.0,
    )
    [row] = _tables.rows("Rings", [shown])
    assert (row["fill"], row["publish_rate_per_s"]) == (0.25, 1234.56)
    assert (row["lanes"], row["waits"], row["allocated_bytes"]) == ("2 of 3", 2, "1 MiB")
    assert (row["persist_behind_rows"], row["persist_behind_s"]) == (12_000, "1.5 min")
    assert "25% full" in _words.facts(shown)
    assert "12,000 rows unsaved" in _words.facts(shown)
    assert len({row["row"] for row in _tables.rows("Rings", [shown, shown])}) == 2


@pytest.mark.parametrize("title", _tables.TABLES)
def test_every_column_is_found_on_a_narrow_screen_or_left_out(title: str) -> None:
    columns = _tables.TABLES[title]
    assert len({column.key for column in columns}) == len(columns)
    assert 1 < sum(column.is_narrow for column in columns) < 6
    made = [column.options(place) for place, column in enumerate(columns)]
    assert [one["classes"] == "" for one in made] == [column.is_narrow for column in columns]
    nothing: dict[str, Any] = {
        column.key: [] if column.kind in ("writers", "length") else None for column in columns
    }
    sizes = {column.key: 0 for column in columns if column.kind == "size"}
    [row] = _tables.rows(title, [nothing | sizes])
    json.dumps(row)


def test_what_vanishes_is_said() -> None:
    before, after = frame(ring("a"), ring("b"), daemon=True), frame(ring("b"))
    assert list(_words.changes(None, before)) == []
    assert list(_words.changes(before, before)) == []
    removed, ended = _words.changes(before, after)
    assert removed == "ring `a` is no longer in memory"
    assert ended.startswith("the daemon ended: nothing is saved by itself")
    assert list(_words.changes(after, frame(ring("b"), daemon=True))) == ["a daemon runs"]


def test_what_does_not_work_is_said() -> None:
    late = {"name": "fleet-1", "updated_unix_ns": 80_000_000_000}
    damaged = ring("torn", state="damaged", error="its header is cut")
    cut = {"table": "queue", "state": "damaged", "problem": "it is cut"}
    waits = ring("held", unreadable_tables=[cut], waits=["a process waits"])
    found = frame(damaged, ring("full", persist_error="no space"), waits, fleets=[late])
    assert list(_words.all_troubles(found)) == [
        "ring `torn` is damaged: its header is cut",
        "rows of ring `full` cannot be saved: no space",
        "table `queue` of ring `held` is damaged: it is cut",
        "ring `held`: a process waits",
        "fleet `fleet-1` has not reported for 10.0 s",
    ]
    assert list(_words.all_troubles(frame())) == ["there are no rings yet"]


def test_a_draw_that_waits_is_reported_in_the_words_of_its_error(place: Path) -> None:
    limits = bc.RateLimiter(4, min_size=100)
    ended, errors = threading.Event(), list[str]()
    made = bc.ReplayBuffer.create("held", {"x": "f4"}, capacity=500, limiter=limits, dir=place)
    with made as buf, buf.sampler() as sampler:

        def draw() -> None:
            while not ended.is_set():
                try:
                    sampler.sample(8, timeout=3)
                except bc.RateLimitTimeoutError as error:
                    errors.append(str(error))

        thread = threading.Thread(target=draw)
        thread.start()
        try:
            for _ in range(60):
                [seen] = top(place)["rings"]
                # A wait is reported after a second.
                if seen["waits"] and errors:
                    break
        finally:
            ended.set()
            thread.join(60)
    [said] = seen["waits"]
    assert said.startswith(f"process {os.getpid()} (")
    words = errors[0].partition(" ms for writers")[2].partition("; start")[0]
    assert said.endswith(f"000 ms for writers{words}")


def test_a_lease_that_is_waited_for_names_its_process(place: Path) -> None:
    made = bc.ReplayBuffer.create(
        "leased", {"x": "f4"}, capacity=500, lease_timeout=3_600, dir=place
    )

    def write(count: int) -> None:
        with suppress(bc.errors.LeaseWarning), made.writer() as writer:
            for t in range(count):
                writer.append(x=t, terminated=False, truncated=False)

    with made:
        write(100)
        lease = made.lease(0, 40, 10)
        thread = threading.Thread(target=write, args=(20_000,))
        thread.start()
        try:
            seen = next(filter(None, (top(place)["rings"][0]["waits"] for _ in range(60))))
        finally:
            with suppress(bc.errors.LeaseWarning):
                lease.close()
            thread.join(60)
    assert seen[0].startswith(
        "a writer waits for a lease to end (lane 0 from row 40 on, by process "
    )
    assert f"{os.getpid()} (" in seen[0]


def top(place: Path) -> dict[str, Any]:
    """Return a frame of a directory."""
    command = [sys.executable, "-m", "backcast", "--dir", str(place), "--json", "top", "--once"]
    command += ["--interval", "0.05"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(printed.stdout)
    return found


def test_a_window_is_no_draw_of_a_limiter(place: Path) -> None:
    limits = bc.RateLimiter(1, min_size=1)
    with bc.ReplayBuffer.create("one", {"x": "f4"}, capacity=500, limiter=limits, dir=place) as buf:
        with buf.writer() as writer:
            writer.append(x=1, terminated=False, truncated=False)
            writer.append(x=1, terminated=False, truncated=False)
        assert _window.draw("one", str(place)).named == {"x": [1.0, 1.0]}
        assert buf.stats()["limiter"]["samples"] == 0


def test_a_window_has_candles_lines_or_frames(place: Path) -> None:
    prices = dict.fromkeys(("open", "high", "low", "close"), 1.0)
    kinds: dict[str, tuple[Any, Any]] = {
        "bars": (dict.fromkeys(prices, "f4"), prices),
        "vector": (("f4", (3,)), [1.0, 2.0, 3.0]),
        "images": (("u1", (2, 8, 8)), np.zeros((2, 8, 8))),
    }
    for name, (dtype, obs) in kinds.items():
        columns = {"obs": dtype, "reward": "f4"}
        with bc.ReplayBuffer.create(name, columns, capacity=500, dir=place) as buf:
            assert _window.draw(name, str(place)) == _window.Drawn("no rows to show yet")
            with buf.writer() as writer:
                for t in range(100):
                    step = {"obs": obs, "next_obs": obs, "reward": t}
                    writer.append(**step, terminated=t == 99, truncated=False)
            drawn = _window.draw(name, str(place))
        options = _charts.window(drawn)
        json.dumps(options, allow_nan=False)
        assert options["series"][0]["type"] == ("candlestick" if name == "bars" else "line")
        assert len(drawn.places) <= (9 if name == "images" else 64)
        assert [one.shape for one in drawn.frames.get("obs", [])] == [(8, 8)] * 8 * (
            name == "images"
        )
        if name == "vector":
            assert list(drawn.named) == ["reward", "obs[0]", "obs[1]", "obs[2]"]
    assert "no ring named `gone`" in _window.draw("gone", str(place)).title


def rows_of(count: int = 4, flags: int = 0, **columns: object) -> dict[str, Any]:
    """Return rows as `ReplayBuffer.rows` does."""
    found = {"seq": np.arange(count, dtype="i8"), "flags": np.full(count, flags, "u1")}
    return found | columns


def test_candles_need_four_prices_of_one_parent() -> None:
    one = np.ones(4, "f4")
    prices = dict.fromkeys(("open", "high", "low", "close"), one)
    without = {name: price for name, price in prices.items() if name != "high"}
    wide = dict.fromkeys(prices, np.ones((4, 2, 2), "f4"))
    tickers = dict.fromkeys(prices, np.ones((4, 2), "f4"))
    cases: tuple[tuple[dict[str, Any], bool], ...] = (
        ({"obs": prices}, True),
        ({"obs": {"bars": prices}}, True),
        ({"obs": tickers}, True),
        ({"close": one}, False),
        ({"obs": without, "info": {"high": one}}, False),
        ({"obs": wide}, False),
    )
    for columns, has_candles in cases:
        window = _window.of_rows(rows_of(**columns), 0)
        assert window.has_prices == has_candles
        assert (list(window.named) == ["price"]) == has_candles


def test_of_many_columns_the_first_six_are_drawn() -> None:
    columns: dict[str, Any] = {f"c{k}": np.ones(4, "f4") for k in range(5)} | {
        "obs": np.ones((4, 10), "f4")
    }
    drawn = _window.of_rows(rows_of(**columns), 2)
    assert drawn.title == "lane 2, rows 0 to 3, the first 6 of 15 values a row"
    assert list(drawn.named) == ["c0", "c1", "c2", "c3", "c4", "obs[0]"]


def luminance(colour: str) -> float:
    parts = np.frombuffer(bytes.fromhex(colour[1:]), "u1") / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("card", ["#ffffff", "#1d2125"])
def test_lines_and_bars_stand_out_from_their_card(card: str) -> None:
    shown = _charts.chart("line", {str(k): [k] for k in range(_window._LINES)}, [0])
    assert len(set(shown["color"])) >= _window._LINES, "each column has its own colour"
    for colour in shown["color"]:
        dark, light = sorted(map(luminance, (colour, card)))
        assert (light + 0.05) / (dark + 0.05) >= 3, f"{colour} on {card}"


def test_a_row_keeps_its_key_when_others_come_and_go() -> None:
    shard = {"place": "", "status": "", "rows_per_s": 0, "transitions": 0, "writers": 0}
    named = [shard | {"ring": name} for name in ("b", "b", "d")]
    before = [row["row"] for row in _tables.rows("Shards on Ray", named)]
    assert len(set(before)) == 3
    after = _tables.rows("Shards on Ray", [shard | {"ring": "a"}, *named])
    assert [row["row"] for row in after[1:]] == before


def test_what_is_not_finite_is_left_out_and_ends_are_marked() -> None:
    flags = np.array([0, 2, 0, 1], "u1")
    drawn = _window.of_rows(rows_of(x=np.array([1, np.nan, np.inf, 2])) | {"flags": flags}, 0)
    assert drawn.named == {"x": [1.0, None, None, 2.0]}
    marked = _charts.window(drawn)["series"][0]["markLine"]["data"]
    assert marked == [{"xAxis": 1}, {"xAxis": 3}]


def test_final_observations_alone_are_no_window() -> None:
    drawn = _window.of_rows(rows_of(flags=4, x=np.ones(4, "f4")), 0)
    assert drawn == _window.Drawn("final observations only; draw another window")


TOKEN = "a token & more+#1"


def answer(
    settings: Settings, *, kind: str = "http", path: str = "/", query: str = "", **headers: str
) -> tuple[object, dict[str, str]]:
    """Return what a guard answers, and its headers; "let through" if it hands the request on."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def page(_scope: object, _receive: object, _send: object) -> None:
        sent.append({"type": "let through"})

    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": named}
    asyncio.run(Guard(page, settings, 9465)(scope, send, send))
    first = sent[0]
    found = {name.decode(): value.decode() for name, value in first.get("headers", [])}
    return first.get("status", first.get("code", first["type"])), found


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:9465"}, "let through"),
        ({"host": "127.0.0.2:9465"}, "let through"),
        ({"host": "[::1]:9465"}, "let through"),
        ({"host": "localhost:9465"}, "let through"),
        ({"host": "rings.example"}, "let through"),
        ({"host": "localhost", "origin": "http://localhost"}, "let through"),
        ({"host": "attacker.example"}, 403),
        ({"host": "10.0.0.1"}, 403),
        ({"host": "[::1"}, 403),
        ({}, 403),
        ({"host": "localhost", "origin": "http://attacker.example"}, 403),
        ({"host": "localhost", "origin": "http://[::1"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_other_hosts_and_sites_are_refused(
    headers: dict[str, str], status: object, kind: str
) -> None:
    settings = Settings("127.0.0.1", 0, hosts=("rings.example",))
    expected = 1008 if kind == "websocket" and status == 403 else status
    assert answer(settings, kind=kind, **headers)[0] == expected


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_request_needs_the_token_or_its_cookie(kind: str) -> None:
    settings = Settings("127.0.0.1", 0, TOKEN)
    refused = 401 if kind == "http" else 1008
    for headers in ({}, {"cookie": "backcast_ui_9465=another"}, {"cookie": "é={"}):
        asked = {"kind": kind, "host": "localhost"} | headers
        assert answer(settings, **asked)[0] == refused
        assert answer(settings, **asked, query="token=another")[0] == refused
    address = settings.url(9465)
    status, found = answer(
        settings, path="//evil.example/a b", query=address.partition("?")[2], host="localhost"
    )
    assert (status, found["location"]) == (303, "/evil.example/a%20b")
    cookie, _, rest = found["set-cookie"].partition(";")
    assert "HttpOnly" in rest
    assert TOKEN not in cookie
    both = f'strange={{"a"}}; {cookie}'
    assert answer(settings, kind=kind, host="localhost", cookie=both)[0] == "let through"


def feed(place: Path) -> _feed.Feed:
    return _feed.Feed(Settings("127.0.0.1", 0, interval_s=0.05, dir=str(place)))


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, at most a minute."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_reading_lasts_as_long_as_pages_ask(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_feed, "_IDLE_S", 0.5)
    reads = feed(place)

    async def look() -> None:
        for _ in range(2):
            assert reads.ask() is None
            await until(reads.ask)
            assert reads.problems() == []
            await until(lambda: reads._reading is None)
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(look())


def test_a_reading_that_fails_is_said_and_tried_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, tried = feed(place), list[bool]()
    spawn = asyncio.create_subprocess_exec
    monkeypatch.setattr(_feed, "_AGAIN_S", 0.01)

    async def fail(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        if tried:
            return await spawn(*arguments, **options)
        raise OSError(24, "Too many open files")

    async def look() -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)
        reads.ask()
        await until(reads.problems)
        [said] = reads.problems()
        reason = "figures cannot be read, and are tried again: [Errno 24] Too many open files"
        assert said == reason
        tried.append(True)
        await until(reads.ask)
        assert reads.problems() == []

    asyncio.run(look())


def test_old_figures_are_said(place: Path) -> None:
    reads = feed(place)
    reads._take(frame(ring("a")))
    assert reads.problems() == []
    reads._taken_s -= 12
    assert reads.problems() == ["no figures for 12 s"]
    reads._take(frame())
    assert (reads.problems(), reads.rates) == ([], {})
    [said] = reads.events
    assert said.endswith(" ring `a` is no longer in memory")


def test_the_command_line_hands_on_settings(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.delenv("BACKCAST_UI_TOKEN", raising=False)
    monkeypatch.setattr("backcast.ui.main", lambda **settings: seen.append(settings))
    command = ["--dir", str(place), "ui"]
    assert cli.main(command) == 0
    named = {"host": "127.0.0.1", "port": 9465, "token": None, "needs_token": True, "hosts": []}
    assert seen[-1] == named | {"interval_s": 1.0, "shards": [], "dir": str(place)}
    given = ["--listen", "[::1]:0", "--allow-host", "Rings.Example", "--interval", "0.5"]
    assert cli.main([*command, *given, "--shards", "a", "--shards", "b"]) == 0
    named |= {"host": "::1", "port": 0, "hosts": ["rings.example"]}
    assert seen[-1] == named | {"interval_s": 0.5, "shards": ["a", "b"], "dir": str(place)}
    monkeypatch.setenv("BACKCAST_UI_TOKEN", "a-token-of-the-environment")
    assert cli.main([*command]) == 0
    assert seen[-1]["token"] == "a-token-of-the-environment"
    assert cli.main([*command, "--token", TOKEN]) == 0
    assert seen[-1]["token"] == TOKEN
    assert cli.main([*command, "--no-token"]) == 0
    assert (seen[-1]["token"], seen[-1]["needs_token"]) == (None, False)
    monkeypatch.setenv("BACKCAST_UI_TOKEN", "short")
    assert cli.main([*command]) == 2


def test_there_is_a_token_of_its_own_for_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []
    serve = SimpleNamespace(serve=lambda settings, _listening: seen.append(settings))
    monkeypatch.setitem(sys.modules, "backcast.ui._serve", serve)
    for needs_token in (True, True, False):
        ui.main(token=None, needs_token=needs_token, host="127.0.0.1", port=0)
    first, second, none = seen
    assert first.token is not None
    assert second.token is not None
    assert first.token != second.token
    assert len(first.token) >= 32
    assert first.url(80) == f"http://127.0.0.1:80/?token={first.token}"
    assert none.url(9465) == "http://127.0.0.1:9465/"
    chosen = Settings("::1", 8080, TOKEN)
    assert chosen.url(8080) == "http://[::1]:8080/?token=a%20token%20%26%20more%2B%231"


def test_a_taken_port_and_a_strange_address_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "backcast.ui._serve", SimpleNamespace(serve=print))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings("127.0.0.1", port)
        said = f"cannot listen on 127.0.0.1, port {port}: Address already in use; give an address"
        with pytest.raises(bc.errors.StorageError, match=said):
            settings.listen()
        assert ui.main(token=None, needs_token=True, host="127.0.0.1", port=port) == 1
        assert capsys.readouterr().err.startswith(f"error: {said}")
    with pytest.raises(bc.errors.StorageError, match=r"cannot listen on 192\.0\.2\.1, port 0"):
        Settings("192.0.2.1", 0).listen()


def test_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    monkeypatch.setitem(sys.modules, "uvicorn", SimpleNamespace(Server=object))
    monkeypatch.setitem(sys.modules, "fastapi", SimpleNamespace(FastAPI=object))
    monkeypatch.delitem(sys.modules, "backcast.ui._serve", raising=False)
    assert ui.main(token=None, needs_token=True, host="127.0.0.1", port=0) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: `backcast ui` builds on NiceGUI and Pillow, and nicegui is not")
    assert 'run `pip install "backcast[ui]"`' in said


def test_shards_without_ray_are_refused_before_the_page_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Settings] = []
    serve = SimpleNamespace(serve=lambda settings, _listening: served.append(settings))
    monkeypatch.setitem(sys.modules, "backcast.ui._serve", serve)
    settings: dict[str, Any] = {"token": None, "needs_token": False, "host": "127.0.0.1", "port": 0}
    monkeypatch.setattr(ui, "find_spec", lambda _name: None)
    assert ui.main(**settings, shards=["a"]) == 1
    said = capsys.readouterr().err
    assert "ray is not installed" in said
    assert 'pip install "backcast[ray]"' in said
    assert served == []
    assert ui.main(**settings) == 0
    monkeypatch.setattr(ui, "find_spec", lambda _name: object())
    assert ui.main(**settings, shards=["a"]) == 0
    assert [one.shards for one in served] == [(), ["a"]]
