"""Actor of a fleet: a function, a path to one, or a command; checked before a process starts."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import io
import os
import pickle
import pkgutil
import shutil
import sys
from dataclasses import dataclass
from multiprocessing import spawn
from types import FunctionType
from typing import TYPE_CHECKING, Any

from backcast._native import _closest_name
from backcast.errors import ArgumentError, ArgumentTypeError, FleetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WANTED = 'a function, a path such as "walk:act", or a command such as ["./walk", "--fast"]'


@dataclass(frozen=True)
class ActorSpec:
    """One actor, the same for all ranks."""

    label: str
    """Name in errors."""
    command: tuple[str, ...] | None
    """Program and its arguments; None if it is a function."""
    payload: bytes
    """Pickled preparation, function and arguments; empty if it is a command."""


class _ByName(pickle.Pickler):
    """Pickles functions and classes by name, as other processes import them.

    Refuses those of the main module where other processes cannot import it.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._importable = _main_is_importable()

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - any object
        """Reduce as usual, or refuse."""
        defined = isinstance(value, type | FunctionType) and value.__module__ == "__main__"
        if defined and not self._importable:
            raise pickle.PicklingError(
                f"{value.__qualname__} was defined in a session without a file, which other "
                "processes cannot import"
            )
        return NotImplemented


def spec_of(actor: object, args: object, path: str | None) -> ActorSpec:
    """Check an actor and its arguments.

    ``path`` is the ``PATH`` of its environment.
    """
    if isinstance(actor, tuple | list):
        return _command(actor, args, path)
    label = label_of(actor, args)
    return ActorSpec(label, None, _payload(label, actor, _listed(args)))


def label_of(actor: object, args: object) -> str:
    """Check a function or its path and its arguments; return its name in errors."""
    listed = _listed(args)
    if isinstance(actor, str):
        _find(actor)
        return actor
    if callable(actor):
        label = _label(actor)
        _check_call(label, actor, listed)
        return label
    raise ArgumentTypeError(f"actor is {actor!r}; give {_WANTED}")


def _listed(args: object) -> Sequence[Any]:
    if not isinstance(args, tuple | list):
        raise ArgumentTypeError(f"args is {args!r}; give a tuple, such as ('pong', 'policy')")
    return args


def _label(function: Any) -> str:  # noqa: ANN401 - any callable
    named = getattr(function, "func", function)  # functools.partial
    name = getattr(named, "__qualname__", type(named).__qualname__)
    return f"{getattr(named, '__module__', '?')}:{name}"


def words_of(words: Sequence[object], args: object) -> tuple[str, ...]:
    """Check the words of a command, and that it has no arguments beside them."""
    if not words or not all(isinstance(word, str | os.PathLike) for word in words):
        raise ArgumentTypeError(f"actor is {words!r}; a command is a list of at least one str")
    if _listed(args):
        raise ArgumentError(
            f"args is {args!r}, and the actor is a command; put its arguments into the command"
        )
    return tuple(os.fspath(word) for word in words if isinstance(word, str | os.PathLike))


def _command(words: Sequence[object], args: object, path: str | None) -> ActorSpec:
    command = words_of(words, args)
    if shutil.which(command[0], path=path) is None:
        raise ArgumentError(
            f"actor `{command[0]}` is no program that can be run; give its path, or build it"
        )
    return ActorSpec(os.path.basename(command[0]), command, b"")


def _find(path: str) -> None:
    module, colon, name = path.partition(":")
    if not (colon and name.isidentifier() and all(p.isidentifier() for p in module.split("."))):
        raise ArgumentError(f"actor is {path!r}; give {_WANTED}")
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    except (ImportError, ValueError) as error:
        raise ArgumentError(
            f"actor {path!r}: the module cannot be found ({error}); correct its package"
        ) from error
    if spec is None:
        names = [found.name for found in pkgutil.iter_modules()]
        near = _closest_name(module, names)
        hint = f"did you mean {near!r}?" if near else "install it, or put it on sys.path"
        raise ArgumentError(f"actor {path!r}: there is no module {module!r}; {hint}")


def _check_call(label: str, function: Callable[..., object], args: Sequence[object]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins
        return
    try:
        signature.bind(None, *args)
    except TypeError as error:
        raise ArgumentTypeError(
            f"actor {label}{signature} is called with a context and {len(args)} args ({error}); "
            "change args=, or the function's parameters"
        ) from None


def _main_is_importable() -> bool:
    """Return whether other processes can run the main module: from a file, or by its name."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return True
    # Python calls the file of a program on standard input "<stdin>".
    path = getattr(main, "__file__", None)
    return path is not None and os.path.isfile(path)


def _payload(label: str, target: object, args: Sequence[object]) -> bytes:
    """Pickle what a child needs; function and arguments apart, so that each goes by name if it can.

    Raises
    ------
    ArgumentError
        If something cannot be sent to another process.
    """
    for at, value in enumerate(args):
        try:
            _pickled(value)
        except Exception as error:
            raise ArgumentError(
                f"args[{at}] of actor {label} is {type(value).__name__}, which cannot be sent to "
                f"another process ({error}); give names and numbers, and make it in the "
                f"actor{_or_install()}"
            ) from error
    try:
        preparation = spawn.get_preparation_data(label)
    except RuntimeError as error:
        raise FleetError(
            f"a fleet of {label} is made while a process imports the main module; make it under "
            "`if __name__ == '__main__':`"
        ) from error
    # It is for processes of multiprocessing, and does not pickle.
    preparation.pop("authkey", None)
    if not _main_is_importable():
        # A program on standard input has no such file.
        preparation.pop("init_main_from_path", None)
    try:
        return pickle.dumps((preparation, _pickled(target), _pickled(tuple(args))))
    except Exception as error:
        raise ArgumentError(
            f"actor {label} cannot be sent to another process ({error}); make in it what it uses "
            f"of that kind, or define it with `def` at the top level of a module{_or_install()}"
        ) from error


def _pickled(value: object) -> bytes:
    """Pickle by name, and by value what has no name that other processes can import."""
    written = io.BytesIO()
    try:
        _ByName(written).dump(value)
    except Exception:
        cloudpickle = _cloudpickle()
        if cloudpickle is None:
            raise
        return cloudpickle.dumps(value)  # type: ignore[no-any-return]
    return written.getvalue()


def _cloudpickle() -> Any | None:  # noqa: ANN401 - a module without types
    """Return the library that pickles functions by value, if it is installed."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _or_install() -> str:
    if _cloudpickle() is not None:
        return ""
    return ", or install cloudpickle, which sends it: pip install 'backcast[notebook]'"
