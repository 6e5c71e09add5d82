"""Goals in hindsight: draw probabilities, windows, rewards, seeds, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from numpy.typing import NDArray

GOAL = {"achieved_goal": ("f4", (2,)), "desired_goal": ("f4", (2,))}
LENGTHS = [3, 7, 1, 12]


def ring(capacity: int = 1_000, lengths: list[int] | None = None) -> bc.ReplayBuffer:
    """Return a ring whose achieved goals hold their row's number; desired goals are negative."""
    columns = {"obs": GOAL, "action": "i4", "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=capacity)
    row = 0
    with buf.writer() as writer:
        for number, length in enumerate(lengths or LENGTHS):
            for step in range(length):
                over = step == length - 1
                writer.append(
                    obs=goals(row, number),
                    action=row,
                    reward=-1,
                    terminated=over and number % 2 == 0,
                    truncated=over and number % 2 == 1,
                    final_obs=goals(row + 1, number) if over else None,
                )
                row += 2 if over else 1
        writer.append(obs=goals(row, 99), action=row, reward=-1, terminated=False, truncated=False)
    return buf


def goals(row: int, episode: int) -> dict[str, NDArray[np.float32]]:
    achieved = np.array([row, row / 2], np.float32)
    return {"achieved_goal": achieved, "desired_goal": np.full(2, -1 - episode, np.float32)}


def reward(achieved: NDArray[Any], desired: NDArray[Any], info: object) -> NDArray[Any]:
    del info
    return np.asarray((achieved == desired).all(axis=-1), np.float32)


def sampler(buf: bc.ReplayBuffer, settings: dict[str, Any]) -> bc.Sampler:
    return buf.sampler(**settings)


def made(arguments: dict[str, Any]) -> bc.Hindsight:
    return bc.Hindsight(**arguments)


def bounds(lengths: list[int]) -> list[tuple[int, int]]:
    """Return the first and the FINAL row of each episode."""
    firsts = np.cumsum([0] + [length + 1 for length in lengths])
    return [
        (int(first), int(first) + length) for first, length in zip(firsts, lengths, strict=False)
    ]


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_goals_are_drawn_with_the_stated_probabilities(
    strategy: Literal["future", "final", "episode"],
) -> None:
    buf, k, draws = ring(), 3, 60_000
    batch = buf.sampler(seed=11, hindsight=bc.Hindsight(reward, strategy, k=k)).sample(draws)
    relabelled = batch["relabelled"]
    share = k / (k + 1)
    # Five standard deviations: exceeded once in 1.7 million seeds.
    assert abs(relabelled.mean() - share) < 5 * np.sqrt(share * (1 - share) / draws)
    goal = batch["obs"]["desired_goal"]
    np.testing.assert_array_equal(goal, batch["next_obs"]["desired_goal"])
    expected: dict[tuple[int, int], float] = {}
    transitions = sum(LENGTHS)
    for first, final in bounds(LENGTHS):
        for row in range(first, final):
            rows = {
                "future": range(row + 1, final + 1),
                "final": range(final, final + 1),
                "episode": range(first + 1, final + 1),
            }[strategy]
            for at in rows:
                expected[row, at] = relabelled.sum() / transitions / len(rows)
    pairs, counts = np.unique(
        np.stack([batch["action"][relabelled], goal[relabelled, 0]]).astype(int),
        axis=1,
        return_counts=True,
    )
    found = dict(zip(map(tuple, pairs.T.tolist()), counts.tolist(), strict=True))
    assert set(found) == set(expected)
    chi2 = sum((found[pair] - count) ** 2 / count for pair, count in expected.items())
    free = len(expected) - 1
    assert chi2 < free + 5 * np.sqrt(2 * free) + 8
    np.testing.assert_array_equal(goal[relabelled, 1], goal[relabelled, 0] / 2)
    own = batch["next_obs"]["achieved_goal"][:, 0] == goal[:, 0]
    np.testing.assert_array_equal(batch["reward"], np.where(relabelled, own, -1))
    assert (goal[~relabelled] < 0).all()
    assert own.any()


@pytest.mark.parametrize("boundary", ["mask", "clamp"])
@pytest.mark.parametrize("copy", [False, True])
def test_all_places_of_a_window_show_one_goal_and_no_other_place_changes(
    boundary: Literal["mask", "clamp"], copy: bool
) -> None:
    buf = ring()
    windows: dict[str, Any] = {
        "seed": 5,
        "history": 4,
        "future": 3,
        "boundary": boundary,
        "copy": copy,
    }
    plain = buf.sampler(**windows).sample(500)
    hindsight = bc.Hindsight(reward, ratio=0.5)
    batch = buf.sampler(**windows, hindsight=hindsight).sample(500)
    np.testing.assert_array_equal(batch.index, plain.index)
    relabelled = batch["relabelled"]
    assert 0 < relabelled.sum() < 500
    drawn = batch["obs"]["desired_goal"][:, -1]
    for part, was in ((batch, plain), (batch["future"], plain["future"])):
        for key in ("obs", "next_obs"):
            now, then = part[key]["desired_goal"], was[key]["desired_goal"]
            filled = (then != 0).all(axis=-1)
            goal = np.where(relabelled[:, None, None], drawn[:, None], then)
            np.testing.assert_array_equal(now, np.where(filled[..., None], goal, 0))
            np.testing.assert_array_equal(part[key]["achieved_goal"], was[key]["achieved_goal"])
        for key in ("terminated", "truncated", "action"):
            np.testing.assert_array_equal(part[key], was[key])
    for part, was, mask in (
        (batch, plain, batch.mask),
        (batch["future"], plain["future"], batch.future_mask),
    ):
        places = relabelled[:, None] & mask
        own = reward(part["next_obs"]["achieved_goal"], part["obs"]["desired_goal"], None)
        np.testing.assert_array_equal(part["reward"], np.where(places, own, was["reward"]))
        assert places.any()


def test_goals_come_from_rows_that_the_ring_still_has() -> None:
    buf = ring(capacity=30, lengths=[80, 5])
    batch = buf.sampler(seed=2, hindsight=bc.Hindsight(reward, "episode", ratio=1)).sample(4_000)
    first = buf.lane_span(0)[0]
    assert batch["relabelled"].all()
    long = batch["action"] < 80
    seen = set(batch["obs"]["desired_goal"][long, 0].astype(int).tolist())
    assert seen == set(range(first + 1, 81))
    assert set(batch["obs"]["desired_goal"][~long, 0].astype(int).tolist()) == set(range(82, 87))


def test_an_episode_that_still_runs_ends_with_its_newest_row() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": GOAL, "reward": "f4"}, capacity=100)
    with buf.writer() as writer:
        for row in range(9):
            writer.append(obs=goals(row, 0), reward=0, terminated=False, truncated=False)
        batch = buf.sampler(seed=2, hindsight=bc.Hindsight(reward, "final", ratio=1)).sample(50)
        assert (batch["obs"]["desired_goal"][:, 0] == 8).all()


def test_seeds_and_states_repeat_and_threads_draw_the_same() -> None:
    buf, hindsight = ring(), bc.Hindsight(reward, k=2)
    first = buf.sampler(seed=9, hindsight=hindsight)
    expected = [first.sample(64) for _ in range(4)]
    with buf.sampler(seed=9, hindsight=hindsight).batches(64, limit=4) as ahead:
        for one, two in zip(expected, ahead, strict=True):
            for key in ("index", "relabelled", "reward"):
                np.testing.assert_array_equal(one[key], two[key])
            np.testing.assert_array_equal(one["obs"]["desired_goal"], two["obs"]["desired_goal"])
    again = buf.sampler(seed=9, hindsight=hindsight)
    again.sample(64)
    rest = buf.sampler(state=again.state(), hindsight=hindsight).sample(64)
    np.testing.assert_array_equal(rest["obs"]["desired_goal"], expected[1]["obs"]["desired_goal"])
    with pytest.raises(bc.errors.SampleError, match=r"\bhindsight\b"):
        buf.sampler(state=again.state())
    gathered = again.gather(expected[0].index)
    assert not gathered["relabelled"].any()
    assert (gathered["obs"]["desired_goal"] < 0).all()


def test_goals_and_priorities_go_together() -> None:
    buf = ring()
    sampler = buf.sampler(seed=1, select=bc.Priority(alpha=0.6), hindsight=bc.Hindsight(reward))
    batch = sampler.sample(64)
    assert batch["weight"].shape == batch["relabelled"].shape == (64,)
    assert sampler.update_priorities(batch.index, np.ones(64)) == 0


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_step": 3, "gamma": 0.9}, r"\bn_step\b.*future=2"),
        (
            {"hindsight": bc.Hindsight(reward, desired="goal")},
            "`goal`",
        ),
        ({"hindsight": bc.Hindsight(reward, achieved="action")}, "`action`"),
        ({"history": {"obs": 4, "reward": None}}, "`reward`"),
        ({"columns": ["obs"]}, "`obs/achieved_goal`.*`reward`"),
        ({"hindsight": reward}, r"\bhindsight\b.*backcast.Hindsight"),
        ({"hindsight": None, "transform": 7}, r"\btransform\b.*\b7\b"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(bc.BackcastError, match=match):
        sampler(ring(), {"seed": 1, "hindsight": bc.Hindsight(reward)} | settings)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"ratio": 1.5}, r"\bratio\b.*1.5.*\b0\b.*\b1\b"),
        ({"k": -1}, r"\bk\b.*-1\b"),
        ({"k": 4, "ratio": 0.8}, r"k=4.*ratio=0\.8"),
        ({"strategy": "past"}, r'"future".*"final".*"episode"'),
        ({"reward": 3}, r"\breward\b.*\b3\b"),
        ({"ratio": True}, r"\bratio\b.*\bTrue\b"),
        ({"desired": 3}, r"\bdesired\b.*\b3\b"),
    ],
)
def test_bad_arguments_of_hindsight_are_refused(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(bc.BackcastError, match=match):
        made({"reward": reward} | arguments)


def test_a_misspelt_argument_of_hindsight_is_named() -> None:
    with pytest.raises(bc.errors.ArgumentTypeError, match="`starategy`"):
        made({"reward": reward, "starategy": "future"})


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        (np.array(["1"] * 8), r"\breward\b.*<U1"),
        (np.full(8, None), r"\breward\b"),
        (np.full(8, 1j), r"\breward\b.*\bcomplex128\b"),
        ([[1], [1, 2]], r"\breward\b.*\bNumPy\b"),
        (np.full(8, 1e300), r"\breward\b.*1e\+300.*\[\d\].*\bf4\b"),
    ],
)
def test_rewards_that_cannot_be_stored_are_refused(returned: Any, match: str) -> None:  # noqa: ANN401
    sampler = ring().sampler(seed=1, hindsight=bc.Hindsight(lambda *_: returned))
    with pytest.raises(bc.errors.SampleError, match=match):
        sampler.sample(8)


def test_infinite_rewards_and_those_of_other_rows_are_no_overflow() -> None:
    def large(
        achieved: NDArray[Any], desired: NDArray[Any], info: Mapping[str, Any]
    ) -> NDArray[Any]:
        return np.where(info["relabelled"], -np.inf, 1e300)

    batch = ring().sampler(seed=1, hindsight=bc.Hindsight(large, ratio=0.5)).sample(64)
    relabelled = batch["relabelled"]
    assert 0 < relabelled.sum() < 64
    assert (batch["reward"][relabelled] == -np.inf).all()
    assert np.isfinite(batch["reward"][~relabelled]).all()


def test_rewards_of_another_shape_are_refused() -> None:
    sampler = ring().sampler(seed=1, hindsight=bc.Hindsight(lambda *_: np.zeros(3)))
    with pytest.raises(bc.errors.SampleError, match=r"\breward\b.*\(3,\).*\(8,\)"):
        sampler.sample(8)


def test_a_transform_sees_every_batch_in_the_callers_thread() -> None:
    import threading

    buf, threads = ring(), set()

    def scale(batch: bc.Batch) -> bc.Batch:
        threads.add(threading.get_ident())
        batch["reward"] *= 10
        return batch

    sampler = buf.sampler(seed=3, transform=scale)
    batch = sampler.sample(16)
    assert (batch["reward"] == -10).all()
    assert (sampler.gather(batch.index)["reward"] == -10).all()
    for reuse in (False, True):
        with sampler.batches(16, limit=3, reuse=reuse) as ahead:
            assert [(batch["reward"] == -10).all() for batch in ahead] == [True] * 3
    assert sampler.sample(16, out=batch) is batch
    assert threads == {threading.get_ident()}
    total: Any = buf.sampler(seed=3, transform=lambda batch: batch["reward"].sum()).sample(4)
    assert total == -4
    with pytest.raises(bc.errors.SampleError, match=r"\btransform\b.*\bNone\b"):
        buf.sampler(seed=3, transform=lambda batch: None).sample(4)
