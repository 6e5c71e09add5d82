"""Calls of every part of Backcast that raise, for `golden_messages.txt`.

`docs/errors.md` has the mistakes of newcomers. Most of the calls here are not on that page.
"""

from __future__ import annotations

import re
import socket
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import backcast as bc
import numpy as np
from backcast import finrl, plot, sim
from backcast.envs import PortfolioEnv
from daemons import serving
from typos import Newcomer

TYPED: dict[str, list[str]] = {
    "Rings and columns": [
        "bc.ReplayBuffer.create(None, columns, capacity=80, persistent=True)",
        'bc.ReplayBuffer.create("pong", columns, capacity=80, lanes=2, reader_slots=9, '
        'exist="attach")',
        'bc.ReplayBuffer.create("a", columns, capacity=80, dir="prices.csv")',
        'bc.Schema({"obs": ("f4", (2, True))})',
        "closed.sample(8)",
        "pong.resize(70)",
    ],
    "Rows": [
        "two.append(obs=[1, 2], terminated=[True, False], truncated=[False] * 2)",
        "two.append(obs=np.ma.masked_equal([1, 2], 2), terminated=[False] * 2, truncated=[0, 0])",
        "w.extend(obs={}, action=[], terminated=[], truncated=[])",
        'reserving.reserve()["actoin"]',
        "limited.append(x=1, **go_on)",
    ],
    "Draws": [
        "pong.sampler(history=90)",
        "pong.gather([-1])",
        "old_rows.gather([0])",
        "pong.sampler(share=(0, 2))",
        "pong.sampler(form=bc.WholeEpisodes()).sample(4)",
        "pong.wait(60, timeout=0.01)",
    ],
    "Priorities, tables and limiters": [
        "prioritized.update_priorities([0, 1], [1.0, np.nan])",
        "pong.sampler(select=bc.Priority(alpha=0.7))",
        "consuming.sample(60, timeout=0.01)",
        'pong.table("other")',
        "held.sample(8, timeout=0)",
        "failing.sample(8)",
    ],
    "Parameters": [
        'policy.publish({"w": np.zeros(3)})',
        'policy.publish({"w": np.zeros(2)}, version=7)',
        "policy.wait(8, timeout=0.01)",
        'bc.Params.attach("target")',
    ],
    "Snapshots and files": [
        'bc.ReplayBuffer.load("damaged@a", "again")',
        'bc.ReplayBuffer.from_file("steps.xlsx", "steps")',
        'pong.export("nowhere/pong.parquet")',
    ],
    "The daemon": [
        'bc.Client.connect(socket="silent", timeout=0.01)',
        'bc.Client.connect("nothing")',
        'bc.ReplayBuffer.create("big", columns, capacity="64MiB", daemon=client)',
        'client.stats("pnog")',
    ],
    "Fleets": [
        "bc.Fleet(7)",
        'bc.Fleet("backcast.fleet:report").stats()',
        "bc.fleet.context()",
        'entered(bc.Fleet("backcast.fleet:reprot"))',
        "running.wait(0.01)",
        'entered(bc.Fleet(["false"], restart="always", max_deaths=2))',
    ],
    "Markets": [
        'bc.Panel.from_csv("prices.csv", columns={"Rsi": "x"})',
        'sim.Market("frantic")',
        'sim.MarketConfig.of({"fee": {}})',
        "PortfolioEnv(panel, buy_cost_pct=2.0)",
    ],
    "Adapters": [
        "finrl.FastFinRL(panel).step([0.5])",
        'finrl.TickerTokenizer(["A"], frozen=True).encode("B")',
        "plot.window({}, 0)",
        'import_module("backcast.sb3")',
    ],
}

COMMANDS = [
    "export pong nowhere/pong.parquet",
    "verify pong@epoch-10",
    "serve --budget 1parsec",
]
"""Mistakes in a shell, after `backcast`."""


def entered(fleet: bc.Fleet) -> None:
    """Enter the block of a fleet whose actor cannot start, or dies."""
    with fleet:
        fleet.wait(60)


def rings(hold: Any) -> dict[str, object]:  # noqa: ANN401
    """Make rings in the states that the calls need."""
    go_on: dict[str, bool] = {"terminated": False, "truncated": False}

    def small(**settings: Any) -> tuple[bc.ReplayBuffer, bc.Writer]:  # noqa: ANN401
        ring = hold(bc.ReplayBuffer.create(None, {"x": "f4"}, **({"capacity": 20} | settings)))
        return ring, hold(ring.writer(timeout=0))

    old_rows, writer = small()
    for _ in range(90):
        writer.append(x=1, **go_on)
    queued, limited = small(limiter=bc.RateLimiter.queue(2))
    for _ in range(3):
        limited.append(x=1, **go_on)
    held, _ = small(limiter=bc.RateLimiter(min_size=5))
    limits = bc.RateLimiter(min_size=5, no_writer="error")
    failing = hold(bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=20, limiter=limits))
    return {"old_rows": old_rows, "queued": queued, "limited": limited, "held": held} | {
        "failing": failing,
        "reserving": small()[1],
    }


def names(newcomer: Newcomer, place: Path, files: Path, held: ExitStack) -> dict[str, object]:
    """Make the objects that the calls name, besides those of the page of errors."""
    hold = held.enter_context
    pong: Any = newcomer.names["pong"]
    policy = hold(bc.Params.create("policy", {"w": np.zeros(2)}))
    policy.publish({"w": np.zeros(2)}, version=7)
    with bc.ReplayBuffer.create("damaged", {"x": "f4"}, capacity=20) as damaged:
        with damaged.writer() as writer:
            for _ in range(10):
                writer.append(x=1, terminated=False, truncated=False)
        damaged.snapshot("a")
    file = Path(bc.list_snapshots("damaged")[0]["files"][-1])
    file.write_bytes(file.read_bytes()[:-1])
    hidden = {"matplotlib", "torch"}
    # Submodules are hidden too, because other tests of the process may have imported them.
    hidden |= {name for name in sys.modules if name.partition(".")[0] in hidden}
    hold(patch.dict(sys.modules, dict.fromkeys(hidden)))
    for module in ("backcast.sb3", "backcast.plot._draw"):
        sys.modules.pop(module, None)
    hold(serving(place, "--budget", "1MiB"))
    silent = hold(socket.socket(socket.AF_UNIX))
    silent.bind("silent")
    silent.listen()
    pong.table("online", learned={"value": "f4"})
    made = rings(hold) | {"sim": sim, "finrl": finrl, "plot": plot}
    return made | {
        "entered": entered,
        "import_module": import_module,
        "PortfolioEnv": PortfolioEnv,
        "policy": policy,
        "client": bc.Client.connect(),
        "prioritized": hold(pong.sampler(select=bc.Priority(alpha=0.6))),
        "consuming": hold(pong.sampler(select=bc.Consume())),
        # Its ring is elsewhere, so that the daemon does not count it.
        "running": hold(bc.Fleet(["sleep", "60"], progress=False, dir=files)),
    }


def messages(place: Path, files: Path) -> str:
    """Return every call with its error and message, wrapped; `files` becomes the cwd."""
    text = ""
    with ExitStack() as held:
        newcomer = Newcomer(place, files, held)
        newcomer.names |= names(newcomer, place, files, held)
        for heading, typed in TYPED.items():
            text += f"# {heading}\n\n" + "\n\n".join(map(newcomer.types, typed)) + "\n\n"
        text += "# In a shell\n\n" + "\n\n".join(map(newcomer.runs, COMMANDS)) + "\n"
    # Replaces durations, file sizes and random parts of file names, which differ between runs.
    text = re.sub(r"\b\d+ ms\b", "10 ms", text)
    text = re.sub(r"\b\d+ KiB\b", "99 KiB", text)
    return re.sub(r"-[0-9a-f]{8}-", "-01234567-", text)
