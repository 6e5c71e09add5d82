"""Walk a ridge regression forward, and say what its result shows and what it does not.

``python examples/walk_forward.py [FILE]`` reads a CSV file with the columns Ticker, Date, Open,
High, Low, Close, Volume and, for prices that are not adjusted, Adj Close. It may be compressed by
gzip. Without a file, prices are a seeded random walk.

Each fold trains on four years and tests on the year after. The policy holds the tickers whose next
return the regression predicts to be positive.
"""

import csv
import gzip
import sys
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from backcast.evaluate import Fold, evaluate, walk_forward

LAGS = (1, 2, 3, 5, 10, 21)
FEE = 0.0005


def read(path: Path) -> bc.Panel:
    """Read prices, adjusted by the ratio of the adjusted close where there is one."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        rows = list(csv.DictReader(file))
    frame: dict[str, Any] = {
        "date": [row["Date"] for row in rows],
        "tic": [row["Ticker"] for row in rows],
    }
    close = np.array([float(row["Close"]) for row in rows])
    ratio = np.array([float(row.get("Adj Close") or row["Close"]) for row in rows]) / close
    for name in ("Open", "High", "Low", "Close"):
        frame[name.lower()] = np.array([float(row[name]) for row in rows]) * ratio
    frame["volume"] = np.array([float(row["Volume"]) for row in rows])
    return bc.Panel.from_frame(frame)


def made() -> bc.Panel:
    """Make ten years of four random walks."""
    draw = np.random.default_rng(0)
    days = np.arange("2010-01-01", "2020-01-01", dtype="M8[D]")
    days = days[np.is_busday(days)]
    names = ["AAA", "BBB", "CCC", "DDD"]
    close = 50 * np.exp(np.cumsum(draw.normal(0.0002, 0.015, (len(days), len(names))), axis=0))
    frame = {
        "date": np.repeat(days, len(names)),
        "tic": np.tile(names, len(days)),
        "close": close.ravel(),
    }
    return bc.Panel.from_frame(frame, derive=["open", "high", "low", "volume"])


def features(closes: np.ndarray, day: int) -> np.ndarray:
    """Return the last returns over some lags, ``[T, lags]``, known before the open of a day."""
    return np.stack([np.log(closes[:, day - 1] / closes[:, day - 1 - lag]) for lag in LAGS], axis=1)


class Ridge:
    """Predicts the return from the close of a day to that of the next, both after the decision."""

    def __init__(self, closes: np.ndarray, days: range) -> None:
        rows, targets = [], []
        for day in days:
            seen = features(closes, day)
            known = np.isfinite(seen).all(axis=1) & np.isfinite(closes[:, day : day + 2]).all(
                axis=1
            )
            rows.append(seen[known])
            targets.append(np.log(closes[known, day + 1] / closes[known, day]))
        x, y = np.concatenate(rows), np.concatenate(targets)
        self.closes, self.scale = closes, x.std(axis=0)
        x = x / self.scale
        self.weights = np.linalg.solve(x.T @ x + 100 * np.eye(len(LAGS)), x.T @ y)

    def __call__(self, obs: dict[str, np.ndarray]) -> np.ndarray:
        """Hold equal weights of what should rise; the closes read are those before the day."""
        acts = np.zeros((len(obs["day"]), len(self.closes)), np.float32)
        for row, day in enumerate(obs["day"][:, 0].tolist()):
            predicted = np.nan_to_num(features(self.closes, day) / self.scale) @ self.weights
            chosen = predicted > 0
            acts[row, chosen] = 1 / max(chosen.sum(), 1)
        return acts


def main() -> None:
    """Train and test the folds, and print the table."""
    panel = read(Path(sys.argv[1])) if len(sys.argv) > 1 else made()
    closes = np.where(panel.mask, panel.values[:, :, 3], np.nan)
    closes = closes.astype(np.float64)
    folds: list[Fold] = walk_forward(panel, train=1_000, test=250, purge=1)
    policies = []
    for fold in folds:
        (start, end), *_ = fold.train
        policies.append(Ridge(closes, range(start + max(LAGS) + 1, end - 1)))
    result = evaluate(
        policies, panel, folds, actions="weights", buy_cost_pct=FEE, sell_cost_pct=FEE
    )
    print(result)


if __name__ == "__main__":
    main()
