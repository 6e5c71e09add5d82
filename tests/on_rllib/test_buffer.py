"""The buffer alone: what is drawn, compared with what was added and with RLlib's own buffer."""

from __future__ import annotations

import gc
import math
import os
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ArgumentError, NotFoundError, SampleError
from backcast.rllib import EpisodeReplayBuffer
from conftest import Env
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

Row = tuple[Any, ...]


def filled(
    steps: int = 40, fragment: int = 3, *, arrays: bool = True, **options: Any
) -> tuple[EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer]:
    """Return a buffer and one of RLlib with the same episodes, of three environments in turn."""
    ours, theirs = EpisodeReplayBuffer(10_000, seed=5, **options), PrioritizedEpisodeReplayBuffer()
    envs = [Env(0, 7), Env(1, 11), Env(2, 5, truncates=True)]
    for _ in range(0, steps, fragment):
        for env in envs:
            made = env.fragments(fragment, arrays=arrays)
            ours.add(made)
            theirs.add(made)
    return ours, theirs


def rows(buffer: Any, draws: int = 3_000, **options: Any) -> dict[tuple[Any, ...], Row]:
    """Return what is drawn of each observation."""
    found: dict[tuple[Any, ...], Row] = {}
    for episode in buffer.sample(num_items=draws, **options):
        obs = tuple(episode.get_observations(0).tolist())
        row = (
            tuple(episode.get_observations(1).tolist()),
            tuple(episode.get_actions(0).tolist()),
            pytest.approx(float(episode.get_rewards(0))),
            bool(episode.is_terminated),
            bool(episode.is_truncated),
            int(episode.get_extra_model_outputs("n_step", 0)),
        )
        assert found.setdefault(obs, row) == row
    return found


@pytest.mark.parametrize("arrays", [True, False])
@pytest.mark.parametrize("alpha", [0.6, None])
def test_transitions_are_those_of_rllib(arrays: bool, alpha: float | None) -> None:
    ours, theirs = filled(arrays=arrays, alpha=alpha, lanes=3)
    mine, own = rows(ours), rows(theirs)
    # The last transition of an open episode can be drawn when its next fragment is there.
    assert set(mine) < set(own)
    assert len(set(own) - set(mine)) <= 3
    assert all(own[obs] == row for obs, row in mine.items())
    assert len(ours) == len(mine)


def test_sums_are_those_of_rllib_where_it_draws_them() -> None:
    ours, theirs = filled(lanes=3)
    mine = rows(ours, n_step=3, gamma=0.9)
    own = rows(theirs, n_step=3, gamma=0.9)
    common = set(mine) & set(own)
    assert len(common) > 40
    # The newest transitions of open episodes have fewer successors yet.
    assert {obs[0] for obs in common if mine[obs] != own[obs]} <= {0, 1}
    assert sum(mine[obs] == own[obs] for obs in common) >= len(common) - 4
    # RLlib leaves the last steps of an episode out.
    assert mine[0.0, 0.0, 6.0][2:] == (pytest.approx(7.0), True, False, 3)
    assert mine[0.0, 0.0, 5.0][2:] == (pytest.approx(6 + 0.9 * 7), True, False, 3)
    assert mine[2.0, 0.0, 3.0][2:] == (pytest.approx(4 + 0.9 * 5), False, True, 2)


def test_a_pair_draws_numbers_of_steps() -> None:
    ours, _ = filled(400, 10, lanes=3, arrays=True)
    steps = [
        int(episode.get_extra_model_outputs("n_step", 0))
        for episode in ours.sample(num_items=6_000, n_step=(1, 4), gamma=0.5)
        if not episode.is_terminated and not episode.is_truncated
    ]
    shares = np.bincount(steps, minlength=4)[1:] / len(steps)
    assert set(steps) == {1, 2, 3}
    assert (shares > 0.25).all()


def test_priorities_and_weights_are_those_of_the_paper() -> None:
    ours, _ = filled(lanes=3, alpha=0.5)
    everything = len(ours)
    # Priorities of all: t + 1.
    for _ in range(30):
        drawn = ours.sample(num_items=200)
        ours.update_priorities([episode.get_observations(0)[2] + 1 for episode in drawn])
    drawn = ours.sample(num_items=20_000, beta=0.7)
    times = np.asarray([episode.get_observations(0)[2] for episode in drawn])
    mass = sum(math.sqrt(obs[2] + 1) for obs in rows(ours))
    for t in (0, 3, 6):
        share = math.sqrt(t + 1) * sum(obs[2] == t for obs in rows(ours)) / mass
        assert abs((times == t).mean() - share) < 5 * math.sqrt(share / len(times))
    weights = np.asarray([episode.get_extra_model_outputs("weights", 0) for episode in drawn])
    # Divided by that of the smallest priority, of t = 0.
    assert np.allclose(weights, (times + 1) ** (-0.5 * 0.7), rtol=1e-4)
    assert everything == len(ours)


def test_episodes_beyond_the_lanes_are_cut_and_counted() -> None:
    buffer = EpisodeReplayBuffer(1_000, lanes=1)
    first, second = Env(0, 10), Env(1, 10)
    buffer.add(first.fragments(4))
    with pytest.warns(bc.errors.WriterWarning, match="more than 1 episodes are open") as warned:
        buffer.add(second.fragments(4))
    assert warned[0].filename == __file__
    buffer.add(first.fragments(4))
    assert buffer.cut_episodes == 2
    drawn = rows(buffer)
    assert drawn[0.0, 0.0, 3.0][0] == (0.0, 0.0, 4.0)
    # No transition leads from one environment to the other.
    assert all(row[0][0] == obs[0] and row[0][2] == obs[2] + 1 for obs, row in drawn.items())


def test_a_lost_fragment_cuts_the_episode() -> None:
    buffer = EpisodeReplayBuffer(1_000, lanes=1)
    env = Env(0, 20)
    buffer.add(env.fragments(4))
    env.fragments(4)
    buffer.add(env.fragments(4))
    assert buffer.cut_episodes == 1
    assert rows(buffer).keys() == {(0, 0, t) for t in (0, 1, 2, 3, 8, 9, 10)}


def test_observations_are_nested_dicts_or_pictures() -> None:
    buffer = EpisodeReplayBuffer(100, lanes=1)
    picture = np.arange(5 * 6 * 4, dtype=np.uint8).reshape(5, 6, 4)
    obs = [{"eye": picture + k, "place": {"x": np.float32(k)}} for k in range(4)]
    buffer.add(
        SingleAgentEpisode(
            observations=obs,
            actions=[0, 1, 2],
            rewards=[0, 1, 2],
            terminated=True,
            len_lookback_buffer=0,
        )
    )
    drawn = {int(of.get_actions(0)): of for of in buffer.sample(50)}
    assert set(drawn) == {0, 1, 2}
    for k, episode in drawn.items():
        assert (episode.get_observations(0)["eye"] == picture + k).all()
        assert episode.get_observations(1)["place"]["x"] == k + 1


def test_a_saved_buffer_goes_on_with_equal_draws(tmp_path: Path) -> None:
    ours, _ = filled(lanes=3, alpha=0.6)
    ours.sample(64)
    ours.update_priorities(np.arange(64))
    ours.save(tmp_path / "saved")
    again = EpisodeReplayBuffer(10_000, alpha=0.6)
    again.load(tmp_path / "saved")
    for options in ({}, {"n_step": 3, "gamma": 0.9}, {"n_step": (1, 4)}):
        mine, other = (of.sample(64, **options) for of in (ours, again))
        for one, two in zip(mine, other, strict=True):
            assert (one.get_observations(0) == two.get_observations(0)).all()
            assert one.get_extra_model_outputs("weights", 0) == two.get_extra_model_outputs(
                "weights", 0
            )
        ours.update_priorities(np.ones(64))
        again.update_priorities(np.ones(64))
    again.add(Env(9, 4).fragments(8))
    assert (9.0, 1.0, 3.0) in rows(again)
    with pytest.raises(NotFoundError):
        again.load(tmp_path / "nothing")
    assert len(again)
    # The sampler of a prioritized buffer keeps no reference to it.
    freed = weakref.ref(again)
    del again
    gc.collect()
    assert freed() is None


def test_a_state_names_a_snapshot() -> None:
    ours, _ = filled(lanes=3)
    state = ours.get_state()
    again = EpisodeReplayBuffer(20_000)
    again.set_state(state)
    assert len(again) == len(ours)
    assert again.ring is not None
    assert 20_000 <= again.ring.capacity <= 20_002
    again.set_state(EpisodeReplayBuffer().get_state())
    assert len(again) == len(ours)
    shutil.rmtree(state["snapshot"])
    with pytest.raises(NotFoundError, match="for the machine that made it"):
        again.set_state(state)
    with pytest.raises(ArgumentError, match="give what get_state"):
        again.set_state({"folder": "x"})
    assert len(again) == len(ours)


def test_the_end_of_a_process_removes_the_folders_of_its_states() -> None:
    program = """
import os, sys
from conftest import Env
from backcast.rllib import EpisodeReplayBuffer

buffer = EpisodeReplayBuffer(100)
buffer.add(Env(0, 5).fragments(9))
folder = buffer.get_state()["snapshot"]
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
print(folder, os.path.isdir(folder))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    folder, was_there = ran.stdout.split()
    assert was_there == "True"
    assert not Path(folder).exists()


def test_what_was_saved_with_other_options_is_refused_before_anything_changes(
    tmp_path: Path,
) -> None:
    filled(lanes=3, alpha=0.6)[0].save(tmp_path)
    for options, words in (
        ({"alpha": 0.5}, "saved with alpha=0.6"),
        ({"alpha": None}, "this one has None"),
        ({"alpha": 0.6, "lanes": 4}, "saved with 3 lanes"),
        (
            {"alpha": 0.6, "capacity": 9_000},
            "saved with a capacity of 10002, and this one has 9000",
        ),
    ):
        other = EpisodeReplayBuffer(**{"capacity": 10_000, **options})
        other.add(Env(5, 9).fragments(20))
        with pytest.raises(ArgumentError, match=words):
            other.load(tmp_path)
        assert {obs[0] for obs in rows(other)} == {5}
        with pytest.raises(ArgumentError, match="nothing to save"):
            EpisodeReplayBuffer().save(tmp_path)


@pytest.mark.parametrize("name", [None, "rllib-damaged"])
def test_a_load_that_fails_leaves_what_was_there(name: str | None, tmp_path: Path) -> None:
    filled(lanes=3)[0].save(tmp_path)
    [chunk] = tmp_path.glob("buffer/chunks/*")
    chunk.write_bytes(chunk.read_bytes()[:-500])
    buffer = EpisodeReplayBuffer(10_000, name=name, lanes=3)
    env = Env(5, 9)
    buffer.add(env.fragments(20))
    size = len(buffer)
    with pytest.raises(bc.errors.BackcastError):
        buffer.load(tmp_path)
    assert len(buffer) == size
    buffer.add(env.fragments(20))
    assert {obs[0] for obs in rows(buffer)} == {5}
    assert len(buffer) > size
    buffer.close()


def test_a_closed_buffer_refuses_every_use(tmp_path: Path) -> None:
    buffer, _ = filled(lanes=3, name="rllib-closed")
    buffer.save(tmp_path)
    state = EpisodeReplayBuffer().get_state()
    buffer.sample(4)
    buffer.close()
    buffer.close()
    for use in (
        lambda: buffer.add(Env(0, 9).fragments(4)),
        lambda: buffer.sample(4),
        lambda: buffer.update_priorities(np.ones(4)),
        lambda: buffer.save(tmp_path),
        lambda: buffer.load(tmp_path),
        lambda: buffer.clear(),
        lambda: buffer.get_state(),
        lambda: buffer.set_state(state),
    ):
        with pytest.raises(bc.errors.ClosedError, match="build another algorithm"):
            use()
    assert len(buffer) == 0
    # No ring came back.
    EpisodeReplayBuffer(name="rllib-closed")


def test_a_ring_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    other = EpisodeReplayBuffer(10_000, name="rllib-alive")
    alive, _ = filled(lanes=3, name="rllib-alive")
    alive.save(tmp_path)
    for refused in (
        lambda: other.load(tmp_path),
        lambda: other.add(Env(5, 9).fragments(4)),
        # Before the first episode as well.
        lambda: EpisodeReplayBuffer(10_000, name="rllib-alive"),
    ):
        with pytest.raises(bc.errors.ExistsError, match="end the run that holds it"):
            refused()
    size = len(alive)
    alive.add(Env(7, 9).fragments(20))
    # Its own ring it replaces.
    alive.load(tmp_path)
    assert len(alive) == size
    with bc.ReplayBuffer.attach("rllib-alive") as seen:
        assert len(seen) == size
    alive.clear()
    with pytest.raises(bc.errors.NotFoundError):
        bc.ReplayBuffer.attach("rllib-alive")
    alive.add(Env(7, 9).fragments(20))
    alive.close()


def test_a_fragment_that_is_refused_takes_no_lane() -> None:
    buffer = EpisodeReplayBuffer(1_000, lanes=1)
    env = Env(0, 20)
    buffer.add(env.fragments(3))
    wide = SingleAgentEpisode(
        observations=[np.zeros(4, "f4")] * 2,
        actions=[np.zeros(1, "f4")],
        rewards=[0],
        len_lookback_buffer=0,
    )
    wrong = SingleAgentEpisode(
        env.id,
        observations=[np.zeros(4, "f4")] * 2,
        actions=[np.zeros(1, "f4")],
        rewards=[0],
        t_started=3,
        len_lookback_buffer=0,
    )
    for _ in range(2):
        with pytest.raises(bc.errors.BackcastError):
            buffer.add(wrong)
    buffer.add(env.fragments(3))
    assert buffer.cut_episodes == 0
    assert rows(buffer).keys() == {(0, 0, t) for t in range(5)}
    with pytest.warns(bc.errors.WriterWarning), pytest.raises(bc.errors.BackcastError):
        buffer.add(wide)
    with pytest.raises(bc.errors.BackcastError):
        buffer.add(wide)
    buffer.add(env.fragments(3))
    assert (0.0, 0.0, 7.0) in rows(buffer)


def test_the_newest_transitions_are_drawn_while_there_are_no_others() -> None:
    buffer = EpisodeReplayBuffer(1_000, lanes=2, seed=1)
    buffer.add(Env(0, 5).fragments(1) + Env(1, 5).fragments(1))
    drawn = rows(buffer, 50)
    assert {obs: row[:2] for obs, row in drawn.items()} == {
        (k, 0, 0): ((k, 0, 1), (0,)) for k in range(2)
    }
    # They have no priorities yet.
    buffer.update_priorities(np.ones(50))
    with pytest.raises(ArgumentError, match="n_step is 0"):
        buffer.sample(4, n_step=0)
    buffer.clear()
    buffer.add(Env(0, 5).fragments(3))
    with pytest.raises(SampleError, match="draw first"):
        buffer.update_priorities(np.ones(50))


def test_another_process_sees_a_named_ring() -> None:
    ours, _ = filled(lanes=3, name="rllib-seen")
    with bc.ReplayBuffer.attach("rllib-seen") as seen:
        assert len(seen) == len(ours)
    with pytest.raises(bc.errors.ExistsError):
        filled(lanes=3, name="rllib-seen")
    ours.close()
    # The ring went with its last process.
    filled(lanes=3, name="rllib-seen")[0].close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"capacity": 0}, "capacity is 0"),
        ({"lanes": 0}, "lanes is 0"),
        ({"capacity": 10, "lanes": 6}, "give 12 or more"),
        ({"exist": "attach"}, "exist is 'attach'"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"beta": 1.5}, "beta is 1.5"),
        ({"alpha": "0.6"}, "alpha is '0.6'"),
        ({"beta": True}, "beta is True"),
        ({"batch_length_T": 20}, "recurrent modules"),
        ({"arrays": "no"}, "arrays is 'no'"),
        ({"seed": -1}, "seed is -1"),
        ({"name": "a/b"}, "`a/b` cannot name a ring"),
        ({"metrics_num_episodes_for_smoothing": 0}, "smoothing is 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        EpisodeReplayBuffer(**options)


def test_draws_that_cannot_be_are_refused() -> None:
    with pytest.raises(SampleError, match="add episodes first"):
        EpisodeReplayBuffer().sample(4)
    ours, _ = filled(lanes=3)
    for options, words in (
        ({"include_infos": True}, "the ring keeps none"),
        ({"n_step": 0}, "n_step is 0"),
        ({"n_step": "3"}, "n_step is '3'"),
        ({"n_step": 2.0}, "n_step is 2.0"),
        ({"n_step": (3, 3)}, "low < high"),
        ({"n_step": (1, 2, 3)}, "low < high"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"gamma": "0.9"}, "gamma is '0.9'"),
        ({"to_numpy": "no"}, "to_numpy is 'no'"),
        ({"gama": 0.9}, "did you mean `gamma`"),
        ({"beta": -0.1}, "beta is -0.1"),
        ({"batch_size_B": 3}, "give one of them"),
    ):
        with pytest.raises(ArgumentError, match=words):
            ours.sample(4, **options)
    for items in (0, -1, 2.5, "4"):
        with pytest.raises(ArgumentError, match=f"num_items is {items!r}"):
            ours.sample(items)
    with pytest.raises(SampleError, match="draw first"):
        ours.update_priorities([1.0])
    ours.sample(4)
    with pytest.raises(SampleError, match="one priority for each"):
        ours.update_priorities([1.0])


def test_what_a_ring_cannot_hold_is_refused() -> None:
    tuples = SingleAgentEpisode(
        observations=[(1, 2), (1, 2)], actions=[0], rewards=[0], len_lookback_buffer=0
    )
    with pytest.raises(ArgumentError, match="tuples"):
        EpisodeReplayBuffer().add(tuples)
    ragged = SingleAgentEpisode(
        observations=[np.asarray("a", object)] * 2, actions=[0], rewards=[0], len_lookback_buffer=0
    )
    with pytest.raises(ArgumentError, match="one shape"):
        EpisodeReplayBuffer().add(ragged)
    with pytest.raises(ArgumentError, match="has a dict"):
        EpisodeReplayBuffer().add([{"obs": 1}])
    with pytest.raises(ArgumentError, match="weight"):
        EpisodeReplayBuffer().add(Env(0, 3).fragments(3), weight=2.0)
