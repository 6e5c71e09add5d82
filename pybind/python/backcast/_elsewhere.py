"""Names that are not at the top of the package, and what to write instead."""

import backcast
from backcast import errors, types

ELSEWHERE = {
    "connect": "bc.Client.connect",
    "gc": "bc.collect_garbage",
    "list": "bc.list_objects",
    "remove": "bc.remove_object",
    "snapshots": "bc.list_snapshots",
} | {
    name: f"bc.{module.__name__.removeprefix('backcast.')}.{name}"
    for module in (errors, types)
    for name in module.__all__
    if name not in backcast.__all__
}
