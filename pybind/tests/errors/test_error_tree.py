"""The exception tree: one root, and for each error the builtin that a Python user expects."""

from __future__ import annotations

import pickle

import backcast as bc
import pytest
from backcast import errors
from refusal import BUILTINS


@pytest.mark.parametrize(("error", "builtin"), BUILTINS.items(), ids=lambda e: e.__name__)
def test_every_error_is_a_backcast_error_and_a_builtin(
    error: type[bc.BackcastError], builtin: type[Exception]
) -> None:
    assert issubclass(error, bc.BackcastError)
    assert issubclass(error, builtin)
    assert error.__module__ == "backcast.errors"
    assert error.__doc__
    again = pickle.loads(pickle.dumps(error("what; remedy")))
    assert (type(again), str(again)) == (error, "what; remedy")


WARNINGS: list[type[Warning]] = [
    errors.FleetWarning,
    errors.LappedWarning,
    errors.LeaseWarning,
    errors.ShardWarning,
    errors.UnlinkedWarning,
    errors.WaitWarning,
    errors.WriterWarning,
]


@pytest.mark.parametrize("warning", WARNINGS, ids=lambda w: w.__name__)
def test_every_warning_is_documented_and_filtered_by_its_module(warning: type[Warning]) -> None:
    assert issubclass(warning, RuntimeWarning)
    assert warning.__module__ == "backcast.errors"
    assert warning.__doc__


def test_the_module_has_every_error_and_warning() -> None:
    defined = {thing for thing in vars(errors).values() if isinstance(thing, type)}
    assert defined == {bc.BackcastError, *BUILTINS, *WARNINGS}
    assert {getattr(errors, name) for name in errors.__all__} == defined


def test_errors_that_programs_catch_by_name_are_at_the_top_too() -> None:
    public = {name: getattr(bc, name) for name in bc.__all__}
    found = {
        name
        for name, thing in public.items()
        if isinstance(thing, type) and issubclass(thing, BaseException)
    }
    assert found == {
        "BackcastError",
        "ClosedError",
        "ExistsError",
        "LappedError",
        "NotFoundError",
        "RateLimitTimeoutError",
        "WaitTimeoutError",
    }
    assert all(public[name] is getattr(errors, name) for name in found)
