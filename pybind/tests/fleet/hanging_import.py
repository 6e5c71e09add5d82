"""A module whose import never ends."""

import threading

threading.Event().wait()


def act(context: object) -> None:
    raise AssertionError("the import hangs")
