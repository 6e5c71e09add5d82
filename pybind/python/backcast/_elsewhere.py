"""Names that are not at the top of the package, and what to write instead."""

import backcast
from backcast import errors

ELSEWHERE = {name: f"bc.errors.{name}" for name in errors.__all__ if name not in backcast.__all__}
