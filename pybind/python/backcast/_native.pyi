"""Types of the native module; its docs are in the module itself, `help(backcast.ReplayBuffer)`."""

import builtins
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from backcast._batch import Batch

_Path: TypeAlias = str | os.PathLike[str]
_Exist: TypeAlias = Literal["error", "attach", "replace"]
_AutoresetMode: TypeAlias = Literal["next_step", "same_step", "disabled"]
_Role: TypeAlias = Literal["obs", "step"]
_Shape: TypeAlias = int | Sequence[int]
_Column: TypeAlias = (
    DTypeLike
    | tuple[DTypeLike]
    | tuple[DTypeLike, _Shape]
    | tuple[DTypeLike, _Shape, _Role]
    | Mapping[str, "_Column"]
)
_Columns: TypeAlias = Mapping[str, _Column]
_Observation: TypeAlias = ArrayLike | Mapping[str, "_Observation"]

# Within this module `list` is the function below, which lists rings and panels.
_Strings: TypeAlias = builtins.list[str]
_Objects: TypeAlias = builtins.list[dict[str, Any]]

__all__ = [
    "Panel",
    "PortfolioVectorEnv",
    "ReplayBuffer",
    "Sampler",
    "Schema",
    "Writer",
    "__version__",
    "_attach_buffer",
    "_attach_panel",
    "cli_main",
    "gc",
    "list",
    "remove",
]

__version__: str

@final
class Schema:
    def __new__(cls, columns: _Columns) -> Self: ...
    @property
    def columns(self) -> dict[str, tuple[str, tuple[int, ...], _Role]]: ...
    @property
    def row_bytes(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ReplayBuffer:
    @staticmethod
    def create(
        name: str | None,
        schema: Schema | _Columns,
        *,
        capacity: int | str,
        lanes: int = 1,
        exist: _Exist = "error",
        persistent: bool = False,
        dir: _Path | None = None,
    ) -> ReplayBuffer: ...
    @staticmethod
    def attach(name: str, *, dir: _Path | None = None) -> ReplayBuffer: ...
    @property
    def name(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def lanes(self) -> int: ...
    @property
    def lane_capacity(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def writer(self, lanes: int = 1, autoreset_mode: _AutoresetMode = "next_step") -> Writer: ...
    def sampler(
        self,
        *,
        seed: int | None = None,
        history: int | None = None,
        future: int = 0,
        copy: bool = False,
    ) -> Sampler: ...
    def sample(
        self,
        batch_size: int,
        history: int | None = None,
        future: int = 0,
        copy: bool = False,
    ) -> Batch: ...
    def gather(self, index: ArrayLike) -> Batch: ...
    def rows(self, lane: int, start: int, length: int) -> dict[str, Any]: ...
    def lane_span(self, lane: int) -> tuple[int, int]: ...
    def wait(self, min_size: int, timeout: float | None = None) -> int: ...
    def stats(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def unlink(self) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Writer:
    def append(
        self,
        *,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        final_obs: _Observation | Sequence[_Observation | None] | None = None,
        **columns: _Observation,
    ) -> NDArray[np.int64]: ...
    def restart(self, lanes: ArrayLike | None = None) -> None: ...
    @property
    def lanes(self) -> NDArray[np.int64]: ...
    @property
    def autoreset_mode(self) -> _AutoresetMode: ...
    @property
    def rows_written(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...

@final
class Sampler:
    def sample(self, batch_size: int) -> Batch: ...
    def gather(self, index: ArrayLike) -> Batch: ...
    @property
    def lapped(self) -> int: ...
    @property
    def sampled(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def history(self) -> int | None: ...
    @property
    def future(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...

@final
class Panel:
    @staticmethod
    def from_csv(
        path: _Path,
        *,
        name: str | None = None,
        macro: Sequence[str] = (),
        exist: _Exist = "error",
        persistent: bool = False,
        dir: _Path | None = None,
    ) -> Panel: ...
    @staticmethod
    def attach(name: str, *, dir: _Path | None = None) -> Panel: ...
    @property
    def name(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...
    @property
    def tickers(self) -> _Strings: ...
    @property
    def macro(self) -> _Strings: ...
    @property
    def dates(self) -> _Strings: ...
    @property
    def columns(self) -> _Strings: ...
    @property
    def indicators(self) -> _Strings: ...
    @property
    def n_days(self) -> int: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def mask(self) -> NDArray[np.bool_]: ...
    def tokens(self, tickers: Sequence[str]) -> NDArray[np.int32]: ...
    def windows(
        self,
        days: ArrayLike,
        tokens: ArrayLike,
        history: int,
        future: int,
    ) -> dict[str, NDArray[Any]]: ...
    def close(self) -> None: ...
    def unlink(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class PortfolioVectorEnv:
    def __new__(
        cls,
        panel: Panel,
        num_envs: int,
        *,
        initial_amount: float = 30_000.0,
        failure_threshold: float = 25_000.0,
        hmax: int = 15,
        buy_cost_pct: float = 0.01,
        sell_cost_pct: float = 0.01,
        tickers: Sequence[str] | None = None,
        days: tuple[int, int] | None = None,
        indicator_lag: int = 1,
        autoreset_mode: _AutoresetMode = "next_step",
        max_episode_steps: int | None = None,
    ) -> Self: ...
    @property
    def num_envs(self) -> int: ...
    @property
    def n_tickers(self) -> int: ...
    @property
    def tickers(self) -> _Strings: ...
    @property
    def indicators(self) -> _Strings: ...
    @property
    def tokens(self) -> NDArray[np.int32]: ...
    @property
    def autoreset_mode(self) -> _AutoresetMode: ...
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]: ...
    def step(
        self,
        actions: ArrayLike,
    ) -> tuple[
        dict[str, NDArray[Any]],
        NDArray[np.float64],
        NDArray[np.bool_],
        NDArray[np.bool_],
        dict[str, Any],
    ]: ...
    def close(self) -> None: ...

def list(dir: _Path | None = None) -> _Objects: ...
def remove(
    name: str,
    kind: Literal["ring", "panel"] = "ring",
    force: bool = False,
    dir: _Path | None = None,
) -> dict[str, Any]: ...
def gc(dir: _Path | None = None) -> _Objects: ...
def cli_main(argv: Sequence[str]) -> int: ...
def _attach_buffer(name: str, dir: _Path | None = None) -> ReplayBuffer: ...
def _attach_panel(name: str, dir: _Path | None = None) -> Panel: ...
