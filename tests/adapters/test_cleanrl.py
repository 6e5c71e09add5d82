"""CleanRL-style loops over a ring and over plain arrays give equal losses and weights."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.cleanrl as ours  # noqa: E402
from priority_reference import Rows  # noqa: E402

MODES = ["next_step", "same_step", "disabled"]
UPDATES = 2000


class Arrays:
    """Transitions in plain arrays, by the index of their row in the ring."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.places: dict[int, int] = {}

    def add(self, at: Any, *columns: Any) -> None:
        for lane, index in enumerate(at):
            self.places[int(index)] = len(self.rows)
            self.rows.append(tuple(np.array(column[lane]) for column in columns))

    def sample(self, index: Any) -> list[Any]:
        rows = [self.rows[self.places[int(at)]] for at in index]
        return [torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)]


def make(name: str, mode: str, envs: int = 2) -> Any:
    options = {"autoreset_mode": AutoresetMode[mode.upper()]}
    return gym.make_vec(
        name, envs, vectorization_mode="sync", vector_kwargs=options, max_episode_steps=60
    )


def mlp(inputs: int, outputs: int) -> Any:
    layers = torch.nn.Linear(inputs, 16), torch.nn.ReLU(), torch.nn.Linear(16, outputs)
    return torch.nn.Sequential(*layers)


class Dqn:
    """The learning part of CleanRL's DQN."""

    def __init__(self, obs: int, actions: int) -> None:
        torch.manual_seed(1)
        self.net, self.target = mlp(obs, actions), mlp(obs, actions)
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.updates = 0

    def learn(self, obs: Any, action: Any, following: Any, done: Any, reward: Any) -> float:
        with torch.no_grad():
            best = self.target(following).max(dim=1).values
            goal = reward.flatten() + 0.99 * best * (1 - done.flatten())
        value = self.net(obs).gather(1, action.reshape(-1, 1)).squeeze()
        loss = torch.nn.functional.mse_loss(goal, value)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 50 == 0:
            self.target.load_state_dict(self.net.state_dict())
        return loss.item()

    def weights(self) -> list[Any]:
        return [*self.net.parameters(), *self.target.parameters()]


class Sac:
    """The learning part of CleanRL's SAC, with one critic and seeded noise."""

    def __init__(self, obs: int, actions: int) -> None:
        torch.manual_seed(1)
        self.actor, self.critic = mlp(obs, 2 * actions), mlp(obs + actions, 1)
        self.target = mlp(obs + actions, 1)
        self.target.load_state_dict(self.critic.state_dict())
        self.optimizers = [
            torch.optim.Adam(net.parameters(), lr=1e-3) for net in (self.actor, self.critic)
        ]
        self.noise = torch.Generator().manual_seed(2)

    def act(self, obs: Any) -> tuple[Any, Any]:
        mean, spread = self.actor(obs).chunk(2, dim=1)
        spread = spread.clamp(-5, 2).exp()
        drawn = mean + spread * torch.randn(mean.shape, generator=self.noise)
        action = drawn.tanh()
        density = -(((drawn - mean) / spread) ** 2) / 2 - spread.log()
        return action, (density - torch.log(1 - action**2 + 1e-6)).sum(1, keepdim=True)

    def learn(self, obs: Any, action: Any, following: Any, done: Any, reward: Any) -> float:
        with torch.no_grad():
            ahead, density = self.act(following)
            value = self.target(torch.cat([following, ahead], 1)) - 0.2 * density
            goal = reward.reshape(-1, 1) + 0.99 * (1 - done.reshape(-1, 1)) * value
        loss = torch.nn.functional.mse_loss(self.critic(torch.cat([obs, action], 1)), goal)
        self.optimizers[1].zero_grad()
        loss.backward()
        self.optimizers[1].step()
        chosen, density = self.act(obs)
        gain = (0.2 * density - self.critic(torch.cat([obs, chosen], 1))).mean()
        self.optimizers[0].zero_grad()
        gain.backward()
        self.optimizers[0].step()
        pairs = zip(self.target.parameters(), self.critic.parameters(), strict=True)
        for old, new in pairs:
            old.data.lerp_(new.data, 0.005)
        return loss.item()

    def weights(self) -> list[Any]:
        nets = (self.actor, self.critic, self.target)
        return [weight for net in nets for weight in net.parameters()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("algorithm", [Dqn, Sac])
def test_weights_after_2_000_updates_are_those_of_plain_arrays(algorithm: Any, mode: str) -> None:
    envs = make("CartPole-v1" if algorithm is Dqn else "Pendulum-v1", mode)
    space, actions = envs.single_observation_space, envs.single_action_space
    rb = ours.ReplayBuffer(10_000, space, actions, env=envs, seed=1)
    arrays = Arrays()
    outputs = int(actions.n) if algorithm is Dqn else actions.shape[0]
    one, other = algorithm(space.shape[0], outputs), algorithm(space.shape[0], outputs)
    obs, _ = envs.reset(seed=1)
    envs.action_space.seed(1)
    resetting = np.zeros(2, bool)
    losses = 0
    while losses < UPDATES:
        action = envs.action_space.sample()
        following, reward, terminated, truncated, infos = envs.step(action)
        at = rb.add(obs, following, action, reward, terminated, infos, truncated)
        ended = terminated | truncated
        last = following.copy()
        if mode == "same_step" and ended.any():
            for lane in np.flatnonzero(ended):
                last[lane] = infos["final_obs"][lane]
        there = ~resetting
        columns = obs, action, last, terminated.astype("f4"), reward.astype("f4")
        arrays.add(at[there], *(column[there] for column in columns))
        if mode == "next_step":
            resetting = ended
        obs = following
        if mode == "disabled" and ended.any():
            obs, _ = envs.reset(options={"reset_mask": ended})
        if rb.size() < 100:
            continue
        for _ in range(4):
            samples = rb.sample(32)
            plain = arrays.sample(samples.indices)
            losses += 1
            assert one.learn(*samples[:5]) == other.learn(*plain), losses
    pairs = zip(one.weights(), other.weights(), strict=True)
    assert all(torch.equal(first, second) for first, second in pairs)
    assert rb.ring.stats()["suspect_resets"] == rb.ring.stats()["cuts"] == 0
    limits = [row for row in arrays.rows if row[3]]
    assert (len(limits) > 0) == (algorithm is Dqn)


def test_scripts_that_put_the_last_observation_into_next_obs_are_right_too() -> None:
    envs = make("CartPole-v1", "same_step")
    space, actions = envs.single_observation_space, envs.single_action_space
    rb = ours.ReplayBuffer(5_000, space, actions, env=envs, seed=1)
    obs, _ = envs.reset(seed=1)
    for _ in range(400):
        action = envs.action_space.sample()
        following, reward, terminated, truncated, infos = envs.step(action)
        last = following.copy()
        for lane in np.flatnonzero(terminated | truncated):
            last[lane] = infos["final_obs"][lane]
        rb.add(obs, last, action, reward, terminated, infos)
        obs = following
    rb.close()
    assert rb.ring.closed


def test_the_mode_is_asked_for_and_truncations_too() -> None:
    envs = make("CartPole-v1", "next_step")
    space, actions = envs.single_observation_space, envs.single_action_space
    with pytest.raises(bc.errors.ArgumentError, match="env=envs"):
        ours.ReplayBuffer(100, space, actions)
    with pytest.raises(bc.errors.ArgumentError, match=r"\bn_envs\b.*\b3\b"):
        ours.ReplayBuffer(100, space, actions, n_envs=3, env=envs)
    rb = ours.ReplayBuffer(100, space, actions, env=envs)
    obs, _ = envs.reset(seed=1)
    action = envs.action_space.sample()
    following, reward, terminated, _, infos = envs.step(action)
    with pytest.raises(bc.errors.ArgumentError, match=r"\btruncations\b"):
        rb.add(obs, following, action, reward, terminated, infos)
    assert rb.ring.stats()["rows_published"] == 0
    with pytest.raises(bc.errors.SampleError):
        rb.sample(1)


def same_step_buffer() -> Any:
    spaces = gym.spaces.Box(-99, 99, (1,)), gym.spaces.Discrete(2)
    return ours.ReplayBuffer(100, *spaces, n_envs=3, autoreset_mode="same_step", seed=1)


def test_truncations_left_out_in_same_step_mode_are_those_of_infos() -> None:
    rb = same_step_buffer()
    column = np.array([[0.0], [10.0], [20.0]], "f4")
    ending, index = {3, 6}, []
    for step in range(9):
        ends = step in ending
        # The first environment terminates, the second is truncated, the third goes on.
        terminated = np.array([ends, False, False])
        infos: dict[str, Any] = {}
        if ends:
            finals = np.array([column[0] + 90, column[1] + 80, None], object)
            infos = {"final_obs": finals, "_final_obs": np.array([True, True, False])}
        obs, following = column + step, column + step + 1
        index.append(rb.add(obs, following, np.zeros(3, int), np.ones(3), terminated, infos))
    batch = rb.ring.gather(np.concatenate(index[:-1]))
    ends = np.isin(np.arange(8), [*ending])[:, None]
    assert np.array_equal(batch["terminated"].reshape(8, 3), ends & [True, False, False])
    assert np.array_equal(batch["truncated"].reshape(8, 3), ends & [False, True, False])
    expected = np.where(ends, [90.0, 90.0, 0.0], 0.0)
    going = np.where(ends, [False, False, True], True)
    ahead = np.arange(1, 9)[:, None] + column[:, 0]
    assert np.array_equal(batch["next_obs"].reshape(8, 3), np.where(going, ahead, expected))


@pytest.mark.parametrize("infos", [{"final_obs": np.zeros((3, 1), "f4")}, [{}, {}, {}]])
def test_infos_that_do_not_tell_what_ended_are_refused_without_truncations(infos: Any) -> None:
    rb = same_step_buffer()
    obs, no = np.zeros((3, 1), "f4"), np.zeros(3, bool)
    with pytest.raises(bc.errors.ArgumentError, match="truncations"):
        rb.add(obs, obs, np.zeros(3, int), np.ones(3), no, infos)
    assert rb.ring.stats()["rows_published"] == 0
    rb.add(obs, obs, np.zeros(3, int), np.ones(3), no, infos, no)


def test_dict_observations_and_several_actions() -> None:
    space = gym.spaces.Dict(a=gym.spaces.Box(-1, 1, (2,)), b=gym.spaces.Discrete(3))
    actions = gym.spaces.MultiDiscrete([2, 3])
    rb = ours.ReplayBuffer(100, space, actions, n_envs=2, autoreset_mode="next_step", seed=1)
    no = np.zeros(2, bool)
    for step in range(9):
        seen = {"a": np.full((2, 2), step, "f4"), "b": np.array([0, 1])}
        ahead = {"a": np.full((2, 2), step + 1, "f4"), "b": np.array([0, 1])}
        rb.add(seen, ahead, np.array([[0, 1], [1, 2]]), np.ones(2), no, {}, no)
    samples = rb.sample(16)
    assert samples.observations["a"].shape == (16, 2)
    assert samples.actions.shape == (16, 2)
    assert torch.equal(samples.next_observations["a"], samples.observations["a"] + 1)


class Returns:
    """Steps of each environment in plain arrays, for returns of several steps."""

    def __init__(self, n: int, gamma: float) -> None:
        self.n, self.gamma = n, gamma
        self.steps: list[list[tuple[Any, ...]]] = [[], []]
        self.places: dict[int, tuple[int, int]] = {}

    def add(self, lane: int, index: int, *step: Any) -> None:
        self.places[index] = lane, len(self.steps[lane])
        self.steps[lane].append(step)

    def of(self, index: int) -> tuple[float, Any, float, float, int]:
        lane, at = self.places[index]
        total, discount, count = 0.0, 1.0, 0
        for step in self.steps[lane][at : at + self.n]:
            reward, following, terminated, truncated = step
            total, discount, count = total + discount * reward, discount * self.gamma, count + 1
            if terminated or truncated:
                break
        return total, following, float(terminated), 0.0 if terminated else discount, count


@pytest.mark.parametrize("n", [1, 3])
def test_priorities_weights_and_returns_are_those_of_numpy(n: int) -> None:
    envs = make("CartPole-v1", "next_step")
    spaces = envs.single_observation_space, envs.single_action_space
    select = bc.Priority(alpha=0.6, beta=(0.4, 700), eps=1e-3)
    rb = ours.PrioritizedReplayBuffer(
        900, *spaces, env=envs, seed=3, select=select, n_step=n, gamma=0.9
    )
    leaves, returns = Rows(rb.ring, select), Returns(n, 0.9)
    dqn = Dqn(4, 2)
    envs.action_space.seed(1)
    obs, _ = envs.reset(seed=1)
    resetting = np.zeros(2, bool)
    updates = ends = 0
    while updates < 1_000:
        action = envs.action_space.sample()
        following, reward, terminated, truncated, infos = envs.step(action)
        at = rb.add(obs, following, action, reward, terminated, infos, truncated)
        leaves.added(at[~resetting])
        for lane in np.flatnonzero(~resetting):
            step = reward[lane], following[lane], terminated[lane], truncated[lane]
            returns.add(lane, int(at[lane]), *step)
        resetting, obs = terminated | truncated, following
        if rb.size() < 100:
            continue
        index, weights = leaves.drawn(32, 3)
        data = rb.sample(32)
        assert data.indices.tolist() == index.tolist()
        np.testing.assert_allclose(data.weights[:, 0].numpy(), weights, rtol=2e-6)
        expected = [returns.of(int(row)) for row in index]
        parts = zip(*expected, strict=True)
        rewards, ahead, dones, discounts, count = (np.array(part, "f4") for part in parts)
        # A window at the newest row has fewer rewards in the ring than the episode has.
        newest = np.array([rb.ring.lane_span(lane)[1] - 1 for lane in range(2)])
        whole = (index & (1 << 48) - 1) + count <= newest[index >> 48]
        assert whole.mean() > 0.5
        np.testing.assert_allclose(data.rewards[:, 0][whole], rewards[whole], rtol=1e-6)
        np.testing.assert_array_equal(data.next_observations[whole], ahead[whole])
        np.testing.assert_array_equal(data.dones[:, 0][whole], dones[whole])
        np.testing.assert_allclose(data.discounts[:, 0][whole], discounts[whole], rtol=1e-6)
        ends += int(data.dones.sum())
        with torch.no_grad():
            best = dqn.target(data.next_observations).max(dim=1).values
            goal = data.rewards.flatten() + data.discounts.flatten() * best
        value = dqn.net(data.observations).gather(1, data.actions).squeeze()
        errors = (goal - value).abs()
        dqn.optimizer.zero_grad()
        (data.weights.flatten() * errors**2).mean().backward()
        dqn.optimizer.step()
        assert rb.update_priorities(data.indices, errors) == 0
        leaves.updated(data.indices, errors.detach().numpy().astype("f8"))
        updates += 1
    assert ends > 100
    assert rb.ring.stats()["rows_published"] > 1_200


def test_a_script_anneals_beta_by_assignment() -> None:
    rb = ours.PrioritizedReplayBuffer(
        100,
        gym.spaces.Box(-1, 1, (2,)),
        gym.spaces.Discrete(2),
        n_envs=1,
        autoreset_mode="disabled",
        seed=1,
    )
    no = np.zeros(1, bool)
    for _ in range(20):
        rb.add(np.zeros((1, 2), "f4"), np.zeros((1, 2), "f4"), [1], [0.0], no, {}, no)
    rb.update_priorities(np.arange(19), np.arange(19.0))
    assert len(rb.sample(64).weights.unique()) > 3
    for beta in (0.0, 1.0):
        rb.beta = beta
        data = rb.sample(64)
        power = (data.indices + 1e-6) ** 0.6
        expected = (power.min() / power) ** beta
        np.testing.assert_allclose(data.weights[:, 0].numpy(), expected, rtol=1e-5)
    rb.beta = lambda batch: 1.5
    with pytest.raises(bc.errors.SampleError, match="beta"):
        rb.sample(1)


@pytest.mark.parametrize(
    ("beta", "error", "match"),
    [
        (1.5, bc.errors.SampleError, r"^beta is 1\.5; give 0 to 1"),
        (float("nan"), bc.errors.SampleError, r"^beta is NaN; give"),
        (2, bc.errors.SampleError, r"^beta is 2; give"),
        ((0.4, 0), bc.errors.SampleError, r"\bbeta is 0; give batches"),
        ("x", bc.errors.ArgumentTypeError, r"^beta is 'x'.*; give a number"),
        (None, bc.errors.ArgumentTypeError, r"^beta is None; give a number"),
    ],
)
def test_a_beta_that_no_sampler_takes_is_refused_at_its_assignment(
    beta: Any, error: type[bc.BackcastError], match: str
) -> None:
    box = gym.spaces.Box(-1, 1, (2,))
    rb = ours.PrioritizedReplayBuffer(
        100, box, gym.spaces.Discrete(2), n_envs=1, autoreset_mode="disabled"
    )
    with pytest.raises(error, match=match):
        rb.beta = beta
    assert rb.beta == bc.Priority().beta
    for good in (1, 0.0, np.float32(0.5), (0.4, 10), lambda batch: 0.5):
        rb.beta = good
        assert rb.beta is good


def test_a_prioritised_buffer_that_is_dropped_is_freed() -> None:
    rb = ours.PrioritizedReplayBuffer(
        100,
        gym.spaces.Box(-1, 1, (2,)),
        gym.spaces.Discrete(2),
        n_envs=1,
        autoreset_mode="disabled",
        seed=1,
    )
    no = np.zeros(1, bool)
    for _ in range(20):
        rb.add(np.zeros((1, 2), "f4"), np.zeros((1, 2), "f4"), [1], [0.0], no, {}, no)
    rb.sample(8)
    alive = weakref.ref(rb)
    del rb
    gc.collect()
    assert alive() is None


def test_options_of_priorities_are_refused_before_anything_is_added(place: Path) -> None:
    spaces = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    make: Any = ours.PrioritizedReplayBuffer
    for given, error in (
        ({"select": "priority"}, bc.errors.ArgumentTypeError),
        ({"select": bc.Priority(alpha=-1)}, bc.errors.SampleError),
        ({"n_step": 0}, bc.errors.ArgumentError),
        ({"gamma": 0.0}, bc.errors.ArgumentError),
        ({"alpha": 0.6}, bc.errors.ArgumentTypeError),
    ):
        with pytest.raises(error):
            make(100, *spaces, autoreset_mode="disabled", dir=place, **given)
    assert bc.list_objects(dir=place) == []


@pytest.mark.parametrize("name", ["arrays", "ring"])
def test_the_example_scripts_run(name: str, place: Path, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="its buffer is what one of them compares with")
    root = Path(__file__).resolve().parents[2]
    script = root / "examples" / "cleanrl" / f"dqn_{name}.py"
    sources = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    ran = subprocess.run(
        [sys.executable, script, "1500"],
        env={**os.environ, "PYTHONPATH": sources, "BACKCAST_DIR": str(place)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("mean return of the last 20 episodes: "), ran.stdout
    sys.path.append(str(root / "docs" / "gallery"))
    import gallery

    gallery.drawn_if_possible(f"cleanrl/dqn_{name}", ran.stdout, tmp_path)
