"""Environment of an actor's process: its identity, and one thread for linear algebra."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backcast.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Mapping

RING = "BACKCAST_FLEET_RING"
RANK = "BACKCAST_FLEET_RANK"
SIZE = "BACKCAST_FLEET_SIZE"
SEED = "BACKCAST_FLEET_SEED"
LIFE = "BACKCAST_FLEET_LIFE"
BEAT = "BACKCAST_FLEET_BEAT_S"

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


@dataclass(frozen=True)
class Identity:
    """Place of one process in a fleet, carried by its environment."""

    ring: str
    """Ring of the fleet's reports."""
    rank: int
    """Rank from 0 to ``n - 1``; a restarted actor keeps it."""
    n: int
    """Actors in the fleet."""
    seed: int
    """Seed below 2**32; differs by rank and by life."""
    life: int
    """Number of earlier processes of this rank."""
    beat_s: float = 0.0
    """Seconds between signs of life; 0 where the fleet wants none."""

    def variables(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the process: the parent's, this identity, then ``extra``."""
        own = {
            RING: self.ring,
            RANK: str(self.rank),
            SIZE: str(self.n),
            SEED: str(self.seed),
            LIFE: str(self.life),
            BEAT: str(self.beat_s),
        }
        return {**os.environ, **dict.fromkeys(_THREADS, "1"), **own, **extra}

    @classmethod
    def of_process(cls) -> Identity:
        """Read the identity of this process.

        Raises
        ------
        FleetError
            If no fleet started it.
        """
        try:
            rank, n, seed, life = (int(os.environ[name]) for name in (RANK, SIZE, SEED, LIFE))
            beat_s = float(os.environ.get(BEAT, "0"))
            return cls(os.environ[RING], rank, n, seed, life, beat_s)
        except KeyError as error:
            raise FleetError(
                f"this process is no actor of a fleet: {error.args[0]} is not set; start it with "
                "bc.Fleet"
            ) from None
        except ValueError as error:
            raise FleetError(
                f"this process is no actor of a fleet: of {RANK}, {SIZE}, {SEED}, {LIFE} and "
                f"{BEAT}, one is no number ({error}); start it with bc.Fleet"
            ) from None


@dataclass(frozen=True)
class Place:
    """Part of a fleet that one process supervises; the whole one on one machine."""

    first: int
    """Rank of its first actor."""
    of: int
    """Actors of the whole fleet."""
    lives: tuple[int, ...]
    """Earlier processes of each of its ranks, as far as they are known."""
    generation: int = 0
    """Earlier supervisors of this part: the lives that they did not tell of have other seeds."""

    @classmethod
    def whole(cls, n: int) -> Place:
        """Return the place of a fleet that is no part of another one."""
        return cls(0, n, (0,) * n)


def seed_of(seed: int, rank: int, life: int, generation: int = 0) -> int:
    """Derive the seed of one process: independent streams for all ranks, lives and generations."""
    import numpy as np

    parts = [seed, rank, life] + ([generation] if generation else [])
    return int(np.random.SeedSequence(parts).generate_state(1)[0])
