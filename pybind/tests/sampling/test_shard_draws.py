"""Draws of a sampler over three shards elsewhere, against the logs of their writers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from backcast._shards import Drawn
from backcast.ray._heads import RemoteHeads
from backcast.ray._link import ShardBlock
from backcast.ray._packing import pack
from backcast.ray._sampler import ShardSampler
from backcast.ray._shard import BlockHead, Shard
from backcast.ray._transport import LocalTransport
from budgets import budget
from local_shards import sampler_of, spec_of, started
from numpy.typing import NDArray
from test_shards import CASES, COLUMNS, SEQ, Case, Log, priority_of

DRAWS = 100_000
"""Draws of the long form."""
BINS = 10
SIZES = (100, 1_000, 10_000)
GROWTH = (40, 60, 80)
"""Steps that each shard gets before a batch."""
BATCHES = 20
CAPACITY = 30_000

Cut = tuple[NDArray[np.int64], NDArray[np.float64]]


class Written:
    """A shard, its writer and its log, and what could be drawn when each block was made."""

    def __init__(self, shard: Shard, case: Case, seed: int, ends: float = 1 / 8) -> None:
        self.shard, self.case, self.log = shard, case, Log(CAPACITY)
        self.dice = np.random.default_rng((seed, shard.number))
        self.writer = shard.ring.writer(autoreset_mode="same_step")
        self.prioritised, self.ends = 0, ends
        self.cuts: dict[bytes, Cut] = {}
        self.grow(SIZES[shard.number])

    def grow(self, steps: int) -> None:
        ends = self.dice.random(steps) < self.ends
        numbers = np.arange(steps)[:, None]
        self.writer.extend(
            obs=numbers,
            reward=numbers.astype("f4"),
            terminated=ends[:, None],
            truncated=np.zeros_like(ends)[:, None],
            final_obs=numbers,
        )
        self.log.append(ends.tolist())

    def prioritise(self, sampler: ShardSampler) -> None:
        """Set the priorities of the new rows, and of the one that had no successor yet."""
        rows = np.arange(max(0, self.prioritised - 1), len(self.log.t))
        sampler.update_priorities(rows, np.full_like(rows, self.shard.number), priority_of(rows))
        self.prioritised = len(self.log.t)

    def cut(self, head: BlockHead) -> None:
        """Compare a block that is made now with the log, and keep what it was drawn from."""
        rows = self.case.rows(self.log)
        assert head.count == len(rows)
        q = priority_of(rows) if self.case.priorities else np.ones(len(rows))
        if self.case.priorities and self.prioritised == len(self.log.t):
            every = self.log.drawable(0, 0, 1)
            assert math.isclose(head.mass, priority_of(every).sum())
        assert head.packed is not None
        self.cuts[head.packed.batch()["index"].tobytes()] = (rows, q)


def recorded(written: dict[int, Written], keeps_rejected: bool = True) -> Callable[[Any], Any]:
    """Return transports that note every block; a control leaves the rejected items out."""

    class Noted(Shard):
        def __init__(self, shard: Shard) -> None:
            vars(self).update(vars(shard))

        def block(self, request: Any) -> list[Any]:  # noqa: ANN401
            head, *others = super().block(request)
            assert not others
            if not keeps_rejected and head.packed is not None:
                good = head.q > 0
                rows = {name: array[good] for name, array in head.packed.batch().items()}
                head = replace(head, q=head.q[good], packed=pack(rows))
            written[self.number].cut(head)
            return [head]

    return lambda shard: LocalTransport(Noted(shard))


class EqualShares(RemoteHeads):
    """A control: every shard is as likely."""

    def _masses(self) -> NDArray[np.float64]:
        return np.ones(len(self._heads))


class OldCounts(RemoteHeads):
    """A control: masses of four batches ago."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401
        super().__init__(*given, **named)
        self.old: list[NDArray[np.float64]] = []
        self.begun = -1

    def _masses(self) -> NDArray[np.float64]:
        masses = super()._masses()
        if self.begun != self.number and masses.all():
            self.old.append(masses)
            self.begun = self.number
        if not self.old:
            return masses
        return self.old[max(0, len(self.old) - 5)]


def counted(
    case: Case,
    seed: int,
    heads_of: type[RemoteHeads] = RemoteHeads,
    keeps_rejected: bool = True,
    ends: tuple[float, float, float] = (1 / 8, 1 / 8, 1 / 8),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw while the shards grow; return the draws by shard and age, and those of the log."""
    found, expected = np.zeros((3, BINS)), np.zeros((3, BINS))
    with started(spec_of(3, COLUMNS, CAPACITY)) as shards:
        written = {
            shard.number: Written(shard, case, seed, end)
            for shard, end in zip(shards, ends, strict=True)
        }
        sampler = sampler_of(
            shards,
            seed=seed,
            transport=recorded(written, keeps_rejected),
            # A busy machine would make blocks too old, and equal seeds draw otherwise.
            clock=lambda: 0.0,
            **case.options,
        )
        sampler._heads = heads_of(sampler._links, seed=seed, prefetch=2, clock=sampler._clock)
        for _ in range(BATCHES):
            for of in written.values():
                of.grow(GROWTH[of.shard.number])
                if case.priorities:
                    of.prioritise(sampler)
            count_batch(sampler, partial(cut, written), found, expected, keeps_rejected)
        for of in written.values():
            of.writer.close()
        sampler.close()
    return found, expected


def count_batch(
    sampler: ShardSampler,
    cut: Callable[[ShardBlock], Cut],
    found: NDArray[np.float64],
    expected: NDArray[np.float64],
    keeps_rejected: bool = True,
) -> None:
    """Draw a batch, and add its draws and the expected ones, by shard and age."""
    drawn_of: list[Drawn] = []
    made = sampler._batch
    sampler._batch = lambda drawn: drawn_of.append(drawn) or made(drawn)  # type: ignore[method-assign,func-returns-value]
    try:
        batch = sampler.sample(256)
    finally:
        sampler._batch = made  # type: ignore[method-assign]
    [drawn] = drawn_of
    assert (batch["shard"] == drawn.shard).all()
    # The control of rejected items makes blocks without items, which are no heads.
    present = [[of for of in run if isinstance(of, ShardBlock)] for run in drawn.heads]
    cut_of = {id(block): cut(block) for run in present for block in run}
    for block, at, places in drawn.parts:
        rows, q = cut_of[id(block)]
        index = block.batch["index"]
        assert (batch.index[places] == index[at]).all()
        place = np.searchsorted(rows, index[at] & SEQ)
        assert (rows[place] == index[at] & SEQ).all()
        if keeps_rejected:
            assert (q[place] == drawn.q[places]).all()
        number = int(drawn.shard[places[0]])
        np.add.at(found[number], place * BINS // len(rows), 1)
    for run, blocks in enumerate(present):
        of_run = [(block.shard % 3, *cut_of[id(block)]) for block in blocks]
        total = sum(q.sum() for _, _, q in of_run)
        items = int((drawn.run == run).sum())
        for number, rows, q in of_run:
            bins = np.arange(len(rows)) * BINS // len(rows)
            expected[number] += items * np.bincount(bins, q, BINS) / total


def cut(written: dict[int, Written], block: ShardBlock) -> Cut:
    """Return what a block was drawn from."""
    index = block.batch["index"]
    return written[block.shard % 3].cuts[index.tobytes()]


def over_quantile(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Return the chi-square statistic of draws, divided by its quantile of p = 0.001."""
    assert math.isclose(found.sum(), expected.sum())
    enough = expected >= 5
    statistic = ((found - expected)[enough] ** 2 / expected[enough]).sum()
    degrees = enough.sum() - 1
    # Wilson and Hilferty.
    ninth = 2 / (9 * degrees)
    return float(statistic / (degrees * (1 - ninth + 3.0902 * math.sqrt(ninth)) ** 3))


def ratio_of(case: Case, draws: int, **how: Any) -> float:  # noqa: ANN401
    """Return what `over_quantile` does of as many draws, over shards that begin anew."""
    rounds = [counted(case, seed, **how) for seed in range(1 + draws // (256 * BATCHES))]
    found, expected = (sum(of, np.zeros((3, BINS))) for of in zip(*rounds, strict=True))
    return over_quantile(found, expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_draws_over_shards_elsewhere_are_those_of_one_ring(case: Case) -> None:
    assert ratio_of(case, budget(DRAWS)) < 1


@pytest.mark.parametrize("control", [EqualShares, OldCounts])
def test_other_choices_of_the_shard_are_found_out(control: type[RemoteHeads]) -> None:
    # With a third of the draws old counts are not told from the right ones.
    assert ratio_of(CASES["uniform"], DRAWS, heads_of=control) > 1.5


def test_items_that_a_shard_draws_again_are_found_out() -> None:
    # Many draws of the second shard are rejected, whose episodes are short.
    how: dict[str, Any] = {"ends": (1 / 8, 1 / 3, 1 / 30)}
    case = CASES["priority, reject"]
    assert ratio_of(case, budget(DRAWS), **how) < 1
    assert ratio_of(case, max(30_000, budget(DRAWS)), keeps_rejected=False, **how) > 1.5
