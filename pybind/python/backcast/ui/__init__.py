"""Live page of rings, parameters and fleets: ``backcast ui``.

Needs NiceGUI (``pip install 'backcast[ui]'``); importing this module does not.
"""

from __future__ import annotations

import secrets
import sys
from importlib.util import find_spec
from typing import Any

from backcast.errors import BackcastError
from backcast.ui._settings import Settings

__all__ = ["main"]


def main(*, token: str | None, needs_token: bool, **settings: Any) -> int:  # noqa: ANN401
    """Serve the page until a signal ends it. The command line has checked the arguments.

    Parameters
    ----------
    token : str, optional
        Secret that every request needs.
    needs_token : bool
        Whether a random token is made where none is given.
    **settings
        Other attributes of ``Settings``.

    Returns
    -------
    int
        1 if the page cannot be served. A signal ends the call as it ends other programs.
    """
    try:
        from backcast.ui._serve import serve

        random = secrets.token_urlsafe(24) if needs_token else None
        chosen = Settings(token=token or random, **settings)
        # The page tries failed readings again and again, which helps against no missing package.
        if chosen.shards and find_spec("ray") is None:
            said = "`backcast ui --shards` builds on Ray, and ray is not installed"
            raise BackcastError(f'{said}; run `pip install "backcast[ray]"`')
        with chosen.listen() as listening:
            serve(chosen, listening)
            return 0
    except ImportError as error:
        said = f"`backcast ui` builds on NiceGUI and Pillow, and {error.name} is not installed"
        said += '; run `pip install "backcast[ui]"`'
    except BackcastError as error:
        said = str(error)
    print(f"error: {said}", file=sys.stderr)
    return 1
