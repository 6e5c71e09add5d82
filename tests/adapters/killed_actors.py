"""Run the DQN example, and kill one of its actors every five seconds, each rank in turn.

Prints the number of kills, and exits with the status of the example.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import backcast as bc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import dqn_actors

EVERY_S = 5.0


class KilledFleet(bc.Fleet):
    """Fleet with a thread that kills a running actor every five seconds."""

    def __init__(self, *given: Any, **named: Any) -> None:
        # A slow example takes longer, and sees more deaths than the default allows.
        super().__init__(*given, **{"max_deaths": 1_000, **named})

    def __enter__(self) -> KilledFleet:
        super().__enter__()
        self.kills, self.over = 0, threading.Event()
        self.killer = threading.Thread(target=self._kill)
        self.killer.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.over.set()
        self.killer.join(60)
        print(f"{self.kills} kills")
        super().__exit__(*error)

    def _kill(self) -> None:
        while not self.over.wait(EVERY_S):
            actor = self.stats()["actors"][self.kills % self.n]
            # An actor that is still starting is left alone; the next turn tries it again.
            if actor["state"] == "running" and actor["pid"] is not None:
                os.kill(actor["pid"], signal.SIGKILL)
                self.kills += 1


if __name__ == "__main__":
    bc.Fleet = KilledFleet  # type: ignore[misc]
    sys.exit(dqn_actors.main(2))
