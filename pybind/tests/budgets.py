"""Number of cases of property tests, which environment variables change.

`BACKCAST_BUDGET` divides them for a quick run, and `BACKCAST_LONG=1` asks for the long forms, which
`make storm` runs.
"""

import os


def budget(full: int) -> int:
    """Return the number of cases: `full` divided by `BACKCAST_BUDGET`, and at least 1."""
    return max(1, full // int(os.environ.get("BACKCAST_BUDGET", "1")))


def budget_of(long: int, short: int) -> int:
    """Return the number of cases of the long form, or of the short one, as `budget` does."""
    return budget(long if os.environ.get("BACKCAST_LONG") == "1" else short)
