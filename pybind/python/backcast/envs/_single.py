"""Portfolio environment as Gymnasium's ``Env``: one row of the vector environment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from backcast._calls import explained
from backcast._market import PanelLike
from backcast.envs._portfolio import (
    ObsForm,
    PortfolioFace,
    picture,
)
from backcast.envs._portfolio_settings import PortfolioSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class PortfolioEnv(PortfolioFace, gym.Env[Any, Any]):
    """One portfolio that trades the tickers of a panel day by day.

    Market, rules and numbers are those of :class:`PortfolioVectorEnv`. With seed ``s + i``
    this environment equals portfolio i of a vector environment with seed ``s``, bit for bit.

    Parameters
    ----------
    panel : Panel, str or path
        The market: a :class:`backcast.Panel`, the name of a shared one (best for many processes),
        or a CSV or Parquet file.
    obs : {"dict", "flat"}
        A dict of arrays, or one float32 array of the same numbers.
    panel_options : mapping, optional
        Keywords for opening `panel`, such as ``{"macro": ["SP500"]}`` for a file or
        ``{"dir": ...}`` for a name.
    render_mode : {"rgb_array"}, optional
        Makes :meth:`render` draw prices with trades, value against buying and holding, and
        drawdown. Buying and holding counts the dividends and splits that settings name. Needs
        matplotlib, and records every step.
    **settings : object
        Settings by name: those of :class:`PortfolioSettings`.

    Raises
    ------
    EnvError
        If a setting is out of its range, or the panel cannot serve it.
    ArgumentError, NotFoundError, PanelError
        If the panel cannot be opened.

    Notes
    -----
    Observations are those of the vector environment without the leading axis; single numbers are
    arrays of shape ``(1,)``. The reward is a ``float``, the flags are ``bool``. After an end the
    next call has to be ``reset``.

    Examples
    --------
    >>> from backcast.envs import PortfolioEnv
    >>> env = PortfolioEnv("prices.csv", obs="flat")  # doctest: +SKIP
    >>> obs, info = env.reset(seed=7)  # doctest: +SKIP
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    @explained
    def __init__(
        self,
        panel: PanelLike,
        *,
        obs: ObsForm = "dict",
        panel_options: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        **settings: Unpack[PortfolioSettings],
    ) -> None:
        self._open(
            panel,
            None,
            settings,
            obs=obs,
            mode=AutoresetMode.DISABLED,
            reuse=False,
            panel_options=panel_options,
            render_mode=render_mode,
        )
        self.render_mode = render_mode
        self.observation_space, self.action_space = self._spaces(obs)
        self._rebuild = partial(
            type(self),
            panel,
            obs=obs,
            panel_options=panel_options,
            render_mode=render_mode,
            **settings,
        )

    @explained
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode.

        Parameters
        ----------
        seed : int, optional
            New seed of the stream of random numbers; None continues the stream.
        options : dict, optional
            ``"start_day"``: an int or a date, where to begin instead of on a drawn day.

        Returns
        -------
        (dict or ndarray, dict)
            Observation and info (empty).

        Raises
        ------
        EnvError
            If the seed or day is not valid; nothing has changed then.
        """
        result = self._batch.reset(seed=seed, options=options)
        # Days are drawn in Rust; `np_random` is seeded for callers that draw from it.
        super().reset(seed=None if seed is None else int(seed))
        return result

    def step(self, action: ArrayLike) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Trade one day.

        Parameters
        ----------
        action : array_like, shape (T,)
            By default from -1 (sell ``hmax`` shares) to 1 (buy as many); else numbers of the
            setting `actions`.

        Returns
        -------
        (dict or ndarray, float, bool, bool, dict)
            Observation, reward, terminated, truncated, info: empty, but with ``metrics`` at an
            end, and with the entries of ``step_info``.

        Raises
        ------
        EnvError
            If an action is not in the action space, or the episode has ended. Nothing has changed
            then. Also if a reward of your own returns no finite number; the step was taken then.
        """
        return self._step(action)

    @explained
    def history(self, before: bool = False) -> dict[str, Any]:
        """Return a recorded episode, day by day.

        Parameters
        ----------
        before : bool, default False
            Return the episode before the running one instead.

        Returns
        -------
        dict
            Of an episode with S steps. By day: ``day`` int32 ``[S + 1]``, ``date`` (list) and
            ``close`` float64 ``[S + 1, T]``, NaN without a row; ``cash`` float64 ``[S + 1]`` and
            ``shares`` int32 ``[S + 1, T]`` at the start of the day; ``value`` float64 ``[S + 1]``
            at its close, before its orders. By step: shares ``bought``, ``sold`` and ``settled``
            int32 ``[S, T]``, and ``stopped`` bool ``[S, T]``. ``tickers`` is a list of T names.
            Settled are shares of tickers that left the market. All numbers of shares are float64 if
            `fractional`, and those of short positions are negative.

        Raises
        ------
        EnvError
            If there is no such episode, or nothing is recorded.
        """
        return self._batch.history(0, before)

    @explained
    def metrics_so_far(self) -> dict[str, float]:
        """Return the metrics of the running episode so far, even if a wrapper cuts it.

        Returns
        -------
        dict
            Metrics as in ``infos["metrics"]``, as plain numbers, up to the last step; those of an
            ended episode until the next reset.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self._batch.metrics_so_far()

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the running episode, or the one before if it has only begun.

        Returns
        -------
        ndarray
            A picture, uint8 ``[480, 640, 3]``; None without a ``render_mode``.

        Raises
        ------
        EnvError
            Before the first reset.
        MissingExtraError
            If matplotlib is not installed.
        """
        return None if self.render_mode is None else picture(self._batch, 0)

    def close(self) -> None:
        """Release the panel. Closing again does nothing."""
        self._batch.close()
