"""Types of the native module; its docs are in the module itself, `help(backcast.ReplayBuffer)`."""

import builtins
import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import (
    Any,
    Literal,
    Never,
    NoReturn,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    final,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backcast._batch import Batch

_Path: TypeAlias = str | os.PathLike[str]
_Exist: TypeAlias = Literal["error", "attach", "replace"]
_AutoresetMode: TypeAlias = Literal["next_step", "same_step", "disabled"]
_Nan: TypeAlias = Literal["refuse", "mask"]
_LanePolicy: TypeAlias = Literal["block", "drop_new", "fail", "overwrite"]
_Boundary: TypeAlias = Literal["mask", "reject", "clamp"]
# A Batch, or a dict of arrays: the same object comes back.
_Out = TypeVar("_Out", bound=dict[str, Any])
_Role: TypeAlias = Literal["obs", "step"]
# Loose on purpose: what a dict literal of dtypes, tuples and dicts is inferred to be fits nothing
# narrower, and values are checked when the ring is made or the row appended.
_Columns: TypeAlias = Mapping[str, Any]

# Within this module `list` is the function below, which lists rings and panels.
_Strings: TypeAlias = builtins.list[str]
_Objects: TypeAlias = builtins.list[dict[str, Any]]

__all__ = [
    "Batches",
    "Lease",
    "LeaseHold",
    "Panel",
    "PortfolioBatch",
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
    @staticmethod
    def from_spaces(
        observation_space: Any,
        action_space: Any,
        *,
        reward: Any = "f4",
        extra: _Columns | None = None,
    ) -> Schema: ...
    @property
    def columns(self) -> dict[str, tuple[str, tuple[int, ...], _Role]]: ...
    @property
    def row_bytes(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ReplayBuffer:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    @staticmethod
    def create(
        name: str | None,
        schema: Schema | _Columns,
        *,
        capacity: int | str,
        lanes: int = 1,
        exist: _Exist = "error",
        persistent: bool = False,
        lane_policy: _LanePolicy = "block",
        lease_timeout: float | None = None,
        reader_slots: int = 64,
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
        n_step: int | None = None,
        gamma: float | None = None,
        boundary: _Boundary = "mask",
        copy: bool = False,
    ) -> Sampler: ...
    @overload
    def sample(
        self,
        batch_size: int,
        history: int | None = None,
        future: int = 0,
        copy: bool = False,
        *,
        n_step: int | None = None,
        gamma: float | None = None,
        boundary: _Boundary = "mask",
        out: None = None,
    ) -> Batch: ...
    @overload
    def sample(
        self,
        batch_size: int,
        history: int | None = None,
        future: int = 0,
        copy: bool = False,
        *,
        n_step: int | None = None,
        gamma: float | None = None,
        boundary: _Boundary = "mask",
        out: _Out,
    ) -> _Out: ...
    @overload
    def gather(self, index: ArrayLike, out: None = None) -> Batch: ...
    @overload
    def gather(self, index: ArrayLike, out: _Out) -> _Out: ...
    def rows(self, lane: int, start: int, length: int) -> dict[str, Any]: ...
    def lane_span(self, lane: int) -> tuple[int, int]: ...
    def lease(self, lane: int, start: int, length: int) -> Lease: ...
    def wait(
        self,
        min_size: int | None = None,
        timeout: float | None = None,
        *,
        rows_published: int | None = None,
    ) -> int: ...
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
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Writer:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    def append(
        self,
        *,
        terminated: ArrayLike,
        truncated: ArrayLike,
        final_obs: Any = None,
        **columns: Any,
    ) -> NDArray[np.int64]: ...
    def restart(self, lanes: ArrayLike | None = None) -> None: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def lanes(self) -> NDArray[np.int64]: ...
    @property
    def autoreset_mode(self) -> _AutoresetMode: ...
    @property
    def rows_written(self) -> int: ...
    @property
    def rows_dropped(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...
    def __reduce__(self) -> NoReturn: ...

@final
class Lease:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    # An array, or a dict of arrays for names that others lie below.
    def __getitem__(self, name: str, /) -> Any: ...
    def windows(self, length: int) -> dict[str, Any]: ...
    def keys(self) -> _Strings: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...
    def _ipython_key_completions_(self) -> _Strings: ...
    @property
    def lane(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def stalls(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...
    def __reduce__(self) -> Never: ...

@final
class LeaseHold: ...

@final
class Sampler:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    @overload
    def sample(self, batch_size: int, out: None = None) -> Batch: ...
    @overload
    def sample(self, batch_size: int, out: _Out) -> _Out: ...
    @overload
    def gather(self, index: ArrayLike, out: None = None) -> Batch: ...
    @overload
    def gather(self, index: ArrayLike, out: _Out) -> _Out: ...
    def batches(
        self,
        batch_size: int,
        prefetch: int = 2,
        *,
        limit: int | None = None,
        reuse: bool = False,
    ) -> Batches: ...
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
    @property
    def n_step(self) -> int | None: ...
    @property
    def gamma(self) -> float | None: ...
    @property
    def boundary(self) -> _Boundary: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...
    def __reduce__(self) -> NoReturn: ...

@final
class Batches:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...
    def __reduce__(self) -> NoReturn: ...

class _Coverage(TypedDict):
    ticker: str
    is_macro: bool
    rows: int
    first_day: int | None
    last_day: int | None
    first_date: str | None
    last_date: str | None
    missing_days: int
    min_price: float | None
    max_price: float | None

class _PanelSummary(TypedDict):
    name: str | None
    path: str | None
    days: int
    first_date: str | None
    last_date: str | None
    tickers: _Strings
    macro_tickers: _Strings
    columns: _Strings
    indicators: _Strings
    rows: int
    masked_rows: int
    data_bytes: int
    min_price: float | None
    max_price: float | None
    fingerprint: str
    coverage: builtins.list[_Coverage]

@final
class Panel:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    @staticmethod
    def from_csv(
        path: _Path,
        *,
        macro: Sequence[str] = (),
        columns: Mapping[str, str | None] | None = None,
        nan: _Nan = "refuse",
        name: str | None = None,
        exist: _Exist = "error",
        persistent: bool = False,
        dir: _Path | None = None,
    ) -> Panel: ...
    @staticmethod
    def from_parquet(
        path: _Path,
        *,
        macro: Sequence[str] = (),
        columns: Mapping[str, str | None] | None = None,
        nan: _Nan = "refuse",
        name: str | None = None,
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
    def describe(self) -> _PanelSummary: ...
    def close(self) -> None: ...
    def unlink(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class PortfolioBatch:
    def __new__(
        cls,
        panel: Panel,
        num_envs: int | None,
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
        flat: bool = False,
        reuse: bool = False,
    ) -> Self: ...
    @property
    def num_envs(self) -> int | None: ...
    @property
    def tickers(self) -> _Strings: ...
    @property
    def indicators(self) -> _Strings: ...
    @property
    def tokens(self) -> NDArray[np.int32]: ...
    @property
    def autoreset_mode(self) -> _AutoresetMode: ...
    # Arrays with one axis per portfolio, or plain numbers for the single one.
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]: ...
    def step(self, actions: ArrayLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]: ...
    def close(self) -> None: ...
    def __deepcopy__(self, _memo: Any, /) -> PortfolioBatch: ...

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
