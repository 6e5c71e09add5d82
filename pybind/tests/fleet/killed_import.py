"""A module whose import is killed, as often as the file that `KILLED_IMPORTS` names says."""

import os
import signal
from pathlib import Path

from backcast.fleet import Context

_counter = Path(os.environ["KILLED_IMPORTS"])
_left = int(_counter.read_text())
if _left > 0:
    _counter.write_text(str(_left - 1))
    os.kill(os.getpid(), signal.SIGKILL)


def act(context: Context) -> None:
    """Wait for the end of the fleet."""
    context.wait()
