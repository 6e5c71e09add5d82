"""Defaults of the adapters' constructors: those of the classes that they stand in for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)
pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.cleanrl  # noqa: E402
import backcast.sb3 as ours  # noqa: E402
from stable_baselines3.common import buffers  # noqa: E402
from stable_baselines3.her import HerReplayBuffer  # noqa: E402

# CleanRL's scripts call SB3's constructor, and pass handle_timeout_termination=False. The number of
# environments is that of env=.
CLEANRL = {"device": "cpu", "n_envs": None, "handle_timeout_termination": False}

CLASSES: dict[str, tuple[type, type, dict[str, Any]]] = {
    "arrays": (ours.ReplayBuffer, buffers.ReplayBuffer, {}),
    "dicts": (ours.DictReplayBuffer, buffers.DictReplayBuffer, {}),
    "n steps": (ours.NStepReplayBuffer, buffers.NStepReplayBuffer, {}),
    "priorities": (ours.PrioritizedReplayBuffer, buffers.ReplayBuffer, {}),
    "hindsight": (ours.HerReplayBuffer, HerReplayBuffer, {}),
    "CleanRL": (backcast.cleanrl.ReplayBuffer, buffers.ReplayBuffer, CLEANRL),
    "CleanRL's priorities": (
        *(backcast.cleanrl.PrioritizedReplayBuffer, buffers.ReplayBuffer, CLEANRL),
    ),
}


def defaults(kind: type) -> dict[str, Any]:
    """Return the defaults of a constructor in order, those that `*args` stand for included."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if "__init__" in vars(base):
            given = inspect.signature(vars(base)["__init__"]).parameters.values()
            found |= {one.name: one.default for one in given if one.default is not one.empty}
    return found


@pytest.mark.parametrize(("kind", "theirs", "other"), CLASSES.values(), ids=CLASSES)
def test_a_constructor_has_their_defaults_in_their_order(
    kind: type, theirs: type, other: dict[str, Any]
) -> None:
    expected = defaults(theirs) | other
    parameters = inspect.signature(kind).parameters.values()
    mine = [(one.name, one.default) for one in parameters if one.default is not one.empty]
    assert mine[: len(expected)] == list(expected.items())
