"""Console script `backcast`: native, except for the demo and the page, which run in Python."""

from __future__ import annotations

import os
import signal
import sys

from backcast._native import cli_main
from backcast.errors import ArgumentTypeError

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a command that Ctrl-C ended, as shells report it."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; ``sys.argv[1:]`` when left out.

    Returns
    -------
    int
        0 done, 1 found problems, 2 wrong usage, 3 no such object, or an export that misses
        rows, 128 plus the number of a signal that stopped the command.

    Raises
    ------
    ArgumentTypeError
        If ``argv`` is no list of str.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise ArgumentTypeError(f"argv is {arguments!r}; give a list of str, such as ['ls']")
    try:
        status = cli_main(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe early, as `head` does. Python would report the pipe once more
        # while it flushes at exit, so unwritten output is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
