"""A daemon for a test: `backcast serve` in a child process, yielded once it is ready."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waits import read_line

START = "import sys; from backcast.cli import main; sys.exit(main(sys.argv[1:]))"


@contextmanager
def serving(place: Path, *flags: str) -> Iterator[dict[str, Any]]:
    """Run a daemon for a directory; yield the line that it printed when it was ready."""
    daemon = subprocess.Popen(
        [sys.executable, "-c", START, "--json", "serve", *flags],
        env=os.environ | {"BACKCAST_DIR": str(place)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield json.loads(read_line(daemon))
        daemon.terminate()
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        daemon.communicate(timeout=60)
