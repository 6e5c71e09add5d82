"""Result of a run: the numbers of demo.json, and whether all checks passed."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.aftermath import summary
from backcast.demo.evaluate import COST, equity_curves, heldout_errors, predicted_returns
from backcast.demo.learner import BATCH
from backcast.demo.lesson import FUTURE, HISTORY, TARGETS, examples, five_day_return

if TYPE_CHECKING:
    from collections.abc import Callable

    from backcast.demo.chart import Candles
    from backcast.demo.options import Options
    from backcast.demo.run import PanelSession


def counted(options: Options, session: PanelSession) -> dict[str, Any]:
    """Collect the counts of the processes."""
    tally, deaths = session.learner.tally, session.deaths
    torn_in_lanes = sum(death.torn_rows for death in deaths)
    return {
        "backcast_version": bc.__version__,
        "python_version": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "panel": "bokeh_sampledata + arch" if options.panel is None else options.panel.name,
        "tickers": list(session.split.tickers),
        "first_test_date": session.split.first_test_date,
        "seed": options.seed,
        "actors": options.actors,
        "envs_per_actor": options.envs,
        "seconds": round(session.seconds, 3),
        "capacity_rows": int(session.ring.capacity),
        "rows_written": session.rows_written,
        "rows_written_per_s": round(session.rows_written / session.seconds, 1),
        "rows_checked": tally.rows_checked,
        "torn_rows": tally.torn + torn_in_lanes,
        "lapped_reads": tally.lapped,
        "fill": round(session.frames[-1].fill, 4) if session.frames else 0.0,
        "batch_rows": BATCH,
        "learner_batches": tally.batches,
        "learner_batches_per_s": round(tally.batches / session.seconds, 2),
        "sample_cpu_ms_median": tally.sample_cpu_ms_median,
        "sampled_age_rows_median": tally.age,
        **summary(deaths),
    }


def problems(counts: dict[str, Any], session: PanelSession) -> list[str]:
    """List the checks that failed."""
    found = [problem for death in session.deaths for problem in death.problems]
    if counts["torn_rows"]:
        found.append(f"{counts['torn_rows']} torn rows: columns that do not match their checksum")
    lanes = sum(len(death.lanes) for death in session.deaths)
    if counts["lost_transitions"] > lanes:
        found.append(f"{counts['lost_transitions']} transitions lost in {lanes} lanes")
    if counts["adopted_lanes"] < lanes:
        found.append(f"{counts['adopted_lanes']} of {lanes} lanes adopted")
    if not counts["learner_batches"]:
        found.append("the learner got no batch")
    return found


def measured(
    options: Options, session: PanelSession, check: Callable[[], None]
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Measure the trained network on held-out days: numbers, and the equity of three policies."""
    network = session.learner.network
    panel, tickers = session.panel, session.split.tickers
    tokens = np.asarray(panel.tokens(list(tickers)), np.int32)
    first = session.split.first_test_day
    heldout = heldout_errors(panel, tokens, first, network)
    check()
    scores = predicted_returns(panel, tokens, first, network)
    equity = equity_curves(panel, tickers, first, scores, options.seed, check)
    hard, easy = TARGETS
    numbers = {
        "heldout_examples": heldout.examples,
        "heldout_mse_model": heldout.model[hard],
        "heldout_mse_trivial": heldout.trivial[hard],
        "heldout_log_range_mse_model": heldout.model[easy],
        "heldout_log_range_mse_trivial": heldout.trivial[easy],
        "equity_cost_fraction": COST,
        "equity_return": {n: round(v[-1] / v[0] - 1.0, 6) for n, v in equity.items()},
    }
    return numbers, equity


def sampled_candles(session: PanelSession, seed: int) -> Candles | None:
    """Draw rows from the ring until one has a whole window, and turn that into candles."""
    from backcast.demo.chart import Candles

    if len(session.ring) == 0:
        return None
    batch = session.ring.sampler(seed=seed).sample(64)
    days = np.asarray(batch["day"], np.int64)
    windows = session.panel.windows(days, batch["tics"], HISTORY, FUTURE)
    made = examples(windows)
    whole = np.argwhere(made.complete)
    if not len(whole):
        return None
    row, place = (int(i) for i in whole[0])
    network = session.learner.network
    gain = five_day_return(network.predict(made.features[row, place][None])[0, 0])
    today = float(windows["open"][row, place])
    here = np.full((1, 4), today)
    past = windows["history"][row, place, :, :4]
    coming = windows["future"][row, place, :, :4]
    day = int(days[row])
    token = int(batch["tics"][row, place])
    return Candles(
        ticker=next(t for t in session.split.tickers if session.panel.tokens([t])[0] == token),
        dates=list(session.panel.dates)[day - HISTORY : day + FUTURE + 1],
        prices=np.concatenate([past, here, coming]).astype(np.float64),
        history=HISTORY,
        predicted_close=today * float(np.exp(gain)),
    )
