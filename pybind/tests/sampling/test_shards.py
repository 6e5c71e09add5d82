"""Draws over three shards that grow at different rates, against what the test's own log holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast._shards import Block, BlockHeads, Drawn
from backcast.errors import SampleError
from budgets import budget, budget_of
from numpy.typing import NDArray

DRAWS = budget_of(1_000_000, 250_000)
BINS = 10
SIZES = (100, 1_000, 10_000)
GROWTH = (40, 60, 80)
"""Steps that each shard gets before a batch."""
CAPACITIES = (1_000, 1_500, 30_000)
BATCHES = 20
"""Batches after which the shards begin anew."""
SEQ = (1 << 48) - 1

COLUMNS = {"obs": "i8", "reward": "f4"}


@dataclass
class Log:
    """Rows that the writer of a shard appended."""

    capacity: int
    t: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    """Transitions of the row's episode; large while it goes on."""

    OPEN = 1 << 40

    def append(self, ends: list[bool]) -> None:
        """Log steps, and a FINAL row after each that ends an episode."""
        for end in ends:
            last = len(self.t) - 1
            t = self.t[last] + 1 if last >= 0 and self.length[last] == self.OPEN else 0
            self.t.append(t)
            self.length.append(self.OPEN)
            if end:
                self.t.append(t + 1)
                self.length[-t - 1 :] = [t + 1] * (t + 1)
                self.length.append(t + 1)

    def drawable(self, back: int, ahead: int, stride: int) -> NDArray[np.int64]:
        """Return the rows whose window lies in their episode and among the rows that are kept."""
        end = len(self.t)
        rows = np.arange(max(0, end - self.capacity), end - 1)
        t, length = (np.asarray(of[rows[0] : end - 1]) for of in (self.t, self.length))
        kept = (rows - back >= rows[0]) & (rows + ahead + 1 < end)
        drawable: NDArray[np.int64] = rows[
            (t >= back) & (t + ahead < length) & (t % stride == 0) & kept
        ]
        return drawable

    def masked(self, ahead: int, stride: int) -> NDArray[np.int64]:
        """Return the starts of sequences, which may reach beyond the end of their episode."""
        end = len(self.t)
        rows = np.arange(max(0, end - self.capacity), end - 1)
        t, length = (np.asarray(of[rows[0] : end - 1]) for of in (self.t, self.length))
        whole = rows + ahead + 1 < end
        ends = length < self.OPEN
        starts: NDArray[np.int64] = rows[(t < length) & (t % stride == 0) & (whole | ends)]
        return starts


def priority_of(seq: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the priority that the test sets for a row."""
    return (1 + seq % 7).astype(np.float64)


@dataclass(frozen=True)
class Case:
    """Options of the samplers, and the rows that they may draw."""

    options: dict[str, Any]
    rows: Callable[[Log], NDArray[np.int64]]
    priorities: bool = False


PRIORITY = bc.Priority(alpha=1.0, eps=0.0, beta=0.5)
CASES = {
    "uniform": Case({}, lambda log: log.drawable(0, 0, 1)),
    "n_step": Case({"n_step": 3, "gamma": 0.9}, lambda log: log.drawable(0, 0, 1)),
    "reject": Case(
        {"history": 3, "future": 2, "boundary": "reject"}, lambda log: log.drawable(2, 2, 1)
    ),
    "sequences": Case({"form": bc.Sequence(6, stride=2)}, lambda log: log.masked(5, 2)),
    "priority": Case({"select": PRIORITY}, lambda log: log.drawable(0, 0, 1), priorities=True),
    "priority, reject": Case(
        {"select": PRIORITY, "history": 3, "boundary": "reject"},
        lambda log: log.drawable(2, 0, 1),
        priorities=True,
    ),
}


class Shard:
    """A ring, its log, and the blocks that its sampler drew."""

    def __init__(self, case: Case, number: int, seed: int) -> None:
        self.case = case
        self.capacity = CAPACITIES[number]
        self.buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=self.capacity)
        self.writer = self.buf.writer(autoreset_mode="same_step")
        self.log = Log(self.capacity)
        self.dice = np.random.default_rng((seed, number))
        self.grow(SIZES[number])
        self.sampler = self.buf.sampler(seed=3 * seed + number, **case.options)
        self.prioritised = 0
        self.blocks: dict[int, tuple[Block, NDArray[np.int64], NDArray[np.float64]]] = {}

    def grow(self, steps: int) -> None:
        """Append steps; about every eighth ends its episode."""
        ends = self.dice.random(steps) < 1 / 8
        numbers = np.arange(steps)[:, None]
        self.writer.extend(
            obs=numbers,
            reward=numbers.astype("f4"),
            terminated=ends[:, None],
            truncated=np.zeros_like(ends)[:, None],
            final_obs=numbers,
        )
        self.log.append(ends.tolist())

    def block(self) -> Block:
        """Draw a block, and compare its mass with the log."""
        if self.case.priorities:
            # The newest row got no priority: it had no successor yet.
            rows = np.arange(max(0, self.prioritised - 1), len(self.log.t))
            self.sampler.update_priorities(rows, priority_of(rows))
            self.prioritised = len(self.log.t)
        block = self.sampler.block(64)
        rows = self.case.rows(self.log)
        assert block.count == len(rows)
        q = priority_of(rows) if self.case.priorities else np.ones(len(rows))
        if self.case.priorities:
            # Rows that start a transition have a priority, and may have no whole window.
            all_rows = self.log.drawable(0, 0, 1)
            assert math.isclose(block.mass, priority_of(all_rows).sum())
            assert block.q_min == 1.0
        else:
            assert block.mass == len(rows)
            assert block.rejected == 0
        self.blocks[id(block)] = (block, rows, q)
        return block


class EqualShares(BlockHeads):
    """A control: every shard is as likely."""

    def _masses(self) -> NDArray[np.float64]:
        return np.ones(len(self._heads))


class OldCounts(BlockHeads):
    """A control: items are drawn anew for each batch, by masses of four batches ago."""

    def __init__(self, sources: list[Callable[[], Block | None]], *, seed: int) -> None:
        super().__init__(sources, seed=seed, max_age=0.0)
        self.old: list[NDArray[np.float64]] = []
        self.is_begun = False

    def draw(self, items: int) -> Drawn:
        self.is_begun = False
        return super().draw(items)

    def _masses(self) -> NDArray[np.float64]:
        if not self.is_begun:
            self.old.append(super()._masses())
            self.is_begun = True
        return self.old[max(0, len(self.old) - 5)]


def counted(
    case: Case, heads_of: type[BlockHeads], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw while the shards grow; return the draws by shard and age, and those of the log."""
    shards = [Shard(case, number, seed) for number in range(3)]
    heads = heads_of([shard.block for shard in shards], seed=seed)
    found, expected = np.zeros((3, BINS)), np.zeros((3, BINS))
    for _ in range(BATCHES):
        for shard, growth in zip(shards, GROWTH, strict=True):
            shard.grow(growth)
        drawn = heads.draw(256)
        for block, at, places in drawn.parts:
            [number] = set(drawn.shard[places].tolist())
            _, rows, q = shards[number].blocks[id(block)]
            seq = block.batch.index[at] & SEQ
            place = np.searchsorted(rows, seq)
            assert (rows[place] == seq).all()
            assert (q[place] == drawn.q[places]).all()
            np.add.at(found[number], place * BINS // len(rows), 1)
        for run, blocks in enumerate(drawn.heads):
            of = [shard.blocks[id(block)] for shard, block in zip(shards, blocks, strict=True)]
            # A draw that is not rejected: in proportion to the rows that may be drawn.
            total = sum(q.sum() for _, _, q in of)
            items = int((drawn.run == run).sum())
            for number, (_, rows, q) in enumerate(of):
                bins = np.arange(len(rows)) * BINS // len(rows)
                expected[number] += items * np.bincount(bins, q, BINS) / total
    return found, expected


def ratio_of(case: Case, heads_of: type[BlockHeads], draws: int) -> float:
    """Return the chi-square statistic of draws, divided by its quantile of p = 0.001."""
    rounds = [counted(case, heads_of, seed) for seed in range(1 + draws // (256 * BATCHES))]
    found, expected = (sum(of, np.zeros((3, BINS))) for of in zip(*rounds, strict=True))
    assert math.isclose(found.sum(), expected.sum())
    enough = expected >= 5
    statistic = ((found - expected)[enough] ** 2 / expected[enough]).sum()
    degrees = enough.sum() - 1
    # Wilson and Hilferty.
    ninth = 2 / (9 * degrees)
    return float(statistic / (degrees * (1 - ninth + 3.0902 * math.sqrt(ninth)) ** 3))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_draws_over_shards_are_those_of_one_ring(case: Case) -> None:
    assert ratio_of(case, BlockHeads, DRAWS) < 1


@pytest.mark.parametrize("control", [EqualShares, OldCounts])
def test_other_choices_of_the_shard_are_found_out(control: type[BlockHeads]) -> None:
    assert ratio_of(CASES["uniform"], control, DRAWS) > 1.5


def block(mass: float, q: list[float], count: int | None = None) -> Block:
    """Return a block without rows: its items are numbered."""
    batch = {"number": np.arange(len(q)), "deep": {"twice": 2 * np.arange(len(q))}}
    number = int(mass) if count is None else count
    return Block(bc.Batch(batch), number, mass, np.asarray(q, float), 1.0, 1.0, None)


def test_a_rejected_item_is_a_trial_and_the_shard_is_chosen_again() -> None:
    # Half of the first shard's mass may not be drawn: it has a third of what may be.
    dice = np.random.default_rng(1)
    heads = BlockHeads(
        [lambda: block(2, list((dice.random(50) < 0.5) * 1.0)), lambda: block(2, [1.0] * 50)],
        seed=2,
    )
    shard = heads.draw(budget(200_000)).shard
    z = (np.sum(shard == 0) - len(shard) / 3) / math.sqrt(len(shard) * 2 / 9)
    assert abs(z) < 3.3
    assert (heads.draw(100).q > 0).all()


def test_every_item_of_a_block_is_taken_once_in_its_order() -> None:
    made: list[tuple[int, Block]] = []

    def source(number: int) -> Block:
        made.append((number, block(1 + number, [1.0] * (3 + number))))
        return made[-1][1]

    heads = BlockHeads([lambda: source(0), lambda: source(1)], seed=3)
    batches = [heads.draw(7) for _ in range(40)]
    for number in range(2):
        taken = [
            (id(part), at)
            for drawn in batches
            for part, places, to in drawn.parts
            if drawn.shard[to[0]] == number
            for at in places.tolist()
        ]
        whole = [(id(of), at) for shard, of in made if shard == number for at in range(3 + number)]
        assert taken == whole[: len(taken)]
        assert len(whole) - len(taken) <= 3 + number
    batch = batches[0].batch()
    assert batch["shard"].tolist() == batches[0].shard.tolist()
    assert (batch["deep"]["twice"] == 2 * batch["number"]).all()
    assert "weight" not in batch


def test_weights_are_those_of_the_probabilities_over_all_shards() -> None:
    heads = BlockHeads(
        [lambda: block(6, [1.0, 2.0, 3.0], count=3), lambda: block(9, [4.0, 5.0], count=2)], seed=4
    )
    drawn = heads.draw(60)
    raw = (5 * drawn.q / 15) ** -0.5
    np.testing.assert_allclose(drawn.weights(0.5, None), raw, rtol=1e-6)
    np.testing.assert_allclose(drawn.weights(0.5), raw / raw.max(), rtol=1e-6)
    np.testing.assert_allclose(drawn.weights(0.5, "table"), drawn.q**-0.5, rtol=1e-6)
    np.testing.assert_allclose(drawn.batch(0.5)["weight"], raw / raw.max(), rtol=1e-6)


def test_a_shard_without_a_block_is_left_out_and_old_heads_are_replaced() -> None:
    now, answers = [0.0], [None, block(0, [0.0] * 4), block(8, [1.0] * 1_000)]
    blocks = iter(answers)
    asked: list[float] = []

    def other() -> Block:
        asked.append(now[0])
        return block(8, [1.0] * 1_000)

    heads = BlockHeads([lambda: next(blocks), other], seed=6, max_age=0.1, clock=lambda: now[0])
    assert set(heads.draw(50).shard) == {1}
    assert set(heads.draw(50).shard) == {1}
    assert asked == [0.0]
    now[0] = 0.05
    drawn = heads.draw(50)
    assert set(drawn.shard) == {0, 1}
    assert asked == [0.0]
    assert drawn.cut_age == 0.05
    now[0] = 0.12
    heads.draw(50)
    assert asked == [0.0, 0.12]


def test_shards_without_anything_to_draw_are_an_error() -> None:
    with pytest.raises(SampleError, match="3 shards"):
        BlockHeads([lambda: None, lambda: None, lambda: block(0, [0.0])], seed=1).draw(5)
    with pytest.raises(SampleError, match="rejected"):
        BlockHeads([lambda: block(3, [0.0] * 4_000)], seed=1).draw(5)


def test_a_block_states_what_could_be_drawn_and_what_new_rows_get() -> None:
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=100, limiter=bc.RateLimiter(min_size=1))
    sampler = buf.sampler(seed=1, select=PRIORITY, transform=lambda batch: batch | {"more": 1})
    with buf.writer() as writer:
        for step in range(11):
            writer.append(obs=step, reward=0.0, terminated=False, truncated=False)
        drawn = sampler.block(8)
        assert (drawn.count, drawn.mass, drawn.inserts, drawn.rejected) == (10, 10.0, 10, 0)
        assert drawn.batch["more"] == 1
        assert drawn.q.dtype == np.float64
        sampler.raise_largest(4.0)
        writer.append(obs=11, reward=0.0, terminated=False, truncated=False)
        drawn = sampler.block(8)
        assert (drawn.mass, drawn.q_min, drawn.q_new) == (14.0, 1.0, 4.0)
    options: list[tuple[dict[str, Any], str]] = [
        ({"select": "fifo"}, "fifo"),
        ({"select": bc.Consume()}, "replacement"),
        ({"form": bc.WholeEpisodes("padded")}, "episodes"),
    ]
    for refused, what in options:
        with pytest.raises(SampleError, match=what), buf.sampler(seed=1, **refused) as other:
            other.block(4)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(SampleError):
            sampler.raise_largest(bad)
    held = buf.sampler(select=bc.Priority(alpha=1.0, eps=0.0, table="other", initial="held"))
    for given in (4.0, 2.0):
        held.raise_largest(given)
    assert held.block(8).mass == 11 * 2.0
    with pytest.raises(SampleError, match="rank"):
        buf.sampler(select=bc.Priority(table="ranks", by="rank")).raise_largest(2.0)
    with pytest.raises(SampleError), buf.sampler(seed=1) as other:
        other.raise_largest(2.0)
