"""Clusters of Ray in this machine, on its loopback interface alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Ray reads them when it is imported. Without the last it replaces 127.0.0.1 by another address.
os.environ.update(
    {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    # Beside other programs, processes of Ray's own lower priority would hardly run.
    | ({} if os.environ.get("BACKCAST_RAY_KILLS") else {"RAY_worker_niceness": "0"})
)

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# Models that the tests without Ray share with these.
_MODELS = Path(__file__).resolve().parents[2] / "pybind" / "tests"
sys.path[:0] = [str(_MODELS), str(_MODELS / "sampling")]

WATCHDOG_S = 600
"""Seconds of a wait: a loaded machine starts one process of Ray in a minute."""

KILLS = int(os.environ.get("BACKCAST_RAY_KILLS") or 0)
"""Processes to kill in the long forms of the tests, which take an hour of two cores."""
IS_LONG = KILLS > 0

NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000}


def on(node: Any, task: Any) -> Any:
    """Return a task that runs on a node."""
    strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    return task.options(scheduling_strategy=strategy)


@pytest.fixture(scope="session", autouse=True)
def place() -> Iterator[Path]:
    """Keep the rings of the test run in a folder of its own, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="backcast-test-", dir="/dev/shm"))
    os.environ["BACKCAST_DIR"] = str(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def started(nodes: int) -> Iterator[tuple[Any, list[Any]]]:
    """Start a cluster whose nodes have the labels shard=0, shard=1 and so on; end it in any case.

    The first node has no CPU of its own for tasks besides the driver's.
    """
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    sessions = Path(cluster.head_node.get_session_dir_path())
    try:
        added = [cluster.add_node(**NODE, labels={"shard": str(k)}) for k in range(nodes)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster, added
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(sessions, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Yield one cluster for the tests of a module, which leave it as it was."""
    with started(3) as made:
        yield made
