"""End-to-end demo: actors fill a shared ring with trading steps, a learner trains from it.

``python -m backcast.demo`` runs it; see ``--help``. Everything here is an example as well. The
actor, the learner and the rows between them are what a program of your own would look like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    from backcast.demo.__main__ import main as run

    return run(argv)
