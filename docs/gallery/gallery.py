"""Draw the picture of an example from what it printed, and check that a picture is not stale.

    python examples/resume.py | python docs/gallery/gallery.py resume

The picture is written beside this script. It carries the checksum of the example, so a test sees
that an example has changed since. Tests that run an example draw it again, and with
BACKCAST_WRITE_GALLERY=1 they write what they drew.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
LOOK: Any = {"svg.hashsalt": "backcast", "svg.fonttype": "none", "font.size": 9}
INK, LIGHT = "#2a6f97", "#a9c9dd"

#: Lines with a step and a score, and what the score is called.
CURVES = {
    "dqn_actors": "return",
    "impala_fleet": "return",
    "notebook": "mean return",
    "ppo_fleet": "return",
    "python_actors_rust_learner": "error",
    "r2d2_actors": "goals found, of 100",
    "ray_dqn": "return",
    "rust_actor_python_learner": "error",
    "sac_actors": "return",
}
POINT = re.compile(r"^(\d+)(?: updates| blocks)?: (?:return |error )?(-?[\d.]+)", re.M)

#: Patterns of numbers, the names of these numbers, and what they are.
BARS = {
    "blind_cliffwalk": (
        r"(\d+) uniform, (\d+) by priority",
        ("drawn uniformly", "by priority"),
        "updates until the values are right",
    ),
    "gym_collect": (
        r"next_step: (\d+).*?same_step: (\d+).*?disabled : (\d+)",
        ("next_step", "same_step", "disabled"),
        "transitions of 4,000 steps",
    ),
    "her_gridworld": (
        r"(\d+)% with plain replay, (\d+)% with hindsight",
        ("plain replay", "hindsight"),
        "test episodes that reach the goal, %",
    ),
    "ppo_trading": (
        r"learned ([-+][\d.]+)%, holding ([-+][\d.]+)%",
        ("learned", "holding"),
        "return of test episodes, %",
    ),
    "quickstart": (
        r"(\d+) transitions.*?, (\d+)/(\d+) transitions",
        ("written by a worker", "read by name", "capacity"),
        "transitions",
    ),
    "resume": (
        r"after (\d+) updates.*?(\d+) updates again with equal draws; then (\d+) more",
        ("before the kill", "again, equal draws", "after it"),
        "updates",
    ),
    "cleanrl/dqn_arrays": (r"episodes: (\d+)", ("CleanRL's arrays",), "mean return"),
    "cleanrl/dqn_ring": (r"episodes: (\d+)", ("ring",), "mean return"),
    "rust_learner": (
        r"(\d+) of (\d+) places hold",
        ("with a transition", "all"),
        "places in the windows of a batch, sampled in Rust",
    ),
}

#: Tables of policies with returns and their intervals.
TABLES = ("finrl_dow30_sb3", "walk_forward")
ROW = re.compile(r"^(\w+) +(-?[\d.]+)% \[(-?[\d.]+)%, (-?[\d.]+)%\]", re.M)


def draw(name: str, said: str) -> Figure:
    """Return the picture of what an example printed; raise ValueError if it lacks the numbers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    if name in CURVES:
        points = [(int(step), float(score)) for step, score in POINT.findall(said)]
        if not points:
            raise ValueError(f"{name} printed no line with a step and a score:\n{said}")
        axes.plot(*zip(*points, strict=True), marker="o", color=INK)
        axes.set(xlabel="blocks" if "blocks" in said else "updates", ylabel=CURVES[name])
        axes.set_xlim(left=0)
    elif name in BARS:
        pattern, labels, what = BARS[name]
        found = re.search(pattern, said, re.S)
        if found is None:
            raise ValueError(f"{name} printed no {what}:\n{said}")
        bars = axes.barh(labels, [float(number) for number in found.groups()], color=INK)
        axes.bar_label(bars, found.groups(), padding=3)
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set(xlabel=what)
    else:
        rows = ROW.findall(said)
        if name not in TABLES or not rows:
            raise ValueError(f"{name} printed no table of policies:\n{said}")
        for at, (_, middle, low, high) in enumerate(rows):
            axes.plot([float(low), float(high)], [at, at], color=LIGHT, linewidth=5)
            axes.plot(float(middle), at, "o", color=INK)
        axes.set_yticks(range(len(rows)), [row[0] for row in rows])
        axes.invert_yaxis()
        axes.set(xlabel="return in per cent, with its 95 % interval")
    return figure


def picture_of(name: str) -> Path:
    """Return the place of an example's picture."""
    return HERE / f"{name.replace('/', '_')}.svg"


def checksum(name: str) -> str:
    """Return a checksum of the programs of an example: of a file, or of all files of a folder."""
    folder = EXAMPLES / name
    files = sorted(folder.iterdir()) if folder.is_dir() else sorted(EXAMPLES.glob(f"{name}.*"))
    files = [path for path in files if path.is_file()]
    if not files:
        raise ValueError(f"there is no example {name}")
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def is_of_today(name: str) -> bool:
    """Return whether an example has a picture that was drawn since the example last changed."""
    path = picture_of(name)
    return path.is_file() and f"example {checksum(name)}" in path.read_text(encoding="utf-8")


def stamp(name: str, path: Path) -> None:
    """Add the checksum of its example to a picture, and keep it in the gallery if asked to."""
    lines = [line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
    text = "\n".join([*lines, f"<!-- example {checksum(name)} -->\n"])
    path.write_text(text, encoding="utf-8")
    if os.environ.get("BACKCAST_WRITE_GALLERY"):
        picture_of(name).write_text(text, encoding="utf-8")


def drawn(name: str, said: str, folder: Path) -> Path:
    """Draw what an example printed into a folder; return the picture's place."""
    import matplotlib as mpl

    path = folder / picture_of(name).name
    with mpl.rc_context(LOOK):
        draw(name, said).savefig(path, metadata={"Date": None})
    stamp(name, path)
    return path


def drawn_if_possible(name: str, said: str, folder: Path) -> None:
    """Draw what an example printed, unless Matplotlib is not installed."""
    if find_spec("matplotlib") is not None:
        drawn(name, said, folder)


if __name__ == "__main__":
    drawn(sys.argv[1], sys.stdin.read(), HERE)
