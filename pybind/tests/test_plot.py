"""Plots of windows and statistics show the values that they are given."""

from __future__ import annotations

import subprocess
import sys
import warnings
from datetime import date, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import plot
from facts import missing
from numpy.typing import NDArray

pytest.importorskip("matplotlib", reason="Matplotlib is not installed")

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

PRICES = ("open", "high", "low", "close")
DAYS, HISTORY, FUTURE = 40, 6, 3


def prices(length: int) -> NDArray[np.float64]:
    """Make open, high, low, close: rising and falling days, exact in float32."""
    draw = np.random.default_rng(2).integers(100, 140, (length, 2)).astype(float)
    high, low = draw.max(axis=1) + 2, draw.min(axis=1) - 3
    return np.stack([draw[:, 0], high, low, draw[:, 1]], axis=1)


@pytest.fixture
def market(tmp_path: Path) -> dict[str, NDArray[Any]]:
    """Return windows at days 2, 20 and 21; ticker BBB is not listed on odd days."""
    lines = ["date,tic,open,high,low,close,volume"]
    for day, numbers in enumerate(prices(DAYS).tolist()):
        for ticker in ("AAA", "BBB") if day % 2 == 0 else ("AAA",):
            shifted = [number + (50 if ticker == "BBB" else 0) for number in numbers]
            when = date(2024, 1, 1) + timedelta(days=day)
            lines.append(f"{when},{ticker},{','.join(map(str, shifted))},1")
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(lines) + "\n")
    with bc.Panel.from_csv(path) as panel:
        return panel.windows([2, 20, 21], panel.tokens(["AAA", "BBB"]), HISTORY, FUTURE)


def sampled(index: list[int], history: int | None = HISTORY, future: int = FUTURE) -> bc.Batch:
    """Gather transitions of one lane: a terminated episode of 10 steps, then a truncated one."""
    columns = {
        "obs": {**dict.fromkeys(PRICES, "f4"), "pair": ("f4", (2,)), "grid": ("f4", (2, 2))},
        "action": "f4",
        "reward": "f8",
    }
    rows = prices(21)

    def obs(step: int) -> dict[str, Any]:
        grid = np.full((2, 2), step)
        return {**dict(zip(PRICES, rows[step], strict=True)), "pair": [step, -step], "grid": grid}

    with (
        warnings.catch_warnings(),
        bc.ReplayBuffer.create(None, columns, capacity=100) as buf,
        buf.writer(autoreset_mode="same_step") as writer,
    ):
        # The writer warns because prices continue from one episode into the next.
        warnings.simplefilter("ignore", bc.errors.WriterWarning)
        for step in range(20):
            end = step in (9, 19)
            writer.append(
                obs=obs(step),
                action=step % 3 - 1,
                reward=step / 2,
                terminated=end and step == 9,
                truncated=end and step == 19,
                final_obs=obs(step + 1) if end else None,
            )
        return buf.sampler(seed=1, history=history, future=future).gather(index)


def candles(ax: Axes) -> list[tuple[float, float, float, bool]]:
    """Return place, bottom and top of each candle's body, and whether it is hollow."""
    found = []
    for patch in ax.patches:
        if isinstance(patch, Rectangle) and patch.get_width() < 1:
            x, y = patch.get_x(), patch.get_y()
            hollow = to_rgba(patch.get_facecolor())[3] == 0
            found.append((x + patch.get_width() / 2, y, y + patch.get_height(), hollow))
    return sorted(found)


def points(ax: Axes, label: str) -> list[list[float]]:
    """Return the coordinates of the line with this label."""
    [line] = [line for line in ax.lines if line.get_label() == label]
    xy: list[list[float]] = np.asarray(line.get_xydata()).tolist()
    return xy


def legend(ax: Axes) -> list[str]:
    """Return the texts of the legend."""
    drawn = ax.get_legend()
    assert drawn is not None
    return [text.get_text() for text in drawn.get_texts()]


@pytest.mark.parametrize("ticker", [0, 1])
@pytest.mark.parametrize("i", [0, 1, 2])
def test_market_candles_are_the_listed_days_of_the_window(
    market: dict[str, NDArray[Any]], i: int, ticker: int
) -> None:
    ax = plot.window(market, i, ticker=ticker)
    expected = []
    for half, first in (("history", -HISTORY), ("future", 1)):
        for at, row in enumerate(market[half][i, ticker, :, :4].tolist()):
            if market[f"{half}_mask"][i, ticker, at]:
                open_, _, _, close = row
                body = (min(open_, close), max(open_, close), close >= open_)
                expected.append((first + at, *body))
    assert candles(ax) == expected
    ends = sorted(
        y
        for line in ax.lines[1:3]
        for y in np.asarray(line.get_ydata()).tolist()
        if not np.isnan(y)
    )
    shadows = np.concatenate(
        [
            market[half][i, ticker, market[f"{half}_mask"][i, ticker]]
            for half in ("history", "future")
        ]
    )
    assert ends == sorted(shadows[:, :4].ravel().tolist())


def test_the_drawn_day_shows_its_open_alone(market: dict[str, NDArray[Any]]) -> None:
    shown = plot.window(market, 1, ticker=1)
    assert points(shown, "open of the drawn day") == [[0, market["open"][1, 1]]]
    unlisted = plot.window(market, 2, ticker=1)
    assert "open of the drawn day" not in legend(unlisted)
    for ax in (shown, unlisted):
        assert 0 not in [place for place, *_ in candles(ax)]
        assert ax.get_xlabel() == "days from the drawn day"
        assert ax.get_ylabel() == "price"
        assert ax.get_xlim()[0] < -HISTORY
        assert ax.get_xlim()[1] > FUTURE


def test_a_replay_batch_with_prices_becomes_candles_with_trades() -> None:
    batch = sampled([7])
    ax = plot.window(batch, 0)
    rows = prices(21)[2:10]
    assert [place for place, *_ in candles(ax)] == [-5, -4, -3, -2, -1, 0, 1, 2]
    bodies = np.array([(bottom, top) for _, bottom, top, _ in candles(ax)])
    np.testing.assert_array_equal(bodies, np.sort(rows[:, [0, 3]], axis=1))
    steps = np.arange(2, 10)
    for label, sign, price in (("buy", 1, 2), ("sell", -1, 1)):
        traded = steps % 3 - 1 == sign
        expected = np.stack([steps[traded] - 7, rows[traded, price]], axis=1)
        assert points(ax, label) == expected.tolist()
    assert "buy" not in legend(plot.window(batch, 0, action=None))


@pytest.mark.parametrize(
    ("index", "label", "after"), [(7, "terminated", 2), (18, "truncated", 2), (9, "terminated", 0)]
)
def test_an_end_is_marked_after_its_step_with_the_final_observation(
    index: int, label: str, after: int
) -> None:
    # The FINAL row of the first episode shifts later rows by one: row 11 is step 10.
    step = index if index < 10 else index - 1
    ax = plot.window(sampled([index]), 0, columns=["obs/pair[1]", "reward"])
    marks = {line.get_label(): line for line in ax.lines}
    assert np.asarray(marks[label].get_xdata()).tolist() == [after + 0.5, after + 0.5]
    assert points(ax, "final observation") == [[after + 1, -(step + after + 1)]]
    assert {"terminated", "truncated"} & set(legend(ax)) == {label}


def test_columns_become_lines_with_masked_places_blank() -> None:
    batch = sampled([2])
    ax = plot.window(batch, 0, columns=["reward", "obs/pair[0]"])
    nothing = [None] * (HISTORY - 3)
    for label, scale in (("reward", 0.5), ("obs/pair[0]", 1)):
        xy = np.array(points(ax, label))
        assert xy[:, 0].tolist() == list(range(1 - HISTORY, FUTURE + 1))
        drawn = [None if np.isnan(y) else y for y in xy[:, 1]]
        assert drawn == [*nothing, *(step * scale for step in range(6))]
    assert ax.get_xlabel() == "steps from the drawn transition"
    assert ax.get_ylabel() == "value"
    assert plot.window(batch, 0, columns=["reward"]).get_ylabel() == "reward"


def test_a_batch_without_windows_shows_its_transition() -> None:
    batch = sampled([4], history=None, future=0)
    assert [place for place, *_ in candles(plot.window(batch, 0))] == [0]
    only = {"reward": batch["reward"], "obs": {"pair": batch["obs"]["pair"]}}
    kept = {name: batch[name] for name in ("index", "terminated", "truncated", "next_obs")}
    assert points(plot.window(only | kept, 0), "reward") == [[0, 2.0]]


def test_it_draws_where_it_is_told_and_leaves_pyplot_alone(market: dict[str, NDArray[Any]]) -> None:
    figure = Figure()
    ax = figure.subplots()
    assert plot.window(market, 0, ax=ax) is ax
    png = BytesIO()
    figure.savefig(png, format="png")
    assert png.getvalue().startswith(b"\x89PNG")
    code = (
        "import sys, backcast.plot; sys.exit(any(n.startswith('matplotlib') for n in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"i": 1}, ["i", "1", "1"], id="i"),
        pytest.param({"i": -1}, ["i", "-1", "0"], id="negative i"),
        pytest.param({"i": 0, "ticker": 1}, ["ticker", "1", "obs/open"], id="ticker"),
        pytest.param({"i": 0, "columns": ["rewrd"]}, ["'rewrd'", "'reward'?"], id="typo"),
        pytest.param({"i": 0, "columns": ["obs/pair"]}, ["obs/pair", "(2)"], id="no element"),
        pytest.param({"i": 0, "columns": ["obs/pair[2]"]}, ["obs/pair[2]", "(2)"], id="element"),
        pytest.param({"i": 0, "columns": []}, ["0"], id="none"),
        pytest.param({"i": 0, "columns": ["reward"] * 7}, ["7", "1", "6"], id="many"),
        pytest.param({"i": 0, "action": "obs/grid"}, ["obs/grid", "[2, 2]"], id="action"),
        pytest.param({"i": 0, "action": "acton"}, ["'acton'", "'action'?"], id="action typo"),
    ],
)
def test_a_window_that_cannot_be_drawn_says_why(
    arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(bc.errors.ArgumentError) as error:
        plot.window(sampled([7]), **arguments)
    assert missing(error.value, words) == []


def test_market_windows_refuse_what_they_have_not(market: dict[str, NDArray[Any]]) -> None:
    wrongs: list[dict[str, Any]] = [{"i": 3}, {"i": 0, "ticker": 2}, {"i": 0, "columns": ["close"]}]
    for wrong in wrongs:
        with pytest.raises(bc.errors.ArgumentError):
            plot.window(market, **wrong)
    with pytest.raises(bc.errors.ArgumentError, match=r"\bobs\b"):
        plot.window({"obs": np.zeros(3)}, 0)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "backcast.plot._draw", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(bc.errors.MissingExtraError, match=r"'backcast\[plot\]'") as error:
        plot.window({}, 0)
    assert isinstance(error.value, ImportError)


def consuming(times: int = 2) -> bc.Sampler:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=200)
    with buf.writer() as writer:
        for step in range(41):
            writer.append(obs=step, terminated=False, truncated=False)
    return buf.sampler(seed=1, select=bc.Consume(max_times_sampled=times))


def heights(ax: Axes) -> list[float]:
    return [patch.get_height() for patch in ax.patches if isinstance(patch, Rectangle)]


def test_statistics_are_drawn_as_they_are() -> None:
    sampler = consuming()
    sampler.sample(30)
    sampler.sample(20)
    stats = sampler.stats()
    assert stats["times_sampled"] == [{"times": 1, "rows": 30}, {"times": 2, "rows": 10}]
    ages, priorities, times, effective = plot.stats(stats)
    assert heights(times) == [30, 10]
    assert [label.get_text() for label in times.get_xticklabels()] == ["1", "2"]
    assert heights(ages) == [entry["rows"] for entry in stats["ages"]]
    for ax in (priorities, effective):
        assert [text.get_text() for text in ax.texts] == ["not counted"]
    ring = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=200)
    with ring.writer() as writer:
        for step in range(41):
            writer.append(obs=step, terminated=False, truncated=False)
    prioritised = ring.sampler(seed=1, select=bc.Priority(alpha=1.0, eps=0.0))
    prioritised.sample(8)
    prioritised.update_priorities([0, 1, 2], [4.0, 4.0, 8.0])
    stats = prioritised.stats()
    assert stats["times_sampled"] is None
    axes = plot.stats(stats, axes=list(Figure().subplots(1, 4)))
    assert heights(axes[1]) == [entry["rows"] for entry in stats["priorities"]["histogram"]]
    assert heights(axes[3]) == [40, stats["priorities"]["effective_rows"]]
    figure = axes[0].figure
    assert isinstance(figure, Figure)
    figure.savefig(BytesIO())


def test_ages_of_readers_are_drawn_one_by_one_and_together() -> None:
    ring = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=500)
    with ring.writer() as writer:
        for step in range(401):
            writer.append(obs=step, terminated=False, truncated=False)
    empty = plot.stats(ring.stats())
    assert [text.get_text() for ax in empty for text in ax.texts] == ["not counted"] * 4
    samplers = [ring.sampler(seed=1), ring.sampler(seed=2)]
    for sampler in samplers:
        sampler.sample(64)
    sums: dict[int, int] = {}
    for sampler, reader in zip(samplers, ring.stats()["readers"], strict=True):
        own = [entry["rows"] for entry in sampler.stats()["ages"]]
        assert heights(plot.stats(reader)[0]) == own
        for entry in reader["ages"]:
            sums[entry["from"]] = sums.get(entry["from"], 0) + entry["rows"]
    axes = plot.stats(ring.stats())
    assert heights(axes[0]) == [sums[first] for first in sorted(sums)]
    assert sum(heights(axes[0])) == 2 * 64
    assert [text.get_text() for ax in axes[1:] for text in ax.texts] == ["not counted"] * 3


def test_statistics_of_something_else_are_refused() -> None:
    refused: list[Any] = [{"ages": []}, {"slot": 0}, [], None]
    for wrong in refused:
        with pytest.raises(bc.errors.ArgumentTypeError, match=r"`sampler.stats\(\)`"):
            plot.stats(wrong)
    stats = consuming().stats()
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\b1\b"):
        plot.stats(stats, axes=[Figure().subplots()])
