"""Runs programs with the Rust API: sends steps as JSON lines, and compares what comes back.

python run_rust.py PLACE COUNT    COUNT programs; rings are made below the directory PLACE

`tests/tests/it/programs` starts it, and answers each line on standard output by one on standard
input. Values of tokens are sent as bytes, so that Rust need not know them.

Left out are steps of a second process, forks, draws without a sampler, transforms and functions of
a reward, which Rust leaves to its caller, and arguments that only Python can get wrong, such as the
next observation of a ring without observations.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Any

import numpy as np
from columns import LEARNED, OBS, SCHEMAS, Given, column, flat, pairs, steps_of
from making import make
from model import NEXT_STEP
from numpy.typing import NDArray
from run_python import ProgramError, run
from second_process import Peers
from shrink import explained
from world import Outcome, Program, Step

LEFT_OUT = ("attach", "kill", "fork", "later", "sample_once")


def hexed(values: NDArray[Any]) -> str:
    return np.ascontiguousarray(values).tobytes().hex()


def decoded(value: Any) -> Any:
    """Return an outcome with its arrays, which are lists of dtype, shape and bytes."""
    if isinstance(value, dict):
        return {name: decoded(part) for name, part in value.items()}
    if isinstance(value, list) and len(value) == 3 and isinstance(value[2], str):
        dtype, shape, digits = value
        found = np.frombuffer(bytes.fromhex(digits), dtype) if digits else np.zeros(0, dtype)
        return found.reshape(shape)
    return [decoded(part) for part in value] if isinstance(value, list) else value


def columns_of(schema: str) -> list[Any]:
    """Return name, element type, shape and role of each column."""
    found = []
    for name, given in flat(SCHEMAS[schema]).items():
        dtype, shape, *_ = (given, ()) if isinstance(given, str) else (*given, ())
        code = "bool" if dtype == "?" else dtype
        found.append([name, code, shape, name in OBS[schema]])
    return found


def call_of(schema: str, given: Given, mode: str) -> dict[str, Any]:
    """Return the bytes of an append, or of an extend of many steps."""
    names = list(flat(SCHEMAS[schema]))
    ends = np.array(given.end, int).reshape(-1)
    if not ends.any() and mode == NEXT_STEP:
        # Python ignores final observations where no episode ends, Rust refuses them.
        given = given._replace(final=None)
    call: dict[str, Any] = {"columns": [hexed(column(schema, n, given.obs)) for n in names]}
    call |= {"terminated": (ends & 1 != 0).tolist(), "truncated": (ends & 2 != 0).tolist()}
    observed = [name for name in names if name in OBS[schema]]
    for key, tokens in (("next", given.next), ("final", given.final)):
        if tokens is not None:
            call[key] = [hexed(column(schema, name, tokens)) for name in observed]
    return call


class RustActor:
    """Sends the steps of a program to the process that started this one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.schemas: dict[str, str] = {}
        self.writers: dict[str, tuple[str, int, str]] = {}
        self.ask({"do": "begin", "place": str(place)})

    def ask(self, step: Step) -> Outcome:
        print(json.dumps(step), flush=True)
        answer: Outcome = json.loads(sys.stdin.readline())
        return answer

    def take(self, step: Step) -> Outcome:
        outcome = self.ask(self.wire(step))
        if isinstance(outcome.get("index"), list):
            outcome["index"] = pairs(np.array(outcome["index"], np.int64))
        if "spans" in outcome:
            outcome["spans"] = [tuple(span) for span in outcome["spans"]]
        self.learn(step, outcome)
        return {name: decoded(value) for name, value in outcome.items() if name != "index"} | (
            {"index": outcome["index"]} if "index" in outcome else {}
        )

    def learn(self, step: Step, outcome: Outcome) -> None:
        """Keep the schemas of rings, and the lanes and modes of writers."""
        if "error" in outcome:
            return
        if step["do"] == "create":
            self.schemas[step["ring"]] = step["schema"]
        elif step["do"] in ("open", "load"):
            self.schemas[step["ring"]] = self.schemas[step["from"]]
        elif step["do"] == "writer":
            schema = self.schemas[step["ring"]]
            self.writers[step["w"]] = schema, len(outcome["lanes"]), outcome["mode"]

    def wire(self, step: Step) -> Step:
        """Return a step as Rust takes it."""
        sent = dict(step)
        if "index" in step:
            sent["index"] = [n << 48 | seq for n, seq in step["index"]]
        if step["do"] == "create":
            sent["columns"] = columns_of(step["schema"])
        if step["do"] == "table":
            sent["dtypes"] = LEARNED
        if step["do"] == "set_values":
            sent["values"] = {
                name: hexed(np.array(given).astype(LEARNED.get(name, "f4")))
                for name, given in step["values"].items()
            }
        if step["do"] in ("append", "extend", "reserve"):
            sent["calls"] = self.calls(step)
        return sent

    def calls(self, step: Step) -> list[dict[str, Any]]:
        schema, lanes, mode = self.writers[step["w"]]
        if step["do"] == "append":
            given = Given(step["obs"], step["end"], step.get("next"), step.get("final"))
            return [call_of(schema, given, mode)]
        if step["do"] == "reserve":
            last = [[step[name]] if step.get(name) else None for name in ("next", "final")]
            return [call_of(schema, Given([step["obs"]], [step["end"]], *last), mode)]
        steps = steps_of(step, schema, lanes, mode)
        if step.get("how") == "append" or not steps:
            return [call_of(schema, given, mode) for given in steps]
        parts: list[Any] = [
            None if part[0] is None else np.array(part) for part in zip(*steps, strict=True)
        ]
        return [call_of(schema, Given(*parts), mode)]

    def close(self) -> None:
        """Close everything, as the begin of the next program does."""
        self.ask({"do": "begin", "place": str(self.place)})


def without_left_out(program: Program) -> Program:
    """Return the steps of a program that Rust can take. Batches drawn ahead become draws."""
    steps, blind = [], set[str]()
    for step in program["steps"]:
        options = step.get("options", {})
        if step["do"] in LEFT_OUT or step.get("fails") or step.get("bad"):
            continue
        # Rings without observations, and their writers.
        is_blind = step.get("schema") == "blind" or step.get("from") in blind
        if is_blind or (step["do"] == "writer" and step["ring"] in blind):
            blind.add(step.get("w") or step["ring"])
        observes = "next" in step or "final" in step
        if "hindsight" in options or (observes and step.get("w") in blind):
            continue
        kept = {name: value for name, value in step.items() if name != "into"}
        if "transform" in options:
            kept["options"] = {n: value for n, value in options.items() if n != "transform"}
        if step["do"] == "batches":
            draw = {"do": "sample"} | {n: step[n] for n in ("s", "by", "batch") if n in step}
            steps += [draw] * step["count"]
        else:
            steps.append(kept)
    return program | {"steps": steps}


def main() -> int:
    place, count = Path(sys.argv[1]), int(sys.argv[2])
    fresh, taken = secrets.randbits(40), 0
    print(f"{count // 2} new seeds from {fresh} on", file=sys.stderr)
    seeds = [*range((count + 1) // 2), *range(fresh, fresh + count // 2)]
    # No program has a second process, so none is started.
    peers, kinds = Peers(), set[str]()
    for seed in seeds:
        program = without_left_out(make(seed))
        try:
            taken += run(program, place, peers, RustActor)
        except ProgramError as failure:
            if failure.kind not in kinds:
                print(explained(failure, place, peers, RustActor), file=sys.stderr)
            kinds.add(failure.kind)
    print(f"{count} programs, {taken} steps", file=sys.stderr)
    return min(len(kinds), 1)


if __name__ == "__main__":
    sys.exit(main())
