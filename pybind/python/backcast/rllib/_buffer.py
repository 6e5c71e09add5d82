"""RLlib's episode replay buffer, whose transitions are in a ring."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from backcast._calls import explained
from backcast._native import ReplayBuffer
from backcast._select import Priority
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    ClosedError,
    ExistsError,
    SampleError,
)
from backcast.rllib._arrays import (
    Transitions,
    episodes_of,
    joined,
    newest_columns,
    train_columns,
)
from backcast.rllib._checks import (
    check_draw,
    check_exist,
    check_flag,
    check_free,
    check_length,
    check_name,
    check_number,
    check_whole,
    taken,
)
from backcast.rllib._counts import Counted
from backcast.rllib._lanes import Lanes, ring_columns
from backcast.rllib._saved import LABEL, NAME, SNAPSHOT, folder_of, new_folder, saved_in

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from backcast._native import Sampler

# Prefix of names of private rings, which need one because a snapshot is loaded under a name.
_PRIVATE = "backcast-rllib-"


class EpisodeReplayBuffer(Counted):
    """Replay buffer of RLlib's DQN and SAC, whose transitions are in a ring.

    The ring is made at the first :meth:`add`, with columns ``obs``, ``action`` and ``reward`` like
    the data. Episodes may come in fragments; the last transition of an open one can be drawn when
    its next fragment is there. A lane holds one open episode at a time, and its oldest transitions
    are evicted, not whole episodes.

    Parameters
    ----------
    capacity : int, default 10,000
        Rows of the ring: transitions, and one more for each episode.
    name : str, optional
        Name of the ring, so that other processes and the command line see it; without a name it is
        this process's own.
    lanes : int, optional
        Episodes that may be open at once: all environments of all runners. By default as many as
        are open after the first `add`.
    batch_size_B : int, default 16
        Transitions of a draw that does not say how many.
    batch_length_T : int, default 1
        Steps of a draw; 1.
    alpha : float or None, default 1.0
        Exponent of the priorities; None draws uniformly and keeps no priorities.
    beta : float, default 0.0
        Exponent of the importance weights of a draw that does not say it.
    arrays : bool, default False
        Draw whole arrays for the connector :class:`AddArrays` instead of an episode for each
        transition.
    seed : int, optional
        Seed of the draws.
    exist : {"error", "replace"}, default "error"
        Treatment of a ring of this name that exists.
    metrics_num_episodes_for_smoothing : int, default 100
        Values that a mean among the metrics is taken over.

    Raises
    ------
    ArgumentError
        If an argument is out of its range.
    ExistsError
        If a ring of this name is in use and ``exist`` is ``"error"``.
    """

    def __init__(
        self,
        capacity: int = 10_000,
        *,
        name: str | None = None,
        lanes: int | None = None,
        batch_size_B: int = 16,  # noqa: N803
        batch_length_T: int = 1,  # noqa: N803
        alpha: float | None = 1.0,
        beta: float | None = 0.0,
        arrays: bool = False,
        seed: int | None = None,
        exist: Literal["error", "replace"] = "error",
        metrics_num_episodes_for_smoothing: int = 100,
    ) -> None:
        # No call of the base: its trees would take more memory than the ring.
        check_whole("lanes", lanes, 1, optional=True)
        check_whole("capacity", capacity, 2)
        check_whole("batch_size_B", batch_size_B, 1)
        smoothing = "metrics_num_episodes_for_smoothing"
        check_whole(smoothing, metrics_num_episodes_for_smoothing, 1)
        if lanes is not None and lanes > capacity // 2:
            raise ArgumentError(
                f"capacity is {capacity}, which has no room for a transition of each of {lanes} "
                f"episodes that may be open at once; give {2 * lanes} or more"
            )
        check_exist(exist)
        check_number("alpha", alpha, None, optional=True)
        check_number("beta", beta, 1, optional=True)
        check_flag("arrays", arrays)
        check_whole("seed", seed, 0, optional=True)
        check_length(batch_length_T)
        check_name(name)
        if exist == "error":
            check_free(name)
        self.capacity, self.batch_size_B, self.batch_length_T = capacity, batch_size_B, 1
        self.metrics = MetricsLogger(root=False)
        self.sampled_timesteps = 0
        self._metrics_num_episodes_for_smoothing = metrics_num_episodes_for_smoothing
        self._name, self._lanes_wanted, self._exist = name, lanes, exist
        self._alpha, self._beta, self._arrays = alpha, float(beta or 0.0), arrays
        self._beta_now = _Beta()
        self._seed = secrets.randbits(63) if seed is None else seed
        self._rng = np.random.default_rng(self._seed)
        self._ring: ReplayBuffer | None = None
        self._lanes: Lanes | None = None
        self._samplers: dict[tuple[int, float], Sampler] = {}
        self._states: dict[tuple[int, float], dict[str, Any]] = {}
        self._added = 0
        # Transitions added and drawn that were reported.
        self._logged = [0, 0]
        self._drew_newest = False
        self._last: NDArray[np.int64] | None = None
        self._remover: weakref.finalize[Any, Any] | None = None
        # Why the buffer is closed.
        self._closed: str | None = None

    @property
    def ring(self) -> ReplayBuffer | None:
        """The ring; None before the first `add`."""
        return self._ring

    @property
    def cut_episodes(self) -> int:
        """Open episodes that lost their lane to another one, or a fragment on the way."""
        return 0 if self._lanes is None else self._lanes.cut

    @explained
    def add(
        self, episodes: Sequence[SingleAgentEpisode] | SingleAgentEpisode, weight: None = None
    ) -> None:
        """Add episodes, or fragments of episodes that go on.

        New transitions have the largest priority that was ever set.

        Parameters
        ----------
        episodes : SingleAgentEpisode or sequence of it
            The episodes. Fragments of an open one are joined by ``id_``.
        weight : None
            No priority but the largest can be given.

        Raises
        ------
        ArgumentError
            If observations or actions are tuples, or no numbers of one shape.
        AppendError
            If their shape or dtype is another than before; what came before it is added.
        """
        self._check_open()
        if weight is not None:
            raise ArgumentError(
                f"weight is {weight!r}; new transitions have the largest priority: leave it out"
            )
        if not isinstance(episodes, Sequence):
            episodes = [episodes]
        for episode in episodes:
            if not isinstance(episode, SingleAgentEpisode):
                raise ArgumentTypeError(
                    f"episodes has a {type(episode).__name__}; give SingleAgentEpisodes"
                )
        first = next((episode for episode in episodes if len(episode)), None)
        if first is None:
            return
        if self._ring is None:
            opened = {episode.id_ for episode in episodes}
            ended = {episode.id_ for episode in episodes if episode.is_done}
            lanes = self._lanes_wanted or max(1, len(opened - ended))
            try:
                ring = ReplayBuffer.create(
                    self._name,
                    ring_columns(first),
                    capacity=self.capacity,
                    lanes=min(lanes, max(1, self.capacity // 2)),
                    exist=self._exist,
                )
            except ExistsError:
                raise taken(self._name) from None
            self._use(ring)
        assert self._lanes is not None
        for episode in episodes:
            self._added += self._lanes.write(episode)

    @explained
    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,  # noqa: N803
        batch_length_T: int | None = None,  # noqa: N803
        n_step: int | tuple[int, int] | None = None,
        beta: float | None = None,
        gamma: float = 0.99,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        to_numpy: bool = False,
        lookback: int = 0,
        min_batch_length_T: int = 0,  # noqa: N803
        sample_episodes: bool = True,
    ) -> list[SingleAgentEpisode]:
        """Draw transitions.

        Parameters
        ----------
        num_items, batch_size_B : int, optional
            Transitions to draw, ``B``; one of both.
        batch_length_T : int, optional
            Steps of each; 1.
        n_step : int or pair, optional
            Transitions that rewards are summed over, 1 by default; a pair draws for each item a
            number from the first to below the second.
        beta : float, optional
            Exponent of the importance weights; that of the buffer by default.
        gamma : float, default 0.99
            Discount of the sum.
        include_infos, include_extra_model_outputs : bool, default False
            The ring keeps neither.
        to_numpy : bool, default False
            Return episodes of arrays and not of lists.
        lookback, min_batch_length_T, sample_episodes
            Not used: RLlib gives them for sequences.

        Returns
        -------
        list of SingleAgentEpisode
            An episode of one step for each transition, with ``weights`` and ``n_step`` among its
            extra model outputs; with ``arrays=True`` one :class:`Transitions` of all.

        Raises
        ------
        SampleError
            If nothing can be drawn yet.
        ArgumentError
            If an argument is out of its range, or asks for what the ring does not keep.

        Notes
        -----
        At the end of an episode and at the newest step of an open one fewer rewards are summed, and
        ``n_step`` says how many; RLlib's own buffer never draws these. Where the episode
        terminated, and with a ``gamma`` of 0 or 1, ``n_step`` is the number that was asked for,
        which changes no target.

        While the ring has no transition that can be drawn, the newest ones of open episodes are.
        """
        self._check_open()
        items = check_draw(
            num_items, batch_size_B, batch_length_T, 1 if n_step is None else n_step, beta, gamma
        )
        items = self.batch_size_B if items is None else items
        check_flag("to_numpy", to_numpy)
        for what, value in (
            ("include_infos", include_infos),
            ("include_extra_model_outputs", include_extra_model_outputs),
        ):
            check_flag(what, value)
            if value:
                raise ArgumentError(f"{what} is True, but the ring keeps none; leave it out")
        if self._ring is None:
            raise SampleError("the buffer is empty; add episodes first")
        counts = self._counts(1 if n_step is None else n_step, items)
        self._beta_now.value = self._beta if beta is None else float(beta)
        parts: list[dict[str, Any]] = []
        index: list[NDArray[np.int64]] = []
        if len(self._ring) or not (newest := self._lanes.newest() if self._lanes else []):
            for steps, count in counts:
                batch = self._sampler(steps, gamma).sample(count)
                parts.append(train_columns(self._ring, batch, steps, gamma))
                index.append(batch.index)
            self._last, self._drew_newest = np.concatenate(index), False
        else:
            parts.append(newest_columns(newest, self._rng.integers(len(newest), size=items)))
            self._last, self._drew_newest = None, True
        self.sampled_timesteps += items
        arrays = joined(parts)
        if self._arrays:
            return [Transitions(arrays)]
        episodes = episodes_of(arrays)
        if to_numpy:
            for episode in episodes:
                episode.to_numpy()
        return episodes

    @explained
    def update_priorities(self, priorities: ArrayLike, module_id: str | None = None) -> None:
        """Set the priorities of the transitions that were drawn last.

        Parameters
        ----------
        priorities : array_like of float, [B]
            Absolute TD errors, in the order of the draw.
        module_id : str, optional
            Not used: there is one module.

        Raises
        ------
        SampleError
            If nothing was drawn since the last call, or the number of priorities is another.
        """
        self._check_open()
        if self._alpha is None or self._drew_newest:
            return
        if self._last is None:
            raise SampleError("nothing was drawn since the last update of priorities; draw first")
        values = np.asarray(priorities, np.float64)
        if values.shape != self._last.shape:
            raise SampleError(
                f"priorities has the shape {values.shape}, and {len(self._last)} transitions were "
                "drawn; give one priority for each"
            )
        sampler = next(iter(self._samplers.values()))
        sampler.update_priorities(self._last, np.maximum(values, 1e-12))
        self._last = None

    def _counts(self, n_step: int | tuple[int, int], items: int) -> list[tuple[int, int]]:
        """Return the numbers of transitions to sum over, and how many items have each."""
        if not isinstance(n_step, (tuple, list)):
            return [(int(n_step), items)]
        low, high = n_step
        each = self._rng.multinomial(items, [1 / (high - low)] * (high - low))
        return [(low + k, int(count)) for k, count in enumerate(each) if count]

    def _sampler(self, steps: int, gamma: float) -> Sampler:
        # Without a sum the discount is not used.
        key = (steps, float(gamma) if steps > 1 else 1.0)
        if key not in self._samplers:
            assert self._ring is not None
            options: dict[str, Any] = {}
            if self._alpha is not None:
                # States do not include beta.
                options["select"] = Priority(
                    alpha=self._alpha, beta=self._beta_now, eps=1e-12, normalize="table"
                )
            if key in self._states:
                options["state"] = self._states[key]
            else:
                # Equal draws whatever other sums were drawn before.
                words = np.random.SeedSequence(
                    [self._seed, steps, int(np.float64(key[1]).view(np.uint64))]
                ).generate_state(2)
                options.update(seed=int(words[0]) << 32 | int(words[1]), copy=True)
                if steps > 1:
                    options.update(n_step=steps, gamma=gamma)
            self._samplers[key] = self._ring.sampler(**options)
        return self._samplers[key]

    def __len__(self) -> int:
        """Return the number of transitions that can be drawn."""
        return 0 if self._ring is None else len(self._ring)

    @explained
    def save(self, folder: str | Path) -> None:
        """Save the ring as a snapshot in a folder, with the state of the draws.

        Parameters
        ----------
        folder : path
            The folder, which is made. A snapshot that a buffer saved there is replaced.

        Raises
        ------
        ArgumentError
            If nothing was added yet.
        BackcastError
            As :meth:`backcast.ReplayBuffer.snapshot` does.
        """
        self._check_open()
        if self._ring is None:
            raise ArgumentError("the buffer is empty, so there is nothing to save; add first")
        samplers = {key: sampler.state() for key, sampler in self._samplers.items()}
        state: dict[str, Any] = {
            "alpha": self._alpha,
            "seed": self._seed,
            "rng": self._rng.bit_generator.state,
            "added": self._added,
            "sampled": self.sampled_timesteps,
            "samplers": [[*key, of] for key, of in {**self._states, **samplers}.items()],
        }
        self._ring.snapshot(LABEL, name=NAME, store=folder, state=state, replace=True)

    @explained
    def load(self, folder: str | Path) -> None:
        """Go on with the ring and the draws that :meth:`save` saved; what was here is forgotten.

        The ring gets this buffer's capacity. If it cannot be loaded, what was here stays.

        Parameters
        ----------
        folder : path
            The folder.

        Raises
        ------
        NotFoundError
            If there is no snapshot in it.
        ArgumentError
            If it was saved with another ``alpha`` or a larger capacity, or has fewer lanes than
            this buffer needs.
        ExistsError
            If a ring of this name exists that is not this buffer's own.
        ClosedError
            If the buffer is closed.
        """
        self._check_open()
        saved = saved_in(
            folder, alpha=self._alpha, capacity=self.capacity, lanes=self._lanes_wanted
        )
        try:
            ring = ReplayBuffer.load(
                SNAPSHOT,
                self._name or f"{_PRIVATE}{secrets.token_hex(8)}",
                store=folder,
                exist=self._exist if self._ring is None else "replace",
            )
        except ExistsError:
            raise taken(self._name) from None
        try:
            if ring.lane_capacity != -(-self.capacity // ring.lanes):
                ring.resize(self.capacity)
        except BaseException as error:
            _forget(ring)
            ring.close()
            if self._name is not None and self._ring is not None:
                # Its ring was replaced.
                self._close(f"the ring that was loaded could not be made larger ({error})")
            raise
        self._forget()
        state = saved["state"]
        self._seed, self._added = state["seed"], state["added"]
        self.sampled_timesteps = state["sampled"]
        self._rng.bit_generator.state = state["rng"]
        # Reported before they were saved.
        self._logged = [self._added, self.sampled_timesteps]
        self._states = {(steps, gamma): of for steps, gamma, of in state["samplers"]}
        if self._name is None:
            self._remover = weakref.finalize(self, _forget, ring)
        self._use(ring)

    def get_state(self) -> dict[str, Any]:
        """Save the ring in a folder of its own, and return the folder's name.

        The state can be used on this machine until this process ends, which removes the folder.
        :meth:`save` makes one that stays.

        Returns
        -------
        dict
            ``snapshot``: the folder, or None of an empty buffer.
        """
        self._check_open()
        if self._ring is None:
            return {"snapshot": None}
        folder = new_folder()
        self.save(folder)
        return {"snapshot": folder}

    @explained
    def set_state(self, state: dict[str, Any]) -> None:
        """Go on with what :meth:`get_state` saved. The state of an empty buffer changes nothing.

        Raises
        ------
        NotFoundError
            If the folder is not here.
        BackcastError
            As :meth:`load` does.
        """
        self._check_open()
        folder = folder_of(state)
        if folder is not None:
            self.load(folder)

    def clear(self) -> None:
        """Forget everything. The next `add` makes another ring."""
        self._check_open()
        if self._ring is not None:
            _forget(self._ring)
        self._forget()
        self._added = self.sampled_timesteps = 0
        self._logged = [0, 0]

    def close(self) -> None:
        """Close the buffer for good. A ring with a name stays for other processes that use it."""
        self._close("close() or algorithm.stop() was called")

    def _close(self, reason: str) -> None:
        self._closed = self._closed or reason
        self._forget()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(
                f"the replay buffer is closed: {self._closed}; build another algorithm, or restore "
                "one with Algorithm.from_checkpoint(path)"
            )

    def _use(self, ring: ReplayBuffer) -> None:
        self._ring, self._lanes = ring, Lanes(ring)
        self._samplers, self._last, self._drew_newest = {}, None, False

    def _forget(self) -> None:
        for sampler in self._samplers.values():
            sampler.close()
        if self._lanes is not None:
            self._lanes.close()
        if self._remover is not None:
            self._remover()
        if self._ring is not None:
            self._ring.close()
        self._ring = self._lanes = self._remover = self._last = None
        self._samplers, self._states = {}, {}


class _Beta:
    """Exponent of the weights of the draw that is under way. Holds no buffer, so it is freed."""

    value = 0.0

    def __call__(self, _batch: int) -> float:
        return self.value


def _forget(ring: ReplayBuffer) -> None:
    # It may be removed already.
    with suppress(BackcastError):
        ring.unlink()
