"""Command line of the demo."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_EXAMPLES = """\
examples:
  python -m backcast.demo                          30 seconds, 4 actors x 8 markets
  python -m backcast.demo --kill                   kill an actor half-way; a successor takes over
  python -m backcast.demo --seconds 5 --actors 2   a short one, which learns less

It needs both halves of the package: replay for rows and weights, markets to trade in.
Exit status: 0 done, 1 something failed or was found wrong, 2 wrong usage, 128 plus the number of a
signal that stopped it.
"""


@dataclass(frozen=True)
class Options:
    """Options of one run of the demo."""

    seconds: float = 30.0
    actors: int = 4
    envs: int = 8
    capacity: int = 262_144
    kill: bool = False
    out: Path = Path("out")
    seed: int = 0


def _within(kind: type[int] | type[float], low: int, high: int) -> Callable[[str], float]:
    """Return a reader of numbers from `low` to `high`."""
    noun = "a whole number" if kind is int else "a number"

    def read(text: str) -> float:
        try:
            value = kind(text.replace("_", ""))
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            wrong = f"{text!r} is not {noun} from {low} to {high}; give one that is"
            raise argparse.ArgumentTypeError(wrong)
        return value

    return read


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a file, not a folder; give a folder")
    return path


def parse(argv: Sequence[str] | None = None) -> Options:
    """Read the command line; exit with status 2 and a reason if it is not valid."""
    default = Options()
    parser = argparse.ArgumentParser(
        prog="backcast demo",
        description="Actor processes trade in simulated markets and append every step to a ring.\n"
        "A learner improves their policy from it, and a test says by how much. Writes\n"
        "OUT/demo.json and OUT/demo.png and leaves nothing else behind.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # A typo such as `--kil` must not kill an actor.
        allow_abbrev=False,
    )

    def add(name: str, reader: Callable[[str], object], help: str, metavar: str = "N") -> None:
        usual = getattr(default, name)
        text = f"{help} (default: {usual:g})" if name != "out" else f"{help} (default: {usual})"
        parser.add_argument(f"--{name}", type=reader, default=usual, metavar=metavar, help=text)

    add("seconds", _within(float, 1, 86_400), "seconds to learn")
    add("actors", _within(int, 1, 256), "processes")
    add("envs", _within(int, 1, 1024), "markets of each of them")
    add("capacity", _within(int, 4096, 1 << 32), "rows of the ring, about 250 bytes each", "ROWS")
    add("seed", _within(int, 0, 2**31 - 1), "seed of everything but timing")
    add("out", _folder, "folder of the results", "DIR")
    parser.add_argument("--kill", action="store_true", help="SIGKILL an actor half-way")
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        near = difflib.get_close_matches(unknown[0].partition("=")[0].strip("-"), vars(given), 1)
        hint = f"did you mean --{near[0]}?" if near else "`backcast demo --help` lists them"
        parser.error(f"there is no option {unknown[0]!r}; {hint}")
    lanes = given.actors * given.envs
    many = f"--actors {given.actors} x --envs {given.envs} is {lanes} lanes"
    if lanes > 4096:
        parser.error(f"{many}; a ring has at most 4096")
    if given.capacity < 64 * lanes:
        least = f"give at least {64 * lanes}, 64 rows each"
        parser.error(f"{many}, and --capacity is {given.capacity} rows; {least}")
    return Options(**vars(given))
