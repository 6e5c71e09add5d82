"""A learner that is killed: it starts a fleet on shards of a cluster, says so, and waits."""

import sys

import node_programs
import numpy as np
import ray
from backcast.ray import Shards

address, place, notes = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="error")
weights = {"w": np.zeros(4, "f4")}
shards = Shards.attach("walk")
shards.params.publish(weights)
with shards.fleet(node_programs.act, 1, args=(shards, place, notes), start_timeout=300) as fleet:
    print("running", flush=True)
    sys.stdin.read()
