"""Simulated nodes of Ray on this machine, which end with their test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before Ray is imported: no reports to its makers.
os.environ.update(
    {
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray then takes the loopback address for this machine's.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_DISABLE_IMPORT_WARNING": "1",
        # Only processes that a test needs.
        "RAY_prestart_worker_first_driver": "0",
        "RAY_enable_worker_prestart": "0",
        # Beside other programs, processes of a lower priority would hardly run.
        "RAY_worker_niceness": "0",
    }
)

import ray
from ray.cluster_utils import Cluster

_SEEN_SOON = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 4,
}
"""Settings of a cluster that sees deaths of nodes in seconds; others have Ray's."""

LABEL = "backcast-shard"
STORE_BYTES = 80 * 1024 * 1024


class Nodes:
    """A cluster whose nodes are shards. Node 0 is its head, which the learner is connected to."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.by_value: dict[str, Any] = {}

    def add(self, value: str, **options: Any) -> None:
        """Start the node of a shard."""
        self.by_value[value] = self.cluster.add_node(
            num_cpus=1,
            labels={LABEL: value},
            object_store_memory=STORE_BYTES,
            node_ip_address="127.0.0.1",
            **options,
        )

    def remove(self, value: str) -> None:
        """End a node, with all its processes of Ray."""
        self.cluster.remove_node(self.by_value.pop(value), allow_graceful=False)


@contextmanager
def nodes_of(count: int) -> Iterator[Nodes]:
    """Start a cluster and connect to it; end all its processes, also after a failure."""
    # Ray notes the address of the cluster there, and does not make the folder.
    notes = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir()), "ray")
    notes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rb-", dir="/tmp") as folder:
        cluster = Cluster()
        try:
            nodes = Nodes(cluster)
            nodes.add("0", include_dashboard=False, temp_dir=folder, _system_config=_SEEN_SOON)
            for number in range(1, count):
                nodes.add(str(number))
            ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
            yield nodes
        finally:
            ray.shutdown()
            cluster.shutdown()


def until(is_so: Callable[[], Any], seconds: float = 240.0) -> None:
    """Wait until something is so; fail after a time."""
    import threading
    import time

    ends_s = time.monotonic() + seconds
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < ends_s, "waited in vain"
        pause.wait(0.02)
