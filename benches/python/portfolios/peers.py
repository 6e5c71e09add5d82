"""Measure portfolio environments beside those of FinRL, gym-trading-env and gym-anytrading.

Needs an environment of its own, since FinRL's requirements hold back others:

    python -m venv .venv-peers
    .venv-peers/bin/pip install numpy gymnasium pandas matplotlib
    .venv-peers/bin/pip install --no-deps finrl==0.3.7 gym-trading-env==0.3.5 gym-anytrading==2.0.0
    PYTHONPATH=pybind/python:benches/python .venv-peers/bin/python -m portfolios.peers

All step over one market, in one process, in turns. FinRL has 30 tickers with 8 indicators. The
others trade one ticker, of which they show windows of 20 days: gym-trading-env with 8 indicators,
gym-anytrading the close and its change, Backcast these and open, high, low and volume. Many
environments of a peer are stepped by Gymnasium's SyncVectorEnv, as its users do.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import results
from backcast.envs import Discrete, PortfolioEnv, PortfolioVectorEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from replay.rounds import read_options, take_turns

from .contenders import CASH, FEE, HMAX, SETTINGS
from .market import DAYS, INDICATORS, TICKERS, Columns, names, panel, prices, write

N, WINDOW = 16, 20

Metric = tuple[str, int, dict[str, Callable[[], object]]]


class Stepped:
    """Steps an environment with drawn actions, and resets a single one at its ends."""

    def __init__(self, env: Any, draw: Callable[[np.random.Generator], Any]) -> None:  # noqa: ANN401
        self.env = env
        self.single = isinstance(env, gym.Env)
        generator = np.random.default_rng(3)
        self.actions = itertools.cycle([draw(generator) for _ in range(64)])
        self.env.reset(seed=1)
        # A step shows that the environment takes the actions.
        self.step()

    def step(self) -> object:
        """Take one step."""
        obs, _, terminated, truncated, _ = self.env.step(next(self.actions))
        if self.single and (terminated or truncated):
            self.env.reset()
        return obs


def finrl_class() -> Any:  # noqa: ANN401
    """Load FinRL's environment from its file: the package imports brokers' and other libraries."""
    found = importlib.util.find_spec("finrl")
    assert found is not None, "finrl is not installed"
    assert found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0], "meta/env_stock_trading/env_stocktrading.py")
    # The file imports DummyVecEnv, and uses it only in a method that is not called here.
    for name in (
        "stable_baselines3",
        "stable_baselines3.common",
        "stable_baselines3.common.vec_env",
    ):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["stable_baselines3.common.vec_env"].DummyVecEnv = object  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("finrl_env_stocktrading", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.StockTradingEnv


def finrl(columns: Columns) -> Callable[[], Any]:
    """Return a maker of FinRL's environment over the panel."""
    import pandas as pd

    made = {name: values[:, :TICKERS].ravel() for name, values in columns.items()}
    frame = pd.DataFrame(made)
    frame["tic"] = np.tile(names()[:TICKERS], DAYS)
    dates = np.datetime64("2015-01-02") + np.arange(DAYS)
    frame["date"] = np.repeat(dates.astype(str), TICKERS)
    frame.index = np.repeat(np.arange(DAYS), TICKERS)
    kind = finrl_class()

    def make() -> Any:  # noqa: ANN401
        return kind(
            df=frame,
            stock_dim=TICKERS,
            hmax=HMAX,
            initial_amount=int(CASH),
            num_stock_shares=[0] * TICKERS,
            buy_cost_pct=[FEE] * TICKERS,
            sell_cost_pct=[FEE] * TICKERS,
            reward_scaling=1e-4,
            state_space=1 + 2 * TICKERS + len(INDICATORS) * TICKERS,
            action_space=TICKERS,
            tech_indicator_list=list(INDICATORS),
            print_verbosity=10**9,
        )

    return make


def trading_env(columns: Columns) -> Callable[[], Any]:
    """Return a maker of gym-trading-env's environment over the first ticker."""
    # Its package turns all warnings into errors when it is imported.
    import warnings

    import pandas as pd

    kept = list(warnings.filters)
    from gym_trading_env.environments import TradingEnv

    warnings.filters = kept
    one = {name: values[:, 0] for name, values in columns.items()}
    frame = pd.DataFrame({name: one[name] for name in ("open", "high", "low", "close", "volume")})
    for name in INDICATORS:
        frame[f"feature_{name}"] = one[name]
    frame.index = pd.date_range("2015-01-02", periods=DAYS)
    return lambda: TradingEnv(
        frame, positions=[0, 1], windows=WINDOW, trading_fees=FEE, initial_position=0, verbose=0
    )


def any_trading(columns: Columns) -> Callable[[], Any]:
    """Return a maker of gym-anytrading's environment over the first ticker."""
    import pandas as pd
    from gym_anytrading.envs import StocksEnv

    frame = pd.DataFrame({"Close": columns["close"][:, 0]})
    return lambda: StocksEnv(frame, window_size=WINDOW, frame_bound=(WINDOW, DAYS))


def one_ticker(columns: Columns) -> bc.Panel:
    """Load a panel of the first ticker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "market.csv")
        write(path, columns)
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], *(line for line in lines if ",T000," in line)]))
        return bc.Panel.from_csv(path)


def many(make: Callable[[], Any], n: int) -> SyncVectorEnv:
    """Step `n` environments of a peer in Gymnasium's vector."""
    return SyncVectorEnv([make] * n, autoreset_mode=AutoresetMode.SAME_STEP)


def workloads(n: int) -> Iterator[Metric]:
    """Yield each metric, its environments per call, and a call for each contender."""
    columns = prices()
    market = panel(columns)

    def each(generator: np.random.Generator) -> Any:  # noqa: ANN401
        return generator.uniform(-1, 1, TICKERS).astype(np.float32)

    def all_of(generator: np.random.Generator) -> Any:  # noqa: ANN401
        return generator.uniform(-1, 1, (n, TICKERS)).astype(np.float32)

    peer = finrl(columns)
    yield (
        "30 tickers, 1 environment",
        1,
        {
            "backcast": Stepped(PortfolioEnv(market, **SETTINGS), each).step,
            "FinRL": Stepped(peer(), each).step,
        },
    )
    vector: dict[str, Any] = {"autoreset_mode": "same_step"}
    yield (
        f"30 tickers, {n} environments",
        n,
        {
            "backcast": Stepped(PortfolioVectorEnv(market, n, **vector, **SETTINGS), all_of).step,
            "FinRL": Stepped(many(peer, n), all_of).step,
        },
    )
    prices_alone = {name: columns[name] for name in ("open", "high", "low", "close", "volume")}
    for name, seen, make in (
        ("gym-trading-env", columns, trading_env(columns)),
        ("gym-anytrading", prices_alone, any_trading(columns)),
    ):
        yield from windows(name, one_ticker(seen), make, n)


def windows(name: str, market: bc.Panel, make: Callable[[], Any], n: int) -> Iterator[Metric]:
    """Yield metrics of one ticker with windows, beside one peer."""
    ours: dict[str, Any] = SETTINGS | {"actions": Discrete((-1, 1)), "history": WINDOW}
    what = f"1 ticker, windows of {WINDOW} x {5 + len(market.indicators)}"

    def act(generator: np.random.Generator) -> int:
        return int(generator.integers(0, 2))

    yield (
        f"{what}, 1 environment",
        1,
        {
            "backcast": Stepped(PortfolioEnv(market, **ours), lambda g: g.integers(0, 2, 1)).step,
            name: Stepped(make(), act).step,
        },
    )
    for size in (n, 64):

        def each(generator: np.random.Generator, size: int = size) -> Any:  # noqa: ANN401
            return generator.integers(0, 2, (size, 1))

        def one(generator: np.random.Generator, size: int = size) -> Any:  # noqa: ANN401
            return generator.integers(0, 2, size)

        vector: dict[str, Any] = {"autoreset_mode": "same_step", **ours}
        fresh = PortfolioVectorEnv(market, size, **vector)
        reused = PortfolioVectorEnv(market, size, copy=False, **vector)
        yield (
            f"{what}, {size} environments",
            size,
            {
                "backcast": Stepped(fresh, each).step,
                "backcast, copy=False": Stepped(reused, each).step,
                name: Stepped(many(make, size), one).step,
            },
        )


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        prog="python -m portfolios.peers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--envs", type=int, default=N, help="environments of a vector")
    options = read_options(parser, seconds=0.5)
    for metric, units, calls in workloads(options.envs):
        rates = take_turns(calls, units, options.rounds, options.seconds)
        figures = [(rate.contender, rate.rates) for rate in rates]
        results.table(results.lines("portfolios", metric, "env-steps/s", figures, thread="main"))


if __name__ == "__main__":
    main()
