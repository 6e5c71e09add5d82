"""Draw a learner's inputs: a market window, and the windows of a sampled transition.

``python examples/plot_window.py [FILE]`` writes FILE, by default ``out/plot_window.png``. Prices
are a seeded random walk. Needs ``pip install 'backcast[plot]'``.
"""

import sys
import tempfile
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import backcast as bc
import numpy as np
from backcast import plot
from matplotlib.figure import Figure

DAYS, HISTORY, FUTURE = 250, 20, 8
PRICES = ("open", "high", "low", "close")


def market(path: Path, rng: np.random.Generator) -> bc.Panel:
    """Make a panel of a ticker that misses every eleventh day, and a macro ticker with all."""
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.012, DAYS)))
    start = np.concatenate([[100.0], close[:-1]]) * (1 + rng.normal(0, 0.003, DAYS))
    high = np.maximum(start, close) * (1 + abs(rng.normal(0, 0.004, DAYS)))
    low = np.minimum(start, close) * (1 - abs(rng.normal(0, 0.004, DAYS)))
    rows = ["date,tic,open,high,low,close,volume"]
    for day, numbers in enumerate(np.stack([start, high, low, close], axis=1).tolist()):
        when = date(2024, 1, 1) + timedelta(days=day)
        rows.append(f"{when},IDX,1,1,1,1,1")
        if day % 11:
            rows.append(f"{when},WALK,{','.join(map(repr, numbers))},1000")
    path.write_text("\n".join(rows) + "\n")
    return bc.Panel.from_csv(path, macro=["IDX"])


def replay(prices: np.ndarray, rng: np.random.Generator) -> bc.ReplayBuffer:
    """Fill a ring with episodes of prices, cash and random trades, one after the other."""
    columns = {"obs": {**dict.fromkeys(PRICES, "f4"), "cash": "f4"}, "action": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=1000)
    cash = 10_000.0
    with buf.writer() as writer:
        for day, following in pairwise(prices):
            action = rng.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15])
            obs = {**dict(zip(PRICES, day, strict=True)), "cash": cash}
            cash -= action * day[3]
            end = writer.rows_written % 60 == 59
            next_obs = {**dict(zip(PRICES, following, strict=True)), "cash": cash}
            writer.append(obs=obs, action=action, next_obs=next_obs, terminated=False,
                          truncated=end)  # fmt: skip
            if end:
                cash = 10_000.0
    return buf


def main(target: Path) -> None:
    """Draw three windows side by side."""
    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        panel = market(Path(folder) / "prices.csv", rng)
    windows = panel.windows([65, 150], panel.tokens(["WALK"]), HISTORY, FUTURE)
    walk = panel.tickers.index("WALK")
    traded = panel.values[walk, panel.mask[walk], :4]
    sampler = replay(traded, rng).sampler(seed=3, history=HISTORY, future=FUTURE)
    batch = sampler.gather([53])

    figure = Figure(figsize=(15, 4.6), dpi=110, layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    plot.window(windows, 0, ax=left)
    plot.window(batch, 0, ax=middle)
    plot.window(batch, 0, columns=["obs/cash"], ax=right)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    print(f"wrote {target}: {HISTORY} places of history, {FUTURE} of future, three times")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out") / "plot_window.png")
