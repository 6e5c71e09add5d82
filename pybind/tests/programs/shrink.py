"""Shrinks a failing program to a short one that fails alike, and prints it as JSON.

python shrink.py 17              the program of a seed
python shrink.py 17 2            the same with two processes
python shrink.py program.json    a program in a file
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from calls import Actor
from making import make
from run_python import ProgramError, Takes, run, shared_place
from second_process import Peers
from world import Program, Step

# Most runs while a program is shrunk.
MOST_RUNS = 3_000
# Arguments that are removed, and numbers that are made smaller.
OPTIONAL = "by plain next final finals how mode older episode replace into reuse windows limiter "
OPTIONAL += "private policy patient bad fails missing rows seed transform share columns at at_most"
NUMBERS = ("steps", "batch", "count", "capacity", "lanes", "prefetch", "length", "world")


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return the shortest program found that fails."""
    runs = iter(range(MOST_RUNS))

    def tried(steps: list[Step]) -> bool:
        return next(runs, None) is not None and fails(program | {"steps": steps})

    steps, before = program["steps"], None
    while steps != before:
        before, size = steps, max(1, len(steps) // 2)
        while size:
            at = 0
            while at < len(steps):
                shorter = steps[:at] + steps[at + size :]
                steps, at = (shorter, at) if tried(shorter) else (steps, at + size)
            size //= 2
        for at in range(len(steps)):
            # Repeats until no simpler step fails.
            while simpler := next(
                (s for s in simpler_steps(steps[at]) if tried([*steps[:at], s, *steps[at + 1 :]])),
                None,
            ):
                steps = [*steps[:at], simpler, *steps[at + 1 :]]
    return program | {"steps": steps}


def simpler_steps(step: Step) -> Iterator[Step]:
    """Yield steps with one argument fewer, or with a smaller one."""
    for name in set(step) & set(OPTIONAL.split()):
        yield {key: value for key, value in step.items() if key != name}
    for name in ("options", "limits", "limiter", "values"):
        for option in step.get(name) or {}:
            less = deepcopy(step)
            del less[name][option]
            yield less
    for name in set(step) & set(NUMBERS):
        if isinstance(step[name], int) and step[name] > 1:
            yield from (step | {name: smaller} for smaller in (step[name] // 2, step[name] - 1))
    for at in range(len(step.get("index", []))):
        less = deepcopy(step)
        lists: list[Any] = [less["index"], less.get("priority"), *less.get("values", {}).values()]
        for each in lists:
            if each:
                del each[at]
        yield less
    if isinstance(step.get("end"), list) and any(step["end"]):
        yield step | {"end": [0] * len(step["end"])}


def explained(
    failure: ProgramError, place: Path, peers: Peers, actor: Callable[[Path], Takes] = Actor
) -> str:
    """Return a text of the shrunk program, its seed and the difference from the model."""
    last = failure

    def fails(program: Program) -> bool:
        nonlocal last
        try:
            run(program, place, peers, actor)
        except ProgramError as again:
            last = again if again.kind == failure.kind else last
            return again.kind == failure.kind
        except Exception:
            # The step lacks an argument that it needs.
            return False
        return False

    shortest = shrink(failure.program, fails)
    steps = ",\n  ".join(json.dumps(step) for step in shortest["steps"])
    head = json.dumps({name: value for name, value in shortest.items() if name != "steps"})[:-1]
    seed = f"the program of seed {shortest['seed']}, shrunk:"
    return f'{last}\n{seed}\n{head}, "steps": [\n  {steps}\n]}}'


def main() -> None:
    if sys.argv[1].endswith(".json"):
        program: Program = json.loads(Path(sys.argv[1]).read_text())
    else:
        program = make(int(sys.argv[1]), processes=int([*sys.argv, "1"][2]))
    with shared_place() as place, Peers() as peers:
        try:
            print(f"passes: {run(program, place, peers)} steps")
        except ProgramError as failure:
            sys.exit(explained(failure, place, peers))


if __name__ == "__main__":
    main()
