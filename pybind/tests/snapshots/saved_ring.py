"""A ring with a column of every dtype, and a comparison of two rings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np

DTYPES = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
COLUMNS: dict[str, Any] = {
    "obs": {"image": ("u1", (3, 2)), "near": ("bool", (5,)), "speed": "f4"},
    **{code: code for code in DTYPES},
    "reward": "f8",
}


def append(writer: bc.Writer, steps: int, seed: int) -> None:
    """Append steps of two lanes; each seventh ends an episode, terminated and truncated in turn."""
    draw = np.random.default_rng(seed)

    def of(code: str, *shape: int) -> np.ndarray[Any, Any]:
        dtype = np.dtype(code)
        if dtype.kind == "b":
            return draw.random((2, *shape)) < 0.5
        if dtype.kind == "f":
            return draw.normal(size=(2, *shape)).astype(dtype)
        limits = np.iinfo(dtype)
        return draw.integers(limits.min, limits.max, (2, *shape), dtype, endpoint=True)

    for step in range(steps):
        writer.append(
            obs={"image": of("u1", 3, 2), "near": of("bool", 5), "speed": of("f4")},
            **{code: of(code) for code in DTYPES},
            # The step after an end only resets: a reward there would be a `WriterWarning`.
            reward=of("f8") if step % 7 else np.zeros(2),
            terminated=np.full(2, step % 14 == 6),
            truncated=np.full(2, step % 14 == 13),
        )


def ring(
    dir: Path, steps: int = 100, *, name: str = "walk", capacity: int = 400
) -> bc.ReplayBuffer:
    """Make a ring of two lanes with some steps in each."""
    made = bc.ReplayBuffer.create(name, COLUMNS, capacity=capacity, lanes=2, dir=dir)
    with made.writer(2, "next_step") as writer:
        append(writer, steps, seed=1)
    return made


def flat(rows: dict[str, Any], under: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Name nested columns by their paths."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, values in rows.items():
        nested = isinstance(values, dict)
        found |= flat(values, f"{under}{name}/") if nested else {f"{under}{name}": values}
    return found


def content(buf: bc.ReplayBuffer) -> dict[str, Any]:
    """Return the schema and every readable row: spans, dtypes, shapes and bytes."""
    found: dict[str, Any] = {"schema": buf.schema, "lane_capacity": buf.lane_capacity}
    for lane in range(buf.lanes):
        first, head = buf.lane_span(lane)
        rows = flat(buf.rows(lane, first, head - first))
        found[f"rows of lane {lane}"] = (first, head)
        found |= {f"{lane} {key}": (v.dtype.str, v.shape, v.tobytes()) for key, v in rows.items()}
    return found
