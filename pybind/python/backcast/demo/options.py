"""Command line of the demo."""

from __future__ import annotations

import argparse
import difflib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_LANES = 4096

_EXAMPLES = """\
examples:
  python -m backcast.demo                          30 seconds, 4 actors x 8 environments
  python -m backcast.demo --kill                   kill an actor half-way; a successor takes over
  python -m backcast.demo --seconds 5 --actors 2   a short one
  python -m backcast.demo --panel mine.csv --macro VIX
  python -m backcast.demo --world trading          simulated markets, in which holding is beaten

FILE.csv is in long format: date,tic,open,high,low,close,volume and any further numeric columns.
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
    panel: Path | None = None
    macro: tuple[str, ...] = ()
    kill: bool = False
    out: Path = Path("out")
    seed: int = 0
    world: Literal["portfolio", "trading"] = "portfolio"

    @property
    def lanes(self) -> int:
        """Return the number of lanes, one for each environment."""
        return self.actors * self.envs


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text.replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number; give {low} to {high}"
            ) from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{value} is not within {low} .. {high}; give one that is"
            )
        return value

    return parse


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds; give 1 to 86400"
        ) from None
    if not (math.isfinite(value) and 1.0 <= value <= 86_400.0):
        raise argparse.ArgumentTypeError(
            f"{text} is not within 1 .. 86400 seconds; give one that is"
        )
    return value


def _existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no file {text!r}; give the path of a CSV of prices")
    return path


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a file, not a folder; give a folder")
    return path


def _parser() -> argparse.ArgumentParser:
    default = Options()
    parser = argparse.ArgumentParser(
        prog="backcast demo",
        description="Actor processes fill a replay ring in shared memory with trading steps on "
        "real daily prices, while a learner trains from it. Writes OUT/demo.json and "
        "OUT/demo.png and leaves nothing else behind.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # A typo such as `--kil` must not kill an actor.
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--seconds", type=_seconds, default=default.seconds, help="how long (default: 30)")
    add("--actors", type=_whole(1, 256), default=default.actors, help="processes (default: 4)")
    add("--envs", type=_whole(1, 1024), default=default.envs, help="per actor (default: 8)")
    add(
        "--capacity",
        type=_whole(4096, 1 << 32),
        default=default.capacity,
        metavar="ROWS",
        help="rows the ring holds (default: 262144; about 130 bytes each)",
    )
    add("--panel", type=_existing_file, metavar="FILE.csv", help="prices to use instead")
    add(
        "--macro",
        default="",
        metavar="A,B",
        help="tickers of FILE.csv that are shown but not traded",
    )
    add("--kill", action="store_true", help="SIGKILL one actor mid-run and start a successor")
    add("--out", type=_folder, default=default.out, metavar="DIR", help="(default: out)")
    add(
        "--world",
        choices=("portfolio", "trading"),
        default=default.world,
        help="real daily prices, or simulated order books (default: portfolio)",
    )
    add("--seed", type=_whole(0, 2**31 - 1), default=default.seed, help="(default: 0)")
    return parser


def parse(argv: Sequence[str] | None = None) -> Options:
    """Read the command line; exit with status 2 and a reason if it is not valid."""
    parser = _parser()
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, 1)
        hint = f"did you mean {near[0]}?" if near else "`backcast demo --help` lists them"
        parser.error(f"there is no option {unknown[0]!r}; {hint}")
    macro = tuple(name for name in given.macro.split(",") if name)
    if macro and given.panel is None:
        parser.error("--macro names tickers of a file of yours: give --panel FILE.csv too")
    options = Options(**{**vars(given), "macro": macro})
    if options.world == "trading":
        for name, asked in (("--kill", options.kill), ("--panel", options.panel is not None)):
            if asked:
                parser.error(f"{name} belongs to the world of daily prices: leave --world out")
    if options.lanes > MAX_LANES:
        parser.error(
            f"--actors {options.actors} x --envs {options.envs} is {options.lanes} lanes; "
            f"a ring has at most {MAX_LANES}"
        )
    if options.capacity < 64 * options.lanes:
        parser.error(
            f"--capacity {options.capacity} leaves fewer than 64 rows to each of "
            f"{options.lanes} lanes; give at least {64 * options.lanes}"
        )
    return options
