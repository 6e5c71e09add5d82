"""Step portfolios between two SIGSTOPs, so that ``step_cost.rs`` can count the instructions.

``stepper.py DIR PORTFOLIOS NAME_CHARS``
"""

import gc
import os
import signal
import sys
from pathlib import Path

import backcast.finrl as ff
import numpy as np

TICKERS, INDICATORS = 2, 4
WARM_UP = 20


def market(path: Path, name_chars: int) -> Path:
    """Write a market of flat prices, whose tickers and indicators differ in the last character."""
    tickers = ["T" * name_chars + str(at) for at in range(TICKERS)]
    shown = ["i" * name_chars + str(at) for at in range(INDICATORS)]
    lines = [",".join(["date,tic,open,high,low,close,volume", *shown])]
    for day in range(1, 31):
        numbers = ",".join(["9,9,9,9,100", *[str(day)] * INDICATORS])
        lines += [f"2020-01-{day:02},{ticker},{numbers}" for ticker in tickers]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Wait until the parent counts, then step between two SIGSTOPs."""
    place, portfolios, name_chars = sys.argv[1:]
    sys.stdin.readline()
    path = market(Path(place) / "market.csv", int(name_chars))
    env = ff.VecFastFinRL(path, int(portfolios), return_format="vec")
    env.reset(seed=1, options={"start_day": 1})
    actions = np.full((int(portfolios), TICKERS), 0.5)
    # One-time work happens before the count.
    for _ in range(WARM_UP):
        env.step(actions)
    gc.disable()
    os.kill(os.getpid(), signal.SIGSTOP)
    env.step(actions)
    os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    main()
