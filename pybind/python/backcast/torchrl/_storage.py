"""A storage for TorchRL's replay buffers whose elements lie in a ring."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import torch
from torchrl.data.replay_buffers import TensorStorage
from torchrl.data.replay_buffers.storages import Storage as TorchRLStorage

import backcast as bc
from backcast._calls import explained
from backcast._counts import count_of
from backcast._trees import nested
from backcast.errors import ArgumentError, ArgumentTypeError, LappedError, SampleError
from backcast.torchrl._elements import (
    as_tensordict,
    chosen,
    clones_of,
    gathered,
    positions_of,
    refuse_assignment,
    tensordict_of,
)
from backcast.torchrl._layout import Key, Layout
from backcast.torchrl._places import Places
from backcast.torchrl._saving import RingCheckpointer, checkpointer_of, load_state, state_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from tensordict import TensorDictBase

# Batches of several environments, flattened, begin with another observation where the next one's
# steps begin. The cut there is meant; other writers are warned of it.
warnings.filterwarnings(
    "ignore", category=bc.errors.WriterWarning, module=r"backcast\.torchrl\._storage"
)
_IN_PLACE = (
    "stored elements are not changed in place: a ring appends rows, and other processes may be "
    "reading these; extend the buffer with the changed elements, or draw, change and keep them "
    "elsewhere"
)


class Storage(TensorStorage):
    """Keeps the elements of a ``TensorDictReplayBuffer`` in a ring of shared memory.

    Elements are TensorDicts of one transition each, in TorchRL's layout or any other. A key that is
    at the root and below ``next``, such as ``observation``, is stored once: the value below
    ``next`` is that of the next row, or of the FINAL row of the episode. Positions are written
    round robin, as ``TensorDictRoundRobinWriter`` does, and read in any order.

    Parameters
    ----------
    max_size : int
        Elements that the storage keeps.
    name : str, optional
        Name of the ring, by which other processes open the same storage and read it. Without a name
        the storage serves the process that made it.
    capacity : int, optional
        Rows of the ring. ``2 * max_size + 2`` if left out, which is enough for episodes of any
        length; one of n transitions takes n + 1 rows. With fewer the oldest elements may be
        overwritten early, and drawing them raises LappedError.
    shared : bool
        Let several processes write by turns, through one buffer with ``shared=True``; each
        ``extend`` then ends its last episode.
    exist : {"attach", "error", "replace"}
        Policy when the name is taken. Attaching continues after the newest element.
    persistent : bool
        Keep the ring when no process holds it.
    dir : path, optional
        Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    device : torch.device or str
        The CPU, where rings are. Move samples: ``rb.append_transform(lambda td: td.to("cuda"))``.

    Raises
    ------
    ArgumentError
        If an argument is invalid, or the ring of that name is no storage of `max_size` elements.
    ExistsError
        If the name is taken and `exist` is ``"error"``.

    Notes
    -----
    The ring is made by the first ``extend``, which shows the keys. Other processes see an element
    once its successor is stored or its episode has ended, so the newest one last; a process that
    is killed loses that one. The cost of a draw is one gather of the drawn rows.

    Examples
    --------
    >>> from torchrl.data import TensorDictReplayBuffer
    >>> rb = TensorDictReplayBuffer(storage=Storage(1_000), batch_size=32)
    >>> _ = rb.extend(TensorDict({"observation": torch.zeros(10, 3)}, [10]))
    >>> rb.sample()["observation"].shape
    torch.Size([32, 3])
    """

    ndim = 1
    supports_conditional_update = False
    _default_checkpointer = RingCheckpointer

    @explained
    def __init__(
        self,
        max_size: int,
        *,
        name: str | None = None,
        capacity: int | None = None,
        shared: bool = False,
        exist: Literal["attach", "error", "replace"] = "attach",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        size = count_of(max_size, "max_size", 1, ArgumentError)
        rows = 2 * size + 2
        if capacity is not None:
            rows = count_of(capacity, "capacity", 2, ArgumentError)
            if rows <= size:
                raise ArgumentError(
                    f"capacity is {rows} rows, and {size} elements take more; leave it out, or "
                    f"give {int(1.1 * size) + 2} for long episodes, {2 * size + 2} for any"
                )
        if not isinstance(shared, bool):
            raise ArgumentTypeError(f"shared is {shared!r}; give True or False")
        if exist not in ("attach", "error", "replace"):
            raise ArgumentError(f'exist is {exist!r}; give "attach", "error" or "replace"')
        if name is None and (exist != "attach" or persistent or shared):
            word = "shared" if shared else "persistent" if persistent else "exist"
            raise ArgumentError(f"{word}= needs a name, by which processes find the ring")
        if torch.device(device).type != "cpu":
            raise ArgumentError(
                f"device is {str(device)!r}, but a ring is in the memory of the CPU; move what is "
                f"drawn: rb.append_transform(lambda td: td.to({str(device)!r}))"
            )
        TorchRLStorage.__init__(self, size)
        self.device = torch.device("cpu")
        self.name = name
        self.shared = shared
        self._rows = rows
        self._exist = exist
        self._persistent = persistent
        self._dir = None if dir is None else str(dir)
        self._forget_handles()
        if name is not None:
            self._attach(required=False)
            if self._ring is not None and exist == "error":
                self.close()
                raise bc.ExistsError(
                    f'ring `{name}` exists; give another name, or exist="attach" or "replace"'
                )

    # The ring

    @property
    def ring(self) -> bc.ReplayBuffer:
        """The ring that holds the elements, for samplers, snapshots and statistics.

        Raises
        ------
        SampleError
            If nothing was stored yet.
        """
        self._check_process()
        if self._ring is None:
            self._attach(required=False)
        if self._ring is None:
            raise SampleError(
                "the storage is empty: its ring is made by the first extend, which shows the keys"
            )
        return self._ring

    def close(self) -> None:
        """Close the handles of this process; the newest element becomes visible to others."""
        for handle in (self._writer, self._reader, self._ring):
            if handle is not None:
                handle.close()
        is_gone = self.name is None and self._ring is not None
        self._forget_handles()
        self._closed = is_gone

    def _forget_handles(self) -> None:
        self._pid = os.getpid()
        self._closed = False  # A ring without a name is gone with its handle.
        self._ring: bc.ReplayBuffer | None = None
        self._reader: bc.Sampler | None = None
        self._writer: bc.Writer | None = None
        self._layout: Layout | None = None
        self._places: Places | None = None
        # The newest element, and the index of its row, while the row has no successor.
        self._pending: tuple[int, dict[Key, torch.Tensor]] | None = None
        self._keeps_length = False  # Whether the next `len` is that of the last `[:]`.

    def _check_process(self) -> None:
        """Attach again in a forked child, where the handles of the parent are void."""
        if self._closed:
            raise bc.ClosedError("the storage is closed, and its ring without a name is gone")
        if self._pid == os.getpid():
            return
        was_open = self._ring is not None
        if was_open and self.name is None:
            raise ArgumentError(
                "this storage has no name, so a child process cannot open it; give "
                'Storage(..., name="...")'
            )
        self._forget_handles()
        if was_open:
            self._attach(required=True)

    def _attach(self, *, required: bool) -> None:
        # The first `extend` replaces the ring, and later ones attach.
        if self.name is None or self._exist == "replace":
            return
        try:
            ring = bc.ReplayBuffer.attach(self.name, dir=self._dir)
        except bc.NotFoundError:
            if required:
                raise
            return
        try:
            layout = Layout.in_schema(ring.schema, self.max_size, self.name)
        except ArgumentError:
            ring.close()
            raise
        self._open(ring, layout)

    def _open(self, ring: bc.ReplayBuffer, layout: Layout) -> None:
        self._ring, self._layout = ring, layout
        self._places = Places(ring, self.max_size, layout.position)
        self._places.refresh()
        # Copies, because samples are changed in place by transforms.
        self._reader = ring.sampler(seed=0, copy=True)

    def _create(self, layout: Layout) -> None:
        ring = bc.ReplayBuffer.create(
            self.name,
            layout.schema,
            capacity=self._rows,
            exist="error" if self.name is None else self._exist,
            persistent=self._persistent,
            # A lease in the way would make the writer drop elements.
            lane_policy="overwrite",
            dir=self._dir,
        )
        self._exist = "attach"  # A second creation in this process or a child attaches.
        self._open(ring, layout)

    @property
    def _found(self) -> Places | None:
        """Places of all elements that are stored by now."""
        before = None if self._places is None else self._places.next_position
        places = self._refresh()
        # Another process stored or cleared. A shared cursor moves while others store.
        if places is not None and before not in (None, places.next_position) and not self.shared:
            self._set_cursors(places.next_position)
        return places

    def _refresh(self) -> Places | None:
        """Find all elements; leave the cursor, which TorchRL moves before it stores."""
        self._check_process()
        if self._ring is None:
            self._attach(required=False)
        if self._places is not None:
            self._places.refresh()
        return self._places

    @property
    def _known(self) -> Places | None:
        """Places that the last ``len`` or ``[:]`` found: one draw of a sampler agrees on them."""
        self._check_process()
        return self._found if self._places is None else self._places

    # Storing

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Store elements at positions that follow the newest one; TorchRL's writer calls it.

        Parameters
        ----------
        cursor : int or sequence of int
            Positions, round robin. Of more than ``max_size`` elements the last ones are stored.
        data : TensorDict or list of TensorDict
            One element for each position.
        set_cursor : bool
            False changes elements in place, which is refused.

        Raises
        ------
        ArgumentError
            If elements would be changed in place, or the positions do not follow the newest one.
        ArgumentTypeError
            If `data` is no TensorDict, or holds what no column can hold.
        AppendError
            If the elements have other keys, dtypes or shapes than those stored.
        WriterError
            If another process writes, and the storages are not ``shared``.
        """
        try:
            if not set_cursor:
                raise ArgumentError(_IN_PLACE)
            self._store(cursor, data)
        except Exception:
            # TorchRL has moved its cursor before.
            self._align_writers()
            raise

    def _store(self, cursor: Any, data: Any) -> None:
        single = isinstance(cursor, int | np.integer) or getattr(cursor, "ndim", None) == 0
        if isinstance(data, list):
            data = torch.stack([tensordict_of(element) for element in data])
        data = tensordict_of(data)
        dims = 0 if single else 1
        if data.batch_dims != dims:
            raise ArgumentError(
                f"the elements have the batch size {list(data.batch_size[dims:])}; an element is "
                "one transition, so flatten them: extend(data.reshape(-1))"
                if data.batch_dims > dims
                else "extend takes a TensorDict with a batch size, and add takes one without"
            )
        positions = positions_of(cursor, 1 if single else len(data), self.max_size)
        kept = min(positions.size, self.max_size)
        if kept < positions.size:
            positions, data = positions[-kept:], data[-kept:]
        self._refresh()
        layout = self._layout or Layout.of(data, dims, self.max_size)
        columns, following = layout.arrays_of(data, dims)
        ends = layout.ends_of(columns, kept)
        with self._writing(layout) as writer:
            places = self._refresh()
            assert places is not None
            places.check(positions)
            columns[layout.position] = positions
            following[layout.position] = (positions + 1) % self.max_size
            index = writer.extend(
                terminated=ends[0],
                truncated=ends[1],
                next_obs=nested(following.items()),
                **nested(columns.items()),
            )
            places.add(positions, index[:, 0])
            at = int(places.index[positions[-1]])
            unfinished = not (self.shared or ends[0][-1] or ends[1][-1])
            element = data if single else data[-1]
            self._pending = (at, clones_of(element, layout)) if unfinished else None

    def _writing(self, layout: Layout) -> AbstractContextManager[bc.Writer]:
        if self._ring is None:
            self._create(layout)
        assert self._ring is not None
        if self.shared:
            return self._ring.writer(1, "disabled")
        if self._writer is None:
            self._writer = self._ring.writer(1, "disabled")
        return nullcontext(self._writer)

    def _align_writers(self) -> None:
        """Set the cursors of attached buffers to the position after the newest element."""
        places = self._found
        self._set_cursors(0 if places is None else places.next_position)

    def _set_cursors(self, cursor: int) -> None:
        for buffer in self._attached_entities:
            writer: Any = getattr(buffer, "_writer", None)
            if hasattr(writer, "_cursor"):
                writer._cursor = cursor

    # Reading

    def get(self, index: Any) -> TensorDictBase:
        """Return the elements at some positions, as tensors of their own.

        Parameters
        ----------
        index : int, slice, or sequence of int or bool
            Positions; negative ones count from the end.

        Returns
        -------
        TensorDict
            Of batch size ``[B]``, or ``[]`` for one position.

        Raises
        ------
        SampleError
            If nothing was stored yet, or a position has no element.
        LappedError
            If the row of an element is overwritten or dropped.
        """
        if isinstance(index, tuple) and len(index) == 1:
            index = index[0]
        if is_all := isinstance(index, slice) and index == slice(None):
            refuse_assignment(_IN_PLACE)
        ring = self.ring
        single = isinstance(index, int | np.integer) or getattr(index, "ndim", None) == 0
        # Samplers choose positions by `len` or `[:]`; new elements would move under them.
        places = self._found if single or isinstance(index, slice) else self._known
        assert places is not None
        self._keeps_length = is_all
        try:
            positions = chosen(index, len(places))
        except SampleError:
            self._refresh()
            positions = chosen(index, len(places))
        found = self._gathered(ring, places.index[positions], positions)
        elements = as_tensordict(found, len(positions))
        return elements[0] if single else elements

    def _gathered(
        self, ring: bc.ReplayBuffer, index: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> dict[Key, torch.Tensor]:
        assert self._reader is not None
        assert self._layout is not None
        if not index.size:
            return self._layout.empty()
        tensors, found = gathered(self._reader, index, self._layout.tensors_of)
        if found.all():
            return tensors
        lost = ~found
        if self._pending is not None:
            newest, element = self._pending
            ours = lost & (index == newest)
            if ours.any():
                at = torch.from_numpy(ours)
                for key, value in element.items():
                    tensors[key][at] = value
                lost &= ~ours
        if lost.any():
            first = int(positions[lost.argmax()])
            raise LappedError(
                f"the element at position {first} is gone: its row was overwritten or dropped, "
                f"because the ring has {ring.lane_capacity} rows for {self.max_size} elements; "
                "give the storage a larger capacity, or extend it again"
            )
        return tensors

    def __len__(self) -> int:
        """Return how many elements can be read here; after ``[:]`` how many that returned."""
        places, self._keeps_length = self._known if self._keeps_length else self._found, False
        return 0 if places is None else len(places)

    def contains(self, item: Any) -> Any:
        """Return whether positions have an element; a bool, or a tensor of them."""
        size = len(self)
        if isinstance(item, torch.Tensor):
            return (item < size) & (item >= -size)
        return -size <= int(item) < size

    def _empty(self) -> None:
        """Drop all elements, for every process; ``rb.empty()`` calls it."""
        places = self._found
        if places is None:
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._pending = None
        self.ring.clear()
        places.refresh()
        places.begin_at(0)

    # Methods that TorchRL's samplers and writers call.

    @property
    def initialized(self) -> bool:
        """Whether the keys of the elements are known."""
        return self._found is not None

    @property
    def _is_full(self) -> bool:
        places = self._known
        return places is not None and len(places) == self.max_size

    @property
    def _len(self) -> int:
        return len(self)

    @property
    def _len_along_dim0(self) -> int:
        return len(self)

    @property
    def shape(self) -> torch.Size:
        """Number of elements, as a shape."""
        return torch.Size([len(self)])

    @property
    def _total_shape(self) -> torch.Size:
        return torch.Size([self.max_size])

    def _max_size_along_dim0(self, **_data: Any) -> int:
        size: int = self.max_size
        return size

    @property
    def _last_cursor(self) -> int | None:
        return self._last_cursor_index

    @_last_cursor.setter
    def _last_cursor(self, cursor: Any) -> None:
        """Ignore the cursor: the ring knows the newest element."""

    @property
    def _last_cursor_index(self) -> int | None:
        places = self._known
        last: int | None = None if places is None else places.last_position
        return last

    @property
    def _mutation_revision(self) -> int:
        """Number that grows with every change, by any process."""
        places = self._found
        if places is None:
            return 0
        revision: int = sum(self.ring.lane_span(0))
        return revision

    def _bump_mutation_revision(self) -> NoReturn:
        raise ArgumentError(_IN_PLACE)  # Buffers have changed what `get` returned, a copy.

    def flatten(self) -> Storage:
        """Return the storage itself."""
        return self

    # Saving

    @property
    def checkpointer(self) -> Any:
        """Object that ``dumps`` and ``loads`` of the buffer call."""
        return self._checkpointer

    @checkpointer.setter
    def checkpointer(self, value: Any) -> None:
        self._checkpointer = checkpointer_of(value)
        # A buffer sets it when its writer exists: let that continue after the newest element.
        if self._attached_entities:
            self._align_writers()

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Replace the elements by those that ``dumps`` saved; see :class:`RingCheckpointer`."""
        self.checkpointer.loads(self, path)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the elements, oldest first."""
        return state_of(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Replace the elements by those of a state.

        Raises
        ------
        ArgumentError
            If the state is that of another kind of storage, or has more elements than fit.
        """
        load_state(self, state_dict)

    def _begin_at(self, position: int, elements: TensorDictBase) -> None:
        """Empty the storage, and let the next element have a given position."""
        layout = self._layout or Layout.of(elements, 1, self.max_size)
        layout.arrays_of(elements[:1], 1)
        self._empty()
        if self._ring is None:
            self._create(layout)
        assert self._places is not None
        self._places.begin_at(position)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings: another process attaches by the name.

        Raises
        ------
        ArgumentError
            If the ring has no name.
        """
        if self.name is None and (self._ring is not None or get_spawning_popen() is not None):
            raise ArgumentError(
                "a storage without a name serves the process that made it; give "
                'Storage(..., name="...") to share or pickle it, or use dumps'
            )
        state: dict[str, Any] = super(TensorStorage, self).__getstate__()
        for handle in ("_ring", "_reader", "_writer", "_layout", "_places", "_pending"):
            del state[handle]
        del state["_pid"], state["_closed"], state["_keeps_length"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the settings, and attach at the first use."""
        TorchRLStorage.__setstate__(self, state)
        self._forget_handles()

    def __repr__(self) -> str:
        """Show how many elements there are, and the ring."""
        name = "no name" if self.name is None else f"name={self.name!r}"
        return f"backcast.torchrl.Storage({self.max_size}, {name}: {len(self)} elements)"
