"""Live page of rings, parameters and fleets: ``backcast ui``.

Needs NiceGUI (``pip install 'backcast[ui]'``); importing this module does not.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from backcast.errors import ArgumentError, BackcastError, MissingExtraError
from backcast.ui._arguments import parsed, socket_of

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Serve the page until a signal ends it.

    Parameters
    ----------
    argv : list of str
        Arguments after ``ui``.

    Returns
    -------
    int
        0 after ``--help``, 1 if the page cannot be served, 2 for wrong usage. A signal ends the
        call as it ends other programs.
    """
    try:
        settings = parsed(argv)
        _check_extra()
        from backcast.ui._serve import serve

        with socket_of(settings) as listening:
            serve(settings, listening)
    except SystemExit:
        return 0
    except BackcastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ArgumentError) else 1
    return 0


def _check_extra() -> None:
    missing = [name for name in ("nicegui", "PIL") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"`backcast ui` builds on NiceGUI and Pillow, and {', '.join(missing)} is not "
            'installed; run `pip install "backcast[ui]"`'
        )
