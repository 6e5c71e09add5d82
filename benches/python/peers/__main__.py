"""Measure Backcast against other replay buffers, each in its own interpreter, in turns.

PYTHONPATH=benches/python python -m peers [--python NAME=PATH ...] [--rounds 7] [--seconds 0.3]

NAME is one of backcast, numpy, cpprb, torchrl and reverb; PATH is an interpreter that has its
package. The first two run in this interpreter, and so does cpprb where it is installed. A peer
without an interpreter is left out; then no file of results is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import results
from replay.rounds import read_options
from replay.workloads import BATCH, MANY

PATH = results.LATEST.with_name("peers.jsonl")
MODULES: Final = {
    "backcast": "backcast_ring",
    "numpy": "numpy_ring",
    "cpprb": "cpprb_buffer",
    "torchrl": "torchrl_buffer",
    "reverb": "reverb_table",
}
NAMES: Final = {
    "backcast": "backcast",
    "numpy": "NumPy ring",
    "cpprb": "cpprb",
    "torchrl": "TorchRL",
    "reverb": "Reverb",
}
ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TOGETHER_S: Final = 3.0
"""Length of a turn with two processes, in multiples of `--seconds`: their figures vary more."""


class Metric(NamedTuple):
    """Metric, and the method that measures it."""

    name: str
    method: str
    units: int
    variant: str = ""


WORKLOADS: Final[dict[str, tuple[str, list[Metric]]]] = {
    "Transitions": (
        "transitions",
        [
            Metric("append 1 transition", "append", BATCH),
            Metric("append 1 transition", "append_without_next", BATCH, ", without next_obs"),
            Metric(f"append {MANY}, one of each environment", "append_many", MANY),
            Metric(
                f"append {MANY}, one of each environment",
                "append_many_with_next",
                MANY,
                ", with next_obs",
            ),
            Metric(f"sample {BATCH} transitions", "sample", BATCH),
        ],
    ),
    "Frames": (
        "frames",
        [Metric(f"sample {BATCH} stacks of 4 frames, and the next ones", "sample", BATCH)],
    ),
    "Windows": ("windows", [Metric(f"sample {BATCH} windows of 20 + 5 steps", "sample", BATCH)]),
}


class Contender:
    """A contender in a process of its own."""

    def __init__(self, key: str, python: str) -> None:
        """Start the worker's process."""
        self.name = NAMES[key]
        # The worker imports this package from here, and Backcast from its own interpreter alone.
        here = str(Path(__file__).resolve().parents[1])
        once = dict.fromkeys(ONE_THREAD, "1")
        self.process = subprocess.Popen(
            [python, "-m", "peers.worker", MODULES[key]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if "--verbose" in sys.argv else subprocess.DEVNULL,
            text=True,
            cwd=here,
            env={**os.environ, **once, "PYTHONPATH": here, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.versions: dict[str, str] = self.answer()["versions"]
        self.threads = 0

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer of the worker."""
        assert self.process.stdout is not None, "it is a pipe"
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            sys.exit(f"the worker of {self.name} ended with {code}; --verbose shows what it says")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            sys.exit(f"the worker of {self.name} failed:\n{answer['error']}")
        return answer

    def ask(self, do: str, **more: object) -> dict[str, Any]:
        """Send a command to the worker, and wait for its answer."""
        assert self.process.stdin is not None, "it is a pipe"
        self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """Close the workload."""
        self.threads = max(self.threads, self.ask("close")["threads"])

    def end(self) -> None:
        """End the worker's process."""
        assert self.process.stdin is not None, "it is a pipe"
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


Entries = list[dict[str, Any]]


def alone(contenders: list[Contender], options: argparse.Namespace) -> Entries:
    """Measure the workloads of one process."""
    entries: Entries = []
    for workload, (title, metrics) in WORKLOADS.items():
        can = {of.name: of.ask("open", workload=workload)["can"] for of in contenders}
        for name in dict.fromkeys(metric.name for metric in metrics):
            turns = [
                (of, metric)
                for metric in metrics
                for of in contenders
                if metric.name == name and metric.method in can[of.name]
            ]
            entries += show(rates(title, name, turns, options))
        for of in contenders:
            of.close()
    return entries


def rates(
    title: str,
    name: str,
    turns: list[tuple[Contender, Metric]],
    options: argparse.Namespace,
) -> Entries:
    """Measure one metric; contenders take turns in each round."""
    calls = [
        (of, metric, of.ask("calibrate", method=metric.method, seconds=options.seconds)["repeats"])
        for of, metric in turns
    ]
    runs: dict[str, list[float]] = {of.name + metric.variant: [] for of, metric in turns}
    for _ in range(options.rounds):
        for of, metric, repeats in calls:
            passed = of.ask("round", method=metric.method, repeats=repeats)["seconds"]
            runs[of.name + metric.variant].append(repeats * metric.units / passed)
    return results.lines(title, name, "rows/s", runs.items(), "main")


def together(contenders: list[Contender], options: argparse.Namespace) -> Entries:
    """Measure a writer process and a learner process that share a buffer."""
    have = [of for of in contenders if of.ask("open", workload="Shared")["can"]]
    turns: dict[str, Entries] = {of.name: [] for of in have}
    for _ in range(options.rounds):
        for of in have:
            turns[of.name].append(of.ask("together", seconds=TOGETHER_S * options.seconds))
    for of in contenders:
        of.close()
    entries: Entries = []
    for key, name in (
        ("written", f"append {MANY} at a time, beside the learner"),
        ("drawn", f"sample {BATCH}, beside the writer"),
    ):
        runs = [(name, [turn[key] for turn in of]) for name, of in turns.items()]
        entries += results.lines("two processes at once", name, "rows/s", runs, "main")
    for entry in entries:
        entry["torn"] = sum(turn["torn"] for turn in turns[entry["contender"]])
    return show(entries)


def show(entries: Entries) -> Entries:
    """Print entries and return them."""
    results.table(entries)
    sys.stdout.flush()
    return entries


def interpreters(given: list[str], parser: argparse.ArgumentParser) -> dict[str, str]:
    """Read which interpreter runs which contender."""
    pythons = {"backcast": sys.executable, "numpy": sys.executable}
    if results.version("cpprb"):
        pythons["cpprb"] = sys.executable
    for text in given:
        name, _, path = text.partition("=")
        if name not in MODULES or not path:
            parser.error(f"--python is {text}; give NAME=PATH, NAME one of {', '.join(MODULES)}")
        if not os.access(path, os.X_OK):
            parser.error(f"--python names {path}, which is no program; give an interpreter")
        # Links are not resolved, because an interpreter finds its virtual environment by the link.
        pythons[name] = os.path.abspath(path)
    return {name: pythons[name] for name in MODULES if name in pythons}


def command() -> str:
    """Return the command line without the paths of interpreters."""
    given = (re.sub("=.*/.*", "=PATH", argument) for argument in sys.argv[1:])
    return " ".join(["python -m peers", *given])


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--python", action="append", default=[], metavar="NAME=PATH", help="interpreter of a peer"
    )
    parser.add_argument("--verbose", action="store_true", help="show what the workers print")
    options = read_options(parser, seconds=0.3)
    pythons = interpreters(options.python, parser)
    contenders = [Contender(name, python) for name, python in pythons.items()]
    try:
        entries = [*alone(contenders, options), *together(contenders, options)]
    finally:
        for of in contenders:
            of.end()
    of_name = {of.name: of for of in contenders}
    for entry in entries:
        of = of_name[entry["contender"].partition(",")[0]]
        entry["contender_versions"], entry["threads"] = of.versions, of.threads
    torn = {entry["contender"]: entry["torn"] for entry in entries if "torn" in entry}
    print("\ntorn rows:", ", ".join(f"{name} {rows}" for name, rows in torn.items()))
    left_out = [NAMES[name] for name in MODULES if name not in pythons]
    if left_out:
        print(f"nothing is kept: {', '.join(left_out)} left out; --python says where they are")
    elif not options.quick:
        PATH.unlink(missing_ok=True)
        results.append(entries, PATH, command())
    if torn["backcast"]:
        sys.exit("rows came torn out of a ring")


if __name__ == "__main__":
    main()
