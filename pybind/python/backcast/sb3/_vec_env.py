"""Gymnasium's vector environments as SB3's ``VecEnv``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.vec_env import base_vec_env

from backcast._calls import explained
from backcast.errors import ArgumentError, ArgumentTypeError, EnvError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class VecEnv(base_vec_env.VecEnv):
    """Steps a Gymnasium vector environment for SB3, without a copy of its observations.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv
        An environment in same-step or disabled mode, because SB3's environments reset in the step
        that ends an episode. It must return new arrays in every step (``copy=True``).

    Raises
    ------
    ArgumentError
        If the environment resets in the next step, or writes to the same arrays in every step.

    Notes
    -----
    ``infos[i]`` has the environment's info of sub-environment i, ``TimeLimit.truncated``, and where
    an episode ended ``terminal_observation``. Rewards are float32, as in SB3. ``VecMonitor`` adds
    returns and lengths of episodes.

    Examples
    --------
    >>> from backcast.envs import PortfolioVectorEnv
    >>> from stable_baselines3 import SAC  # doctest: +SKIP
    >>> envs = PortfolioVectorEnv(
    ...     "prices.csv", 64, obs="flat", autoreset_mode="same_step"
    ... )  # doctest: +SKIP
    >>> SAC("MlpPolicy", VecEnv(envs))  # doctest: +SKIP
    """

    @explained
    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(env, VectorEnv):
            raise ArgumentTypeError(
                f"env is {env!r}; give a gymnasium.vector.VectorEnv. SB3's make_vec_env takes "
                "single environments"
            )
        mode = env.metadata.get("autoreset_mode")
        if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
            raise ArgumentError(
                f"the environment's autoreset mode is {mode}; make it with "
                "AutoresetMode.SAME_STEP, as SB3's environments reset in the step that ends an "
                "episode"
            )
        if not getattr(env.unwrapped, "copy", True):
            raise ArgumentError(
                "the environment writes its observations to the same arrays again, and SB3 keeps "
                "them over a step; make it with copy=True"
            )
        self.env = env
        self._mode = mode
        self._actions: NDArray[Any] | None = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        """Begin new episodes, with the seeds and options set by ``seed`` and ``set_options``."""
        options = [dict(one) for one in self._options]
        if any(one != options[0] for one in options):
            raise ArgumentError("options differ between environments; give one dict for all")
        seed: Any = None if all(one is None for one in self._seeds) else list(self._seeds)
        obs, infos = self.env.reset(seed=seed, options=options[0] or None)
        self.reset_infos = _one_by_one(infos, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions for ``step_wait``."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step, and reset ended episodes; return next observations, rewards, dones and infos."""
        if self._actions is None:
            raise EnvError("there are no actions to step with; call step_async first, or step")
        obs, rewards, terminated, truncated, infos = self.env.step(self._actions)
        self._actions = None
        done = np.logical_or(terminated, truncated)
        limited = np.logical_and(truncated, np.logical_not(terminated))
        if not done.any():
            shown = _one_by_one(infos, self.num_envs)
            for info in shown:
                info["TimeLimit.truncated"] = False
            return obs, np.asarray(rewards, np.float32), done, shown
        if self._mode is AutoresetMode.SAME_STEP:
            final = infos.pop("final_obs")
            ended = infos.pop("final_info", {})
            for key in ("_final_obs", "_final_info"):
                infos.pop(key, None)
            said = _one_by_one(ended, self.num_envs)
            shown = _one_by_one(infos, self.num_envs)
            for at in np.flatnonzero(done).tolist():
                # Values outside of `final_info` belong to the episode that began.
                self.reset_infos[at] = shown[at]
                shown[at] = {**shown[at], **said[at]}
        else:
            final = [_row(obs, lane) if end else None for lane, end in enumerate(done)]
            shown = _one_by_one(infos, self.num_envs)
            obs, begun = self.env.reset(options={"reset_mask": done.copy()})
            for lane, info in enumerate(_one_by_one(begun, self.num_envs)):
                if done[lane]:
                    self.reset_infos[lane] = info
        for lane, info in enumerate(shown):
            info["TimeLimit.truncated"] = bool(limited[lane])
            if done[lane]:
                info["terminal_observation"] = final[lane]
        return obs, np.asarray(rewards, np.float32), done, shown

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the chosen sub-environments.

        If the vector environment has no ``get_attr``, return its own attribute once for each.
        """
        chosen = list(self._get_indices(indices))
        inner: Any = self.env.unwrapped
        if hasattr(inner, "get_attr"):
            values = inner.get_attr(attr_name)
            return [values[at] for at in chosen]
        return [getattr(self.env, attr_name)] * len(chosen)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of all sub-environments; refuse a part of them."""
        inner: Any = self.env.unwrapped
        chosen = list(self._get_indices(indices))
        if not hasattr(inner, "set_attr") or len(chosen) != self.num_envs:
            raise ArgumentError(
                f"{attr_name} cannot be set on some sub-environments of {self.env}; make the "
                "environment with it"
            )
        inner.set_attr(attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: Any = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of the chosen sub-environments; return their results."""
        inner: Any = self.env.unwrapped
        chosen = list(self._get_indices(indices))
        if not hasattr(inner, "call"):
            raise ArgumentError(
                f"{self.env} has no sub-environments to call {method_name} on; it steps them "
                "together"
            )
        if sorted(chosen) == list(range(self.num_envs)):
            values = inner.call(method_name, *method_args, **method_kwargs)
            return [values[at] for at in chosen]
        envs: Sequence[Any] | None = getattr(inner, "envs", None)
        if envs is None:
            raise ArgumentError(
                f"{method_name} cannot be called on some sub-environments of {self.env}, which "
                "run in processes; call it on all of them"
            )
        methods = [envs[at].get_wrapper_attr(method_name) for at in chosen]
        return [method(*method_args, **method_kwargs) for method in methods]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return for each chosen sub-environment whether it is wrapped in this class."""
        chosen = list(self._get_indices(indices))
        from stable_baselines3.common.env_util import is_wrapped

        envs: Sequence[Any] | None = getattr(self.env.unwrapped, "envs", None)
        if envs is None:
            return [False] * len(chosen)
        return [is_wrapped(envs[at], wrapper_class) for at in chosen]

    def get_images(self) -> Sequence[Any]:
        """Return a picture of each sub-environment."""
        pictures: Any = self.env.render()
        return list(pictures) if pictures is not None else [None] * self.num_envs


def _one_by_one(infos: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Convert a dict of arrays with masks to a dict for each sub-environment."""
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, values in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        there = infos.get(f"_{key}")
        if isinstance(values, dict):
            parts: Any = _one_by_one(values, count)
            there = [bool(part) for part in parts] if there is None else there
        elif isinstance(values, np.ndarray | list | tuple) and len(values) == count:
            parts = values
        else:
            # The value holds for all sub-environments.
            parts = [values] * count
        for at in range(count):
            if there is None or there[at]:
                found[at][key] = parts[at]
    return found


def _row(obs: Any, at: int) -> Any:
    if isinstance(obs, dict):
        return {key: _row(part, at) for key, part in obs.items()}
    return obs[at].copy()
