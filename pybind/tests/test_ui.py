"""The page of `backcast ui`, without a browser and without NiceGUI: arguments, words, windows."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import cli, ui
from backcast.ui import _charts, _feed, _model, _tables, _waits, _window
from backcast.ui._arguments import Settings, parsed, socket_of
from backcast.ui._guard import Guard


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
    lists = {"tables": [], "reader_ages": [], "lanes": [lane(0)]}
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
        top = [sys.executable, "-m", "backcast", "--dir", str(place), "--json", "top", "--once"]
        printed = subprocess.run(
            [*top, "--interval", "0.05"], capture_output=True, check=True, timeout=60
        )
    real = json.loads(printed.stdout)
    made = frame(ring("real"))
    assert made.keys() == real.keys()
    assert made["rings"][0].keys() == real["rings"][0].keys()
    assert made["rings"][0]["lanes"][0].keys() == real["rings"][0]["lanes"][0].keys()
    [row] = _tables.rows(_tables.RINGS, real["rings"])
    assert (row["name"], row["waits"], row["lanes"]) == ("real", "-", "0 of 1")


def test_a_row_has_what_an_operator_looks_for() -> None:
    shown = ring(
        "walk",
        fill=0.25,
        publish_rate_per_s=1234.56,
        lanes=[lane(0, rate=600.0), lane(1, rate=634.56), lane(2, held=False)],
        limited_samplers=2,
        persist_behind_rows=12_000,
        persist_behind_s=90.0,
    )
    [row] = _tables.rows(_tables.RINGS, [shown])
    assert (row["fill"], row["publish_rate_per_s"]) == (0.25, 1230.0)
    assert row["lanes"] == "2 of 3"
    assert (row["waits"], row["unsaved"], row["size"]) == ("2 draw", "12k, 1.5 min", "1 MiB")
    failing = ring("walk", persist_error="no space")
    assert _tables.rows(_tables.RINGS, [failing])[0]["unsaved"] == "failing"


def test_every_value_of_a_row_is_a_number_or_words() -> None:
    fleet: dict[str, Any] = {"name": "fleet-1", "buffer": None, "n": 4, "running": 3}
    fleet |= dict.fromkeys(("restarts", "updates", "updates_per_s", "episodes"), 2)
    unknown = ("rows_per_s", "samples_per_insert", "policy_version", "policy_age_versions")
    fleet |= dict.fromkeys((*unknown, "policy_age_s", "return_mean"))
    [row] = _tables.rows(_tables.FLEETS, [fleet])
    assert (row["running"], row["policy_age"], row["return_mean"]) == ("3 of 4", "-", None)
    fleet |= {"policy_age_versions": 2.5, "policy_age_s": 0.5}
    assert _tables.rows(_tables.FLEETS, [fleet])[0]["policy_age"] == "2.5 versions, 0.5 s"
    for columns in (_tables.RINGS, _tables.FLEETS, _tables.PARAMS, _tables.LANES, _tables.SHARDS):
        assert len({column.key for column in columns}) == len(columns)
        assert any(column.is_narrow for column in columns)


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0"), (12.34, "12.3"), (999.6, "1k"), (2.5e6, "2.5M"), (3e12, "3,000G")],
)
def test_numbers_keep_three_digits(number: float, words: str) -> None:
    assert _model.scaled(number).replace("3e+03", "3,000") == words


def test_what_vanishes_is_said() -> None:
    before, after = frame(ring("a"), ring("b"), daemon=True), frame(ring("b"))
    assert _model.changes(None, before) == []
    assert _model.changes(before, before) == []
    removed, ended = _model.changes(before, after)
    assert removed == "ring `a` is no longer in memory"
    assert ended.startswith("the daemon ended: nothing is saved by itself")
    assert _model.changes(after, frame(ring("b"), daemon=True)) == ["a daemon runs"]


def test_what_does_not_work_is_said() -> None:
    late = {"name": "fleet-1", "updated_unix_ns": 80_000_000_000}
    damaged = ring("torn", state="damaged", error="its header is cut")
    found = frame(damaged, ring("full", persist_error="no space"), fleets=[late])
    assert _model.problems(found) == [
        "ring `torn` is damaged: its header is cut",
        "rows of ring `full` cannot be saved: no space",
        "fleet `fleet-1` has not reported for 10.0 s",
    ]


def test_a_draw_that_waits_is_reported_in_the_words_of_its_error(place: Path) -> None:
    limits = bc.RateLimiter(4, min_size=100)
    with bc.ReplayBuffer.create(
        "held", {"x": "f4"}, capacity=500, limiter=limits, dir=place
    ) as buf:
        stats, now = buf.stats(), ring("held", limited_samplers=1)
        with buf.sampler() as sampler, pytest.raises(bc.RateLimitTimeoutError) as error:
            sampler.sample(8, timeout=0.01)
    waiter = {"pid": os.getpid(), "lane": None, "slot": 0, "wanted": 8, "needed": 100}
    waiter["since_unix_ms"] = int((time.time() - 12) * 1e3)
    stats["limiter"]["waiters"] = [waiter]
    [said] = _waits.sentences(stats, now)
    words = str(error.value).partition("for writers")[2].partition("; living")[0]
    assert f"by process {os.getpid()} has waited 12 s for writers{words}" in said
    waiter["since_unix_ms"] = int(time.time() * 1e3)
    assert _waits.sentences(stats, now) == []
    waiter |= {"lane": 3, "since_unix_ms": 0}
    [said] = _waits.sentences(stats, now)
    assert f"the writer of lane 3 (process {os.getpid()})" in said
    assert said.endswith("living samplers: none")


def test_a_lease_that_is_waited_for_names_its_process(place: Path) -> None:
    with bc.ReplayBuffer.create("leased", {"x": "f4"}, capacity=500, dir=place) as buf:
        with buf.writer() as writer:
            for t in range(100):
                writer.append(x=t, terminated=False, truncated=False)
        with buf.lease(0, 40, 10):
            [said] = _waits.sentences(buf.stats(), ring("leased", release_awaited=True))
    assert "lane 0 from row 40 on, by process " in said
    assert f"{os.getpid()} (" in said


def test_a_window_is_no_draw_of_a_limiter(place: Path) -> None:
    limits = bc.RateLimiter(1, min_size=1)
    with bc.ReplayBuffer.create("one", {"x": "f4"}, capacity=500, limiter=limits, dir=place) as buf:
        with buf.writer() as writer:
            writer.append(x=1, terminated=False, truncated=False)
            writer.append(x=1, terminated=False, truncated=False)
        assert isinstance(_window.draw("one", str(place)), _window.Drawn)
        assert buf.stats()["limiter"]["samples"] == 0


def test_locked_and_damaged_tables_are_reported() -> None:
    locked = {"table": "priority", "pids": [os.getpid()]}
    damaged = {"table": "queue", "state": "damaged", "problem": "cut"}
    said = _waits.locks({"locked_tables": [locked], "unreadable_tables": [damaged]})
    assert said[0].startswith(f"the table `priority` is locked by process {os.getpid()} (")
    assert said[1] == "the table `queue` is damaged: cut"
    [unknown] = _waits.locks({"locked_tables": [locked | {"pids": []}], "unreadable_tables": []})
    assert unknown.startswith(
        "the table `priority` is locked by another process, and a change waits"
    )


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
            assert _window.draw(name, str(place)) == "no rows to show yet"
            with buf.writer() as writer:
                for t in range(100):
                    step = {"obs": obs, "next_obs": obs, "reward": t}
                    writer.append(**step, terminated=t == 99, truncated=False)
            drawn = _window.draw(name, str(place))
        assert isinstance(drawn, _window.Drawn)
        assert drawn.window is not None
        json.dumps(_charts.window(drawn.window))
        assert bool(drawn.window.prices) == (name == "bars")
        assert len(drawn.window.places) <= (9 if name == "images" else 64)
        assert [one.shape for one in drawn.frames.get("obs", [])] == [(8, 8)] * 8 * (
            name == "images"
        )
        if name == "vector":
            assert list(drawn.window.lines) == ["reward", "obs[0]", "obs[1]", "obs[2]"]
    assert "no ring named `gone`" in str(_window.draw("gone", str(place)))


def rows_of(count: int = 4, flags: int = 0, **columns: object) -> dict[str, Any]:
    """Return rows as `ReplayBuffer.rows` does."""
    found = {"seq": np.arange(count, dtype="i8"), "flags": np.full(count, flags, "u1")}
    return found | columns


def test_candles_need_four_prices_of_one_parent() -> None:
    one = np.ones(4, "f4")
    prices = dict.fromkeys(("open", "high", "low", "close"), one)
    without = {name: price for name, price in prices.items() if name != "high"}
    wide = dict.fromkeys(prices, np.ones((4, 2, 2), "f4"))
    cases: tuple[tuple[dict[str, Any], bool], ...] = (
        ({"obs": prices}, True),
        ({"obs": {"bars": prices}}, True),
        ({"close": one}, False),
        ({"obs": without, "info": {"high": one}}, False),
        ({"obs": wide}, False),
    )
    for columns, has_candles in cases:
        window = _window.of_rows(rows_of(**columns), 0).window
        assert window is not None
        assert bool(window.prices) == has_candles
        assert bool(window.lines) != has_candles


def test_of_many_columns_the_first_six_are_drawn() -> None:
    columns: dict[str, Any] = {f"c{k}": np.ones(4, "f4") for k in range(5)} | {
        "obs": np.ones((4, 10), "f4")
    }
    drawn = _window.of_rows(rows_of(**columns), 2)
    assert drawn.title == "lane 2, rows 0 to 3, the first 6 of 15 values a row"
    assert drawn.window is not None
    assert list(drawn.window.lines) == ["c0", "c1", "c2", "c3", "c4", "obs[0]"]


def test_final_observations_alone_are_no_window() -> None:
    drawn = _window.of_rows(rows_of(flags=4, x=np.ones(4, "f4")), 0)
    assert (drawn.window, drawn.title) == (None, "final observations only; draw another window")


def test_trades_of_one_tick_have_keys_of_their_own() -> None:
    trade = {"tick": 7, "side": "buy", "price": 1.0, "shares": 2, "archetype": "value"}
    assert [row["row"] for row in _tables.rows(_tables.TRADES, [trade, trade])] == [0, 1]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--listen", "nowhere"], "--listen is 'nowhere'; give ADDRESS:PORT"),
        (["--listen", "example.org:80"], "--listen is 'example.org:80'; give ADDRESS:PORT"),
        (["--listen", "127.0.0.1:70000"], "port from 0 to 65535, such as 127.0.0.1:9465"),
        (["--token", "a-token-of-the-tést"], "other characters than printable ASCII; give letters"),
        (["--no-token", "--listen", "0.0.0.0:0"], "lets everyone read the page; leave it out"),
        (["--no-token", "--allow-host", "rings"], "--no-token goes with neither --token nor"),
        (["--token", "short"], "the token has 5 characters; give at least 16"),
        (["--interval", "0"], "--interval is '0'; give 0.05 to 3600 seconds"),
        (["--colour"], "unrecognized arguments: --colour; `backcast ui --help` lists"),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(one),
)
def test_a_wrong_argument_is_refused(
    argv: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--dir", str(place), "ui", *argv]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert said in printed


def test_there_is_a_token_of_its_own_for_each_page(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BACKCAST_UI_TOKEN", raising=False)
    here = ["--dir", str(place)]
    made = [parsed([*here, "--listen", to]) for to in ("127.0.0.1:0", "[::1]:0", "0.0.0.0:0")]
    tokens = {one.token for one in made}
    assert len(tokens) == 3
    assert all(token is not None and len(token) >= 32 for token in tokens)
    assert made[0].url(80) == f"http://127.0.0.1:80/?token={made[0].token}"
    assert parsed([*here, "--no-token"]).url(9465) == "http://127.0.0.1:9465/"
    chosen = parsed([*here, "--listen", "[::1]:8080", "--token", "a token & more+#1"])
    assert chosen.url(8080) == "http://[::1]:8080/?token=a%20token%20%26%20more%2B%231"
    monkeypatch.setenv("BACKCAST_UI_TOKEN", "a-token-of-the-environment")
    assert parsed(here).token == "a-token-of-the-environment"


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
    settings = Settings("127.0.0.1", 0, None, None, 1.0, (), ("rings.example",))
    expected = 1008 if kind == "websocket" and status == 403 else status
    assert answer(settings, kind=kind, **headers)[0] == expected


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_request_needs_the_token_or_its_cookie(kind: str) -> None:
    settings = Settings("127.0.0.1", 0, TOKEN, None, 1.0, (), ())
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


class Client:
    """Stands in for NiceGUI's client: handlers run as its sockets come and go."""

    def __init__(self) -> None:
        self.sockets: set[str] = set()
        self.handlers: dict[str, list[Any]] = {"connect": [], "disconnect": []}

    @property
    def has_socket_connection(self) -> bool:
        return bool(self.sockets)

    def on_connect(self, handler: object) -> None:
        self.handlers["connect"].append(handler)

    def on_disconnect(self, handler: object) -> None:
        self.handlers["disconnect"].append(handler)

    def turn(self, event: str, socket_id: str) -> None:
        (self.sockets.add if event == "connect" else self.sockets.remove)(socket_id)
        for handler in self.handlers[event]:
            handler()


def test_a_browser_that_connects_anew_keeps_its_view() -> None:
    client, seen = Client(), list[str]()
    _feed.while_connected(client, lambda: seen.append("begin"), lambda: seen.append("end"))
    client.turn("connect", "first")
    client.turn("connect", "second")
    client.turn("disconnect", "first")
    assert seen == ["begin", "begin"]
    client.turn("disconnect", "second")
    assert seen == ["begin", "begin", "end"]


def feed(place: Path, interval_s: float = 0.05) -> _feed.Feed:
    return _feed.Feed(Settings("127.0.0.1", 0, None, str(place), interval_s, (), ()))


async def end(reads: _feed.Feed, *keys: str) -> None:
    """Close pages, and wait for the end of what read for them."""
    tasks = reads._tasks
    for key in keys:
        reads.leave(key)
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)


def test_a_view_that_fails_ends_no_other(place: Path) -> None:
    reads, seen, said = feed(place), list[int](), list[list[str]]()
    taken = asyncio.Event()

    def fail() -> None:
        raise RuntimeError("no such element")

    def count() -> None:
        seen.append(1)
        if len(seen) > 2:
            taken.set()

    async def look() -> None:
        reads.watch("one", fail, said.append)
        reads.watch("deleted", fail, lambda _: fail())
        reads.watch("other", count, said.append)
        await asyncio.wait_for(taken.wait(), 60)
        await end(reads, "one", "deleted", "other")

    asyncio.run(look())
    assert said[0] == ["this page cannot show the figures: RuntimeError('no such element')"]
    assert reads.problems == {}


def test_a_reading_that_fails_is_said_and_tried_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, said = feed(place), list[dict[str, str]]()
    works, spawn = asyncio.Event(), asyncio.create_subprocess_exec
    monkeypatch.setattr(_feed, "_AGAIN_S", 0.01)

    async def fail(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        if said:
            return await spawn(*arguments, **options)
        raise OSError(24, "Too many open files")

    def show() -> None:
        if reads.frame is None:
            said.append(dict(reads.problems))
        else:
            works.set()

    async def look() -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)
        reads.watch("page", show, print)
        await asyncio.wait_for(works.wait(), 60)
        await end(reads, "page")

    asyncio.run(look())
    reason = "cannot be read, and are tried again: [Errno 24] Too many open files"
    assert said[0] == {"figures": f"figures {reason}"}
    assert reads.problems == {}


def test_old_figures_are_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, old = feed(place), asyncio.Event()

    async def nothing() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(reads, "_read", nothing)

    async def look() -> None:
        reads.watch("page", old.set, print)
        assert reads.problems == {}
        reads._taken_s -= 12
        await asyncio.wait_for(old.wait(), 60)
        assert reads.problems == {"age": "no figures for 12 s"}
        reads._take(frame())
        assert reads.problems == {}
        await end(reads, "page")

    asyncio.run(look())


def test_rings_with_a_locked_table_are_looked_at_first(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, looked = feed(place), list[str]()

    async def look_at(name: str) -> None:
        looked.append(name)

    monkeypatch.setattr(reads, "_look_at_locks", look_at)
    rings = [ring(name, tables=[{}]) for name in "abcd"]
    reads._take(frame(*rings, ring("none")))
    reads.locks = {"c": ["locked"], "gone": ["locked"]}
    for _ in range(4):
        looked.clear()
        asyncio.run(reads._look())
        assert looked[0] == "c"
        assert len(looked) <= 2
    reads.opened = "d"
    seen = set[str]()
    for _ in range(4):
        looked.clear()
        asyncio.run(reads._look())
        assert looked[:2] == ["c", "d"]
        seen |= set(looked)
    assert seen == set("abcd")
    reads._take(frame(*rings[:2]))
    assert reads.locks == {}
    reads.locks = {"a": ["locked"]}

    async def open_again() -> None:
        reads.watch("page", lambda: None, print)
        await end(reads, "page")

    asyncio.run(open_again())
    assert reads.locks == {}


def test_a_taken_port_and_a_strange_address_are_refused(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = parsed(["--dir", str(place), "--listen", f"127.0.0.1:{port}"])
        said = f"cannot listen on 127.0.0.1, port {port}: Address already in use; give an address"
        with pytest.raises(bc.errors.InUseError, match=said):
            socket_of(settings)
    elsewhere = parsed(["--dir", str(place), "--listen", "192.0.2.1:0"])
    with pytest.raises(bc.errors.StorageError, match=r"cannot listen on 192\.0\.2\.1, port 0"):
        socket_of(elsewhere)


def test_a_missing_extra_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(ui, "find_spec", lambda name: None if name == "nicegui" else found(name))
    assert ui.main(["--dir", str(place)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: `backcast ui` builds on NiceGUI and Pillow, and nicegui is not")
    assert 'run `pip install "backcast[ui]"`' in said


def test_the_command_is_found_behind_options_of_all_commands(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (
        ["ui", "-h"],
        ["--dir", str(place), "ui", "--help"],
        [f"--dir={place}", "ui", "-h"],
    ):
        assert cli.main(argv) == 0
        assert "--listen ADDRESS:PORT" in capsys.readouterr().out
    assert cli.main(["--json", "ui"]) == 2
    assert cli.main(["--dir", str(place / "gone"), "ui"]) == 1
