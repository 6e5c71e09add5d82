"""Pictures of sampled windows, and of what samplers draw.

>>> import backcast as bc
>>> from backcast import plot
>>> buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
>>> with buf.writer() as w:
...     for step in range(50):
...         at = w.append(obs=step**0.5, reward=1.0, terminated=step % 20 == 19, truncated=False)
>>> axes = plot.window(buf.sampler(seed=1, history=8, future=4).sample(16), 3, columns=["obs"])
>>> axes.get_xlabel()
'steps from the drawn transition'

Needs matplotlib: ``pip install 'backcast[plot]'``. It is imported when a picture is drawn, not
before. Its global state (pyplot, rcParams) does not change, and no screen is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from backcast._calls import explained
from backcast._counts import whole_of
from backcast.errors import ArgumentTypeError, MissingExtraError
from backcast.plot._read import market_window, replay_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["stats", "window"]

_MARKET = {"history", "history_mask", "future", "future_mask", "open", "listed"}


@explained
def window(
    batch: Mapping[str, Any],
    i: int,
    *,
    ticker: int = 0,
    columns: Sequence[str] | None = None,
    action: str | None = "action",
    ax: Axes | None = None,
) -> Axes:
    """Draw one window of a batch: the history, the drawn transition or day, and the future.

    Prices become candles: blue and hollow where the close is at or above the open, orange and
    filled where it is below. Other columns become lines. The drawn transition or day is at 0 on
    the horizontal axis, the future is shaded, and masked places stay blank.

    Parameters
    ----------
    batch : Batch or dict
        A sampled batch, with or without ``history`` and ``future``, or the market windows that
        :meth:`backcast.Panel.windows` returns.
    i : int
        Number of the window in the batch, ``0 <= i < B``.
    ticker : int, default 0
        Number of the ticker, if prices have a ticker axis ``T``: market windows, and replay
        batches whose ``open`` is ``[B, H, T]``.
    columns : sequence of str, optional
        Columns of a replay batch to draw as lines, at most 6: ``"reward"``, ``"obs/speed"``, or one
        element of a column with axes of its own, ``"obs[2]"``. Left out, candles are drawn where
        there are columns ``open``, ``high``, ``low`` and ``close`` (also under one parent, as
        ``obs/open``), else every scalar column.
    action : str or None, default "action"
        Column whose sign marks buying (positive) and selling (negative) on candles. None marks
        nothing; a batch without an ``action`` that fits the prices is drawn without marks.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default the axes of a new figure, ``ax.figure``, which is not
        registered with pyplot.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``ax.figure.savefig("window.png")`` writes the picture.

    Raises
    ------
    ArgumentError
        If the batch has no window ``i``, no such ticker or column, or nothing that can be drawn;
        an ``ArgumentTypeError`` if an argument is of another type.
    MissingExtraError
        If matplotlib is not installed.

    Notes
    -----
    Reads ``O(H + F)`` numbers of the batch and copies them; the batch is not changed.
    """
    if not isinstance(batch, Mapping):
        raise ArgumentTypeError(
            f"batch is {_shown(batch)}; give what `sample` or `Panel.windows` returned"
        )
    i, ticker = (
        whole_of(number, name, "a whole number from 0 up")
        for name, number in {"i": i, "ticker": ticker}.items()
    )
    if columns is not None and (isinstance(columns, str) or not isinstance(columns, Sequence)):
        raise ArgumentTypeError(
            f"columns is {_shown(columns)}; give a list of names, such as ['reward', 'obs[0]']"
        )
    if not isinstance(action, str | None):
        raise ArgumentTypeError(f"action is {_shown(action)}; give the name of a column, or None")
    draw = _drawing()
    if ax is not None and not hasattr(ax, "plot"):
        raise ArgumentTypeError(f"ax is {_shown(ax)}; give axes of matplotlib, or leave it out")
    if batch.keys() >= _MARKET:
        read = market_window(batch, i, ticker, columns)
    else:
        read = replay_window(batch, i, ticker, columns, action)
    axes: Axes = draw(read, ax)
    return axes


@explained
def stats(stats: Mapping[str, Any], *, axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Draw the statistics of a sampler, or of a ring's readers, as four histograms.

    The histograms show the ages of transitions at their draw, the priorities, how often transitions
    were sampled, and rows beside effective rows. A histogram says "not counted" where the sampler
    counts none, such as priorities of uniform draws.

    Parameters
    ----------
    stats : dict
        Result of :meth:`backcast.Sampler.stats`. The result of
        :meth:`backcast.ReplayBuffer.stats` has ages alone, of all its readers together; one of its
        ``readers`` has those of that reader.
    axes : sequence of four matplotlib Axes, optional
        Axes to draw on: ages, priorities, times sampled, effective rows. A new figure when left
        out; it is ``axes[0].figure``.

    Returns
    -------
    list of Axes
        The four axes.

    Raises
    ------
    ArgumentTypeError
        If an argument is of another type, or ``axes`` are not four.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import backcast as bc
    >>> from backcast import plot
    >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    >>> with buf.writer() as w:
    ...     for step in range(50):
    ...         at = w.append(obs=step, terminated=False, truncated=False)
    >>> sampler = buf.sampler(seed=1, select=bc.Priority())
    >>> batch = sampler.sample(32)
    >>> [axes.get_xlabel() for axes in plot.stats(sampler.stats())][:2]
    ['age at the draw, newer rows', '(priority + eps) ** alpha']
    """
    wanted = ({"ages", "priorities", "times_sampled"}, {"ages", "slot"}, {"readers"})
    if not isinstance(stats, Mapping) or not any(stats.keys() >= keys for keys in wanted):
        raise ArgumentTypeError(
            f"stats is {_shown(stats)}; give the dict of `sampler.stats()`, or of `buffer.stats()`"
        )
    draw = _drawing("backcast.plot._stats")
    if axes is not None:
        axes = list(axes)
        if len(axes) != 4 or not all(hasattr(ax, "bar") for ax in axes):
            raise ArgumentTypeError(
                f"axes has {len(axes)} elements; give four axes of matplotlib, or leave it out"
            )
    drawn: list[Axes] = draw(stats, axes)
    return drawn


def _shown(value: object) -> str:
    return f"{value!r:.60}, a {type(value).__name__}"


def _drawing(module: str = "backcast.plot._draw") -> Any:  # noqa: ANN401 - needs matplotlib
    try:
        draw = import_module(module).draw
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise MissingExtraError(
            "backcast.plot draws with matplotlib, which is not installed; "
            "run `pip install 'backcast[plot]'`"
        ) from error
    return draw
