"""Report of a run, as JSON and as a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from backcast.demo.progress import count

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO


def write_json(result: dict[str, Any], path: Path) -> None:
    """Write the result; keys carry their units."""
    path.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def verdict(model: float | None, trivial: float | None) -> str:
    """Say in words whether the model beats the trivial predictor on held-out days."""
    if model is None or trivial is None or trivial <= 0.0:
        return "not measured"
    worse = model / trivial - 1.0
    if worse >= 0.0:
        return f"no better than the train-set mean ({worse:.1%} worse)"
    return f"{-worse:.1%} better than the train-set mean"


def equity_caution(result: dict[str, Any]) -> str:
    """Return a caution if the forecast has no skill, so that differences of equity are luck."""
    if result["heldout_mse_model"] < result["heldout_mse_trivial"]:
        return ""
    return "a forecast no better than the mean: the differences are luck"


def print_summary(result: dict[str, Any], stream: TextIO) -> None:
    """Print the numbers of a run as a table."""
    print_lines(_lines(result), stream)


def print_lines(lines: list[tuple[str, str]], stream: TextIO) -> None:
    """Print names and texts as a table."""
    if not stream.isatty():
        stream.writelines(f"{name:<16}  {text}\n" for name, text in lines)
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, text)
    Console(file=stream, highlight=False).print(table)


def _lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    sample_ms = result["sample_cpu_ms_median"]
    sample = "not measured" if sample_ms is None else f"{sample_ms:.3f} ms of CPU (median)"
    lines = [
        (
            "actors",
            f"{result['actors']} x {result['envs_per_actor']} environments, "
            f"{count(result['rows_written'])} rows, {count(result['rows_written_per_s'])} rows/s",
        ),
        (
            "learner",
            f"{result['learner_batches']} batches of {result['batch_rows']}, "
            f"{result['learner_batches_per_s']:.1f}/s; one sample takes {sample}",
        ),
        (
            "rows checked",
            f"{count(result['rows_checked'])}: {result['torn_rows']} torn, "
            f"{result['lapped_reads']} lapped and drawn again",
        ),
        (
            "held-out return",
            f"squared error {_number(result['heldout_mse_model'])}, trivial "
            f"{_number(result['heldout_mse_trivial'])}: "
            + verdict(result["heldout_mse_model"], result["heldout_mse_trivial"]),
        ),
        (
            "held-out range",
            f"squared error {_number(result['heldout_log_range_mse_model'])}, trivial "
            f"{_number(result['heldout_log_range_mse_trivial'])}: "
            + verdict(
                result["heldout_log_range_mse_model"], result["heldout_log_range_mse_trivial"]
            ),
        ),
    ]
    if result["equity_return"]:
        gains = ", ".join(f"{name} {gain:+.1%}" for name, gain in result["equity_return"].items())
        caution = equity_caution(result)
        lines.append(("held-out equity", f"{gains}; {caution}" if caution else gains))
    if result["killed_actors"]:
        lines.append(
            (
                "killed",
                f"{result['killed_actors']} actor; {result['adopted_lanes']} lanes adopted, "
                f"{result['lost_transitions']} transitions lost (at most one a lane), "
                f"{result['unfinished_rows']} unfinished rows",
            )
        )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
