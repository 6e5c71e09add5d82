"""The Python side of ``cross_language.rs``: writes rows, or checks and samples those of Rust.

Every value follows from lane and sequence number by the rules of ``tests/src/peer.rs``.
"""

import sys
import zlib
from collections.abc import Iterator
from typing import Any, Literal, cast

import backcast as bc
import numpy as np
from numpy.typing import NDArray

CODES = ("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "bfloat16")
SCHEMA = {
    "obs": {"x": ("f4", (3,)), "n": "u8"},
    "every": {code: code for code in CODES},
    "reward": "f4",
}
FINAL = 4
SCRAMBLE = np.uint64(0x9E37_79B9_7F4A_7C15)

Array = NDArray[Any]
Mode = Literal["next_step", "same_step", "disabled"]


def number(lane: Array, seq: Array) -> Array:
    """Return the number from which every value of a row follows."""
    return lane.astype(np.uint64) * np.uint64(1_000_003) + seq.astype(np.uint64) * np.uint64(31)


def observation(n: Array) -> dict[str, Array]:
    """Make the observation columns of some rows."""
    steps = (n % np.uint64(1 << 20)).astype("f4")
    return {"x": np.stack([steps, steps + 1, steps + 2], axis=-1), "n": n}


def bits_of(values: Array) -> Array:
    """Return the bfloat16 bits of float32 values that bfloat16 holds exactly."""
    return (values.view("u4") >> 16).astype("u2")


def every(n: Array) -> dict[str, Array]:
    """Make one column of each dtype."""
    scrambled = n * SCRAMBLE
    return {
        "bool": n % 2 == 1,
        "u1": (n % 251).astype("u1"),
        "u2": (n % 65_521).astype("u2"),
        "u4": (scrambled % 4_294_967_291).astype("u4"),
        "u8": scrambled,
        "i1": ((n % 251).astype("i8") - 125).astype("i1"),
        "i2": ((n % 65_521).astype("i8") - 32_760).astype("i2"),
        "i4": ((scrambled % (1 << 31)).astype("i8") - (1 << 30)).astype("i4"),
        "i8": scrambled.view("i8"),
        "f2": ((n % 2_048).astype("f8") / 8).astype("f2"),
        "f4": ((n % (1 << 24)).astype("f8") / 16).astype("f4"),
        "f8": n.astype("f8") / 3,
        "bfloat16": bits_of((n % 256).astype("f4") / 8),
    }


def reward(n: Array) -> Array:
    """Make the reward column; never zero."""
    return (n % 1000 + 1).astype("f4")


def write(buf: bc.ReplayBuffer, mode: Mode, lanes: int, steps: int) -> None:
    """Append episodes of different lengths to each lane."""
    with buf.writer(lanes=lanes, autoreset_mode=mode) as writer:
        numbers = writer.lanes
        for step in range(steps):
            heads = np.array([buf.lane_span(int(lane))[1] for lane in numbers])
            n = number(numbers, heads)
            place = np.arange(lanes)
            terminated, truncated = step % (5 + place) == 4, step % (7 + place) == 3
            final = None if mode == "next_step" else observation(number(numbers, heads + 1))
            index = writer.append(
                obs=observation(n), every=every(n), reward=reward(n),
                terminated=terminated, truncated=truncated, final_obs=final,
            )  # fmt: skip
            assert (index == (numbers << 48 | heads)).all(), index


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Yield the arrays of a nested dictionary under their full names."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def check(buf: bc.ReplayBuffer) -> int:
    """Compare every readable row with the expected one; return the number of rows."""
    rows_checked = 0
    for lane in range(buf.lanes):
        start, end = buf.lane_span(lane)
        rows = dict(flat(buf.rows(lane, start, end - start)))
        seq = np.arange(start, end, dtype=np.uint64)
        assert (rows["seq"] == seq).all()
        n = number(np.full(len(seq), lane), seq)
        final = rows["flags"] & FINAL != 0
        expected = dict(flat({"obs": observation(n)}))
        steps = flat({"every": every(n), "reward": reward(n)})
        expected.update({key: np.where(final, np.zeros_like(v), v) for key, v in steps})
        for key, values in expected.items():
            if key == "every/bfloat16":
                rows[key] = rows[key].view("u2")  # a dtype of ml_dtypes, if that is installed
            assert rows[key].dtype == values.dtype, (key, rows[key].dtype, values.dtype)
            assert (rows[key] == values).all(), (lane, key)
        rows_checked += len(seq)
    return rows_checked


def sample(buf: bc.ReplayBuffer) -> None:
    """Print what seeded samplers draw: the indices, and a checksum of every array."""
    settings: list[dict[str, Any]] = [
        {},
        {"history": 4},
        {"future": 3},
        {"history": 4, "future": 3},
        {"n_step": 3, "gamma": 0.9},
        {"history": 4, "future": 3, "n_step": 5, "gamma": 0.9, "boundary": "clamp"},
        {"history": 2, "future": 2, "n_step": 2, "gamma": 0.5, "boundary": "reject"},
        {"history": 2, "copy": True, "boundary": "clamp"},
    ]
    for keywords in settings:
        sampler = buf.sampler(seed=7, **keywords)
        for batch in sampler.batches(64, prefetch=2, limit=3):
            print("index", *batch.index)
            for key, values in sorted(flat(batch)):
                print(key, *values.shape, zlib.crc32(np.ascontiguousarray(values).tobytes()))


def main(role: str, directory: str, name: str, mode: Mode, lanes: int, steps: int) -> None:
    """Play one role; ``host`` keeps the ring until its standard input ends."""
    if role == "write":
        with bc.ReplayBuffer.attach(name, dir=directory) as buf:
            write(buf, mode, lanes, steps)
            sample(buf)
        return
    with bc.ReplayBuffer.create(name, SCHEMA, capacity=5 * 1000, lanes=5, dir=directory) as buf:
        write(buf, mode, lanes, steps)
        print("ready", flush=True)
        sys.stdin.readline()  # Rust has written
        print("checked", check(buf))
        sample(buf)
        print("end", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _, role, directory, name, mode, lanes, steps = sys.argv
    main(role, directory, name, cast(Mode, mode), int(lanes), int(steps))
