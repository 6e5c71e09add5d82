"""PPO and SAC of Stable-Baselines3 on prices in the layout of FinRL's DOW-30 data.

The CSV has one row for each day and ticker: date, tic, open, high, low, close, volume. The prices
that this program writes are made up: they have no trend to find, so that a policy which looks
skilled here is not. Give a file of real ones with --csv.

    python examples/finrl_dow30_sb3.py --steps 2000
    python examples/finrl_dow30_sb3.py --steps 100000 --csv dow30.csv --test 2020-07-01

It needs `pip install 'backcast[sb3,indicators]'`.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from backcast import indicators
from backcast.envs import PortfolioEnv
from backcast.evaluate import evaluate, split
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

DOW_30 = [
    "AAPL", "AMGN", "AXP", "BA", "CAT", "CRM", "CSCO", "CVX", "DIS", "DOW", "GS", "HD", "HON",
    "IBM", "INTC", "JNJ", "JPM", "KO", "MCD", "MMM", "MRK", "MSFT", "NKE", "PG", "TRV", "UNH",
    "V", "VZ", "WBA", "WMT",
]  # fmt: skip
# FinRL's money and costs. Episodes end with the data.
SETTINGS: dict[str, Any] = {
    "initial_amount": 1_000_000, "hmax": 100, "buy_cost_pct": 0.001, "sell_cost_pct": 0.001,
    "failure_threshold": 0, "obs": "flat",
}  # fmt: skip


def train_and_test(path: Path, test_from: str, steps: int) -> None:
    """Train on the days before a date, and print what the policies earn from it on."""
    prices = indicators.add(bc.Panel.from_csv(path), [*indicators.FINRL, "turbulence"])
    train, test = split(prices, test_from)
    panel = indicators.Normalizer.fit(prices, train).apply(prices)

    def trained(algorithm: Any) -> Callable[[Any], Any]:  # noqa: ANN401
        env = make_vec_env(lambda: PortfolioEnv(panel, days=train, **SETTINGS), seed=0)
        # Means and deviations of observations change in training alone.
        env = VecNormalize(env)
        model = algorithm("MlpPolicy", env, seed=0, device="cpu").learn(steps)
        return lambda obs: model.predict(env.normalize_obs(obs), deterministic=True)[0]

    policies = {"PPO": trained(PPO), "SAC": trained(SAC)}
    print(evaluate(policies, panel, [test], **SETTINGS))


def write_made_up_prices(path: Path) -> None:
    """Write random walks of 30 tickers that move together on some days more than on others."""
    draw = np.random.default_rng(0)
    days = np.arange("2017-01-01", "2020-12-31", dtype="datetime64[D]")
    days = days[np.is_busday(days)]
    size = (len(days), len(DOW_30))
    returns = 0.01 * (draw.standard_t(5, (len(days), 1)) + draw.standard_t(5, size)) / 1.8
    close = draw.uniform(30, 300, len(DOW_30)) * np.exp((returns - returns.var() / 2).cumsum(0))
    opened = np.concatenate([close[:1], close[:-1]]) * np.exp(draw.normal(0, 0.003, size))
    high = np.maximum(opened, close) * np.exp(draw.exponential(0.004, size))
    low = np.minimum(opened, close) * np.exp(-draw.exponential(0.004, size))
    volume = draw.integers(1_000_000, 20_000_000, size)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["date", "tic", "open", "high", "low", "close", "volume"])
        for at, day in enumerate(days):
            for name, ticker in enumerate(DOW_30):
                numbers = (table[at, name] for table in (opened, high, low, close, volume))
                rows.writerow([day, ticker, *numbers])


def main() -> None:
    """Read the options and run."""
    options = argparse.ArgumentParser(description="PPO and SAC on the DOW 30")
    options.add_argument("--csv", type=Path, help="prices; made-up ones when left out")
    options.add_argument("--test", default="2020-01-01", help="first day of the test")
    options.add_argument("--steps", type=int, default=2_000, help="steps of training, of each")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.csv or Path(folder) / "dow30.csv"
        if given.csv is None:
            write_made_up_prices(path)
        train_and_test(path, given.test, given.steps)


if __name__ == "__main__":
    main()
