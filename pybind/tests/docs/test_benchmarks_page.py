"""The figures on the pages agree with the recorded results."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCHES = ROOT / "benches" / "python"
RESULTS = sorted((ROOT / "benches" / "results").glob("*.jsonl"))
WHOLE_RUNS = {"latest", "xeon"}
KEYS = {
    "workload", "metric", "unit", "contender", "median", "min", "max", "runs", "ratio", "thread",
    "commit", "cpu", "cores", "kernel", "load", "versions", "command",
}  # fmt: skip


def load_shown() -> Any:  # noqa: ANN401 - a module that mypy does not check
    spec = importlib.util.spec_from_file_location("shown", BENCHES / "shown.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shown = load_shown()


def entries_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_pages_have_the_figures_of_all_results() -> None:
    done = subprocess.run(
        [sys.executable, BENCHES / "report.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert RESULTS
    for file in RESULTS:
        marks = {file.stem}
        if file.stem in WHOLE_RUNS:  # these results are split by subject over several pages
            subjects = {shown.subject(of["workload"], of["metric"]) for of in entries_of(file)}
            marks = {f"{file.stem}/{subject}" for subject in subjects}
        for mark in marks:
            assert pages.count(f"<!-- results: {mark} -->") == 1, mark


def test_the_benchmarks_have_a_short_table_of_each_machine() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for run in WHOLE_RUNS:
        assert f"<!-- summary: {run} -->" in page


def test_the_table_of_peers_shows_both_machines_where_both_were_measured() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("<!-- faster: peers -->")[2].partition("<!-- end of results -->")[0]
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line[:1] == "|"}
    assert shown.SECOND.keys() < rows.keys()
    for metric, row in rows.items():
        two = metric in shown.SECOND or metric == shown.REFILLED[1].metric
        assert (" / " in row) == (two or metric == "times as fast as"), row


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_every_result_says_what_it_was_measured_with(file: Path) -> None:
    results = entries_of(file)
    assert results
    for result in results:
        assert result.keys() - {"torn", "p99", "contender_versions", "threads"} == KEYS
        assert result["runs"] >= 7
        assert result["min"] <= result["median"] <= result.get("p99", result["max"])
        assert result.get("p99", 0) <= result["max"]
        assert 0 < result["ratio"] <= 1
    torn = {result["contender"]: result["torn"] for result in results if "torn" in result}
    if file.stem in {"adapters", "training"}:
        assert not torn, "nobody writes beside these draws"
    else:
        assert torn["backcast"] == 0
