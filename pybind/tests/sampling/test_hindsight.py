"""Goals in hindsight: draw probabilities, windows, rewards, seeds, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from backcast.returns import discounted
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


def test_hindsight_is_compared_copied_and_never_changed() -> None:
    hindsight = bc.Hindsight(reward, k=1, terminated=reached)
    for name in ("terminated", "reward", "ratio"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(hindsight, name, None)
    assert hindsight == bc.Hindsight(reward, ratio=0.5, terminated=reached)
    assert hindsight != bc.Hindsight(reward, ratio=0.5)
    assert pickle.loads(pickle.dumps(hindsight)) == copy.copy(hindsight) == hindsight
    assert dataclasses.replace(hindsight, ratio=0.25).ratio == 0.25


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


def reached(
    achieved: NDArray[Any], desired: NDArray[Any], info: Mapping[str, Any]
) -> NDArray[np.bool_]:
    del info
    return np.asarray((achieved == desired).all(axis=-1))


def distance(achieved: NDArray[Any], desired: NDArray[Any], info: object) -> NDArray[Any]:
    """Return rewards that tell all transitions and goals apart."""
    del info
    return np.asarray(desired[..., 0] - 0.5 * achieved[..., 0], np.float32)


def n_step_of(
    row: int, goal: float, n_step: int, gammas: list[float], ends: bool
) -> tuple[float, float, int]:
    """Return sum, discount and last row of the return of a relabelled transition."""
    spans = bounds(LENGTHS * (len(gammas) // 27))
    number = next(at for at, (first, final) in enumerate(spans) if first <= row < final)
    final, total, left, at = spans[number][1], 0.0, 1.0, row
    while at < min(final, row + n_step):
        total += left * (goal - 0.5 * (at + 1))
        left *= gammas[at]
        at += 1
        if ends and at == goal:
            return total, 0.0, at
    over = not ends and at == final and number % 2 == 0
    return total, 0.0 if over else left, at


def ring_of_discounts(form: dict[str, Any], gammas: list[float]) -> bc.ReplayBuffer:
    """Return a ring with the episodes of `ring` in each lane, some rounds of them."""
    lanes, columns = form["lanes"], {"obs": GOAL, "action": "i4", "reward": "f8", "discount": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=form["capacity"], lanes=lanes)

    def in_lanes(row: int, number: int) -> dict[str, Any]:
        shown = [goals(row + 1_000 * lane, number) for lane in range(lanes)]
        return {name: np.stack([of[name] for of in shown]) for name in shown[0]}

    row = 0
    with buf.writer(lanes, form["autoreset_mode"]) as writer:
        for number, length in enumerate(LENGTHS * form["rounds"]):
            for step in range(length):
                over = step == length - 1
                writer.append(
                    obs=in_lanes(row, number),
                    action=np.full(lanes, row),
                    reward=np.full(lanes, -1),
                    discount=np.full(lanes, gammas[row]),
                    terminated=np.full(lanes, over and number % 2 == 0),
                    truncated=np.full(lanes, over and number % 2 == 1),
                    final_obs=in_lanes(row + 1, number) if over else None,
                )
                row += 2 if over else 1
    return buf


LANES = {"lanes": 3, "autoreset_mode": "same_step"}
COMBINED: list[dict[str, Any]] = [
    {},
    {"history": 3},
    {"history": 3, "copy": True},
    {"boundary": "reject"},
    {"history": 2, "boundary": "clamp"},
    {"select": bc.Priority(alpha=0.6)},
    {"select": bc.Priority(alpha=0.6, by="rank", stratified=True)},
    {"history": {"obs": 3, "reward": 3, "terminated": 3, "truncated": 3, "discount": 3}},
    {"ring": LANES},
    {"ring": {"rounds": 4, "capacity": 41}, "history": 2},
    {"ring": LANES | {"rounds": 4, "capacity": 123}, "select": bc.Priority(alpha=0.6)},
]


@pytest.mark.parametrize("settings", COMBINED, ids=lambda of: "-".join(map(str, of)) or "plain")
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("gamma", [0.9, "discount"])
def test_n_step_returns_are_those_of_the_new_goals(
    settings: dict[str, Any], ends: bool, gamma: float | Literal["discount"]
) -> None:
    form = {"lanes": 1, "rounds": 1, "capacity": 1_000, "autoreset_mode": None}
    form, n_step = form | settings.get("ring", {}), 4
    rows = range(27 * form["rounds"])
    gammas = [0.5 + 0.25 * (at % 3 == 0) if gamma == "discount" else gamma for at in rows]
    buf = ring_of_discounts(form, gammas)
    settings = {name: value for name, value in settings.items() if name != "ring"}
    windows = {"seed": 3, "future": n_step, "n_step": n_step, "gamma": gamma} | settings
    plain = buf.sampler(**windows).sample(400)
    hindsight = bc.Hindsight(distance, k=2, terminated=reached if ends else None)
    batch = buf.sampler(**windows, hindsight=hindsight).sample(400)
    np.testing.assert_array_equal(batch.index, plain.index)
    relabelled, ended, checked = batch["relabelled"], 0, 0
    assert set(batch.index >> 48) == set(range(form["lanes"]))
    for item, (lane, seq) in enumerate(zip(*divmod(batch.index, 1 << 48), strict=True)):
        found = [batch["n_reward"][item], batch["n_discount"][item]]
        if not relabelled[item]:
            assert found == [plain["n_reward"][item], plain["n_discount"][item]]
            continue
        goal = float(batch["n_next_obs"]["desired_goal"][item, 0])
        # The goals of a lane are its rows plus 1,000 times the lane.
        total, left, last = n_step_of(int(seq), goal - 1_000 * lane, n_step, gammas, ends)
        summed = [1.0, *np.cumprod(gammas[seq : seq + n_step])][: last - int(seq)]
        total += 500 * lane * sum(summed)
        np.testing.assert_allclose(found, [total, left], rtol=1e-12, atol=1e-12)
        assert batch["n_next_obs"]["achieved_goal"][item, 0] == last + 1_000 * lane
        assert (
            batch["future"]["obs"]["desired_goal"][item, batch["future_mask"][item], 0] == goal
        ).all()
        ended += left == 0
        checked += 1
    assert checked > 100
    # With "reject", a return that is not cut by the new goal never reaches an end.
    assert ended > 0 or (settings.get("boundary") == "reject" and not ends)


@pytest.mark.filterwarnings("error")
def test_sums_too_large_for_the_column_are_infinite_as_those_of_stored_rewards() -> None:
    columns = {"obs": GOAL, "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=100)
    with buf.writer() as writer:
        for row in range(50):
            large = [3e38, -3e38, 1, np.inf, -np.inf][row // 4 % 5]
            writer.append(obs=goals(row, 0), reward=large, terminated=False, truncated=False)
    windows: dict[str, Any] = {"seed": 2, "future": 2, "n_step": 3, "gamma": 0.9}
    plain = buf.sampler(**windows).sample(200)
    hindsight = bc.Hindsight(lambda *of: of[2]["reward"], ratio=1, terminated=lambda *_: False)
    batch = buf.sampler(**windows, hindsight=hindsight).sample(200)
    assert batch["relabelled"].all()
    for key in ("n_reward", "n_discount"):
        np.testing.assert_array_equal(batch[key], plain[key])
    finite = np.isfinite(batch["future"]["reward"]).all(axis=1) & np.isfinite(batch["reward"])
    assert np.isinf(batch["n_reward"][finite]).any()
    assert np.isnan(batch["n_reward"]).any()


@pytest.mark.parametrize("history", [None, 2])
@pytest.mark.parametrize("future", [2, 6])
def test_a_lost_end_whose_stored_discount_is_0_is_refused(history: int | None, future: int) -> None:
    columns = {"obs": GOAL, "reward": "f4", "discount": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=100, lanes=2)
    with buf.writer(2, "next_step") as writer:
        for row in range(8):
            both = {name: np.stack([goal] * 2) for name, goal in goals(row, 0).items()}
            over = np.array([False, row == 5])
            writer.append(
                obs=both, reward=[0, 0], discount=1 - over, terminated=over, truncated=[False] * 2
            )
    windows: dict[str, Any] = {"seed": 2, "history": history, "future": future, "n_step": 3}
    never = bc.Hindsight(reward, ratio=1, terminated=lambda *_: False)
    first = buf.sampler(**windows, gamma="discount", hindsight=never)
    with pytest.raises(bc.errors.SampleError, match=r"row 5 of lane 1\b.*\bdiscount is 0\b.*store"):
        first.sample(200)
    kept = bc.Hindsight(reward, ratio=1, terminated=lambda *of: of[2]["terminated"])
    batch = buf.sampler(**windows, gamma="discount", hindsight=kept).sample(200)
    assert (batch["n_discount"] == 0).any()
    batch = buf.sampler(**windows, gamma=0.5, hindsight=never).sample(200)
    assert (batch["n_discount"] > 0).all()


def test_a_plain_false_ends_nothing_and_a_plain_true_is_refused() -> None:
    hindsight = bc.Hindsight(reward, ratio=1, terminated=lambda *_: False)
    batch = ring().sampler(seed=5, history=2, future=1, hindsight=hindsight).sample(100)
    assert batch["truncated"].any()
    assert not batch["terminated"].any()
    assert not batch["future"]["terminated"].any()


@pytest.mark.parametrize("boundary", ["mask", "clamp", "reject"])
def test_terminations_are_relabelled_and_a_lost_end_is_a_cut(
    boundary: Literal["mask", "clamp", "reject"],
) -> None:
    windows: dict[str, Any] = {"seed": 5, "history": 2, "future": 1, "boundary": boundary}
    plain = ring().sampler(**windows).sample(600)
    hindsight = bc.Hindsight(reward, ratio=0.5, terminated=reached)
    batch = ring().sampler(**windows, hindsight=hindsight).sample(600)
    relabelled, cuts, ends = batch["relabelled"][:, None], 0, 0
    for part, was, mask in (
        (batch, plain, batch.mask),
        (batch["future"], plain["future"], batch.future_mask),
    ):
        places = relabelled & mask
        goal_met = reached(part["next_obs"]["achieved_goal"], part["obs"]["desired_goal"], part)
        np.testing.assert_array_equal(
            part["terminated"], np.where(places, goal_met, was["terminated"])
        )
        lost = places & was["terminated"] & ~goal_met
        np.testing.assert_array_equal(part["truncated"], was["truncated"] | lost)
        cuts += lost.sum()
        ends += (part["terminated"] & ~was["terminated"]).sum()
    assert cuts > 0
    assert ends > 0


def test_the_stored_end_is_known_to_the_function_of_terminations() -> None:
    def or_stored(
        achieved: NDArray[Any], desired: NDArray[Any], info: Mapping[str, Any]
    ) -> NDArray[np.bool_]:
        return np.asarray(info["terminated"] | reached(achieved, desired, info))

    plain = ring().sampler(seed=5).sample(400)
    kept = bc.Hindsight(reward, ratio=1, terminated=or_stored)
    batch = ring().sampler(seed=5, hindsight=kept).sample(400)
    np.testing.assert_array_equal(batch["terminated"] & plain["terminated"], plain["terminated"])
    np.testing.assert_array_equal(batch["truncated"], plain["truncated"])
    assert batch["terminated"].sum() > plain["terminated"].sum()


def test_returns_stop_at_a_new_end() -> None:
    hindsight = bc.Hindsight(distance, ratio=1, terminated=reached)
    windows: dict[str, Any] = {"history": 2, "future": 3, "copy": True}
    batch = ring().sampler(seed=5, hindsight=hindsight, **windows).sample(300)
    found = discounted(batch, gamma=0.5)
    joined = {
        key: np.concatenate([batch[key], batch["future"][key]], axis=1)
        for key in ("reward", "terminated", "truncated")
    }
    mask = np.concatenate([batch.mask, batch.future_mask], axis=1)
    expected, later = np.zeros(found.shape), np.zeros(len(found))
    for at in reversed(range(found.shape[1])):
        goes_on = ~(joined["terminated"] | joined["truncated"])[:, at]
        later = np.where(mask[:, at], joined["reward"][:, at] + 0.5 * goes_on * later, 0)
        expected[:, at] = later
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_window_of_another_column_may_be_longer_than_that_of_the_rewards() -> None:
    history: Any = {"obs": 2, "reward": 2, "action": 5}
    batch = ring().sampler(seed=5, history=history, hindsight=bc.Hindsight(reward)).sample(300)
    assert batch.mask is not None
    places = batch["relabelled"][:, None] & batch.mask[:, -2:]
    own = reward(batch["next_obs"]["achieved_goal"], batch["obs"]["desired_goal"], None)
    stored = np.where(batch.mask[:, -2:], -1, 0)
    np.testing.assert_array_equal(batch["reward"], np.where(places, own, stored))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_step": 4, "gamma": 0.9, "future": 2}, r"\bn_step=4\b.*future is 2\b.*future=3\b"),
        ({"columns": ["obs", "reward"]}, "`terminated`"),
        ({"form": bc.Sequence(4)}, "sequences do not go with hindsight"),
        ({"form": bc.WholeEpisodes()}, "hindsight"),
    ],
)
def test_terminations_and_returns_that_cannot_be_relabelled_are_refused(
    settings: dict[str, Any], match: str
) -> None:
    hindsight = bc.Hindsight(reward, terminated=reached)
    with pytest.raises(bc.errors.SampleError, match=match):
        sampler(ring(), {"seed": 1, "hindsight": hindsight} | settings)


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        (np.zeros(8), r"\bterminated\b.*\bfloat64\b"),
        (np.zeros(3, bool), r"\bterminated\b.*\(3,\).*\(8,\).*one bool for each"),
        (True, r"\bterminated\b.*\(\).*\(8,\)"),
        ([[True], [True, False]], r"\bterminated\b.*\bNumPy\b"),
    ],
)
def test_terminations_that_cannot_be_stored_are_refused(returned: Any, match: str) -> None:  # noqa: ANN401
    hindsight = bc.Hindsight(reward, terminated=lambda *_: returned)
    with pytest.raises(bc.errors.SampleError, match=match):
        ring().sampler(seed=1, hindsight=hindsight).sample(8)
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bterminated\b.*\b7\b"):
        made({"reward": reward, "terminated": 7})


def test_states_say_whether_terminations_are_relabelled() -> None:
    hindsight = bc.Hindsight(reward, terminated=reached)
    assert repr(hindsight).endswith("terminated=...)")
    windows: dict[str, Any] = {"n_step": 3, "gamma": 0.5, "future": 2}
    first = ring().sampler(seed=1, hindsight=hindsight, **windows)
    state = first.state()
    again = ring().sampler(state=state, hindsight=hindsight).sample(64)
    for key in ("n_reward", "n_discount", "terminated"):
        np.testing.assert_array_equal(again[key], ring_batch(hindsight, windows)[key])
    with pytest.raises(bc.errors.SampleError, match="same settings"):
        ring().sampler(state=state, hindsight=bc.Hindsight(reward))


def ring_batch(hindsight: bc.Hindsight, windows: dict[str, Any]) -> bc.Batch:
    buf = ring()
    with buf.sampler(seed=1, hindsight=hindsight, **windows).batches(64, limit=1) as ahead:
        return next(ahead)
