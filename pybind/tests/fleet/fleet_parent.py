"""Program that runs a fleet and prints its process ids, for tests that end the program.

python fleet_parent.py NAME ACTOR [FOLDER]
"""

from __future__ import annotations

import signal
import sys
import threading

import backcast as bc
from fleet_actors import never_look_at_the_flag, refuse_to_stop, until_stopped, with_a_grandchild

ACTORS = {
    actor.__name__: actor
    for actor in (until_stopped, refuse_to_stop, with_a_grandchild, never_look_at_the_flag)
}


def main() -> None:
    """Print the ids of actors and guardian once all actors are ready, then wait for a signal."""
    name, which, *args = sys.argv[1:]
    command = ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1000; done"]
    actor = command if which == "command" else ACTORS[which]
    columns = {"obs": "f4"}
    buf = bc.ReplayBuffer.create(name, columns, capacity=100, lanes=2)
    try:
        with bc.Fleet(
            actor, 2, args=tuple(args), name=f"{name}-reports", buffer=buf, stop_timeout=1_000
        ) as fleet:
            pids = [actor["pid"] for actor in fleet.stats()["actors"]]
            guardian = fleet._supervisor.guardian_pid  # type: ignore[union-attr]
            print(*pids, guardian, flush=True)
            while True:  # Python may miss a signal that arrives just before a wait.
                threading.Event().wait(0.05)
    finally:
        buf.unlink()
        print("cleaned up", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
