"""Rings of an earlier cluster: calls that fail leave them, and others go on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
import ray
from backcast.ray import Shards

COLUMNS = {"obs": "f4", "reward": "f4"}
LIKE = {"w": np.zeros(3, "f4")}
NAMES = [f"kept-{number}" for number in range(3)]


def rows_of(name: str) -> int | None:
    """Return the transitions of a ring; None if it is not there."""
    try:
        with bc.ReplayBuffer.attach(name) as ring:
            return len(ring)
    except bc.NotFoundError:
        return None


def test_calls_that_fail_leave_the_rings_of_an_earlier_cluster(
    cluster: Any, tmp_path: Path
) -> None:
    created = {"capacity": 100, "label": "shard", "params": LIKE}
    with (
        bc.ReplayBuffer.create(NAMES[1], COLUMNS, capacity=100, persistent=True) as ring,
        ring.writer() as writer,
    ):
        for step in range(11):
            writer.append(obs=step, reward=step, terminated=False, truncated=False)
        with pytest.raises(bc.ExistsError, match="kept-1"):
            Shards.create("kept", COLUMNS, **created)
        assert [rows_of(name) for name in NAMES] == [None, 10, None]
        with pytest.raises(bc.errors.BackcastError, match="obs"):
            Shards.create("kept", {"obs": "f8"}, exist="attach", **created)
        assert [rows_of(name) for name in NAMES] == [None, 10, None]

        with Shards.create("kept", COLUMNS, exist="attach", **created) as shards:
            version = shards.params.publish({"w": np.ones(3, "f4")})
            shards.params.wait(version, timeout=240)
            assert [rows_of(name) for name in NAMES] == [0, 10, 0]
            shards.snapshot("one", store=tmp_path, timeout=240)
            # Ends the processes as `ray stop` does; the rings stay.
            for actor in shards._actors:
                ray.kill(actor, no_restart=True)
        with Shards.create("kept", COLUMNS, exist="attach", **created) as shards:
            assert shards.params.version == version
            assert shards.params.latest()["w"].tolist() == [1, 1, 1]
            assert [rows_of(name) for name in NAMES] == [0, 10, 0]

            removed = bc.list_snapshots(store=tmp_path)[0]["snapshot"]
            bc.remove_snapshot(removed, store=tmp_path)
            with pytest.raises(bc.NotFoundError, match="no node is left"):
                Shards.load("kept@one", store=tmp_path, label="shard", exist="replace", timeout=240)
            assert [rows_of(name) for name in NAMES] == [0, 10, 0]
            shards.unlink()
        assert [rows_of(name) for name in NAMES] == [None, None, None]
