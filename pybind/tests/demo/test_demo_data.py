"""The demo's market data: the recipe, and the columns that the demo derives from a panel."""

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest
from backcast.demo import data
from backcast.demo.indicators import NAMES, exponential_mean, indicators, trailing


@pytest.fixture(scope="session")
def real_panel(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    out = tmp_path_factory.mktemp("panel") / "real.csv"
    try:
        rows = data.write_real_panel(out)
    except data.DataMissingError as missing:
        pytest.skip(str(missing))
    return out, rows


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="ascii", newline="") as text:
        return list(csv.DictReader(text))


def test_the_real_panel_has_every_row_of_eight_tickers(real_panel: tuple[Path, int]) -> None:
    out, written = real_panel
    rows = read(out)
    assert written == len(rows) == 21_964
    assert len({row["date"] for row in rows}) == 3270
    per_ticker = {t: sum(row["tic"] == t for row in rows) for t in {row["tic"] for row in rows}}
    whole = ("AAPL", "IBM", "MSFT", "SP500", "NASDAQ", "RVOL")
    assert per_ticker == dict.fromkeys(whole, 3270) | {"GOOG": 2148, "FB": 196}
    assert list(rows[0]) == ["date", "tic", *data.PRICES, *NAMES]


def test_no_cell_is_missing_and_high_and_low_enclose_the_day(real_panel: tuple[Path, int]) -> None:
    rows = read(real_panel[0])
    cells = np.array([[float(row[name]) for name in (*data.PRICES, *NAMES)] for row in rows])
    assert np.isfinite(cells).all()
    open_, high, low, close = cells[:, :4].T
    assert (high >= np.maximum(open_, close) * (1 - 1e-6)).all()
    assert (low <= np.minimum(open_, close) * (1 + 1e-6)).all()
    assert (low > 0).all()


def test_the_largest_daily_move_of_a_share_is_the_known_one(real_panel: tuple[Path, int]) -> None:
    rows = [row for row in read(real_panel[0]) if row["tic"] == "AAPL"]
    close = np.array([float(row["close"]) for row in rows])
    moves = close[1:] / close[:-1] - 1.0
    assert moves.min() == pytest.approx(-0.518692, abs=1e-5)
    assert rows[int(moves.argmin()) + 1]["date"] == "2000-09-29"


def test_writing_the_panel_twice_gives_the_same_bytes(
    real_panel: tuple[Path, int], tmp_path: Path
) -> None:
    again = tmp_path / "again.csv"
    data.write_real_panel(again)
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (real_panel[0], again)]
    assert digests[0] == digests[1]


def test_a_missing_data_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(data.DataMissingError, match="pip install --no-deps bokeh_sampledata"):
        data.histories()


def test_indicators_of_a_day_do_not_depend_on_later_days() -> None:
    draw = np.random.default_rng(0)
    close = 50.0 * np.exp(np.cumsum(draw.normal(0, 0.02, 200)))
    high, low = close * 1.01, close * 0.99
    whole = indicators(high, low, close)
    cut = indicators(high[:120], low[:120], close[:120])
    assert set(whole) == set(NAMES)
    for name in NAMES:
        np.testing.assert_array_equal(whole[name][:120], cut[name])


def test_moving_averages_match_their_definitions() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(exponential_mean(values, 3), [1.0, 1.5, 2.75, 5.375])
    np.testing.assert_array_equal(trailing(values, 2)[1:], [[1, 2], [2, 4], [4, 8]])
    assert np.isnan(trailing(values, 2)[0, 0])
