"""Panels loaded from a CSV, and their windows compared with plain indexing."""

from __future__ import annotations

import pickle
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from facts import missing
from numpy.typing import NDArray

TICKERS = ["AAA", "BBB", "CCC", "IDX"]
PRICES = ["open", "high", "low", "close", "volume"]
INDICATORS = ["rsi", "ema"]
DAYS = 40


def values() -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Make values `[T, D, C]` and the mask of rows that exist: BBB begins late, CCC has holes."""
    draw = np.random.default_rng(3)
    numbers = draw.uniform(10, 20, (len(TICKERS), DAYS, len(PRICES) + len(INDICATORS)))
    numbers[..., 1] += 30
    numbers[..., 2] -= 10
    there = np.ones((len(TICKERS), DAYS), bool)
    there[1, :12] = False
    there[2] = draw.random(DAYS) < 0.7
    numbers[~there] = 0.0
    return numbers, there


def dates() -> list[str]:
    """List the days."""
    first = date(2024, 1, 1)
    return [str(first + timedelta(days=day)) for day in range(DAYS)]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """Write the values as a long CSV with shuffled rows."""
    numbers, there = values()
    lines = [
        ",".join([day, ticker, *map(repr, numbers[t, d].tolist())])
        for t, ticker in enumerate(TICKERS)
        for d, day in enumerate(dates())
        if there[t, d]
    ]
    np.random.default_rng(4).shuffle(lines)
    path = tmp_path / "prices.csv"
    path.write_text("\n".join([",".join(["date", "tic", *PRICES, *INDICATORS]), *lines]) + "\n")
    return path


def test_a_panel_holds_what_the_csv_says(csv: Path) -> None:
    numbers, there = values()
    with bc.Panel.from_csv(csv, macro=["IDX"]) as panel:
        assert panel.tickers == TICKERS
        assert panel.macro == ["IDX"]
        assert panel.dates == dates()
        assert panel.columns == PRICES + INDICATORS
        assert panel.indicators == INDICATORS
        assert (panel.n_days, panel.name, panel.path) == (DAYS, None, None)
        np.testing.assert_array_equal(panel.values, numbers)
        np.testing.assert_array_equal(panel.mask, there)
        panel.values[0, 0, 0] = -1
        assert panel.values[0, 0, 0] == numbers[0, 0, 0], "a copy"
        tokens = panel.tokens(["CCC", "<CASH>", "AAA"])
        assert tokens.dtype == np.int32
        assert tokens.tolist() == [3, 0, 1]
        assert "4 tickers (1 macro), 40 days 2024-01-01 to 2024-02-09" in repr(panel)


def test_windows_of_no_days_or_no_tickers_are_empty(csv: Path) -> None:
    with bc.Panel.from_csv(csv, macro=["IDX"]) as panel:
        columns = panel.windows([5], [1], 1, 1)["history"].shape[-1]
        cases: list[tuple[Any, Any, tuple[int, int]]] = [
            ([], [1], (0, 1)),
            (np.zeros(0, "i8"), np.zeros((0, 3), "i4"), (0, 3)),
            ([5, 6], np.zeros((2, 0), "i4"), (2, 0)),
        ]
        for days, tokens, shape in cases:
            found = panel.windows(days, tokens, 2, 1)
            assert found["history"].shape == (*shape, 2, columns)
            assert found["future_mask"].shape == (*shape, 1)


@pytest.mark.parametrize(("history", "future"), [(0, 0), (1, 0), (0, 1), (5, 3), (20, 5), (60, 60)])
@pytest.mark.parametrize("shape", ["per sample", "shared"])
def test_windows_are_what_plain_indexing_says(
    csv: Path, history: int, future: int, shape: str
) -> None:
    numbers, there = values()
    draw = np.random.default_rng(5)
    days = np.concatenate([[0, DAYS - 1], draw.integers(0, DAYS, 60)])
    tokens = draw.integers(0, len(TICKERS) + 1, (days.size, 3))
    if shape == "shared":
        tokens = tokens[:1].repeat(days.size, axis=0)
    with bc.Panel.from_csv(csv, macro=["IDX"]) as panel:
        given = tokens[0].astype("u2") if shape == "shared" else tokens.astype("i4")
        found = panel.windows(days, given, history, future)
    ranges = {"history": range(-history, 0), "future": range(1, future + 1)}
    for name, offsets in ranges.items():
        expected = np.zeros((days.size, 3, len(offsets), numbers.shape[2]), np.float32)
        mask = np.zeros((days.size, 3, len(offsets)), bool)
        for b, day in enumerate(days):
            for t, token in enumerate(tokens[b]):
                for place, offset in enumerate(offsets):
                    if token and 0 <= day + offset < DAYS and there[token - 1, day + offset]:
                        expected[b, t, place] = numbers[token - 1, day + offset]
                        mask[b, t, place] = True
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], expected)
        np.testing.assert_array_equal(found[f"{name}_mask"], mask)
    here = (tokens > 0) & there[tokens - 1, days[:, None]]
    opens = np.where(tokens > 0, numbers[tokens - 1, days[:, None], 0], 0).astype(np.float32)
    np.testing.assert_array_equal(found["listed"], here)
    np.testing.assert_array_equal(found["open"], opens)
    assert set(found) == {"history", "history_mask", "open", "listed", "future", "future_mask"}
    found["history"] += 1
    found["future"] += 1
    np.testing.assert_array_equal(found["open"], opens)


def test_a_shared_panel_is_one_for_all_and_goes_with_its_last_holder(
    csv: Path, place: Path
) -> None:
    with bc.Panel.from_csv(csv, name="m", macro=["IDX"], dir=place) as made:
        with bc.Panel.attach("m", dir=place) as seen:
            np.testing.assert_array_equal(seen.values, made.values)
            assert seen.macro == ["IDX"]
        again = pickle.loads(pickle.dumps(made))
        assert again.dates == made.dates
        again.close()
        with pytest.raises(bc.ExistsError, match="m"):
            bc.Panel.from_csv(csv, name="m", macro=["IDX"], dir=place)
        bc.Panel.from_csv(csv, name="m", macro=["IDX"], exist="attach", dir=place).close()
        assert [entry["kind"] for entry in bc.list_objects(dir=place)] == ["panel"]
    assert bc.list_objects(dir=place) == []


def test_a_persistent_panel_stays_until_it_is_unlinked(csv: Path, place: Path) -> None:
    bc.Panel.from_csv(csv, name="m", macro=["IDX"], persistent=True, dir=place).close()
    with bc.Panel.attach("m", dir=place) as panel:
        panel.unlink()
        assert panel.n_days == DAYS
        assert panel.longest_window == 4 * DAYS + 4_096


def windows(days: object, tokens: object, history: object = 1, future: object = 1) -> Any:  # noqa: ANN401
    """Return a call that asks a panel for windows."""
    return lambda panel: panel.windows(days, tokens, history, future)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (windows([40], [[1]]), ["days[0]", "40", "39"]),
        (windows([-1], [[1]]), ["-1"]),
        (windows([1], [[5]]), ["tokens[0]", "5", "4"]),
        (windows([1, 2], [[1]]), ["(1, 1)", "(2, T)"]),
        (windows([[1]], [[1]]), ["days", "(1, 1)", "(B,)"]),
        (windows([1.5], [[1]]), ["days", "float64"]),
        (windows([1], [[1]], -1), ["history", "-1"]),
        (windows([1], [[1]], 0, -2), ["future", "-2"]),
        (lambda panel: panel.tokens(["AAB"]), ["AAB", "4"]),
    ],
)
def test_questions_that_a_panel_refuses(csv: Path, use: Any, words: list[str]) -> None:  # noqa: ANN401
    with bc.Panel.from_csv(csv) as panel:
        with pytest.raises(bc.errors.PanelError) as error:
            use(panel)
        assert missing(error.value, words) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("date,tic,open\n2024-01-01,A,1\n", ["high", "volume"]),
        ("date,tic,open,high,low,close,volume\n2024-13-01,A,1,1,1,1,1\n", ["2", "2024-13-01"]),
        ("date,tic,open,high,low,close,volume\n2024-01-01,A,1,x,1,1,1\n", ["2", "high", "x"]),
    ],
)
def test_a_csv_that_is_no_panel(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(bc.errors.PanelError) as error:
        bc.Panel.from_csv(path)
    assert missing(error.value, words) == []


def test_a_csv_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(bc.errors.PanelError, match=r"nowhere\.csv"):
        bc.Panel.from_csv(tmp_path / "nowhere.csv")
    with pytest.raises(TypeError, match="str"):
        bc.Panel.from_csv(tmp_path / "nowhere.csv", macro="IDX")


def test_days_may_have_the_axis_that_environments_give_them(csv: Path) -> None:
    with bc.Panel.from_csv(csv, macro=["IDX"]) as panel:
        plain = panel.windows([4, 6], [1, 2], 2, 1)
        found = panel.windows(np.array([[4], [6]], np.int32), [1, 2], 2, 1)
        for key, values in plain.items():
            np.testing.assert_array_equal(found[key], values)
        with pytest.raises(bc.errors.PanelError, match=r"\bdays\b.*\(2, 2\)"):
            panel.windows(np.zeros((2, 2), int), [1], 1, 0)


def test_windows_that_no_memory_holds_are_a_panel_error(csv: Path) -> None:
    with bc.Panel.from_csv(csv, macro=["IDX"]) as panel:
        days = np.zeros(1 << 22, np.int64)
        with pytest.raises(bc.errors.PanelError, match=r"\b4194304\b"):
            panel.windows(days, np.ones(1 << 16, np.int32), 4000, 100)
