"""Observations as the wrapper shows them: nested dicts of a step or a batch, and their space."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from gymnasium import spaces

from backcast._native import WindowMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from backcast.finrl._vec_env import VecFastFinRL

PRICES = 5
_LARGEST = float(np.finfo(np.float32).max)


class History(dict[str, Any]):
    """The days before, by kind of ticker: ``market`` and ``macro``.

    ``past`` is another name of ``market`` in everything that takes a key: ``[]``, ``in``, ``get``,
    ``setdefault``, ``pop``, ``update``, assignment and ``del``. Iteration, ``len``, ``keys``,
    ``items`` and comparison show only ``market`` and ``macro``. Copies, also pickled ones, and
    results of ``|`` behave alike; ``dict(history)`` is a plain dict.
    """

    def __missing__(self, key: str) -> Any:  # noqa: ANN401
        """Return ``market`` for ``past``, and refuse other missing keys."""
        if key == "past":
            return self["market"]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_kind(key))

    def __setitem__(self, key: str, value: Any) -> None:  # noqa: ANN401
        super().__setitem__(_kind(key), value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(_kind(key))

    def get(self, key: str, default: Any = None, /) -> Any:  # noqa: ANN401
        return super().get(_kind(key), default)

    def setdefault(self, key: str, default: Any = None, /) -> Any:  # noqa: ANN401
        return super().setdefault(_kind(key), default)

    def pop(self, key: str, /, *default: Any) -> Any:  # noqa: ANN401
        return super().pop(_kind(key), *default)

    def update(self, *others: Any, **parts: Any) -> None:  # noqa: ANN401
        for key, value in dict(*others, **parts).items():
            self[key] = value

    def copy(self) -> History:
        return History(self)

    def __or__(self, other: Any) -> Any:  # noqa: ANN401
        if not isinstance(other, dict):
            return NotImplemented
        both = self.copy()
        both.update(other)
        return both

    def __ior__(self, other: Any) -> Self:  # type: ignore[override]  # noqa: ANN401
        self.update(other)
        return self


def _kind(key: Any) -> Any:  # noqa: ANN401
    return "market" if key == "past" else key


class NestedObservations:
    """The observations of an environment's portfolios, with the days before them."""

    def __init__(self, env: VecFastFinRL, history_length: int) -> None:
        """Find the shown tickers and columns in the panel."""
        panel = env.panel
        self.num_envs, self.num_tickers = env.num_envs(), env.n_tickers()
        self.history_length = history_length
        self._known = len(panel.tickers)
        self._windows = partial(panel._windows_in, WindowMemory())
        self._macro = np.tile(panel.tokens(env.get_macro_tickers()), (self.num_envs, 1))
        columns = [panel.columns.index(name) for name in env.get_indicator_names()]
        self._shown = len(columns)
        first, end = (columns[0], columns[-1] + 1) if columns else (PRICES, PRICES)
        # Indicators whose columns are adjacent and in order are a view; others are copied.
        neighbours = columns == list(range(first, end))
        self._columns = slice(first, end) if neighbours else np.array(columns, np.intp)

    def of_step(self, raw: Mapping[str, NDArray[Any]], tokens: NDArray[np.int32]) -> dict[str, Any]:
        """Assemble an observation from the portfolios' numbers and the market before them."""
        single = np.float32
        count = self.num_tickers
        both = np.concatenate([tokens, self._macro], axis=1)
        windows = self._windows(raw["day"], both, self.history_length, 0)
        history, mask = windows["history"], windows["history_mask"].astype(np.int32)
        ohlcv, indicators = history[..., :PRICES], history[..., self._columns]
        n, macro = self.num_envs, self._macro.shape[1]
        shown = self._shown
        nothing = {"open": np.zeros((n, macro)), "indicators": np.zeros((n, macro, shown))}

        def part(of: slice, tics: NDArray[np.int32]) -> dict[str, Any]:
            return {
                "ohlcvs": ohlcv[:, of],
                "indicators": indicators[:, of],
                "masks": mask[:, of],
                "tickers": tics.copy(),
            }

        return {
            "portfolio": {
                "cash": raw["cash"].astype(single)[:, None],
                "shares": raw["shares"].copy(),
                "avg_buy_price": raw["avg_buy_price"].astype(single),
            },
            "market": {
                "open": raw["open"].astype(single),
                "indicators": raw.get("indicators", np.zeros((n, count, shown))).astype(single),
            },
            "macro": {
                key: raw.get(f"macro_{key}", none).astype(single) for key, none in nothing.items()
            },
            "tics": tokens.copy(),
            "macro_tics": self._macro.copy(),
            "hist": History(
                market=part(slice(0, count), tokens),
                macro=part(slice(count, None), self._macro),
            ),
        }

    def of_sample(self, state: dict[str, Any]) -> dict[str, Any]:
        """Rearrange one side of a batch in the form of observations."""
        tokens = state["tokens"].astype(np.int32)
        size, macro = len(tokens), state["macro"]
        macro_tics = np.tile(self._macro[0], (size, 1))

        def part(of: dict[str, Any], tics: NDArray[np.int32], kind: str) -> dict[str, Any]:
            if kind + "ohlcv" not in of:
                # A batch without a history leaves it out; here it is empty, as `of_step` shows it.
                cells, shown = (*tics.shape, 0), of["current_indicators"].shape[2]
                return {
                    "ohlcvs": np.zeros((*cells, PRICES), np.float32),
                    "indicators": np.zeros((*cells, shown), np.float32),
                    "masks": np.zeros(cells, np.int32),
                    "tickers": tics,
                }
            days = {"ohlcvs": "ohlcv", "indicators": "indicators", "masks": "mask"}
            return {**{name: of[kind + key] for name, key in days.items()}, "tickers": tics}

        portfolio = state["portfolio"]
        obs: dict[str, Any] = {
            "portfolio": portfolio | {"cash": portfolio["cash"][:, None]},
            "market": {"open": state["open"], "indicators": state["current_indicators"]},
            "macro": {"open": macro["open"], "indicators": macro["current_indicators"]},
            "tics": tokens,
            "macro_tics": macro_tics,
            "hist": History(market=part(state, tokens, ""), macro=part(macro, macro_tics, "")),
        }
        obs |= {key: state[key] for key in ("terminated", "truncated") if key in state}
        if "future_ohlcv" in state:
            obs["future"] = {
                "market": part(state, tokens, "future_"),
                "macro": part(macro, macro_tics, "future_"),
            }
        return obs

    def of_ends(
        self,
        raw: Mapping[str, NDArray[Any]],
        tokens: NDArray[np.int32],
        final: NDArray[np.object_],
    ) -> NDArray[np.object_]:
        """Return the last observations of ended episodes, by portfolio."""
        shown = self.of_step(raw, tokens)
        rows = np.full(len(final), None, object)
        for at, last in enumerate(final):
            if last is not None:
                rows[at] = _row(shown, at)
        return rows

    def space(self) -> spaces.Dict:
        """Return the space of one portfolio's observations."""
        tickers, shown = self.num_tickers, self._shown
        macro, days = self._macro.shape[1], self.history_length

        def floats(*shape: int, low: float = -_LARGEST) -> spaces.Box:
            return spaces.Box(low, _LARGEST, shape, np.float32)

        def tokens(count: int) -> spaces.Box:
            return spaces.Box(0, self._known, (count,), np.int32)

        def part(count: int) -> spaces.Dict:
            return spaces.Dict(
                {
                    "ohlcvs": floats(count, days, PRICES),
                    "indicators": floats(count, days, shown),
                    "masks": spaces.Box(0, 1, (count, days), np.int32),
                    "tickers": tokens(count),
                }
            )

        def today(count: int) -> spaces.Dict:
            return spaces.Dict({"open": floats(count), "indicators": floats(count, shown)})

        shares = spaces.Box(0, np.iinfo(np.int32).max, (tickers,), np.int32)
        return spaces.Dict(
            {
                "portfolio": spaces.Dict(
                    {
                        "cash": floats(1),
                        "shares": shares,
                        "avg_buy_price": floats(tickers, low=0.0),
                    }
                ),
                "market": today(tickers),
                "macro": today(macro),
                "tics": tokens(tickers),
                "macro_tics": tokens(macro),
                "hist": spaces.Dict({"market": part(tickers), "macro": part(macro)}),
            }
        )


def with_final(
    raw: Mapping[str, NDArray[Any]], final: NDArray[np.object_]
) -> dict[str, NDArray[Any]]:
    """Return observations with the final ones in the places of ended episodes."""
    arrived = {key: values.copy() for key, values in raw.items()}
    for at, last in enumerate(final):
        if last is not None:
            for key, values in last.items():
                arrived[key][at] = values
    return arrived


def _row(obs: dict[str, Any], at: int) -> dict[str, Any]:
    """Take one portfolio's part out of an observation."""
    kind = History if isinstance(obs, History) else dict
    return kind(
        {key: _row(part, at) if isinstance(part, dict) else part[at] for key, part in obs.items()}
    )
