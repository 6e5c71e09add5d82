"""Options of the adapters' classes that are misspelt, out of range, or that exclude each other."""

from __future__ import annotations

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
pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.cleanrl  # noqa: E402
import backcast.sb3 as ours  # noqa: E402
import backcast.torch  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

BOX = spaces.Box(-1, 1, (4,), np.float32)
GOALS = spaces.Dict({key: BOX for key in ("observation", "achieved_goal", "desired_goal")})
TWO = spaces.Discrete(2)

REFUSED = {
    "padding without frames": (
        *(ours.ReplayBuffer, {"padding": "reset"}),
        "padding is 'reset', but no frames are stacked without frames=; .*leave padding out",
    ),
    "padding of nothing": (
        *(ours.NStepReplayBuffer, {"padding": "none"}),
        "padding is 'none', but no frames .*; give how many",
    ),
    "seed of NumPy's draws": (
        *(ours.ReplayBuffer, {"sampling": "sb3", "seed": 7}),
        'seed is 7, but sampling="sb3" draws from NumPy.*; leave seed out',
    ),
    "seed of a dict's": (
        *(ours.DictReplayBuffer, {"sampling": "sb3", "seed": 0}),
        'seed is 0, but sampling="sb3"',
    ),
    "seed below 0": (ours.ReplayBuffer, {"seed": -3}, "seed is -3; give a whole number from 0 to"),
    "seed beyond 64 bits": (
        *(backcast.cleanrl.ReplayBuffer, {"autoreset_mode": "disabled", "seed": 2**64}),
        f"seed is {2**64}; give a whole number from 0 to {2**64 - 1}, or None",
    ),
    "seed of text": (ours.DictReplayBuffer, {"seed": "7"}, "seed is '7'; give a whole"),
    "discount above 1": (
        *(ours.NStepReplayBuffer, {"gamma": 2}),
        "gamma is 2; give a number from 0 to 1",
    ),
    "discount below 0": (ours.NStepReplayBuffer, {"gamma": -0.5}, "gamma is -0.5; give"),
    "no discount": (ours.NStepReplayBuffer, {"gamma": float("nan")}, "gamma is nan; give"),
    "discount of text": (ours.NStepReplayBuffer, {"gamma": "0.9"}, "gamma is '0.9'; give"),
    "misspelt option": (
        *(ours.ReplayBuffer, {"capcity": 100}),
        r"ReplayBuffer\(\) has no argument `capcity`; did you mean `capacity`\? It takes \(buffer",
    ),
    "misspelt option of a dict's": (
        *(ours.DictReplayBuffer, {"sampilng": "sb3"}),
        r"DictReplayBuffer\(\) has no argument `sampilng`; did you mean `sampling`\?",
    ),
    "misspelt steps": (
        *(ours.NStepReplayBuffer, {"n_step": 5}),
        r"NStepReplayBuffer\(\) has no argument `n_step`; did you mean `n_steps`\?",
    ),
    "misspelt goals": (
        *(ours.HerReplayBuffer, {"env": None, "n_sampled_goals": 2}),
        r"HerReplayBuffer\(\) has no argument `n_sampled_goals`; did you mean `n_sampled_goal`\?",
    ),
    "misspelt option of CleanRL's": (
        *(backcast.cleanrl.ReplayBuffer, {"autoreset_mod": "disabled"}),
        r"ReplayBuffer\(\) has no argument `autoreset_mod`; did you mean `autoreset_mode`\?",
    ),
    "fewer lanes than environments": (
        *(backcast.cleanrl.ReplayBuffer, {"autoreset_mode": "disabled", "n_envs": 4, "lanes": 2}),
        "lanes is 2, fewer than the 4 environments; give one for each",
    ),
    "policy of a name that is not there": (
        *(backcast.cleanrl.ReplayBuffer, {"autoreset_mode": "disabled", "exist": "replace"}),
        "exist='replace' is about a name; give name=",
    ),
}


@pytest.mark.parametrize(("kind", "options", "words"), REFUSED.values(), ids=REFUSED)
def test_an_option_of_a_buffer_is_refused(
    kind: Any, options: dict[str, Any], words: str, place: Path
) -> None:
    dict_kinds = (ours.DictReplayBuffer, ours.HerReplayBuffer)
    space: Any = GOALS if kind in dict_kinds else BOX
    with pytest.raises(bc.errors.ArgumentError, match=words):
        kind(100, space, TWO, device="cpu", dir=place, **options)
    assert bc.list_objects(dir=place) == []


def test_options_reach_the_buffer_through_an_algorithm() -> None:
    words = r"has no argument `paddnig`; did you mean `padding`\?"
    with pytest.raises(bc.errors.ArgumentTypeError, match=words):
        sb3.DQN(
            "MlpPolicy",
            "CartPole-v1",
            replay_buffer_class=ours.ReplayBuffer,
            replay_buffer_kwargs={"paddnig": "zero"},
        )


def test_a_vector_environment_of_another_keyword_is_refused() -> None:
    with pytest.raises(bc.errors.ArgumentTypeError, match="no argument `envs`; did you mean `env`"):
        ours.VecEnv(envs=None)


def test_an_autoreset_mode_and_spaces_that_contradict_the_environment_are_refused() -> None:
    envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    single = envs.single_observation_space, envs.single_action_space
    make: Any = backcast.cleanrl.ReplayBuffer
    words = "autoreset_mode is 'same_step', but env resets in mode 'next_step'; leave"
    with pytest.raises(bc.errors.ArgumentError, match=words):
        make(100, *single, env=envs, autoreset_mode="same_step")
    for at, name in enumerate(("observation_space", "action_space")):
        given = list(single)
        given[at] = getattr(envs, name)
        words = f"{name} is that of 2 environments together, .*; give env.single_{name}, "
        with pytest.raises(bc.errors.ArgumentError, match=words):
            make(100, *given, env=envs)
    assert make(100, *single, env=envs, autoreset_mode="next_step").n_envs == 2
    envs.close()


SAMPLER = {
    "devise": "Sampler() has no argument `devise`; did you mean `device`? It takes device, ",
    "float_ops": "Sampler() has no argument `float_ops`; did you mean `float_obs`? It takes ",
    "histroy": "sampler() has no argument `histroy`; did you mean `history`? ",
    "alpha": "alpha",
}


@pytest.mark.parametrize(("name", "words"), SAMPLER.items())
def test_a_misspelt_option_of_a_sampler_of_tensors_is_refused(name: str, words: str) -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=10) as buf:
        with pytest.raises(bc.errors.ArgumentTypeError) as raised:
            backcast.torch.Sampler(buf, **{name: 1})
        assert words in str(raised.value)
        with pytest.raises(bc.errors.ArgumentTypeError, match="did you mean `buf`"):
            backcast.torch.Sampler(buff=buf)  # type: ignore[call-arg]


@pytest.mark.filterwarnings("ignore::backcast.errors.UnlinkedWarning")
@pytest.mark.parametrize("persistent", [False, True])
def test_the_advice_of_a_load_under_a_taken_name_works(persistent: bool, place: Path) -> None:
    made = {"device": "cpu", "name": "walk", "dir": place, "persistent": persistent}
    buffer = ours.ReplayBuffer(100, BOX, TWO, **made)
    step: Any = (np.zeros((1, 4)), np.zeros((1, 4)), np.zeros(1), np.ones(1), np.zeros(1), [{}])
    for _ in range(5):
        buffer.add(*step)
    saved = pickle.dumps(buffer)
    with pytest.raises(bc.ExistsError, match="name='walk' attaches to it") as raised:
        pickle.loads(saved)
    advice = f"backcast.remove_object('walk', force=True, dir={str(place)!r})"
    assert advice in str(raised.value)
    eval(advice, {"backcast": bc})
    again = pickle.loads(saved)
    assert again.ring.name == "walk"
    assert (again.size(), buffer.size()) == (5, 5)
    assert buffer.sample(2).rewards.tolist() == again.sample(2).rewards.tolist() == [[1.0], [1.0]]
    again.ring.unlink()


def test_the_discount_of_an_algorithm_does_not_reach_a_buffer_of_n_steps() -> None:
    options: dict[str, Any] = {"replay_buffer_class": ours.NStepReplayBuffer, "gamma": 0.9}
    model = sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=100, **options)
    assert (model.replay_buffer.n_steps, model.replay_buffer.gamma) == (3, 0.99)
    options["replay_buffer_kwargs"] = {"gamma": 0.9}
    model = sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=100, **options)
    assert model.replay_buffer.gamma == 0.9
