"""Prioritised buffers of the adapters draw and weight what a reference in NumPy does."""

from __future__ import annotations

import gc
import pickle
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
import pytest
from gymnasium import spaces

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)
torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.sb3 as ours  # noqa: E402
from priority_reference import Places, Rows  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from test_sb3_buffers import BOX, DICT, DISCRETE, Feed, assert_same_samples  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

ENVS, UPDATES = 2, 1000
SELECT = bc.Priority(alpha=0.7, beta=(0.4, 800), eps=1e-3)


class Checked(ours.PrioritizedReplayBuffer):
    """Buffer that compares each draw, weight and update with those of the reference."""

    checked = 0

    def _reference(self) -> Any:
        if "reference" not in vars(self):
            select = self._stored._select
            by_row = self.sampling == "ring"
            self.reference = Rows(self.ring, select) if by_row else Places(self, select)
        return self.reference

    def add(self, *step: Any, **named: Any) -> None:
        reference = self._reference()
        super().add(*step, **named)
        reference.added(self._stored._index[(self._stored.added - 1) % self._stored.steps])

    def sample(self, batch_size: int, env: Any = None) -> Any:
        index, weight = self._reference().drawn(batch_size, self._stored._seed)
        data = super().sample(batch_size, env)
        assert data.indices.tolist() == index.tolist()
        np.testing.assert_allclose(data.weights[:, 0].numpy(), weight, rtol=2e-6)
        assert data.weights.max() == 1
        return data

    def update_priorities(self, indices: Any, priorities: Any) -> int:
        dropped = super().update_priorities(indices, priorities)
        self._reference().updated(indices, priorities.numpy().reshape(-1).astype("f8"))
        assert dropped == 0
        self.checked += 1
        return dropped


def trained(kind: Any, buffer: Any = None, updates: int = UPDATES, **own: Any) -> Any:
    model = kind(
        "MlpPolicy",
        make_vec_env("CartPole-v1", ENVS, seed=0),
        replay_buffer_class=buffer,
        replay_buffer_kwargs=own,
        # The buffer wraps during the run.
        buffer_size=1_600,
        learning_starts=100,
        batch_size=32,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=100,
        policy_kwargs={"net_arch": [16]},
        seed=1,
        device="cpu",
    )
    return model.learn(100 + ENVS * updates)


@pytest.mark.parametrize("sampling", ["ring", "sb3"])
@pytest.mark.parametrize(
    ("n_steps", "options"),
    [(1, {}), (1, {"initial": "held"}), (3, {"stratified": True})],
    ids=["plain", "held", "strata"],
)
def test_draws_and_weights_of_a_run_are_those_of_numpy(
    sampling: str, n_steps: int, options: dict[str, Any]
) -> None:
    select = replace(SELECT, **options)
    own = {"sampling": sampling, "select": select, "n_steps": n_steps}
    model = trained(ours.PrioritizedDQN, Checked, **own)
    assert model.replay_buffer.checked == model._n_updates >= UPDATES
    assert model.replay_buffer.full
    if sampling == "ring":
        [table] = model.replay_buffer.ring.stats()["tables"]
        assert table["updated"] == 32 * model._n_updates


def test_a_run_without_priorities_and_weights_is_that_of_their_dqn() -> None:
    own = {"sampling": "sb3", "select": bc.Priority(alpha=0.0, beta=0.0)}
    one = trained(ours.PrioritizedDQN, updates=300, **own)
    # Theirs has no use for weights and indices. It sets no priorities, so all are equal.
    with pytest.warns(UserWarning, match="no priority was set"):
        other = trained(sb3.DQN, ours.PrioritizedReplayBuffer, updates=300, **own)
    weights, theirs = one.policy.state_dict(), other.policy.state_dict()
    assert all(torch.equal(weights[key], theirs[key]) for key in weights)


def test_losses_are_weighted() -> None:
    model = trained(ours.PrioritizedDQN, updates=20, select=bc.Priority(beta=1.0))
    buffer, drawn = model.replay_buffer, []
    sample = buffer.sample

    def recorded(*arguments: Any, **named: Any) -> Any:
        drawn.append(sample(*arguments, **named))
        return drawn[-1]

    buffer.sample = recorded
    buffer.update_priorities(buffer.ring.sampler(select="fifo").sample(50).index, np.arange(50))
    before = [one.detach().clone() for one in model.q_net.parameters()]
    model.max_grad_norm = np.inf
    model.policy.optimizer = torch.optim.SGD(model.q_net.parameters(), lr=1.0)
    model._current_progress_remaining = 1.0
    model.lr_schedule = lambda _: 1.0
    model.train(1, 64)
    [data] = drawn
    assert len(data.weights.unique()) > 10
    steps = [old - new.detach() for old, new in zip(before, model.q_net.parameters(), strict=True)]
    with torch.no_grad():
        for one, old in zip(model.q_net.parameters(), before, strict=True):
            one.copy_(old)
        best = model.q_net_target(data.next_observations).max(dim=1).values
        targets = data.rewards[:, 0] + (1 - data.dones[:, 0]) * model.gamma * best
    values = model.q_net(data.observations).gather(1, data.actions)[:, 0]
    errors = torch.nn.functional.smooth_l1_loss(values, targets, reduction="none")
    gradients = torch.autograd.grad((data.weights[:, 0] * errors).mean(), model.q_net.parameters())
    for step, gradient in zip(steps, gradients, strict=True):
        torch.testing.assert_close(step, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sampling", ["ring", "sb3"])
@pytest.mark.parametrize("name", [None, "saved-priorities"])
def test_a_loaded_buffer_draws_what_the_saved_one_draws(
    sampling: str, name: str | None, place: Path, tmp_path: Path
) -> None:
    own = {"sampling": sampling, "name": name, "dir": place, "select": SELECT, "n_steps": 2}
    model = trained(ours.PrioritizedDQN, updates=100, **own)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    np.random.seed(11)
    expected = [model.replay_buffer.sample(32) for _ in range(5)]
    assert any(len(one.weights.unique()) > 3 for one in expected)
    del model
    gc.collect()
    again = ours.PrioritizedDQN.load(tmp_path / "model", make_vec_env("CartPole-v1", ENVS, seed=0))
    again.load_replay_buffer(tmp_path / "buffer")
    np.random.seed(11)
    for one in expected:
        drawn = again.replay_buffer.sample(32)
        assert drawn.indices.tolist() == one.indices.tolist()
        assert_same_samples(one._replace(indices=None), drawn._replace(indices=None))
    again.learn(200, reset_num_timesteps=False)
    assert again._n_updates > 150


def test_steps_after_the_discount_of_the_algorithm_reach_the_buffer() -> None:
    model = ours.PrioritizedDQN("MlpPolicy", "CartPole-v1", gamma=0.9, n_steps=3, buffer_size=200)
    assert (model.replay_buffer.n_steps, model.replay_buffer.gamma) == (3, 0.9)
    assert model.n_steps == 1


@pytest.mark.parametrize("sampling", ["ring", "sb3"])
def test_dict_observations_and_stacks_of_frames_are_drawn_by_priority(sampling: str) -> None:
    stacks = spaces.Box(0, 255, (2, 3, 3), np.uint8)
    dicts = ours.PrioritizedReplayBuffer(
        200, DICT, DISCRETE, device="cpu", sampling=sampling, select=bc.Priority(eps=0.0)
    )
    framed = ours.PrioritizedReplayBuffer(
        200, stacks, DISCRETE, device="cpu", sampling=sampling, frames=2, n_steps=2, gamma=0.5
    )
    feed = Feed(DICT, DISCRETE, 1)
    for t in range(60):
        dicts.add(*feed.step())
        frame = np.full((3, 3), t, np.uint8)
        stack = np.stack([np.zeros_like(frame) if t == 0 else frame - 1, frame])[None]
        ahead = np.stack([frame, frame + 1])[None]
        framed.add(stack, ahead, np.array([0]), np.array([float(t)]), np.array([False]), [{}])
    samples = framed.sample(200)
    t = samples.observations[:, 1, 0, 0].float()
    last = t >= 58 if sampling == "ring" else t >= 59
    expected = torch.where(last, t, t + 0.5 * (t + 1))
    assert torch.equal(samples.rewards[:, 0], expected)
    drawn = dicts.sample(100)
    assert dicts.update_priorities(drawn.indices, drawn.rewards.abs()) == 0
    assert not torch.equal(drawn.weights, dicts.sample(100).weights)


def test_priorities_of_overwritten_transitions_are_dropped_and_bad_ones_refused() -> None:
    for sampling in ("ring", "sb3"):
        buffer = ours.PrioritizedReplayBuffer(50, BOX, DISCRETE, device="cpu", sampling=sampling)
        feed = Feed(BOX, DISCRETE, 1)
        for _ in range(40):
            buffer.add(*feed.step())
        old = buffer.sample(20)
        for bad in (-1.0, np.nan, np.inf):
            with pytest.raises(bc.errors.SampleError, match=r"priority\[3\]"):
                buffer.update_priorities(old.indices, np.where(np.arange(20) == 3, bad, 1.0))
        with pytest.raises(bc.errors.SampleError, match="19 priorities for 20"):
            buffer.update_priorities(old.indices, np.ones(19))
        for _ in range(200):
            buffer.add(*feed.step())
        assert buffer.update_priorities(old.indices, torch.ones(20, 1)) == 20


def test_weights_by_the_table_count_no_place_that_is_still_empty() -> None:
    select = bc.Priority(alpha=1.0, beta=1.0, eps=0.0, normalize="table")
    buffer = ours.PrioritizedReplayBuffer(
        20, BOX, DISCRETE, device="cpu", n_envs=2, sampling="sb3", select=select
    )
    feed = Feed(BOX, DISCRETE, 2)
    for _ in range(4):
        buffer.add(*feed.step())
    indices = buffer.sample(30).indices
    buffer.update_priorities(indices, torch.full((30,), 0.5))
    # The least of the table is 0.5, or 1 if no transition was left out.
    weights = buffer.sample(200).weights[:, 0]
    assert set(weights.tolist()) <= {0.5, 1.0}
    assert weights.max() == 1.0


def test_settings_that_cannot_be_are_refused_before_a_ring_is_made(place: Path) -> None:
    make: Any = ours.PrioritizedReplayBuffer
    for sampling in ("ring", "sb3"):
        for given, error in (
            ({"select": "priority"}, bc.errors.ArgumentTypeError),
            ({"select": bc.Priority(alpha=-1)}, bc.errors.SampleError),
            ({"select": bc.Priority(beta=2.0)}, bc.errors.SampleError),
            ({"alpha": 0.6}, bc.errors.ArgumentTypeError),
            ({"n_steps": 0}, bc.errors.ArgumentError),
        ):
            with pytest.raises(error):
                make(100, BOX, DISCRETE, device="cpu", dir=place, sampling=sampling, **given)
        with pytest.raises(bc.errors.ArgumentError, match="Dict"):
            make(100, DICT, DISCRETE, device="cpu", dir=place, n_steps=2, sampling=sampling)
    own = {"sampling": "sb3", "select": bc.Priority(by="rank")}
    with pytest.raises(bc.errors.ArgumentError, match="rank"):
        make(100, BOX, DISCRETE, device="cpu", dir=place, **own)
    assert bc.list_objects(dir=place) == []
    with pytest.raises(bc.errors.ArgumentError, match="PrioritizedReplayBuffer"):
        ours.PrioritizedDQN("MlpPolicy", "CartPole-v1", replay_buffer_class=ours.ReplayBuffer)


def test_a_table_of_other_settings_is_refused_at_once(place: Path) -> None:
    with bc.ReplayBuffer.create(
        "shared", ours._columns.schema_of(BOX, DISCRETE, None), capacity=100, dir=place
    ) as ring:
        other = ring.sampler(select=bc.Priority(alpha=0.3))
        with pytest.raises(bc.errors.ExistsError, match="alpha"):
            ours.PrioritizedReplayBuffer(100, BOX, DISCRETE, name="shared", dir=place)
        other.close()
        ring.unlink()


def test_a_buffer_whose_priorities_are_set_does_not_warn() -> None:
    buffer = ours.PrioritizedReplayBuffer(50, BOX, DISCRETE, device="cpu")
    feed = Feed(BOX, DISCRETE, 1)
    for _ in range(10):
        buffer.add(*feed.step())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.update_priorities(buffer.sample(4).indices, np.ones(4))
        for _ in range(300):
            buffer.sample(4)
    assert len(pickle.loads(pickle.dumps(buffer)).sample(4).indices) == 4
