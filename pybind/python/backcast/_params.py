"""Parameters of a policy in shared memory: the newest weights, from the learner to its actors."""

from __future__ import annotations

import os
from typing import Any, Literal

from backcast import _trees
from backcast._calls import explained
from backcast._native import FlatParams, _load_params, _saved_arrays
from backcast._params_view import ParamsHandle, ParamsView
from backcast.errors import SchemaError

__all__ = ["Params", "ParamsView"]


class Params(ParamsHandle):
    """The newest version of a named set of arrays in shared memory.

    Create parameters with :meth:`create`, or join them from any process with :meth:`attach`. One
    handle at a time publishes; any number pull. Publishing never waits for a reader, and a pull
    never waits for the publisher. A pull is never torn and never older than the one before. A
    publisher that is killed leaves the last whole version. A handle is a context manager, and
    pickles by name. The parameters are removed with their last holder, unless they are persistent.

    Examples
    --------
    >>> import numpy as np
    >>> like = {"body": {"weight": np.zeros((2, 3), "f4")}, "step": np.int64(0)}
    >>> params = bc.Params.create(None, like)  # a name shares them
    >>> params.publish({"body": {"weight": np.ones((2, 3), "f4")}, "step": np.int64(10)})
    1
    >>> params.pull()
    1
    >>> params.arrays["body"]["weight"].sum(), params.pull() is None
    (np.float32(6.0), True)
    >>> params.close()
    """

    _native: FlatParams
    _template: Any
    _arrays: list[Any] | None
    _made_by = "Params.create(name, like) or, for parameters that exist, Params.attach(name)"

    @classmethod
    def _of(cls, native: FlatParams, like: Any = None) -> Params:
        self = object.__new__(cls)
        self._native = native
        self._names = [name for name, _, _ in native.arrays]
        self._arrays = None
        self._template = None
        if like is not None:
            _ordered(self._names, native.label, _trees.leaves(like, "like"), "like")
            self._template = _trees.mapped(like, lambda _, leaf: _trees.kind_of(leaf))
        return self

    @classmethod
    @explained
    def create(
        cls,
        name: str | None,
        like: Any,
        *,
        exist: Literal["error", "attach", "replace"] = "error",
        persistent: bool = False,
        versions_kept: int = 1,
        spare_slots: int = 2,
        reader_slots: int = 64,
        dir: str | os.PathLike[str] | None = None,
    ) -> Params:
        """Create parameters with the names, dtypes and shapes of ``like``. Publishes nothing.

        Parameters
        ----------
        name : str or None
            Name for other processes; None for private memory.
        like : nested arrays
            Arrays, tensors and numbers in dicts, lists and tuples, such as ``net.state_dict()``, or
            a pytree of JAX. Names are joined by ``/``. The values are not used.
        exist : {"error", "attach", "replace"}, default "error"
            Policy when the name is taken.
        persistent : bool, default False
            Whether the parameters stay when no process holds them.
        versions_kept : int, default 1
            Versions that stay readable while another is written, at least, from 1 up. Older ones
            stay too until their slots are needed, up to ``versions_kept + spare_slots`` in all.
        spare_slots : int, default 2
            Slots beyond those of the kept versions, from 1 up. Memory is
            ``versions_kept + spare_slots`` times the arrays.
        reader_slots : int, default 64
            Handles that can have views at a time.
        dir : path, optional
            Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.

        Returns
        -------
        Params

        Raises
        ------
        SchemaError
            If ``like`` has no arrays, or some that cannot be stored.
        ExistsError
            If the name is taken, or with ``exist="attach"`` by parameters of other arrays or slots.
        SpaceError
            If there is not enough memory.
        """
        described = []
        for path, leaf in _trees.leaves(like, "like"):
            array, dtype = _trees.as_array(leaf)
            described.append((path, dtype, list(array.shape)))
        native = FlatParams.create(
            name,
            described,
            exist=exist,
            persistent=persistent,
            versions_kept=versions_kept,
            spare_slots=spare_slots,
            reader_slots=reader_slots,
            dir=dir,
        )
        return cls._of(native, like)

    @classmethod
    @explained
    def attach(
        cls, name: str, like: Any = None, *, dir: str | os.PathLike[str] | None = None
    ) -> Params:
        """Attach to the parameters of that name.

        Parameters
        ----------
        name : str
            Name of the parameters.
        like : nested arrays, optional
            Structure and array library of what :attr:`arrays` and :meth:`latest` return; by default
            nested dicts of NumPy arrays, in which lists and tuples are dicts with the keys ``"0"``,
            ``"1"`` and so on.
        dir : path, optional
            Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.

        Returns
        -------
        Params

        Raises
        ------
        NotFoundError
            If there are no parameters of that name.
        SchemaError
            If ``like`` has other names.
        CorruptError
            If the files are not valid parameters of this version.
        """
        return cls._of(FlatParams.attach(name, dir=dir), like)

    @classmethod
    @explained
    def load(
        cls,
        snapshot: str | os.PathLike[str],
        params: str,
        name: str | None = None,
        *,
        like: Any = None,
        store: str | os.PathLike[str] | None = None,
        exist: Literal["error", "replace"] = "error",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
    ) -> Params:
        """Make parameters from those that ``buf.snapshot(..., params=)`` saved.

        The version and every byte are as they were; the next version is one above. No process finds
        the parameters before they are complete.

        Parameters
        ----------
        snapshot : str or path
            ``"pong@epoch-10"``, or ``"pong"`` for the newest snapshot of that name; or a path that
            ends in one of these, whose folder is the store.
        params : str
            Name that they were saved under.
        name : str, optional
            Name of the parameters, instead of the saved one.
        like : nested arrays, optional
            Structure and array library, as for :meth:`attach`.
        store : path, optional
            Directory of snapshots; by default ``BACKCAST_STORE``, else
            ``~/.local/share/backcast``.
        exist : {"error", "replace"}, default "error"
            Treatment of a taken name.
        persistent : bool, default False
            Whether the parameters stay when no process holds them.
        dir : path, optional
            Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.

        Returns
        -------
        Params

        Raises
        ------
        NotFoundError
            If there is no such snapshot, or it has no such parameters.
        CorruptError
            If the file is missing, cut or changed; the message names the part.
        SchemaError
            If ``like`` has other names.
        ExistsError
            If the name is taken.
        SpaceError
            If there is not enough memory.
        """
        if like is not None:
            # Before anything is made or replaced.
            leaves = _trees.leaves(like, "like")
            names = _saved_arrays(snapshot, params, store=store)
            _ordered(names, f"saved parameters {params!r}", leaves, "like")
        native = _load_params(
            snapshot,
            params,
            name,
            store=store,
            exist=exist,
            persistent=persistent,
            dir=dir,
        )
        return cls._of(native, like)

    @explained
    def publish(self, arrays: Any, version: int | None = None) -> int:
        """Publish arrays. The first call makes this handle the publisher until it is closed.

        Parameters
        ----------
        arrays : nested arrays
            One array of equal dtype and shape for each name.
        version : int, optional
            A version above the newest one; by default the next.

        Returns
        -------
        int
            The version.

        Raises
        ------
        ArgumentError
            If the version is not above the newest one.
        InUseError
            If another handle publishes; the message names its process.
        LeaseError
            If views hold all spare slots.
        SchemaError
            If a name, dtype or shape differs.
        """
        leaves = self._ordered(arrays, "arrays")
        return self._native.publish([_trees.as_array(leaf)[0] for leaf in leaves], version)

    @explained
    def claim(self) -> int:
        """Become the publisher without publishing.

        Returns
        -------
        int
            The newest version.

        Raises
        ------
        InUseError
            If another handle publishes.
        """
        return self._native.claim()

    @explained
    def pull(self, out: Any = None) -> int | None:
        """Copy the newest version, unless this handle has it already.

        A handle has the versions that its ``pull()`` copied or its ``latest()`` returned.

        Parameters
        ----------
        out : nested arrays, optional
            Arrays or tensors that are filled in place, such as ``net.state_dict()``; by default
            :attr:`arrays`.

        Returns
        -------
        int or None
            The version, or None if there is nothing new.

        Raises
        ------
        SchemaError
            If a name, dtype or shape differs, or an array cannot be written to.
        LappedError
            If versions are published faster than this process copies one.
        """
        if not self._native.is_new():
            return None
        if out is None:
            return self._native.pull(self._flat())
        leaves = self._ordered(out, "out")
        direct = [_trees.writable(leaf) for leaf in leaves]
        if all(array is not None for array in direct):
            return self._native.pull(direct)  # type: ignore[arg-type]
        flat = [
            own if array is None else array for array, own in zip(direct, self._flat(), strict=True)
        ]
        version = self._native.pull(flat)
        if version is not None:
            for leaf, array, copied in zip(leaves, direct, flat, strict=True):
                if array is None:
                    _trees.write(leaf, copied)
        return version

    @property
    def arrays(self) -> Any:
        """Arrays that :meth:`pull` fills without ``out``; zeros before the first pull.

        Their structure is that of ``like``. Arrays of JAX are made anew by each access.
        """
        return self._shaped(self._flat())

    @explained
    def latest(self, version: int | None = None) -> Any:
        """Return the newest version, or one that is kept, in new arrays.

        The newest one counts as pulled.

        Parameters
        ----------
        version : int, optional
            One of :attr:`versions`; by default the newest.

        Returns
        -------
        nested arrays
            Of the structure and library of ``like``.

        Raises
        ------
        NotFoundError
            If none is published yet, or the version is not kept any more.
        """
        return self._shaped(self._native.read(version)[1])

    @explained
    def view(self, version: int | None = None) -> ParamsView:
        """Pin the newest version, or one that is kept, and return it in place.

        Parameters
        ----------
        version : int, optional
            One of :attr:`versions`; by default the newest.

        Returns
        -------
        ParamsView
            Read-only arrays without a copy; a context manager.

        Raises
        ------
        NotFoundError
            If none is published yet, or the version is not kept any more.
        LeaseError
            If all reader slots are taken.
        """
        return ParamsView._of(self._native.view(version), self._names)

    @explained
    def wait(self, version: int = 1, timeout: float | None = None) -> int:
        """Wait until a version is published. Copies nothing.

        Parameters
        ----------
        version : int, default 1
            Version to wait for; a later one ends the wait too.
        timeout : float, optional
            Seconds to wait at most; without end when left out.

        Returns
        -------
        int
            The newest version.

        Raises
        ------
        WaitTimeoutError
            If the time ran out.
        NotFoundError
            If the parameters were removed or replaced.
        """
        return self._native.wait(version, timeout)

    @property
    def version(self) -> int:
        """The newest version; 0 before the first one."""
        return self._native.version

    @property
    def pulled(self) -> int:
        """The newest version that this handle has pulled, or read by ``latest()``; 0 before."""
        return self._native.pulled

    @property
    def versions(self) -> list[int]:
        """The versions that can be read, oldest first: ``versions_kept``, and often older ones."""
        return self._native.versions

    @property
    def name(self) -> str | None:
        """The name, or None for private memory."""
        return self._native.name

    @explained
    def stats(self) -> dict[str, Any]:
        """Return properties and counters.

        Returns
        -------
        dict
            Among others ``version``, ``versions``, ``published``, ``refused`` (publishes that found
            all spare slots under views), ``pulls``, ``retries``, ``publishers`` and
            ``published_unix_ns``.

        Raises
        ------
        ClosedError
            If the handle was closed.
        """
        return self._native.stats()

    @explained
    def unlink(self) -> None:
        """Remove the name. Processes that have the parameters open keep them.

        Raises
        ------
        ClosedError
            If the handle was closed.
        """
        self._native.unlink()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._native, self._template)

    def _ordered(self, tree: Any, what: str) -> list[Any]:
        """Return the leaves of a tree in the order of the names."""
        return _ordered(self._names, self._native.label, _trees.leaves(tree, what), what)

    def _flat(self) -> list[Any]:
        """Return the arrays of this handle, in order."""
        if self._arrays is None:
            self._arrays = self._native.zeros()
        return self._arrays

    def _shaped(self, flat: list[Any]) -> Any:
        """Return arrays in the structure of ``like``."""
        named = dict(zip(self._names, flat, strict=True))
        if self._template is None:
            return _trees.nested(named.items())
        halves = {name for name, dtype, _ in self._native.arrays if dtype == "bfloat16"}
        return _trees.mapped(
            self._template,
            lambda name, kind: _trees.from_array(named[name], kind, name in halves),
        )


def _ordered(names: list[str], label: str, leaves: list[tuple[str, Any]], what: str) -> list[Any]:
    """Return leaves in the order of the names. Errors call the owner of the names ``label``."""
    if [name for name, _ in leaves] == names:
        return [leaf for _, leaf in leaves]
    given = dict(leaves)
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in set(names)]
    if missing or unknown:
        problem = f"lacks `{missing[0]}`" if missing else f"has `{unknown[0]}` more"
        raise SchemaError(
            f"{what} {problem}; {label} has {len(names)} arrays, such as "
            f"`{names[0]}`: give each one under its name"
        )
    return [given[name] for name in names]


def _restore(native: FlatParams, template: Any) -> Params:
    params = Params._of(native)
    params._template = template
    return params
