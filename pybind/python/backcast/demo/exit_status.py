"""Exit status of the demo, and the line on stderr that says why."""

from __future__ import annotations

import sys
from contextlib import suppress

FAILED = 1


def end(reason: str, status: int) -> int:
    """Write the reason to stderr, and return the exit status."""
    # Nothing can be written to a terminal that has closed.
    with suppress(OSError):
        print(f"backcast demo: {reason}", file=sys.stderr, flush=True)
    return status
