"""Prioritised draws from Python: weights, schedules, windows, states and other processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import backcast as bc
import numpy as np
import pytest
from waits import read_line


@pytest.fixture
def buf() -> bc.ReplayBuffer:
    """Make a ring of 200 transitions of one episode that has not ended."""
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=1_000)
    with buf.writer() as writer:
        for t in range(201):
            writer.append(obs=t, reward=t, terminated=False, truncated=False)
    return buf


def test_rows_are_drawn_by_priority_and_weighed(buf: bc.ReplayBuffer) -> None:
    sampler = buf.sampler(seed=7, select=bc.Priority(alpha=1.0, beta=1.0, eps=0.0))
    index = np.arange(200)
    assert sampler.update_priorities(index, np.where(index < 100, 3.0, 1.0)) == 0
    batch = sampler.sample(100_000)
    assert batch["weight"].dtype == np.float32
    assert batch["weight"].shape == (100_000,)
    small = batch["obs"] >= 100
    # Expected share 1/4; the bound is four standard deviations.
    assert abs(small.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 100_000)
    assert (batch["weight"][small] == 1).all()
    assert np.allclose(batch["weight"][~small], 1 / 3)


def test_beta_is_a_number_a_pair_or_a_function(buf: bc.ReplayBuffer) -> None:
    index = np.arange(200)
    seen = []

    def schedule(batch: int) -> float:
        seen.append(batch)
        return 0.5 if batch < 2 else 1.0

    betas: list[Any] = [0.5, (0.5, 2), schedule]
    select = [bc.Priority(alpha=1.0, beta=beta, eps=0.0) for beta in betas]
    samplers = [buf.sampler(seed=1, select=one) for one in select]
    number, _, function = samplers
    number.update_priorities(index, 1.0 + index)
    assert [sampler.select for sampler in samplers] == select
    for batch in range(3):
        drawn = [sampler.sample(50) for sampler in samplers]
        assert (drawn[0].index == drawn[1].index).all()
        assert (drawn[0].index == drawn[2].index).all()
        priority = 1.0 + drawn[0].index
        for got, beta in zip(drawn, (0.5, 0.5 + batch / 4, schedule(batch)), strict=True):
            expected = (priority.min() / priority) ** beta
            assert np.allclose(got["weight"], expected, atol=1e-6)
    assert seen[:2] == [0, 0]
    with pytest.raises(bc.errors.SampleError, match=r"\bbeta\b.*beta=\(first, batches\)"):
        function.batches(10)
    with pytest.raises(bc.errors.SampleError, match=r"\bbeta\b.*\b1\.5\b.*\b0\b.*\b1\b"):
        buf.sampler(seed=1, select=bc.Priority(alpha=1.0, beta=lambda _: 1.5, eps=0.0)).sample(2)
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bbeta\b"):
        buf.sampler(select=bc.Priority(alpha=1.0, beta=lambda _: "x", eps=0.0)).sample(2)  # type: ignore[arg-type, return-value]


def test_priorities_of_windows_are_mixed(buf: bc.ReplayBuffer) -> None:
    mixed = buf.sampler(seed=2, select=bc.Priority(alpha=1.0, eps=0.0), history=4)
    batch = mixed.sample(8)
    td = np.arange(32.0).reshape(8, 4)
    mask = np.ones((8, 4), bool)
    mask[:, 0] = False
    _, first = np.unique(batch.index, return_index=True)
    index, td, mask = batch.index[first], td[first], mask[first]
    assert mixed.update_priorities(index, td, mask=mask, eta=0.9) == 0
    expected = 0.9 * td[:, 1:].max(axis=1) + 0.1 * td[:, 1:].mean(axis=1)
    by_table = buf.sampler(select=bc.Priority(alpha=1.0, beta=1.0, eps=0.0, normalize="table"))
    weight = by_table.gather(index)["weight"]
    assert np.allclose(weight, min(1.0, expected.min()) / expected, rtol=1e-5)
    for wrong, message in (
        ({"mask": mask[:, :2]}, r"\b32\b.*\b4\b.*\b16\b"),
        ({"eta": 1.5}, r"\beta\b.*1.5"),
    ):
        with pytest.raises(bc.errors.SampleError, match=message):
            mixed.update_priorities(index, td, **wrong)
    with pytest.raises(bc.errors.SampleError, match=r"\[8\].*\[B, H\]"):
        mixed.update_priorities(index, td[:, 0], mask=mask)


def test_priorities_are_set_while_batches_are_drawn_ahead(buf: bc.ReplayBuffer) -> None:
    sampler = buf.sampler(seed=3, select=bc.Priority(alpha=0.6))
    with sampler.batches(64, prefetch=2, limit=20) as batches:
        dropped = [sampler.update_priorities(batch.index, batch["reward"]) for batch in batches]
    assert dropped == [0] * 20
    [table] = buf.stats()["tables"]
    assert (table["name"], table["updated"], table["stale"]) == ("priority", 20 * 64, 0)


def test_a_state_goes_on_with_the_same_draws(buf: bc.ReplayBuffer) -> None:
    select = bc.Priority(alpha=0.6, beta=(0.4, 10), stratified=True, initial="held")
    sampler = buf.sampler(seed=4, select=select, history=2)
    sampler.sample(16)
    state = json.loads(json.dumps(sampler.state()))
    again = buf.sampler(state=state)
    assert again.state() == state
    assert again.select == sampler.select == select
    one, two = sampler.sample(16), again.sample(16)
    assert (one.index == two.index).all()
    assert (one["weight"] == two["weight"]).all()
    assert "priority" not in buf.sampler(seed=1).state()


def test_a_state_asks_for_the_function_of_beta_again(buf: bc.ReplayBuffer) -> None:
    def rising(batch: int) -> float:
        return min(1.0, 0.4 + batch / 10)

    index = np.arange(200)
    select = bc.Priority(alpha=0.6, beta=rising)
    sampler = buf.sampler(seed=4, select=select)
    sampler.update_priorities(index, 1.0 + index)
    assert sampler.state()["priority"]["beta"] == "function"
    for _ in range(3):
        sampler.sample(16)
    state = json.loads(json.dumps(sampler.state()))
    assert state["priority"]["beta"] == "function"
    message = r"\bbeta\b.*select=bc\.Priority\("
    with pytest.raises(bc.errors.SampleError, match=message):
        buf.sampler(state=state)
    others: list[Any] = [
        replace(select, beta=0.6),
        replace(select, alpha=0.7),
        replace(select, eps=0.0),
        replace(select, table="other"),
        bc.Largest(alpha=0.6),
        "uniform",
    ]
    for other in others:
        with pytest.raises(bc.errors.SampleError, match=r"\bselect\b"):
            buf.sampler(state=state, select=other)
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bselect\b.*\b0\.6\b"):
        buf.sampler(state=state, select=0.6)  # type: ignore[arg-type]
    again = buf.sampler(state=state, select=select)
    assert again.select == select
    assert again.state() == state
    for batch in range(3, 8):
        one, two = sampler.sample(16), again.sample(16)
        assert (one.index == two.index).all()
        assert (one["weight"] == two["weight"]).all()
        power = (1.0 + one.index + 1e-6) ** 0.6
        assert np.allclose(one["weight"], (power.min() / power) ** rising(batch), atol=1e-5)
    named = buf.sampler(state=state, select=select).gather(index)["weight"]
    power = (1.0 + index + 1e-6) ** 0.6
    assert np.allclose(named, (power.min() / power) ** rising(3), atol=1e-5)
    # A state holds a `beta` that is a number or a pair, so `select` beside it is refused.
    for beta in (0.5, (0.4, 10)):
        plain = buf.sampler(seed=4, select=bc.Priority(alpha=0.6, beta=beta)).state()
        with pytest.raises(bc.errors.SampleError, match=r"\bstate\b"):
            buf.sampler(state=plain, select=select)
    with pytest.raises(bc.errors.SampleError, match=r"\bstate\b"):
        buf.sampler(state=buf.sampler(seed=1).state(), select=select)


def test_stats_say_which_transitions_of_an_episode_have_a_priority(buf: bc.ReplayBuffer) -> None:
    forms: list[tuple[Any, int | None]] = [
        (None, 1),
        (bc.Sequence(4, stride=3), 3),
        (bc.WholeEpisodes("padded", max_length=9), None),
    ]
    for number, (form, stride) in enumerate(forms):
        options = {} if form is None else {"form": form}
        buf.sampler(select=bc.Priority(table=f"of-{number}"), **options)
        assert buf.stats()["tables"][number]["stride"] == stride


def test_new_transitions_have_the_largest_priority_that_the_ring_holds() -> None:
    cases: list[tuple[Any, float]] = [("held", 0.25), ("ever", 8.0)]
    for initial, expected in cases:
        with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=400) as buf:
            select: Any = bc.Priority(
                alpha=1.0, beta=1.0, eps=0.0, normalize="table", initial=initial
            )
            sampler = buf.sampler(seed=3, select=select)
            assert sampler.select == select
            with buf.writer() as writer:
                for t in range(51):
                    writer.append(obs=t, terminated=False, truncated=False)
                sampler.update_priorities(np.arange(50), np.full(50, 8.0))
                sampler.update_priorities(np.arange(50), np.full(50, 0.25))
                for t in range(51, 101):
                    writer.append(obs=t, terminated=False, truncated=False)
            priority = np.where(np.arange(100) < 50, 0.25, expected)
            counts = np.bincount(sampler.sample(20_000).index, minlength=100)
            wanted = 20_000 * priority / priority.sum()
            # 99.9 % quantile of chi-square with 99 degrees of freedom.
            assert ((counts - wanted) ** 2 / wanted).sum() < 148.3
            weight = sampler.gather(np.arange(100))["weight"]
            np.testing.assert_allclose(weight, priority.min() / priority, rtol=1e-6)
            [table] = buf.stats()["tables"]
            assert (table["initial"], table["stride"]) == (initial, 1)
            other = replace(select, initial="ever" if initial == "held" else "held")
            with pytest.raises(bc.errors.ExistsError, match=r"\bheld\b"):
                buf.sampler(select=other)
            largest = bc.Largest(alpha=1.0, eps=0.0, initial=initial)
            assert buf.sampler(select=largest).select == largest
    with pytest.raises(bc.errors.SampleError, match=r"\binitial\b.*\bnever\b"):
        buf.sampler(select=bc.Priority(initial="never"))  # type: ignore[arg-type]


def test_largest_and_smallest_priorities_have_no_weights(buf: bc.ReplayBuffer) -> None:
    selectors: list[Any] = [bc.Largest(alpha=0.6), bc.Smallest(alpha=0.6)]
    for select in selectors:
        assert "weight" not in buf.sampler(select=select).sample(8)


def test_stale_rows_are_dropped_and_counted(buf: bc.ReplayBuffer) -> None:
    sampler = buf.sampler(seed=5, select=bc.Priority(alpha=0.6))
    old = sampler.sample(50).index
    with buf.writer() as writer:
        for t in range(1_200):
            writer.append(obs=t, reward=t, terminated=False, truncated=False)
    assert sampler.update_priorities(old, np.ones(50)) == 50
    masked = [-1, sampler.sample(1).index[0], -1]
    assert sampler.update_priorities(masked, [5.0, 1.0, 5.0]) == 2, "-1 is skipped"
    assert sampler.update_priorities(sampler.sample(50).index, np.ones(50)) == 0
    [table] = buf.stats()["tables"]
    assert table["stale"] == 52


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"alpha": -0.1}, bc.errors.SampleError, r"\balpha\b.*-0.1"),
        ({"alpha": float("nan")}, bc.errors.SampleError, r"\balpha\b.*\bNaN\b"),
        ({"alpha": "high"}, bc.errors.ArgumentTypeError, r"\balpha\b.*'high'"),
        ({"beta": 2}, bc.errors.SampleError, r"\bbeta\b.*\b2\b"),
        ({"beta": "x"}, bc.errors.ArgumentTypeError, r"\bbeta\b.*'x'"),
        ({"beta": (0.4, 0)}, bc.errors.SampleError, r"\bbeta\b"),
        ({"eps": -1}, bc.errors.SampleError, r"\beps\b.*-1\b"),
        ({"normalize": "all"}, bc.errors.SampleError, r"\bnormalize\b.*`all`"),
        ({"table": "../x"}, bc.errors.ArgumentError, r"`\.\./x`"),
        ({"alpha": 0.7}, bc.ExistsError, r"0.6.*0.7"),
        ({"eps": 1.0}, bc.ExistsError, r"\beps\b"),
    ],
)
def test_bad_settings_are_refused(
    buf: bc.ReplayBuffer, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    taken = buf.sampler(select=bc.Priority(alpha=0.6))
    selectors: list[Any] = [bc.Priority(**arguments)]
    if arguments.keys() <= {"alpha", "eps", "table"}:
        selectors += [bc.Largest(**arguments), bc.Smallest(**arguments)]
    for select in selectors:
        with pytest.raises(error, match=message):
            buf.sampler(select=select)
    assert [table["name"] for table in buf.stats()["tables"]] == ["priority"]
    taken.close()


def test_bad_priorities_are_refused_and_nothing_changes(buf: bc.ReplayBuffer) -> None:
    sampler = buf.sampler(seed=6, select=bc.Priority(alpha=1.0, eps=0.0, normalize="table"))
    for index, priority, message in (
        ([0, 1], [1.0, -1.0], r"priority\[1\].*-1\b.*abs\(td\)"),
        ([0, 1], [np.nan, 1.0], r"priority\[0\].*\bNaN\b"),
        ([0, 1], [1.0, 1e9], r"\btable\b.*\b65536\b"),
        ([0, 1], [1.0], r"\b1\b.*\b2\b"),
        ([0, 5_000], [1.0, 1.0], r"index\[1\] = 5000\b"),
    ):
        with pytest.raises(bc.errors.SampleError, match=message):
            sampler.update_priorities(index, priority)
    assert (sampler.sample(100)["weight"] == 1).all()
    with pytest.raises(bc.errors.SampleError, match=r"select=bc\.Priority\("):
        buf.sampler().update_priorities([0], [1.0])
    sampler.close()
    with pytest.raises(bc.ClosedError):
        sampler.update_priorities([0], [1.0])


def test_processes_share_a_table_that_goes_with_the_ring(
    place: Path, start: Callable[..., Popen[str]]
) -> None:
    buf = bc.ReplayBuffer.create("shared", {"obs": "f4"}, capacity=100, dir=place)
    with buf.writer() as writer:
        for t in range(60):
            writer.append(obs=t, terminated=False, truncated=False)
    child = start(
        """
import backcast as bc, numpy as np
sampler = bc.ReplayBuffer.attach("shared").sampler(select=bc.Priority(alpha=1.0, eps=0.0))
print(sampler.update_priorities(np.arange(59), np.full(59, 1e-6)))
print(sampler.update_priorities([7], [1000.0]))
"""
    )
    said, complained = child.communicate(timeout=60)
    assert (said.split(), complained) == (["0", "0"], "")
    sampler = buf.sampler(seed=8, select=bc.Priority(alpha=1.0, eps=0.0))
    assert (sampler.sample(200).index == 7).all()
    ring = place / f"backcast-{place.stat().st_uid}" / "shared.ring"
    assert (ring / "table-priority.dat").exists()
    sampler.close()
    buf.close()


def test_other_processes_see_the_ages_of_a_learner_until_it_is_killed(
    place: Path, start: Callable[..., Popen[str]]
) -> None:
    buf = bc.ReplayBuffer.create("shared", {"obs": "f4"}, capacity=500, dir=place)
    with buf.writer() as writer:
        for t in range(400):
            writer.append(obs=t, terminated=False, truncated=False)
    child = start(
        """
import json
import backcast as bc
buf = bc.ReplayBuffer.attach("shared")
sampler = buf.sampler(seed=3)
for _ in range(65):
    sampler.sample(32)
print(json.dumps(sampler.stats()["ages"]), flush=True)
input()
"""
    )
    own = json.loads(read_line(child))
    assert sum(entry["rows"] for entry in own) == 2 * 32
    (reader,) = buf.stats()["readers"]
    assert (reader["pid"], reader["sampled_batches"], reader["ages"]) == (child.pid, 65, own)
    child.kill()
    child.communicate(timeout=60)
    assert buf.stats()["readers"] == []
    sampler = buf.sampler(seed=4)
    assert [reader["ages"] for reader in buf.stats()["readers"]] == [[]]
    batches = sampler.batches(16)
    next(batches)
    (reader,) = buf.stats()["readers"]
    assert sum(entry["rows"] for entry in reader["ages"]) == 16


def test_statistics_are_those_of_the_drawn_rows_and_of_the_priorities(
    buf: bc.ReplayBuffer,
) -> None:
    sampler = buf.sampler(seed=7, select=bc.Priority(alpha=1.0, eps=0.0))
    assert sampler.stats()["ages"] == []
    index = np.arange(200)
    values = 0.25 * (1 + index % 9)
    assert sampler.update_priorities(index, values) == 0
    ages = np.concatenate([sampler.sample(64).age for _ in range(129)][::64])
    stats = sampler.stats()
    assert (stats["sampled"], stats["lapped"]) == (129 * 64, 0)
    for at, found in enumerate(stats["ages"]):
        assert found["from"] == (0 if at == 0 else 2 ** (at - 1))
        end = 1 if at == 0 else 2 * found["from"]
        assert found["rows"] == np.count_nonzero((ages >= found["from"]) & (ages < end))
    assert sum(found["rows"] for found in stats["ages"]) == len(ages) == 3 * 64
    priorities = stats["priorities"]
    assert priorities["rows"] == 200
    effective = values.sum() ** 2 / np.square(values).sum()
    assert np.isclose(priorities["effective_rows"], effective)
    for found in priorities["histogram"]:
        within = (values >= found["from"]) & (values < 2 * found["from"])
        assert found["rows"] == np.count_nonzero(within)
    # Statistics can be read while a thread draws ahead. Other selectors have no `priorities`.
    batches = sampler.batches(64)
    next(batches)
    assert sampler.stats()["priorities"]["rows"] == 200
    uniform = buf.sampler(seed=1)
    uniform.sample(8)
    assert uniform.stats()["priorities"] is None
    sampler.close()
    with pytest.raises(bc.ClosedError):
        sampler.stats()


def twenty_rows() -> bc.ReplayBuffer:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    with buf.writer() as writer:
        for t in range(20):
            writer.append(obs=t, terminated=False, truncated=False)
    return buf


def test_masked_places_of_windows_are_not_read_and_bad_ones_are_named_by_both_indices() -> None:
    buf = twenty_rows()
    sampler = buf.sampler(seed=1, select=bc.Priority(alpha=1.0, eps=0.0), history=2)
    mask = np.array([[False, True], [True, True]])
    errors = np.array([[np.nan, 2.0], [1.0, 1.0]])
    assert sampler.update_priorities([3, 4], errors, mask=mask) == 0
    errors[0, 0] = -1
    assert sampler.update_priorities([3, 4], errors, mask=mask) == 0
    for value, shown in ((np.nan, "NaN"), (-2.0, "-2"), (np.inf, "inf")):
        errors[1, 1] = value
        for given in (mask, None):
            errors[0, 0] = 0.0 if given is None else np.nan
            with pytest.raises(bc.errors.SampleError, match=rf"priority\[1, 1\].* {shown};"):
                sampler.update_priorities([3, 4], errors, mask=given)


def test_a_window_without_a_valid_place_gets_the_priority_0() -> None:
    buf = twenty_rows()
    sampler = buf.sampler(seed=1, select=bc.Priority(alpha=1.0, eps=0.0), history=2)
    assert 3 in sampler.sample(1_000).index
    assert sampler.update_priorities([3], [[5.0, 5.0]], mask=[[False, False]]) == 0
    assert 3 not in sampler.sample(1_000).index


def test_no_power_is_stored_below_the_floor() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    with buf.writer() as writer:
        for t in range(11):
            writer.append(obs=t, terminated=False, truncated=False)
    sampler = buf.sampler(seed=1, select=bc.Priority(alpha=2.0, eps=0.0))
    priorities = np.linspace(1e-4, 1e-3, 10)
    sampler.update_priorities(np.arange(10), priorities)
    counts = np.bincount(sampler.sample(200_000).index, minlength=10) / 200_000
    steps = np.maximum(np.round(priorities**2 * 2**24), 1)
    np.testing.assert_allclose(counts, steps / steps.sum(), atol=0.004)
    assert counts[0] > 3 * priorities[0] ** 2 / (priorities**2).sum()
