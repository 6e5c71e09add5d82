"""Compares our replay buffers with Stable-Baselines3's own: data, draws, weights and losses."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import TYPE_CHECKING, Any

import backcast as bc
import gymnasium as gym
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
from stable_baselines3.common import buffers as theirs  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.vec_env import VecNormalize  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
DISCRETE = spaces.Discrete(4)


class Feed:
    """Generator of random steps of several environments, with terminations and time limits."""

    def __init__(self, space: spaces.Space[Any], action: spaces.Space[Any], envs: int) -> None:
        self.space, self.action, self.envs = space, action, envs
        self.draw = np.random.default_rng(3)
        self.obs = self.observe()

    def observe(self) -> Any:
        if isinstance(self.space, spaces.Dict):
            parts = self.space.spaces.items()
            return {key: Feed(part, self.action, self.envs).of(self.draw) for key, part in parts}
        return self.of(self.draw)

    def of(self, draw: np.random.Generator) -> Any:
        shape = (self.envs, *self.space.shape)
        if isinstance(self.space, spaces.Discrete):
            return draw.integers(0, self.space.n, shape)
        return (draw.normal(size=shape) * 50).astype(self.space.dtype)

    def step(self) -> tuple[Any, ...]:
        obs, following = self.obs, self.observe()
        action = np.array([self.action.sample() for _ in range(self.envs)])
        done = self.draw.random(self.envs) < 0.1
        limit = done & (self.draw.random(self.envs) < 0.5)
        infos = [{"TimeLimit.truncated": bool(one)} for one in limit]
        self.obs = chosen(done, self.observe(), following)
        reward = self.draw.normal(size=self.envs).astype("f4")
        return obs, following, action, reward, done, infos


def chosen(mask: Any, one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {key: chosen(mask, one[key], other[key]) for key in one}
    return np.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)


def assert_equal(one: Any, other: Any, what: str = "") -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key], f"{what}.{key}")
    elif one is None:
        assert other is None
    else:
        assert one.dtype == other.dtype, what
        assert one.shape == other.shape, what
        assert torch.equal(one, other), what


def assert_same_samples(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    for name in one._fields:
        assert_equal(getattr(one, name), getattr(other, name), name)


DICT = spaces.Dict({"a": BOX, "kind": spaces.Discrete(5)})
SPACES = [
    pytest.param(BOX, DISCRETE, id="vectors"),
    pytest.param(spaces.Discrete(7), spaces.Box(-1, 1, (2,), np.float64), id="discrete"),
    pytest.param(spaces.Box(0, 255, (2, 4, 4), np.uint8), DISCRETE, id="images"),
    pytest.param(spaces.Box(-1, 1, (3,), np.float64), spaces.MultiDiscrete([2, 3]), id="float64"),
    pytest.param(spaces.MultiBinary(4), spaces.MultiBinary(3), id="binary"),
    pytest.param(DICT, DISCRETE, id="dict"),
]


def pair(
    space: Any, action: Any, envs: int, size: int = 600, kind: str | None = None, **more: Any
) -> tuple[Any, Any]:
    """Return a buffer of Stable-Baselines3 and one of ours, by default with its kind of draws."""
    kind = kind or ("DictReplayBuffer" if isinstance(space, spaces.Dict) else "ReplayBuffer")
    own = {key: more.pop(key) for key in ("sampling", "capacity", "name", "seed") if key in more}
    own = {"sampling": "sb3"} | own
    common = {"device": "cpu", "n_envs": envs, **more}
    return (
        getattr(theirs, kind)(size, space, action, **common),
        getattr(ours, kind)(size, space, action, **common, **own),
    )


def both_sampled(one: Any, other: Any, *arguments: Any, seed: int = 5) -> tuple[Any, Any]:
    np.random.seed(seed)
    first = one.sample(64, *arguments)
    np.random.seed(seed)
    return first, other.sample(64, *arguments)


@pytest.mark.parametrize(("space", "action"), SPACES)
@pytest.mark.parametrize("limits", [True, False], ids=["limits", "no-limits"])
def test_samples_are_theirs_at_every_moment(space: Any, action: Any, limits: bool) -> None:
    one, other = pair(space, action, 3, size=60, handle_timeout_termination=limits)
    feed = Feed(space, action, 3)
    for _ in range(50):
        step = feed.step()
        one.add(*step)
        other.add(*step)
        assert (one.pos, one.full, one.size()) == (other.pos, other.full, other.size())
        assert_same_samples(*both_sampled(one, other))


def spoil(lent: Any) -> None:
    """Overwrite arrays that were given to a buffer, as the next step of an environment does."""
    if isinstance(lent, np.ndarray):
        lent[...] = 1
    elif isinstance(lent, dict):
        for part in lent.values():
            spoil(part)
        lent.clear()
    elif isinstance(lent, list | tuple):
        for part in lent:
            spoil(part)


@pytest.mark.parametrize(("space", "action"), SPACES)
def test_arrays_that_an_environment_hands_out_again_are_copied(space: Any, action: Any) -> None:
    one, other = pair(space, action, 3, size=60)
    feed = Feed(space, action, 3)
    for _ in range(50):
        step = feed.step()
        one.add(*step)
        lent = copy.deepcopy(step)
        other.add(*lent)
        spoil(lent)
        assert_same_samples(*both_sampled(one, other))
    for name in ARRAYS:
        if not isinstance(space, spaces.Dict):
            assert np.array_equal(getattr(other, name)[:50], getattr(one, name)[:50]), name


class Short(Feed):
    """Generator of episodes of a given length."""

    def __init__(self, envs: int, length: int) -> None:
        super().__init__(BOX, DISCRETE, envs)
        self.length, self.steps = length, 0

    def step(self) -> tuple[Any, ...]:
        obs, following, action, reward, _, _ = super().step()
        self.steps += 1
        done = np.full(self.envs, self.steps % self.length == 0)
        limit = done & (np.arange(self.envs) % 2 == 0)
        self.obs = self.observe() if done.all() else following
        return obs, following, action, reward, done, [{"TimeLimit.truncated": x} for x in limit]


ARRAYS = ["actions", "rewards", "dones", "timeouts", "observations", "next_observations"]


@pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")
@pytest.mark.parametrize("limits", [True, False], ids=["limits", "no-limits"])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 5, 1_000])
def test_a_buffer_that_goes_round_holds_what_theirs_holds_whatever_the_episodes(
    length: int, envs: int, limits: bool
) -> None:
    one, other = pair(BOX, DISCRETE, envs, size=100, handle_timeout_termination=limits)
    feed = Short(envs, length)
    for number in range(350):
        step = feed.step()
        one.add(*step)
        other.add(*step)
        assert (one.pos, one.full, one.size()) == (other.pos, other.full, other.size())
        if number % 30 == 0 or number > 345:
            assert_same_samples(*both_sampled(one, other))
            for name in ARRAYS:
                array = np.asarray(getattr(other, name))
                assert np.array_equal(array, getattr(one, name)), (number, name)
    assert np.array_equal(other.observations[:3], one.observations[:3])
    # The buffers are also equal after a load, and after they have wrapped once more.
    one, other = (pickle.loads(pickle.dumps(each)) for each in (one, other))
    for _ in range(150):
        step = feed.step()
        one.add(*step)
        other.add(*step)
        assert_same_samples(*both_sampled(one, other))


@pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")
def test_the_numbers_of_their_memory_saving_form_are_drawn_too() -> None:
    saving = {"optimize_memory_usage": True, "handle_timeout_termination": False}
    one, other = pair(BOX, DISCRETE, 2, size=40, **saving)
    feed = Feed(BOX, DISCRETE, 2)
    for _ in range(90):
        step = feed.step()
        one.add(*step)
        other.add(*step)
        theirs_are, ours_are = both_sampled(one, other)
        for name in ("observations", "actions", "rewards", "dones"):
            assert_equal(getattr(theirs_are, name), getattr(ours_are, name), name)
        # At an end Stable-Baselines3 returns the first observation of the next episode, which no
        # algorithm uses.
        going = theirs_are.dones[:, 0] == 0
        assert_equal(theirs_are.next_observations[going], ours_are.next_observations[going])


def test_a_capacity_that_cannot_hold_the_steps_is_refused(place: Path) -> None:
    make = {"device": "cpu", "n_envs": 2, "sampling": "sb3", "dir": place}
    for capacity, rows in [(100, 50), (198, 99)]:
        wanted = rf"\b{rows}\b.*\b50\b.*\b100\b.*\b200\b"
        with pytest.raises(bc.errors.ArgumentError, match=wanted):
            ours.ReplayBuffer(100, BOX, DISCRETE, capacity=capacity, **make)
    with pytest.raises(bc.errors.ArgumentError, match=r"\b400000\b"):
        ours.ReplayBuffer(200_000, BOX, DISCRETE, capacity="1MiB", name="bytes", **make)
    assert bc.list_objects(dir=place) == []
    sized = {"name": "small", "capacity": "1MiB"}
    small = ours.ReplayBuffer(200_000, BOX, DISCRETE, **(make | sized | {"sampling": "ring"}))
    with pytest.raises(bc.errors.ArgumentError, match=r"\b400000\b"):
        ours.ReplayBuffer(200_000, BOX, DISCRETE, **make, **sized)
    assert [entry["name"] for entry in bc.list_objects(dir=place)] == ["small"]
    for exist in ("error", "replace"):
        with pytest.raises(bc.BackcastError):
            ours.ReplayBuffer(200_000, BOX, DISCRETE, exist=exist, **make, **sized)
        # The ring of that name stays as it is.
        assert [entry["name"] for entry in bc.list_objects(dir=place)] == ["small"]
        assert bc.ReplayBuffer.attach("small", dir=place).capacity == small.ring.capacity
    enough = sized | {"capacity": "1MiB", "exist": "replace"}
    replaced = ours.ReplayBuffer(100, BOX, DISCRETE, **make, **enough)
    assert [entry["name"] for entry in bc.list_objects(dir=place)] == ["small"]
    assert bc.ReplayBuffer.attach("small", dir=place).path == replaced.ring.path
    small.ring.close()
    replaced.ring.unlink()
    assert ours.ReplayBuffer(100, BOX, DISCRETE, capacity=200, **make).buffer_size == 50


def test_hindsight_refuses_a_capacity_that_cannot_hold_the_steps(place: Path) -> None:
    goals = spaces.Dict({key: BOX for key in ("observation", "achieved_goal", "desired_goal")})
    make = {"device": "cpu", "env": None, "dir": place}
    for size, capacity in [(100, 198), (200_000, "1MiB")]:
        with pytest.raises(bc.errors.ArgumentError, match=rf"\b{size}\b.*\bcapacity\b"):
            ours.HerReplayBuffer(size, goals, DISCRETE, capacity=capacity, **make)
    ours.HerReplayBuffer(100, goals, DISCRETE, capacity=200, **make)


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("limits", [True, False], ids=["limits", "no-limits"])
def test_returns_of_several_steps_are_theirs(n: int, limits: bool) -> None:
    more = {"n_steps": n, "gamma": 0.9, "handle_timeout_termination": limits}
    one, other = pair(BOX, DISCRETE, 3, size=60, kind="NStepReplayBuffer", **more)
    feed = Feed(BOX, DISCRETE, 3)
    for _ in range(50):
        step = feed.step()
        one.add(*step)
        other.add(*step)
        assert_same_samples(*both_sampled(one, other))


@pytest.mark.parametrize("kind", ["ReplayBuffer", "NStepReplayBuffer"])
@pytest.mark.parametrize("normalized", [False, True], ids=["", "normalized"])
def test_draws_of_the_rings_sampler_are_the_same_transitions(
    kind: str, normalized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"sampling": "ring", "capacity": 3600, "seed": 7}
    one, other = pair(BOX, DISCRETE, 3, size=900, kind=kind, **own)
    feed = Feed(BOX, DISCRETE, 3)
    for _ in range(290):
        step = feed.step()
        one.add(*step)
        other.add(*step)
    env = None
    if normalized:
        env = VecNormalize(make_vec_env("Pendulum-v1", 1), clip_reward=0.5)
        env.obs_rms.mean = np.array([1.0, 2.0, 3.0])
        env.ret_rms.var = np.array(4.0)
    index = other.ring.sampler(seed=7).sample(500).index
    place = {int(at): divmod(number, 3) for number, at in enumerate(other._stored._index.ravel())}
    at, lanes = np.array([place[int(each)] for each in index]).T
    monkeypatch.setattr(np.random, "randint", lambda *_, **__: lanes)
    theirs_are = one._get_samples(at, env)
    # The newest row of a lane has no successor in the ring, so returns end one step earlier there.
    ours_are = other.sample(500, env)
    early = at + getattr(one, "n_steps", 1) < one.pos
    assert early.sum() > 400
    for name in theirs_are._fields:
        first, second = getattr(theirs_are, name), getattr(ours_are, name)
        if first is not None:
            assert torch.equal(first[early], second[early]), name


class Losses(BaseCallback):
    """Callback that records the logged losses of every step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, float]] = []

    def _on_step(self) -> bool:
        logged = self.model.logger.name_to_value.items()
        self.seen.append({key: value for key, value in logged if "loss" in key})
        return True


class Pairs(gym.ObservationWrapper):  # type: ignore[type-arg]
    """Wrapper that shows a vector as a dict of two parts."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        low, high = env.observation_space.low, env.observation_space.high
        self.observation_space = spaces.Dict(
            {"a": spaces.Box(low[:1], high[:1]), "b": spaces.Box(low[1:], high[1:])}
        )

    def observation(self, observation: Any) -> Any:
        return {"a": observation[:1], "b": observation[1:]}


RUNS = [
    pytest.param("DQN", "CartPole-v1", 3, "ReplayBuffer", {}, id="dqn"),
    pytest.param("SAC", "Pendulum-v1", 2, "ReplayBuffer", {}, id="sac"),
    pytest.param(
        "TD3", "Pendulum-v1", 2, "NStepReplayBuffer", {"n_steps": 3, "gamma": 0.97}, id="td3-nstep"
    ),
    pytest.param("SAC", "Pendulum-v1", 2, "DictReplayBuffer", {}, id="sac-dict"),
    pytest.param("SAC", "Pendulum-v1", 2, "ReplayBuffer", {"normalize": True}, id="sac-normalized"),
]


@pytest.mark.parametrize(("algorithm", "env", "envs", "kind", "more"), RUNS)
def test_weights_and_losses_of_a_run_are_theirs(
    algorithm: str, env: str, envs: int, kind: str, more: dict[str, Any]
) -> None:
    nested = kind == "DictReplayBuffer"
    more = dict(more)
    normalize = more.pop("normalize", False)
    # The run is long enough for both buffers to wrap.
    size, updates = 1500, 1000

    def run(buffer: Any, **own: Any) -> tuple[Any, Losses]:
        made = make_vec_env(env, envs, seed=0, wrapper_class=Pairs if nested else None)
        model = getattr(sb3, algorithm)(
            "MultiInputPolicy" if nested else "MlpPolicy",
            VecNormalize(made) if normalize else made,
            replay_buffer_class=buffer,
            replay_buffer_kwargs={**more, **own},
            buffer_size=size,
            learning_starts=100,
            batch_size=32,
            train_freq=1,
            gradient_steps=1,
            policy_kwargs={"net_arch": [16, 16]},
            seed=1,
            device="cpu",
        )
        losses = Losses()
        model.learn(100 + envs * (updates + 1), callback=losses)
        return model, losses

    one, its_losses = run(getattr(theirs, kind))
    other, our_losses = run(getattr(ours, kind), sampling="sb3")
    assert one._n_updates == other._n_updates >= updates
    assert one.replay_buffer.full == (one.replay_buffer.buffer_size < one.num_timesteps // envs)
    assert its_losses.seen == our_losses.seen
    assert len({str(seen) for seen in our_losses.seen}) > updates / 2
    weights, our_weights = one.policy.state_dict(), other.policy.state_dict()
    assert all(torch.equal(weights[key], our_weights[key]) for key in weights)


@pytest.mark.parametrize("sampling", ["ring", "sb3"])
@pytest.mark.parametrize("name", [None, "saved-by-sb3"])
@pytest.mark.parametrize("kind", ["ReplayBuffer", "NStepReplayBuffer"])
def test_a_loaded_buffer_draws_what_the_saved_one_draws(
    sampling: str, name: str | None, kind: str, place: Path, tmp_path: Path
) -> None:
    env = make_vec_env("Pendulum-v1", 2, seed=0)
    options = {"sampling": sampling, "name": name, "dir": place}
    model = sb3.SAC(
        "MlpPolicy",
        env,
        replay_buffer_class=getattr(ours, kind),
        replay_buffer_kwargs=options,
        buffer_size=1000,
        policy_kwargs={"net_arch": [8]},
        learning_starts=50,
        seed=1,
        device="cpu",
    )
    model.learn(300)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    np.random.seed(11)
    expected = [model.replay_buffer.sample(32) for _ in range(5)]
    count = len(model.replay_buffer.ring)
    # While the saved learner lives, its ring has the name that the loaded one takes.
    del model
    gc.collect()

    again = sb3.SAC.load(tmp_path / "model", env)
    again.load_replay_buffer(tmp_path / "buffer")
    buffer = again.replay_buffer
    assert len(buffer.ring) == count
    if name is not None:
        assert buffer.ring.name == name
    np.random.seed(11)
    for one in expected:
        assert_same_samples(one, buffer.sample(32))
    # The newest saved transitions get their next observations with the next step: none is lost.
    again.learn(400, reset_num_timesteps=False)
    assert again.num_timesteps == 700
    assert len(buffer.ring) == 700 - buffer._stored.waiting
    np.random.seed(2)
    at = np.full(2, 149)
    samples = buffer._get_samples(at)
    assert samples.rewards.abs().sum() > 0


def test_a_saved_buffer_does_not_take_the_name_of_a_ring_with_rows(place: Path) -> None:
    _, buffer = pair(BOX, DISCRETE, 1, sampling="ring")
    named = ours.ReplayBuffer(100, BOX, DISCRETE, device="cpu", name="busy", dir=place)
    feed = Feed(BOX, DISCRETE, 1)
    for _ in range(5):
        step = feed.step()
        named.add(*step)
        buffer.add(*step)
    with pytest.raises(bc.ExistsError, match=r"remove_object"):
        pickle.loads(pickle.dumps(named))
    named.ring.unlink()
    assert len(pickle.loads(pickle.dumps(buffer)).ring) == 4


def test_a_second_learn_begins_new_episodes() -> None:
    model = sb3.DQN(
        "MlpPolicy",
        "CartPole-v1",
        replay_buffer_class=ours.ReplayBuffer,
        buffer_size=5000,
        optimize_memory_usage=True,
        policy_kwargs={"net_arch": [8]},
        learning_starts=50,
        seed=1,
        device="cpu",
    )
    model.learn(204)
    before = model.replay_buffer.ring.stats()
    with pytest.warns(UserWarning, match="last trajectory in the replay buffer will be truncated"):
        model.learn(200)
    after = model.replay_buffer.ring.stats()
    assert after["cuts"] == before["cuts"] == 0
    assert len(model.replay_buffer.ring) == 404 - model.replay_buffer._stored.waiting


def test_their_arrays_are_read_where_they_are_indexed() -> None:
    for space in (BOX, DICT):
        one, other = pair(space, DISCRETE, 2, size=60)
        feed = Feed(space, DISCRETE, 2)
        for _ in range(35):
            step = feed.step()
            one.add(*step)
            other.add(*step)
        names = ["actions", "rewards", "dones", "timeouts", "observations", "next_observations"]
        keys = [3, -1, (4, 1), slice(None, 7), (slice(2, 9, 3), 0), ([1, 5, 1], [0, 1, 1])]
        for name in names:
            mine, its = getattr(other, name), getattr(one, name)
            for column, array in zip(
                mine.values() if isinstance(mine, dict) else [mine],
                its.values() if isinstance(its, dict) else [its],
                strict=True,
            ):
                assert column.shape == array.shape
                assert column.dtype == array.dtype
                for key in keys:
                    assert np.array_equal(column[key], array[key]), (name, key)
                assert np.array_equal(np.asarray(column), array)


def test_changes_of_stored_rows_are_refused() -> None:
    _, buffer = pair(BOX, DISCRETE, 2)
    buffer.reset()
    feed = Feed(BOX, DISCRETE, 2)
    for _ in range(3):
        buffer.add(*feed.step())
    for poke in (
        lambda: setattr(buffer, "pos", 0),
        lambda: setattr(buffer, "full", True),
        lambda: buffer.rewards.__setitem__(1, 2.0),
        lambda: buffer.dones.__setitem__(0, True),
        lambda: buffer.dones.__setitem__(2, False),
    ):
        with pytest.raises(bc.errors.ArgumentError, match=r"\bdones\b"):
            poke()
    with pytest.raises(bc.errors.ArgumentError, match=r"exist=\"replace\""):
        buffer.reset()
    buffer.dones[2] = True
    assert len(buffer.ring) == 6


def test_wrong_steps_are_refused_before_anything_is_stored() -> None:
    _, buffer = pair(BOX, DISCRETE, 2)
    obs, following, action, reward, done, infos = Feed(BOX, DISCRETE, 2).step()
    limited = [{"TimeLimit.truncated": True}] * 2
    no = np.zeros(2, bool)
    for step, message in [
        ((obs, following, action, reward, no, limited), "TimeLimit.truncated"),
        ((obs, following, action, reward, done, infos[:1]), r"\binfos\b.*\b1\b"),
        ((obs[:1], following, action, reward, done, infos), r"\bobs\b.*\[1\b"),
        ((obs, following, action[:1], reward, done, infos), r"\baction\b.*\[1\b"),
    ]:
        with pytest.raises(bc.errors.ArgumentError, match=message):
            buffer.add(*step)
    assert (buffer.pos, buffer.size(), buffer.ring.stats()["rows_published"]) == (0, 0, 0)
    with pytest.raises(bc.errors.SampleError, match="learning_starts="):
        buffer.sample(4)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sampling": "mine"}, r"\bsampling\b.*'mine'"),
        ({"exist": "replace"}, "name="),
        ({"lanes": 1}, r"\blanes\b.*\b1\b"),
        ({"frames": 2}, r"\bframes\b.*\b2\b"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(bc.errors.ArgumentError, match=message):
        ours.ReplayBuffer(100, BOX, DISCRETE, n_envs=2, **more)


def test_spaces_go_to_the_class_that_serves_them() -> None:
    with pytest.raises(bc.errors.ArgumentError, match=r"backcast.sb3.DictReplayBuffer"):
        ours.ReplayBuffer(100, DICT, DISCRETE)
    with pytest.raises(bc.errors.ArgumentError, match=r"backcast.sb3.ReplayBuffer"):
        ours.DictReplayBuffer(100, BOX, DISCRETE)
    with pytest.raises(bc.errors.ArgumentError, match=r"\bDict\b"):
        ours.NStepReplayBuffer(100, DICT, DISCRETE)
