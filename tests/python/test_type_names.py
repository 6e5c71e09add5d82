"""No type name has two meanings in the workspace."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TYPE = re.compile(r"^\s*pub(?:\(crate\))? (?:unsafe )?(?:struct|enum|trait|type) (\w+)", re.M)

WRAPPER = "the Python class of the same thing"

#: Names that are defined in several places, and why.
EXCEPTIONS = {
    "Args": "the arguments of each command",
    "Batches": WRAPPER,
    "Client": WRAPPER,
    "EpisodeState": WRAPPER,
    "Floor": WRAPPER,
    "History": WRAPPER,
    "LearnedTable": WRAPPER,
    "Lease": WRAPPER,
    "Limiter": WRAPPER,
    "Market": WRAPPER,
    "Panel": WRAPPER,
    "RateLimiter": WRAPPER,
    "Replay": WRAPPER,
    "RewardInput": WRAPPER,
    "Sampler": WRAPPER,
    "Schema": WRAPPER,
    "TickerTokenizer": WRAPPER,
    "TransitionOrder": WRAPPER,
    "TransitionRing": WRAPPER,
    "Writer": WRAPPER,
}


def definitions() -> dict[str, set[str]]:
    """Map the name of every visible type to the files that define it."""
    listed = subprocess.run(
        ["git", "ls-files", "*/src/*.rs"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if name.startswith(("tests/", "benches/")) or not path.is_file():
            continue
        for defined in TYPE.findall(path.read_text(encoding="utf-8")):
            found[defined].add(name)
    return found


def test_a_type_name_stands_for_one_thing() -> None:
    double = {name: sorted(files) for name, files in definitions().items() if len(files) > 1}
    assert {name: files for name, files in double.items() if name not in EXCEPTIONS} == {}


def test_the_types_of_every_crate_are_found() -> None:
    folders = {file.split("/")[0] for files in definitions().values() for file in files}
    assert folders >= {"core", "daemon", "market", "pybind", "shm-layout"}
