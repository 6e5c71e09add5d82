"""Gives an RLlib configuration a replay buffer in a ring, and its checkpoints the buffer."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow.fs
from ray.rllib.algorithms.cql import CQLConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.tune.search.sample import Domain

from backcast._calls import explained
from backcast.errors import ArgumentError, BackcastError, ExistsError
from backcast.rllib._arrays import AddArrays
from backcast.rllib._buffer import EpisodeReplayBuffer
from backcast.rllib._checks import (
    buffer_options,
    check_exist,
    check_flag,
    check_name,
    check_options,
    check_whole,
)

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_Config = TypeVar("_Config", bound="AlgorithmConfig")

_FOLDER = "backcast_replay_buffer"
"""Folder of a checkpoint with the buffer."""
_EMPTY = "empty"
"""File in it of a buffer without a ring."""


@explained
def use_ring(
    config: _Config,
    name: str | None = None,
    *,
    lanes: int | None = None,
    arrays: bool = True,
    seed: int | None = None,
    exist: Literal["error", "replace"] = "error",
) -> _Config:
    """Let DQN, SAC or TQC keep its replay buffer in a ring.

    Capacity, ``alpha`` and ``beta`` are those of ``config.replay_buffer_config``; of the type
    ``"EpisodeReplayBuffer"`` the draws are uniform. Checkpoints of the algorithm hold the buffer,
    and an algorithm that is restored from one goes on with it.

    Parameters
    ----------
    config : AlgorithmConfig
        Configuration of the new API stack, which is changed. Its own callbacks and learner
        connectors stay; call this last. A second call replaces the first.
    name : str, optional
        Name of the ring, so that other processes and the command line see it.
    lanes : int, optional
        Episodes that are open at once; by default all environments of all runners.
    arrays : bool, default True
        Hand whole arrays to the learner instead of an episode for each transition.
    seed : int, optional
        Seed of the draws; that of the configuration by default.
    exist : {"error", "replace"}, default "error"
        Treatment of a ring of this name that exists.

    Returns
    -------
    AlgorithmConfig
        The configuration.

    Raises
    ------
    ArgumentError
        If the algorithm is another one, of the old API stack or of several agents, or an argument
        or an option of ``config.replay_buffer_config`` is unknown or out of its range.
    """
    if not isinstance(config, (DQNConfig, SACConfig)) or isinstance(config, CQLConfig):
        raise ArgumentError(
            f"config is a {type(config).__name__}; use_ring serves DQNConfig, SACConfig and "
            "TQCConfig, whose algorithms have a replay buffer that can be replaced"
        )
    if not config.enable_env_runner_and_connector_v2:
        raise ArgumentError("the configuration is of the old API stack; use the new one")
    if config.is_multi_agent:
        raise ArgumentError("the configuration has several policies; the ring holds one agent's")
    check_whole("lanes", lanes, 1, optional=True)
    check_flag("arrays", arrays)
    check_exist(exist)
    check_name(name)
    check_whole("seed", seed, 0, optional=True)
    use = _Use(name, lanes, arrays, seed, exist)
    check_options(config.replay_buffer_config)
    if not _is_searched(config):
        # The options fit. Whether the name is free shows when the algorithm is built.
        use.buffer(config, named=False)
    given = config.callbacks_on_algorithm_init
    others = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    # The last call on a configuration, or on a copy of it, decides.
    others = [other for other in others if not isinstance(other, _Use)]
    config.callbacks(on_algorithm_init=[use, *others])
    connectors = config._learner_connector
    if isinstance(connectors, _Connectors):
        connectors = connectors.others
    config.learners(learner_connector=_Connectors(connectors) if arrays else connectors)
    return config


def _is_searched(config: AlgorithmConfig) -> bool:
    """Return whether Tune still chooses what the buffer is made of."""
    # A grid is a dict.
    values = [
        *config.replay_buffer_config.values(),
        config.num_env_runners,
        config.num_envs_per_env_runner,
        config.seed,
    ]
    return any(isinstance(value, (Domain, dict)) for value in values)


@dataclass(frozen=True)
class _Connectors:
    """Learner connectors: `AddArrays`, then those of the user."""

    others: Callable[..., Any] | None

    def __call__(self, *spaces: Any) -> list[ConnectorV2]:
        made = self.others(*spaces) if self.others is not None else []
        return [
            AddArrays(*spaces, is_required=True),
            *([made] if isinstance(made, ConnectorV2) else made),
        ]


@dataclass(frozen=True)
class _Use:
    """Callback that gives an algorithm its buffer."""

    name: str | None
    lanes: int | None
    arrays: bool
    seed: int | None
    exist: Literal["error", "replace"]

    def buffer(self, config: AlgorithmConfig, *, named: bool) -> EpisodeReplayBuffer:
        """Return the buffer for a configuration."""
        environments = max(1, config.num_env_runners) * config.num_envs_per_env_runner
        return EpisodeReplayBuffer(
            **buffer_options(config.replay_buffer_config),
            name=self.name if named else None,
            lanes=environments if self.lanes is None else self.lanes,
            arrays=self.arrays,
            seed=config.seed if self.seed is None else self.seed,
            exist=self.exist,
        )

    def __call__(self, *, algorithm: Algorithm, **_others: Any) -> None:
        try:
            buffer = self.buffer(algorithm.config, named=True)
        except BackcastError as error:
            # Runners and learners would live as long as the error.
            algorithm.cleanup()
            if not isinstance(error, ExistsError):
                raise
            raise ExistsError(
                f"a ring named `{self.name}` exists, of another run or kept on purpose; stop the "
                "run that holds it, or build with use_ring(config, NAME) of another name, or with "
                'exist="replace" to start over; a checkpoint is restored under another name by '
                "Algorithm.from_checkpoint(path, config=use_ring(config, NAME))"
            ) from None
        before = algorithm.local_replay_buffer
        if isinstance(before, EpisodeReplayBuffer):
            before.close()
        else:
            # Callbacks of a class run earlier, and may have filled RLlib's buffer.
            buffer.add(list(before.episodes))
        algorithm.local_replay_buffer = buffer
        _keep_in_checkpoints(algorithm, buffer)


def _keep_in_checkpoints(algorithm: Algorithm, buffer: EpisodeReplayBuffer) -> None:
    """Let an algorithm save and restore its buffer. RLlib's own does neither."""
    save_to_path, restore_from_path = algorithm.save_to_path, algorithm.restore_from_path
    cleanup = algorithm.cleanup

    def save(path: Any = None, *given: Any, filesystem: Any = None, **named: Any) -> str:
        buffer._check_open()
        saved: str = save_to_path(path, *given, filesystem=filesystem, **named)
        _save(buffer, *_place(saved if path is None else path, filesystem))
        return saved

    def restore(path: Any, *given: Any, filesystem: Any = None, **named: Any) -> None:
        buffer._check_open()
        # A component alone leaves the buffer as it is.
        if named.get("component") is not None:
            restore_from_path(path, *given, filesystem=filesystem, **named)
            return
        with _saved(*_place(path, filesystem)) as folder:
            is_empty = folder is not None and os.path.exists(os.path.join(folder, _EMPTY))
            # Leaves the algorithm as it was if the buffer is refused.
            if folder is not None and not is_empty:
                buffer.load(folder)
            try:
                restore_from_path(path, *given, filesystem=filesystem, **named)
            except BaseException as error:
                if folder is not None and not is_empty:
                    buffer._close(
                        f"the algorithm could not be restored from {path} after its buffer was "
                        f"({type(error).__name__}: {error})"
                    )
                raise
            if is_empty:
                buffer.clear()

    def clean() -> None:
        cleanup()
        buffer.close()

    algorithm.save_to_path, algorithm.restore_from_path = save, restore
    algorithm.cleanup = clean


def _place(path: Any, filesystem: Any) -> tuple[Any, str]:
    """Return the file system of a checkpoint, and the folder of its buffer there."""
    root = path.as_posix() if isinstance(path, Path) else str(path)
    if filesystem is None:
        filesystem, root = pyarrow.fs.FileSystem.from_uri(root)
    return filesystem, f"{root}/{_FOLDER}"


def _save(buffer: EpisodeReplayBuffer, target: pyarrow.fs.FileSystem, place: str) -> None:
    """Save a buffer in a folder of a checkpoint, in the place of one that is there."""
    if isinstance(target, pyarrow.fs.LocalFileSystem):
        _save_here(buffer, place)
        return
    with tempfile.TemporaryDirectory(prefix="backcast-") as folder:
        part = os.path.join(folder, "buffer")
        _save_here(buffer, part)
        if _is_folder(target, place):
            target.delete_dir(place)
        pyarrow.fs.copy_files(part, place, destination_filesystem=target)


def _save_here(buffer: EpisodeReplayBuffer, place: str) -> None:
    part = f"{place}.part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    if buffer.ring is None:
        Path(part, _EMPTY).touch()
    else:
        buffer.save(part)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(part, place)


@contextmanager
def _saved(source: pyarrow.fs.FileSystem, place: str) -> Iterator[str | None]:
    """Give the folder of a checkpoint's buffer on this machine; None of one without."""
    if not _is_folder(source, place):
        yield None
    elif isinstance(source, pyarrow.fs.LocalFileSystem):
        yield place
    else:
        with tempfile.TemporaryDirectory(prefix="backcast-") as folder:
            pyarrow.fs.copy_files(place, folder, source_filesystem=source)
            yield folder


def _is_folder(filesystem: Any, place: str) -> bool:
    kind = filesystem.get_file_info(place).type
    return bool(kind == pyarrow.fs.FileType.Directory)
