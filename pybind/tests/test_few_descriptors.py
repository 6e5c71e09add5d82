"""A public call with too few free descriptors fails as a whole, says so, and loses nothing.

A refusal by the system says nothing about the content of a file: it raises `StorageError`, whose
message never advises to remove or restore anything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("few_descriptors.py")
DESTRUCTIVE = ("damaged", "backup", "remove", "backcast rm", "is lost", "create the ring again")
RESULTS: dict[str, Any] = {
    "list": [["ring", "walk", True], ["panel", "prices", True], ["params", "policy", True]],
    "stats": ["priority"],
    "snapshots": ["walk@one"],
    "snapshots of a name": 1,
    "load": ["priority"],
    "snapshot": "walk@two",
    "load what was saved with few": ["other", "priority"],
    "remove_snapshot": ["walk@one"],
    "gc": [".building-1"],
    "remove": "walk",
}
"""Expected results, which would be shorter if a call silently left out a part."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Run the program; return the outcomes of each call with 0, 1, 2, ... free descriptors."""
    place = tmp_path_factory.mktemp("shared")
    files = tmp_path_factory.mktemp("files")
    ran = subprocess.run(
        [sys.executable, PROGRAM, str(place), str(files)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [path for path in place.rglob("*") if path.is_file() and path.stat().st_size] == []
    return {line["call"]: line["tries"] for line in lines}


def test_a_call_fails_as_a_whole_until_it_succeeds(
    calls: dict[str, list[dict[str, Any]]],
) -> None:
    assert len(calls) > 30
    wrong = []
    for name, tries in calls.items():
        *failed, succeeded = tries
        if succeeded["error"] is not None:
            wrong.append(f"{name} never succeeds: {succeeded}")
        for free, found in enumerate(failed):
            if (found["error"], found["os"]) != ("StorageError", True):
                wrong.append(f"{name} with {free} free: {found}")
    assert not wrong, "\n".join(wrong)


def test_the_error_names_the_limit_and_destroys_nothing(
    calls: dict[str, list[dict[str, Any]]],
) -> None:
    told = [
        (name, found["text"]) for name, tries in calls.items() for found in tries if found["error"]
    ]
    assert len(told) > 30
    for name, text in told:
        assert "Too many open files" in text, (name, text)
        assert "ulimit -n" in text, (name, text)
        for wrong in DESTRUCTIVE:
            assert wrong not in text, (name, text)


def test_nothing_is_left_out_without_a_word_and_no_descriptor_is_lost(
    calls: dict[str, list[dict[str, Any]]],
) -> None:
    for name, result in RESULTS.items():
        assert calls[name][-1]["result"] == result, name
    verified = calls["verify_snapshot"][-1]["result"]
    assert (verified["whole"], verified["damages"]) == (True, [])
    for name, tries in calls.items():
        assert [found["leaked"] for found in tries] == [0] * len(tries), name
        assert all(found["warned"] == [] for found in tries), (name, tries)
