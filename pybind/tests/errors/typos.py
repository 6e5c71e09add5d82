"""Mistakes of newcomers, in the order of `docs/errors.md`, and the page made of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from backcast import errors
from backcast.envs import Collector, PortfolioEnv, PortfolioVectorEnv
from both_faces import faces
from gymnasium import spaces
from refusal import prices

TOP = """\
# Errors, by what was typed

Every error is a `backcast.BackcastError` and also the builtin that a Python user expects. It says
what was refused, the value, the limit and what to do, and it comes before anything has changed.
Catch one as `bc.errors.SampleError`: all of them are in `backcast.errors`, warnings too. This page
is printed by a test that types all of it, so it is what you will see.

| class | is also | when |
| --- | --- | --- |
"""

SETTING = """
The examples share a ring `pong` of two lanes with 40 rows in the first, a writer `w` of one lane, a
writer `two` of two lanes, an empty ring `empty`, a lease `rows` of 10 rows, a `sampler` of `pong`
and a `batch` of 8 that it drew, a sampler `busy` whose iterator is open, a closed iterator `left`,
a panel of 10 days, an environment `env` of two portfolios on it, just reset, and its `collector`
into a ring that has a column `value`. `pong` was saved as `epoch-1`, which is open as `old`.

```python
import backcast as bc
import numpy as np
from backcast.envs import Collector, PortfolioEnv, PortfolioVectorEnv
from gymnasium import spaces

columns = {"obs": {"image": ("u1", (2, 2)), "speed": "f4"}, "action": "i4"}
step = {"obs": {"image": np.zeros((2, 2), "u1"), "speed": 0.5}, "action": 1}
go_on = {"terminated": False, "truncated": False}
```
"""

TYPED: dict[str, list[str]] = {
    "Making a ring": [
        'bc.ReplayBuffer("pong", columns, capacity=1_000)',
        'bc.ReplayBuffer.create("pong", columns, capcity=1_000)',
        'bc.ReplayBuffer.create("pong", columns, 1_000)',
        'bc.ReplayBuffer.create("pong", columns)',
        'bc.ReplayBuffer.create("pong", capacity=1_000)',
        'bc.ReplayBuffer.create("pong", columns, capacity=1e6)',
        'bc.ReplayBuffer.create("pong", columns, capacity=-5)',
        'bc.ReplayBuffer.create("pong", columns, capacity=0)',
        'bc.ReplayBuffer.create("pong", columns, capacity="8gb")',
        'bc.ReplayBuffer.create("big", columns, capacity="20TiB")',
        'bc.ReplayBuffer.create("pong", columns, capacity=1_000, lanes=0)',
        'bc.ReplayBuffer.create("pong", columns, capacity=1_000, lanes=True)',
        'bc.ReplayBuffer.create("pong", columns, capacity=1_000, lanes=100_000)',
        'bc.ReplayBuffer.create("my ring", columns, capacity=1_000)',
        'bc.ReplayBuffer.create("runs/pong", columns, capacity=1_000)',
        'bc.ReplayBuffer.create("", columns, capacity=1_000)',
        'bc.ReplayBuffer.create("pong", columns, capacity=1_000, exist="overwrite")',
        'bc.ReplayBuffer.create("pong", columns, capacity=1_000)',
        'bc.ReplayBuffer.create("pong", {"obs": "f8"}, capacity=80, lanes=2, exist="attach")',
    ],
    "Columns": [
        "bc.Schema({})",
        'bc.Schema([("obs", "f4")])',
        'bc.Schema({"obs": "flaot32"})',
        'bc.Schema({"obs": ">f4"})',
        'bc.Schema({"obs": object})',
        'bc.Schema({"obs": ((84, 84), "u1")})',
        'bc.Schema({"obs": ("u1", (84, 0))})',
        'bc.Schema({"obs": ("u1", (84, 84), "observation")})',
        'bc.Schema({"obs": "f4", "next_obs": "f4"})',
        'bc.Schema({"obs": "f4", "terminated": "bool"})',
        'bc.Schema({"obs": "f4", "obs/speed": "f4"})',
    ],
    "Joining and removing": [
        'bc.ReplayBuffer.attach("breakout")',
        'bc.ReplayBuffer.attach("pnog")',
        'bc.remove_object("pong")',
        'bc.remove_object("pong", kind="buffer")',
    ],
    "Snapshots": [
        'pong.snapshot("epoch 1")',
        'pong.snapshot("epoch-1")',
        'pong.snapshot("epoch-2", state={"weights": np.zeros(3)})',
        'pong.snapshot("epoch-2", state={"best": float("inf")})',
        'bc.ReplayBuffer.load("pong@epoch-2", "old")',
        'bc.ReplayBuffer.load("pnog", "old")',
        'bc.ReplayBuffer.load("pong@epoch-1")',
        'bc.ReplayBuffer.open_snapshot("epoch-1")',
        "old.writer()",
        "pong.sampler(seed=7, state=sampler.state())",
        "pong.sampler(state=old.saved_state)",
        'bc.verify_snapshot("pong@epoch_1")',
        'bc.remove_snapshot("pong@epoch-10")',
    ],
    "Writers": [
        "pong.writer(lanes=3)",
        "pong.writer(lanes=2)",
        "pong.writer()",
        'pong.writer(autoreset_mode="same-step")',
        'pong.writer("same_step")',
        "pickle.dumps(w)",
    ],
    "Appending": [
        "w.append(step)",
        'w.append(obs=step["obs"], **go_on)',
        'w.append(obs=step["obs"], actoin=1, **go_on)',
        "w.append(**step, done=False)",
        "w.append(**step, reward=1.0, **go_on)",
        "w.append(**step, terminated=False)",
        "w.append(**step, terminated=2, truncated=0)",
        'w.append(**step | {"obs": np.zeros((2, 2))}, **go_on)',
        'w.append(**step | {"action": 1.5}, **go_on)',
        'w.append(**step | {"action": 2**40}, **go_on)',
        'w.append(**step | {"action": None}, **go_on)',
        'w.append(**step | {"action": [0, 1]}, **go_on)',
        'w.append(**step | {"obs": {"image": 0, "speed": 0.5}}, **go_on)',
        'w.append(**step | {"obs": {"image": np.full((2, 2), 0.5), "speed": 0.5}}, **go_on)',
        'w.append(**step | {"obs": {"image": np.full((2, 2), None), "speed": 0}}, **go_on)',
        'w.append(**step | {"obs": {"speed": 0.5}}, **go_on)',
        'w.append(**step, terminated=True, truncated=False, final_obs=step["obs"])',
        "two.append(**step, **go_on)",
        "two.append(obs=[1, 2], terminated=[True, False], truncated=[False, False])",
    ],
    "Reading": [
        "empty.sample(32)",
        "pong.sample()",
        "pong.sample(batchsize=32)",
        "pong.sample(0)",
        "pong.sample(32.0)",
        "pong.sample(32, history=0)",
        "pong.sample(32, history=60)",
        "pong.sample(32, future=-1)",
        "pong.sampler(7)",
        "pong.sampler(seed=-1)",
        "pong.gather([10_000])",
        "pong.gather([39])",
        'pong.gather([39], missing="skip")',
        "pong.gather([0.5])",
        "pong.gather([True, False])",
        'pong.gather(np.array([3], "i4"))',
        "pong.rows(0, 30, 20)",
        "pong.rows(5, 0, 1)",
        "pong.wait(50, timeout=0)",
        "pong.wait(1_000_000)",
        "pong.wait(50, timeout_ms=100)",
        "closed.sample(32)",
    ],
    "Returns and whole windows": [
        "pong.sampler(n_step=3)",
        "pong.sampler(gamma=0.99)",
        "pong.sampler(n_step=3, gamma=99)",
        "pong.sampler(n_step=0, gamma=0.99)",
        'pong.sampler(n_step="3", gamma=0.99)',
        "pong.sampler(n_step=40, gamma=0.99)",
        "pong.sampler(n_step=3, gamma=0.99)",
        'pong.sampler(boundary="drop")',
        'pong.sampler(history=3, boundary="reject").gather([1])',
    ],
    "Priorities": [
        "pong.sampler(priority=0.6)",
        "pong.sampler(beta=0.4)",
        'pong.sampler(select="priority")',
        "pong.sampler(select=bc.Priority(aplha=0.6))",
        "pong.sampler(select=bc.Priority(alpha=-1))",
        "pong.sampler(select=bc.Priority(alpha=0.6, beta=1.5))",
        "sampler.update_priorities([0], [1.0])",
    ],
    "Batches ahead, and memory of your own": [
        "sampler.batches(8, prefetch=-1)",
        "sampler.batches(8, prefetch=5_000)",
        "sampler.batches(8, ahead=2)",
        "sampler.batches(8, limit=2.5)",
        "busy.sample(8)",
        "next(left)",
        "sampler.sample(9, out=batch)",
        "pong.sampler(history=3).sample(8, out=batch)",
        "sampler.sample(8, out=[])",
        'sampler.sample(8, out={"action": [0] * 8})',
        'sampler.sample(8, out={"action": np.empty(8)})',
        'sampler.sample(8, out={"action": np.empty(16, "i4")[::2]})',
        'sampler.sample(8, out={"acton": np.empty(8, "i4")})',
        'pong.sampler(history=3).sample(8, out={"action": np.empty((8, 3), "i4")})',
    ],
    "Leases": [
        "pong.lease(0, 0)",
        "pong.lease(2, 0, 5)",
        "pong.lease(0, 0, 11)",
        "pong.lease(0, 35, 8)",
        "pong.lease(1, 0, 5)",
        'rows["speed"]',
        'rows["actoin"]',
        "rows.windows(20)",
        "pickle.dumps(rows)",
        'bc.ReplayBuffer.create("a", columns, capacity=80, lane_policy="wait")',
        'bc.ReplayBuffer.create("a", columns, capacity=80, lane_policy="fail", lease_timeout=1)',
    ],
    "Rate limits": [
        "bc.RateLimiter(error_buffer=3)",
        "bc.RateLimiter(8, error_buffer=3)",
        "bc.RateLimiter(0, error_buffer=3)",
        "bc.RateLimiter(min_size=0)",
        "bc.RateLimiter.queue(0)",
        'bc.RateLimiter(min_size=5, no_learner="go")',
        'bc.ReplayBuffer.create("a", columns, capacity=80, limiter=8)',
        'bc.ReplayBuffer.create("a", columns, capacity=80, limiter=bc.RateLimiter(min_size=80))',
        'bc.ReplayBuffer.create("a", columns, capacity=80, samples_per_insert=8)',
        'bc.ReplayBuffer.create("a", columns, capacity=80, min_size=8)',
        'bc.ReplayBuffer.attach("pong", limiter=bc.RateLimiter(8))',
    ],
    "Panels": [
        'bc.Panel("prices.csv")',
        'bc.Panel.from_csv("pirces.csv")',
        'bc.Panel.from_csv("prices.csv", macro="VIX")',
        'bc.Panel.from_csv("prices.csv", macro=["VXI"])',
        'bc.Panel.from_csv("bad.csv")',
        'panel.tokens(["AAPL", "AAB"])',
        'panel.tokens("AAA")',
        "panel.windows([12], [1], 5, 1)",
        "panel.windows([3], [9], 5, 1)",
        "panel.windows([3], [1])",
    ],
    "Environments": [
        "PortfolioVectorEnv(panel, n_envs=2)",
        "PortfolioVectorEnv(panel, 0)",
        'PortfolioVectorEnv(panel, 2, obs="box")',
        'PortfolioVectorEnv(panel, 2, autoreset_mode="nextstep")',
        'PortfolioVectorEnv(panel, 2, tickers=["VIX"])',
        'PortfolioVectorEnv("pirces.csv", 2)',
        'PortfolioVectorEnv("prices", 2)',
        "env.step([0.5, 0.5])",
        "env.step([[0.5], [15]])",
        "env.step([[0.5], [np.nan]])",
        'env.step([["buy"], ["sell"]])',
        "env.reset(seed=[1])",
        'env.reset(options={"reset_mask": [True, False]})',
        'env.reset(options={"reset_mask": np.ones(3, bool)})',
        'env.reset(options={"start_day": 99})',
        "PortfolioEnv(panel).step([0.5])",
    ],
    "Gymnasium's spaces, and collectors": [
        "bc.Schema.from_spaces(env.observation_space)",
        "bc.Schema.from_spaces(env, env)",
        "bc.Schema.from_spaces(spaces.Dict(says=spaces.Text(5)), env.action_space)",
        "Collector(env, pong)",
        "Collector(env, w)",
        "Collector(env, two)",
        "collector.step(action)",
        "collector.step(action, values=[0, 0])",
        "collector.step(action, value=[0, 0], log_prob=[0, 0])",
        "collector.run(5, policy)",
    ],
}


def environments(panel: Any, hold: Any) -> dict[str, object]:  # noqa: ANN401
    """Make the objects of the page's section about environments."""
    env = PortfolioVectorEnv(panel, 2, autoreset_mode="same_step")
    columns = bc.Schema.from_spaces(
        env.single_observation_space, env.single_action_space, extra={"value": "f4"}
    )
    ring = hold(bc.ReplayBuffer.create(None, columns, capacity=20, lanes=2))
    collector = Collector(env, hold(ring.writer(2, "same_step")))
    collector.reset(seed=1)
    return {
        "spaces": spaces,
        "Collector": Collector,
        "PortfolioEnv": PortfolioEnv,
        "PortfolioVectorEnv": PortfolioVectorEnv,
        "env": env,
        "collector": collector,
        "action": [[0.5], [0.5]],
        "policy": lambda obs: [[0.5], [0.5]],
    }


COMMANDS = [
    "lss",
    "stat pnog",
    "stat zebra",
    "rm pong",
    "create pong --column x:f4 --capacity 1_000",
    "create a --column x --capacity 1_000",
    "create a --column x:f5 --capacity 1_000",
    "create a --column x:f4 --capacity 8gigs",
    "create a --column x:f4 --capcity 1_000",
    "create a --column x:f4 --capacity 1_000 --lanes 100_000",
    "create a --column x:f4 --capacity 1_000 --lane-policy wait",
    "create a --column x:f4 --capacity 1_000 --lease-timeout -1",
    "create a --column x:f4 --capacity 20TiB",
    "panel stat pirces.csv",
    "--dir nowhere ls",
    "demo --kil",
    "demo --seconds 0",
]
"""Mistakes in a shell, after `backcast`; the page shows their exit statuses with `echo $?`."""


def samplers(pong: bc.ReplayBuffer, hold: Any) -> dict[str, object]:  # noqa: ANN401
    """Make samplers, one free and one that draws ahead, a batch, and a closed iterator."""
    sampler, busy = hold(pong.sampler(seed=7)), hold(pong.sampler(seed=7))
    left = sampler.batches(8)
    left.close()
    hold(busy.batches(8))
    return {"sampler": sampler, "busy": busy, "batch": sampler.sample(8), "left": left}


class Newcomer:
    """Types lines, and returns them with what is printed."""

    def __init__(self, place: Path, files: Path, held: ExitStack) -> None:
        """Make the objects that the page describes."""
        os.chdir(files)
        Path("prices.csv").write_text(prices())
        Path("bad.csv").write_text(prices("2024-02-01,AAA,1,2,1,n/a,1,1"))
        columns: dict[str, Any] = {
            "obs": {"image": ("u1", (2, 2)), "speed": "f4"},
            "action": "i4",
        }
        step: dict[str, Any] = {"obs": {"image": np.zeros((2, 2), "u1"), "speed": 0.5}, "action": 1}
        go_on = {"terminated": False, "truncated": False}
        hold = held.enter_context
        pong = hold(bc.ReplayBuffer.create("pong", columns, capacity=80, lanes=2))
        writer = hold(pong.writer(1, "next_step"))
        for _ in range(40):
            writer.append(**step, **go_on)
        hold(pong.writer())
        empty = hold(bc.ReplayBuffer.create("empty", {"obs": "f4"}, capacity=10, lanes=2))
        closed = bc.ReplayBuffer.create("closed", {"x": "f4"}, capacity=10)
        closed.close()
        self.names: dict[str, object] = {
            "bc": bc,
            "np": np,
            "pickle": __import__("pickle"),
            "columns": columns,
            "step": step,
            "go_on": go_on,
            "pong": pong,
            "w": writer,
            "rows": hold(pong.lease(0, 30, 10)),
            "two": hold(empty.writer(2, "same_step")),
            "empty": empty,
            "closed": closed,
            "panel": hold(bc.Panel.from_csv("prices.csv", macro=["VIX"])),
        }
        self.names |= environments(self.names["panel"], hold)
        self.names |= samplers(pong, hold)
        pong.snapshot("epoch-1", state={"steps": 7})
        self.names["old"] = hold(bc.ReplayBuffer.open_snapshot("pong@epoch-1"))
        self.same_everywhere = {
            str(next(place.glob("backcast-*"))): "/dev/shm/backcast-1000",
            str(files / "store"): "~/.local/share/backcast",
        }

    def types(self, code: str) -> str:
        """Type a line; return it and the last line of the traceback, wrapped."""
        try:
            answer = eval(code, self.names)
        except bc.BackcastError as error:
            said = f"backcast.errors.{type(error).__name__}: {error}"
        else:
            raise AssertionError(f"{code} was done: {answer!r}")
        return f">>> {code}\n{self.everywhere(said)}"

    def runs(self, command: str) -> str:
        """Type a command; return it and its output."""
        # Runs what the console script runs, in a terminal of 100 columns.
        ran = subprocess.run(
            [sys.executable, "-m", "backcast", *command.split()],
            capture_output=True,
            text=True,
            env=os.environ | {"COLUMNS": "100"},
            check=False,
            timeout=60,
        )
        assert ran.returncode in {1, 2, 3}, f"{command} was done: {ran.stdout}"
        assert not ran.stdout
        # Leaves out the usage text before the error, which differs between versions of Python.
        told = ran.stderr[ran.stderr.index("error:") :].removeprefix("error: ")
        lines = [self.everywhere(line) for line in f"error: {told}".splitlines() if line.strip()]
        return "\n".join([f"$ backcast {command}", *lines, "$ echo $?", str(ran.returncode)])

    def everywhere(self, said: str) -> str:
        """Return the message, wrapped, with paths, pids and sizes that are the same everywhere."""
        for here, everywhere in self.same_everywhere.items():
            said = said.replace(here, everywhere)
        # Only whole numbers are replaced: the digits of the pid may be part of another number.
        said = re.sub(rf"\b{os.getpid()}\b", "4711", said)
        said = re.sub(r"[\d.]+ \w+ available \(.*?\)", "15.6 GiB available (the file system)", said)
        said = re.sub(r"\.building-\w+", ".building-0123456789abcdef", said)
        said = re.sub(r"pid \d+ \([^)]*\)", "pid 4711 (python)", said)
        return textwrap.fill(
            said, 96, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )


def tree() -> str:
    """Return a table row for every error class: its name, its bases and its summary."""
    lines = []
    for name in errors.__all__:
        thing = getattr(errors, name)
        if issubclass(thing, bc.BackcastError):
            bases = ", ".join(f"`{base.__name__}`" for base in thing.__bases__)
            lines.append(f"| `{name}` | {bases} | {(thing.__doc__ or '').splitlines()[0]} |\n")
    return "".join(lines)


def page(place: Path, files: Path) -> str:
    """Return the whole page; `place` has the rings, and `files` becomes the working directory."""
    with ExitStack() as held:
        newcomer = Newcomer(place, files, held)
        text = TOP + tree() + SETTING
        for heading, typed in TYPED.items():
            said = "\n\n".join(map(newcomer.types, typed))
            text += f"\n## {heading}\n\n```text\n{said}\n```\n"
        said = "\n\n".join(map(newcomer.runs, COMMANDS))
        text += f"\n## In a shell\n\n```text\n{said}\n```\n"
    return text + faces()
