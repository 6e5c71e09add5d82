"""Exponents of priorities that are annealed, or set while learners draw."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import backcast as bc
import numpy as np
import pytest
from waits import read_line

ROWS = 200
# 99.9 % quantile of chi-square with 199 degrees of freedom.
MOST = 266.4


def filled(name: str | None = None, place: Path | None = None) -> bc.ReplayBuffer:
    """Make a ring of 200 transitions of one episode that has not ended."""
    buf = bc.ReplayBuffer.create(name, {"obs": "f4"}, capacity=1_000, dir=place)
    with buf.writer() as writer:
        for t in range(ROWS + 1):
            writer.append(obs=t, terminated=False, truncated=False)
    return buf


def priorities() -> np.ndarray[Any, Any]:
    return 1.0 + np.arange(ROWS) % 7


def check(sampler: bc.Sampler, alpha: float) -> None:
    """Compare draws and weights with those of NumPy."""
    powers = priorities() ** alpha
    batch = sampler.sample(40_000)
    wanted = 40_000 * powers / powers.sum()
    counts = np.bincount(batch.index, minlength=ROWS)
    assert ((counts - wanted) ** 2 / wanted).sum() < MOST
    drawn = powers[batch.index]
    np.testing.assert_allclose(batch["weight"], drawn.min() / drawn, rtol=1e-5)


def test_draws_and_weights_follow_an_exponent_that_is_set() -> None:
    with filled() as buf:
        select = bc.Priority(alpha="table", beta=1.0, eps=0.0)
        sampler, other = buf.sampler(seed=1, select=select), buf.sampler(seed=2, select=select)
        assert (sampler.select, sampler.alpha) == (select, 0.6)
        sampler.update_priorities(np.arange(ROWS), priorities())
        first = buf.sampler(seed=3, select=select).sample(500).index
        for alpha in (0.0, 0.5, 1.0, 2.0):
            other.alpha = alpha
            assert sampler.alpha == alpha
            check(sampler, alpha)
        sampler.alpha = 0.6
        np.testing.assert_array_equal(buf.sampler(seed=3, select=select).sample(500).index, first)
        [table] = buf.stats()["tables"]
        assert (table["exponent"], table["keeps_priorities"]) == (0.6, True)


def test_an_exponent_is_set_while_batches_are_drawn_ahead() -> None:
    with filled() as buf:
        sampler = buf.sampler(seed=4, select=bc.Priority(alpha="table", eps=0.0))
        with sampler.batches(64, prefetch=2, limit=20) as batches:
            for number, _ in enumerate(batches):
                sampler.alpha = number / 20
        assert sampler.alpha == 19 / 20


def test_a_schedule_moves_in_steps_and_is_part_of_a_state() -> None:
    with filled() as buf:
        select = bc.Priority(alpha=(1.0, 0.0, 10), beta=1.0, eps=0.0)
        sampler = buf.sampler(seed=5, select=select)
        sampler.update_priorities(np.arange(ROWS), priorities())
        for batch in range(5):
            sampler.sample(8)
            assert sampler.alpha == pytest.approx(1 - batch / 10)
        state = json.loads(json.dumps(sampler.state()))
        again = buf.sampler(state=state)
        assert (again.select, again.state()) == (select, state)
        # A sampler that begins with the schedule does not move the exponent back.
        buf.sampler(seed=6, select=select).sample(8)
        assert sampler.alpha == pytest.approx(0.6)
        for batch in range(5, 12):
            again.sample(8)
            assert sampler.alpha == pytest.approx(max(0.0, 1 - batch / 10))
        check(sampler, 0.0)


def test_alpha_is_that_of_the_last_batch_of_a_table_and_by_rank_that_of_the_next_one() -> None:
    buf, falls = filled(), (1.0, 0.0, 10)
    drawing = buf.sampler(seed=1, select=bc.Priority(alpha=falls))
    following = buf.sampler(seed=1, select=bc.Priority(alpha="table"))
    ranked = buf.sampler(seed=1, select=bc.Priority(alpha=falls, by="rank", table="ranked"))
    found = []
    for _ in range(4):
        found.append((drawing.alpha, following.alpha, ranked.alpha))
        drawing.sample(8)
        ranked.sample(8)
    expected = [(1, 1, 1), (1, 1, 0.9), (0.9, 0.9, 0.8), (0.8, 0.8, 0.7)]
    np.testing.assert_allclose(np.array(found, float), np.array(expected))


def test_exponents_that_cannot_be_are_refused_and_nothing_changes() -> None:
    with filled() as buf:
        fixed = buf.sampler(select=bc.Priority(alpha=0.6, table="fixed"))
        assert fixed.alpha == 0.6
        with pytest.raises(bc.errors.SampleError, match=r"`fixed`.*0\.6.*table"):
            fixed.alpha = 0.5
        plain = buf.sampler()
        assert plain.alpha is None
        with pytest.raises(bc.errors.SampleError, match=r"select=bc\.Priority\("):
            plain.alpha = 0.5
        kept = buf.sampler(select=bc.Priority(alpha="table", table="kept", eps=0.0))
        kept.update_priorities([0], [30_000.0])
        wrong: list[Any] = [-1, float("nan"), 1.7]
        for alpha in wrong:
            with pytest.raises(bc.errors.SampleError, match=r"\balpha\b"):
                kept.alpha = alpha
        with pytest.raises(bc.errors.ArgumentTypeError, match=r"\balpha\b"):
            kept.alpha = "table"  # type: ignore[assignment]
        assert kept.alpha == 0.6
        others: list[tuple[Any, str]] = [(0.6, "kept"), ("table", "fixed"), ((1, 0, 9), "fixed")]
        for alpha, table in others:
            with pytest.raises(bc.errors.ExistsError, match=r"\balpha\b"):
                buf.sampler(select=bc.Priority(alpha=alpha, table=table))
        bad: list[tuple[Any, type[Exception]]] = [
            ((0.6, 0.4), bc.errors.ArgumentTypeError),
            ((0.6, "x", 9), bc.errors.ArgumentTypeError),
            ((0.6, 0.4, 0.5), bc.errors.ArgumentTypeError),
            ((0.6, 0.4, 0), bc.errors.SampleError),
            ((0.6, -1, 9), bc.errors.SampleError),
        ]
        for alpha, error in bad:
            with pytest.raises(error, match=r"\balpha\b"):
                buf.sampler(select=bc.Priority(alpha=alpha, table="new"))
        # Equal powers of different priorities have no order.
        for changing in ((1, 0, 9), "table"):
            with pytest.raises(bc.errors.ArgumentTypeError, match=r"\balpha\b"):
                buf.sampler(select=bc.Largest(alpha=changing, table="new"))  # type: ignore[arg-type]


def test_a_schedule_goes_on_beside_a_priority_that_is_too_large_for_it() -> None:
    with filled() as buf:
        select = bc.Priority(alpha=(0.4, 1.0, 3), eps=0.0)
        sampler = buf.sampler(seed=5, select=select)
        sampler.update_priorities([3], [1e6])
        for _ in range(5):
            assert len(sampler.sample(8).index) == 8
        assert sampler.alpha == 1.0
        # The largest leaf stands for it.
        assert (sampler.sample(100).index == 3).mean() > 0.9
        by_hand = buf.sampler(select=bc.Priority(alpha="table", eps=0.0))
        by_hand.alpha = 0.5
        with pytest.raises(bc.errors.SampleError, match=r"\b1\b.*\balpha\b|\balpha\b.*\b1\b"):
            by_hand.alpha = 1.0


def test_processes_share_an_exponent_that_one_of_them_sets(
    place: Path, start: Callable[..., Popen[str]]
) -> None:
    buf = filled("shared", place)
    select = bc.Priority(alpha="table", beta=1.0, eps=0.0)
    sampler = buf.sampler(seed=7, select=select)
    sampler.update_priorities(np.arange(ROWS), priorities())
    child = start(
        """
import backcast as bc
sampler = bc.ReplayBuffer.attach("shared").sampler(select=bc.Priority(alpha="table", eps=0.0))
for alpha in (0.25, 1.5):
    sampler.alpha = alpha
    print(sampler.alpha, flush=True)
    input()
"""
    )
    for alpha in (0.25, 1.5):
        assert float(read_line(child)) == sampler.alpha == alpha
        check(sampler, alpha)
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    assert child.wait(timeout=60) == 0
    buf.close()


def test_a_snapshot_has_the_exponent_and_the_priorities(place: Path, tmp_path: Path) -> None:
    buf = filled("saved", place)
    select = bc.Priority(alpha="table", beta=1.0, eps=0.0)
    sampler = buf.sampler(seed=8, select=select)
    sampler.update_priorities(np.arange(ROWS), priorities())
    sampler.alpha = 0.9
    buf.snapshot("s1", store=tmp_path)
    loaded = bc.ReplayBuffer.load("saved@s1", store=tmp_path, name="again", dir=place)
    again = loaded.sampler(seed=9, select=select)
    assert again.alpha == 0.9
    check(again, 0.9)
    again.alpha = 0.3
    check(again, 0.3)
    loaded.close()
    buf.close()
