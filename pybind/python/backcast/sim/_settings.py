"""Settings as typed objects that turn into nested dicts, as the native calls take them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Self, get_args, get_type_hints

from backcast._calls import explained
from backcast._native import market_preset
from backcast.errors import ArgumentTypeError, SimError


@functools.cache
def _normal() -> dict[str, Any]:
    return market_preset("normal")


def normal(path: str) -> Any:  # noqa: ANN401
    """Return a setting of the preset ``normal`` by its dotted path, such as ``fees.maker_ppm``."""
    found: Any = _normal()
    for name in path.split("."):
        found = found[int(name) if name.isdecimal() else name]
    return found


def default(path: str) -> Any:  # noqa: ANN401
    """Return a dataclass field whose default is the setting of ``normal`` at this path."""
    return dataclasses.field(default_factory=functools.partial(normal, path))


class Settings:
    """Settings that turn into nested dicts and back."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name, as a nested dict of values that JSON can hold.

        Returns
        -------
        dict
        """
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    @explained
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Make settings from a nested dict, such as :meth:`to_dict` returns.

        Parameters
        ----------
        settings : mapping
            Settings by name. Missing ones have their defaults.

        Returns
        -------
        Settings
            An object of the class.

        Raises
        ------
        SimError
            If a name is unknown.
        ArgumentTypeError
            If ``settings`` is no mapping.
        """
        if not isinstance(settings, Mapping):
            raise ArgumentTypeError(f"settings is {settings!r}; give a dict of settings by name")
        made: Any = cls
        known = _types(made)
        for name in settings:
            if name not in known:
                raise SimError(f"{cls.__name__} has no setting {name!r}; it has {', '.join(known)}")
        return cls(**{name: _made(known[name], value) for name, value in settings.items()})


@functools.cache
def _types(made: Any) -> dict[str, Any]:  # noqa: ANN401
    hints = get_type_hints(made)
    return {field.name: hints[field.name] for field in dataclasses.fields(made)}


def _made(wanted: Any, value: Any) -> Any:  # noqa: ANN401
    """Convert a dict, or each dict of a list, to the settings class of the annotation `wanted`."""
    if isinstance(wanted, type) and issubclass(wanted, Settings) and isinstance(value, Mapping):
        return wanted.of(value)
    if isinstance(value, list) and get_args(wanted):
        return [_made(get_args(wanted)[0], part) for part in value]
    return value
