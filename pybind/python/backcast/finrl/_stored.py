"""Size, files, name and closing of a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from backcast._calls import explained
from backcast.errors import ArgumentTypeError

if TYPE_CHECKING:
    import os

    from backcast import Panel
    from backcast._native import TransitionRing


class StoredTransitions:
    """Ring of :class:`VecReplayBuffer`, which creates it or attaches to it."""

    _ring: TransitionRing
    _batch_size: int

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that names what replaces a method of FastFinRL's buffers."""
            hint = "; add(...) adds transitions of whole states" if name == "add_transition" else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    @explained
    def size(self) -> int:
        """Count the transitions stored.

        Returns
        -------
        int

        Raises
        ------
        ClosedError
            If the buffer was closed.
        """
        return self._ring.size()

    @explained
    def capacity(self) -> int:
        """Return the maximum number of transitions.

        Returns
        -------
        int

        Raises
        ------
        ClosedError
            If the buffer was closed.
        """
        return self._ring.capacity

    @explained
    def clear(self) -> None:
        """Forget all transitions, in every process.

        Raises
        ------
        InUseError
            If other live processes hold places for adders: they have to close their buffer first.
        """
        self._ring.clear()

    @explained
    def save(self, path: str | os.PathLike[str]) -> None:
        """Save transitions and the state of the draws to a file, which is replaced atomically.

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        self._ring.save(path)

    @explained
    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace the transitions by those of a file; a smaller buffer keeps the newest.

        The lag of indicators and the end of futures stay those of this buffer.

        Parameters
        ----------
        path : path
            File that :meth:`save` wrote.

        Raises
        ------
        StorageError
            If it cannot be read.
        CorruptError
            If it is cut, changed, or was not written by :meth:`save`.
        PanelError, SchemaError
            If its transitions are of another market, or of other sizes. In each case what was
            stored stays.
        """
        self._ring.load(path)

    @explained
    def close(self) -> None:
        """Release the buffer; a shared one stays for its other holders."""
        self._ring.close()

    @explained
    def unlink(self) -> None:
        """Remove a shared buffer's name; processes that have it open keep it.

        Raises
        ------
        ClosedError
            If the buffer was closed.
        """
        self._ring.unlink()

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of one environment's action."""
        return tuple(self._ring.action_shape)

    @property
    def n_objectives(self) -> int:
        """Rewards of one transition."""
        return self._ring.n_objectives

    @property
    def batch_size(self) -> int:
        """Transitions of a batch, unless ``sample`` is given another number."""
        return self._batch_size

    @property
    def transition_bytes(self) -> int:
        """Memory of one transition, in bytes."""
        return self._ring.transition_bytes

    @property
    def panel(self) -> Panel:
        """The market."""
        return self._ring.panel

    @property
    def name(self) -> str | None:
        """Name that other processes attach to."""
        return self._ring.name

    def __copy__(self) -> Self:
        """Attach to a named buffer again; one without a name cannot be copied."""
        for what, name in (("a buffer", self.name), ("the buffer's panel", self.panel.name)):
            if name is None:
                raise ArgumentTypeError(
                    f"{what} without a name is private to its process and is not copied; create it "
                    "with a name, and copies join the buffer"
                )
        by_name: Any = self.__reduce__()
        join, arguments = by_name
        joined: Self = join(*arguments)
        return joined

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Attach to a named buffer again, as a shallow copy does."""
        return self.__copy__()

    def __len__(self) -> int:
        """Count the transitions stored."""
        return self._ring.size()

    def __enter__(self) -> Self:
        """Close at the end of a ``with`` block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Show name and fill."""
        return f"<backcast.finrl.{type(self).__name__}: {self._ring}>"
