"""Columns for Gymnasium spaces. Gymnasium is imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backcast.errors import MissingExtraError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping


def columns(
    observation_space: Any,  # noqa: ANN401
    action_space: Any,  # noqa: ANN401
    reward: Any,  # noqa: ANN401
    extra: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Describe a transition of an environment with these spaces, as ``Schema`` takes it."""
    found = {"obs": _entry("obs", observation_space), "action": _entry("action", action_space)}
    if reward is not None:
        found["reward"] = reward
    for name, column in (extra or {}).items():
        if name in found:
            raise SchemaError(
                f"extra column {name!r} is already there, from the spaces or the reward; call it "
                "something else, or write the whole schema as a dict"
            )
        found[name] = column
    return found


def _entry(path: str, space: Any) -> Any:  # noqa: ANN401
    """Return ``(dtype, shape)``, or a dict of such for a space of several parts."""
    try:
        from gymnasium import spaces
    except ImportError as error:
        raise MissingExtraError(
            "Schema.from_spaces reads Gymnasium's spaces, and Gymnasium is not installed; "
            "run `pip install 'backcast[gymnasium]'`, or write the columns as a dict"
        ) from error
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
        if 0 in (space.shape or ()):
            raise SchemaError(
                f"{path}: {space} holds no number; leave it out of the space with a wrapper "
                "(gymnasium.wrappers.FilterObservation)"
            )
        return space.dtype, space.shape
    if isinstance(space, spaces.Dict):
        return _parts(path, space.spaces)
    if isinstance(space, spaces.Tuple):
        return _parts(path, {str(at): part for at, part in enumerate(space.spaces)})
    if not isinstance(space, spaces.Space):
        raise SchemaError(
            f"{path}: {space!r} is no gymnasium.Space; give the spaces of one environment, "
            "env.observation_space and env.action_space (single_... of a vector environment)"
        )
    if space.is_np_flattenable:
        remedy = (
            "flatten it: gymnasium.wrappers.FlattenObservation, or "
            "gymnasium.spaces.flatten_space for the schema and flatten for what is appended"
        )
    else:
        remedy = "turn it into arrays of one shape with a wrapper, or leave it out"
    raise SchemaError(
        f"{path}: {type(space).__name__} has no array of one shape and dtype, which a column "
        f"needs; {remedy}"
    )


def _parts(path: str, parts: Mapping[Any, Any]) -> dict[str, Any]:
    if not parts:
        raise SchemaError(f"{path}: the space has no parts; leave it out with a wrapper")
    for key in parts:
        if not isinstance(key, str) or not key or "/" in key:
            raise SchemaError(
                f"{path}: key {key!r} cannot be part of a column's name; use a string without "
                "'/', which stands between the levels"
            )
    return {key: _entry(f"{path}/{key}", part) for key, part in parts.items()}
