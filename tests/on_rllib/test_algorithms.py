"""DQN and SAC of RLlib with a buffer in a ring: they train, stop, and go on with the buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ArgumentError
from backcast.rllib import AddArrays, EpisodeReplayBuffer, use_ring
from conftest import Env
from ray import tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.cql import CQLConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

CONFIGS = {
    "dqn": lambda: DQNConfig().environment("CartPole-v1").training(n_step=3),
    "sac": lambda: (
        SACConfig()
        .environment("Pendulum-v1")
        .training(replay_buffer_config={"capacity": 5_000}, n_step=(1, 4))
    ),
}


def small(config: Any) -> Any:
    return (
        config.env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=4)
        .training(num_steps_sampled_before_learning_starts=60, train_batch_size=32)
        .reporting(min_sample_timesteps_per_iteration=100, min_time_s_per_iteration=0)
        .debugging(seed=3)
    )


def drawn(algorithm: Algorithm) -> dict[str, Any]:
    config = algorithm.config
    [found] = algorithm.local_replay_buffer.sample(
        64, n_step=config.n_step, gamma=config.gamma, beta=0.4
    )
    return found.arrays


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_trains_stops_and_goes_on_with_its_buffer(
    cluster: None, name: str, tmp_path: Path
) -> None:
    algorithm = use_ring(small(CONFIGS[name]()), f"rllib-{name}").build_algo()
    try:
        result = algorithm.train()
        assert result["learners"]["default_policy"]["num_module_steps_trained_lifetime"] > 0
        counts = result["replay_buffer"]
        assert counts["num_env_steps_added_lifetime"] >= 100
        assert counts["num_env_steps_sampled_lifetime"] > 0
        with bc.ReplayBuffer.attach(f"rllib-{name}") as seen:
            # The newest transition of each environment waits for its next fragment.
            assert counts["num_env_steps_added_lifetime"] - len(seen) <= 2
        saved = algorithm.save_to_path(tmp_path / "checkpoint")
        before, size = drawn(algorithm), len(algorithm.local_replay_buffer)
    finally:
        algorithm.stop()
    with pytest.raises(bc.errors.NotFoundError):
        bc.ReplayBuffer.attach(f"rllib-{name}")
    again = Algorithm.from_checkpoint(saved)
    try:
        assert len(again.local_replay_buffer) == size
        after = drawn(again)
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[key], after[key]) for key in before)
        result = again.train()
        added = result["replay_buffer"]["num_env_steps_added_lifetime"]
        assert counts["num_env_steps_added_lifetime"] + 100 <= added < size + 150
    finally:
        again.stop()


def weights(algorithm: Algorithm) -> list[np.ndarray]:
    module = algorithm.learner_group._learner.module["default_policy"]
    return [value.detach().numpy().copy() for value in module.parameters()]


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def dqn(capacity: int = 5_000) -> Any:
    config = small(CONFIGS["dqn"]())
    return config.training(replay_buffer_config={"capacity": capacity})


def test_a_name_in_use_is_refused_when_an_algorithm_is_built(cluster: None, tmp_path: Path) -> None:
    first = use_ring(dqn(), "rllib-live").build_algo()
    try:
        first.train()
        size = len(first.local_replay_buffer)
        saved = first.save_to_path(tmp_path / "checkpoint")
        for build in (
            lambda: use_ring(dqn(), "rllib-live").build_algo(),
            lambda: Algorithm.from_checkpoint(saved),
        ):
            with pytest.raises(bc.errors.ExistsError, match=r"from_checkpoint\(path, config="):
                build()
        # Does what the error advises.
        config = use_ring(dqn(), "rllib-other")
        other = Algorithm.from_checkpoint(saved, config=config)
        try:
            assert len(other.local_replay_buffer) == size
            assert equal(weights(other), weights(first))
            with bc.ReplayBuffer.attach("rllib-other") as seen:
                assert len(seen) == size
        finally:
            other.stop()
    finally:
        first.stop()
    # It makes no ring again, which would keep the name.
    with pytest.raises(bc.errors.ClosedError, match=r"algorithm\.stop\(\) was called"):
        first.train()
    with pytest.raises(bc.errors.ClosedError):
        first.save_to_path(tmp_path / "late")
    assert not (tmp_path / "late").exists()
    with pytest.raises(bc.errors.ClosedError):
        first.restore_from_path(saved)
    again = Algorithm.from_checkpoint(saved)
    again.stop()


def test_a_restore_that_is_refused_changes_nothing(cluster: None, tmp_path: Path) -> None:
    algorithm = use_ring(dqn()).build_algo()
    try:
        algorithm.train()
        saved = Path(algorithm.save_to_path(tmp_path / "checkpoint"))
    finally:
        algorithm.stop()
    small_one = use_ring(dqn(200)).build_algo()
    try:
        buffer = small_one.local_replay_buffer
        buffer.add([_widened(fragment) for fragment in Env(0, 9).fragments(20)])
        before, size = weights(small_one), len(buffer)
        with pytest.raises(
            ArgumentError, match="saved with a capacity of 5000, and this one has 200"
        ):
            small_one.restore_from_path(saved)
        assert equal(weights(small_one), before)
        assert len(buffer) == size > 0
    finally:
        small_one.stop()
    # RLlib fails after the buffer is there.
    (saved / "learner_group" / "state.pkl").write_bytes(b"")
    broken = use_ring(dqn(6_000)).build_algo()
    try:
        with pytest.raises(EOFError):
            broken.restore_from_path(saved)
        with pytest.raises(bc.errors.ClosedError, match="could not be restored from"):
            broken.train()
    finally:
        broken.stop()


def test_a_dotted_name_is_enough_for_dqn(cluster: None) -> None:
    config = small(CONFIGS["dqn"]())
    config.training(
        replay_buffer_config={
            "type": "backcast.rllib.EpisodeReplayBuffer",
            "capacity": 2_000,
            "alpha": 0.5,
            "beta": 0.4,
        }
    )
    algorithm = config.build_algo()
    try:
        algorithm.train()
        buffer = algorithm.local_replay_buffer
        assert isinstance(buffer, EpisodeReplayBuffer)
        assert len(buffer) >= 98
    finally:
        algorithm.stop()


class Noted(ConnectorV2):
    """A connector of a user, which looks at the batch."""

    seen: list[set[str]] = []  # noqa: RUF012

    def __call__(self, *, batch: dict[str, Any], **_others: Any) -> dict[str, Any]:
        self.seen.append(set(batch))
        return batch


def test_arrays_make_the_train_batch_that_episodes_make(cluster: None) -> None:
    """Draws of equal seeds, through the whole pipeline of connectors of a learner."""
    called = []
    batches = []
    for arrays in (True, False):
        config = small(CONFIGS["dqn"]())
        config.callbacks(on_algorithm_init=lambda **_: called.append(1))
        config.learners(learner_connector=Noted)
        algorithm = use_ring(config, arrays=arrays, seed=11).build_algo()
        try:
            buffer = algorithm.local_replay_buffer
            for env in (Env(0, 9), Env(1, 6)):
                buffer.add(
                    [
                        # CartPole has four numbers.
                        _widened(fragment)
                        for fragment in env.fragments(40)
                    ]
                )
            learner = algorithm.learner_group._learner
            episodes = buffer.sample(64, n_step=3, gamma=0.9, beta=0.4)
            batches.append(
                learner._learner_connector(
                    rl_module=learner.module, batch={}, episodes=episodes, shared_data={}
                )["default_policy"]
            )
        finally:
            algorithm.stop()
    assert len(called) == 2
    assert Noted.seen == [
        {"obs", "new_obs", "actions", "rewards", "terminateds", "truncateds", "weights", "n_step"},
        set(),
    ]
    ours, theirs = batches
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert value.shape == theirs[key].shape
        assert value.dtype == theirs[key].dtype
        assert np.allclose(value.numpy(), theirs[key].numpy()), key


def _widened(fragment: Any) -> Any:
    data = fragment.observations.data
    fragment.observations.data = np.concatenate([data, data[:, :1]], axis=1)
    fragment.actions.data = fragment.actions.data[:, 0].astype(np.int64) % 2
    return fragment


def test_arrays_without_the_connector_are_refused() -> None:
    buffer = EpisodeReplayBuffer(100, arrays=True)
    buffer.add(Env(0, 5).fragments(10))
    [drawn] = buffer.sample(4)
    with pytest.raises(ArgumentError, match="AddArrays"):
        drawn.get_observations(slice(0, 4))
    batch = AddArrays()(batch={}, episodes=[drawn[:2], drawn.slice(slice(2, None))])
    [items] = batch["obs"].values()
    assert [len(part) for part in items] == [2, 2]


def test_callbacks_that_replace_the_ring_are_noticed(cluster: None) -> None:
    config = use_ring(small(CONFIGS["dqn"]()))
    config.callbacks(on_algorithm_init=lambda **_: None)
    algorithm = config.build_algo()
    try:
        with pytest.raises(ArgumentError, match="call use_ring last"):
            algorithm.train()
    finally:
        algorithm.stop()


def test_variants_train(cluster: None, tmp_path: Path) -> None:
    """Episodes of TQC, whole ones, a second call of use_ring, a prefilled buffer, no warm-up."""

    class Prefills(RLlibCallback):
        def on_algorithm_init(self, *, algorithm: Any, **_others: Any) -> None:
            algorithm.local_replay_buffer.add(
                SingleAgentEpisode(
                    observations=[np.zeros(3, np.float32)] * 9,
                    actions=[np.zeros(1, np.float32)] * 8,
                    rewards=[0.0] * 8,
                    truncated=True,
                    len_lookback_buffer=0,
                )
            )

    config = small(TQCConfig().environment("Pendulum-v1"))
    config.training(
        num_steps_sampled_before_learning_starts=0,
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 1_000},
    )
    config.callbacks(Prefills)
    first = use_ring(config, arrays=True)
    algorithm = use_ring(first, arrays=False).build_algo()
    try:
        assert len(algorithm.local_replay_buffer) == 8
        result = algorithm.train()
        assert len(algorithm.local_replay_buffer) >= 100
        trained = result["learners"]["default_policy"]["module_train_batch_size_mean"]
        assert trained == config.total_train_batch_size
        # A buffer that is empty replaces one that was saved.
        saved = algorithm.save_to_path(tmp_path / "checkpoint")
        algorithm.local_replay_buffer.clear()
        assert algorithm.save_to_path(tmp_path / "checkpoint") == saved
        algorithm.local_replay_buffer.add(Env(0, 9).fragments(9))
        algorithm.restore_from_path(saved)
        assert len(algorithm.local_replay_buffer) == 0
    finally:
        algorithm.stop()


def test_algorithms_without_such_a_buffer_are_refused() -> None:
    for other in (PPOConfig, CQLConfig):
        with pytest.raises(ArgumentError, match=other.__name__):
            use_ring(other())
    with pytest.raises(ArgumentError, match="old API stack"):
        use_ring(
            DQNConfig().api_stack(
                enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False
            )
        )
    with pytest.raises(ArgumentError, match="several policies"):
        use_ring(SACConfig().multi_agent(policies={"a", "b"}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lanes": 0}, "lanes is 0"),
        ({"exist": "attach"}, "exist is 'attach'"),
        ({"arrays": "no"}, "arrays is 'no'"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"name": "a/b"}, "`a/b` cannot name a ring"),
        ({"lanes": 600_000}, "give 1200000 or more"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], words: str) -> None:
    config = SACConfig()
    with pytest.raises(ArgumentError, match=words):
        use_ring(config, **options)
    assert config.callbacks_on_algorithm_init is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"capasity": 3}, "no argument `capasity`; did you mean `capacity`"),
        ({"no_local_replay_buffer": True}, "no argument `no_local_replay_buffer`"),
        ({"type": "MultiAgentEpisodeReplayBuffer"}, "is 'MultiAgentEpisodeReplayBuffer'; give"),
        ({"type": PrioritizedEpisodeReplayBuffer}, "give 'PrioritizedEpisodeReplayBuffer'"),
        ({"capacity": 0}, "capacity is 0; give a whole number from 2 up"),
        ({"capacity": 1e6}, "capacity is 1000000.0"),
        ({"alpha": -1}, "alpha is -1; give a number from 0 up"),
        ({"alpha": None}, "alpha is None"),
        ({"beta": 7}, "beta is 7; give a number from 0 to 1"),
        ({"batch_length_T": 64}, "recurrent modules"),
    ],
)
def test_options_of_the_buffer_are_refused_before_anything_is_built(
    options: dict[str, Any], words: str
) -> None:
    config = SACConfig()
    config.replay_buffer_config.update(options)
    with pytest.raises(ArgumentError, match=words):
        use_ring(config)
    assert config.callbacks_on_algorithm_init is None


def test_options_that_tune_chooses_are_checked_when_it_has_chosen() -> None:
    for options in (
        {"alpha": tune.choice([0.4, 0.6])},
        {"capacity": tune.grid_search([1_000, 2_000])},
    ):
        config = SACConfig().training(replay_buffer_config=options)
        assert use_ring(config).callbacks_on_algorithm_init
    config.replay_buffer_config["capasity"] = 3
    with pytest.raises(ArgumentError, match="did you mean `capacity`"):
        use_ring(config)


def test_options_that_change_after_use_ring_are_refused_when_it_is_built(cluster: None) -> None:
    config = use_ring(small(CONFIGS["dqn"]()))
    config.training(replay_buffer_config={"capasity": 3})
    with pytest.raises(ArgumentError, match="did you mean `capacity`"):
        config.build_algo()
