"""The page in a browser: looks, reads, keys, what it says, and what it costs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import backcast as bc
import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from conftest import SHOTS, WAIT_MS, Served, backcast, page, program
from playwright.sync_api import Browser, Page, expect

WIDTHS = {1280: 800, 390: 844}
PATHS = ("", "ring/walk", "ring/bars", "ring/images", "market")
COUNTED_FRAMES = 40
# Longest time between two pictures, and what the browser says of its own long tasks.
SMOOTH = """() => new Promise(done => {
  let last = performance.now(), worst = 0, left = 120
  const step = now => {
    worst = Math.max(worst, now - last); last = now
    left-- ? requestAnimationFrame(step) : done(worst)
  }
  requestAnimationFrame(step)
})"""


@contextmanager
def opened(browser: Browser, url: str, width: int = 1280, scheme: str = "light") -> Iterator[Page]:
    """Open a page; fail on an error or warning in the console, and on a failed request."""
    size = {"width": width, "height": WIDTHS[width]}
    context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    tab, said = context.new_page(), []
    tab.set_default_timeout(WAIT_MS)
    tab.on("console", lambda one: one.type in ("error", "warning") and said.append(one.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("requestfailed", lambda request: said.append(request.url))
    # Everything comes from the page itself: it works without a network.
    local = "http://127.0.0.1:", "data:", "blob:"
    tab.on("request", lambda one: one.url.startswith(local) or said.append(one.url))
    try:
        tab.goto(url)
        yield tab
        assert said == []
    finally:
        context.close()


def says(tab: Page, text: str) -> None:
    """Wait until a notice has a text."""
    expect(tab.get_by_role("status").get_by_text(re.compile(text))).to_be_visible(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def live(world: Path) -> Iterator[Served]:
    with page(world) as served:
        yield served


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_and_is_read_by_everyone(
    live: Served, browser: Browser, path: str, width: int, scheme: str
) -> None:
    with opened(browser, live.url + path, width, scheme) as tab:
        drawn = tab.locator(".nicegui-echart svg text, .q-table td")
        expect(drawn.first).to_be_visible(timeout=WAIT_MS)
        if path.startswith("ring"):
            says_rows = tab.get_by_text(re.compile(r"lane \d+, rows [\d,]+ to"))
            expect(says_rows).to_be_visible(timeout=WAIT_MS)
        name = path.replace("/", "-") or "overview"
        tab.screenshot(path=SHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        # The framework's notice of a lost connection, which a loaded machine shows, is its own.
        context = {"exclude": [["#popup"]]}
        found = Axe().run(tab, context=context).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_it_shows_what_a_fleet_does(live: Served, browser: Browser) -> None:
    with opened(browser, live.url) as tab:
        for table, cell in (("Rings", "walk"), ("Fleets", "4"), ("Parameters", "policy")):
            region = tab.get_by_role("region", name=table)
            expect(region.get_by_text(cell, exact=True).first).to_be_visible(timeout=WAIT_MS)
        waits = r"process \d+ \(python.*\): a draw of 32 item\(s\) has waited \d+000 ms for writers"
        says(tab, f"ring `waiting`: {waits}")
        other_figures(tab)


def other_figures(tab: Page) -> None:
    """Wait until the tables of the overview are sent again with other figures."""
    version = tab.get_by_role("region", name="Parameters").locator("tbody td").nth(2)
    before = version.inner_text()
    expect(version).not_to_have_text(before, timeout=WAIT_MS)


def test_new_figures_take_neither_focus_nor_click(live: Served, browser: Browser) -> None:
    with opened(browser, live.url) as tab:
        link = tab.get_by_role("region", name="Rings").get_by_role("link", name="walk")
        expect(link).to_be_visible(timeout=WAIT_MS)
        link.focus()
        other_figures(tab)
        expect(link).to_be_focused(timeout=1)
        link.hover()
        tab.mouse.down()
        other_figures(tab)
        tab.mouse.up()
        expect(tab.get_by_role("heading", name="walk")).to_be_visible(timeout=WAIT_MS)


def test_a_ring_is_opened_and_a_window_drawn_by_keys(live: Served, browser: Browser) -> None:
    with opened(browser, live.url) as tab:
        link = tab.get_by_role("link", name="bars")
        expect(link).to_be_visible(timeout=WAIT_MS)
        for _ in range(40):
            tab.keyboard.press("Tab")
            if link.evaluate("link => link === document.activeElement"):
                break
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("heading", name="bars")).to_be_visible(timeout=WAIT_MS)
        rows = tab.get_by_text(re.compile(r"lane 0, rows"))
        before = rows.inner_text()
        again = tab.get_by_role("button", name="Draw another")
        again.focus()
        for _ in range(8):  # 237 places for a window: eight equal ones in a row are a mistake
            tab.keyboard.press("Enter")
            tab.wait_for_timeout(300)
            if rows.inner_text() != before:
                return
        pytest.fail("the window stays the same")


def test_a_page_that_is_open_before_the_first_rows_draws_a_window(
    place: Path, browser: Browser
) -> None:
    with bc.ReplayBuffer.create("early", {"x": "f4"}, capacity=100, dir=place) as ring:
        with page(place) as served, opened(browser, served.url + "ring/early") as tab:
            expect(tab.get_by_text("no rows to show yet")).to_be_visible(timeout=WAIT_MS)
            with ring.writer(autoreset_mode="next_step") as writer:
                for x in range(3):
                    writer.append(x=x, terminated=False, truncated=False)
            expect(tab.get_by_text(re.compile("lane 0, rows"))).to_be_visible(timeout=WAIT_MS)
        ring.unlink()


def test_images_are_shown_as_frames(live: Served, browser: Browser) -> None:
    with opened(browser, live.url + "ring/images") as tab:
        expect(tab.get_by_role("img", name=re.compile("^obs, frame"))).to_have_count(8)


def test_a_killed_daemon_and_a_removed_ring_are_said(place: Path, browser: Browser) -> None:
    ring = bc.ReplayBuffer.create("short", {"x": "f4"}, capacity=100, dir=place)
    ready = program(*backcast(place, "--json", "serve"), until="ready")
    with page(place) as served, ready as (daemon, _), opened(browser, served.url) as tab:
        runs = tab.get_by_text("runs", exact=True)
        expect(runs).to_be_visible(timeout=WAIT_MS)
        daemon.kill()
        says(tab, r"\d\d:\d\d:\d\d the daemon ended: nothing is saved by itself")
        tab.get_by_role("link", name="short").click()
        expect(tab.get_by_text(re.compile("0 of 100 rows"))).to_be_visible(timeout=WAIT_MS)
        ring.unlink()
        says(tab, "there is no ring `short` in memory")
        tab.get_by_role("link", name="Backcast").click()
        says(tab, "there are no rings yet")


def test_nothing_runs_while_no_page_is_open(place: Path, browser: Browser) -> None:
    with page(place) as served:
        assert served.children() == set()
        with opened(browser, served.url) as tab:
            says(tab, "there are no rings yet")
            assert len(served.children()) == 1
        with opened(browser, served.url + "market") as tab:
            expect(tab.get_by_text(re.compile(r"^tick"))).to_be_visible(timeout=WAIT_MS)
            # The reading for the page before ends, and the market goes on.
            await_children(served, 1)
        await_children(served, 0)


def await_children(served: Served, count: int) -> None:
    """Wait until the page has as many child processes."""
    for _ in range(600):
        if len(served.children()) == count:
            return
        subprocess.run(["sleep", "0.1"], check=True)
    pytest.fail(f"running: {served.children()}, and not {count}")


def answer(url: str, **headers: str) -> tuple[int, str]:
    """Return the status and the text of an answer."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=60
        ) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_other_sites_names_and_tokens_are_refused(place: Path, browser: Browser) -> None:
    with page(place) as served:
        assert answer(served.url)[0] == 200
        assert answer(served.url, Host="attacker.example")[0] == 403
        assert answer(served.url, Origin="http://attacker.example")[0] == 403
    with page(place, "--token", "a-token-of-the-test") as served:
        bare = served.url.partition("?")[0]
        assert served.url.endswith("/?token=a-token-of-the-test")
        for wrong in (bare, f"{bare}?token=another", f"{bare}_nicegui/static/x"):
            assert answer(wrong)[0] == 401
        with opened(browser, served.url) as tab:
            says(tab, "there are no rings yet")
            assert tab.url == bare


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_signal_ends_it_as_other_commands(place: Path, number: int, status: int) -> None:
    with page(place) as served:
        served.process.send_signal(number)
        _, said = served.process.communicate(timeout=60)
        assert (served.process.returncode, said) == (status, "")


def test_a_second_ctrl_c_does_not_cut_the_end_short() -> None:
    from backcast.ui._serve import _Server

    server = _Server(uvicorn.Config(print))
    for _ in range(2):
        server.handle_exit(signal.SIGINT, None)
    assert (server.should_exit, server.force_exit) == (True, False)


def test_a_wrong_seed_of_the_market_is_said(live: Served, browser: Browser) -> None:
    with opened(browser, live.url + "market?seed=99999999999999999999999") as tab:
        said = tab.get_by_text(re.compile("^the market ended: invalid value '9"))
        expect(said).to_be_visible(timeout=WAIT_MS)
        tab.get_by_role("link", name="calm").click()
        expect(tab.get_by_text(re.compile(r"^tick"))).to_be_visible(timeout=WAIT_MS)


def cpu_s(*pids: int) -> float:
    """Return the CPU time of processes."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def test_64_rings_of_16_lanes_do_not_freeze_it(place: Path, browser: Browser) -> None:
    made = [
        bc.ReplayBuffer.create(f"ring-{k:02}", {"x": "f4"}, capacity=1_600, lanes=16, dir=place)
        for k in range(64)
    ]
    writers = [ring.writer(lanes=16, autoreset_mode="next_step") for ring in made]

    def write(count: int) -> None:
        for writer in writers:
            for _ in range(count):
                flags = [False] * 16
                writer.append(x=range(16), terminated=flags, truncated=flags)

    write(50)
    top = backcast(place, "--json", "top", "--interval", "0.5")
    cost = {}
    with subprocess.Popen(top, stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout is not None
        reading.stdout.readline()
        begin = cpu_s(reading.pid)
        for _ in range(COUNTED_FRAMES):
            write(1)
            reading.stdout.readline()
        cost["top_s"] = cpu_s(reading.pid) - begin
        reading.terminate()
    with page(place) as served, opened(browser, served.url) as tab:
        rows = tab.get_by_role("region", name="Rings").locator("tbody tr")
        expect(rows).to_have_count(64, timeout=WAIT_MS)
        cost["longest_picture_ms"] = tab.evaluate(SMOOTH)
        with subprocess.Popen(top, stdout=subprocess.PIPE, text=True) as clock:
            assert clock.stdout is not None
            clock.stdout.readline()
            begin = cpu_s(served.process.pid, *served.children())
            for _ in range(COUNTED_FRAMES):
                write(1)
                clock.stdout.readline()
            cost["page_s"] = cpu_s(served.process.pid, *served.children()) - begin
            clock.terminate()
        assert len(served.children()) == 1
        tab.get_by_role("link", name="ring-63").click()
        expect(tab.get_by_role("heading", name="ring-63")).to_be_visible(timeout=WAIT_MS)
        lanes = tab.get_by_role("region", name="Lanes").locator("tbody tr")
        expect(lanes).to_have_count(16, timeout=WAIT_MS)
        expect(tab.get_by_text(re.compile(r"lane \d+, rows"))).to_be_visible(timeout=WAIT_MS)
        tab.screenshot(path=SHOTS / "lanes.png", full_page=True)
    cost["ratio"] = cost["page_s"] / cost["top_s"]
    (SHOTS / "cost.json").write_text(json.dumps(cost, indent=1) + "\n")
    print(cost, file=sys.stderr)
    for ring in made:
        ring.unlink()
    assert cost["ratio"] <= 1.5
