"""The pages with figures agree with the results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RESULTS = sorted((ROOT / "benches" / "results").glob("*.jsonl"))
KEYS = {
    "workload", "metric", "unit", "contender", "median", "min", "max", "runs", "ratio", "thread",
    "commit", "cpu", "cores", "kernel", "load", "versions", "command",
}  # fmt: skip


PAGES = ("benchmarks", "when-it-helps")


def test_the_pages_have_the_figures_of_all_results() -> None:
    report = ROOT / "benches" / "python" / "report.py"
    done = subprocess.run(
        [sys.executable, report, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = "".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)
    assert RESULTS
    for file in RESULTS:
        assert f"<!-- results: {file.stem} -->" in pages


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_every_result_says_what_it_was_measured_with(file: Path) -> None:
    results = [json.loads(line) for line in file.read_text().splitlines()]
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
