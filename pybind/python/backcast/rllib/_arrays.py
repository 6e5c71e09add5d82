"""Drawn transitions as RLlib's learners take them: an episode for each, or whole arrays."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.spaces.space_utils import BatchedNdArray

from backcast._trees import mapped, value_at
from backcast.errors import ArgumentError

if TYPE_CHECKING:
    import gymnasium as gym
    from numpy.typing import NDArray

    from backcast._batch import Batch
    from backcast._native import ReplayBuffer

_Arrays = dict[str, Any]
_MOST_GAMMA = 1 - 1e-5
"""Largest discount below 1 whose powers differ in float32."""


class Transitions(SingleAgentEpisode):
    """Drawn transitions in the place of a list of episodes, for `AddArrays`.

    Parameters
    ----------
    arrays : dict
        Columns of a train batch, ``[B, ...]``.
    """

    def __init__(self, arrays: _Arrays) -> None:
        # No call of the base: its lists and spaces would cost more than the draw.
        self.id_ = "transitions"
        self.arrays = arrays
        self.t_started, self.t = 0, len(arrays[Columns.REWARDS])
        self.extra_model_outputs: dict[str, Any] = {}
        self.is_terminated = self.is_truncated = False

    def __getitem__(self, item: slice) -> Self:
        """Return a part of the transitions, for one of several learners."""
        return self.slice(item)

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> Self:
        """Return a part of the transitions, for one of several learners."""
        return type(self)(mapped(self.arrays, lambda _, array: array[slice_]))

    def get_observations(self, *_given: Any, **_named: Any) -> NoReturn:
        """Refuse: no connector has to look into the transitions."""
        raise ArgumentError(
            "the buffer draws arrays, and a learner connector asks for steps of episodes: put "
            "backcast.rllib.AddArrays before all others, which use_ring(config) does if it is "
            "called last; if the connector needs episodes, give arrays=False"
        )

    get_actions = get_rewards = get_observations
    get_infos = get_extra_model_outputs = get_observations

    def __repr__(self) -> str:
        return f"Transitions({len(self)})"


class AddArrays(ConnectorV2):
    """Learner connector that adds drawn arrays to the train batch. It has to be the first one.

    Parameters
    ----------
    input_observation_space, input_action_space : Space, optional
        As RLlib gives them. Not used.
    is_required : bool, default False
        Refuse episodes of any other kind, instead of leaving them to the next connectors.
    """

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        is_required: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, **kwargs)
        self._is_required = is_required

    def __call__(self, *, batch: _Arrays, episodes: list[Any], **_kwargs: Any) -> _Arrays:
        """Add the columns of all `Transitions` among the episodes."""
        for episode in episodes:
            if isinstance(episode, Transitions):
                for column, arrays in episode.arrays.items():
                    # RLlib concatenates what is under the id of each episode.
                    batch.setdefault(column, {}).setdefault((episode.id_,), []).append(
                        mapped(arrays, lambda _, array: BatchedNdArray(array))
                    )
            elif self._is_required:
                raise ArgumentError(
                    "the replay buffer of the algorithm is not the ring's: config.callbacks("
                    "on_algorithm_init=...) was called after use_ring(config) and replaced its "
                    "callback; call use_ring last"
                )
        return batch


def train_columns(ring: ReplayBuffer, batch: Batch, steps: int, gamma: float) -> _Arrays:
    """Return a drawn batch as columns of a train batch.

    Parameters
    ----------
    ring : ReplayBuffer
        The ring that it was drawn from.
    batch : Batch
        Batch of a sampler with ``n_step=steps``, or without if it is 1.
    steps : int
        Transitions that rewards are summed over.
    gamma : float
        Discount of the sum.

    Returns
    -------
    dict
        ``obs``, ``new_obs``, ``actions``, ``rewards``, ``terminateds``, ``truncateds``,
        ``weights`` and ``n_step``, ``[B, ...]``.
    """
    items = len(batch["terminated"])
    ends, names = batch, ("reward", "next_obs")
    summed = np.full(items, steps, np.int64)
    if steps > 1:
        names = ("n_reward", "n_next_obs")
        discount = batch["n_discount"]
        # The number follows from discounts between 0 and 1; with others it changes no target.
        if 0 < gamma <= _MOST_GAMMA:
            alive = discount > 0
            told = np.rint(np.log(discount[alive]) / np.log(gamma)).astype(np.int64)
            summed[alive] = np.clip(told, 1, steps)
            last = batch.index + summed - 1
            ends = ring.gather(last, columns=["truncated"], missing="mask")
        ended = {"terminated": discount == 0, "truncated": ends["truncated"] & (discount > 0)}
    else:
        ended = {name: batch[name] for name in ("terminated", "truncated")}
    weights = batch["weight"] if "weight" in batch else np.ones(items, np.float32)
    return {
        Columns.OBS: batch["obs"],
        Columns.NEXT_OBS: batch[names[1]],
        Columns.ACTIONS: batch["action"],
        Columns.REWARDS: batch[names[0]],
        Columns.TERMINATEDS: ended["terminated"],
        Columns.TRUNCATEDS: ended["truncated"],
        "weights": weights,
        "n_step": summed,
    }


def newest_columns(rows: list[dict[str, Any]], pick: NDArray[np.int64]) -> _Arrays:
    """Return transitions of open episodes as columns of a train batch, drawn by number."""
    items = len(pick)

    def column(name: str) -> Any:
        parts = [rows[k][name] for k in pick]
        if not isinstance(parts[0], Mapping):
            return np.asarray(parts)
        return mapped(parts[0], lambda path, _: np.asarray([value_at(of, path) for of in parts]))

    none = np.zeros(items, np.bool_)
    return {
        Columns.OBS: column("obs"),
        Columns.NEXT_OBS: column("next_obs"),
        Columns.ACTIONS: column("action"),
        Columns.REWARDS: column("reward"),
        Columns.TERMINATEDS: none,
        Columns.TRUNCATEDS: none,
        "weights": np.ones(items, np.float32),
        "n_step": np.ones(items, np.int64),
    }


def joined(parts: list[_Arrays]) -> _Arrays:
    """Return the columns of several draws one after the other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return {
        key: joined([part[key] for part in parts])
        if isinstance(first[key], Mapping)
        else np.concatenate([part[key] for part in parts])
        for key in first
    }


def episodes_of(arrays: _Arrays) -> list[SingleAgentEpisode]:
    """Return an episode of one step for each transition, as RLlib's own buffer draws them."""
    # Called for each transition, the constructors would take most of the draw.
    like = SingleAgentEpisode(
        observations=[_at(arrays[Columns.OBS], 0), _at(arrays[Columns.NEXT_OBS], 0)],
        actions=[_at(arrays[Columns.ACTIONS], 0)],
        rewards=[0.0],
        extra_model_outputs={"weights": [1.0], "n_step": [1]},
        len_lookback_buffer=0,
    )
    weights, n_step = (like.extra_model_outputs[name] for name in ("weights", "n_step"))
    ids = secrets.token_hex(8)
    obs, next_obs, actions = (
        _items(arrays[name]) for name in (Columns.OBS, Columns.NEXT_OBS, Columns.ACTIONS)
    )
    return [
        _with(
            like,
            id_=f"{ids}{k}",
            observations=_holding(like.observations, [obs[k], next_obs[k]]),
            infos=_holding(like.infos, [{}, {}]),
            actions=_holding(like.actions, [actions[k]]),
            rewards=_holding(like.rewards, [reward]),
            is_terminated=terminated,
            is_truncated=truncated,
            extra_model_outputs={
                "weights": _holding(weights, [weight]),
                "n_step": _holding(n_step, [steps]),
            },
            _custom_data={},
        )
        for k, (reward, terminated, truncated, weight, steps) in enumerate(
            zip(
                arrays[Columns.REWARDS].tolist(),
                arrays[Columns.TERMINATEDS].tolist(),
                arrays[Columns.TRUNCATEDS].tolist(),
                arrays["weights"].tolist(),
                arrays["n_step"].tolist(),
                strict=True,
            )
        )
    ]


def _with(like: Any, **changed: Any) -> Any:
    """Return an object like another one, with some other attributes."""
    made = copy(like)
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def _holding(like: InfiniteLookbackBuffer, data: list[Any]) -> InfiniteLookbackBuffer:
    made = object.__new__(InfiniteLookbackBuffer)
    made.__dict__.update(like.__dict__, data=data)
    return made


def _items(values: Any) -> list[Any]:
    """Return the items of nested arrays."""
    if isinstance(values, Mapping):
        parts = {key: _items(value) for key, value in values.items()}
        return [dict(zip(parts, item, strict=True)) for item in zip(*parts.values(), strict=True)]
    return list(values)


def _at(values: Any, item: int) -> Any:
    return mapped(values, lambda _, array: array[item])
