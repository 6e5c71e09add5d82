"""Gymnasium's vector environments as those of Stable-Baselines3, and hindsight goals."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)
torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.sb3 as ours  # noqa: E402
from backcast.envs import PortfolioVectorEnv, TradingVectorEnv  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.envs import BitFlippingEnv  # noqa: E402
from stable_baselines3.common.vec_env import VecMonitor  # noqa: E402
from stable_baselines3.her import HerReplayBuffer  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_steps_are_those_of_their_own_vector_environment(mode: AutoresetMode) -> None:
    make = {"vector_kwargs": {"autoreset_mode": mode}, "max_episode_steps": 30}
    mine = ours.VecEnv(gym.make_vec("CartPole-v1", 3, vectorization_mode="sync", **make))
    its = make_vec_env("CartPole-v1", 3, env_kwargs={"max_episode_steps": 30})
    for env in (mine, its):
        env.seed(5)
    assert np.array_equal(mine.reset(), its.reset())
    draw, ends, seen = np.random.default_rng(1), 0, np.zeros((3, 4))
    for step in range(200):
        actions = (seen[:, 2] > 0).astype(int) if step % 2 else draw.integers(0, 2, 3)
        one, other = mine.step(actions), its.step(actions)
        seen = one[0]
        for first, second in zip(one[:3], other[:3], strict=True):
            assert first.dtype == second.dtype
            assert np.array_equal(first, second)
        for first, second in zip(one[3], other[3], strict=True):
            assert first["TimeLimit.truncated"] == second["TimeLimit.truncated"]
            final = first.get("terminal_observation"), second.get("terminal_observation")
            assert (final[0] is None) == (final[1] is None)
            if final[0] is not None:
                ends += 1
                assert np.array_equal(*final)
    assert ends > 10
    assert mine.env_is_wrapped(gym.wrappers.TimeLimit) == [True] * 3
    assert mine.get_attr("spec", [1])[0].id == "CartPole-v1"
    mine.close()
    its.close()


def test_the_trading_environment_trains_ppo_and_dqn() -> None:
    make: dict[str, Any] = {"warmup_ticks": 20, "frame_skip": 5, "max_episode_steps": 20}
    envs = TradingVectorEnv(4, autoreset_mode="same_step", **make)
    env = VecMonitor(ours.VecEnv(envs))
    model = sb3.PPO("MlpPolicy", env, n_steps=32, batch_size=32, seed=0, device="cpu")
    model.learn(256)
    assert len(model.ep_info_buffer) > 4
    assert {info["l"] for info in model.ep_info_buffer} == {20}
    dqn = sb3.DQN("MlpPolicy", env, buffer_size=500, learning_starts=40, seed=0, device="cpu")
    dqn.learn(200)
    assert dqn._n_updates > 0


def test_our_vector_environment_trains_sac_and_hands_on_its_own_arrays(prices: Path) -> None:
    envs = PortfolioVectorEnv(
        prices, 4, obs="flat", autoreset_mode="same_step", panel_options={"macro": ["IDX"]}
    )
    env = ours.VecEnv(envs)
    given: list[Any] = []
    step = envs.step
    envs.step = lambda actions: given.append(step(actions)) or given[-1]  # type: ignore[method-assign]
    model = sb3.SAC(
        "MlpPolicy",
        VecMonitor(env),
        replay_buffer_class=ours.ReplayBuffer,
        buffer_size=4000,
        learning_starts=40,
        policy_kwargs={"net_arch": [8]},
        seed=0,
        device="cpu",
    )
    model.learn(600)
    assert model._n_updates > 100
    assert len(model.replay_buffer.ring) > 590
    assert model.ep_info_buffer, "no episode ended"
    assert model.replay_buffer.ring.stats()["cuts"] == 0
    env.reset()
    obs, _, _, infos = env.step(np.zeros((4, 2), "f4"))
    assert obs is given[-1][0]
    assert all("TimeLimit.truncated" in info for info in infos)


def test_environments_that_would_be_stored_wrong_are_refused(prices: Path) -> None:
    options = {"obs": "flat", "panel_options": {"macro": ["IDX"]}}
    with pytest.raises(bc.errors.ArgumentError, match="SAME_STEP"):
        ours.VecEnv(PortfolioVectorEnv(prices, 2, **options))
    with pytest.raises(bc.errors.ArgumentError, match="copy=True"):
        ours.VecEnv(
            PortfolioVectorEnv(prices, 2, autoreset_mode="same_step", copy=False, **options)
        )
    with pytest.raises(bc.errors.ArgumentTypeError, match="VectorEnv"):
        ours.VecEnv(gym.make("CartPole-v1"))
    env = ours.VecEnv(PortfolioVectorEnv(prices, 2, autoreset_mode="same_step", **options))
    with pytest.raises(bc.errors.ArgumentError, match="compute_reward"):
        env.env_method("compute_reward")
    with pytest.raises(bc.errors.ArgumentError, match="hmax"):
        env.set_attr("hmax", 3)
    with pytest.raises(bc.errors.EnvError, match="step_async"):
        env.step_wait()


def test_methods_are_called_on_the_chosen_environments_alone() -> None:
    class Counted(gym.Wrapper[Any, Any, Any, Any]):
        calls = 0

        def count(self, by: int, *, times: int = 1) -> int:
            self.calls += by * times
            return self.calls

    def make() -> Any:
        return Counted(gym.make("CartPole-v1"))

    mode = gym.vector.AutoresetMode.SAME_STEP
    env = ours.VecEnv(gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=mode))
    assert env.env_method("count", 2, times=3, indices=[2, 0]) == [6, 6]
    assert env.env_method("count", 1) == [7, 1, 7]
    assert env.env_method("count", 1, indices=1) == [2]
    env.close()
    env = ours.VecEnv(gym.vector.AsyncVectorEnv([make] * 2, autoreset_mode=mode))
    with pytest.raises(bc.errors.ArgumentError, match=r"count.*all"):
        env.env_method("count", 1, indices=1)
    assert env.env_method("count", 1) == [1, 1]
    env.close()


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_hindsight_goals_are_theirs(strategy: str) -> None:
    def run(kind: Any, **own: Any) -> Any:
        env = make_vec_env(BitFlippingEnv, 2, env_kwargs={"n_bits": 5, "continuous": True})
        env.seed(0)
        model = sb3.SAC(
            "MultiInputPolicy",
            env,
            replay_buffer_class=kind,
            replay_buffer_kwargs={"goal_selection_strategy": strategy, **own},
            buffer_size=400,
            learning_starts=50,
            policy_kwargs={"net_arch": [8]},
            seed=0,
            device="cpu",
        )
        return model.learn(700)

    theirs, mine = run(HerReplayBuffer), run(ours.HerReplayBuffer)
    assert isinstance(mine.replay_buffer, HerReplayBuffer)
    assert mine._n_updates == theirs._n_updates > 300
    one, other = theirs.policy.state_dict(), mine.policy.state_dict()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_hindsight_leaves_out_dropped_episodes_and_is_saved(tmp_path: Path) -> None:
    env = make_vec_env(BitFlippingEnv, 2, env_kwargs={"n_bits": 5, "continuous": True})
    model = sb3.SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=ours.HerReplayBuffer,
        buffer_size=300,
        learning_starts=50,
        policy_kwargs={"net_arch": [8]},
        seed=0,
        device="cpu",
    )
    model.learn(900)
    # Drop until a transition of the buffer is lost: the ring holds older ones than the buffer.
    while not model.replay_buffer._stored.lost().any():
        assert model.replay_buffer.ring.drop_episode(0) > 0
    np.random.seed(4)
    samples = model.replay_buffer.sample(200)
    model.save_replay_buffer(tmp_path / "buffer")
    np.random.seed(4)
    again = pickle.loads(pickle.dumps(model.replay_buffer))
    again.set_env(model.env)
    assert torch.equal(samples.actions, again.sample(200).actions)
    with pytest.warns(UserWarning, match="will be truncated"):
        model.load_replay_buffer(tmp_path / "buffer")
    model.learn(100, reset_num_timesteps=False)
