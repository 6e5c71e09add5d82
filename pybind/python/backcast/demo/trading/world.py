"""The trading world of the demo: its ring, its processes, its result."""

from __future__ import annotations

import os
import platform
import secrets
from typing import TYPE_CHECKING, Any

import backcast as bc
from backcast.demo.learner import BATCH
from backcast.demo.run import Session
from backcast.demo.trading.actor import TraderSettings, trade
from backcast.demo.trading.evaluate import EPISODES, Exam, examine, strongest_features
from backcast.demo.trading.learner import TradingLearner
from backcast.demo.trading.lesson import FEATURES, MARKET, features
from backcast.envs import TradingEnv

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from backcast.demo.options import Options


# Rows on which the learned prediction is described.
_ROWS = 2_048


class TradingSession(Session):
    """Ring of one run in simulated markets."""

    def __init__(self, ring: bc.ReplayBuffer, names: list[str], options: Options) -> None:
        super().__init__(ring, TradingLearner(ring, options.seed))
        self.features = names
        self.actor = trade, TraderSettings(str(ring.name), options.envs)


def open_trading(options: Options, stack: ExitStack) -> TradingSession:
    """Make the ring under a name of this run; leaving `stack` removes it."""
    env = TradingEnv(**MARKET)
    extra = {"mid": "f8", "checksum": "u8"}
    schema = bc.Schema.from_spaces(env.observation_space, env.action_space, extra=extra)
    names = [entry.name for entry in env.features[:FEATURES]]
    env.close()
    name = f"demo-{os.getpid()}-{secrets.token_hex(3)}"
    ring = bc.ReplayBuffer.create(name, schema, capacity=options.capacity, lanes=options.lanes)
    stack.callback(ring.close)
    stack.callback(ring.unlink)
    return TradingSession(ring, names, options)


def judged(
    options: Options, session: TradingSession, check: Callable[[], None]
) -> tuple[dict[str, Any], Exam]:
    """Collect the counts of the processes, and let the learned policy play test episodes."""
    network, tally = session.learner.network, session.learner.tally
    exam = examine(network, options.seed, check)
    seen = features(session.ring.sampler(seed=options.seed).sample(_ROWS)["obs"])
    result = {
        "world": "trading",
        "backcast_version": bc.__version__,
        "python_version": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "market": MARKET["preset"],
        "seed": options.seed,
        "actors": options.actors,
        "envs_per_actor": options.envs,
        "seconds": round(session.seconds, 3),
        "rows_written": session.rows_written,
        "rows_written_per_s": round(session.rows_written / session.seconds, 1),
        "rows_checked": tally.rows_checked,
        "torn_rows": tally.torn,
        "lapped_reads": tally.lapped,
        "batch_rows": BATCH,
        "learner_batches": tally.batches,
        "sample_cpu_ms_median": tally.sample_cpu_ms_median,
        "test_episodes": EPISODES,
        "test_return": {name: float(all_.mean()) for name, all_ in exam.returns.items()},
        "prediction_follows": dict(strongest_features(network, seen, session.features)),
        "margin_over_holding": exam.margin,
        "margin_standard_error": exam.margin_error,
    }
    return result, exam


def wrong(result: dict[str, Any]) -> list[str]:
    """List the checks that failed."""
    found = []
    if result["torn_rows"]:
        found.append(f"{result['torn_rows']} torn rows: columns that do not match their checksum")
    if not result["learner_batches"]:
        found.append("the learner got no batch")
    return found


def summary_lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Say what was learned, and by how much it beats holding."""
    returns = ", ".join(f"{name} {gain:+.2%}" for name, gain in result["test_return"].items())
    follows = ", ".join(f"{name} {by:+.2f}" for name, by in result["prediction_follows"].items())
    margin, error = result["margin_over_holding"], result["margin_standard_error"]
    verdict = "beats holding" if margin > 2 * error else "does not clearly beat holding"
    return [
        (
            "actors",
            f"{result['actors']} x {result['envs_per_actor']} markets, "
            f"{result['rows_written']} rows, {result['rows_written_per_s']:.0f} rows/s",
        ),
        (
            "learner",
            f"{result['learner_batches']} batches of {result['batch_rows']}; "
            f"{result['rows_checked']} rows checked, {result['torn_rows']} torn",
        ),
        ("learned", f"to predict the price's next move; correlation with {follows}"),
        ("test episodes", f"{result['test_episodes']} unseen ones, mean return: {returns}"),
        ("margin", f"{margin:+.2%} +- {error:.2%} over holding: the learner {verdict}"),
    ]
