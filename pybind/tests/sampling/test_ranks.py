"""Draws by the rank of priorities, and of whole episodes by length, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ExistsError, SampleError
from numpy.typing import NDArray
from waits import read_line

ROWS = 300
GIVEN = 0.01 * 1.04 ** (np.arange(ROWS) * 37 % 150)
RANKS = bc.Priority(alpha=0.7, eps=0.0, by="rank", table="ranks")


def filled(name: str | None = None, place: Path | None = None) -> bc.ReplayBuffer:
    buf = bc.ReplayBuffer.create(name, {"obs": "f4"}, capacity=400, dir=place)
    with buf.writer() as writer:
        for step in range(ROWS + 1):
            writer.append(obs=step, terminated=False, truncated=False)
    return buf


def masses(priorities: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """Return `rank ** -alpha`; priorities that agree in their highest five bits share the mean."""
    stored = np.maximum(np.round(priorities * 2.0**24), 1.0)
    fraction, exponent = np.frexp(stored)
    tied = exponent * 64 + np.floor(fraction * 32)
    powers = np.arange(1, len(tied) + 1) ** -alpha
    order = np.argsort(-tied, kind="stable")
    _, group, count = np.unique(-tied[order], return_inverse=True, return_counts=True)
    found = np.empty(len(tied))
    found[order] = (np.bincount(group, powers) / count)[group]
    return found


def chi_square(counts: NDArray[Any], expected: NDArray[np.float64]) -> float:
    """Return Pearson's statistic, divided by its 99.9 % quantile (Wilson and Hilferty)."""
    expected = expected * counts.sum() / expected.sum()
    degrees = len(counts) - 1
    ninth = 2 / (9 * degrees)
    most = degrees * (1 - ninth + 3.0902 * ninth**0.5) ** 3
    return float((np.square(counts - expected) / expected).sum() / most)


def drawn(sampler: bc.Sampler, rows: int = ROWS) -> NDArray[np.int64]:
    counts = np.zeros(rows, np.int64)
    for _ in range(200):
        counts += np.bincount(sampler.sample(500).index, minlength=rows)
    return counts


def test_draws_and_weights_are_those_of_numpy() -> None:
    buf = filled()
    first = buf.sampler(seed=1, select=RANKS)
    first.update_priorities(np.arange(ROWS), GIVEN)
    for alpha in (0.0, 0.7, 1.2):
        select = bc.Priority(alpha, beta=0.6, eps=0.0, normalize="table", table="ranks", by="rank")
        sampler = buf.sampler(seed=2, select=select)
        assert sampler.alpha == alpha
        expected = masses(GIVEN, alpha)
        counts = drawn(sampler)
        assert chi_square(counts, expected) < 1
        assert chi_square(counts, masses(GIVEN, alpha + 0.2)) > 2
        weights = (expected.min() / expected) ** 0.6
        np.testing.assert_allclose(sampler.gather(np.arange(ROWS))["weight"], weights, rtol=1e-5)
    counts = drawn(buf.sampler(seed=2, select=bc.Priority(alpha=0.7, eps=0.0)))
    assert chi_square(counts, masses(GIVEN, 0.7)) > 2


def test_a_schedule_is_part_of_the_state_and_draws_ahead() -> None:
    buf = filled()
    select = bc.Priority(alpha=(1.0, 0.0, 10), eps=0.0, table="ranks", by="rank")
    sampler = buf.sampler(seed=3, select=select)
    sampler.update_priorities(np.arange(ROWS), GIVEN)
    for batch in range(12):
        assert sampler.alpha == pytest.approx(1 - min(batch, 10) / 10)
        if batch == 5:
            state = sampler.state()
        sampler.sample(64)
    again = buf.sampler(state=state)
    assert again.select == select
    assert again.alpha == pytest.approx(0.5)
    expected = [again.sample(64).index for _ in range(4)]
    with buf.sampler(state=state).batches(64, prefetch=2, limit=4) as batches:
        for ahead, index in zip(batches, expected, strict=True):
            np.testing.assert_array_equal(ahead.index, index)


def test_what_ranks_exclude_is_refused() -> None:
    buf = filled()
    sampler = buf.sampler(seed=1, select=RANKS)
    with pytest.raises(SampleError, match="its own alpha"):
        sampler.alpha = 0.5
    with pytest.raises(SampleError, match="its own alpha"):
        buf.sampler(select=bc.Priority(alpha="table", by="rank", table="other"))
    with pytest.raises(SampleError, match="rank"):
        sampler.block(4)
    with pytest.raises(SampleError, match="rank"):
        sampler.raise_largest(2.0)
    with pytest.raises(SampleError, match='"priority" or "rank"'):
        buf.sampler(select=bc.Priority(by="size"))  # type: ignore[arg-type]
    with pytest.raises(ExistsError, match="drawn by rank"):
        buf.sampler(select=bc.Priority(alpha=0.7, eps=0.0, table="ranks"))
    [table] = buf.stats()["tables"]
    assert (table["by"], table["exponent"], table["keeps_priorities"]) == ("rank", 0.7, False)


def test_processes_share_ranks_and_one_that_is_killed_leaves_them_right(
    place: Path, start: Callable[..., Popen[str]]
) -> None:
    with filled("ranked", place) as buf:
        sampler = buf.sampler(seed=1, select=RANKS)
        sampler.update_priorities(np.arange(ROWS), GIVEN)
        for _ in range(3):
            child = start("""
import backcast as bc, numpy as np
select = bc.Priority(alpha=0.7, eps=0.0, by="rank", table="ranks")
sampler = bc.ReplayBuffer.attach("ranked").sampler(seed=2, select=select)
rng = np.random.default_rng()
print("go", flush=True)
while True:
    sampler.update_priorities(np.arange(300), rng.exponential(size=300))
    sampler.sample(64)
""")
            assert read_line(child) == "go\n"
            for _ in range(20):
                sampler.sample(256)
            child.kill()
            child.wait(60)
        assert (sampler.gather(np.arange(ROWS))["weight"] > 0).all()
        sampler.update_priorities(np.arange(ROWS), GIVEN)
        assert chi_square(drawn(sampler), masses(GIVEN, 0.7)) < 1


def test_ranks_go_on_in_a_snapshot_a_larger_ring_and_after_clear(
    place: Path, tmp_path: Path
) -> None:
    with filled("ranked", place) as buf:
        sampler = buf.sampler(seed=1, select=RANKS)
        sampler.update_priorities(np.arange(ROWS), GIVEN)
        buf.snapshot("s1", store=tmp_path)
        with bc.ReplayBuffer.load("ranked@s1", store=tmp_path, name="again", dir=place) as saved:
            counts = drawn(saved.sampler(seed=4, select=RANKS))
        assert chi_square(counts, masses(GIVEN, 0.7)) < 1
        buf.resize(800)
        assert chi_square(drawn(sampler), masses(GIVEN, 0.7)) < 1
        buf.clear()
        with buf.writer() as writer:
            for step in range(21):
                writer.append(obs=step, terminated=False, truncated=False)
        first = int(buf.sampler(select="fifo").sample(1).index[0])
        few = 0.5 ** np.arange(20)
        sampler.update_priorities(first + np.arange(20), few)
        counts = drawn(sampler, first + 20)
        assert counts[:first].sum() == 0
        assert chi_square(counts[first:], masses(few, 0.7)) < 1


def episodes() -> bc.ReplayBuffer:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=1_000)
    with buf.writer() as writer:
        for length in range(1, 31):
            for step in range(length):
                is_last = step == length - 1
                writer.append(
                    obs=step,
                    reward=length + step,
                    terminated=is_last,
                    truncated=False,
                    final_obs=-1 if is_last else None,
                )
    return buf


@pytest.mark.parametrize("layout", ["padded", "ragged"])
def test_episodes_are_drawn_in_proportion_to_their_lengths(
    layout: Literal["padded", "ragged"],
) -> None:
    buf = episodes()

    def counts(by_length: bool) -> NDArray[np.int64]:
        form = bc.WholeEpisodes(layout, by_length=by_length)
        sampler = buf.sampler(seed=5, form=form)
        assert sampler.form == form
        sampler = buf.sampler(state=sampler.state())
        found = np.zeros(30, np.int64)
        for _ in range(50):
            batch = sampler.sample(100)
            lengths = batch["length"] if layout == "padded" else np.diff(batch["offsets"])
            found += np.bincount(lengths - 1, minlength=30)
        return found

    lengths = np.arange(1.0, 31.0)
    assert chi_square(counts(True), lengths) < 1
    assert chi_square(counts(False), lengths) > 2
    form = bc.WholeEpisodes(layout, by_length=True)
    for select in ("fifo", bc.Priority(table="episodes"), bc.Consume(), bc.Epoch()):
        with pytest.raises(SampleError, match="by_length"):
            buf.sampler(form=form, select=select)


@pytest.mark.parametrize(("eta", "of"), [(1.0, np.max), (0.0, np.mean)])
def test_an_episode_has_the_largest_or_the_mean_priority_of_its_transitions(
    eta: float, of: Callable[[NDArray[Any]], float]
) -> None:
    buf = episodes()
    select = bc.Priority(alpha=1.0, eps=0.0, table="episodes")
    sampler = buf.sampler(seed=5, form=bc.WholeEpisodes("padded"), select=select)
    everything = buf.sampler(form=bc.WholeEpisodes("padded"), select="fifo").sample(30)
    td = np.abs(everything["reward"])
    assert sampler.update_priorities(everything.index, td, mask=everything.mask, eta=eta) == 0
    expected = np.array([of(length + np.arange(length)) for length in range(1, 31)])
    found = np.zeros(30, np.int64)
    for _ in range(50):
        found += np.bincount(sampler.sample(100)["length"] - 1, minlength=30)
    assert chi_square(found, expected) < 1
    assert chi_square(found, np.sqrt(expected)) > 2
