"""Names that are not at the top of the package, and what to write instead."""

import backcast
from backcast import errors, types

ELSEWHERE = {
    name: f"bc.{module.__name__.removeprefix('backcast.')}.{name}"
    for module in (errors, types)
    for name in module.__all__
    if name not in backcast.__all__
}
