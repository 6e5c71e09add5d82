"""States in two forms: one dict of arrays, or a list of dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from backcast.errors import ArgumentTypeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from backcast.finrl._rules import State

# Keys of the whole batch, not of each portfolio.
_OF_ALL = ("n_envs", "n_tickers", "n_indicators", "n_macro", "metrics")


class Shared(list[Any]):
    """List that consecutive states share; copies would take a tenth of a step.

    Copies of it, pickled ones too, are lists like any other.
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401
        raise ArgumentTypeError(
            "the lists of a state are read-only, for other states have them too; change a copy: "
            "list(names)"
        )

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (list(self),)


def shared_lists(lists: list[list[str]]) -> Shared:
    """Make read-only lists of names."""
    return Shared(Shared(names) for names in lists)


def state_of(
    obs: dict[str, NDArray[Any]],
    outcome: tuple[NDArray[Any], ...],
    tickers: list[list[str]],
    counts: dict[str, NDArray[Any]],
    fixed: dict[str, Any],
) -> State:
    """Assemble a state from the observation's arrays and the environment's lists."""
    reward, terminated, truncated = outcome
    return {
        **obs,
        "reward": reward,
        "done": terminated | truncated,
        "terminal": truncated,
        "terminated": terminated,
        "truncated": truncated,
        "tickers": tickers,
        **counts,
        **fixed,
    }


def rows_of(state: State) -> list[State]:
    """Split a state into one dict per portfolio; scalars become Python numbers."""
    count = len(state["day"])
    return [row_of(state, at) for at in range(count)]


def row_of(state: State, at: int) -> State:
    """Take one portfolio's part out of a state."""
    row: State = {}
    for key, value in state.items():
        if key in _OF_ALL:
            continue
        if key in ("indicator_names", "macro_tickers"):
            row[key] = list(value)
        elif key == "tickers":
            row[key] = list(value[at])
        elif key == "final_obs":
            if state["done"][at]:
                row[key] = row_of(value, at)
        else:
            row[key] = _part(value[at])
    metrics = state.get("metrics", {})
    if metrics and state["done"][at]:
        row["metrics"] = {
            key: values[at].item() for key, values in metrics.items() if not key.startswith("_")
        }
    return row


def _part(value: NDArray[Any] | np.generic) -> Any:  # noqa: ANN401
    return value.copy() if value.ndim > 0 else value.item()
