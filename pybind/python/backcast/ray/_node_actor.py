"""Actor of a fleet over several machines: checked by the learner, sent, made again on a node."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass

from backcast.errors import ArgumentError
from backcast.fleet import _actor
from backcast.fleet._actor import ActorSpec


@dataclass(frozen=True)
class SentActor:
    """A function and its arguments as bytes, which only an actor's process unpickles."""

    label: str
    target: bytes
    args: bytes
    folders: tuple[str, ...]
    """Where the learner finds modules; those that a node has too are looked into there."""


@dataclass(frozen=True)
class SentCommand:
    """A command, which each node looks for itself."""

    words: tuple[str, ...]


def sent_actor(actor: object, args: object) -> SentActor | SentCommand:
    """Check an actor and its arguments, and pickle them for other machines.

    Objects of the main module go by value, since no other machine has to have its file.
    Everything else goes by its name.

    Raises
    ------
    ArgumentError
        If the actor or an argument is invalid, or cannot be sent.
    """
    if isinstance(actor, tuple | list):
        return SentCommand(_actor.words_of(actor, args))
    label = _actor.label_of(actor, args)
    by_value = _by_value()
    listed: tuple[object, ...] = tuple(args)  # type: ignore[arg-type]
    for at, value in enumerate(listed):
        try:
            by_value(value)
        except Exception as error:
            raise ArgumentError(
                f"args[{at}] of actor {label} is {type(value).__name__}, which cannot be sent to "
                f"another machine ({error}); give names and numbers, and make it in the actor"
            ) from error
    try:
        return SentActor(label, by_value(actor), by_value(listed), tuple(sys.path))
    except Exception as error:
        raise ArgumentError(
            f"actor {label} cannot be sent to another machine ({error}); make in it what it uses "
            "of that kind"
        ) from error


def spec_on_node(sent: SentActor | SentCommand, path: str | None) -> ActorSpec:
    """Make the actor that the processes of this node run; `path` is the ``PATH`` of a command."""
    if isinstance(sent, SentCommand):
        return _actor.spec_of(list(sent.words), (), path)
    known = dict.fromkeys(sys.path)
    known.update(dict.fromkeys(folder for folder in sent.folders if os.path.isdir(folder)))
    preparation = {"name": sent.label, "sys_path": list(known)}
    payload = pickle.dumps((preparation, sent.target, sent.args))
    return ActorSpec(sent.label, None, payload)


def _by_value() -> Callable[[object], bytes]:
    """Return what pickles functions of the main module by value."""
    for name in ("cloudpickle", "ray.cloudpickle"):
        try:
            dumps: Callable[[object], bytes] = importlib.import_module(name).dumps
        except ImportError:
            continue
        return dumps
    raise ArgumentError(
        "functions are sent to other machines with cloudpickle, which is not installed; "
        "pip install 'backcast[ray]'"
    )
