"""One run of the demo: makes ring and weights, starts the actors, learns from their rows."""

from __future__ import annotations

import copy
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.actor import act, checksums
from backcast.demo.agent import GAMMA, N_STEP, Learner, Network
from backcast.demo.kill import Death, kill
from backcast.demo.market import MARKET
from backcast.envs import TradingEnv

if TYPE_CHECKING:
    from backcast.demo.options import Options

BATCH = 256
_FIRST_ROWS = 1_000
_PUBLISH_EVERY = 10
# Shares of the run after which a copy of the policy is kept for the test.
_KEPT_AT = (0.0, 1 / 8, 1 / 3)
# Time beyond the end in which an actor has to be killed and its successor to write.
_SUCCESSOR_SECONDS = 60.0


@dataclass
class Run:
    """Results of a run."""

    learner: Learner
    features: list[str]
    """Names of an observation's numbers."""
    seconds: float = 0.0
    rows: int = 0
    rows_checked: int = 0
    torn: int = 0
    returns: list[tuple[float, float | None]] = field(default_factory=list)
    """Seconds, and the mean return in per cent of the last 100 episodes that actors played."""
    policies: list[tuple[float, Network]] = field(default_factory=list)
    """Seconds, and a copy of the policy at that time, from the fresh one on."""
    death: Death | None = None
    windows: Any = None

    @property
    def settled(self) -> bool:
        """Whether an actor was killed, and a successor has continued its lanes."""
        return self.death is not None and self.death.adopted


def run(options: Options) -> Run:
    """Learn for the requested time. On return every actor has ended, and the ring is removed."""
    env = TradingEnv(**MARKET)
    features = [entry.name for entry in env.features]
    spaces = env.observation_space, env.action_space
    # A row is `obs`, `action`, `reward`, and a checksum that a torn row would not match.
    schema = bc.Schema.from_spaces(*spaces, extra={"checksum": "u8"})
    env.close()
    done = Run(Learner(len(features), options.seed), features)
    weights = done.learner.network.weights
    name, lanes = f"demo-{os.getpid()}", options.actors * options.envs
    ring = bc.ReplayBuffer.create(name, schema, capacity=options.capacity, lanes=lanes)
    with ring, bc.Params.create(name, weights) as params:
        params.publish(weights)
        args = name, options.envs
        fleet = bc.Fleet(
            act, options.actors, args=args, seed=options.seed, buffer=ring, progress=True
        )
        with fleet:
            ring.wait(min_size=_FIRST_ROWS)
            shown = f"{options.actors} actors x {options.envs} markets, {options.seconds:g} s"
            print(f"running: {shown}", file=sys.stderr, flush=True)
            _learn(done, options, fleet, ring, params)
    return done


def _learn(
    done: Run, options: Options, fleet: bc.Fleet, ring: bc.ReplayBuffer, params: bc.Params
) -> None:
    network, end_s = done.learner.network, options.seconds
    sampler = ring.sampler(seed=options.seed, n_step=N_STEP, gamma=GAMMA)
    rows_before, started = ring.stats()["rows_published"], time.monotonic()
    while (now_s := time.monotonic() - started) < end_s or (
        options.kill and not done.settled and now_s < end_s + _SUCCESSOR_SECONDS
    ):
        if (kept := len(done.policies)) < len(_KEPT_AT) and now_s >= _KEPT_AT[kept] * end_s:
            done.policies.append((now_s, copy.deepcopy(network)))
        batch = sampler.sample(BATCH)
        done.rows_checked += BATCH
        done.torn += int(np.count_nonzero(checksums(batch["obs"]) != batch["checksum"]))
        done.learner.learn(batch)
        if done.learner.updates % _PUBLISH_EVERY == 0:
            fleet.update(_PUBLISH_EVERY, version=params.publish(network.weights))
            done.returns.append((now_s, fleet.stats()["return_mean"]))
        if options.kill and done.death is None and now_s >= end_s / 2:
            done.death = kill(fleet, ring, options.seed % options.actors, now_s)
        elif done.death is not None and not done.settled:
            done.death.watch(ring)
    done.seconds = time.monotonic() - started
    done.rows = ring.stats()["rows_published"] - rows_before
    done.policies.append((done.seconds, network))
    done.windows = ring.sampler(seed=options.seed, history=60, future=20).sample(BATCH)
