"""Collector: steps any Gymnasium environment into a ring, in every autoreset mode."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from backcast._calls import explained
from backcast._counts import whole_of
from backcast.envs._fitting import (
    AnyEnv,
    autoreset_mode,
    check_writer,
    further_columns,
    refuse_columns,
)
from backcast.envs._parts import named, objects, row_of, share
from backcast.envs._portfolio import word_of
from backcast.envs._watch import Watch
from backcast.errors import ArgumentError, ArgumentTypeError, ClosedError, EnvError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from backcast import Writer

# Comparisons of two steps of one episode before an environment is trusted not to reuse its arrays.
# Resets are not compared, because they may return copies.
_COMPARISONS = 2


class Collector:
    """Steps an environment and appends its transitions in the right autoreset mode.

    Takes any vector environment (native, ``SyncVectorEnv``, ``AsyncVectorEnv``) or a single one,
    wrapped or not, and follows its autoreset mode: a step that only resets is not a transition
    (NEXT_STEP), final observations go to the ring (SAME_STEP), and ended environments are reset
    with a mask (DISABLED). :meth:`step` always returns the observations to act on next.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv or gymnasium.Env
        A single environment does not reset itself, so it is stepped as DISABLED; wrapped in
        ``gymnasium.wrappers.Autoreset`` it is NEXT_STEP.
    writer : Writer
        With one lane per sub-environment, the autoreset mode of the environment, and the columns
        ``obs``, ``action`` and ``reward``, as :meth:`backcast.Schema.from_spaces` makes them.

    Raises
    ------
    ArgumentError
        If lanes, modes or columns of the two do not fit.

    Notes
    -----
    A direct call of ``env.reset`` is detected: the next :meth:`step` begins an episode with the
    observation that it returned, and no transition crosses the reset. For this, the reset of the
    environment object and of those inside it is replaced by one that notifies the collector.

    A step takes the environment's own time and one append. Observations are copied when all
    environments begin an episode, in the first steps, and in every step if the environment reuses
    its arrays (``copy=False``). Do not write to the observations that are returned. After an error
    in mid-step the row is missing, so the next call must be :meth:`reset`. An
    :class:`backcast.errors.EnvError` or :class:`backcast.errors.ArgumentTypeError` of the
    environment changes nothing.

    Examples
    --------
    >>> import gymnasium as gym
    >>> from backcast.envs import Collector
    >>> envs = gym.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    >>> schema = bc.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
    >>> buf = bc.ReplayBuffer.create(None, schema, capacity=10_000, lanes=4)
    >>> with buf.writer(env=envs) as writer:
    ...     collector = Collector(envs, writer)
    ...     obs, infos = collector.reset(seed=7)
    ...     obs, rewards, terminations, truncations, infos = collector.step([0, 1, 0, 1])
    """

    @explained
    def __init__(self, env: AnyEnv, writer: Writer) -> None:
        self._mode = autoreset_mode(env)
        check_writer(env, writer, self._mode)
        lanes = len(writer.lanes)
        self._env = env
        self._watch = Watch(env)
        self._writer = writer
        self._vector = isinstance(env, VectorEnv)
        self._further = further_columns(writer)
        self._has_reward = "reward" in writer.schema.columns
        # Observations to act on next. None if a reset is needed: at first, after `finish`, and
        # after a call that failed midway.
        self._obs: Any = None
        self._index: NDArray[np.int64] | None = None
        self._transitions = 0
        # Lanes whose next append is the FINAL row.
        self._resetting = np.zeros(lanes, bool)
        # Observations as the environment returned them, until it is trusted: `_returned` to act on,
        # and `_stepped` of the last step, None if all lanes were reset since.
        self._returned: Any = None
        self._stepped: Any = None
        self._compared = 0
        self._reuses = False

    def __repr__(self) -> str:
        return (
            f"<backcast.envs.Collector: {self._env} to {len(self._resetting)} lanes, "
            f"autoreset_mode '{word_of(self._mode)}', {self._transitions} transitions>"
        )

    @property
    def env(self) -> AnyEnv:
        """The environment."""
        return self._env

    @property
    def writer(self) -> Writer:
        """The writer."""
        return self._writer

    @property
    def obs(self) -> Any:  # noqa: ANN401
        """The observation to act on next, as reset and step return it; None if a reset is due."""
        return self._obs

    @property
    def index(self) -> NDArray[np.int64] | None:
        """Indices of the rows of the last step, int64 ``[lanes]``; None before the first."""
        return self._index

    @property
    def transitions(self) -> int:
        """Steps appended so far over all lanes, not counting resets."""
        return self._transitions

    @explained
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Begin new episodes; running ones are cut.

        The last transition before the cut is kept.

        Parameters
        ----------
        seed : int or sequence of (int or None), optional
            Seed of the environment's ``reset``; a sequence only for a vector environment.
        options : dict, optional
            Options of the environment's ``reset``. The dict is not changed.

        Returns
        -------
        (obs, infos)
            Results of the environment.

        Raises
        ------
        EnvError
            If the environment raises it, or if a mask chooses some environments before all have
            been reset.
        AppendError
            If the last observation of a cut episode does not fit the ring.
        """
        if not isinstance(options, Mapping | None):
            raise ArgumentTypeError(f"options is {options!r}; give a dict, or None")
        options = None if options is None else dict(options)
        chosen = None if options is None else options.get("reset_mask")
        if chosen is not None:
            chosen = np.array(chosen, bool)
            if self._obs is None:
                raise EnvError(
                    "reset_mask chooses some environments, but none is in an episode; reset all "
                    "of them first, without a mask"
                )
        environment: Any = self._env
        with _Guard(self), self._watch:
            obs, infos = environment.reset(seed=seed, options=options)
        self._begin(obs, chosen)
        return obs, infos

    def _begin(self, obs: Any, chosen: NDArray[np.bool_] | None) -> None:  # noqa: ANN401
        """Continue with the observations of a reset of some sub-environments or of all."""
        # The next observations of the last transitions end their episodes.
        self._writer.restart(chosen)
        if chosen is None:
            self._resetting[:] = False
        else:
            self._resetting &= ~chosen
        self._watch.forget()
        self._keep(obs, begun=chosen is None or bool(chosen.all()))

    def _notice_resets(self) -> None:
        """Begin episodes if other code reset the environment.

        Raise if it reset only an environment inside: the current observation is then unknown.
        """
        if self._watch.unseen:
            self.finish()
            self._watch.forget()
            raise EnvError(
                "an environment inside the collector's was reset, so what it shows now is not "
                "known; call collector.reset()"
            )
        if self._watch.begun is None:
            return
        obs, options = self._watch.begun
        chosen = options.get("reset_mask")
        self._begin(obs, None if chosen is None else np.array(chosen, bool))

    @explained
    def step(
        self,
        actions: Any,  # noqa: ANN401
        **columns: Any,  # noqa: ANN401
    ) -> tuple[Any, Any, Any, Any, Any]:
        """Step the environment and append the transitions.

        Parameters
        ----------
        actions : array_like or action
            Actions of the environment's ``step``.
        **columns : array_like, shape (lanes, ...)
            Further columns of the ring: ``log_prob=...``. ``action=`` and ``reward=`` replace those
            of the environment, for example actions before clipping.

        Returns
        -------
        (obs, rewards, terminations, truncations, infos)
            Results of the environment. If this collector reset environments that had ended
            (DISABLED), `obs` is already the next episode's first, and infos hold ``final_obs`` and
            ``_final_obs`` as in SAME_STEP, and ``reset_infos``, what the reset returned. For a
            single environment ``final_obs`` is the observation itself.

        Raises
        ------
        EnvError
            If the environment raises it, or a :meth:`reset` is due.
        ArgumentError
            If a column is given that the environment brings.
        AppendError
            If a column is missing or unknown, before the step; or if the ring cannot hold what the
            environment returned, after it.
        """
        self._notice_resets()
        if self._obs is None:
            raise EnvError("the collector has no observation to act on; call reset first")
        if columns.keys() != self._further:
            refuse_columns(columns, self._further)
        with _Guard(self), self._watch:
            obs, rewards, terminations, truncations, infos = self._env.step(actions)
        with _Guard(self, harmless=()):
            ended = np.atleast_1d(np.logical_or(terminations, truncations))
            # True if every lane was reset and begins with this observation.
            begun = self._mode is AutoresetMode.NEXT_STEP and bool(self._resetting.all())
            begun |= self._mode is AutoresetMode.SAME_STEP and bool(ended.all())
            self._compare(obs, begun=begun)
            if self._has_reward:
                columns = {"reward": rewards, **columns}
            self._index = self._writer.append(
                obs=self._obs,
                terminated=terminations,
                truncated=truncations,
                next_obs=named(obs),
                final_obs=self._final_obs(infos) if ended.any() else None,
                **{"action": actions, **columns},
            )
            # The index is -1 if a lease made the writer drop the row.
            self._transitions += int(np.count_nonzero(~self._resetting & (self._index >= 0)))
            if self._mode is AutoresetMode.NEXT_STEP:
                self._resetting = ended & ~self._resetting
            if self._mode is AutoresetMode.DISABLED and ended.any():
                obs, infos = self._reset_ended(obs, infos, ended)
                begun = bool(ended.all())
            self._keep(obs, begun=begun)
        return obs, rewards, terminations, truncations, infos

    @explained
    def run(self, policy: Callable[[Any], Any], steps: int) -> int:
        """Step `steps` times with the actions of `policy`; reset first where necessary.

        Parameters
        ----------
        policy : callable
            Takes the observations, returns the actions.
        steps : int
            Steps of the environment, each of all sub-environments.

        Returns
        -------
        int
            Transitions appended: at most ``steps * lanes``, less where a step only reset.

        Raises
        ------
        ArgumentError
            If `policy` cannot be called or `steps` is no whole number from 0 up.
        EnvError, AppendError
            See :meth:`reset` and :meth:`step`.
        """
        if not callable(policy):
            raise ArgumentTypeError(
                f"policy is {policy!r}; give a function from observations to actions"
            )
        steps = whole_of(steps, "steps", wanted := "how often to step, a whole number from 0 up")
        if steps < 0:
            raise ArgumentError(f"steps is {steps}; give {wanted}")
        before = self._transitions
        if self._obs is None and self._watch.begun is None:
            self.reset()
        for _ in range(steps):
            self._notice_resets()
            self.step(policy(self._obs))
        return self._transitions - before

    def finish(self) -> None:
        """End the episodes here, so that the newest transitions can be drawn.

        A transition is drawn once its successor is in the ring: the observation that it led to
        becomes the last one of its episode. Closing the writer does the same. The next :meth:`step`
        needs a :meth:`reset` before it. Calling ``finish`` again does nothing.

        Raises
        ------
        LeaseError
            If a lease blocks the last observation, and the ring's lane policy is to fail.
        """
        with suppress(ClosedError):
            self._writer.restart()
        self._obs = None
        self._resetting[:] = False

    def _final_obs(self, infos: Any) -> Any:  # noqa: ANN401
        """Return final observations of ended environments that differ from the next ones."""
        if self._mode is not AutoresetMode.SAME_STEP:
            return None
        if isinstance(infos, dict):
            return infos.get("final_obs")
        # `gymnasium.wrappers.vector.DictInfoToList` returns a list of dicts.
        return objects([info.get("final_obs") for info in infos])

    def _reset_ended(
        self,
        obs: Any,  # noqa: ANN401
        infos: Any,  # noqa: ANN401
        ended: NDArray[np.bool_],
    ) -> tuple[Any, Any]:
        """Reset ended environments; return the next observations, and infos with the final ones."""
        environment: Any = self._env
        if not self._vector:
            # The reset may write to the arrays that the step returned.
            final = copy.deepcopy(obs)
            with self._watch:
                first, reset_info = environment.reset()
            return first, {**infos, "final_obs": final, "reset_infos": reset_info}
        finals = [row_of(obs, at) if end else None for at, end in enumerate(ended)]
        with self._watch:
            first, reset_infos = environment.reset(options={"reset_mask": ended.copy()})
        if isinstance(infos, dict):
            added = {"final_obs": objects(finals), "_final_obs": ended, "reset_infos": reset_infos}
            return first, infos | added
        for at in np.flatnonzero(ended):
            infos[at] |= {"final_obs": finals[at], "reset_infos": reset_infos[at]}
        return first, infos

    def _compare(self, obs: Any, *, begun: bool) -> None:  # noqa: ANN401
        """Find out whether the environment reuses the arrays that it returned."""
        if self._compared < _COMPARISONS:
            self._reuses |= share(self._returned, obs) or share(self._stepped, obs)
            self._compared += not begun and self._stepped is not None
            self._stepped = obs

    def _keep(self, obs: Any, *, begun: bool) -> None:  # noqa: ANN401
        """Keep the observation until the next step, in memory that does not change.

        Observations of a reset of all lanes are always copied: that is once per episode, and they
        are not compared.
        """
        trusted = self._compared >= _COMPARISONS
        self._returned = None if trusted else obs
        if trusted or begun:
            self._stepped = None
        if begun or not trusted or self._reuses:
            obs = copy.deepcopy(obs)
        self._obs = obs


class _Guard:
    """Requires a reset after a failed call, unless the call changed nothing."""

    def __init__(
        self,
        collector: Collector,
        harmless: tuple[type[BaseException], ...] = (EnvError, ArgumentTypeError),
    ) -> None:
        self._collector = collector
        self._harmless = harmless

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None and not issubclass(kind, self._harmless):
            self._collector._obs = None
