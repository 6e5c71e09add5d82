"""Recorded trajectories, and environments with the settings of the recorded ones."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import backcast.finrl as ff
import numpy as np

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"
CASES = ["s1_basic", "s2_gaps", "s3_crash", "s4_cash"]
AS_RECORDED: dict[str, Any] = {"indicator_lag": 0, "generator": "mt19937"}
"""Settings with which our environments behave as the recorded one."""


@cache
def golden(case: str) -> dict[str, Any]:
    """Read the recording of a case."""
    return json.loads((GOLDEN / f"{case}.json").read_text())  # type: ignore[no-any-return]


def trajectories(kind: str) -> list[tuple[str, str]]:
    """Name all trajectories of a kind, with their cases."""
    return [
        (case, trajectory["id"])
        for case in CASES
        for trajectory in golden(case)["trajectories"]
        if trajectory["kind"] == kind
    ]


def trajectory_of(case: str, name: str) -> dict[str, Any]:
    """Return a trajectory by its name."""
    return next(found for found in golden(case)["trajectories"] if found["id"] == name)


def vec_env(case: str, trajectory: dict[str, Any], **changes: Any) -> ff.VecFastFinRL:  # noqa: ANN401
    """Make the vectorised class with the settings of a trajectory."""
    settings = AS_RECORDED | {"stop_loss_day": "next", "return_format": "vec"}
    settings |= {"n_envs": 1, "auto_reset": False} | trajectory["config"] | changes
    return ff.VecFastFinRL(GOLDEN / f"{case}.csv", **settings)


def single_env(case: str, trajectory: dict[str, Any], **changes: Any) -> ff.FastFinRL:  # noqa: ANN401
    """Make the single class with the settings of a trajectory."""
    settings = AS_RECORDED | {"stop_loss_day": "same_always"} | trajectory["config"] | changes
    return ff.FastFinRL(GOLDEN / f"{case}.csv", **settings)


def near(found: Any, expected: Any, what: str = "", floor: float = 0.0) -> None:  # noqa: ANN401
    """Compare with a relative tolerance of 1e-12, and for rewards an absolute one of 1e-12 too."""
    if np.array_equal(found, expected):
        return
    floor = 1e-12 if what == "reward" else floor
    np.testing.assert_allclose(
        np.asarray(found, float), np.asarray(expected, float), rtol=1e-12, atol=floor, err_msg=what
    )
