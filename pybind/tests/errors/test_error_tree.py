"""The exception tree: one root, and beside it the builtin that a Python user expects."""

from __future__ import annotations

import pickle

import backcast as bc
import pytest
from refusal import BUILTINS


@pytest.mark.parametrize(("error", "builtin"), BUILTINS.items(), ids=lambda e: e.__name__)
def test_every_error_is_a_backcast_error_and_a_builtin(
    error: type[bc.BackcastError], builtin: type[Exception]
) -> None:
    assert issubclass(error, bc.BackcastError)
    assert issubclass(error, builtin)
    assert error.__module__ == "backcast"
    assert error.__doc__
    again = pickle.loads(pickle.dumps(error("what; remedy")))
    assert (type(again), str(again)) == (error, "what; remedy")


def test_the_tree_is_complete() -> None:
    public = {getattr(bc, name) for name in bc.__all__}
    errors = {thing for thing in public if isinstance(thing, type) and issubclass(thing, Exception)}
    assert errors == {
        bc.BackcastError,
        bc.LappedWarning,
        bc.LeaseWarning,
        bc.WaitWarning,
        bc.UnlinkedWarning,
        bc.WriterWarning,
        *BUILTINS,
    }
