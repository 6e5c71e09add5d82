"""Refusals of the command line in Python: status, facts on stderr, and nothing changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backcast import cli
from facts import missing
from refusal import world_at


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        pytest.param(["lss"], 2, ["'lss'", "'ls'"], id="a typo"),
        pytest.param(["ls", "--colour"], 2, ["--colour"], id="an unknown option"),
        pytest.param(["stat"], 2, ["NAME"], id="no name"),
        pytest.param(["stat", "pnog"], 3, ["pnog", "`pong`"], id="a near name"),
        pytest.param(["stat", "zebra"], 3, ["zebra", "backcast ls"], id="no such name"),
        pytest.param(["rm", "pong"], 1, ["pong", "--force"], id="held"),
        pytest.param(["create", "a", "--capacity", "9"], 2, ["--column"], id="no column"),
        pytest.param(
            ["create", "a", "--column", "x:i5", "--capacity", "9"], 2, ["`i5`", "i4"], id="dtype"
        ),
        pytest.param(
            ["create", "a", "--column", "x:f4", "--capacity", "8gigs"], 2, ["8gigs"], id="capacity"
        ),
        pytest.param(
            ["create", "pong", "--column", "x:f4", "--capacity", "9"], 1, ["`pong`"], id="taken"
        ),
    ],
)
def test_commands_that_cannot_be(
    place: Path,
    tmp_path: Path,
    argv: list[str],
    status: int,
    words: list[str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    with world_at(place, tmp_path) as world:
        before = world.picture()
        assert cli.main(["--dir", str(world.place), *argv]) == status
        out, err = capfd.readouterr()
        assert out == ""
        assert missing(err, words) == []
        np.testing.assert_equal(world.picture(), before)
