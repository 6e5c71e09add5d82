"""Takes the steps of a program with the Python API, in any process.

Every step becomes calls of the public API, and returns what they returned as plain values: arrays
by name, indices as pairs of lane and row, or the name of an error's class.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from columns import (
    LEARNED,
    OBS,
    SCHEMAS,
    STEP,
    Arrays,
    Given,
    column,
    flat,
    hindsight_reward,
    observation,
    pairs,
    row_columns,
    steps_of,
)
from numpy.typing import NDArray
from world import Outcome, Step

# Numbers of a block besides its items.
BLOCK = ("count", "mass", "q_min", "q_new", "inserts", "rejected")
# Seconds that a step waits for another step, and seconds that a forked child may take.
PATIENCE, CHILD_TIME = 40.0, 60.0


class GiveUpError(Exception):
    """Exception that leaves the block of a reserved row, and that a transform raises."""


def index_of(step: Step) -> NDArray[np.int64]:
    return np.array([n << 48 | seq for n, seq in step["index"]], np.int64)


def arrays_of(batch: Any) -> Arrays:
    return {name: np.array(values) for name, values in flat(batch).items()}


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in given.items() if name != "transform"}
    for name in {"select", "form"} & set(given):
        kind, fields = given[name]["kind"], {k: v for k, v in given[name].items() if k != "kind"}
        fields |= {
            n: tuple(fields[n]) for n in ("alpha", "beta") if isinstance(fields.get(n), list)
        }
        # `kind` is a word, or the name of a class.
        options[name] = getattr(bc, kind)(**fields) if kind[0].isupper() else kind
    if "share" in given:
        options["share"] = tuple(given["share"])
    if "hindsight" in given:
        options["hindsight"] = bc.Hindsight(hindsight_reward, **given["hindsight"])
    return options


def limits_of(given: dict[str, Any]) -> bc.RateLimiter:
    band = {"error_buffer": tuple(given["error_buffer"])} if "error_buffer" in given else {}
    return bc.RateLimiter(**given | band)


def arguments(schema: str, given: Given) -> dict[str, Any]:
    """Return the arguments of an append, or of an extend."""
    flags, made = np.array(given.end, int), row_columns(schema, given.obs)
    made |= {"terminated": flags & 1 != 0, "truncated": flags & 2 != 0}
    if given.next is not None:
        made["next_obs"] = observation(schema, given.next)
    if given.final is not None:
        made["final_obs"] = observation(schema, given.final)
    return made


def without_axis(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: without_axis(value) for name, value in values.items()}
    return values[0]


class Tag:
    """Transform that adds a key to batches and replaces an array, or fails."""

    def __init__(self) -> None:
        self.fails = False
        self.seen: Any = None

    def __call__(self, batch: bc.Batch) -> bc.Batch:
        self.seen = batch["index"].copy()
        if self.fails:
            raise GiveUpError
        batch["tag"] = batch["index"] + 1
        batch["index"] = batch["index"].copy()
        return batch


class Actor:
    """Objects of a process, and the calls by which it takes steps."""

    def __init__(self, place: Path) -> None:
        self.place, self.store = place, place / "store"
        self.rings: dict[str, bc.ReplayBuffer] = {}
        self.writers: dict[str, tuple[bc.Writer, str]] = {}
        self.samplers: dict[str, bc.Sampler] = {}
        self.leases: dict[str, Any] = {}
        self.learned: dict[str, Any] = {}
        # Batches that are filled again, by sampler and size, and transforms by sampler.
        self.batches: dict[str, Any] = {}
        self.tags: dict[str, Tag] = {}

    def take(self, step: Step) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                taken = getattr(self, f"do_{step['do']}")(
                    step, self.rings.get(step.get("ring", ""))
                )
            except bc.BackcastError as error:
                return {"error": type(error).__name__, "message": str(error)}
        return taken if isinstance(taken, dict) else {}

    def close(self) -> None:
        """Close everything, in the order that a program would."""
        self.batches.clear()
        handles: list[Any] = [*self.leases.values(), *self.learned.values()]
        handles += [*self.samplers.values(), *(writer for writer, _ in self.writers.values())]
        self.leases.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for handle in [*handles, *self.rings.values()]:
                with contextlib.suppress(bc.BackcastError):
                    handle.close()
        self.__init__(self.place)  # type: ignore[misc]

    # Rings.

    def do_create(self, step: Step, _: None) -> Outcome:
        private, policy = step.get("private"), step.get("policy", "block")
        sizes: Any = {"capacity": step["capacity"], "lanes": step["lanes"], "lane_policy": policy}
        made = bc.ReplayBuffer.create(
            None if private else step["ring"],
            SCHEMAS[step["schema"]],
            lease_timeout=0.001 if policy == "block" else None,
            limiter=limits_of(step["limiter"]) if "limiter" in step else None,
            dir=None if private else self.place,
            **sizes,
        )
        return self.opened(step, made)

    def opened(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        self.rings[step["ring"]] = ring
        slots = ring.stats()["slots"]
        return {"lane_capacity": ring.lane_capacity, "lanes": ring.lanes, "slots": slots}

    def do_attach(self, step: Step, _: None) -> Outcome:
        return self.opened(step, bc.ReplayBuffer.attach(step["ring"], dir=self.place))

    def do_open(self, step: Step, _: None) -> Outcome:
        spec = f"{step['from']}@{step['label']}"
        places: Any = {"store": self.store, "dir": self.place}
        if step["do"] == "open":
            return self.opened(step, bc.ReplayBuffer.open_snapshot(spec, **places))
        return self.opened(step, bc.ReplayBuffer.load(spec, step["ring"], **places))

    do_load = do_open

    def do_snapshot(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        replace = step.get("replace", False)
        done = ring.snapshot(step["label"], store=self.store, replace=replace)
        return {name: done[name] for name in ("rows", "rows_lapped", "left_out")}

    def do_clear(self, _: Step, ring: bc.ReplayBuffer) -> Outcome:
        return {"dropped": ring.clear()}

    def do_drop_episode(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        lane, older = step["lane"], step.get("older", False)
        return {"dropped": ring.drop_episode(lane, step.get("episode"), older=older)}

    def do_resize(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        done = ring.resize(step["capacity"], timeout=0)
        return {name: done[name] for name in ("lanes_waiting", "lane_capacity")}

    def do_limiter(self, step: Step, ring: bc.ReplayBuffer) -> None:
        limiter = ring.limiter
        assert limiter is not None
        if step["op"] == "set":
            limiter.set(limits_of(step["limits"]))
        elif step["op"] == "ceiling":
            limiter.set_ceiling(step.get("inserts"))
        else:
            getattr(limiter, "reset_counts" if step["op"] == "reset" else step["op"])()

    def do_wait(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        if "rows" in step:
            return {"have": ring.wait(rows_published=step["rows"], timeout=0)}
        return {"have": ring.wait(step["min_size"], timeout=PATIENCE * step.get("patient", 0))}

    def do_order(self, _: Step, ring: bc.ReplayBuffer) -> Outcome:
        with ring.transitions() as order:
            index = order.index_at(np.arange(len(order)))
            assert order.position_of(index).tolist() == list(range(len(order)))
            return {"index": pairs(index), "positions": len(order)}

    def do_rows(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        return {"rows": arrays_of(ring.rows(step["lane"], step["start"], step["length"]))}

    def do_lease(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        made = ring.lease(step["lane"], step["start"], step["length"])
        self.leases[step["l"]] = made
        return {"rows": arrays_of({name: made[name] for name in made})}

    def do_close_lease(self, step: Step, _: None) -> Outcome:
        lease = self.leases.pop(step["l"])
        windows = lease.windows(1)
        seen = {name: np.array(values[:, 0]) for name, values in flat(windows).items()}
        del windows
        lease.close()
        return {"rows": seen}

    def do_look(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        spans = [ring.lane_span(lane) for lane in range(ring.lanes)]
        seen = {"len": len(ring), "spans": spans, "grown": ring.lane_capacity}
        if step.get("brief"):
            return seen
        rows = [ring.rows(lane, start, end - start) for lane, (start, end) in enumerate(spans)]
        return seen | {"rows": [arrays_of(each) for each in rows], "stats": ring.stats()}

    def do_fork(self, _: Step, __: None) -> Outcome:
        """Fork a child that tries every handle of its parent, and attaches by name."""
        tries: dict[str, Callable[[], object]] = {}
        for name, ring in self.rings.items():
            tries[f"len of {name}"] = ring.__len__
            tries[f"draw from {name}"] = partial(ring.sample, 1, timeout=0)
            tries[f"clear of {name}"] = ring.clear
        for name, (writer, _schema) in self.writers.items():
            tries |= {f"restart of {name}": writer.restart, f"reserve of {name}": writer.reserve}
        for name, sampler in self.samplers.items():
            tries[f"draw by {name}"] = partial(sampler.sample, 1, timeout=0)
        named = [name for name, ring in self.rings.items() if ring.name and not ring.is_snapshot]
        return answer_of_child(lambda: {"used": used(tries), "counts": counted(named, self.place)})

    def do_remove_table(self, step: Step, ring: bc.ReplayBuffer) -> None:
        ring.remove_table(step["table"])

    # Writers.

    def do_writer(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        timeout = PATIENCE * step.get("patient", 0)
        made = ring.writer(step["lanes"], step.get("mode"), timeout=timeout)
        schema = next(name for name in SCHEMAS if bc.Schema(SCHEMAS[name]) == ring.schema)
        self.writers[step["w"]] = made, schema
        return {"lanes": made.lanes.tolist(), "mode": made.autoreset_mode}

    def do_append(self, step: Step, _: None) -> Outcome:
        writer, schema = self.writers[step["w"]]
        said = Given(step["obs"], step["end"], step.get("next"), step.get("final"))
        given = arguments(schema, said)
        if len(step["obs"]) == 1 and step.get("plain"):
            given = without_axis(given)
        wrong = {
            "unknown": {"rewards": given["reward"]},
            "shape": {"terminated": np.zeros(len(step["obs"]) + 1, bool)},
            "dtype": {"reward": given["reward"].astype("c16")},
        }
        given |= wrong.get(step.get("bad", ""), {})
        if step.get("bad") == "missing":
            del given["reward"]
        return {"index": pairs(writer.append(**given))}

    def do_extend(self, step: Step, _: None) -> Outcome:
        writer, schema = self.writers[step["w"]]
        steps = steps_of(step, schema, len(writer.lanes), writer.autoreset_mode)
        if step.get("how") == "append":
            return {
                "index": [i for n in steps for i in pairs(writer.append(**arguments(schema, n)))]
            }
        shape = (len(steps), len(writer.lanes))
        parts: list[Any] = [
            None if part[0] is None else np.array(part, np.int64).reshape(shape)
            for part in (zip(*steps, strict=True) if steps else [[np.zeros(0)]] * 2)
        ]
        return {"index": pairs(writer.extend(**arguments(schema, Given(*parts))))}

    def do_reserve(self, step: Step, _: None) -> Outcome:
        writer, schema = self.writers[step["w"]]
        how, token = step["how"], np.array(step["obs"])
        with contextlib.suppress(GiveUpError), writer.reserve() as row:
            for name in OBS[schema] + STEP[schema]:
                if how == "partly" and name == "reward":
                    continue
                if token % 2:
                    row[name] = column(schema, name, token)
                else:
                    row[name][...] = column(schema, name, token)
            row.terminated, row.truncated = bool(step["end"] & 1), bool(step["end"] & 2)
            if step.get("next"):
                row.next_obs = observation(schema, step["next"])
            if step.get("final"):
                row.final_obs = observation(schema, step["final"])
            if how == "raise":
                raise GiveUpError
            if how == "abort":
                row.abort()
        if how != "commit":
            return {}
        return {"index": pairs(np.array([-1 if row.index is None else row.index]))}

    def do_restart(self, step: Step, _: None) -> None:
        self.writers[step["w"]][0].restart(step.get("lanes"))

    def do_close_writer(self, step: Step, _: None) -> Outcome:
        writer, _schema = self.writers.pop(step["w"])
        counts: Outcome = {"rows_written": writer.rows_written, "rows_dropped": writer.rows_dropped}
        if step.get("how") == "del":
            del writer
            return counts
        try:
            writer.close()
        except bc.BackcastError as error:
            counts |= {"error": type(error).__name__, "message": str(error)}
        return counts

    # Samplers and tables.

    def do_sampler(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        options = options_of(step["options"])
        if step["options"].get("transform"):
            options["transform"] = self.tags[step["s"]] = Tag()
        made = self.samplers[step["s"]] = ring.sampler(seed=step.get("seed"), **options)
        if not isinstance(made.select, (bc.Priority, bc.Largest, bc.Smallest)):
            return {}
        tables = {table["name"]: table["lane_rows"] for table in ring.stats()["tables"]}
        return {"lane_rows": tables[made.select.table]}

    def do_sample(self, step: Step, _: None) -> Outcome:
        sampler, key = self.samplers[step["s"]], f"{step['s']}-{step['batch']}"
        # The draw adds all keys to an empty dict.
        out: Any = {"again": self.batches.get(key), "dict": {}}.get(step.get("into", ""))
        found: Outcome = {}
        if step.get("fails"):
            tag = self.tags[step["s"]]
            tag.fails = True
            try:
                sampler.sample(step["batch"], timeout=0)
            except GiveUpError:
                failed = tag.seen
            finally:
                tag.fails = False
        drawn = sampler.sample(step["batch"], out, timeout=PATIENCE * step.get("patient", 0))
        assert out is None or drawn is out
        if step.get("into") == "again":
            self.batches[key] = drawn
        if step.get("fails"):
            found["repeats"] = np.array_equal(drawn["index"], failed)
        return found | {"batches": [arrays_of(drawn)], "sampled": sampler.sampled}

    def do_batches(self, step: Step, _: None) -> Outcome:
        sampler, reuse = self.samplers[step["s"]], step.get("reuse", False)
        asked = {"limit": step["count"], "reuse": reuse, "timeout": 0}
        with sampler.batches(step["batch"], step["prefetch"], **asked) as ahead:
            drawn = [arrays_of(batch) for batch in ahead]
        return {"batches": drawn, "sampled": sampler.sampled}

    def do_news(self, step: Step, _: None) -> Outcome:
        sampler, asked = self.samplers[step["s"]], {k: step[k] for k in ("at_most",) if k in step}
        drawn = sampler.sample(step.get("batch"), timeout=0, **asked)
        return {"batches": [arrays_of(drawn)], "sampled": sampler.sampled}

    def do_block(self, step: Step, _: None) -> Outcome:
        sampler = self.samplers[step["s"]]
        block = sampler.block(step["batch"], timeout=0)
        found = {name: getattr(block, name) for name in BLOCK}
        return found | {"batch": arrays_of(block.batch), "q": block.q, "sampled": sampler.sampled}

    def do_gather(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        options = step.get("options", {})
        return {"batch": arrays_of(ring.gather(index_of(step), missing=step["missing"], **options))}

    def do_gather_by(self, step: Step, _: None) -> Outcome:
        index, key = index_of(step), f"{step['s']}-{len(step['index'])}"
        out: Any = {"again": self.batches.get(key), "dict": {}}.get(step.get("into", ""))
        found = self.samplers[step["s"]].gather(index, missing=step["missing"], out=out)
        assert out is None or found is out
        if step.get("into") == "again":
            self.batches[key] = found
        return {"batch": arrays_of(found)}

    def do_sample_once(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        options = step.get("options", {})
        return {"batch": arrays_of(ring.sample(step["batch"], timeout=0, **options))}

    def do_state(self, step: Step, _: None) -> Outcome:
        return {"state": json.loads(json.dumps(self.samplers[step["s"]].state()))}

    def do_from_state(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        transform = Tag() if step.get("transform") else None
        with ring.sampler(state=step["state"], transform=transform) as sampler:
            return {"batch": arrays_of(sampler.sample(step["batch"], timeout=0))}

    def do_shares(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        options, count, world = options_of(step["options"]), step["count"], step["world"]

        def draw(count: int, **more: Any) -> list[Arrays]:
            with ring.sampler(seed=step["seed"], **options, **more) as sampler:
                return [arrays_of(sampler.sample(step["batch"], timeout=0)) for _ in range(count)]

        parts = [draw(count, share=(rank, world)) for rank in range(world)]
        shared = [parts[n % world][n // world] for n in range(count * world)]
        return {"alone": draw(count * world), "shared": shared}

    def do_close_sampler(self, step: Step, _: None) -> None:
        self.samplers.pop(step["s"]).close()

    def do_update(self, step: Step, _: None) -> Outcome:
        sampler, priority = self.samplers[step["s"]], np.array(step["priority"], float)
        if not step.get("windows"):
            return {"dropped": sampler.update_priorities(index_of(step), priority)}
        # All valid places have one priority, which is then also the mixed one.
        given = np.repeat(priority[:, None], 3, 1)
        given[:, 0] = 99.0
        mask = np.broadcast_to([False, True, True], given.shape)
        return {"dropped": sampler.update_priorities(index_of(step), given, mask=mask)}

    def do_table(self, step: Step, ring: bc.ReplayBuffer) -> Outcome:
        names = step.get("columns")
        learned = {name: LEARNED[name] for name in names} if names else None
        made = self.learned[step["t"]] = ring.table(step["name"], learned=learned)
        return {"columns": made.columns}

    def do_set_values(self, step: Step, _: None) -> Outcome:
        given = {n: np.array(one).astype(LEARNED.get(n, "f4")) for n, one in step["values"].items()}
        return {"dropped": self.learned[step["t"]].update_values(index_of(step), **given)}

    def do_get_values(self, step: Step, _: None) -> Outcome:
        index = index_of(step)
        return {"values": dict(self.learned[step["t"]].values(index)) | {"index": index}}


def answer_of_child(ask: Callable[[], Outcome]) -> Outcome:
    """Fork a child, and return what it answers."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(into, json.dumps(ask()).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as pipe:
        ready, _, _ = select.select([pipe], [], [], CHILD_TIME)
        answer = pipe.read() if ready else ""
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said: Outcome = json.loads(answer or '{"error": "no answer"}')
    return said


def used(tries: dict[str, Callable[[], object]]) -> list[str]:
    """Return the calls that do not raise the error about a fork."""
    found = []
    for name, call in tries.items():
        try:
            call()
        except bc.BackcastError as error:
            if "fork" not in str(error):
                found.append(f"{name}: {error}")
        else:
            found.append(name)
    return found


def counted(names: list[str], place: Path) -> dict[str, int]:
    """Attach rings by name, and return their numbers of transitions."""
    found = {}
    for name in names:
        with bc.ReplayBuffer.attach(name, dir=place) as ring:
            found[name] = len(ring)
    return found


def emptied(place: Path) -> list[str]:
    """Return what is left in a directory of shared objects, and remove it."""
    left = bc.list_objects(dir=place)
    if left:
        # Killed processes leave rings, and cycles of references keep handles.
        gc.collect()
        bc.collect_garbage(dir=place)
        left = bc.list_objects(dir=place)
    shutil.rmtree(place, ignore_errors=True)
    return [str(entry["name"]) for entry in left]
