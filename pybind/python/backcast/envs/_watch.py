"""Detection of resets by other code than the collector that steps an environment."""

from __future__ import annotations

import inspect
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backcast.envs._fitting import AnyEnv


class Watch:
    """Recorder of resets of an environment, or of one inside it, except within ``with watch:``.

    Attributes
    ----------
    begun : tuple or None
        Observation that the last foreign reset of the environment returned, and the reset's
        options.
    unseen : bool
        Whether an environment inside it was reset, whose observation is not the outer one's.
    """

    def __init__(self, env: AnyEnv) -> None:
        self.begun: tuple[Any, dict[str, Any]] | None = None
        self.unseen = False
        self._own = 0
        for layer in _layers(env):
            _Reset.on(layer).watchers[self] = layer is env

    def __enter__(self) -> bool:
        """Suspend recording. Returns whether resets were recorded until now."""
        self._own += 1
        return self._own == 1

    def __exit__(self, *_error: object) -> None:
        self._own -= 1

    def forget(self) -> None:
        """Clear the record."""
        self.begun = None
        self.unseen = False


class _Reset:
    """Replacement of an environment's ``reset`` that notifies the watches."""

    def __init__(self, env: Any, reset: Callable[..., Any]) -> None:  # noqa: ANN401
        self.env = env
        self.reset = reset
        # Gymnasium's checker reads from the signature whether `reset` takes a seed.
        self.__signature__ = inspect.signature(reset)
        # Maps each watch to whether `env` is its outermost environment.
        self.watchers: weakref.WeakKeyDictionary[Watch, bool] = weakref.WeakKeyDictionary()

    @classmethod
    def on(cls, env: Any) -> _Reset:  # noqa: ANN401
        there = vars(env).get("reset")
        if isinstance(there, cls):
            return there
        made = cls(env, env.reset)
        with suppress(AttributeError):
            env.reset = made
        return made

    def __call__(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        watchers = dict(self.watchers)
        return self._call(list(watchers.items()), given, named)

    def _call(
        self, watchers: list[tuple[Watch, bool]], given: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:  # noqa: ANN401
        if not watchers:
            return self.reset(*given, **named)
        (watch, outer), *others = watchers
        # Environments remove the keys that they use.
        options = named.get("options")
        options = dict(options) if isinstance(options, dict) else {}
        with watch as news:
            if news and not outer:
                watch.unseen = True
            returned = self._call(others, given, named)
            if news and outer:
                watch.begun = (returned[0], options)
                watch.unseen = False
            return returned

    def __reduce__(self) -> Any:  # noqa: ANN401
        # Copies and pickles of an environment are not watched.
        return (getattr, (self.env, "reset"))


def _layers(env: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the environment and those inside it that can be watched."""
    seen: set[int] = set()
    left = [env]
    while left:
        layer = left.pop()
        if id(layer) in seen or not hasattr(layer, "__dict__"):
            continue
        seen.add(id(layer))
        yield layer
        # Wrappers have one environment inside, synchronous vector environments several.
        for inside in (vars(layer).get("env"), vars(layer).get("envs")):
            left.extend(inside if isinstance(inside, list | tuple) else [inside])
        left = [inside for inside in left if hasattr(inside, "reset")]
