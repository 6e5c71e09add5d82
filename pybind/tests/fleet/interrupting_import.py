"""A module that interrupts the parent of its process, as Ctrl-C does, while it is imported."""

import os
import signal
import threading

os.kill(os.getppid(), signal.SIGINT)
threading.Event().wait()


def act(context: object) -> None:
    """Do nothing: the import never ends."""
