"""Batches of a buffer's ``sample``."""

from __future__ import annotations

from typing import Any


class Sample(tuple[Any, ...]):
    """The seven parts of a batch: ``(s, action, reward, s_next, done, mask, mask_next)``.

    Unpack it, or pass it to ``sample`` as ``out`` to fill it again.
    """

    # Memory of the batch. Copies and pickles are plain tuples of arrays without it.
    _memory: object

    def __reduce__(self) -> tuple[type[tuple[Any, ...]], tuple[list[Any]]]:
        """Pickle the arrays without the memory of the batch."""
        return tuple, (list(self),)
