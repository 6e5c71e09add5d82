"""Types of the native module; its docs are in the module itself, `help(backcast.ReplayBuffer)`."""

import builtins
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from backcast._batch import Batch
from backcast.finrl._sample import Sample

_Path: TypeAlias = str | os.PathLike[str]
_Exist: TypeAlias = Literal["error", "attach", "replace"]
_AutoresetMode: TypeAlias = Literal["next_step", "same_step", "disabled"]
_Nan: TypeAlias = Literal["refuse", "mask"]
_LanePolicy: TypeAlias = Literal["block", "drop_new", "fail", "overwrite"]
_Boundary: TypeAlias = Literal["mask", "reject", "clamp"]
_Missing: TypeAlias = Literal["error", "mask"]
_History: TypeAlias = int | dict[str, int | Literal["first"] | None]
_OnUnlinked: TypeAlias = Literal["warn", "error", "ignore"]
# A Batch, or a dict of arrays: the same object comes back.
_Out = TypeVar("_Out", bound=dict[str, Any])
_Role: TypeAlias = Literal["obs", "step"]
# Bytes done, and bytes in all.
_Progress: TypeAlias = Callable[[int, int], object]
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
    "ReservedRow",
    "RowMemory",
    "Sampler",
    "Schema",
    "TickerTokenizer",
    "TransitionRing",
    "WindowMemory",
    "Writer",
    "__version__",
    "_attach_buffer",
    "_attach_panel",
    "_open_snapshot",
    "_restore_tokenizer",
    "cli_main",
    "gc",
    "list",
    "remove",
    "remove_snapshot",
    "snapshots",
    "verify_snapshot",
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
class Client:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    @property
    def socket(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def ping(self) -> dict[str, Any]: ...
    def create(
        self,
        name: str,
        schema: Schema | _Columns,
        *,
        capacity: int | str,
        lanes: int = 1,
        exist: _Exist = "error",
        persistent: bool = False,
        lane_policy: _LanePolicy = "block",
        lease_timeout: float | None = None,
        reader_slots: int = 64,
        huge_pages: bool = True,
        memfd: bool = False,
        persist: Literal["off", "periodic", "continuous", "block"] | None = None,
    ) -> ReplayBuffer: ...
    def resize(
        self, name: str, capacity: int | str, *, timeout: float = 10.0
    ) -> dict[str, Any]: ...
    def save(
        self, name: str, label: str | None = None, replace: bool = False
    ) -> dict[str, Any]: ...
    def load(
        self,
        snapshot: str,
        name: str | None = None,
        exist: Literal["error", "replace"] = "error",
        persistent: bool = False,
    ) -> ReplayBuffer: ...
    def snapshots(self, name: str | None = None) -> builtins.list[dict[str, Any]]: ...
    def attach(self, name: str) -> ReplayBuffer: ...
    def list(self) -> builtins.list[dict[str, Any]]: ...
    def stats(self, name: str) -> dict[str, Any]: ...
    def remove(
        self, name: str, kind: Literal["ring", "panel"] | None = None, force: bool = False
    ) -> dict[str, Any]: ...
    def gc(self) -> builtins.list[dict[str, Any]]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        *_exception: type[BaseException] | BaseException | TracebackType | None,
    ) -> None: ...

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
        huge_pages: bool = True,
        on_unlinked: _OnUnlinked = "warn",
        dir: _Path | None = None,
    ) -> ReplayBuffer: ...
    @staticmethod
    def attach(
        name: str,
        *,
        on_unlinked: _OnUnlinked = "warn",
        dir: _Path | None = None,
        store: _Path | None = None,
    ) -> ReplayBuffer: ...
    @staticmethod
    def load(
        snapshot: _Path,
        name: str | None = None,
        *,
        store: _Path | None = None,
        exist: Literal["error", "replace"] = "error",
        persistent: bool = False,
        huge_pages: bool = True,
        dir: _Path | None = None,
        progress: _Progress | None = None,
    ) -> ReplayBuffer: ...
    @staticmethod
    def open_snapshot(
        snapshot: _Path,
        *,
        store: _Path | None = None,
        dir: _Path | None = None,
        progress: _Progress | None = None,
    ) -> ReplayBuffer: ...
    def snapshot(
        self,
        label: str,
        *,
        name: str | None = None,
        store: _Path | None = None,
        state: Any = None,
        replace: bool = False,
        timeout: float = 60.0,
        progress: _Progress | None = None,
    ) -> dict[str, Any]: ...
    @property
    def is_snapshot(self) -> bool: ...
    @property
    def saved_state(self) -> Any: ...
    @property
    def imported(self) -> dict[str, Any] | None: ...
    @staticmethod
    def from_file(
        path: _Path,
        name: str,
        format: Literal["parquet", "minari", "npz"] | None = None,
        *,
        capacity: int | None = None,
        exist: Literal["error", "replace"] = "error",
        persistent: bool = False,
        dir: _Path | None = None,
        leave_out: Sequence[str] | None = None,
        progress: _Progress | None = None,
    ) -> ReplayBuffer: ...
    def resize(
        self,
        capacity: int | str,
        *,
        timeout: float = 10.0,
        progress: _Progress | None = None,
    ) -> dict[str, Any]: ...
    def export(
        self,
        path: _Path,
        format: Literal["parquet", "csv", "minari"] | None = None,
        *,
        overwrite: bool = False,
        progress: _Progress | None = None,
    ) -> dict[str, int | None]: ...
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
    def writer(
        self,
        lanes: int | None = None,
        autoreset_mode: _AutoresetMode | AutoresetMode | None = None,
        *,
        env: Any = None,
    ) -> Writer: ...
    def sampler(
        self,
        *,
        seed: int | None = None,
        history: _History | None = None,
        columns: builtins.list[str] | None = None,
        future: int = 0,
        n_step: int | None = None,
        gamma: float | Literal["discount"] | None = None,
        boundary: _Boundary = "mask",
        copy: bool = False,
        state: dict[str, Any] | None = None,
    ) -> Sampler: ...
    @overload
    def sample(
        self,
        batch_size: int,
        history: _History | None = None,
        future: int = 0,
        copy: bool = False,
        *,
        columns: builtins.list[str] | None = None,
        n_step: int | None = None,
        gamma: float | Literal["discount"] | None = None,
        boundary: _Boundary = "mask",
        out: None = None,
    ) -> Batch: ...
    @overload
    def sample(
        self,
        batch_size: int,
        history: _History | None = None,
        future: int = 0,
        copy: bool = False,
        *,
        columns: builtins.list[str] | None = None,
        n_step: int | None = None,
        gamma: float | Literal["discount"] | None = None,
        boundary: _Boundary = "mask",
        out: _Out,
    ) -> _Out: ...
    @overload
    def gather(
        self,
        index: ArrayLike,
        out: None = None,
        *,
        history: _History | None = None,
        columns: builtins.list[str] | None = None,
        missing: _Missing = "error",
    ) -> Batch: ...
    @overload
    def gather(
        self,
        index: ArrayLike,
        out: _Out,
        *,
        history: _History | None = None,
        columns: builtins.list[str] | None = None,
        missing: _Missing = "error",
    ) -> _Out: ...
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
class TickerTokenizer:
    def __new__(
        cls,
        tickers: Sequence[str] = (),
        *,
        frozen: bool = False,
        unknown: Literal["error", "unk"] = "error",
    ) -> Self: ...
    def encode(self, tic: str) -> int: ...
    def encode_batch(self, tics: ArrayLike) -> NDArray[np.int32]: ...
    def decode(self, token_id: int) -> str: ...
    def decode_batch(self, token_ids: ArrayLike) -> builtins.list[Any]: ...
    def save(self, path: _Path) -> None: ...
    def load(self, path: _Path) -> None: ...
    def freeze(self) -> None: ...
    def unfreeze(self) -> None: ...
    @property
    def frozen(self) -> bool: ...
    @property
    def unknown(self) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def tickers(self) -> _Strings: ...
    def __len__(self) -> int: ...
    def __contains__(self, tic: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

@final
class TransitionRing:
    def __new__(
        cls,
        panel: Panel,
        tickers: int,
        action_shape: Sequence[int] | None = None,
        n_objectives: int | None = None,
        *,
        capacity: int = 1_000_000,
        seed: int = 42,
        macro_tickers: Sequence[str] = (),
        indicators: Sequence[str] | None = None,
        indicator_lag: int | None = None,
        end: int | None = None,
        n_adders: int = 1,
        threads: int = 1,
        name: str | None = None,
        exist: _Exist = "error",
        persistent: bool = False,
        dir: _Path | None = None,
    ) -> Self: ...
    @staticmethod
    def attach(
        name: str,
        panel: Panel | None = None,
        *,
        seed: int = 42,
        macro_tickers: Sequence[str] | None = None,
        indicators: Sequence[str] | None = None,
        indicator_lag: int | None = None,
        end: int | None = None,
        threads: int = 1,
        dir: _Path | None = None,
    ) -> TransitionRing: ...
    def add(
        self,
        states: dict[str, Any],
        actions: ArrayLike,
        rewards: ArrayLike,
        next_states: dict[str, Any],
        dones: ArrayLike,
        alone: bool = False,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        history_length: int,
        future_length: int,
        layout: str,
        copy: bool,
        indices: ArrayLike | None,
        out: Sample | None,
    ) -> Sample: ...
    def sample_indices(self, batch_size: int) -> builtins.list[int]: ...
    def get(self, index: int) -> dict[str, Any]: ...
    def rows(
        self, tickers: Sequence[str], first: int, count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]: ...
    def size(self) -> int: ...
    def clear(self) -> None: ...
    def save(self, path: _Path) -> None: ...
    def load(self, path: _Path) -> None: ...
    def release(self) -> None: ...
    def unlink(self) -> None: ...
    def close(self) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def transition_bytes(self) -> int: ...
    @property
    def action_shape(self) -> builtins.list[int]: ...
    @property
    def n_objectives(self) -> int: ...
    @property
    def n_tickers(self) -> int: ...
    @property
    def panel(self) -> Panel: ...
    @property
    def indicators(self) -> _Strings: ...
    @property
    def macro_tickers(self) -> _Strings: ...
    @property
    def indicator_lag(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def name(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...

def _restore_tokenizer(json: str) -> TickerTokenizer: ...

@final
class ReservedRow:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    terminated: bool
    truncated: bool
    next_obs: Any
    final_obs: Any
    @property
    def is_final(self) -> bool: ...
    @property
    def index(self) -> int | None: ...
    @property
    def closed(self) -> bool: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def __setitem__(self, name: str, value: Any, /) -> None: ...
    def keys(self) -> builtins.list[str]: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, name: object, /) -> bool: ...
    def commit(self) -> int: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None: ...

@final
class RowMemory: ...

@final
class Writer:
    # Objects are made by other calls, which the error names.
    def __new__(cls, *_given: Never, **_named: Never) -> Self: ...
    def append(
        self,
        *,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: Any = None,
        final_obs: Any = None,
        **columns: Any,
    ) -> NDArray[np.int64]: ...
    def extend(
        self,
        *,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: Any = None,
        final_obs: Any = None,
        **columns: Any,
    ) -> NDArray[np.int64]: ...
    def reserve(self) -> ReservedRow: ...
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
    def gather(
        self, index: ArrayLike, out: None = None, *, missing: _Missing = "error"
    ) -> Batch: ...
    @overload
    def gather(self, index: ArrayLike, out: _Out, *, missing: _Missing = "error") -> _Out: ...
    def batches(
        self,
        batch_size: int,
        prefetch: int = 2,
        *,
        limit: int | None = None,
        reuse: bool = False,
    ) -> Batches: ...
    def state(self) -> dict[str, Any]: ...
    @property
    def lapped(self) -> int: ...
    @property
    def sampled(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def history(self) -> _History | None: ...
    @property
    def future(self) -> int: ...
    @property
    def n_step(self) -> int | None: ...
    @property
    def gamma(self) -> float | Literal["discount"] | None: ...
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
    inconsistent_rows: int
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
        separator: str = ",",
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
    def longest_window(self) -> int: ...
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
    def _windows_in(
        self,
        memory: WindowMemory,
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
class WindowMemory:
    def __new__(cls) -> Self: ...

@final
class PortfolioBatch:
    def __new__(
        cls,
        panel: Panel,
        num_envs: int | None,
        settings: dict[str, Any],
        *,
        tickers_of: Sequence[Sequence[str]] | None = None,
        flat: bool = False,
        reuse: bool = False,
        unit_axis: bool = False,
    ) -> Self: ...
    @property
    def num_envs(self) -> int | None: ...
    @property
    def tickers(self) -> _Strings: ...
    @property
    def indicators(self) -> _Strings: ...
    @property
    def tickers_of(self) -> builtins.list[_Strings]: ...
    @property
    def tickers_vary(self) -> bool: ...
    @property
    def macro_tickers(self) -> _Strings: ...
    @property
    def tokens(self) -> NDArray[np.int32]: ...
    @property
    def history_shape(self) -> builtins.list[int]: ...
    @property
    def most_at_start(self) -> float: ...
    def price_warnings(self) -> _Strings: ...
    @property
    def tokens_of(self) -> NDArray[np.int32]: ...
    @property
    def total_asset_at_close(self) -> NDArray[np.float64]: ...
    @property
    def autoreset_mode(self) -> _AutoresetMode: ...
    # Arrays with one axis per portfolio, or plain numbers for the single one.
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | NDArray[np.integer[Any]] | None = None,
        options: Mapping[str, Any] | None = None,
        spread: bool = False,
        shifted_start: int = 0,
        begin: int | None = None,
    ) -> tuple[Any, dict[str, Any]]: ...
    def shown(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]: ...
    def outcomes(self) -> tuple[Any, Any, Any]: ...
    def set_autoreset_mode(self, mode: _AutoresetMode) -> None: ...
    def go_on_from(self, other: PortfolioBatch) -> None: ...
    def counts(self) -> dict[str, NDArray[Any]]: ...
    def metrics_so_far(self) -> dict[str, Any]: ...
    def history(self, i: int = 0, before: bool = False) -> dict[str, Any]: ...
    def rows(
        self, tickers: Sequence[str], first: int, count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]: ...
    def fills(self) -> builtins.list[tuple[int, str, float, float, int, bool]]: ...
    def step(self, actions: ArrayLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]: ...
    def close(self) -> None: ...
    def __deepcopy__(self, _memo: Any, /) -> PortfolioBatch: ...

def connect(
    dir: _Path | None = None, timeout: float = 5.0, socket: _Path | None = None
) -> Client: ...
def list(dir: _Path | None = None) -> _Objects: ...
def remove(
    name: str,
    kind: Literal["ring", "panel"] = "ring",
    force: bool = False,
    dir: _Path | None = None,
) -> dict[str, Any]: ...
def gc(dir: _Path | None = None) -> _Objects: ...
def snapshots(name: str | None = None, *, store: _Path | None = None) -> _Objects: ...
def verify_snapshot(
    snapshot: str, *, store: _Path | None = None, progress: _Progress | None = None
) -> dict[str, Any]: ...
def remove_snapshot(snapshot: str, *, store: _Path | None = None) -> dict[str, Any]: ...
def cli_main(argv: Sequence[str]) -> int: ...
def _attach_buffer(
    name: str, dir: _Path | None = None, on_unlinked: str = "warn"
) -> ReplayBuffer: ...
def _open_snapshot(spec: str, store: _Path, dir: _Path | None = None) -> ReplayBuffer: ...
def _attach_panel(name: str, dir: _Path | None = None) -> Panel: ...
