"""Public docstrings exist, follow numpydoc, match the signatures, and have examples that run."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, is_typeddict

import backcast as bc
import griffe
import pytest
from backcast import envs, errors, finrl, fleet, sim, types

STUB = Path(bc.__file__).with_name("_native.pyi")
SECTIONS = {"Parameters", "Returns", "Yields", "Raises", "Warns", "Notes", "Examples", "Attributes"}
CANNOT_FAIL = {
    "close": "closing is always possible, also twice",
    "close_extras": "part of closing",
    "copy": "of a dict",
    "keys": "names, also of what is closed",
    "cli.main": "gives exit statuses",
    "freeze": "sets a switch",
    "unfreeze": "sets a switch",
    "sample_actions": "draws numbers",
    "to_dict": "copies settings",
    "uniform": "draws a number",
    "sim.History.messages": "copies what is in memory",
    "sim.Replay.account": "reads the state",
    "sim.Replay.fills": "reads the state",
    "sim.Replay.orders": "reads the state",
    "sim.Replay.refused": "reads the state",
    **dict.fromkeys(
        [
            *["auto_reset", "num_envs", "n_tickers", "n_indicators", "n_macro", "get_tickers"],
            *["get_all_tickers", "get_macro_tickers", "get_indicator_names", "get_max_day"],
            "get_return_format",
        ],
        "says what is known",
    ),
}


def public() -> Iterator[tuple[str, Any]]:
    """Yield public functions and classes, and the members of these classes, by name."""
    parts = [(name, getattr(bc, name)) for name in bc.__all__ if name != "__version__"]
    parts += [(name, getattr(types, name)) for name in types.__all__]
    parts += [(f"errors.{name}", getattr(errors, name)) for name in errors.__all__]
    parts += [(f"envs.{name}", getattr(envs, name)) for name in envs.__all__]
    parts += [(f"sim.{name}", getattr(sim, name)) for name in sim.__all__]
    parts += [(f"fleet.{name}", getattr(fleet, name)) for name in ("Context", "context", "report")]
    parts += [(f"finrl.{made.__name__}", made) for made in (finrl.FastFinRL, finrl.VecFastFinRL)]
    shared = vars(finrl.FastFinRL.__base__)
    parts += [(f"finrl.{name}", shared[name]) for name in shared if not name.startswith("_")]
    buffers = (finrl.VecReplayBuffer, finrl.ReplayBuffer)
    stored = (finrl.VecStoredTransition, finrl.StoredTransition)
    wrapper = finrl.VecFinRLWrapper.__mro__[:2]
    parts += [(f"finrl.{made.__name__}", made) for made in (*buffers, *stored, *wrapper)]
    parts += [("TickerTokenizer", finrl.TickerTokenizer)]
    for name, thing in parts:
        yield name, thing
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            ours = [base for base in thing.__mro__ if base.__module__.startswith("backcast")]
            for member in dict.fromkeys(itertools.chain.from_iterable(map(vars, ours))):
                # Fields of settings are documented as parameters; `metadata` is Gymnasium's.
                found = inspect.getattr_static(thing, member)
                field = inspect.ismemberdescriptor(found)
                field |= member in getattr(thing, "__dataclass_fields__", {})
                if not (member.startswith("_") or member == "metadata" or field):
                    yield f"{name}.{member}", getattr(thing, member)


THINGS = dict(public())
CALLABLES = {
    name: thing
    for name, thing in THINGS.items()
    if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, Exception))
}


def sections(thing: object) -> dict[str, list[Any]]:
    """Return the sections of a docstring by kind."""
    parsed = griffe.Docstring(inspect.getdoc(thing) or "", lineno=1).parse("numpy")
    found: dict[str, list[Any]] = {}
    for section in parsed:
        found.setdefault(section.kind.value, []).append(section.value)
    return found


def returned() -> dict[str, str]:
    """Return the return annotation of every native callable, read from the stub."""
    found = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.returns:
            found[node.name] = ast.unparse(node.returns)
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.returns:
                    found[f"{node.name}.{item.name}"] = ast.unparse(item.returns)
    return found


@pytest.mark.parametrize("name", sorted(THINGS))
def test_everything_public_has_a_summary_and_known_sections(name: str) -> None:
    doc = inspect.getdoc(THINGS[name])
    assert doc
    summary, *more = doc.splitlines()
    assert summary.endswith((".", ":")), summary
    assert len(summary) <= 100
    assert not more or not more[0], "a blank line after the summary"
    headings = [above for above, line in itertools.pairwise(more) if line and set(line) == {"-"}]
    assert set(headings) <= SECTIONS
    assert len(set(headings)) == len(headings)
    order = ["Parameters", "Returns", "Yields", "Raises", "Warns", "Notes", "Examples"]
    known = [heading for heading in headings if heading in order]
    assert known == sorted(known, key=order.index), "numpydoc's order"


SETTINGS = [name for name, thing in CALLABLES.items() if is_typeddict(thing)]
# `Batch` and the typed dicts are constructed like `dict`, and enums are not constructed: they have
# no parameters to document.
WITH_SIGNATURE = sorted(CALLABLES.keys() - {"Batch", "envs.OrderLimit", *SETTINGS})


@pytest.mark.parametrize("name", WITH_SIGNATURE)
def test_parameters_are_those_of_the_signature_in_its_order(name: str) -> None:
    signature = inspect.signature(CALLABLES[name])
    asked = [
        {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "") + parameter.name
        for parameter in signature.parameters.values()
        if parameter.name not in {"self", "cls"} and not parameter.name.startswith("_")
    ]
    [documented] = sections(CALLABLES[name]).get("parameters", [[]])
    assert [parameter.name for parameter in documented] == asked
    for parameter in documented:
        assert parameter.annotation, f"{parameter.name} has no type"
        assert parameter.description, f"{parameter.name} has no description"


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_by_name_are_documented_as_attributes(name: str) -> None:
    [documented] = sections(CALLABLES[name])["attributes"]
    found = [one for attribute in documented for one in attribute.name.split(", ")]
    assert sorted(found) == sorted(CALLABLES[name].__annotations__)
    for attribute in documented:
        assert attribute.annotation, f"{attribute.name} has no type"
        assert attribute.description, f"{attribute.name} has no description"


def defaults(name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parameters with a documented default: name, documented default, real default.

    The first of several choices is the documented default. A real default of None stands for a
    rule, and is left out.
    """
    signature = inspect.signature(CALLABLES[name])
    [documented] = sections(CALLABLES[name]).get("parameters", [[]])
    # An entry of two parameters documents two defaults: `alpha, eps : float, default 1 and 2`.
    for default, entry in itertools.groupby(documented, lambda parameter: parameter.default):
        for parameter, value in zip(entry, itertools.cycle((default or "").split(" and "))):
            real = getattr(signature.parameters.get(parameter.name), "default", None)
            if default is not None and isinstance(real, bool | int | float | str):
                yield parameter.name, value, real


@pytest.mark.parametrize("name", WITH_SIGNATURE)
def test_documented_defaults_are_those_of_the_signature(name: str) -> None:
    for parameter, documented, real in defaults(name):
        value = ast.literal_eval(documented)
        assert real == value, f"{parameter} is {real!r}, and {documented} in the docs"


def test_many_defaults_are_documented() -> None:
    assert sum(len([*defaults(name)]) for name in WITH_SIGNATURE) > 200


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_callables_say_what_they_return(name: str) -> None:
    thing = CALLABLES[name]
    if inspect.isclass(thing):
        return
    annotation = returned().get(name.removeprefix("sim.")) or str(
        inspect.signature(thing).return_annotation
    )
    [documented] = sections(thing).get("returns", [[]])
    assert bool(documented) == (annotation != "None"), annotation


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_callables_say_what_they_raise(name: str) -> None:
    thing = CALLABLES[name]
    [documented] = sections(thing).get("raises", [[]])
    last = name.split(".")[-1]
    # Closing a writer stores the last observation, for which there may be no room.
    cannot_fail = {last, name} & CANNOT_FAIL.keys() and name != "Writer.close"
    if inspect.isclass(thing) or cannot_fail:
        assert not (documented and cannot_fail)
    else:
        assert documented
    for item in documented:
        for error in str(item.annotation).split(","):
            known = getattr(errors, error.strip(), None) or getattr(builtins, error.strip(), None)
            assert isinstance(known, type), error
            assert issubclass(known, Exception)


@pytest.mark.parametrize(
    "name", [name for name in sorted(THINGS) if ">>>" in (THINGS[name].__doc__ or "")]
)
def test_examples_run(name: str) -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    text = inspect.getdoc(THINGS[name]) or ""
    runner.run(parser.get_doctest(text, {"bc": bc}, name, None, None))
    assert runner.summarize().failed == 0


@pytest.mark.parametrize("module", [bc, types], ids=lambda module: module.__name__)
def test_the_package_shows_a_first_example_that_runs(module: ModuleType) -> None:
    runner, name = doctest.DocTestRunner(), module.__name__
    runner.run(doctest.DocTestParser().get_doctest(module.__doc__ or "", {}, name, None, None))
    assert runner.summarize().failed == 0
    examples = [name for name, thing in THINGS.items() if ">>>" in (thing.__doc__ or "")]
    assert len(examples) >= 10, examples
