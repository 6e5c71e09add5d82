"""Prices of a panel that are copied to a device once, and windows gathered there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from backcast._calls import explained
from backcast._counts import count_of
from backcast.errors import ArgumentTypeError, PanelError
from backcast.torch._resident_tables import Table, room_for
from backcast.torch._tensors import device_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from backcast import Panel

# Bytes of windows that the host cuts at once while a panel is copied.
_CHUNK_BYTES = 32 << 20


class ResidentPanel:
    """Prices of a panel on a device, whose windows are gathered there.

    The panel is copied once, and may be closed then. Windows have the numbers, bit for bit, that
    :meth:`backcast.Panel.windows` has.

    Parameters
    ----------
    panel : Panel
        Panel to copy.
    device : torch.device, str or int, optional
        Device of the prices and windows; the CPU by default.

    Raises
    ------
    ArgumentError
        If PyTorch has no such device here.
    SpaceError
        If the prices do not fit the memory of the device.
    """

    @explained
    def __init__(self, panel: Panel, *, device: torch.device | str | int | None = None) -> None:
        if not hasattr(panel, "windows") or not hasattr(panel, "longest_window"):
            raise ArgumentTypeError(f"panel is {panel!r}; give a backcast.Panel")
        self._device = device_of(device)
        self._days = days = panel.n_days
        self._longest = panel.longest_window
        like = panel.windows([0], [1], 1, 0)["history"]
        self._tickers, columns = len(panel.tickers), like.shape[-1]
        rows = 1 + self._tickers * days
        need = rows * (columns * like.itemsize + 4 + 1 + 1)
        self._tables: dict[str, Table] = {}
        with room_for(need, self._device, f"the {self._tickers} tickers of the panel"):
            for name, shape, dtype in (
                ("rows", (columns,), np.dtype("f4")),
                ("mask", (), np.dtype("?")),
                ("open", (), np.dtype("f4")),
                ("listed", (), np.dtype("?")),
            ):
                self._tables[name] = Table(rows, shape, dtype, self._device)
        many = max(1, _CHUNK_BYTES // (days * columns * like.itemsize))
        for first in range(1, self._tickers + 1, many):
            self._copy(panel, np.arange(first, min(first + many, self._tickers + 1)))

    @property
    def device(self) -> torch.device:
        """Device of the prices."""
        return self._device

    @property
    def nbytes(self) -> int:
        """Bytes of the prices and masks on the device."""
        return sum(table.nbytes for table in self._tables.values())

    @explained
    def windows(
        self,
        days: torch.Tensor | ArrayLike,
        tokens: torch.Tensor | ArrayLike,
        history: int,
        future: int,
    ) -> dict[str, torch.Tensor]:
        """Return history and future around days, as :meth:`backcast.Panel.windows`.

        Waits for the device once, to check days and tokens.

        Parameters
        ----------
        days : tensor or array_like of int, [B]
            Positions in the panel's dates, on any device.
        tokens : tensor or array_like of int, [B, T] or [T]
            Tokens, on any device; 0 is cash.
        history, future : int
            Days before and after, ``H`` and ``F``.

        Returns
        -------
        dict of tensors
            ``history`` ``[B, T, H, C]``, ``history_mask`` ``[B, T, H]``, ``open`` and ``listed``
            ``[B, T]``, ``future`` ``[B, T, F, C]``, ``future_mask`` ``[B, T, F]``, separate in
            memory.

        Raises
        ------
        PanelError
            If a day or token is outside the panel, shapes do not fit, or a window is too long.
        """
        history, future = self._length(history, "history"), self._length(future, "future")
        day, token = self._whole(days, "days"), self._whole(tokens, "tokens")
        if day.ndim != 1:
            raise PanelError(f"days has the shape {list(day.shape)}; give one axis, [B]")
        if token.ndim == 1:
            token = token.expand(len(day), -1)
        if token.ndim != 2 or len(token) != len(day):
            raise PanelError(
                f"tokens has the shape {list(token.shape)}, and days {list(day.shape)}; give "
                "[B, T] or [T]"
            )
        outside = torch.stack(
            [((day < 0) | (day >= self._days)).any(), ((token < 0) | (token > self._tickers)).any()]
        ).tolist()
        if outside[0]:
            raise PanelError(f"days: one is outside the panel; give 0 to {self._days - 1}")
        if outside[1]:
            raise PanelError(f"tokens: one is none of the panel; give 0 to {self._tickers}")
        found: dict[str, torch.Tensor] = {}
        back = torch.arange(-history, 0, device=self._device)
        ahead = torch.arange(1, future + 1, device=self._device)
        for name, offsets in (("history", back), ("future", ahead)):
            rows = self._rows(day[:, None, None] + offsets, token[:, :, None])
            found[name] = self._tables["rows"].at(rows)
            found[f"{name}_mask"] = self._tables["mask"].at(rows)
        own = self._rows(day[:, None], token)
        found["open"], found["listed"] = (
            self._tables["open"].at(own),
            self._tables["listed"].at(own),
        )
        return found

    def _rows(self, days: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the rows of the tables; that of zeros for cash, and outside the panel."""
        is_inside = (days >= 0) & (days < self._days) & (tokens > 0)
        return torch.where(is_inside, 1 + (tokens - 1) * self._days + days, 0)

    def _copy(self, panel: Panel, tokens: NDArray[np.int64]) -> None:
        """Copy the prices of some tickers."""
        days = self._days
        rows = 1 + (tokens[:, None] - 1) * days + np.arange(days)
        own = panel.windows(np.arange(days), tokens, 0, 0)
        self._tables["open"].store(rows.T.reshape(-1), own["open"].reshape(-1))
        self._tables["listed"].store(rows.T.reshape(-1), own["listed"].reshape(-1))
        if days == 1:
            # No window around the only day shows it.
            return
        # All days but the first, and then the first.
        later, first = panel.windows([0], tokens, 0, days - 1), panel.windows([1], tokens, 1, 0)
        for at, prices, mask in (
            (rows[:, 1:], later["future"][0], later["future_mask"][0]),
            (rows[:, :1], first["history"][0], first["history_mask"][0]),
        ):
            places = np.ascontiguousarray(at).reshape(-1)
            self._tables["rows"].store(places, prices.reshape(-1, prices.shape[-1]))
            self._tables["mask"].store(places, mask.reshape(-1))

    def _length(self, value: Any, what: str) -> int:
        days = count_of(value, what, 0, PanelError)
        if days > self._longest:
            raise PanelError(
                f"{what} is {days}; a panel of {self._days} days has windows of at most "
                f"{self._longest}"
            )
        return days

    def _whole(self, value: torch.Tensor | ArrayLike, what: str) -> torch.Tensor:
        tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.asarray(value))
        if tensor.dtype.is_floating_point or tensor.dtype == torch.bool:
            raise PanelError(f"{what} has {tensor.dtype} values; give whole numbers")
        return tensor.to(self._device, torch.int64)
