"""Demo: actors in processes trade in simulated markets, and a learner improves their policy.

``python -m backcast.demo`` runs it; see ``--help``. It uses nothing that a program of yours could
not: ``ReplayBuffer``, ``Params``, ``Fleet``, ``backcast.envs`` and ``backcast.plot``. Read `actor`
and `run` first. It needs both halves of the package, replay and markets.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    from backcast.demo.__main__ import main as run

    return run(argv)
