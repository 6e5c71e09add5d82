"""Budgets of property tests, divided for a quick run."""

import os


def budget(full: int) -> int:
    """Return `full` cases divided by the variable `BACKCAST_BUDGET`, and at least 1."""
    return max(1, full // int(os.environ.get("BACKCAST_BUDGET", "1")))
