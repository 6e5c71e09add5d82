"""Number of cases of property tests, which an environment variable reduces for a quick run."""

import os


def budget(full: int) -> int:
    """Return the number of cases: `full` divided by `BACKCAST_BUDGET`, and at least 1."""
    return max(1, full // int(os.environ.get("BACKCAST_BUDGET", "1")))
