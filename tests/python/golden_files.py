"""Writes the files that a version leaves on disk, and the values that they hold.

    python tests/python/golden_files.py tests/golden/files/NAME

Run it with the version whose files are to be kept, then commit the folder. Tests check that later
versions read these files. The program uses the public API only.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

DTYPES = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
PLAIN: dict[str, Any] = {"obs": ("f4", (3,)), "action": "u1", "reward": "f4"}
NESTED: dict[str, Any] = {
    "obs": {"image": ("u1", (3, 2)), "near": ("bool", (5,)), "speed": "f4"},
    "action": ("f8", (2,)),
    **{code: code for code in DTYPES},
    "reward": "f8",
}
SAMPLERS: dict[str, dict[str, Any]] = {
    "plain": {"seed": 7},
    "windows": {"seed": 2**64 - 1, "history": 4, "future": 3},
    "rejecting": {"seed": 1, "history": 5, "boundary": "reject"},
    "returns": {"seed": 0, "n_step": 3, "gamma": 0.97, "boundary": "clamp", "copy": True},
}
DAEMON = "import sys; from backcast.cli import main; sys.exit(main(sys.argv[1:]))"


def values(draw: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw random values of a dtype."""
    if dtype.kind == "b":
        return draw.random(shape) < 0.5
    if dtype.kind == "f":
        return draw.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    return draw.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def step_of(columns: Any, draw: np.random.Generator, lanes: int) -> Any:  # noqa: ANN401
    """Draw one step of some lanes, nested as the columns are."""
    if isinstance(columns, dict):
        return {name: step_of(column, draw, lanes) for name, column in columns.items()}
    code, shape = (columns, ()) if isinstance(columns, str) else columns
    return values(draw, np.dtype(code), (lanes, *shape))


def play(writer: bc.Writer, columns: dict[str, Any], steps: int, seed: int) -> None:
    """Append steps; episodes differ in length by lane, and end in both ways."""
    draw = np.random.default_rng(seed)
    lanes = len(writer.lanes)
    ages, lengths = np.zeros(lanes, int), 7 + np.arange(lanes) * 3
    for _ in range(steps):
        ages += 1
        ends, flips = ages == lengths, draw.random(lanes) < 0.5
        step = step_of(columns, draw, lanes)
        final = {}
        if writer.autoreset_mode == "same_step":
            final["final_obs"] = step_of(columns["obs"], draw, lanes)
        writer.append(**step, terminated=ends & flips, truncated=ends & ~flips, **final)
        if writer.autoreset_mode == "next_step":
            # The row after an end holds the final observation, and counts to the same episode.
            ages[ages > lengths] = 0
        else:
            ages[ends] = 0


def flat(nested: Any, under: str = "") -> Arrays:  # noqa: ANN401
    """Return nested arrays by their paths."""
    if isinstance(nested, dict):
        parts: Iterator[tuple[Any, Any]] = iter(nested.items())
    elif isinstance(nested, tuple | list):
        parts = iter(enumerate(nested))
    else:
        return {under: np.asarray(nested)}
    found: Arrays = {}
    for name, part in parts:
        found |= flat(part, f"{under}/{name}" if under else str(name))
    return found


def content(buf: bc.ReplayBuffer) -> Arrays:
    """Return every row of a ring, by lane and column."""
    found: Arrays = {"lane_capacity": np.asarray(buf.lane_capacity)}
    for lane in range(buf.lanes):
        first, head = buf.lane_span(lane)
        found[f"lane {lane}/span"] = np.asarray([first, head])
        found |= flat(buf.rows(lane, first, head - first), f"lane {lane}")
    return found


def coming(buf: bc.ReplayBuffer) -> dict[str, Any]:
    """Draw with several samplers; return their states and the indices of their next batches."""
    found = {}
    for name, settings in SAMPLERS.items():
        with buf.sampler(**settings) as sampler:
            for _ in range(3):
                sampler.sample(16)
            state = sampler.state()
            found[name] = {
                "state": state,
                "index": [sampler.sample(16).index.tolist() for _ in range(2)],
            }
    return found


def keep(folder: Path, name: str, arrays: Arrays) -> None:
    """Write the expected content of one file."""
    (folder / "expected").mkdir(exist_ok=True)
    np.savez_compressed(folder / "expected" / f"{name}.npz", **arrays)  # type: ignore[arg-type]


def write_plain(folder: Path, place: Path) -> None:
    """Save one lane twice: the second snapshot shares the first one's file."""
    with bc.ReplayBuffer.create("plain", PLAIN, capacity=200, dir=place) as buf:
        with buf.writer(1, autoreset_mode="next_step") as writer:
            play(writer, PLAIN, 60, seed=1)
            buf.snapshot("one", store=folder / "store")
            buf.export(folder / "plain-v0")
            keep(folder, "plain@one", content(buf))
            play(writer, PLAIN, 30, seed=2)
        generator = np.random.PCG64(5).state
        buf.snapshot("two", store=folder / "store", state={"generator": generator, "step": 90})
        keep(folder, "plain@two", content(buf))


def write_dtypes(folder: Path, place: Path) -> None:
    """Save and export columns of every dtype, nested."""
    with bc.ReplayBuffer.create("dtypes", NESTED, capacity=100, lanes=2, dir=place) as buf:
        with buf.writer(2, autoreset_mode="same_step") as writer:
            play(writer, NESTED, 40, seed=3)
        buf.snapshot("all", store=folder / "store")
        buf.export(folder / "dtypes.parquet")
        keep(folder, "dtypes", content(buf))


def write_lanes(folder: Path, place: Path) -> None:
    """Save and export five lanes that were overwritten, restarted and taken over."""
    with bc.ReplayBuffer.create("lanes", PLAIN, capacity=5 * 64, lanes=5, dir=place) as buf:
        with buf.writer(3, autoreset_mode="same_step") as writer:
            play(writer, PLAIN, 90, seed=4)
            writer.restart(np.array([True, False, False]))
            play(writer, PLAIN, 20, seed=5)
        # Lanes of a writer that ended in mid-episode continue with a gap; the last lane stays
        # empty.
        with buf.writer(4, autoreset_mode="next_step") as writer:
            play(writer, PLAIN, 25, seed=6)
        with buf.writer(1, autoreset_mode="disabled") as writer:
            assert writer.lanes.tolist() == [0]
        samplers = coming(buf)
        buf.snapshot("all", store=folder / "store", state={"samplers": samplers})
        (folder / "samplers.json").write_text(json.dumps(samplers, indent=1) + "\n")
        buf.export(folder / "lanes.parquet")
        buf.export(folder / "lanes.csv")
        keep(folder, "lanes", content(buf))


@contextmanager
def serving(place: Path, *flags: str) -> Iterator[None]:
    """Run a daemon for a directory."""
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, "--json", "serve", *flags],
        env=os.environ | {"BACKCAST_DIR": str(place)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert daemon.stdout is not None
        assert select.select([daemon.stdout], [], [], 60)[0], "it prints nothing"
        json.loads(daemon.stdout.readline())
        yield
        daemon.terminate()
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        daemon.communicate(timeout=60)


def write_kept(folder: Path, place: Path) -> None:
    """Have a daemon persist a ring continuously, and save a named snapshot of it."""
    store = folder / "daemon-store"
    flags = ("--interval", "100ms", "--persist-flush", "50ms", "--persist-store", str(store))
    with serving(place, *flags), bc.Client.connect(place) as client:
        saving = client.options(persist="continuous")
        how: dict[str, Any] = {"capacity": 100, "lanes": 2, "persistent": True}
        with bc.ReplayBuffer.create("kept", PLAIN, daemon=saving, **how) as buf:
            with buf.writer(2, autoreset_mode="same_step") as writer:
                play(writer, PLAIN, 40, seed=7)
            client.save_snapshot("kept", "mine")
            keep(folder, "kept", content(buf))
            rows = client.stats("kept")["rows_published"]
        while client.stats("kept")["persist"]["persisted_rows"] < rows:
            pass
    bc.remove_object("kept", force=True, dir=place)


def write_steps(folder: Path) -> None:
    """Write steps as plain NumPy arrays, as other programs do."""
    draw = np.random.default_rng(8)
    seen = draw.normal(size=(5, 11, 3)).astype("f4")
    steps: Arrays = {
        "observations": seen[:, :-1].reshape(50, 3),
        "actions": draw.integers(0, 4, 50),
        "rewards": draw.normal(size=50).astype("f4"),
        "terminals": np.arange(50) % 10 == 9,
        "next_observations": seen[:, 1:].reshape(50, 3),
    }
    np.savez(folder / "steps.npz", **steps)  # type: ignore[arg-type]


def write_market(path: Path) -> None:
    """Write a market of 30 days: one ticker is listed late, one has a gap."""
    draw = np.random.default_rng(9)
    lines = ["date,tic,open,high,low,close,volume,zeta,alpha"]
    for ticker in ["AAA", "BBB", "CCC", "VIX"]:
        close = 50 * np.exp(np.cumsum(draw.normal(0, 0.03, 30)))
        for day in range(30):
            opening = close[day] * np.exp(draw.normal(0, 0.01))
            high, low = max(opening, close[day]) * 1.01, min(opening, close[day]) * 0.99
            shown = [opening, high, low, close[day], 1000.0, draw.normal(), draw.normal()]
            if (ticker == "CCC" and day < 5) or (ticker, day) == ("AAA", 20):
                continue
            cells = [repr(float(value)) for value in shown]
            lines.append(",".join([str(date(2020, 1, 1) + timedelta(days=day)), ticker, *cells]))
    path.write_text("\n".join(lines) + "\n")


def transitions_env(folder: Path) -> ff.VecFastFinRL:
    """Make the environments whose transitions are saved."""
    return ff.VecFastFinRL(
        folder / "market.csv", 4, return_format="vec", macro_tickers=["VIX"], num_tickers=2
    )


def write_transitions(folder: Path) -> None:
    """Save buffers of trading transitions, with one reward and with three, and a tokenizer."""
    env = transitions_env(folder)
    draw = np.random.default_rng(10)
    for name, rewards in (("transitions", 1), ("objectives", 3)):
        buffer = ff.VecReplayBuffer(env, 40, n_objectives=rewards)
        state = env.reset(seed=1)
        for _ in range(15):
            actions = draw.uniform(-1, 1, (4, 2))
            after = env.step(actions)
            reward = after["reward"] if rewards == 1 else draw.normal(size=(4, rewards))
            buffer.add(state, actions, reward, after, after["done"])
            state = after
        buffer.sample(5)
        buffer.save(folder / f"{name}.bct")
        keep(folder, name, flat(buffer.sample(12, 3, 2)))
    tokens = ff.TickerTokenizer(["AAPL", "MSFT", "BRK.B"])
    tokens.save(folder / "tokens.json")


def write(folder: Path) -> None:
    """Write all files of a version."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
        place = Path(shared)
        write_plain(folder, place)
        write_dtypes(folder, place)
        write_lanes(folder, place)
        write_kept(folder, place)
    write_steps(folder)
    write_market(folder / "market.csv")
    write_transitions(folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
