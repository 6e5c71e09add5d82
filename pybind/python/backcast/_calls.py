"""Errors of calls with unexpected arguments, in the words of the native calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from backcast._native import _closest_name
from backcast.errors import ArgumentTypeError

Method = TypeVar("Method", bound=Callable[..., Any])

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def explained(method: Method) -> Method:
    """Refuse unexpected arguments, and suggest the ones that were probably meant.

    A valid call costs one more frame; the arguments are checked only after a ``TypeError``.
    """
    return explained_as()(method)


def explained_as(**elsewhere: str) -> Callable[[Method], Method]:
    """Explain as `explained` does, with names that arguments have in other libraries.

    >>> @explained_as(steps="n")
    ... def run(n): ...
    >>> run(steps=3)
    Traceback (most recent call last):
    backcast.errors.ArgumentTypeError: run() has no argument `steps`; did you mean `n`? It takes (n)
    """
    return lambda method: _explained(method, elsewhere)


def _explained(method: Method, elsewhere: dict[str, str]) -> Method:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            return method(*given, **named)
        except TypeError:
            try:
                signature.bind(*given, **named)
            except TypeError:
                path = method.__qualname__.split(".")
                # An inherited constructor is named after the class that was called.
                made = path[-1] == "__init__" and bool(given)
                name = type(given[0]).__name__ if made else path[-1]
                reason = _misfit(name, signature, len(given), [*named], elsewhere)
            else:
                raise
        raise ArgumentTypeError(reason)

    return cast("Method", call)


def refuse_unknown(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse names that are no arguments, and suggest the ones that were probably meant.

    `owner` is the name of what is called, or an expression for the settings that have the names.
    """
    for name in given:
        if name not in known:
            near = _closest_name(str(name), known)
            call = f"{owner}()" if owner.isidentifier() else owner
            raise ArgumentTypeError(_no_argument(call, name, near, ", ".join(known)))


def called_on_objects(owner: type, name: str, instead: str) -> None:
    """Make a native method explain how to call it when it is called on its class.

    Python refuses such a call before the method is entered, with an error about descriptors.
    """
    native = getattr(owner, name)

    @functools.wraps(native)
    def method(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        if given and isinstance(given[0], owner):
            return native(*given, **named)
        shown = ", ".join([*map(repr, given), *(f"{key}={named[key]!r}" for key in named)])
        raise ArgumentTypeError(
            f"{owner.__name__}.{name}({shown}) is called on the class; write {instead}"
        )

    # The native call reads its signature from here as well.
    method.__text_signature__ = native.__text_signature__  # type: ignore[attr-defined]
    setattr(owner, name, method)


def levels_up() -> int:
    """Return the ``stacklevel`` of the line that called the package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("backcast."):
        level, frame = level + 1, frame.f_back
    # Excludes this function's own frame.
    return level - 1


def _no_argument(call: str, name: str, near: str | None, takes: str) -> str:
    hint = f"did you mean `{near}`? It" if near else "it"
    return f"{call} has no argument `{name}`; {hint} takes {takes}"


def _misfit(
    name: str,
    signature: inspect.Signature,
    given: int,
    named: list[str],
    elsewhere: dict[str, str],
) -> str:
    """Explain why a call does not accept these arguments."""
    known = dict(signature.parameters)
    if known.pop("self", None) or known.pop("cls", None):
        given -= 1
    shown = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in known.values()]
    takes = str(inspect.Signature(shown))
    by_position = [key for key, value in known.items() if value.kind in _BY_POSITION]
    rest = [key for key, value in known.items() if value.kind is inspect.Parameter.VAR_KEYWORD]
    by_name = [key for key in known if key not in [*by_position, *rest]]
    for key in named:
        if key not in known:
            ours = elsewhere.get(key)
            near = ours if ours in known else _closest_name(key, [*by_position, *by_name])
            if rest and not near:
                # A setting, which the call checks itself.
                continue
            return _no_argument(f"{name}()", key, near, takes)
    if given > len(by_position):
        most = {0: "no arguments", 1: "1 argument"}.get(
            len(by_position), f"{len(by_position)} arguments"
        )
        them = "the others" if by_position else "them"
        remedy = f"give {them} by name: {', '.join(by_name)}" if by_name else f"it takes {takes}"
        return f"{name}() takes {most} by position, got {given}; {remedy}"
    for key in by_position[:given]:
        if key in named:
            return f"{name}() got `{key}` by position and by name; keep one of them"
    missing = next(
        key
        for key, value in known.items()
        if value.default is inspect.Parameter.empty
        and key not in [*by_position[:given], *named, *rest]
    )
    return f"{missing} is missing; {name}() takes {takes}"
